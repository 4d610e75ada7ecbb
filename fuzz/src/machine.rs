//! The connection machine, driven by a program that the bytes are.

use std::sync::Arc;

use flyball_http::h1::Conn;
use flyball_http::h1::state::State;
use flyball_http::out::Front;
use flyball_http::{Answer, Body, CloseReason, Fields, Head, Limits, Now, Out, Segment, Status};

pub(crate) const WORDS: &[&[u8]] = &[
    b"\x00\x1eGET / HTTP/1.1\r\nHost: a\r\n\r\n\x00\x00\x00\x00",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"\r\n",
    b"\x01",
    b"\x02\xff",
    b"\x03",
    b"\x04\xff",
    b"\x05",
    b"\x06",
    b"\x07",
    b"\x08\xff",
    b"\x09",
    b"\x0a",
    b"\x0b",
    b"\x0c",
    b"\x0d",
];

/// Most steps that a connection may take to its end once only time passes.
const LAST_STEPS_MAX: usize = 1_000;

/// The bytes are operations with their operands: each is an input of the machine, given as the
/// contract allows. Afterwards time alone must bring the connection to its end.
///
/// # Panics
/// When the machine contradicts itself.
pub fn machine_operations(data: &[u8]) {
    let mut program = Program::new(data);
    while let Some(operation) = program.next() {
        program.perform(operation);
        program.check();
    }
    program.finish();
}

struct Program<'a> {
    data: &'a [u8],
    conn: Conn,
    out: Out<u8>,
    head: Head,
    input: Vec<u8>,
    input_max: usize,
    now: Now,
}

