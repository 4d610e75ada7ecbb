//! Whether a contestant answers as it should, before anything is timed: a raw HTTP/1.1 client.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::files;
use super::work::{Connection, PIPELINE_DEPTH, Work};

/// Time without a byte after which an answer counts as missing.
const SILENCE_MS_MAX: u64 = 5_000;
/// Largest response head that is read.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Asks for every path of the work's sample in the work's own manner. Each answer must be 200 and
/// hold the bytes of the file; so the answers of all contestants are equal. Blocks.
pub(crate) fn answers(address: SocketAddr, site: &Path, work: &Work) -> Result<(), String> {
    let sample = work.sample();
    match work.connection {
        Connection::Close => sample.iter().try_for_each(|path| {
            let mut client = Client::connect(address)?;
            client.ask(&request(address, path, "close"))?;
            client.expect(site, path)?;
            client.expect_end().map_err(|why| format!("after {path}, asked to close: {why}"))
        }),
        Connection::KeepAlive => {
            let mut client = Client::connect(address)?;
            sample.iter().cycle().take(work.kept_requests()).try_for_each(|path| {
                client.ask(&request(address, path, "keep-alive"))?;
                client.expect(site, path)
            })
        }
        Connection::Pipelined => sample.iter().try_for_each(|path| {
            let mut client = Client::connect(address)?;
            client.ask(&request(address, path, "keep-alive").repeat(PIPELINE_DEPTH))?;
            (0..PIPELINE_DEPTH).try_for_each(|_| client.expect(site, path))
        }),
    }
}

fn request(address: SocketAddr, path: &str, connection: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: {connection}\r\n\r\n")
}

struct Client {
    stream: TcpStream,
    /// Received and not yet part of an answer.
    received: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Client, String> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(Duration::from_millis(SILENCE_MS_MAX)))?;
            Ok::<_, io::Error>(stream)
        };
        let stream = connect().map_err(|error| format!("connecting to {address}: {error}"))?;
        Ok(Client { stream, received: Vec::new() })
    }

    fn ask(&mut self, requests: &str) -> Result<(), String> {
        self.stream.write_all(requests.as_bytes()).map_err(|error| format!("sending: {error}"))
    }

    /// Reads one answer and compares it with the file.
    fn expect(&mut self, site: &Path, path: &str) -> Result<(), String> {
        let file = fs::read(files::on_disk(site, path)).map_err(|e| format!("{path}: {e}"))?;
        let body = self.answer().map_err(|why| format!("{path}: {why}"))?;
        if body == file {
            return Ok(());
        }
        let same = body.iter().zip(&file).take_while(|(a, b)| a == b).count();
        let (got, want) = (body.len(), file.len());
        Err(format!("{path}: differs from the file at byte {same} ({got} bytes, not {want})"))
    }

    /// The body of the next answer, which must be 200 with a length (RFC 9112, section 6.3).
    fn answer(&mut self) -> Result<Vec<u8>, String> {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            if self.received.len() > HEAD_BYTES_MAX {
                return Err("no end of the head".into());
            }
            self.receive()?;
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let length = body_bytes(&String::from_utf8_lossy(&head))?;
        while self.received.len() < length {
            self.receive()?;
        }
        Ok(self.received.drain(..length).collect())
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => Err("the connection was closed".into()),
            Ok(n) => {
                self.received.extend_from_slice(&piece[..n]);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn expect_end(&mut self) -> Result<(), String> {
        if !self.received.is_empty() {
            return Err(format!("{} bytes more than one answer", self.received.len()));
        }
        match self.stream.read(&mut [0; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err("more than one answer".into()),
            Err(error) => Err(format!("not closed: {error}")),
        }
    }
}

/// Length of the body that follows a head.
fn body_bytes(head: &str) -> Result<usize, String> {
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200 ") {
        return Err(format!("answered {status:?}"));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .ok_or("an answer without Content-Length")?;
    length.1.trim().parse().map_err(|_| format!("Content-Length is {:?}", length.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Checks a work against a server that sends `sent` on one connection after `requests`
    /// requests, and then closes it or waits for the client to do so. The small file is `file`.
    fn check(work: &str, requests: usize, sent: Vec<u8>, closes: bool) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut piece = [0; 4096];
            while asked.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count() < requests {
                let n = stream.read(&mut piece).unwrap();
                assert!(n > 0, "the client asks {requests} times");
                asked.extend_from_slice(&piece[..n]);
            }
            stream.write_all(&sent).unwrap();
            if !closes {
                // Ends with the client's end of the connection.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let site = std::env::temp_dir().join(format!("bench-check-{}", address.port()));
        fs::create_dir_all(&site).unwrap();
        fs::write(files::on_disk(&site, files::SMALL), "file").unwrap();
        let result = answers(address, &site, Work::named(work));
        fs::remove_dir_all(&site).unwrap();
        server.join().unwrap();
        result
    }

    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfile";

    #[test]
    fn an_answer_with_the_bytes_of_the_file_passes() {
        check("new", 1, GOOD.to_vec(), true).unwrap();
        check("pipe", PIPELINE_DEPTH, GOOD.repeat(PIPELINE_DEPTH), false).unwrap();
    }

    #[test]
    fn an_answer_with_other_bytes_is_refused() {
        let sent = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfire".to_vec();
        let why = check("new", 1, sent, true).unwrap_err();
        assert!(why.contains("differs from the file at byte 2"), "{why}");
    }

    #[test]
    fn an_answer_other_than_200_is_refused() {
        let sent = b"HTTP/1.1 206 Partial\r\nContent-Length: 4\r\n\r\nfile".to_vec();
        let why = check("new", 1, sent, true).unwrap_err();
        assert!(why.contains("206"), "{why}");
    }

    #[test]
    fn a_connection_that_is_not_kept_is_refused() {
        let why = check("keep", 1, GOOD.to_vec(), true).unwrap_err();
        assert!(why.starts_with("sending") || why.starts_with(files::SMALL), "{why}");
    }

    #[test]
    fn bytes_after_the_only_answer_are_refused() {
        let why = check("new", 1, GOOD.repeat(2), true).unwrap_err();
        assert!(why.contains("more than one answer"), "{why}");
    }

    #[test]
    fn a_batch_with_a_missing_answer_is_refused() {
        let sent = GOOD.repeat(PIPELINE_DEPTH - 1);
        let why = check("pipe", PIPELINE_DEPTH, sent, true).unwrap_err();
        assert!(why.contains("closed"), "{why}");
    }
}
