//! What the access log is told of a request and its answer.

use flyball_http::h1::Conn;
use flyball_http::{Body, Now, Remote, Request, Secured, Status};
use flyball_observe::log::{AccessLogWriter, Answered, LogSender, OpenLines, Place};
use flyball_observe::waited::Waited;
use flyball_site::access::claimed_name;
use flyball_site::{Answer, Out, Service};

/// Answers to those who may not have logged in, whatever name they gave.
const NOT_LOGGED_IN: [Status; 4] = [
    Status::UNAUTHORIZED,
    Status::FORBIDDEN,
    Status::TOO_MANY_REQUESTS,
    Status::SERVICE_UNAVAILABLE,
];

/// When a request was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Began {
    /// On the clock of the log.
    pub ns: u64,
    /// How long it had waited by then.
    pub waited: Waited,
}

/// A request, as far as its line tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// When it was found.
    pub began: Began,
    /// When a backend was asked; 0 where none was.
    pub backend_ns: u64,
}

/// An answer, as far as its line tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    status: Status,
    /// Bytes of its body, if that is known.
    bytes: Option<u64>,
    /// The body is made while it is sent.
    is_stream: bool,
}

impl Told {
    /// What is told of this answer, before it is given to the machine.
    pub fn of(answer: &Answer<'_>) -> Told {
        let is_stream = matches!(answer.body, Body::Stream { .. });
        Told { status: answer.status, bytes: answer.body.content_len(), is_stream }
    }
}

/// One thread's end of the access log, and what it must know of logins.
#[derive(Debug)]
pub struct RequestLog {
    /// Where the lines go.
    pub lines: AccessLogWriter,
    behind_login: bool,
    /// The name and password of a request, decoded; never longer than a head.
    decoded: Vec<u8>,
}

impl RequestLog {
    /// Lines to this log.
    pub fn new(log: &LogSender) -> RequestLog {
        let lines = AccessLogWriter::new(log);
        RequestLog { lines, behind_login: false, decoded: Vec::new() }
    }

    /// Looks whether one has to log in for what this request asks for, if the lines say who has:
    /// that of the next line.
    pub fn expect_login(&mut self, service: &mut Service, request: &Request<'_>) {
        if self.lines.names_users() && service.has_restrictions() {
            self.behind_login = service.asks_login(request);
        }
    }

    /// Begins the line of a request whose answer, that of this site, was given to the machine, if
    /// there is such a line. Never waits.
    #[inline]
    pub fn answered(
        &mut self,
        asked: &Asked<'_>,
        (told, site): (Told, Option<usize>),
        conn: &Conn,
        (out, lines): (&Out, &mut OpenLines),
        now: &Now,
    ) {
        if self.lines.is_on() {
            self.begin_line(asked, (told, site), lines, now);
            let content = if told.is_stream { 0 } else { told.bytes.unwrap_or(0) };
            self.placed(content, conn, out, lines);
        }
    }

    fn begin_line(
        &mut self,
        asked: &Asked<'_>,
        (told, site): (Told, Option<usize>),
        lines: &mut OpenLines,
        now: &Now,
    ) {
        let Told { status, bytes, .. } = told;
        let is_behind = std::mem::take(&mut self.behind_login);
        let user = match is_behind && !NOT_LOGGED_IN.contains(&status) {
            true => claimed_name(asked.request, &mut self.decoded),
            false => None,
        };
        let Asked { request, began: Began { ns: began_ns, waited }, backend_ns } = *asked;
        let known = Answered { site, status, bytes, user, began_ns, backend_ns, waited };
        self.lines.begin(lines, request, &known, now);
    }

    /// Adds the line of a request that was refused before it was understood, when its answer is in
    /// the output.
    pub fn refused(
        &mut self,
        (status, content): (Status, u64),
        from: (Remote, Option<&Secured>, Waited),
        conn: &Conn,
        (out, lines): (&Out, &mut OpenLines),
        now: &Now,
    ) {
        if self.lines.is_on() {
            self.lines.begin_refusal(lines, (status, content), from, now);
            self.placed(content, conn, out, lines);
        }
    }

    /// So much content of the answer whose line was begun last is in the output with its head.
    fn placed(&mut self, content: u64, conn: &Conn, out: &Out, lines: &mut OpenLines) {
        let content = Some(content).filter(|_| !conn.awaits_piece());
        let queued_end = conn.handed_over() + out.queued();
        self.lines.place(lines, Place { queued_end, content }, conn.handed_over());
    }

    /// So much of a body that is made while it is sent was given to the machine.
    pub fn grown(
        &mut self,
        content: u64,
        conn: &Conn,
        (out, lines): (&Out, &mut OpenLines),
        now: &Now,
    ) {
        if lines.is_empty() {
            return;
        }
        self.lines.grow(lines, content);
        if !conn.awaits_piece() && !conn.is_broken_off() {
            self.lines.end_growing(lines, conn.handed_over() + out.queued());
            // Where the last piece is empty, all of it has left before.
            self.lines.sent(lines, conn.handed_over(), now);
        }
    }
}
