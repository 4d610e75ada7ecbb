//! Files that a backend has sent: it names one, and the site answers with it as with any other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_http::list::elements;
use flyball_http::{FieldLines, Fields, Method, Name, Now, Request, Status};

use super::file_answers::{FileAnswer, Source};
use super::lines::varies_by;
use super::{Lookup, Service};
use crate::backend::{Failure, Relay, Reply, SentFile};
use crate::path::{self, Mapped};
use crate::plan::{Job, Origin, Plan};
use crate::routes::Place;
use crate::translate::Translate;

/// Fields that describe the bytes on the wire, or when they were sent: the server sets them.
const OF_THE_BYTES: u64 = Name::set(&[
    Name::ContentLength,
    Name::ContentRange,
    Name::ContentEncoding,
    Name::AcceptRanges,
    Name::Date,
]);

/// What the file says of itself, where it is the answer.
const VALIDATORS: u64 = Name::set(&[Name::ETag, Name::LastModified]);

/// What is still told of the file where the answer is another with its content, unless the backend
/// tells it.
const OF_THE_CONTENT: u64 = Name::set(&[
    Name::ContentType,
    Name::ContentLanguage,
    Name::ContentEncoding,
    Name::ContentLength,
    Name::Vary,
]);

/// Fields of a content that does not follow, since the client has it (RFC 9110, section 15.4.5).
const OF_NO_CONTENT: u64 = Name::set(&[
    Name::ContentType,
    Name::ContentLanguage,
    Name::ContentDisposition,
    Name::ContentDigest,
    Name::ContentMd5,
]);

impl Reply {
    /// Whether the answer is the file, so that conditions and ranges are of it. Those of a client
    /// say nothing of what a program has done for another method, or found to be wrong (RFC 9110,
    /// sections 13.1.2, 13.2.1 and 14.2).
    pub(super) fn is_of_file(&self, request: &Request<'_>) -> bool {
        self.status == Status::OK && matches!(request.method(), Method::Get | Method::Head)
    }
}

impl Service {
    /// The file that a backend names (`X-Sendfile`), if it may: looked for as any other is.
    pub(super) fn send_file(
        &mut self,
        relay: &mut Relay,
        mut reply: Box<Reply>,
        file: &SentFile,
    ) -> Lookup<'_> {
        relay.end();
        let site = relay.site();
        let served = &self.sites.sites[site];
        let found = beneath(relay.sendfile_roots(), file).and_then(|(root, path)| {
            Some(Place { root: served.routes.sent_from(root)?, path, mapped: Mapped::File })
        });
        let Some(place) = found else {
            relay.fail(Failure::Malformed, "it names a file that is not below `sendfile-roots`");
            return self.backend_failed(relay, Failure::Malformed);
        };
        let exactly = served.exactly(place);
        // Which part is sent is not the backend's to say.
        if reply.status == Status::PARTIAL_CONTENT {
            reply.status = Status::OK;
        }
        let request = relay.request().clone();
        // The answer is the script's: it is remembered under no path.
        let redirects = relay.redirects();
        let job = Job { request, site, origin: Origin::Backend(reply), redirects };
        Lookup::Wait(Plan::translate(job, Translate::new(exactly)))
    }

    /// The answer with such a file: the backend's, by the rules of the site, but for what the file
    /// says of itself.
    pub(super) fn sent_file(
        &mut self,
        source: Source,
        site: usize,
        request: &Request<'_>,
        reply: &Reply,
        now: &Now,
    ) -> FileAnswer<'_> {
        let sites = Arc::clone(&self.sites);
        let kind = match reply.media_type() {
            kind if kind.is_empty() => {
                let entry = source.entry(&self.caches, self.transient.as_deref());
                entry.map(|entry| entry.media_type().to_owned()).unwrap_or_default()
            }
            kind => kind.into_owned(),
        };
        let mut told = reply.fields.clone();
        sites.sites[site].amend(request, &kind, reply.status.class() >= 4, &mut told);
        let FileAnswer { status, fields, body, produced } =
            self.file_answer(source, site, request, Some(reply), now);
        let (told, fields) = (told.lines(), fields.lines());
        let (status, fields) = match status {
            Status::OK if reply.status != Status::OK => (reply.status, with_content(told, fields)),
            Status::OK | Status::PARTIAL_CONTENT | Status::NOT_MODIFIED => {
                (status, beside_file(told, fields, status))
            }
            // A refusal is not the backend's answer.
            _ => (status, joined(FieldLines::default(), |_| true, fields, |_| true)),
        };
        self.fields = fields;
        FileAnswer { status, fields: (&self.fields).into(), body, produced }
    }
}

