//! Drives a connection as an architecture does, with a virtual clock, a scripted site and a socket
//! that takes as much as it is told to.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;
use flyball_http::h1::state::State;
use flyball_http::h1::{Conn, STREAM_QUEUED_MAX};
use flyball_http::out::Front;
use flyball_http::{
    Answer, AnswerFields, Body, CloseReason, Fields, Head, Limits, Now, Out, Segment, Status,
};

/// What every answer says it was sent at.
pub const UNIX_MS: u64 = 784_111_777_000;

/// A file is known by the byte that it begins with; each byte is one more than the one before.
pub type File = u8;

/// What the driver would do next, were it an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Write,
    ReadWrite,
    Waiting,
    Shut,
    Close,
}

/// A body that is being taken, in windows of at most `window_max` bytes.
#[derive(Clone, Copy, Debug)]
struct Upload {
    window_max: usize,
    taken: u64,
    sum: u64,
}

/// A body that is being produced.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Bytes of each piece but the last.
    piece: u64,
    /// Bytes that there are.
    len: u64,
    /// Bytes that were given.
    given: u64,
    /// Each piece has to be waited for.
    waits: bool,
    /// It fails in the place of its last piece.
    fails: bool,
    /// A piece was asked for and is not there yet.
    asked: bool,
}

/// One connection with all that an architecture keeps for it.
pub struct Driver {
    /// The machine.
    pub conn: Conn,
    /// Everything that was put into the socket.
    pub wire: Vec<u8>,
    /// Why it was closed.
    pub closed: Option<CloseReason>,
    /// Whether the write side was shut down.
    pub was_shut: bool,
    /// Most bytes of one write.
    pub write_max: usize,
    /// Bytes that the socket still takes.
    pub room: u64,
    /// Bytes that the socket holds unacknowledged.
    pub in_socket: u64,
    drains: bool,
    /// Most answers that were ever queued together.
    pub batch_max: usize,
    /// Bytes that came and were not read yet.
    pub socket: Vec<u8>,
    /// Requests that reached the site.
    pub requests: usize,
    /// Pieces of produced bodies that were asked for.
    pub pieces: usize,
    limits: Arc<Limits>,
    out: Out<File>,
    head: Head,
    input: Vec<u8>,
    unseen: bool,
    now: Now,
    upload: Option<Upload>,
    source: Option<Source>,
    delayed: Option<Vec<u8>>,
    /// A backend sends the request body back while it comes.
    echoes: bool,
    batch: usize,
    eof: bool,
}

impl Driver {
    /// A connection that was accepted at time 0.
    pub fn new(limits: Limits) -> Driver {
        let now = Now::new(0, UNIX_MS);
        let limits = Arc::new(limits);
        Driver {
            conn: Conn::new(Arc::clone(&limits), &now),
            wire: Vec::new(),
            closed: None,
            was_shut: false,
            write_max: usize::MAX,
            room: u64::MAX,
            in_socket: 0,
            drains: false,
            batch_max: 0,
            socket: Vec::new(),
            requests: 0,
            pieces: 0,
            limits,
            out: Out::new(),
            head: Head::default(),
            input: Vec::new(),
            unseen: false,
            now,
            upload: None,
            source: None,
            delayed: None,
            echoes: false,
            batch: 0,
            eof: false,
        }
    }

