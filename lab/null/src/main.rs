//! A server that does nothing: one epoll loop that answers every read with the same bytes and never
//! looks at what it read. What it costs is the kernel's part; what another server costs beyond it
//! is its own.
//!
//! `flyball-null ADDRESS [BODY_BYTES [close]]` serves until it is ended. A read counts as one
//! request, as it is for clients that wait for each answer; one that asks for close waits for it in
//! vain, unless the last word says that every connection has one answer.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use flyball_sys::net::{self, ListenOptions};
use flyball_sys::owned::Owned;
use flyball_sys::process;
use flyball_sys::readiness::{self, Interest, Readiness};

/// Bytes of the body unless told otherwise.
const BODY_BYTES: usize = 1_024;

/// Largest body: more might not go out in one send.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Length of the accept queue.
const BACKLOG: u32 = 16_384;

/// Room for what is read and thrown away.
const READ_BYTES: usize = 16 * 1024;

/// The token of the listening socket; connections have their places from 0.
const LISTENER: u64 = u64::MAX;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = words.first().and_then(|word| word.parse().ok());
    let body = words.get(1).map_or(Some(BODY_BYTES), |word| word.parse().ok());
    let close = words.get(2).map(|word| word == "close");
    let (Some(address), Some(body @ 0..=BODY_BYTES_MAX), None | Some(true)) =
        (address, body, close)
    else {
        eprintln!("usage: flyball-null ADDRESS [BODY_BYTES, at most {BODY_BYTES_MAX} [close]]");
        return ExitCode::from(2);
    };
    match serve(address, &answer(body, close.is_some()), close.is_some()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flyball-null: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(body: usize, close: bool) -> Vec<u8> {
    let close = if close { "Connection: close\r\n" } else { "" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n{close}\r\n");
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + body, b'x');
    answer
}

fn serve(address: net::Address, answer: &[u8], close: bool) -> io::Result<()> {
    process::raise_descriptor_limit();
    let listener = net::bind(address, false)?;
    net::listen(&listener, BACKLOG, &ListenOptions::default())?;
    let mut mechanism = readiness::open("epoll")?;
    mechanism.add(listener.as_fd(), LISTENER, Interest::READ)?;
    let mut connections = Connections::default();
    let mut buffer = vec![0; READ_BYTES];
    // Whether the connection goes on.
    let mut talk = |socket: &Owned| match net::recv(socket, &mut buffer) {
        // An answer that does not fit is cut short: this server has no queue. The last one leaves
        // with the end of the stream, when the socket is closed.
        Ok(1..) => net::send(socket, answer, close).is_ok() && !close,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        Ok(0) => false,
    };
    let mut events = Vec::new();
    loop {
        mechanism.wait(&mut events, -1)?;
        for event in &events {
            if event.token == LISTENER {
                // Who has one answer may have asked already, and need not be waited for.
                let first = |socket: &Owned| !close || talk(socket);
                accept_all(&listener, &mut connections, mechanism.as_mut(), first);
            } else {
                let at = event.token as usize;
                let Some(socket) = connections.at(at) else { continue };
                if !talk(socket) {
                    connections.close(at);
                }
            }
        }
    }
}

fn accept_all(
    listener: &OwnedFd,
    connections: &mut Connections,
    mechanism: &mut dyn Readiness,
    mut first: impl FnMut(&Owned) -> bool,
) {
    // Whatever fails, the next event tells again.
    while let Ok((socket, _)) = net::accept(listener, true) {
        if !first(&socket) {
            continue;
        }
        let at = connections.add(socket);
        let watched = connections
            .at(at)
            .map(|socket| mechanism.add(socket.as_fd(), at as u64, Interest::READ));
        if !matches!(watched, Some(Ok(()))) {
            connections.close(at);
        }
    }
}

/// Open connections, in places that are reused.
#[derive(Default)]
struct Connections {
    places: Vec<Option<Owned>>,
    free: Vec<usize>,
}

impl Connections {
    fn add(&mut self, socket: Owned) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.places[at] = Some(socket);
                at
            }
            None => {
                self.places.push(Some(socket));
                self.places.len() - 1
            }
        }
    }

    fn at(&self, at: usize) -> Option<&Owned> {
        self.places.get(at)?.as_ref()
    }

    fn close(&mut self, at: usize) {
        if self.places.get_mut(at).and_then(Option::take).is_some() {
            self.free.push(at);
        }
    }
}
