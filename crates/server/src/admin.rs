//! `--admin`: `/status` as JSON, `/metrics` as Prometheus text, and a page for people, from the
//! shared counters.
//!
//! Served by a process of its own, without the superuser's rights, one request at a time: it is
//! read by one or two programs every few seconds, and it must not cost the workers anything. A
//! command waits for the master, and others wait for it; no client that is slow is waited for.

mod metrics;
mod own;
mod page;
mod prometheus;
mod snapshot;
mod sockets;
mod status;
mod visit;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use flyball_arch::settings::{Listen, Settings};
use flyball_arch::shared_state::SharedState;
use flyball_http::h1::Conn;
use flyball_http::head::Content;
use flyball_http::{Answer, Body, Fields, Method, Name, Now, Out, Request, Status};
use flyball_observe::trace;
use flyball_site::SiteSettings;
use flyball_site::hosts::{Hosts, local_names};
use flyball_sys::channel::Channel;
use flyball_sys::net::Peer;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::{clock, net};
use snapshot::Snapshot;
use visit::Visit;

pub(crate) use own::shown;
pub use own::{Found, find};
pub(crate) use sockets::{AdminSocket, AdminSockets, lack, lacking};

use crate::control::{self, Command, Reply};
use crate::tls::Told;

/// Connections at a time: as many as a few browsers open ahead. The oldest makes room.
const VISITS_MAX: usize = 16;

/// Tokens of what the process waits for: of its doors by their numbers, then of clients.
const SIGNALS: u64 = 0;
const FIRST_DOOR: u64 = 1;
const FIRST_CLIENT: u64 = 1 << 32;

/// What the process serves.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) doors: Vec<Door>,
    pub(crate) shared: Arc<SharedState>,
    /// Where the master takes commands; over TCP only the question what can be changed.
    pub(crate) commands: Option<Arc<Channel>>,
    pub(crate) listens: Vec<Listen>,
    pub(crate) listeners: Vec<Arc<OwnedFd>>,
    pub(crate) started_ms: u64,
    pub(crate) master: i32,
    /// The file of the configuration, if there is one.
    pub(crate) configuration: Option<PathBuf>,
    /// The certificates of the sites.
    pub(crate) certificates: Vec<Told>,
}

/// A socket by which clients come, and what holds for them.
#[derive(Debug)]
pub(crate) struct Door {
    socket: Arc<OwnedFd>,
    /// Commands are taken in the file system alone: there the kernel asks who may.
    takes_commands: bool,
    /// The hosts that it answers to; `None` is any.
    hosts: Option<Hosts>,
}

impl Door {
    pub(crate) fn new(socket: &AdminSocket, settings: &Settings) -> Door {
        let socket = Arc::clone(&socket.socket);
        let (takes_commands, hosts) = (net::is_unix(&*socket), hosts(&socket, settings));
        Door { socket, takes_commands, hosts }
    }
}

/// The hosts that an admin process answers to on this socket; `None` is any. A page that has its
/// own name lead to this machine must not read there what only this machine shall see, and one that
/// others reach has hosts of its own only if they are given.
fn hosts(socket: &OwnedFd, settings: &Settings) -> Option<Hosts> {
    let named = &settings.running.admin_hosts;
    let is_local =
        net::local_address(socket).is_ok_and(|address| address.ip().to_canonical().is_loopback());
    if net::is_unix(socket) || !is_local && named.is_empty() {
        return None;
    }
    let of_sites = settings.sites.iter().flat_map(|site| &site.hosts);
    let of_sites = of_sites.filter(|host| *host != "*").cloned();
    let hosts = local_names(named).into_iter().chain(of_sites).collect();
    Some(Hosts::new(&[SiteSettings { hosts, ..SiteSettings::default() }]))
}

