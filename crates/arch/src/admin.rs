//! `--admin`: `/status` as JSON, `/metrics` as Prometheus text, and a page for people, from the
//! shared counters.
//!
//! Served by a process of its own, without the superuser's rights, one connection at a time with
//! blocking calls: it is read by one or two programs every few seconds, and it must not cost the
//! workers anything.

mod metrics;
mod page;
mod prometheus;
mod snapshot;
mod status;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_http::h1::{Answer, Body, Conn};
use flyball_http::head::Framing;
use flyball_http::{Head, Limits, Method, Now, Out, Request, Status};
use flyball_sys::channel::Channel;
use flyball_sys::net::{Address, Peer};
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::{clock, net};

use crate::control::{self, Command, Reply};
use crate::counters::Blocks;
use crate::{registry, trace};
use snapshot::Snapshot;

/// Longest time for one request on one connection.
const REQUEST_MS_MAX: u64 = 1_000;

/// Connections that have sent nothing yet: as many as a few browsers open ahead.
const SILENT_MAX: usize = 16;

/// Longest time that one sends nothing.
const SILENT_MS_MAX: u64 = 10_000;

/// Tokens of what the process waits for.
const SIGNALS: u64 = 0;
const CLIENTS: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// What the process serves.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) blocks: Arc<Blocks>,
    /// Where the master takes commands; none arrive over TCP.
    pub(crate) commands: Option<Channel>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) listeners: Vec<Arc<OwnedFd>>,
    pub(crate) started_ms: u64,
    pub(crate) master: i32,
}

/// Serves until told to stop. Blocks.
pub(crate) fn serve(admin: &Admin) -> io::Result<()> {
    let signals = Signals::block()?;
    let mut mechanism = readiness::open("poll")?;
    mechanism.add(signals.as_fd(), SIGNALS, Interest::READ)?;
    mechanism.add(admin.socket.as_fd(), CLIENTS, Interest::READ)?;
    let (mut events, mut silent) = (Vec::new(), Silent::default());
    loop {
        mechanism.wait(&mut events, silent.wait_ms())?;
        while let Some(signal) = signals.next() {
            if signal == Signal::Stop {
                return Ok(());
            }
        }
        for event in &events {
            if event.token == CLIENTS
                && let Ok((socket, _)) = net::accept(&*admin.socket, false)
            {
                silent.add(socket, mechanism.as_mut())?;
            }
            if let Some(socket) = silent.take(event.token, mechanism.as_mut()) {
                // A client that misbehaves has only itself to blame.
                let _ = serve_connection(admin, &socket);
            }
        }
        silent.end_late(mechanism.as_mut());
    }
}

/// Connections that were accepted and have sent nothing yet, the oldest first. Browsers open more
/// than they use, which must not keep others waiting.
#[derive(Default)]
struct Silent {
    /// Token, socket, and until when it may be silent.
    waiting: VecDeque<(u64, OwnedFd, u64)>,
    accepted: u64,
}

impl Silent {
    /// Takes one more in; the oldest makes room.
    fn add(&mut self, socket: OwnedFd, mechanism: &mut dyn Readiness) -> io::Result<()> {
        if self.waiting.len() >= SILENT_MAX
            && let Some((_, oldest, _)) = self.waiting.pop_front()
        {
            mechanism.remove(oldest.as_fd());
        }
        let token = FIRST_CLIENT + self.accepted;
        self.accepted += 1;
        mechanism.add(socket.as_fd(), token, Interest::READ)?;
        self.waiting.push_back((token, socket, clock::monotonic_ms() + SILENT_MS_MAX));
        Ok(())
    }

    /// The one that is silent no more.
    fn take(&mut self, token: u64, mechanism: &mut dyn Readiness) -> Option<OwnedFd> {
        let at = self.waiting.iter().position(|(known, ..)| *known == token)?;
        let (_, socket, _) = self.waiting.remove(at)?;
        mechanism.remove(socket.as_fd());
        Some(socket)
    }

