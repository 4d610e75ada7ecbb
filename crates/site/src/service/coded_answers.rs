//! Which answers of programs leave coded, and what their heads say then.

use std::io::Write;

use flyball_http::{Method, Status};

use super::Service;
use super::lines::{has_word, is_any_of, lines, varies_by};
use crate::backend::{CodedAnswer, Relay, Reply};
use crate::filter::FilterKind;

/// Fields of a content that no longer hold once it is coded, or say that it is.
const OF_THE_CONTENT: [&[u8]; 6] = [
    b"content-encoding",
    b"content-range",
    b"content-digest",
    b"repr-digest",
    b"digest",
    b"content-md5",
];

impl Service {
    /// Has the content of an answer coded on its way, if it may be, and says so in the fields,
    /// which are complete but for the length: `len` where that is known. True when the length is
    /// no longer that.
    pub(super) fn code_answer(
        &mut self,
        relay: &mut Relay,
        reply: &Reply,
        len: Option<u64>,
    ) -> bool {
        let (site, is_head) = (relay.site(), relay.request().request().method() == Method::Head);
        let policy = &self.sites.sites[site].policy;
        if reply.status != Status::OK
            || !policy.codes_answer(&reply.media_type, len)
            || is_as_it_is(&self.fields)
        {
            return false;
        }
        add_vary(&mut self.fields);
        let class = self.class(site, &relay.request().request());
        let policy = &self.sites.sites[site].policy;
        let Some(coding) = policy.of_stream(class, &reply.media_type, len) else { return false };
        match (is_head, len) {
            (false, _) => match self.sites.code_fed(site, coding) {
                Some(source) => relay.coded = Some(Box::new(CodedAnswer::new(source))),
                None => {
                    self.compress_counts.shed += 1;
                    return false;
                }
            },
            // GET would be answered so, unless its content is short.
            (true, None) => {
                weaken(&mut self.fields);
                return false;
            }
            (true, Some(_)) => {}
        }
        weaken(&mut self.fields);
        // Writing to a vector cannot fail.
        let _ = write!(self.fields, "Content-Encoding: {}\r\n", FilterKind::of(coding).name);
        true
    }
}

/// Whether the fields say that the content must stay as it is.
fn is_as_it_is(fields: &[u8]) -> bool {
    lines(fields).any(|(_, name, value)| {
        is_any_of(name, &OF_THE_CONTENT)
            || name.eq_ignore_ascii_case(b"cache-control") && has_word(value, b"no-transform")
    })
}

/// Says that the answer depends on what a client accepts, unless that is said.
fn add_vary(fields: &mut Vec<u8>) {
    if !varies_by(fields, b"accept-encoding") {
        fields.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
}

/// The same content has other bytes (RFC 9110, section 8.8.1), and no ranges of these are to be
/// had.
fn weaken(fields: &mut Vec<u8>) {
    let mut weak = Vec::with_capacity(fields.len() + WEAK.len());
    for (line, name, value) in lines(fields) {
        if name.eq_ignore_ascii_case(b"etag") && value.starts_with(b"\"") {
            weak.extend_from_slice(WEAK);
            weak.extend_from_slice(value);
            weak.extend_from_slice(b"\r\n");
        } else if !name.eq_ignore_ascii_case(b"accept-ranges") {
            weak.extend_from_slice(line);
        }
    }
    *fields = weak;
}

const WEAK: &[u8] = b"ETag: W/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_of_its_bytes_keeps_them_as_they_are() {
        for field in [
            "Content-Encoding: br",
            "content-range: bytes 0-1/2",
            "Repr-Digest: sha-256=:x:",
            "Content-Digest: sha-256=:x:",
            "Digest: x",
            "Content-MD5: x",
            "Cache-Control: private, No-Transform",
        ] {
            assert!(is_as_it_is(format!("A: b\r\n{field}\r\n").as_bytes()), "{field}");
        }
        assert!(!is_as_it_is(b"Cache-Control: no-transformer\r\nX-Digest: y\r\n"));
    }

    #[test]
    fn the_head_of_a_coded_answer_tells_of_other_bytes() {
        for (fields, expected) in [
            ("ETag: \"a\"\r\nAccept-Ranges: bytes\r\n", "ETag: W/\"a\"\r\n"),
            ("etag: W/\"a\"\r\n", "etag: W/\"a\"\r\n"),
            ("A: \"b\"\r\n", "A: \"b\"\r\n"),
        ] {
            let mut weak = fields.as_bytes().to_vec();
            weaken(&mut weak);
            assert_eq!(weak, expected.as_bytes());
        }
        for (fields, adds) in [
            ("", true),
            ("Vary: Cookie\r\n", true),
            ("vary: Cookie, accept-encoding\r\n", false),
            ("Vary: *\r\n", false),
        ] {
            let mut varies = fields.as_bytes().to_vec();
            add_vary(&mut varies);
            assert_eq!(varies.len() > fields.len(), adds, "{fields}");
        }
    }
}
