//! Requests over a socket, and answers of which every byte can be looked at.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use flyball_testkit::wait::DEADLINE;

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// An answer as it came.
pub struct Answer {
    pub status: u16,
    /// From the status line to the blank line.
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the body is as long as the head promised.
    pub is_whole: bool,
}

impl Answer {
    /// The value of a field, if the head holds it.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn etag(&self) -> String {
        self.field("ETag").unwrap_or_else(|| panic!("no ETag in {}", self.head)).to_owned()
    }

    /// Whether the server closes after it.
    pub fn closes(&self) -> bool {
        !self.is_whole || self.field("Connection") == Some("close")
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
        stream.set_nodelay(true).expect("TCP_NODELAY can be set");
        Client { stream, input: Vec::new() }
    }

    /// Asks for a target and keeps the connection. An error means that no whole head came.
    pub fn get(&mut self, target: &str) -> io::Result<Answer> {
        self.send(get(target).as_bytes())?;
        self.answer()
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn answer(&mut self) -> io::Result<Answer> {
        let (status, head) = self.head()?;
        self.body(status, head)
    }

    /// Reads one head; its body is still to be read.
    pub fn head(&mut self) -> io::Result<(u16, String)> {
        let end = loop {
            if let Some(at) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            if self.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        };
        let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
        self.input.drain(..end);
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {head:?}"));
        Ok((status, head))
    }

    /// Reads the body that belongs to a head of an answer to GET, or what there is of it.
    pub fn body(&mut self, status: u16, head: String) -> io::Result<Answer> {
        let mut answer = Answer { status, head, body: Vec::new(), is_whole: true };
        let promised = match status {
            204 | 304 => 0,
            _ => {
                let length = answer.field("Content-Length").and_then(|text| text.parse().ok());
                length.unwrap_or_else(|| panic!("no length in {}", answer.head))
            }
        };
        while self.input.len() < promised {
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
        }
        answer.is_whole = self.input.len() >= promised;
        let len = promised.min(self.input.len());
        answer.body = self.input.drain(..len).collect();
        Ok(answer)
    }

    fn fill(&mut self) -> io::Result<usize> {
        let at = self.input.len();
        self.input.resize(at + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[at..]);
        self.input.truncate(at + read.as_ref().map_or(0, |n| *n));
        read
    }
}

/// A plain request that keeps the connection.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}
