//! A request: a head and the text that it points into.

use crate::field::{Line, Name, Span, is_name, is_value, trim};
use crate::head::{Content, Head, Method, Scheme, Version};
use crate::limits::TARGET_BYTES_MAX;
use crate::remote::Remote;
use crate::secured::Secured;
use crate::target::{read_host, split_target};

/// The name of a line that no client has sent.
const HOST: &[u8] = Name::Host.as_str().as_bytes();

/// A request.
///
/// `Host` is what the server has decided: where the target is absolute, its authority takes the
/// place of the field that was sent (RFC 9112, section 3.2.2), for whichever of these methods asks.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The offsets and flags.
    pub head: &'a Head,
    text: &'a [u8],
}

impl Head {
    /// The head as a request over the text that it points into.
    pub fn request<'a>(&'a self, text: &'a [u8]) -> Request<'a> {
        Request { head: self, text }
    }
}

impl<'a> Request<'a> {
    /// The method.
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as sent.
    pub fn method_token(&self) -> &'a [u8] {
        self.head.method_token.of(self.text)
    }

    /// The target as sent.
    pub fn target(&self) -> &'a [u8] {
        self.head.target.of(self.text)
    }

    /// The path, still percent-encoded, without the query.
    pub fn path(&self) -> &'a [u8] {
        self.head.path.of(self.text)
    }

    /// The query without its `?`: what was sent, unless a rule has put another in its place.
    pub fn query(&self) -> &'a [u8] {
        self.head.query.of(self.text)
    }

    /// The query that was sent.
    pub fn sent_query(&self) -> &'a [u8] {
        let target = self.path_and_query();
        memchr::memchr(b'?', target).map_or(b"", |at| &target[at + 1..])
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.head.scheme
    }

    /// What was agreed on for the connection; `None` in the clear.
    pub fn secured(&self) -> Option<&'a Secured> {
        self.head.secured.as_deref()
    }

    /// Whether a trusted proxy says that its client came by `https`.
    pub fn came_by_https(&self) -> bool {
        self.head.came_by_https
    }

    /// The number of the hosts that are served where it came in; 0 is all.
    pub fn listener(&self) -> u16 {
        self.head.listener
    }

    /// Whether its client came by `https`, to this server or to a proxy that is trusted.
    pub fn is_secure(&self) -> bool {
        self.scheme() == Scheme::Https || self.came_by_https()
    }

    /// The host without its port; empty when the request names none.
    pub fn host(&self) -> &'a [u8] {
        self.head.host.of(self.text)
    }

    /// The host with its port, if it was given; empty when the request names none.
    pub fn authority(&self) -> &'a [u8] {
        self.head.authority.of(self.text)
    }

    /// Path and query as sent: the target in origin-form. Empty, or without its first slash, where
    /// an absolute target has no path.
    pub fn path_and_query(&self) -> &'a [u8] {
        Span { start: self.head.path.start, end: self.head.target.end }.of(self.text)
    }

    /// What follows the head.
    pub fn content(&self) -> Content {
        self.head.content
    }

    /// The client: the peer, or whom a trusted proxy names.
    pub fn client(&self) -> Remote {
        self.head.client
    }

    /// True when any of the names in this set of bits occurs.
    pub fn has_any(&self, bits: u64) -> bool {
        self.head.fields.has_any(bits)
    }

    /// The values of every field line with this name, in order.
    pub fn values(&self, name: Name) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
        let text = self.text;
        self.head.fields.of(name).map(move |span| span.of(text))
    }

    /// The value of the first field line with this name.
    pub fn value(&self, name: Name) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The value of the first field line with this name, known or not; names are compared without
    /// regard to case.
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.head.fields.find(name, self.text).map(|span| span.of(self.text))
    }

    /// Every field line, in order: its name as sent, and its value. The `Host` that an absolute
    /// target makes is the first.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (text, lines) = (self.text, self.head.fields.all());
        lines.iter().map(move |line| {
            let name = if line.name.is_empty() { HOST } else { line.name.of(text) };
            (name, line.value.of(text))
        })
    }

    /// The same request for another target, without a body: what a client would have sent that
    /// asked for it at once. `None` when the target is none.
    pub fn redirected(&self, target: &[u8]) -> Option<OwnedRequest> {
        const OF_THE_BODY: u64 = Name::set(&[
            Name::ContentLength,
            Name::TransferEncoding,
            Name::ContentType,
            Name::Expect,
        ]);
        let method: &[u8] = if self.method() == Method::Head { b"HEAD" } else { b"GET" };
        let mut draft = Draft::new(method, target);
        for (name, value) in self.fields() {
            if !Name::is_any(name, OF_THE_BODY) {
                draft = draft.field(name, value);
            }
        }
        if self.value(Name::Host).is_none() {
            draft = draft.field(HOST, self.host());
        }
        let mut owned = draft.done()?;
        (owned.head.client, owned.head.scheme) = (self.client(), self.scheme());
        owned.head.secured.clone_from(&self.head.secured);
        owned.head.came_by_https = self.came_by_https();
        owned.head.listener = self.listener();
        Some(owned)
    }

    /// The same request with this query, and behind it the one that was sent. All else, the target
    /// among it, stays what was sent.
    pub fn with_query(&self, query: &[u8]) -> OwnedRequest {
        let mut owned = self.to_owned();
        let sent = self.sent_query();
        let between: &[u8] = if query.is_empty() || sent.is_empty() { b"" } else { b"&" };
        let text = [&*owned.text, query, between, sent].concat();
        let (start, end) = (owned.text.len() as u32, text.len() as u32);
        owned.head.query = Span { start, end };
        (owned.head.len, owned.text) = (text.len(), text.into());
        owned
    }

    /// A copy that outlives the caller's buffer, for an answer that has to wait.
    pub fn to_owned(&self) -> OwnedRequest {
        let len = self.head.len.min(self.text.len());
        OwnedRequest { head: self.head.clone(), text: self.text[..len].into() }
    }
}

