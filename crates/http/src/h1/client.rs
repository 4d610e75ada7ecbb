//! The client's end of an HTTP/1.x connection: reads answers to requests that its owner writes.
//!
//! Same shape as the server's end: inputs mutate, [`Client::event`] says what is next, and the
//! body of an answer stays at the front of the caller's input until it says what it took.

use std::mem::MaybeUninit;

use crate::body::{BodyReader, Piece};
use crate::error::Refusal;
use crate::field::Lines;
use crate::framing::{Framing, content_length, keeps_alive, transfer_encoding};
use crate::head::Version;
use crate::limits::Limits;
use crate::scan::{FIELDS_CAP, HeadScan, read_fields, version_of};

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The status code.
    pub status: u16,
    /// The version.
    pub version: Version,
    /// The length of the body, when the head tells.
    pub length: Option<u64>,
    /// True when the connection may carry another request.
    pub keep_alive: bool,
    /// Length of the head in bytes, with its blank line.
    pub len: usize,
}

/// What comes next from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// No request is open.
    Idle,
    /// More input is needed.
    More,
    /// A final head was just parsed.
    Head(AnswerHead),
    /// This many bytes at the front of the input are body: take them with [`Client::taken`].
    Body(usize),
    /// The answer is complete.
    End,
    /// The connection cannot go on.
    Broken(Refusal),
}

/// How an answer's body ends.
#[derive(Clone, Copy, Debug)]
enum Rest {
    Framed(BodyReader),
    UntilClose,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    Head,
    Body(Rest),
    Done,
    Broken(Refusal),
}

/// The client's end of one connection; one request at a time.
#[derive(Debug)]
pub struct Client {
    limits: Limits,
    state: State,
    scan: HeadScan,
    to_head: bool,
    keep_alive: bool,
    /// Scratch for the fields of one head.
    fields: Lines,
}

impl Client {
    /// An end that has sent nothing yet.
    pub fn new(limits: Limits) -> Client {
        Client {
            limits,
            state: State::Idle,
            scan: HeadScan::default(),
            to_head: false,
            keep_alive: true,
            fields: Lines::default(),
        }
    }

    /// A request was sent; `to_head` says that its method is HEAD, so that no body follows.
    pub fn requested(&mut self, to_head: bool) {
        self.state = State::Head;
        self.scan = HeadScan::default();
        self.to_head = to_head;
    }

    /// Takes input: how many bytes of it are consumed, and what comes next. Interim answers (1xx)
    /// are passed over.
    pub fn recv(&mut self, input: &[u8]) -> (usize, Event) {
        match self.state {
            State::Idle => (0, Event::Idle),
            State::Done => (0, Event::End),
            State::Broken(refusal) => (0, Event::Broken(refusal)),
            State::Head => self.recv_head(input),
            State::Body(Rest::UntilClose) if input.is_empty() => (0, Event::More),
            State::Body(Rest::UntilClose) => (0, Event::Body(input.len())),
            State::Body(Rest::Framed(mut reader)) => match reader.read(input) {
                Err(refusal) => self.broken(refusal),
                Ok((eaten, piece)) => {
                    self.state = State::Body(Rest::Framed(reader));
                    let event = match piece {
                        Piece::More => Event::More,
                        Piece::Body(ready) => Event::Body(ready),
                        Piece::End => {
                            self.state = State::Done;
                            Event::End
                        }
                    };
                    (eaten, event)
                }
            },
        }
    }

    fn recv_head(&mut self, input: &[u8]) -> (usize, Event) {
        let mut at = 0;
        loop {
            let len = match self.scan.advance(&input[at..], &self.limits) {
                Err(refusal) => return self.broken(refusal),
                Ok(None) if !may_be_status_line(&input[at..]) => {
                    return self.broken(Refusal::Malformed);
                }
                Ok(None) => return (at, Event::More),
                Ok(Some(len)) => len,
            };
            let bytes = &input[at..at + len];
            let (head, rest) = match parse_answer(bytes, self.to_head, &mut self.fields) {
                Err(refusal) => return self.broken(refusal),
                Ok(parsed) => parsed,
            };
            at += len;
            self.scan = HeadScan::default();
            if head.status < 200 {
                continue;
            }
            self.keep_alive = head.keep_alive;
            self.state = State::Body(rest);
            return (at, Event::Head(head));
        }
    }

    /// The caller took `n` bytes of the body that was offered.
    pub fn taken(&mut self, n: usize) {
        if let State::Body(Rest::Framed(reader)) = &mut self.state {
            reader.take(n);
        }
    }

