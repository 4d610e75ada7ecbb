//! A request head (RFC 9112, sections 3 and 5), kept as offsets into the caller's buffer.

use std::net::{IpAddr, Ipv4Addr};

/// The method of a request (RFC 9110, section 9; PATCH is RFC 5789).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// PATCH
    Patch,
    /// CONNECT
    Connect,
    /// TRACE
    Trace,
    /// Any other token.
    Other,
}

impl Method {
    /// The method that this token names; methods are case-sensitive.
    pub fn from_token(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"PATCH" => Method::Patch,
            b"CONNECT" => Method::Connect,
            b"TRACE" => Method::Trace,
            _ => Method::Other,
        }
    }
}

/// The protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// The form of the request target (RFC 9112, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, for CONNECT
    Authority,
    /// `*`, for OPTIONS
    Asterisk,
}

/// How the request body is framed (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// No body.
    None,
    /// `Content-Length`, above zero.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

macro_rules! names {
    ($($variant:ident $text:literal),* $(,)?) => {
        /// The field names that the server looks at; all others are passed over.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Name { $(#[doc = $text] $variant),* }

        impl Name {
            /// The name's enumerator, compared without regard to case; `None` when unknown.
            pub fn from_bytes(name: &[u8]) -> Option<Name> {
                // Nearly all names are told apart by their length, so at most three compares run.
                $(if name.len() == $text.len() && name.eq_ignore_ascii_case($text.as_bytes()) {
                    return Some(Name::$variant);
                })*
                None
            }
        }
    };
}

names! {
    Host "host",
    Connection "connection",
    ContentLength "content-length",
    TransferEncoding "transfer-encoding",
    Expect "expect",
    IfMatch "if-match",
    IfNoneMatch "if-none-match",
    IfModifiedSince "if-modified-since",
    IfUnmodifiedSince "if-unmodified-since",
    IfRange "if-range",
    Range "range",
    Accept "accept",
    AcceptLanguage "accept-language",
    AcceptEncoding "accept-encoding",
    UserAgent "user-agent",
    Referer "referer",
    Forwarded "forwarded",
    XForwardedFor "x-forwarded-for",
    Authorization "authorization",
}

impl Name {
    /// The bit of this name in [`Head::present`].
    pub const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A range of bytes within the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of `all` that the span covers.
    pub fn of(self, all: &[u8]) -> &[u8] {
        all.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }

    /// True when the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// A parsed request head: offsets only, so that one `Head` per worker is reused without allocating.
#[derive(Clone, Debug)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The form of the target.
    pub form: TargetForm,
    /// How the body is framed.
    pub framing: Framing,
    /// True when the connection may be kept after the answer (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// True when the client waits for `100 Continue`.
    pub expect_continue: bool,
    /// Length of the head in bytes, with its blank line.
    pub len: usize,
    /// The method as sent.
    pub method_token: Span,
    /// The whole target as sent.
    pub target: Span,
    /// The path, without the query.
    pub path: Span,
    /// The query, without its `?`; empty when there is none.
    pub query: Span,
    /// The host, without its port, from the target or from `Host`; empty when unknown.
    pub host: Span,
    /// The host with its port, from the same place.
    pub authority: Span,
    /// A bit per [`Name`] that occurs.
    pub present: u32,
    /// The address of the client, which the head itself does not say: the driver of the connection
    /// puts it here before the request is looked at. Never an IPv4 address mapped into IPv6.
    pub client: IpAddr,
    fields: Vec<(Name, Span)>,
}

impl Default for Head {
    fn default() -> Head {
        Head {
            method: Method::Other,
            version: Version::Http11,
            form: TargetForm::Origin,
            framing: Framing::None,
            keep_alive: false,
            expect_continue: false,
            len: 0,
            method_token: Span::default(),
            target: Span::default(),
            path: Span::default(),
            query: Span::default(),
            host: Span::default(),
            authority: Span::default(),
            present: 0,
            client: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            fields: Vec::new(),
        }
    }
}

impl Head {
    pub(crate) fn clear_fields(&mut self) {
        self.fields.clear();
    }

    pub(crate) fn add_field(&mut self, name: Name, span: Span) {
        self.present |= name.bit();
        self.fields.push((name, span));
    }

