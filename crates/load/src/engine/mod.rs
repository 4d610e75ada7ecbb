//! The engine: threads that open connections, ask and listen.
//!
//! Each thread has an epoll instance, a table of connections and a wheel of timers of its own, and
//! takes every n-th arrival of the schedule; they share the prepared requests and nothing else. A
//! request on a connection that is kept costs a send and a receive beside the shared wait; a new
//! connection costs socket, connect, send, epoll_ctl, receive and close.

mod busy;
mod connection;
mod generator;
mod kept;
mod pace;
mod pauses;
mod retries;
mod secure;
mod traffic;
mod wheel;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use flyball_sys::clock::monotonic_ns;
use flyball_sys::process;
use flyball_tls::Client;

use crate::observe::{Live, Tally, Window};
use crate::schedule::Schedule;
use crate::think::Think;
use crate::workload::{Catalog, Workload};
use generator::Generator;
pub use retries::{BACKOFF_MAX, Retries};

/// Most connections that one thread holds.
pub const CONNECTIONS_MAX: usize = 1 << 22;

/// Time from the decision to start until the first arrival: for threads to be there.
pub const LEAD: Duration = Duration::from_millis(5);

/// When requests are sent.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Sessions arrive when they arrive, whatever the server does.
    Open(Schedule),
    /// So many connections are kept busy.
    Closed(u32),
    /// Sessions arrive when they arrive, and share so many connections, which are kept.
    Kept(Schedule, u32),
}

/// How long a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// From the beginning of a request to the first byte of its reply.
    pub first_byte: Duration,
    /// From the beginning of a request, connecting included, to the end of its reply.
    pub reply: Duration,
}

/// How a client ends connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// By a FIN; the port rests in TIME_WAIT.
    #[default]
    Orderly,
    /// By a reset; the port is free at once.
    Reset,
}

/// How every client of a run behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Most requests that wait for their replies on one connection.
    pub pipeline: u32,
    /// Addresses that it connects from, in turn; none leaves it to the kernel.
    pub sources: Vec<IpAddr>,
    /// Receive buffer of each connection, in bytes.
    pub receive_buffer: Option<u32>,
    /// Bytes in a second that it reads from each connection.
    pub read_rate: Option<u64>,
    /// Bytes in a second that it writes to each connection.
    pub write_rate: Option<u64>,
    /// Bytes of bodies in a second that its line carries: what comes at once is asked for no sooner
    /// than it would have come by then.
    pub line_rate: Option<u64>,
    /// How it ends connections.
    pub closing: Closing,
    /// Whether replies are compared with what is expected.
    pub verify: bool,
}

impl Default for Behaviour {
    /// One request after the other, as fast as they go.
    fn default() -> Behaviour {
        Behaviour {
            pipeline: 1,
            sources: Vec::new(),
            receive_buffer: None,
            read_rate: None,
            write_rate: None,
            line_rate: None,
            closing: Closing::default(),
            verify: false,
        }
    }
}

/// How the clients of a run speak TLS.
#[derive(Clone, Debug)]
pub struct Secure {
    /// What their sessions have in common.
    pub client: Client,
    /// The share of connections that resume an earlier session, of 0 to 1.
    pub resume: f64,
}

/// A part of a load that several processes generate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Share {
    /// All of it.
    pub const ALL: Share = Share { index: 0, of: 1 };
}

/// A run.
#[derive(Debug)]
pub struct Plan {
    /// Where connections go, in turn.
    pub addresses: Vec<SocketAddr>,
    /// When requests are sent.
    pub mode: Mode,
    /// For how long sessions begin, warm-up included.
    pub duration: Duration,
    /// The first part of it, which is not counted.
    pub warmup: Duration,
    /// Threads.
    pub threads: u32,
    /// What everything random comes from.
    pub seed: u64,
    /// How clients behave.
    pub behaviour: Behaviour,
    /// How they speak TLS; `None` is in the clear.
    pub secure: Option<Secure>,
    /// How long they wait.
    pub timeouts: Timeouts,
    /// How often they try again.
    pub retries: Retries,
    /// Requests after which a client closes a connection that is kept and opens another.
    pub requests_per_connection: Option<u32>,
    /// Whether every session has a connection of its own, also where sessions follow each other.
    pub connection_per_session: bool,
    /// How long clients think where a session does not say it; those that are kept busy, also
    /// between two sessions on one connection.
    pub think: Think,
    /// Latency up to which a reply is good.
    pub deadline: Duration,
    /// Whether it is counted second by second, too.
    pub series: bool,
    /// Which part of the whole load this process generates.
    pub share: Share,
    /// The requests.
    pub catalog: Catalog,
}

/// Loads as planned, with the sessions of `workload`; blocks until the last reply has come or was
/// given up. What is shown meanwhile goes to `live`; `stop` ends it early.
///
/// # Errors
/// When a thread cannot be started, or its event mechanism not be opened.
pub fn run(
    plan: &Plan,
    workload: &dyn Workload,
    live: &Arc<Live>,
    stop: &AtomicBool,
) -> io::Result<Tally> {
    run_from(plan, workload, live, stop, monotonic_ns() + LEAD.as_nanos() as u64)
}

/// As [`run`], with the first arrival at `start_ns` of the monotonic clock.
///
/// # Errors
/// As [`run`].
pub fn run_from(
    plan: &Plan,
    workload: &dyn Workload,
    live: &Arc<Live>,
    stop: &AtomicBool,
    start_ns: u64,
) -> io::Result<Tally> {
    let window = Window {
        from_ns: start_ns + plan.warmup.as_nanos() as u64,
        to_ns: start_ns + plan.duration.as_nanos() as u64,
    };
    live.begin(window);
    // While connections are opened it would keep the next ones waiting. Where it cannot be done
    // nothing but that time is lost.
    let _ = process::grow_descriptor_table(usize::MAX);
    let threads = plan.threads.max(1) as usize;
    // It is as long as the thread that ended last.
    let begun = Window { to_ns: window.from_ns, ..window };
    let mut total = Tally::new(begun, plan.catalog.classes.len());
    thread::scope(|scope| {
        let mut running = Vec::new();
        for thread in 0..threads {
            // The threads of all processes are numbered through.
            let index = plan.share.index as usize * threads + thread;
            let all = plan.share.of.max(1) as usize * threads;
            let workload = workload.fork(index, all);
            let place = generator::Place { index, threads: all, start_ns, window };
            let mut generator = Generator::new(plan, workload, place, live, stop)?;
            let named = thread::Builder::new().name(format!("load-{index}"));
            running.push(named.spawn_scoped(scope, move || generator.run())?);
        }
        for thread in running {
            match thread.join() {
                Ok(tally) => total.merge(&tally?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        io::Result::Ok(())
    })?;
    Ok(total)
}