/// Serves until told to stop. Blocks.
pub(crate) fn serve(admin: &Admin) -> io::Result<()> {
    let signals = Signals::block()?;
    let mut mechanism = readiness::open("poll")?;
    mechanism.add(signals.as_fd(), SIGNALS, Interest::READ)?;
    for (token, door) in (FIRST_DOOR..).zip(&admin.doors) {
        mechanism.add(door.socket.as_fd(), token, Interest::READ)?;
    }
    let (mut events, mut visits) = (Vec::new(), Visits::default());
    loop {
        mechanism.wait(&mut events, visits.wait_ms())?;
        while let Some(signal) = signals.next() {
            if signal == Signal::Stop {
                return Ok(());
            }
        }
        for event in &events {
            if event.token >= FIRST_CLIENT {
                visits.go_on(event.token, admin, mechanism.as_mut());
                continue;
            }
            let number = event.token.checked_sub(FIRST_DOOR).map(|at| at as usize);
            let Some((number, door)) = number.and_then(|at| Some((at, admin.doors.get(at)?)))
            else {
                continue;
            };
            if let Ok((socket, _)) = net::accept(&*door.socket, true) {
                visits.add(socket, number, mechanism.as_mut())?;
            }
        }
        visits.end_late(mechanism.as_mut());
    }
}

/// Connections that were accepted, the oldest first. None of them is waited for alone: browsers
/// open more than they use, and a client may stop within a request.
#[derive(Default)]
struct Visits {
    all: VecDeque<(u64, Visit)>,
    accepted: u64,
}

impl Visits {
    /// Takes one more in; the oldest makes room.
    fn add(&mut self, socket: Owned, door: usize, mechanism: &mut dyn Readiness) -> io::Result<()> {
        if self.all.len() >= VISITS_MAX
            && let Some((_, oldest)) = self.all.pop_front()
        {
            mechanism.remove(oldest.socket().as_fd());
        }
        let token = FIRST_CLIENT + self.accepted;
        self.accepted += 1;
        mechanism.add(socket.as_fd(), token, Interest::READ)?;
        self.all.push_back((token, Visit::new(socket, door)));
        Ok(())
    }

    /// Something has happened on one of them.
    fn go_on(&mut self, token: u64, admin: &Admin, mechanism: &mut dyn Readiness) {
        let Some(at) = self.all.iter().position(|(known, _)| *known == token) else { return };
        let visit = &mut self.all[at].1;
        // A client that misbehaves has only itself to blame.
        let wants = visit.go_on(admin).unwrap_or(None);
        let goes_on = wants.is_some_and(|interest| {
            mechanism.change(visit.socket().as_fd(), token, interest).is_ok()
        });
        if !goes_on {
            self.end(at, mechanism);
        }
    }

    fn end(&mut self, at: usize, mechanism: &mut dyn Readiness) {
        if let Some((_, visit)) = self.all.remove(at) {
            mechanism.remove(visit.socket().as_fd());
        }
    }

    /// Closes those that have taken too long.
    fn end_late(&mut self, mechanism: &mut dyn Readiness) {
        let now_ms = clock::monotonic_ms();
        while let Some(at) = self.all.iter().position(|(_, visit)| visit.until_ms() <= now_ms) {
            self.end(at, mechanism);
        }
    }

    /// Until the next is to be closed.
    fn wait_ms(&self) -> i32 {
        let until_ms = self.all.iter().map(|(_, visit)| visit.until_ms()).min();
        until_ms.map_or(-1, |until_ms| until_ms.saturating_sub(clock::monotonic_ms()) as i32)
    }
}

/// Who asks, and whom.
struct Asked<'a> {
    admin: &'a Admin,
    /// Where they have come in.
    door: &'a Door,
    /// Only a Unix-domain socket knows.
    peer: Option<Peer>,
}

