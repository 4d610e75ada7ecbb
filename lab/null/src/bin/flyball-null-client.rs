//! A client that does nothing: one connection after the other, each with one request, by blocking
//! calls: connect, send, receive until an answer is whole, close. It has no clock, no schedule and
//! no table; what it costs is the kernel's part of a new connection, without the waiting for many
//! that a generator needs.
//!
//! `flyball-null-client ADDRESS PATH CONNECTIONS` prints how many were answered.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;

/// Room for an answer: more of one is received in pieces.
const ANSWER_BYTES: usize = 16 * 1024;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = words.first().and_then(|word| word.parse().ok());
    let count = words.get(2).and_then(|word| word.parse().ok());
    let (Some(address), Some(path), Some(count)) = (address, words.get(1), count) else {
        eprintln!("usage: flyball-null-client ADDRESS PATH CONNECTIONS");
        return ExitCode::from(2);
    };
    match run(address, path, count) {
        Ok(()) => {
            println!("{count} answered");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flyball-null-client: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(address: SocketAddr, path: &str, count: u64) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut buffer = vec![0; ANSWER_BYTES];
    // All answers are alike: the first one says how long they are.
    let mut whole = None;
    for _ in 0..count {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut received = 0;
        while whole.is_none_or(|whole| received < whole) {
            match stream.read(&mut buffer[received..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => received += bytes,
            }
            whole = whole.or_else(|| length(&buffer[..received]));
        }
    }
    Ok(())
}

/// Bytes of the answer that begins so, once its head is there.
fn length(received: &[u8]) -> Option<usize> {
    let end = received.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&received[..end]).ok()?.to_ascii_lowercase();
    let (_, value) = head.split_once("content-length:")?;
    let body: usize = value.split_once('\r')?.0.trim().parse().ok()?;
    Some(end + body)
}