/// The root that a file is below, and its path there; `None` when it is below none of them, or when
/// its name would lead out again.
fn beneath<'a>(roots: &'a [PathBuf], file: &SentFile) -> Option<(&'a Path, Vec<u8>)> {
    let mut decoded = Vec::new();
    let (root, below) = match file {
        SentFile::At(path) => roots.iter().find_map(|root| {
            use std::os::unix::ffi::OsStrExt;
            let root_bytes = root.as_os_str().as_bytes();
            let root_bytes = root_bytes.strip_suffix(b"/").unwrap_or(root_bytes);
            let below = path.strip_prefix(root_bytes)?.strip_prefix(b"/")?;
            Some((root, below))
        })?,
        // A path of a URL, percent-encoded or not, as nginx has it.
        SentFile::Beneath(path) => {
            let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
            let path = [b"/", path.strip_prefix(b"/").unwrap_or(path)].concat();
            let mapped = path::map(&path, true, &mut decoded);
            (roots.first().filter(|_| mapped == Ok(Mapped::File))?, &decoded[..])
        }
    };
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    below.split(|&byte| byte == b'/').all(is_name).then(|| (root.as_path(), below.to_vec()))
}

/// What a backend says beside a file that is the answer, whole, in parts or known already.
fn beside_file(backend: FieldLines<'_>, file: FieldLines<'_>, status: Status) -> Fields {
    let left_out = OF_THE_BYTES
        | VALIDATORS
        | match status {
            // The parts have the backend's type.
            Status::PARTIAL_CONTENT => Name::ContentType.bit(),
            Status::NOT_MODIFIED => OF_NO_CONTENT,
            _ => 0,
        };
    joined(backend, |name| !Name::is_any(name, left_out), file, |_| true)
}

/// An answer of a backend with the content of a file, to which the status gives another meaning:
/// nothing of how long that file may be kept, or be compared with, holds for it.
fn with_content(backend: FieldLines<'_>, file: FieldLines<'_>) -> Fields {
    let kept = |name: &[u8]| !Name::is_any(name, OF_THE_BYTES);
    joined(backend, kept, file, |name| Name::is_any(name, OF_THE_CONTENT))
}