fn answer(asked: &Asked<'_>, request: &Request<'_>, conn: &mut Conn, out: &mut Out<()>, now: &Now) {
    let Asked { admin, door, .. } = asked;
    let methods = methods_of(request.path());
    let mut policy = Fields::default();
    let (status, media_type, text) = match request.path() {
        _ if door.hosts.as_ref().is_some_and(|hosts| hosts.choose(request.host()).is_none()) => {
            let why = "this host is not served here: admin-hosts says which are\n";
            (Status::MISDIRECTED_REQUEST, "text/plain", why.to_string())
        }
        _ if !methods.split(", ").any(|known| known.as_bytes() == request.method_token()) => {
            (Status::METHOD_NOT_ALLOWED, "text/plain", format!("only {methods}\n"))
        }
        // A client that puts a command there would think that it was heeded.
        _ if request.content() != Content::None => {
            let why = "a request has no body here; commands are /settings?KEY=VALUE and the like\n";
            (Status::CONTENT_TOO_LARGE, "text/plain", why.to_string())
        }
        b"/settings" if request.method() == Method::Post => set(asked, request),
        b"/certificates" => certificate(asked, request),
        b"/reload" => tell(asked, Ok(Command::Reload)),
        b"/drain" => tell(asked, Ok(Command::Drain)),
        b"/trace" => traces(asked, request),
        b"/upgrade" => tell(asked, Ok(Command::Upgrade)),
        b"/status" => (Status::OK, "application/json", status::write(&Snapshot::take(admin))),
        b"/metrics" => (Status::OK, prometheus::MEDIA_TYPE, metrics::write(&Snapshot::take(admin))),
        b"/settings" if !request.query().is_empty() => {
            let key = std::str::from_utf8(request.query()).unwrap_or_default();
            tell(asked, Command::get(key))
        }
        b"/settings" => settings(asked),
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
    let mut fields = Fields::default();
    if refused {
        fields.add(Name::Allow, methods);
    }
    fields.append(policy.lines());
    fields.add(Name::ContentType, media_type);
    fields.add_shown(Name::ContentLength, text.len());
    fields.add(Name::CacheControl, "no-store");
    let is_head = request.method() == Method::Head;
    let body = if is_head { Body::Empty } else { Body::Bytes(Bytes::from(text)) };
    conn.end_with_answer();
    conn.answered(Answer { status, fields: (&fields).into(), body }, out, now);
}

/// The methods that a path has.
fn methods_of(path: &[u8]) -> &'static str {
    match path {
        b"/reload" | b"/drain" | b"/trace" | b"/upgrade" | b"/certificates" => "POST",
        b"/settings" => "GET, HEAD, POST",
        _ => "GET, HEAD",
    }
}

/// `POST /settings?KEY=VALUE`: who may write to the Unix-domain socket may change the server.
fn set(asked: &Asked<'_>, request: &Request<'_>) -> (Status, &'static str, String) {
    const TEXT: &str = "text/plain";
    let query = std::str::from_utf8(request.query()).unwrap_or_default();
    let Some((key, value)) = query.split_once('=') else {
        return (Status::BAD_REQUEST, TEXT, "expected /settings?KEY=VALUE\n".into());
    };
    tell(asked, Command::set(key, value))
}

/// `POST /certificates?renew=NAME` or `revoke=NAME`.
fn certificate(asked: &Asked<'_>, request: &Request<'_>) -> (Status, &'static str, String) {
    let query = std::str::from_utf8(request.query()).unwrap_or_default();
    let (what, name) = query.split_once('=').unwrap_or((query, ""));
    tell(asked, Command::certificate(what, name))
}

/// Passes a command on to the master, and its answer back. Waits for the master.
fn tell(asked: &Asked<'_>, command: Result<Command, String>) -> (Status, &'static str, String) {
    if asked.door.takes_commands {
        return tell_master(asked, command);
    }
    let why = "the server is changed only through a Unix-domain socket\n";
    (Status::FORBIDDEN, "text/plain", why.into())
}

/// The same, whatever socket it comes from.
fn tell_master(
    asked: &Asked<'_>,
    command: Result<Command, String>,
) -> (Status, &'static str, String) {
    const TEXT: &str = "text/plain";
    let Asked { admin, peer, .. } = *asked;
    let Some(master) = &admin.commands else {
        return (Status::CONFLICT, TEXT, "there is no way to the master\n".into());
    };
    let told = |command| control::tell(master, &control::Request::new(peer, command));
    match command.map(told) {
        Ok(Reply::Done(text)) => (Status::OK, TEXT, text + "\n"),
        Ok(Reply::Refused(text)) => (Status::CONFLICT, TEXT, text + "\n"),
        Err(why) => (Status::BAD_REQUEST, TEXT, why + "\n"),
    }
}

/// `POST /trace`: what clients ask for is told only to users who may change the server.
fn traces(asked: &Asked<'_>, request: &Request<'_>) -> (Status, &'static str, String) {
    if asked.door.takes_commands {
        return trace::answer(asked.admin.shared.traces(), request.query());
    }
    let why = "requests are traced only through a Unix-domain socket\n";
    (Status::FORBIDDEN, "text/plain", why.into())
}

/// The settings that can be changed, and what they are: that is told over TCP too, since the
/// question has no words of the client's and changes nothing.
fn settings(asked: &Asked<'_>) -> (Status, &'static str, String) {
    match tell_master(asked, Ok(Command::Settings)) {
        (Status::OK, _, text) => (Status::OK, "application/json", text),
        failed => failed,
    }
}
