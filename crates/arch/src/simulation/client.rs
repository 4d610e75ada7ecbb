//! What clients ask for: a few requests, whole or hostile, and how the dialogue ends.

use std::fmt;

use super::random::Random;
use super::secure::Secure;
use super::site::{FASTCGI, LARGE_BYTES, MEDIUM_BYTES, SCGI};

/// Bytes of a request that are shown.
const SHOWN_BYTES: usize = 300;

/// How a client ends when it has sent all that it has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It sends no more once it has every answer.
    Patient,
    /// It sends no more at once.
    Early,
}

/// What one client says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Dialogue {
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) ending: Ending,
}

/// A client in the middle of its dialogue.
pub(super) struct Client {
    pub(super) script: Vec<u8>,
    /// How much of it was sent, or has become records.
    pub(super) at: usize,
    /// Its TLS, if it speaks that.
    pub(super) tls: Option<Box<Secure>>,
    pub(super) received: Vec<u8>,
    pub(super) ending: Ending,
    /// Bytes that all answers have; none are known while the answers are found out.
    pub(super) expected: usize,
    pub(super) is_connected: bool,
    pub(super) is_over: bool,
    /// Where each request begins in the script, while the answers are found out.
    pub(super) starts: Vec<usize>,
    /// Where the answers to each of them ended.
    pub(super) ends: Vec<usize>,
}

impl Client {
    pub(super) fn new(dialogue: &Dialogue, expected: usize) -> Client {
        let starts = dialogue.requests.iter().scan(0, |at, request| {
            *at += request.len();
            Some(*at - request.len())
        });
        Client {
            starts: starts.collect(),
            script: dialogue.requests.concat(),
            at: 0,
            tls: None,
            received: Vec::new(),
            ending: dialogue.ending,
            expected,
            is_connected: false,
            is_over: false,
            ends: Vec::new(),
        }
    }

    /// What a server says at the other end of a link, which is nothing yet.
    pub(super) fn of_link() -> Client {
        let dialogue = Dialogue { requests: Vec::new(), ending: Ending::Patient };
        Client { is_connected: true, ..Client::new(&dialogue, 0) }
    }

    pub(super) fn has_sent_all(&self) -> bool {
        self.at == self.script.len() && self.tls.as_ref().is_none_or(|tls| tls.waiting() == 0)
    }

    /// Whether it has something to say now: in a handshake it waits for the server in between.
    pub(super) fn can_send(&self) -> bool {
        let waits = |tls: &Secure| tls.waiting() == 0 && !tls.is_open();
        !self.has_sent_all() && !self.tls.as_deref().is_some_and(waits)
    }

    /// How many bytes it has to send next. Where records are to be made for that, `part` says of
    /// how many bytes of those that are left.
    pub(super) fn prepare(&mut self, part: impl FnOnce(usize) -> usize) -> usize {
        let Client { script, at, tls, .. } = self;
        let left = script.len() - *at;
        let Some(tls) = tls else { return left };
        if tls.waiting() == 0 && left > 0 && tls.is_open() {
            let n = part(left);
            tls.seal(&script[*at..*at + n]);
            *at += n;
        }
        tls.waiting()
    }

    /// Sends the next `n` bytes.
    pub(super) fn send(&mut self, n: usize) -> Vec<u8> {
        if let Some(tls) = &mut self.tls {
            return tls.take(n);
        }
        self.at += n;
        self.script[self.at - n..self.at].to_vec()
    }

    /// These bytes came.
    pub(super) fn take(&mut self, bytes: Vec<u8>) {
        match &mut self.tls {
            None => self.received.extend(bytes),
            Some(tls) => self.received.extend(tls.open(&bytes)),
        }
    }

    /// It sends no more; false where it says so first.
    pub(super) fn finishes(&mut self) -> bool {
        match &mut self.tls {
            Some(tls) if tls.says_end && tls.is_open() => {
                tls.end();
                false
            }
            _ => true,
        }
    }

    /// Where the request ends that begins here.
    pub(super) fn request_end(&self) -> usize {
        self.starts.iter().copied().find(|start| *start > self.at).unwrap_or(self.script.len())
    }
}

impl fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}:", self.ending)?;
        let shown = |one: &[u8]| one[..one.len().min(SHOWN_BYTES)].escape_ascii().to_string();
        self.requests.iter().try_for_each(|one| writeln!(f, "  {}", shown(one)))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Client { script, at, received, expected, .. } = self;
        let (sent, of, got) = (at, script.len(), received.len());
        write!(f, "has sent {sent} of {of} bytes, and has {got} of {expected}")?;
        self.tls.as_ref().map_or(Ok(()), |tls| write!(f, "; {tls:?}"))
    }
}

impl Dialogue {
    /// Whether a server is asked behind this one.
    pub(super) fn asks_server(&self) -> bool {
        self.requests.iter().any(|request| path_of_server(request).is_some())
    }

    /// Whether one is asked by SCGI.
    pub(super) fn asks_by_scgi(&self) -> bool {
        let asks =
            |request: &Vec<u8>| request.windows(SCGI.len()).any(|part| part == SCGI.as_bytes());
        self.requests.iter().any(asks)
    }

    /// Has the servers behind this one asked by SCGI.
    pub(super) fn ask_by_scgi(&mut self) {
        for request in &mut self.requests {
            if let Some(at) = path_of_server(request) {
                request[at..at + SCGI.len()].copy_from_slice(SCGI.as_bytes());
            }
        }
    }
}

