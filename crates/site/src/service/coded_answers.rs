//! Which answers of programs leave coded, and what their heads say then.

use flyball_http::{FieldLines, Fields, Method, Name, Status};

use super::Service;
use super::lines::{has_word, varies_by};
use crate::backend::{CodedAnswer, Relay, Reply};
use crate::filter::FilterKind;

/// Fields of a content that no longer hold once it is coded, or say that it is.
const OF_THE_CONTENT: u64 = Name::set(&[
    Name::ContentEncoding,
    Name::ContentRange,
    Name::ContentDigest,
    Name::ReprDigest,
    Name::Digest,
    Name::ContentMd5,
]);

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
        let (policy, media_type) = (&self.sites.sites[site].policy, reply.media_type());
        if reply.status != Status::OK
            || !policy.codes_answer(&media_type, len)
            || is_as_it_is(self.fields.lines())
        {
            return false;
        }
        add_vary(&mut self.fields);
        let class = self.class(site, &relay.request().request());
        let policy = &self.sites.sites[site].policy;
        let Some(coding) = policy.of_stream(class, &media_type, len) else { return false };
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
        self.fields.add(Name::ContentEncoding, FilterKind::of(coding).name);
        true
    }
}

/// Whether the fields say that the content must stay as it is.
fn is_as_it_is(fields: FieldLines<'_>) -> bool {
    fields.iter().any(|(name, _)| Name::is_any(name, OF_THE_CONTENT))
        || fields.values(Name::CacheControl).any(|value| has_word(value, b"no-transform"))
}

/// Says that the answer depends on what a client accepts, unless that is said.
fn add_vary(fields: &mut Fields) {
    if !varies_by(fields.lines(), b"accept-encoding") {
        fields.add(Name::Vary, "Accept-Encoding");
    }
}

/// The same content has other bytes (RFC 9110, section 8.8.1), and no ranges of these are to be
/// had.
fn weaken(fields: &mut Fields) {
    let mut weak = Fields::default();
    for (name, value) in fields.lines().iter() {
        match Name::from_bytes(name) {
            Some(Name::ETag) if value.starts_with(b"\"") => {
                weak.add(Name::ETag, [b"W/", value].concat());
            }
            Some(Name::AcceptRanges) => {}
            _ => weak.add_named(name, value),
        }
    }
    *fields = weak;
}

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
            let text = format!("A: b\r\n{field}\r\n");
            assert!(is_as_it_is(FieldLines::of_h1(text.as_bytes())), "{field}");
        }
        assert!(!is_as_it_is(FieldLines::of_h1(
            b"Cache-Control: no-transformer\r\nX-Digest: y\r\n"
        )));
    }

    fn of(text: &str) -> Fields {
        FieldLines::of_h1(text.as_bytes()).iter().collect()
    }

    #[test]
    fn the_head_of_a_coded_answer_tells_of_other_bytes() {
        for (fields, expected) in [
            ("ETag: \"a\"\r\nAccept-Ranges: bytes\r\n", "ETag: W/\"a\"\r\n"),
            ("etag: W/\"a\"\r\n", "etag: W/\"a\"\r\n"),
            ("A: \"b\"\r\n", "A: \"b\"\r\n"),
        ] {
            let mut weak = of(fields);
            weaken(&mut weak);
            assert_eq!(weak.lines().h1(), expected.as_bytes());
        }
        for (fields, adds) in [
            ("", true),
            ("Vary: Cookie\r\n", true),
            ("vary: Cookie, accept-encoding\r\n", false),
            ("Vary: *\r\n", false),
        ] {
            let mut varies = of(fields);
            add_vary(&mut varies);
            assert_eq!(varies.lines().h1().len() > fields.len(), adds, "{fields}");
        }
    }
}
