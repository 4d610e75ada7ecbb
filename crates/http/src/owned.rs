//! Requests that own their bytes: kept while an answer waits, or made by the server itself.

use crate::head::{Head, Method, Name, Request};
use crate::limits::Limits;
use crate::scan::parse_head;

impl Request<'_> {
    /// The same request for another target, without a body: what a client would have sent that
    /// asked for it at once. `None` when the target is none.
    pub fn redirected(&self, target: &[u8]) -> Option<OwnedRequest> {
        const OF_THE_BODY: [&[u8]; 4] =
            [b"content-length", b"transfer-encoding", b"content-type", b"expect"];
        let method: &[u8] = if self.method() == Method::Head { b"HEAD" } else { b"GET" };
        let mut bytes = [method, b" ", target, b" HTTP/1.1\r\n"].concat();
        for (name, value) in self.fields() {
            if !OF_THE_BODY.iter().any(|other| name.eq_ignore_ascii_case(other)) {
                bytes.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            }
        }
        if self.value(Name::Host).is_none() {
            bytes.extend_from_slice(&[b"Host: ", self.host(), b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        let limits = Limits { head_bytes_max: usize::MAX, ..Limits::default() };
        let mut head = Head::default();
        parse_head(&bytes, &limits, &mut head).ok()?;
        head.client = self.head.client;
        Some(OwnedRequest { head, bytes: bytes.into() })
    }

    /// A copy that outlives the caller's buffer, for an answer that has to wait.
    pub fn to_owned(&self) -> OwnedRequest {
        let len = self.head.len.min(self.bytes.len());
        OwnedRequest { head: self.head.clone(), bytes: self.bytes[..len].into() }
    }
}

/// A request that owns its bytes, kept while its answer waits.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    head: Head,
    bytes: Box<[u8]>,
}

impl OwnedRequest {
    /// A request for a file that no client sent: a plain GET. `None` when the target is none.
    pub fn get(target: &[u8], host: &[u8]) -> Option<OwnedRequest> {
        let bytes = [b"GET ", target, b" HTTP/1.1\r\nHost: ", host, b"\r\n\r\n"].concat();
        let limits = Limits { head_bytes_max: usize::MAX, ..Limits::default() };
        let mut head = Head::default();
        parse_head(&bytes, &limits, &mut head).ok()?;
        Some(OwnedRequest { head, bytes: bytes.into() })
    }

    /// The request.
    pub fn request(&self) -> Request<'_> {
        self.head.request(&self.bytes)
    }
}