impl<'a> Program<'a> {
    fn new(data: &'a [u8]) -> Program<'a> {
        let limits = Limits {
            target_bytes_max: 64,
            head_bytes_max: 256,
            fields_max: 6,
            body_bytes_max: 300,
            drain_bytes_max: 40,
            linger_bytes_max: 100,
            pipeline_max: 3,
            head_ms: 100,
            idle_ms: 200,
            answer_ms: 150,
            linger_ms: 50,
            rate_window_ms: 100,
            ..Limits::default()
        };
        let now = Now::new(0, 784_111_777_000);
        Program {
            data,
            input_max: limits.head_bytes_max + 1,
            conn: Conn::new(Arc::new(limits), &now),
            out: Out::new(),
            head: Head::default(),
            input: Vec::new(),
            now,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(first)
    }

    fn operand(&mut self) -> u64 {
        u64::from(self.next().unwrap_or(0))
    }

    fn perform(&mut self, operation: u8) {
        if self.conn.wants().close.is_some() {
            return self.perform_after_the_end(operation);
        }
        match operation % 14 {
            0 => self.receive(),
            1 => self.recv(),
            2 => self.send(),
            3 => self.conn.eof(&self.now),
            4 => {
                let ms = self.operand() * 2;
                self.pass(ms);
            }
            5 => self.answer(),
            6 => {
                if self.conn.wants().ask {
                    self.conn.asked();
                }
            }
            7 => self.conn.deliver(&mut self.out, &self.now),
            8 => {
                let ready = self.conn.wants().body;
                if ready > 0 {
                    let n = (self.operand() as usize).min(ready);
                    self.conn.taken(n, &self.now);
                    self.input.drain(..n);
                }
            }
            9 => {
                if self.conn.wants().shut {
                    self.conn.shut(&self.now);
                }
            }
            10 => self.conn.drain(),
            11 => self.piece(),
            12 => {
                if self.conn.wants().piece {
                    self.conn.piece_asked(&self.now);
                }
            }
            _ => {
                if self.operand() > 200 {
                    self.conn.abort(CloseReason::SocketError);
                }
            }
        }
    }

    /// What may still happen to a connection that is over changes nothing.
    fn perform_after_the_end(&mut self, operation: u8) {
        match operation % 6 {
            0 => {
                assert_eq!(self.conn.recv(&self.input, &mut self.head, &mut self.out, &self.now), 0)
            }
            1 => self.conn.eof(&self.now),
            2 => self.answer(),
            3 => self.pass(1_000),
            4 => self.piece(),
            _ => self.conn.drain(),
        }
        assert_eq!(self.conn.state(), State::Closed);
    }

    fn receive(&mut self) {
        let n = (self.operand() as usize).min(self.data.len());
        let n = n.min(self.input_max - self.input.len());
        let (bytes, rest) = self.data.split_at(n);
        if self.conn.wants().read {
            self.input.extend_from_slice(bytes);
            self.data = rest;
            self.recv();
        }
    }

    fn recv(&mut self) {
        let wants = self.conn.wants();
        if wants.recv {
            let consumed = self.conn.recv(&self.input, &mut self.head, &mut self.out, &self.now);
            if self.conn.wants().ask && !wants.ask {
                assert_eq!(consumed, self.head.len, "a head is consumed by itself");
                let request = self.head.request(&self.input);
                assert!(!request.target().is_empty());
            }
            self.input.drain(..consumed);
        }
    }

    fn send(&mut self) {
        let most = self.operand() * 4;
        let n = self.queued().min(most);
        if n > 0 && self.conn.wants().write {
            self.out.sent(n);
            self.conn.sent(n, &self.out, &self.now);
        }
    }

    /// Bytes that one write could take.
    fn queued(&self) -> u64 {
        match self.out.front() {
            Front::Empty => 0,
            Front::File { len, .. } => len,
            Front::Memory => {
                let mut slices = [std::io::IoSlice::new(&[]); 64];
                let (count, _) = self.out.gather(&mut slices);
                slices[..count].iter().map(|slice| slice.len() as u64).sum()
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now.set(self.now.ms() + ms, self.now.unix_ms() + ms);
        let in_socket = ms % 3 * 100;
        self.conn.expired(in_socket, &mut self.out, &self.now);
    }

    fn answer(&mut self) {
        let kind = self.operand();
        let body = match kind % 6 {
            0 => Body::Empty,
            1 => Body::Bytes(vec![b'x'; 10].into()),
            2 => Body::File { file: 0, offset: 0, len: 500 },
            3 => Body::Stream { len: None },
            4 => Body::Stream { len: Some(kind) },
            _ => Body::Parts(vec![Segment::Bytes(vec![b'y'; 5].into())]),
        };
        let fields: Fields = [("Content-Length", "0")].into_iter().collect();
        let answer = Answer { status: Status::OK, fields: (&fields).into(), body };
        if kind > 240 {
            self.conn.end_with_answer();
        }
        self.conn.answered(answer, &mut self.out, &self.now);
    }

    /// A piece of any length, also one that breaks the promise, and where none is awaited.
    fn piece(&mut self) {
        let kind = self.operand();
        let content = match kind % 3 {
            0 => Segment::File { file: 0, offset: 0, len: kind },
            _ => Segment::Bytes(vec![b'z'; kind as usize / 2].into()),
        };
        match kind {
            250.. => self.conn.piece_failed(CloseReason::SourceFailed, &self.now),
            _ => self.conn.piece(content, kind.is_multiple_of(4), &mut self.out, &self.now),
        }
    }

    /// What is true after every input.
    fn check(&mut self) {
        let wants = self.conn.wants();
        assert_eq!(wants, self.conn.wants(), "asking changes nothing");
        if wants.close.is_some() {
            let only = flyball_http::h1::Wants { close: wants.close, ..Default::default() };
            assert_eq!(wants, only, "a closed connection wants nothing");
            assert_eq!(self.conn.deadline(), u64::MAX);
            return;
        }
        assert_eq!(wants.write, !self.out.is_empty(), "output waits, or it does not");
        assert!(!wants.read || wants.recv);
        assert!(wants.body == 0 || !wants.recv, "two takers for the same bytes");
        assert!(wants.body <= self.input.len());
        assert!(!wants.piece || self.conn.state() == State::Streaming && self.out.has_room());
        assert!(!wants.ask || matches!(self.conn.state(), State::Asked | State::AskedBody));
        assert!(!wants.read || self.input.len() < self.input_max || self.is_unseen());
        assert_ne!(self.conn.deadline(), u64::MAX, "{:?} waits for ever", self.conn.state());
        if self.now.ms() < self.conn.deadline() {
            let before = format!("{:?}", self.conn);
            self.conn.expired(0, &mut self.out, &self.now);
            assert_eq!(format!("{:?}", self.conn), before, "a spurious timer changed something");
        }
    }

    /// Whether input is left that the machine can still use.
    fn is_unseen(&self) -> bool {
        self.conn.wants().recv && !self.input.is_empty()
    }

    /// Nothing happens any more but time.
    fn finish(&mut self) {
        for _ in 0..LAST_STEPS_MAX {
            let wants = self.conn.wants();
            if wants.close.is_some() {
                return;
            }
            if wants.shut {
                self.conn.shut(&self.now);
            }
            let ms = self.conn.deadline().saturating_sub(self.now.ms());
            self.pass(ms);
            self.check();
        }
        panic!("{:?} never ends", self.conn.state());
    }
}
