//! A server that speaks FastCGI and gives one small answer, and what a site says about it.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use flyball_testkit::as_ourselves;
use tempfile::TempDir;

/// The path that it answers.
pub const PATH: &str = "/app";

/// The content of each answer.
pub const CONTENT: &[u8] = b"hello\n";

const ANSWER: &[u8] = b"\x01\x06\0\x01\0\x22\0\0Content-Type: text/plain\r\n\r\nhello\n\
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
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("responder");
        let listener = UnixListener::bind(&socket).expect("it can listen");
        thread::spawn(move || answer(&listener));
        Responder { directory }
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

/// One link at a time, each as long as the other side keeps it.
fn answer(listener: &UnixListener) {
    for link in listener.incoming() {
        let (mut link, mut request) = (link.expect("a link"), [0; 4096]);
        // They have no body: all of a request comes at once.
        while let Ok(len @ 1..) = link.read(&mut request) {
            assert!(request[..len].ends_with(LAST), "{}", request[..len].escape_ascii());
            if link.write_all(ANSWER).is_err() || request[FLAGS_AT] == 0 {
                break;
            }
        }
    }
}