    /// Closes those that have been silent for too long.
    fn end_late(&mut self, mechanism: &mut dyn Readiness) {
        let now_ms = clock::monotonic_ms();
        while self.waiting.front().is_some_and(|(_, _, until_ms)| *until_ms <= now_ms) {
            if let Some((_, socket, _)) = self.waiting.pop_front() {
                mechanism.remove(socket.as_fd());
            }
        }
    }

    /// Until the next is to be closed.
    fn wait_ms(&self) -> i32 {
        let Some((_, _, until_ms)) = self.waiting.front() else { return -1 };
        until_ms.saturating_sub(clock::monotonic_ms()) as i32
    }
}

/// Answers one request and closes.
fn serve_connection(admin: &Admin, socket: &OwnedFd) -> io::Result<()> {
    let mut now = Now::new(clock::monotonic_ms(), clock::unix_ms());
    let mut until_ms = now.ms() + REQUEST_MS_MAX;
    let limits = Limits::default();
    let mut input = vec![0; limits.head_bytes_max + 1];
    let (mut start, mut end) = (0, 0);
    let mut conn = Conn::new(Arc::new(limits), &now);
    let (mut head, mut out) = (Head::default(), Out::<()>::new());
    while now.ms() < until_ms {
        net::set_timeout(socket, Duration::from_millis(until_ms - now.ms()))?;
        let wants = conn.wants();
        if wants.close.is_some() {
            break;
        } else if wants.shut {
            net::shutdown_write(socket)?;
            conn.shut(&now);
        } else if wants.write {
            let mut slices = [io::IoSlice::new(&[]); 8];
            let (count, _) = out.gather(&mut slices);
            let sent = net::send_gather(socket, &slices[..count], false)? as u64;
            out.sent(sent);
            conn.sent(sent, &out, &now);
        } else if wants.read {
            let received = net::recv(socket, &mut input[end..])?;
            end += received;
            if received == 0 {
                conn.eof(&now);
                continue;
            }
            let at = start;
            start += conn.recv(&input[start..end], &mut head, &mut out, &now);
            if conn.wants().ask {
                let asked = Asked { admin, peer: net::peer(socket).ok() };
                answer(&asked, &head.request(&input[at..]), &mut conn, &mut out, &now);
                // The master may have taken its time.
                until_ms = clock::monotonic_ms() + REQUEST_MS_MAX;
            }
        } else {
            break;
        }
        now.set(clock::monotonic_ms(), clock::unix_ms());
    }
    Ok(())
}

/// Who asks, and whom.
struct Asked<'a> {
    admin: &'a Admin,
    /// Only a Unix-domain socket knows.
    peer: Option<Peer>,
}

