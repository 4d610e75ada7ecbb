//! One call of a module: the request as it sees it, and the answer as it writes it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_http::{Request, secured};
use flyball_module::{Exchange, Refused};
use flyball_sys::{error_log, process};

use super::draft::Draft;

/// Longest text of a line of the log, in bytes.
const LOGGED_MAX: usize = 1024;

/// Names that requests of this process were given.
static NAMES: AtomicU64 = AtomicU64::new(0);

/// The bytes of a request body that a module has not taken.
#[derive(Debug, Default)]
pub(crate) struct BodyQueue {
    pub(crate) bytes: Vec<u8>,
    /// How many of them it has taken.
    pub(crate) at: usize,
    /// Whether they are the last.
    pub(crate) ended: bool,
}

impl BodyQueue {
    /// Of a request without a body.
    pub(crate) const NONE: BodyQueue = BodyQueue { bytes: Vec::new(), at: 0, ended: true };

    pub(crate) fn queued(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Appends bytes, in the room of those that were taken.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }
}

/// What does not change from call to call.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) request: Request<'a>,
    /// The path in its canonical form.
    pub(crate) path: &'a [u8],
    /// How much of it is that of the module.
    pub(crate) at: usize,
    /// The module, for the log.
    pub(crate) name: &'a str,
}

/// An exchange during one call.
#[derive(Debug)]
pub(crate) struct Called<'a> {
    pub(crate) caller: Caller<'a>,
    pub(crate) body: &'a mut BodyQueue,
    pub(crate) draft: &'a mut Draft,
    /// The name of the request, once it was asked for.
    pub(crate) id: &'a mut String,
}

impl Exchange for Called<'_> {
    fn method(&self) -> &[u8] {
        self.caller.request.method_token()
    }

    fn target(&self) -> &[u8] {
        self.caller.request.target()
    }

    fn path(&self) -> &[u8] {
        self.caller.path
    }

    fn below(&self) -> &[u8] {
        &self.caller.path[self.caller.at..]
    }

    fn query(&self) -> &[u8] {
        self.caller.request.query()
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.caller.request.field(name).filter(|_| !secured::is_claim(name))
    }

    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let fields = self.caller.request.fields();
        fields.filter(|(name, _)| !secured::is_claim(name)).nth(index)
    }

    fn peer(&self) -> Option<IpAddr> {
        self.caller.request.client().ip()
    }

    fn id(&mut self) -> &str {
        if self.id.is_empty() {
            *self.id = format!("{:x}-m{:x}", process::own_id(), NAMES.fetch_add(1, Relaxed));
        }
        self.id
    }

    fn body(&self) -> &[u8] {
        &self.body.bytes[self.body.at..]
    }

    fn take(&mut self, n: usize) {
        self.body.at += n.min(self.body.queued());
    }

    fn body_ended(&self) -> bool {
        self.body.ended
    }

    fn set_status(&mut self, code: u16) -> Result<(), Refused> {
        self.draft.set_status(code)
    }

    fn add_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.draft.add_field(name, value)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.draft.write(bytes)
    }

    fn send_file(&mut self, path: &[u8], offset: u64, len: Option<u64>) -> Result<(), Refused> {
        self.draft.send_file(path, offset, len)
    }

    fn serve(&mut self, path: &[u8]) -> Result<(), Refused> {
        self.draft.serve(path)
    }

    fn log(&mut self, text: &str) {
        let end = text.floor_char_boundary(LOGGED_MAX);
        let line = &text[..end];
        let method = String::from_utf8_lossy(self.method()).into_owned();
        let path = String::from_utf8_lossy(self.caller.request.path()).into_owned();
        let name = self.caller.name;
        error_log::write(format_args!("module {name}: {method} {path} [{}]: {line}", self.id()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::scan::parse_head;
    use flyball_http::{Head, Limits};

    #[test]
    fn a_module_sees_no_field_that_says_what_the_server_alone_knows() {
        const TEXT: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nHTTPS: on\r\nX-One: 1\r\n\
                              SSL-Client-Verify: SUCCESS\r\nSSL_CLIENT_S_DN: CN=a\r\n\
                              Client-Cert: :MA==:\r\nClient-Cert-Chain: :MA==:\r\n\
                              X-Two: 2\r\n\r\n";
        let mut head = Head::default();
        parse_head(TEXT, &Limits::default(), &mut head).unwrap();
        let (mut body, mut draft, mut id) = (BodyQueue::NONE, Draft::default(), String::new());
        let request = head.request(TEXT);
        let caller = Caller { request, path: b"/", at: 1, name: "a" };
        let called = Called { caller, body: &mut body, draft: &mut draft, id: &mut id };
        for name in ["HTTPS", "ssl-client-verify", "SSL_CLIENT_S_DN", "client-cert"] {
            assert_eq!(called.field(name.as_bytes()), None, "{name}");
        }
        let all: Vec<_> = (0..).map_while(|at| called.field_at(at)).collect();
        let seen: [(&[u8], &[u8]); 3] = [(b"Host", b"a"), (b"X-One", b"1"), (b"X-Two", b"2")];
        assert_eq!(all, seen);
    }
}
