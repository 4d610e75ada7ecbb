//! `--admin`: `/status` as JSON and `/metrics` as Prometheus text, from the shared counters.
//!
//! Served by a process of its own, without the superuser's rights, one connection at a time with
//! blocking calls: it is read by one or two programs every few seconds, and it must not cost the
//! workers anything.

use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_http::h1::state::State;
use flyball_http::h1::{Answer, Body, Conn};
use flyball_http::{CloseReason, Head, Limits, Method, Now, Out, Request, Status};
use flyball_sys::net::Address;
use flyball_sys::netstat::Drops;
use flyball_sys::readiness::{self, Interest};
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::{clock, net, process};

use crate::control::{self, Command, Reply};
use crate::counters::{Blocks, Counter, Totals};
use crate::registry;

/// The user and group that hold no rights and own no files.
const NOBODY: u32 = 65_534;

/// Longest time for one request on one connection.
const REQUEST_MS_MAX: u64 = 1_000;

/// What the process serves.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) blocks: Arc<Blocks>,
    /// Where the master takes commands; none arrive over TCP.
    pub(crate) commands: Option<OwnedFd>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) listeners: Vec<Arc<OwnedFd>>,
    pub(crate) started_ms: u64,
    pub(crate) master: i32,
}

/// Serves until told to stop. Blocks.
pub(crate) fn serve(admin: &Admin) -> io::Result<()> {
    if process::is_root() {
        process::become_user(NOBODY)?;
        // The kernel forgets it when a process changes its user.
        process::die_with_parent(admin.master)?;
    }
    let signals = Signals::block()?;
    let mut mechanism = readiness::open("poll")?;
    mechanism.add(signals.as_fd(), 0, Interest::READ)?;
    mechanism.add(admin.socket.as_fd(), 1, Interest::READ)?;
    let mut events = Vec::new();
    loop {
        mechanism.wait(&mut events, -1)?;
        while let Some(signal) = signals.next() {
            if signal == Signal::Stop {
                return Ok(());
            }
        }
        if events.iter().any(|event| event.token == 1)
            && let Ok((socket, _)) = net::accept(&*admin.socket, false)
        {
            // A client that misbehaves has only itself to blame.
            let _ = serve_connection(admin, &socket);
        }
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
                answer(admin, &head.request(&input[at..]), &mut conn, &mut out, &now);
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

fn answer(admin: &Admin, request: &Request<'_>, conn: &mut Conn, out: &mut Out<()>, now: &Now) {
    let readable = matches!(request.method(), Method::Get | Method::Head);
    let (status, media_type, text) = match request.path() {
        b"/settings" if request.method() == Method::Post => set(admin, request),
        b"/reload" if request.method() == Method::Post => tell(admin, Ok(Command::Reload)),
        b"/drain" if request.method() == Method::Post => tell(admin, Ok(Command::Drain)),
        _ if !readable => {
            (Status::METHOD_NOT_ALLOWED, "text/plain", "only GET and HEAD\n".to_string())
        }
        b"/status" => (Status::OK, "application/json", status(admin)),
        b"/metrics" => (Status::OK, "text/plain; version=0.0.4", metrics(admin)),
        b"/settings" => (Status::OK, "application/json", settings(admin)),
        _ => (Status::NOT_FOUND, "text/plain", "try /status, /metrics or /settings\n".to_string()),
    };
    let refused = status == Status::METHOD_NOT_ALLOWED;
    let allow = if refused { "Allow: GET, HEAD\r\n" } else { "" };
    let fields = format!(
        "{allow}Content-Type: {media_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\n\r\n",
        text.len()
    );
    let is_head = request.method() == Method::Head;
    let body = if is_head { Body::Empty } else { Body::Bytes(Bytes::from(text)) };
    conn.answered(Answer { status, fields: fields.as_bytes(), body, close: true }, out, now);
}

/// `POST /settings?KEY=VALUE`: whoever may write to the Unix-domain socket may change the server.
fn set(admin: &Admin, request: &Request<'_>) -> (Status, &'static str, String) {
    const TEXT: &str = "text/plain";
    let query = std::str::from_utf8(request.query()).unwrap_or_default();
    let Some((key, value)) = query.split_once('=') else {
        return (Status::BAD_REQUEST, TEXT, "expected /settings?KEY=VALUE\n".into());
    };
    tell(admin, Command::set(key, value))
}

/// Passes a command on to the master, and its answer back. Waits for the master.
fn tell(admin: &Admin, command: Result<Command, String>) -> (Status, &'static str, String) {
    const TEXT: &str = "text/plain";
    let Some(master) = admin.commands.as_ref().filter(|_| net::is_unix(&*admin.socket)) else {
        let why = "the server is changed only through a Unix-domain socket\n";
        return (Status::FORBIDDEN, TEXT, why.into());
    };
    match command.map(|command| control::tell(master, command)) {
        Ok(Reply::Done(text)) => (Status::OK, TEXT, text + "\n"),
        Ok(Reply::Refused(text)) => (Status::CONFLICT, TEXT, text + "\n"),
        Err(why) => (Status::BAD_REQUEST, TEXT, why + "\n"),
    }
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

fn state_label(state: State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::Head => "reading-head",
        State::Asked => "asked",
        State::AskedBody => "reading-body",
        State::AnsweredBody => "draining-body",
        State::Streaming => "streaming",
        State::Exchanging => "exchanging",
        State::Closing => "closing",
        State::Parting => "parting",
        State::Lingering => "lingering",
        State::Closed => "closed",
    }
}

/// Length and limit of the accept queues, summed over the listening sockets.
fn accept_queues(admin: &Admin) -> (u64, u64) {
    let queues = admin.listeners.iter().filter_map(|socket| net::accept_queue(&**socket).ok());
    queues.fold((0, 0), |(len, limit), (l, m)| (len + u64::from(l), limit + u64::from(m)))
}

fn live_states() -> impl Iterator<Item = State> {
    State::ALL.into_iter().filter(|state| *state != State::Closed)
}

fn status(admin: &Admin) -> String {
    let totals = admin.blocks.totals();
    let uptime_ms = clock::monotonic_ms().saturating_sub(admin.started_ms).max(1);
    let counters: serde_json::Map<_, _> = Counter::ALL
        .iter()
        .map(|counter| (counter.label().into(), totals.counter(*counter).into()))
        .collect();
    let closed: serde_json::Map<_, _> = CloseReason::ALL
        .iter()
        .map(|reason| (reason.label().into(), totals.closed(*reason).into()))
        .collect();
    let states: serde_json::Map<_, _> = live_states()
        .map(|state| (state_label(state).into(), totals.connections(state).into()))
        .collect();
    let (queued, queue_limit) = accept_queues(admin);
    let drops = Drops::read();
    let accepted = totals.counter(Counter::Accepted);
    let (generation, _, workers) = admin.blocks.generation();
    let status = serde_json::json!({
        "architecture": architecture(admin),
        "generation": generation,
        "workers": workers,
        "listen": admin.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "uptime_ms": uptime_ms,
        "counters": counters,
        "connections": states,
        "closed": closed,
        "kernel_drops": {
            "listen_drops": drops.listen_drops,
            "listen_overflows": drops.listen_overflows,
            "request_queue_drops": drops.request_queue_drops,
            "request_queue_cookies": drops.request_queue_cookies,
        },
        "accept_queue": { "length": queued, "limit": queue_limit },
        "equation_1": {
            "accept_phases": totals.counter(Counter::AcceptPhases),
            "accepted_per_phase": totals.accepted_per_phase(),
            "accepts_per_second": accepted as f64 * 1000.0 / uptime_ms as f64,
        },
        "worked_on_per_phase": totals.worked_on_per_phase(),
    });
    format!("{status:#}\n")
}

/// The text format of Prometheus, version 0.0.4. Labels are enumerators: their number is bounded.
fn metrics(admin: &Admin) -> String {
    let totals = admin.blocks.totals();
    let mut text = String::new();
    for counter in Counter::ALL.iter().filter(|c| status_class(**c).is_none()) {
        let name = format!("flyball_{}_total", counter.label());
        family(&mut text, &name, "counter", counter.help());
        let _ = writeln!(text, "{name} {}", totals.counter(*counter));
    }
    family(&mut text, "flyball_responses_total", "counter", "Answers by class of status.");
    for counter in Counter::ALL {
        if let Some(class) = status_class(*counter) {
            let value = totals.counter(*counter);
            let _ = writeln!(text, "flyball_responses_total{{class=\"{class}\"}} {value}");
        }
    }
    write_connections(&mut text, &totals);
    write_drops(&mut text);
    let (queued, limit) = accept_queues(admin);
    family(&mut text, "flyball_accept_queue_length", "gauge", "Connections not yet accepted.");
    let _ = writeln!(text, "flyball_accept_queue_length {queued}");
    family(&mut text, "flyball_accept_queue_limit", "gauge", "Room in the accept queues.");
    let _ = writeln!(text, "flyball_accept_queue_limit {limit}");
    text
}

/// Of the whole network namespace: the kernel does not count them by socket.
fn write_drops(text: &mut String) {
    let drops = Drops::read();
    for (name, value, help) in [
        ("listen_drops", drops.listen_drops, "Connections that listening sockets dropped."),
        ("listen_overflows", drops.listen_overflows, "Those dropped by a full accept queue."),
        ("request_queue_drops", drops.request_queue_drops, "First packets dropped."),
        ("request_queue_cookies", drops.request_queue_cookies, "First packets given a cookie."),
    ] {
        let name = format!("flyball_kernel_{name}_total");
        family(text, &name, "counter", help);
        let _ = writeln!(text, "{name} {value}");
    }
}

fn write_connections(text: &mut String, totals: &Totals) {
    family(text, "flyball_connections", "gauge", "Open connections by state.");
    for state in live_states() {
        let (label, value) = (state_label(state), totals.connections(state));
        let _ = writeln!(text, "flyball_connections{{state=\"{label}\"}} {value}");
    }
    family(text, "flyball_closed_total", "counter", "Connections closed, by reason.");
    for reason in CloseReason::ALL {
        let (label, value) = (reason.label(), totals.closed(*reason));
        let _ = writeln!(text, "flyball_closed_total{{reason=\"{label}\"}} {value}");
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn status_class(counter: Counter) -> Option<&'static str> {
    match counter {
        Counter::Status1 => Some("1xx"),
        Counter::Status2 => Some("2xx"),
        Counter::Status3 => Some("3xx"),
        Counter::Status4 => Some("4xx"),
        Counter::Status5 => Some("5xx"),
        _ => None,
    }
}