/// A request that owns its text, kept while its answer waits.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    head: Head,
    text: Box<[u8]>,
}

impl OwnedRequest {
    /// A request for a file that no client sent: a plain GET. `None` when the target is none.
    pub fn get(target: &[u8], host: &[u8]) -> Option<OwnedRequest> {
        Draft::new(b"GET", target).field(HOST, host).done()
    }

    /// The request.
    pub fn request(&self) -> Request<'_> {
        self.head.request(&self.text)
    }
}

/// A request that is put together of its parts. They are held to the rules that hold for parts
/// which a client sends.
#[derive(Debug)]
pub struct Draft {
    head: Head,
    text: Vec<u8>,
    is_valid: bool,
}

impl Draft {
    /// A request of this method for this target.
    pub fn new(method: &[u8], target: &[u8]) -> Draft {
        let (head, text) = (Head::default(), Vec::with_capacity(512));
        let mut draft = Draft { head, text, is_valid: true };
        draft.head.method = Method::from_token(method);
        draft.head.method_token = draft.add(method);
        draft.head.target = draft.add(target);
        let is_graphic = |byte: &u8| matches!(byte, b'!'..=b'~' | 0x80..);
        let is_short = target.len() <= TARGET_BYTES_MAX;
        draft.is_valid = is_short && is_name(method) && target.iter().all(is_graphic);
        draft
    }

    /// The same with another field line.
    #[must_use]
    pub fn field(mut self, name: &[u8], value: &[u8]) -> Draft {
        self.is_valid &= is_name(name) && is_value(value);
        let known = Name::from_bytes(name);
        let line = Line { name: self.add(name), value: self.add(trim(value)), known };
        self.head.fields.push(line);
        self
    }

    /// The same where the hosts of this number are served.
    #[must_use]
    pub fn at(mut self, listener: u16) -> Draft {
        self.head.listener = listener;
        self
    }

    /// The request; `None` when any part of it is not valid.
    pub fn done(mut self) -> Option<OwnedRequest> {
        let Draft { head, text, .. } = &mut self;
        head.len = text.len();
        split_target(text, head).ok()?;
        // Only a request that came by HTTP/1.1 must name a host.
        let is_named = head.fields.has_any(Name::Host.bit());
        head.version = if is_named { Version::Http11 } else { Version::Http10 };
        read_host(text, head).ok()?;
        self.is_valid.then(|| OwnedRequest { head: self.head, text: self.text.into() })
    }

    fn add(&mut self, part: &[u8]) -> Span {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(part);
        Span { start, end: self.text.len() as u32 }
    }
}
