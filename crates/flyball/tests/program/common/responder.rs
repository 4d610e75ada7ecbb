//! A server that speaks FastCGI and gives one small answer, and what a site says about it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use flyball_testkit::as_ourselves;
use tempfile::TempDir;

/// The path that it answers.
pub const PATH: &str = "/app";

/// The content of each answer.
pub const CONTENT: &[u8] = b"hello\n";

/// An answer with that content.
pub const ANSWER: &[u8] = b"\x01\x06\0\x01\0\x22\0\0Content-Type: text/plain\r\n\r\nhello\n\
    \x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0";

/// The end of a request body.
const LAST: &[u8] = b"\x01\x05\0\x01\0\0\0\0";

/// Where a request says whether its link is kept.
const FLAGS_AT: usize = 10;

/// A server until the test ends.
pub struct Responder {
    directory: TempDir,
}

impl Responder {
    pub fn start() -> Responder {
        let (responder, listener) = Responder::bind();
        thread::spawn(move || answer(&listener));
        responder
    }

    /// One that the test itself is, and where its links come from.
    pub fn bind() -> (Responder, UnixListener) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("responder");
        let listener = UnixListener::bind(&socket).expect("it can listen");
        (Responder { directory }, listener)
    }

    /// The path of a configuration that leads to it, and keeps so many links.
    pub fn config(&self, kept: usize) -> String {
        let (root, owner) = (self.directory.path().display(), as_ourselves());
        let config = format!(
            "{owner}[[site]]\nroot = \"{root}\"\n[[site.fastcgi]]\npath = \"{PATH}\"\n\
             idle-links = {kept}\nsocket = \"unix:{root}/responder\"\n"
        );
        let path = self.directory.path().join(format!("keeps-{kept}.toml"));
        std::fs::write(&path, config).expect("the configuration can be written");
        super::text(&path).to_owned()
    }
}

/// A request without a body, all of which comes at once; `None` at the end of the link.
pub fn request(link: &mut UnixStream) -> Option<Vec<u8>> {
    let mut request = vec![0; 4096];
    let len = link.read(&mut request).ok().filter(|len| *len > 0)?;
    request.truncate(len);
    assert!(request.ends_with(LAST), "{}", request.escape_ascii());
    Some(request)
}

/// One link at a time, each as long as the other side keeps it.
fn answer(listener: &UnixListener) {
    for link in listener.incoming() {
        let mut link = link.expect("a link");
        while let Some(request) = request(&mut link) {
            if link.write_all(ANSWER).is_err() || request[FLAGS_AT] == 0 {
                break;
            }
        }
    }
}
