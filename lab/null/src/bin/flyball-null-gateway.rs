//! A gateway that does nothing: it asks a FastCGI server for one script, on a link for each
//! request, whatever its clients ask for, and tells them what it always tells. It looks at neither.
//! What it costs is the kernel's part of such a gateway; what another one costs beyond it is its
//! own.
//!
//! `flyball-null-gateway ADDRESS SOCKET SCRIPT_FILENAME` serves until it is ended.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use flyball_sys::net::{self, Endpoint, ListenOptions};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{self, Interest, Readiness};

/// Length of the accept queue.
const BACKLOG: u32 = 1_024;

/// Room for what is read and thrown away.
const READ_BYTES: usize = 16 * 1024;

/// The token of the listening socket; connections have their descriptors' places from 0, links the
/// same with this bit.
const LISTENER: u64 = u64::MAX;
const LINK: u64 = 1 << 32;

/// Kinds of records (FastCGI 1.0, section 8).
const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;

/// Bytes of the last record of an answer: a header and as many again.
const END_BYTES: usize = 16;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = words.first().and_then(|word| word.parse().ok());
    let (Some(address), Some(socket), Some(script)) = (address, words.get(1), words.get(2)) else {
        eprintln!("usage: flyball-null-gateway ADDRESS SOCKET SCRIPT_FILENAME");
        return ExitCode::from(2);
    };
    match serve(address, &Endpoint::Unix(socket.into()), &request(script)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flyball-null-gateway: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The records of a GET of the script.
fn request(script: &str) -> Vec<u8> {
    let mut params = Vec::new();
    for (name, value) in [
        ("SCRIPT_FILENAME", script),
        ("REQUEST_METHOD", "GET"),
        ("QUERY_STRING", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
    ] {
        params.extend([name.len() as u8, value.len() as u8]);
        params.extend(name.bytes().chain(value.bytes()));
    }
    let record = |kind, content: &[u8]| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
    };
    // A responder that closes its end when it has answered.
    let begin = record(BEGIN, &[0, 1, 0, 0, 0, 0, 0, 0]);
    [begin, record(PARAMS, &params), record(PARAMS, &[]), record(STDIN, &[])].concat()
}

/// A client and its link.
struct Pair {
    client: Owned,
    link: Option<Owned>,
}

fn serve(address: net::Address, server: &Endpoint, request: &[u8]) -> io::Result<()> {
    let listener = net::bind(address, false)?;
    net::listen(&listener, BACKLOG, &ListenOptions::default())?;
    let mut mechanism = readiness::open("epoll")?;
    mechanism.add(listener.as_fd(), LISTENER, Interest::READ)?;
    let mut pairs: Vec<Option<Pair>> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Vec::new();
    loop {
        mechanism.wait(&mut events, -1)?;
        for event in &events {
            if event.token == LISTENER {
                while let Ok((client, _)) = net::accept(&listener, true) {
                    let free = pairs.iter().position(Option::is_none);
                    let at = free.unwrap_or(pairs.len());
                    mechanism.add(client.as_fd(), at as u64, Interest::READ)?;
                    let pair = Some(Pair { client, link: None });
                    match pairs.get_mut(at) {
                        Some(place) => *place = pair,
                        None => pairs.push(pair),
                    }
                }
                continue;
            }
            let at = (event.token & !LINK) as usize;
            let Some(Some(pair)) = pairs.get_mut(at) else { continue };
            let alive = match event.token & LINK {
                0 => ask(pair, at, server, request, &mut buffer, mechanism.as_mut()),
                _ => tell(pair, &mut buffer),
            };
            if alive.is_err() {
                pairs[at] = None;
            }
        }
    }
}

/// Takes what the client said, and asks the server.
fn ask(
    pair: &mut Pair,
    at: usize,
    server: &Endpoint,
    request: &[u8],
    buffer: &mut [u8],
    mechanism: &mut dyn Readiness,
) -> io::Result<()> {
    if net::recv(&pair.client, buffer)? == 0 || pair.link.is_some() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let link = net::begin_to_connect(server)?;
    net::send(&link, request, false)?;
    mechanism.add(link.as_fd(), LINK | at as u64, Interest::READ)?;
    pair.link = Some(link);
    Ok(())
}

/// Takes what the server said; at its end tells the client, and ends the link.
fn tell(pair: &mut Pair, buffer: &mut [u8]) -> io::Result<()> {
    let Some(link) = &pair.link else { return Ok(()) };
    let len = net::recv(link, buffer)?;
    let whole = len >= END_BYTES && buffer[len - END_BYTES + 1] == END;
    if len == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if whole {
        pair.link = None;
        net::send(&pair.client, ANSWER, false)?;
    }
    Ok(())
}