fn answer(asked: &Asked<'_>, request: &Request<'_>, conn: &mut Conn, out: &mut Out<()>, now: &Now) {
    let admin = asked.admin;
    let methods = methods_of(request.path());
    let mut policy = String::new();
    let (status, media_type, text) = match request.path() {
        _ if !methods.split(", ").any(|known| known.as_bytes() == request.method_token()) => {
            (Status::METHOD_NOT_ALLOWED, "text/plain", format!("only {methods}\n"))
        }
        // Whoever puts a command there would think that it was heeded.
        _ if !matches!(request.head.framing, Framing::None | Framing::Length(0)) => {
            let why = "a request has no body here; commands are /settings?KEY=VALUE and the like\n";
            (Status::CONTENT_TOO_LARGE, "text/plain", why.to_string())
        }
        b"/settings" if request.method() == Method::Post => set(asked, request),
        b"/reload" => tell(asked, Ok(Command::Reload)),
        b"/drain" => tell(asked, Ok(Command::Drain)),
        b"/trace" => traces(admin, request),
        b"/upgrade" => tell(asked, Ok(Command::Upgrade)),
        b"/status" => (Status::OK, "application/json", status::write(&Snapshot::take(admin))),
        b"/metrics" => (Status::OK, prometheus::MEDIA_TYPE, metrics::write(&Snapshot::take(admin))),
        b"/settings" if !request.query().is_empty() => {
            let key = std::str::from_utf8(request.query()).unwrap_or_default();
            tell(asked, Command::get(key))
        }
        b"/settings" => (Status::OK, "application/json", settings(admin)),
        b"/" | b"/dashboard" => {
            let (page, more) = page::write();
            policy = more;
            (Status::OK, "text/html; charset=utf-8", page)
        }
        _ => {
            let known = "try /, /status, /metrics or /settings\n";
            (Status::NOT_FOUND, "text/plain", known.to_string())
        }
    };
    let refused = status == Status::METHOD_NOT_ALLOWED;
    let allow = if refused { format!("Allow: {methods}\r\n") } else { String::new() };
    let fields = format!(
        "{allow}{policy}Content-Type: {media_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\n\r\n",
        text.len()
    );
    let is_head = request.method() == Method::Head;
    let body = if is_head { Body::Empty } else { Body::Bytes(Bytes::from(text)) };
    conn.answered(Answer { status, fields: fields.as_bytes(), body, close: true }, out, now);
}

/// The methods that a path has.
fn methods_of(path: &[u8]) -> &'static str {
    match path {
        b"/reload" | b"/drain" | b"/trace" | b"/upgrade" => "POST",
        b"/settings" => "GET, HEAD, POST",
        _ => "GET, HEAD",
    }
}

/// `POST /settings?KEY=VALUE`: whoever may write to the Unix-domain socket may change the server.
fn set(asked: &Asked<'_>, request: &Request<'_>) -> (Status, &'static str, String) {
    const TEXT: &str = "text/plain";
    let query = std::str::from_utf8(request.query()).unwrap_or_default();
    let Some((key, value)) = query.split_once('=') else {
        return (Status::BAD_REQUEST, TEXT, "expected /settings?KEY=VALUE\n".into());
    };
    tell(asked, Command::set(key, value))
}

/// Passes a command on to the master, and its answer back. Waits for the master.
fn tell(asked: &Asked<'_>, command: Result<Command, String>) -> (Status, &'static str, String) {
    const TEXT: &str = "text/plain";
    let Asked { admin, peer } = *asked;
    let Some(master) = admin.commands.as_ref().filter(|_| net::is_unix(&*admin.socket)) else {
        let why = "the server is changed only through a Unix-domain socket\n";
        return (Status::FORBIDDEN, TEXT, why.into());
    };
    let told = |command| control::tell(master, &control::Request { peer, command });
    match command.map(told) {
        Ok(Reply::Done(text)) => (Status::OK, TEXT, text + "\n"),
        Ok(Reply::Refused(text)) => (Status::CONFLICT, TEXT, text + "\n"),
        Err(why) => (Status::BAD_REQUEST, TEXT, why + "\n"),
    }
}

/// `POST /trace`: what clients ask for is told only to whoever may change the server.
fn traces(admin: &Admin, request: &Request<'_>) -> (Status, &'static str, String) {
    if net::is_unix(&*admin.socket) {
        return trace::answer(admin.blocks.traces(), request.query());
    }
    let why = "requests are traced only through a Unix-domain socket\n";
    (Status::FORBIDDEN, "text/plain", why.into())
}

/// The settings that may be changed, and what they are.
fn settings(admin: &Admin) -> String {
    let settings = serde_json::json!({
        "architecture": architecture(admin),
        "accept.limit": admin.blocks.accept_limit().to_string(),
    });
    format!("{settings:#}\n")
}

fn architecture(admin: &Admin) -> &'static str {
    let (_, at, _) = admin.blocks.generation();
    registry::ALL.get(at).map_or("", |architecture| architecture.name())
}
