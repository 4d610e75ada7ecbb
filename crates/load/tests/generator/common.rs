//! A server that does exactly what a test tells it to, for each connection.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use flyball_load::job::{Job, Load, Options};
use flyball_load::observe::{Live, Report};

/// An answer of two bytes on a connection that stays.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// Listens, and gives each connection, with its number, to `serve` in a thread of its own.
pub fn server(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    // It ends with the process of the test.
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(number, stream));
        }
    });
    address
}

/// Reads one request without a body; `None` at the end of the stream.
pub fn request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
    Some(String::from_utf8(head).expect("a head is text"))
}

/// Answers each request with `answer` until the client goes.
pub fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    while request(&mut stream).is_some() && stream.write_all(answer).is_ok() {}
}

/// Options for a short run.
pub fn options(address: SocketAddr, load: Load, duration_ms: u64) -> Options {
    let mut options = Options::new(&format!("http://{address}/"), load);
    options.duration = Duration::from_millis(duration_ms);
    options
}

/// At this rate.
pub fn rate(text: &str) -> Load {
    Load::Rate(text.parse().expect("a rate"))
}

/// Runs it.
pub fn run(options: &Options) -> Report {
    let job = Job::prepare(options).expect("nothing is wrong with it");
    job.run(&Arc::new(Live::default()), &AtomicBool::new(false)).expect("it starts")
}