/// Where the path of a server behind this one is in a request.
fn path_of_server(request: &[u8]) -> Option<usize> {
    request.windows(FASTCGI.len()).position(|part| part == FASTCGI.as_bytes())
}

/// A dialogue of at most six requests, of which only the last ends the connection.
pub(super) fn dialogue(random: &mut Random) -> Dialogue {
    let mut requests = Vec::new();
    for _ in 0..1 + random.below(6) {
        let (request, is_last) = match random.below(16) {
            0 => (hostile(random), true),
            1..4 => upload(random),
            _ => ask(random),
        };
        requests.push(request);
        if is_last {
            break;
        }
    }
    let mut ending = if random.one_in(3) { Ending::Early } else { Ending::Patient };
    let dialogue = Dialogue { requests, ending };
    if dialogue.asks_server() {
        // A client that sends no more has left while a server works for it.
        return Dialogue { ending: Ending::Patient, ..dialogue };
    }
    let Dialogue { mut requests, .. } = dialogue;
    if random.one_in(12)
        && let Some(last) = requests.last_mut()
    {
        // The end of the stream comes in the middle of it.
        last.truncate(1 + random.below(last.len()));
        ending = Ending::Early;
    }
    Dialogue { requests, ending }
}

/// The head of a request, and whether the client says that it is the last.
fn head(method: &str, path: &str, fields: &str, random: &mut Random) -> (Vec<u8>, bool) {
    let (version, connection, is_last) = match random.below(14) {
        0 => ("1.0", "", true),
        1 => ("1.0", "Connection: keep-alive\r\n", false),
        2 => ("1.1", "Connection: close\r\n", true),
        _ => ("1.1", "", false),
    };
    let noise = random.pick(&["", "Accept: */*\r\n", "X:\t\r\nUser-Agent: x y\r\n"]);
    let head =
        format!("{method} {path} HTTP/{version}\r\nHost: a\r\n{noise}{connection}{fields}\r\n");
    (head.into_bytes(), is_last)
}

/// A request without a body.
fn ask(random: &mut Random) -> (Vec<u8>, bool) {
    let path = random.pick(&[
        "/",
        "/small.txt",
        "/small.txt",
        "/empty.txt",
        "/medium.txt",
        "/large.txt",
        "/missing",
        "/dir",
        "/dir/",
        "/hello",
        "/a/../small.txt",
        "/%2e%2e/x",
        "/small.txt?q=1",
        "/app/one?300",
        "/app/two?9000",
    ]);
    let method = random.pick(&["GET", "GET", "GET", "GET", "HEAD", "OPTIONS"]);
    let (middle, end) = (MEDIUM_BYTES / 2, LARGE_BYTES + 1);
    let fields = match random.below(12) {
        0 => "If-None-Match: *\r\n".to_owned(),
        1 => "If-Modified-Since: Sun, 06 Nov 2094 08:49:37 GMT\r\n".to_owned(),
        2 => "Range: bytes=0-9\r\n".to_owned(),
        3 => format!("Range: bytes={middle}-\r\n"),
        4 => "Range: bytes=-5\r\n".to_owned(),
        5 => "Range: bytes=1-20,100-120\r\n".to_owned(),
        6 => format!("Range: bytes={end}-\r\n"),
        _ => String::new(),
    };
    head(method, path, &fields, random)
}

/// A request with a body, which is taken by a module or by none.
fn upload(random: &mut Random) -> (Vec<u8>, bool) {
    let path = random.pick(&["/digest", "/digest", "/app/three?50", "/hello", "/small.txt"]);
    let len = random.below(random.clone().pick(&[1, 200, 6_000]));
    let body: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    let chunked = random.one_in(2);
    let expects = if random.one_in(4) { "Expect: 100-continue\r\n" } else { "" };
    let framing = match chunked {
        true => "Transfer-Encoding: chunked\r\n".to_owned(),
        false => format!("Content-Length: {len}\r\n"),
    };
    let (mut request, is_last) = head("POST", path, &(framing + expects), random);
    // Chunks are of HTTP/1.1.
    let is_old = request.windows(8).any(|window| window == b"HTTP/1.0");
    match chunked {
        true => add_chunks(&mut request, &body, random),
        false => request.extend(&body),
    }
    (request, is_last || chunked && is_old)
}

fn add_chunks(request: &mut Vec<u8>, mut body: &[u8], random: &mut Random) {
    while !body.is_empty() {
        let (chunk, rest) = body.split_at(1 + random.below(body.len()));
        let extension = random.pick(&["", ";a", ";a=b;c=\"\\\"\""]);
        request.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
        request.extend(chunk);
        request.extend(b"\r\n");
        body = rest;
    }
    let trailer = random.pick(&["", "X: y\r\n", "X:\r\nContent-Length: 9\r\n"]);
    request.extend(format!("00\r\n{trailer}\r\n").bytes());
}

/// What no server should take.
fn hostile(random: &mut Random) -> Vec<u8> {
    let request = match random.below(8) {
        0 => "GET / HTTP/1.1\r\n\r\n".to_owned(),
        1 => "\x16\x03\x01\x02\x00\x01\x00".to_owned(),
        2 => "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n".to_owned(),
        3 => format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9_000)),
        4 => format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(17_000)),
        5 => "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".into(),
        6 => "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(),
        _ => "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n".to_owned(),
    };
    request.into_bytes()
}