    /// Makes `span` the value of `Host`, whatever the client sent in that field.
    pub(crate) fn set_host_field(&mut self, span: Span) {
        self.fields.retain(|(name, _)| *name != Name::Host);
        self.add_field(Name::Host, span);
    }

    pub(crate) fn spans(&self, name: Name) -> impl Iterator<Item = Span> + use<'_> {
        let fields: &[(Name, Span)] =
            if self.present & name.bit() != 0 { &self.fields } else { &[] };
        fields.iter().filter(move |(n, _)| *n == name).map(|(_, span)| *span)
    }

    /// The head as a request over the bytes it was parsed from.
    pub fn request<'a>(&'a self, bytes: &'a [u8]) -> Request<'a> {
        Request { head: self, bytes }
    }
}

const HOST: &[u8] = b"Host";

/// A request: a head and the bytes that it points into.
///
/// `Host` is what the server has decided: where the target is absolute, its authority takes the
/// place of the field that was sent (RFC 9112, section 3.2.2), for whichever of these methods asks.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The offsets and flags.
    pub head: &'a Head,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// The method.
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as sent.
    pub fn method_token(&self) -> &'a [u8] {
        self.head.method_token.of(self.bytes)
    }

    /// The target as sent.
    pub fn target(&self) -> &'a [u8] {
        self.head.target.of(self.bytes)
    }

    /// The path, still percent-encoded, without the query.
    pub fn path(&self) -> &'a [u8] {
        self.head.path.of(self.bytes)
    }

    /// The query without its `?`.
    pub fn query(&self) -> &'a [u8] {
        self.head.query.of(self.bytes)
    }

    /// The host without its port; empty when the request names none.
    pub fn host(&self) -> &'a [u8] {
        self.head.host.of(self.bytes)
    }

    /// The host with its port, if it was given; empty when the request names none.
    pub fn authority(&self) -> &'a [u8] {
        self.head.authority.of(self.bytes)
    }

    /// Path and query as sent: the target in origin-form. Empty, or without its first slash, where
    /// an absolute target has no path.
    pub fn path_and_query(&self) -> &'a [u8] {
        Span { start: self.head.path.start, end: self.head.target.end }.of(self.bytes)
    }

    /// The address of the client: that of the peer, or what a trusted proxy says it is.
    pub fn client(&self) -> IpAddr {
        self.head.client
    }

    /// True when any of the names in this set of bits occurs.
    pub fn has_any(&self, bits: u32) -> bool {
        self.head.present & bits != 0
    }

    /// The values of every field line with this name, in order.
    pub fn values(&self, name: Name) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let fields: &'a [(Name, Span)] =
            if self.has_any(name.bit()) { &self.head.fields } else { &[] };
        fields.iter().filter(move |(n, _)| *n == name).map(move |(_, span)| span.of(bytes))
    }

    /// The value of the first field line with this name.
    pub fn value(&self, name: Name) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The value of the first field line with this name, whichever it is; names are compared
    /// without regard to case. Walks over the bytes of the head: [`Request::value`] does not.
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        if name.eq_ignore_ascii_case(HOST) {
            return self.value(Name::Host);
        }
        let mut rest = self.lines();
        loop {
            // The rest of the request line first, then the end of each field line.
            rest = &rest[memchr::memchr(b'\n', rest)? + 1..];
            let colon = memchr::memchr2(b':', b'\n', rest)?;
            if rest[..colon].eq_ignore_ascii_case(name) && rest[colon] == b':' {
                let end = memchr::memchr(b'\n', rest)?;
                return Some(rest[colon + 1..end].trim_ascii());
            }
        }
    }

    /// Every field line, in order: its name as sent, and its value. The `Host` that an absolute
    /// target makes is the first.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let is_replaced = self.head.form == TargetForm::Absolute;
        let host = is_replaced.then(|| (HOST, self.authority()));
        let sent = self.lines().split(|&byte| byte == b'\n').skip(1).filter_map(move |line| {
            let colon = memchr::memchr(b':', line)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            let is_ignored = is_replaced && name.eq_ignore_ascii_case(HOST);
            (!is_ignored).then_some((name, value))
        });
        host.into_iter().chain(sent)
    }

    /// The head behind its target: the rest of the request line, then the field lines.
    fn lines(&self) -> &'a [u8] {
        let head = &self.bytes[..self.head.len.min(self.bytes.len())];
        head.get(self.head.target.end as usize..).unwrap_or_default()
    }
}
