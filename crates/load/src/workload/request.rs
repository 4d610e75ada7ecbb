//! Requests whose bytes are made once, and what their replies must be.

use std::fmt::Write as _;
use std::sync::Arc;

use super::{Page, RequestId};
use crate::content::Content;

/// What a reply must be; what is `None` may be anything.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Its status.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub length: Option<u64>,
    /// Its body.
    pub content: Option<Arc<dyn Content>>,
    /// The page that it is, of a dynamic request of SPECweb99.
    pub page: Option<Arc<Page>>,
    /// Whether it may be 304 (Not Modified) in the place of all that.
    pub or_not_modified: bool,
}

impl Expected {
    /// Whether anything would be wrong.
    fn is_something(&self) -> bool {
        self.status.is_some()
            || self.length.is_some()
            || self.content.is_some()
            || self.page.is_some()
    }

    /// Whether a reply of this status needs no body: the client has it.
    pub(crate) fn is_not_modified(&self, status: u16) -> bool {
        self.or_not_modified && status == 304
    }
}

/// A request as it is written down.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The method; empty is GET.
    pub method: String,
    /// The target, such as `/a?b`.
    pub target: String,
    /// Field lines without their line ends; `Host` is added when it is missing.
    pub fields: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether it is of HTTP/1.0.
    pub http10: bool,
    /// The class that its reply is counted in, such as that of its size; see [`Catalog::classes`].
    pub class: u16,
    /// What its reply must be.
    pub expected: Expected,
}

/// A request whose bytes are ready.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Head and body.
    pub bytes: Box<[u8]>,
    /// Whether its method is HEAD, so that its reply has no body.
    pub is_head: bool,
    /// The class that its reply is counted in.
    pub class: u16,
    /// What its reply must be.
    pub expected: Expected,
}

/// Every request that a workload can ask for. It is made before the run and shared by the threads.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    requests: Vec<Prepared>,
    /// Names of the classes of replies; a workload that has none leaves it empty.
    pub classes: Vec<String>,
    /// Field lines that every request gets, such as `Accept-Encoding: gzip`.
    pub common: Vec<String>,
    authority: String,
}

impl Catalog {
    /// An empty one for requests to `authority`, which each get the field lines `common`.
    pub fn new(authority: &str, common: Vec<String>) -> Catalog {
        Catalog { authority: authority.into(), common, ..Catalog::default() }
    }

    /// Prepares a request; the number by which [`Step`](super::Step)s name it.
    pub fn add(&mut self, message: &Message) -> RequestId {
        self.requests.push(Prepared {
            bytes: self.bytes_of(message),
            is_head: message.method == "HEAD",
            class: message.class,
            expected: message.expected.clone(),
        });
        (self.requests.len() - 1) as RequestId
    }

    /// Adds a conditional variant of every request so far, with the field line
    /// `If-Modified-Since: DATE`; how much further on each of them is.
    pub fn add_conditional(&mut self, date: &str) -> RequestId {
        let offset = self.requests.len();
        for at in 0..offset {
            let mut request = self.requests[at].clone();
            let field = format!("If-Modified-Since: {date}\r\n");
            let end = head_end(&request.bytes);
            let mut bytes = request.bytes.to_vec();
            bytes.splice(end..end, field.bytes());
            request.bytes = bytes.into();
            request.expected.or_not_modified = true;
            self.requests.push(request);
        }
        offset as RequestId
    }

    /// Adds a variant by HTTP/1.0 of every request so far, which ends its connection; how much
    /// further on each of them is.
    pub fn add_http10(&mut self) -> RequestId {
        const VERSION: &[u8] = b"HTTP/1.1\r\n";
        let offset = self.requests.len();
        for at in 0..offset {
            let mut request = self.requests[at].clone();
            let end = request.bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if request.bytes[..end].ends_with(VERSION) {
                request.bytes[end - 3] = b'0';
            }
            let page = request.expected.page.as_deref();
            request.expected.page = page.map(|page| Arc::new(page.of_http10()));
            self.requests.push(request);
        }
        offset as RequestId
    }

    /// The request of this number.
    ///
    /// # Panics
    /// When there is none: a workload names what it has added.
    pub fn request(&self, id: RequestId) -> &Prepared {
        &self.requests[id as usize]
    }

