//! Files that a backend has sent: it names one, and the site answers with it as with any other.

use std::path::{Path, PathBuf};

use flyball_http::Status;

use super::{Lookup, Service};
use crate::backend::{Failure, Relay, Reply, SentFile};
use crate::path::{self, Mapped};
use crate::plan::{Job, Origin, Plan};
use crate::routes::Place;
use crate::translate::Translate;

/// Fields that the file says better than who names it.
const OF_THE_FILE: [&[u8]; 6] = [
    b"content-length",
    b"content-range",
    b"content-encoding",
    b"accept-ranges",
    b"etag",
    b"last-modified",
];

impl Service {
    /// The file that a backend names (`X-Sendfile`), if it may: looked for as any other is.
    pub(super) fn send_file(
        &mut self,
        relay: &mut Relay,
        reply: &Reply,
        file: &SentFile,
    ) -> Lookup<'_> {
        relay.end();
        let site = relay.site();
        let served = &self.sites.sites[site];
        let found = beneath(relay.sendfile_roots(), file).and_then(|(root, path)| {
            Some(Place { root: served.routes.sent_from(root)?, path, mapped: Mapped::File })
        });
        let request = relay.request().request();
        // A body has been for the backend.
        let asked = request.redirected(request.target());
        let (Some(place), Some(request)) = (found, asked) else {
            relay.fail(Failure::Malformed, "it names a file that is not below `sendfile-roots`");
            return self.backend_failed(relay, Failure::Malformed);
        };
        let exactly = served.exactly(place);
        relay.beside = Some(reply.fields.clone());
        // The answer is the script's: it is remembered under no path.
        let job = Job { request, site, origin: Origin::Backend, redirects: relay.redirects };
        Lookup::Wait(Plan::translate(job, Translate::new(exactly)))
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

/// The fields of an answer with a file, together with those of the backend that has it sent.
pub fn fields_beside(backend: &[u8], file: &[u8], status: Status) -> Vec<u8> {
    // A refusal is not the backend's answer. What the client has already is, without the fields
    // of a content that does not follow (RFC 9110, section 15.4.5).
    let is_known = status == Status::NOT_MODIFIED;
    if status.class() != 2 && !is_known {
        return file.to_vec();
    }
    let lines = |all: &'_ [u8]| -> Vec<Vec<u8>> {
        all.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let name = |line: &[u8]| {
        let end = memchr::memchr(b':', line).unwrap_or(0);
        line[..end].to_ascii_lowercase()
    };
    let is_told = |line: &Vec<u8>| {
        let name = name(line);
        !(OF_THE_FILE.contains(&&name[..]) || is_known && name.starts_with(b"content-"))
    };
    let backend: Vec<Vec<u8>> = lines(backend).into_iter().filter(is_told).collect();
    let file = lines(file).into_iter().filter(|line| {
        let own = name(line);
        own.is_empty() || !backend.iter().any(|other| name(other) == own)
    });
    let file: Vec<Vec<u8>> = file.collect();
    [backend.concat(), file.concat()].concat()
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

    #[test]
    fn the_backend_names_the_file_and_the_file_tells_its_size() {
        let backend = b"Content-Type: a/b\r\nContent-Length: 0\r\nSet-Cookie: c\r\nETag: \"x\"\r\n";
        let file = b"Content-Type: text/plain\r\nETag: \"f\"\r\nContent-Length: 9\r\n\r\n";
        let both =
            b"Content-Type: a/b\r\nSet-Cookie: c\r\nETag: \"f\"\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(fields_beside(backend, file, Status::OK), both);
        assert_eq!(fields_beside(backend, file, Status::NOT_FOUND), file);
        let known = b"Cache-Control: max-age=9\r\nETag: \"f\"\r\n\r\n";
        let backend = b"Content-Type: a/b\r\nCache-Control: no-store\r\n";
        let both = b"Cache-Control: no-store\r\nETag: \"f\"\r\n\r\n";
        assert_eq!(fields_beside(backend, known, Status::NOT_MODIFIED), both);
    }
}
