//! A request head (RFC 9110, sections 6 and 7), whatever protocol it came by: offsets into a text
//! that its caller holds.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::field::{Lines, Span};
use crate::remote::Remote;
use crate::secured::Secured;

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
    #[inline]
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

impl Version {
    /// Its name, as programs and logs have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

/// The scheme of the address that was asked for: what the connection is, whatever a client says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain text.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that is meant when none is named.
    pub const fn port(self) -> &'static str {
        match self {
            Scheme::Http => "80",
            Scheme::Https => "443",
        }
    }
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

/// Whether a request has content (RFC 9110, section 6.4), and how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Content {
    /// None.
    #[default]
    None,
    /// So many bytes, above zero.
    Length(u64),
    /// Its end shows how long it was.
    Unknown,
}

/// A parsed request head: offsets only, so that one `Head` per worker is reused without allocating.
/// What concerns the connection that it came by is not part of it.
#[derive(Clone, Debug)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The form of the target.
    pub form: TargetForm,
    /// What follows the head.
    pub content: Content,
    /// How many bytes of the text the head takes, from its first on.
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
    /// The scheme, which the head itself does not say: the driver of the connection puts it here
    /// before the request is looked at.
    pub scheme: Scheme,
    /// The client, which the driver puts here too. Never an IPv4 address mapped into IPv6.
    pub client: Remote,
    /// What was agreed on for the connection, if it is over TLS; the driver puts it here too.
    pub secured: Option<Arc<Secured>>,
    /// Whether a trusted proxy says that its client came by `https`, as the driver knows.
    pub came_by_https: bool,
    /// The number of the hosts that are served where it came in, as the driver knows; 0 is all.
    pub listener: u16,
    pub(crate) fields: Lines,
}

impl Default for Head {
    fn default() -> Head {
        Head {
            method: Method::Other,
            version: Version::Http11,
            form: TargetForm::Origin,
            content: Content::None,
            len: 0,
            method_token: Span::default(),
            target: Span::default(),
            path: Span::default(),
            query: Span::default(),
            host: Span::default(),
            authority: Span::default(),
            scheme: Scheme::Http,
            client: Remote::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            secured: None,
            came_by_https: false,
            listener: 0,
            fields: Lines::default(),
        }
    }
}