    /// Bytes come from the client.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.socket.extend_from_slice(bytes);
        self.run();
    }

    /// The client closes its side; seen once all that it sent was read.
    pub fn finish(&mut self) {
        self.eof = true;
        self.run();
    }

    /// The driver learns at once that the client closed its side, whatever is unread.
    pub fn hang_up(&mut self) {
        self.conn.eof(&self.now);
        self.run();
    }

    /// Time passes, and nothing else happens before it has.
    pub fn wait(&mut self, ms: u64) {
        self.now.set(self.now.ms() + ms, UNIX_MS);
        self.conn.expired(self.in_socket, &mut self.out, &self.now);
        self.run();
    }

    /// The answer or the piece that was delayed is there. False when none was.
    pub fn release(&mut self) -> bool {
        if self.source.is_some_and(|source| source.asked) {
            self.give_piece();
            self.run();
            return true;
        }
        let Some(path) = self.delayed.take() else { return false };
        self.answer(&path);
        self.run();
        true
    }

    /// The holder of a body takes `n` bytes of it.
    pub fn take_held(&mut self, n: usize) {
        self.conn.taken(n, &self.now);
        self.input.drain(..n);
        self.unseen = !self.input.is_empty();
        self.run();
    }

    /// An answer comes that is not waited for any more.
    pub fn answer_late(&mut self) {
        self.answer(b"/late");
        self.run();
    }

    /// A piece comes that is not waited for.
    pub fn piece_late(&mut self) {
        let content = Segment::Bytes(Bytes::from_static(b"late"));
        self.conn.piece(content, true, &mut self.out, &self.now);
        self.conn.piece_failed(CloseReason::SourceFailed, &self.now);
        self.run();
    }

    /// The server drains.
    pub fn drain(&mut self) {
        self.conn.drain();
        self.drains = true;
        self.run();
    }

    /// Others take over.
    pub fn retire(&mut self) {
        self.conn.retire();
        self.run();
    }

    /// The socket fails.
    pub fn abort(&mut self, reason: CloseReason) {
        self.conn.abort(reason);
        self.run();
    }

    /// The socket takes this many bytes more.
    pub fn open(&mut self, room: u64) {
        self.room = room;
        self.run();
    }

    /// Where the connection stands.
    pub fn state(&self) -> State {
        self.conn.state()
    }

    /// What was put out, as text.
    pub fn text(&self) -> String {
        text(&self.wire)
    }

    /// Goes on until nothing more can be done without waiting.
    fn run(&mut self) {
        self.poke();
        loop {
            let moved = match self.advance() {
                Step::Read => self.read(),
                Step::Write => self.write(),
                Step::ReadWrite => self.write() || self.read(),
                Step::Waiting => false,
                Step::Shut => {
                    self.was_shut = true;
                    self.conn.shut(&self.now);
                    true
                }
                Step::Close => return,
            };
            if !moved && !self.expires_by_drain() {
                return;
            }
        }
    }

    /// What is idle while the server drains expires at once.
    fn expires_by_drain(&mut self) -> bool {
        let is_due = self.drains && self.conn.state() == State::Idle;
        if is_due && self.now.ms() >= self.conn.deadline() {
            self.conn.expired(self.in_socket, &mut self.out, &self.now);
            return true;
        }
        false
    }

    /// A wake-up without a cause changes nothing.
    fn poke(&mut self) {
        let wants = self.conn.wants();
        assert_eq!(wants, self.conn.wants());
        if self.now.ms() < self.conn.deadline() {
            let before = format!("{:?}", self.conn);
            self.conn.expired(0, &mut self.out, &self.now);
            assert_eq!(format!("{:?}", self.conn), before, "a spurious timer changed something");
        }
        assert!(!(wants.body > 0 && wants.recv), "two takers for the same bytes");
    }

    fn advance(&mut self) -> Step {
        loop {
            let wants = self.conn.wants();
            if let Some(reason) = wants.close {
                self.closed = Some(reason);
                return Step::Close;
            }
            if wants.shut {
                return Step::Shut;
            }
            if self.echoes && self.echo(wants.body) {
                continue;
            }
            if wants.body > 0 && self.upload.is_some() {
                self.take(wants.body);
                continue;
            }
            if self.conn.body_is_complete() && self.upload.is_some() {
                self.finish_upload();
                continue;
            }
            if wants.recv && self.unseen {
                self.recv();
                continue;
            }
            if wants.piece && !self.echoes && self.take_piece(wants.write) {
                continue;
            }
            return match (wants.read, wants.write) {
                (true, false) => Step::Read,
                (false, true) => Step::Write,
                (true, true) => Step::ReadWrite,
                (false, false) => Step::Waiting,
            };
        }
    }

    fn read(&mut self) -> bool {
        // One byte more than the longest head, as in the server.
        let room = self.limits.head_bytes_max + 1 - self.input.len();
        assert!(room > 0, "more input is wanted than any buffer holds");
        let n = room.min(self.socket.len());
        if n > 0 {
            self.input.extend(self.socket.drain(..n));
            self.unseen = true;
        } else if self.eof {
            self.conn.eof(&self.now);
        }
        n > 0 || self.eof
    }

    fn write(&mut self) -> bool {
        let most = self.write_max.min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let mut bytes = Vec::new();
        match self.out.front() {
            Front::Empty => panic!("a write is wanted, and there is nothing to be written"),
            Front::File { file, offset, len } => {
                let n = len.min(most as u64);
                bytes.extend((offset..offset + n).map(|at| file_byte(*file, at)));
            }
            Front::Memory => {
                let mut slices = [IoSlice::new(&[]); 64];
                let (count, _) = self.out.gather(&mut slices);
                bytes = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                bytes.truncate(most);
            }
        }
        if bytes.is_empty() {
            return false;
        }
        let n = bytes.len() as u64;
        self.wire.append(&mut bytes);
        self.room -= if self.room == u64::MAX { 0 } else { n };
        self.out.sent(n);
        self.conn.sent(n, &self.out, &self.now);
        if self.out.is_empty() {
            self.batch = 0;
        }
        true
    }

    fn recv(&mut self) {
        let consumed = self.conn.recv(&self.input, &mut self.head, &mut self.out, &self.now);
        assert!(consumed <= self.input.len());
        self.unseen = consumed > 0 && consumed < self.input.len();
        if self.conn.wants().ask {
            self.requests += 1;
            let path = self.head.request(&self.input).path().to_vec();
            self.ask(path);
        }
        self.input.drain(..consumed);
    }

    fn ask(&mut self, path: Vec<u8>) {
        if let Some(window) = number_after(&path, b"/upload/") {
            self.conn.asked();
            self.conn.deliver(&mut self.out, &self.now);
            self.upload = Some(Upload { window_max: window as usize, taken: 0, sum: 0 });
        } else if path.starts_with(b"/wait") {
            self.conn.asked();
            self.delayed = Some(path);
        } else if path.starts_with(b"/echo/") {
            self.conn.asked();
            self.conn.set_backend(true);
            self.conn.deliver(&mut self.out, &self.now);
            self.answer(&path);
            self.echoes = true;
        } else if path.starts_with(b"/hold/") {
            self.conn.asked();
            self.conn.deliver(&mut self.out, &self.now);
            self.delayed = Some(path);
        } else {
            self.answer(&path);
        }
    }

    fn answer(&mut self, path: &[u8]) {
        let pending = self.conn.wants().write;
        let reply = Reply::to(path);
        let fields = AnswerFields::from(&reply.fields);
        let answer = Answer { status: reply.status, fields, body: reply.body };
        if reply.close {
            self.conn.end_with_answer();
        }
        self.source = reply.source;
        let awaited = matches!(self.conn.state(), State::Asked | State::AskedBody);
        self.conn.answered(answer, &mut self.out, &self.now);
        assert_eq!(self.conn.wants().write, pending || awaited);
        self.batch += usize::from(awaited);
        self.batch_max = self.batch_max.max(self.batch);
        self.unseen = !self.input.is_empty();
    }

    /// Gives a piece that is there, or begins to wait for one when nothing is left to be written.
    fn take_piece(&mut self, writes: bool) -> bool {
        assert!(self.out.queued() < STREAM_QUEUED_MAX, "no room for a piece");
        let source = self.source.as_mut().expect("a piece is asked of no source");
        if source.waits && writes {
            return false;
        }
        self.pieces += 1;
        if source.waits {
            source.asked = true;
            self.conn.piece_asked(&self.now);
            assert!(!self.conn.wants().piece, "a piece is asked for twice");
        } else {
            self.give_piece();
        }
        true
    }

    fn give_piece(&mut self) {
        let Some(source) = &mut self.source else { return };
        source.asked = false;
        let (at, n) = (source.given, source.piece.min(source.len - source.given));
        source.given += n;
        let last = source.given == source.len;
        if last && source.fails {
            return self.conn.piece_failed(CloseReason::SourceFailed, &self.now);
        }
        // Now a file, now memory.
        let content = match at / source.piece.max(1) % 2 {
            0 => Segment::Bytes((at..at + n).map(|at| file_byte(0, at)).collect()),
            _ => Segment::File { file: 0, offset: at, len: n },
        };
        self.conn.piece(content, last, &mut self.out, &self.now);
        self.unseen = !self.input.is_empty();
    }

    fn take(&mut self, ready: usize) {
        let Some(upload) = &mut self.upload else { return };
        let n = ready.min(upload.window_max);
        upload.taken += n as u64;
        upload.sum += self.input[..n].iter().map(|&byte| u64::from(byte)).sum::<u64>();
        self.conn.taken(n, &self.now);
        self.input.drain(..n);
        self.unseen = !self.input.is_empty();
    }

    /// The backend gets the body that is there and sends it back; false when there is none.
    fn echo(&mut self, ready: usize) -> bool {
        let last = self.conn.body_is_complete();
        self.echoes = !last && self.conn.awaits_piece();
        if ready == 0 && !last {
            return false;
        }
        let bytes: Vec<u8> = self.input.drain(..ready).collect();
        self.conn.piece(Segment::Bytes(bytes.into()), last, &mut self.out, &self.now);
        if ready > 0 {
            self.conn.taken(ready, &self.now);
        }
        self.unseen = !self.input.is_empty();
        true
    }

    fn finish_upload(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        self.answer(format!("/sum/{}/{}", upload.taken, upload.sum).as_bytes());
    }
}