/// The fields of a backend and of a file that are kept: of the latter those that the backend does
/// not say itself, and all on which the answer depends.
fn joined(
    backend: FieldLines<'_>,
    of_backend: impl Fn(&[u8]) -> bool,
    file: FieldLines<'_>,
    of_file: impl Fn(&[u8]) -> bool,
) -> Fields {
    let told: Fields = backend.iter().filter(|(name, _)| of_backend(name)).collect();
    let mut all = told.clone();
    for (name, value) in file.iter().filter(|(name, _)| of_file(name)) {
        let is_told = if name.eq_ignore_ascii_case(b"vary") {
            elements(value).all(|word| varies_by(told.lines(), word))
        } else {
            told.lines().iter().any(|(other, _)| name.eq_ignore_ascii_case(other))
        };
        if !is_told {
            all.add_named(name, value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_below_a_root_or_not_sent() {
        let roots = ["/srv/a".into(), "/srv/b/".into()];
        let at = |path: &str| {
            let found = beneath(&roots, &SentFile::At(path.into()));
            found.map(|(root, path)| (root.to_str().unwrap(), String::from_utf8(path).unwrap()))
        };
        assert_eq!(at("/srv/a/x/y"), Some(("/srv/a", "x/y".into())));
        assert_eq!(at("/srv/b/x"), Some(("/srv/b/", "x".into())));
        for path in ["/srv/a", "/srv/a/", "/srv/ab/x", "/etc/passwd", "x", "", "/srv/a/../x"] {
            assert_eq!(at(path), None, "{path}");
        }
        for path in ["/srv/a//x", "/srv/a/./x", "/srv/a/x/", "/srv/a/x\0y"] {
            assert_eq!(at(path), None, "{path}");
        }
        for (path, expected) in [
            ("/x/y", Some("x/y")),
            ("/a%20b/%C3%BC.pdf?x=1", Some("a b/\u{fc}.pdf")),
            ("/%2e%2e/x", None),
            ("/x%2fy", None),
            ("/x/", None),
        ] {
            let found = beneath(&roots, &SentFile::Beneath(path.into()));
            let expected = expected.map(|name| (Path::new("/srv/a"), name.as_bytes().to_vec()));
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(beneath(&[], &SentFile::Beneath(b"/x".to_vec())), None);
    }

    fn beside(backend: &[u8], file: &[u8], status: Status) -> Vec<u8> {
        let both = beside_file(FieldLines::of_h1(backend), FieldLines::of_h1(file), status);
        both.lines().h1().to_vec()
    }

    fn with(backend: &[u8], file: &[u8]) -> Vec<u8> {
        let both = with_content(FieldLines::of_h1(backend), FieldLines::of_h1(file));
        both.lines().h1().to_vec()
    }

    #[test]
    fn the_backend_names_the_file_and_the_file_tells_its_size() {
        let backend = b"Content-Type: a/b\r\nContent-Length: 0\r\nSet-Cookie: c\r\nETag: \"x\"\r\n";
        let file = b"Content-Type: text/plain\r\nETag: \"f\"\r\nContent-Length: 9\r\n";
        let both = b"Content-Type: a/b\r\nSet-Cookie: c\r\nETag: \"f\"\r\nContent-Length: 9\r\n";
        assert_eq!(beside(backend, file, Status::OK), both);
        let known = b"Cache-Control: max-age=9\r\nETag: \"f\"\r\n";
        let backend = b"Content-Type: a/b\r\nContent-Location: /x\r\nCache-Control: no-store\r\n";
        let both = b"Content-Location: /x\r\nCache-Control: no-store\r\nETag: \"f\"\r\n";
        assert_eq!(beside(backend, known, Status::NOT_MODIFIED), both);
        let part = b"ETag: \"f\"\r\nContent-Type: multipart/byteranges; boundary=b\r\n";
        let backend = b"content-type: a/b\r\nA: c\r\n";
        let both = [&b"A: c\r\n"[..], part].concat();
        assert_eq!(beside(backend, part, Status::PARTIAL_CONTENT), both);
    }

    #[test]
    fn of_a_page_that_goes_with_an_error_no_more_is_told_than_its_content() {
        let file = b"Content-Type: text/html\r\nContent-Length: 9\r\nAccept-Ranges: bytes\r\n\
            Vary: Accept-Encoding\r\nCache-Control: max-age=9\r\nETag: \"f\"\r\n\
            Last-Modified: then\r\n";
        let backend = b"ETag: \"b\"\r\nContent-Range: bytes 0-1/2\r\nA: b\r\n";
        let both = b"ETag: \"b\"\r\nA: b\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\
            Vary: Accept-Encoding\r\n";
        assert_eq!(with(backend, file), both);
    }

    #[test]
    fn an_answer_depends_on_what_either_says_and_says_it_once() {
        let file = b"Vary: Accept-Encoding\r\nVary: Origin\r\n";
        for (backend, both) in [
            ("", "Vary: Accept-Encoding\r\nVary: Origin\r\n"),
            ("Vary: A\r\n", "Vary: A\r\nVary: Accept-Encoding\r\nVary: Origin\r\n"),
            ("vary: A, origin\r\n", "vary: A, origin\r\nVary: Accept-Encoding\r\n"),
            ("Vary: *\r\n", "Vary: *\r\n"),
        ] {
            let both = both.as_bytes();
            assert_eq!(beside(backend.as_bytes(), file, Status::OK), both);
            assert_eq!(beside(backend.as_bytes(), file, Status::NOT_MODIFIED), both);
            assert_eq!(with(backend.as_bytes(), file), both);
        }
    }
}