    /// Whether anything is expected of any reply, so that one can be wrong.
    pub(crate) fn expects_something(&self) -> bool {
        self.requests().any(|request| request.expected.is_something())
    }

    /// Every request.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Prepared> {
        self.requests.iter()
    }

    /// Every request, to say what is expected of it.
    pub(crate) fn requests_mut(&mut self) -> impl Iterator<Item = &mut Prepared> {
        self.requests.iter_mut()
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The bytes of a request, which is not added.
    pub fn bytes_of(&self, message: &Message) -> Box<[u8]> {
        let method = if message.method.is_empty() { "GET" } else { &message.method };
        let version = if message.http10 { "1.0" } else { "1.1" };
        let mut head = format!("{method} {} HTTP/{version}\r\n", message.target);
        let fields = || message.fields.iter().chain(&self.common);
        let has = |name: &str| fields().any(|field| is_named(field, name));
        if !has("host") {
            let _ = write!(head, "Host: {}\r\n", self.authority);
        }
        for field in fields() {
            let _ = write!(head, "{field}\r\n");
        }
        let carries = !message.body.is_empty() || matches!(method, "POST" | "PUT");
        if carries && !has("content-length") && !has("transfer-encoding") {
            let _ = write!(head, "Content-Length: {}\r\n", message.body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&message.body);
        bytes.into()
    }
}

/// Where the blank line of a head begins.
fn head_end(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(bytes.len(), |at| at + 2)
}

fn is_named(field: &str, name: &str) -> bool {
    field.split_once(':').is_some_and(|(found, _)| found.trim().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(catalog: &Catalog, id: RequestId) -> String {
        String::from_utf8(catalog.request(id).bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_request_has_what_it_needs_and_nothing_twice() {
        let mut catalog = Catalog::new("h:8080", vec!["Accept-Encoding: gzip".into()]);
        let id = catalog.add(&Message { target: "/a".into(), ..Message::default() });
        assert_eq!(
            text(&catalog, id),
            "GET /a HTTP/1.1\r\nHost: h:8080\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        let post = Message {
            method: "POST".into(),
            target: "/b".into(),
            fields: vec!["host: other".into()],
            body: b"xyz".to_vec(),
            http10: true,
            ..Message::default()
        };
        let id = catalog.add(&post);
        assert_eq!(
            text(&catalog, id),
            "POST /b HTTP/1.0\r\nhost: other\r\nAccept-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\
             xyz"
        );
    }

    #[test]
    fn the_conditional_variant_of_a_request_is_the_same_with_a_condition() {
        let mut catalog = Catalog::new("h", Vec::new());
        let expected = Expected { status: Some(200), ..Expected::default() };
        let message = Message { target: "/a".into(), expected, ..Message::default() };
        let id = catalog.add(&message);
        let offset = catalog.add_conditional("Thu, 01 Jan 2026 00:00:00 GMT");
        assert_eq!(
            text(&catalog, id + offset),
            "GET /a HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n"
        );
        let conditional = &catalog.request(id + offset).expected;
        assert_eq!((conditional.status, conditional.is_not_modified(304)), (Some(200), true));
        assert!(!conditional.is_not_modified(200));
        assert!(!catalog.request(id).expected.is_not_modified(304), "nobody asked for that");
    }

    #[test]
    fn the_variant_of_a_request_by_http10_differs_in_its_version_alone() {
        let mut catalog = Catalog::new("h", Vec::new());
        let message = Message { target: "/HTTP/1.1".into(), ..Message::default() };
        let expected = Expected { length: Some(5), ..Expected::default() };
        let first = catalog.add(&Message { expected, class: 2, ..message.clone() });
        let old = catalog.add(&Message { http10: true, body: b"HTTP/1.1\r\n".to_vec(), ..message });
        let offset = catalog.add_http10();
        let (lines, body) = ("GET /HTTP/1.1 HTTP/1.0\r\nHost: h\r\n", "HTTP/1.1\r\n");
        assert_eq!(text(&catalog, first + offset), format!("{lines}\r\n"));
        let one = catalog.request(first + offset);
        assert_eq!((one.class, one.expected.length), (2, Some(5)));
        let twelve = format!("{lines}Content-Length: 10\r\n\r\n{body}");
        assert_eq!((text(&catalog, old), text(&catalog, old + offset)), (twelve.clone(), twelve));
    }
}