/// Bytes as text in which each byte is one character.
pub fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// What the scripted site answers.
pub struct Reply {
    /// The status.
    pub status: Status,
    /// The fields.
    pub fields: Fields,
    /// The content.
    pub body: Body<'static, File>,
    /// Whether the connection must end.
    pub close: bool,
    /// What produces the content, if it is produced.
    pub source: Option<Source>,
}

impl Reply {
    /// The answer by path alone: `/file/N` is N bytes of a file, `/parts` is several pieces,
    /// `/empty` nothing, `/close` ends the connection, those of [`Reply::produced`] are produced,
    /// any other path is its own content.
    pub fn to(path: &[u8]) -> Reply {
        if let Some(reply) = Reply::produced(path) {
            return reply;
        }
        let (body, len) = if let Some(len) = number_after(path, b"/file/") {
            (Body::File { file: len as u8, offset: 3, len }, len)
        } else if path == b"/empty" {
            (Body::Empty, 0)
        } else if path == b"/parts" {
            let text = Segment::Bytes(Bytes::from_static(b"--one--"));
            let file = Segment::File { file: 65, offset: 0, len: 26 };
            (Body::Parts(vec![text.clone(), file, text]), 40)
        } else {
            (Body::Bytes(Bytes::copy_from_slice(path)), path.len() as u64)
        };
        Reply {
            status: Status::OK,
            fields: [("Content-Length", len.to_string())].into_iter().collect(),
            body,
            close: path == b"/close",
            source: None,
        }
    }