    /// The server closed its side: the end of a body without a length, a broken answer otherwise.
    pub fn eof(&mut self) -> Event {
        self.keep_alive = false;
        match self.state {
            State::Idle => Event::Idle,
            State::Done | State::Body(Rest::UntilClose) => {
                self.state = State::Done;
                Event::End
            }
            State::Body(Rest::Framed(reader)) if reader.is_complete() => {
                self.state = State::Done;
                Event::End
            }
            _ => self.broken(Refusal::Malformed).1,
        }
    }

    fn broken(&mut self, refusal: Refusal) -> (usize, Event) {
        self.keep_alive = false;
        self.state = State::Broken(refusal);
        (0, Event::Broken(refusal))
    }
}

/// Whether these bytes can be the beginning of an answer: other noise is told apart at its first
/// bytes, not when a blank line happens to come.
fn may_be_status_line(bytes: &[u8]) -> bool {
    const START: &[u8] = b"HTTP/1.";
    let empty_lines = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let line = &bytes[empty_lines..];
    let len = line.len().min(START.len());
    line[..len] == START[..len]
}

/// RFC 9112, section 6.3: the head of an answer and how its body ends.
fn parse_answer(
    bytes: &[u8],
    to_head: bool,
    fields: &mut Lines,
) -> Result<(AnswerHead, Rest), Refusal> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; FIELDS_CAP];
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        bytes,
        &mut headers,
    );
    let (Ok(httparse::Status::Complete(len)), Some(status)) = (status, parsed.code) else {
        return Err(Refusal::Malformed);
    };
    let version = version_of(parsed.version);
    read_fields(bytes, parsed.headers, fields);
    let length = content_length(bytes, fields)?;
    let chunked = transfer_encoding(bytes, fields)?;
    if chunked && length.is_some() {
        return Err(Refusal::AmbiguousFraming);
    }
    let persists = keeps_alive(bytes, fields, version);
    let bodiless = to_head || status < 200 || matches!(status, 204 | 304);
    let rest = match length {
        _ if bodiless => Rest::Framed(BodyReader::new(Framing::None, 0)),
        _ if chunked => Rest::Framed(BodyReader::new(Framing::Chunked, u64::MAX)),
        Some(length) => Rest::Framed(BodyReader::new(Framing::Length(length), u64::MAX)),
        None => Rest::UntilClose,
    };
    let keep_alive = persists && !matches!(rest, Rest::UntilClose);
    Ok((AnswerHead { status, version, length, keep_alive, len }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` in pieces of `step` bytes; the statuses, the bodies and how it ended.
    fn read(input: &[u8], to_head: bool, step: usize) -> (Vec<u16>, Vec<u8>, Event) {
        let mut client = Client::new(Limits::default());
        client.requested(to_head);
        let (mut statuses, mut body, mut at, mut end) = (Vec::new(), Vec::new(), 0, 0);
        loop {
            let (consumed, event) = client.recv(&input[at..end]);
            at += consumed;
            match event {
                Event::Head(head) => statuses.push(head.status),
                Event::Body(ready) => {
                    body.extend(&input[at..at + ready]);
                    client.taken(ready);
                    at += ready;
                }
                Event::More if end == input.len() => return (statuses, body, client.eof()),
                Event::More => end = (end + step).min(input.len()),
                Event::Idle | Event::End | Event::Broken(_) => return (statuses, body, event),
            }
        }
    }

    #[test]
    fn an_answer_is_the_same_however_its_bytes_arrive() {
        let cases: [(&[u8], &[u16], &[u8]); 4] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", &[200], b"hi"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                &[200],
                b"hi",
            ),
            (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", &[200], b"until the end"),
            (
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
                &[404],
                b"",
            ),
        ];
        for (input, statuses, body) in cases {
            for step in 1..=input.len() {
                let found = read(input, false, step);
                assert_eq!(found, (statuses.to_vec(), body.to_vec(), Event::End), "step {step}");
            }
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let input = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(input, true, 7), (vec![200], vec![], Event::End));
    }

    #[test]
    fn a_cut_answer_is_broken() {
        let input = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
        assert_eq!(read(input, false, 7).2, Event::Broken(Refusal::Malformed));
    }

    #[test]
    fn what_is_no_answer_is_broken_at_its_first_bytes() {
        for input in [&b"SSH-2.0-x\r\n"[..], b"\x16\x03\x01", b"HTTP/2 200 OK\r\n"] {
            let mut client = Client::new(Limits::default());
            client.requested(false);
            assert_eq!(client.recv(input).1, Event::Broken(Refusal::Malformed), "{input:?}");
        }
        assert_eq!(read(b"\r\nHTTP/1.1 204 No\r\n\r\n", false, 3).0, [204]);
    }

    #[test]
    fn ambiguous_answers_are_broken() {
        for head in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: +5",
            "Transfer-Encoding: gzip",
        ] {
            let input = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nhello");
            assert!(matches!(read(input.as_bytes(), false, 9).2, Event::Broken(_)), "{head}");
        }
    }
}