    /// `/stream/N/P` is N bytes in pieces of P, `/sized/N/P` the same with its length, `/slow/N/P`
    /// one whose pieces come when they are released, `/short/N/P` and `/long/N/P` break the length
    /// that they promise, `/failing/N/P` has no last piece, and `/echo/0/0`
    /// is the request body.
    fn produced(path: &[u8]) -> Option<Reply> {
        let mut parts = std::str::from_utf8(path).ok()?.strip_prefix('/')?.split('/');
        let kind = parts.next()?;
        let (len, piece): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let promised = match kind {
            "stream" | "slow" | "failing" | "echo" => None,
            "sized" => Some(len),
            "short" => Some(len + 1),
            "long" => Some(len - 1),
            _ => return None,
        };
        let (waits, fails) = (kind == "slow", kind == "failing");
        Some(Reply {
            status: Status::OK,
            fields: Fields::default(),
            body: Body::Stream { len: promised },
            close: false,
            source: (kind != "echo").then_some(Source {
                piece,
                len,
                given: 0,
                waits,
                fails,
                asked: false,
            }),
        })
    }

    /// The bytes of the content.
    pub fn content(&self) -> Vec<u8> {
        let of_file = |file: File, offset: u64, len: u64| {
            (offset..offset + len).map(|at| file_byte(file, at)).collect::<Vec<u8>>()
        };
        match &self.body {
            Body::Empty => Vec::new(),
            Body::Copied(bytes) => bytes.to_vec(),
            Body::Bytes(bytes) => bytes.to_vec(),
            Body::File { file, offset, len } => of_file(*file, *offset, *len),
            Body::Parts(parts) => parts
                .iter()
                .flat_map(|part| match part {
                    Segment::Inline(_) => Vec::new(),
                    Segment::Bytes(bytes) => bytes.to_vec(),
                    Segment::File { file, offset, len } => of_file(*file, *offset, *len),
                })
                .collect(),
            Body::Stream { .. } => of_file(0, 0, self.source.map_or(0, |source| source.len)),
        }
    }

    /// The content as chunks, one for each piece.
    pub fn chunks(&self) -> Vec<u8> {
        let (content, mut chunks) = (self.content(), Vec::new());
        let piece = self.source.map_or(1, |source| source.piece as usize);
        for chunk in content.chunks(piece) {
            chunks.extend(format!("{:x}\r\n", chunk.len()).bytes());
            chunks.extend(chunk);
            chunks.extend(b"\r\n");
        }
        chunks.extend(b"0\r\n\r\n");
        chunks
    }
}

fn file_byte(file: File, at: u64) -> u8 {
    file.wrapping_add(at as u8)
}

fn number_after(path: &[u8], prefix: &[u8]) -> Option<u64> {
    std::str::from_utf8(path.strip_prefix(prefix)?).ok()?.parse().ok()
}
