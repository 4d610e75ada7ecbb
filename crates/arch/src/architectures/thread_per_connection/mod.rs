//! `thread-per-connection`: a thread accepts, and starts another for each connection.
//!
//! **Paper**: J. Hu, S. Mungee, D. Schmidt: Techniques for Developing and Measuring
//! High-Performance Web Servers over ATM Networks, INFOCOM 1998 (section 3.1).
//!
//! **Idea**: One thread accepts. Each connection gets a thread of its own, which serves it to its
//! end with blocking calls and then ends as well. All threads share the caches.
//!
//! **Differs from the paper**:
//! * The paper's strategy is a thread for each request; with persistent connections that is one
//!   for each connection, which the paper's own client did not use.
//! * As many threads run as connections fit; further connections wait in the accept queue.
//! * What a thread works with, but its stack, is kept for later threads, up to a bound.
//! * The kernel's socket time-outs, which accepted sockets inherit, are the watchdog: a call
//!   that is overdue returns, and its thread looks at the time.
//!
//! **Reads with**: section 3.1: the acceptor is [`Acceptor::run`], a connection's thread is
//! [`serve`].
//!
//! **Settings**: `thread.stack`, `workers`, `pin`, `send.mode`, `send.piece`, `experiment.cork`,
//! `experiment.entry-locks`.
//!
//! **Kernel needs**: nothing beyond blocking sockets.

use std::cell::OnceCell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

use flyball_conn::Peer;
use flyball_http::CloseReason;
use flyball_site::SharedCaches;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::sandbox::Calls;

use crate::accept::{self, AcceptPolicy, Ended, Room};
use crate::architecture::{Architecture, Sockets};
use crate::blocking::{Crew, Thread};
use crate::desk::Desk;
use crate::limits::ACCEPT_PAUSE_MS;
use crate::settings::{AcceptLimit, Settings};
use crate::worker::{Order, Report, Worker};

/// Blocks of counters of one worker: few threads meet at one, and few blocks are summed up.
const BLOCKS: usize = 16;

/// Desks that are kept for later threads.
const SPARE_DESKS_MAX: usize = 64;

/// How often it looks after the lines of the access log that ended threads left, in milliseconds.
const LOG_MS: i32 = 1_000;

/// A thread for each connection.
#[derive(Debug)]
pub struct ThreadPerConnection;

impl Architecture for ThreadPerConnection {
    fn name(&self) -> &'static str {
        "thread-per-connection"
    }

    fn about(&self) -> &'static str {
        "a thread that blocks for each connection, started by an acceptor"
    }

    fn paper(&self) -> &'static str {
        "Hu et al., INFOCOM 1998"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[&[
            "thread.stack",
            "workers",
            "pin",
            "send.mode",
            "send.piece",
            "experiment.cork",
            "experiment.entry-locks",
        ]]
    }

    fn needs(&self) -> &'static str {
        "nothing beyond blocking sockets"
    }

    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        &[Calls::Threads]
    }

    /// Threads without number do not serve a site.
    fn is_tuned(&self) -> bool {
        false
    }

    fn sockets(&self) -> Sockets {
        Sockets::Shared
    }

    fn is_blocking(&self) -> bool {
        true
    }

    /// The acceptor waits for connections and for orders at once.
    fn listener_blocks(&self) -> bool {
        false
    }

    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or(1)
    }

    fn threads(&self, _settings: &Settings) -> usize {
        BLOCKS
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        worker.make_room_for_descriptors();
        let crew = Crew::new(&worker)?;
        let desks = Desks::new(&worker);
        std::thread::scope(|scope| {
            let stack_bytes = worker.settings.stack_bytes;
            let start = |socket, peer| start(scope, &crew, &desks, stack_bytes, socket, peer);
            let accepted = Acceptor::new(&worker, &crew, &desks, start)
                .and_then(|mut acceptor| acceptor.run());
            if accepted.is_err() {
                // The scope waits for those that run, which must not wait for a stop.
                crew.tell(Order::Stop);
            }
            accepted.and_then(|()| crew.attend())
        })?;
        Ok(Report { unfinished: crew.unfinished() })
    }
}

/// Starts the thread of one connection.
fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    crew: &'scope Crew<'scope>,
    desks: &'scope Desks<'scope>,
    stack_bytes: usize,
    socket: Owned,
    peer: Peer,
) -> io::Result<()> {
    let thread = Thread::new(crew, desks.lend());
    let life = move || serve(thread, desks, &socket, peer);
    Builder::new().stack_size(stack_bytes).spawn_scoped(scope, life).map(drop)
}

/// The life of a connection's thread.
fn serve(mut thread: Thread<'_>, desks: &Desks<'_>, socket: &Owned, peer: Peer) {
    thread.serve(socket, peer);
    desks.take_back(thread.into_desk());
}

/// What threads work with, and those who come after them.
struct Desks<'a> {
    worker: &'a Worker,
    caches: Arc<SharedCaches>,
    spare: Mutex<Vec<Desk>>,
    made: AtomicUsize,
}

impl Desks<'_> {
    fn new(worker: &Worker) -> Desks<'_> {
        let (caches, made) = (worker.shared_caches(), AtomicUsize::new(0));
        Desks { worker, caches, spare: Mutex::default(), made }
    }

    fn lend(&self) -> Desk {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut desk = spare.unwrap_or_else(|| {
            let service = self.worker.service_sharing(&self.caches);
            let block = self.made.fetch_add(1, Relaxed) % BLOCKS;
            self.worker.desk_with(service, block).sharing_its_block()
        });
        desk.tick();
        desk
    }

    fn take_back(&self, mut desk: Desk) {
        desk.publish();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_DESKS_MAX {
            spare.push(desk);
        } else {
            desk.log.lines.flush();
            desk.publish();
        }
    }

    /// Hands over what the log has waited for long enough: nobody else may come to these desks.
    fn publish_spare(&self) {
        for desk in self.spare.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            desk.tick();
            desk.publish();
        }
    }
}

/// The thread that accepts.
struct Acceptor<'a, S> {
    worker: &'a Worker,
    crew: &'a Crew<'a>,
    desks: &'a Desks<'a>,
    desk: Desk,
    start: S,
    mechanism: Box<dyn Readiness>,
    /// Whether it waits for new connections.
    listens: bool,
    /// Whether it was said that accepting is paused.
    warned: bool,
}

/// Places for connections: as many as threads may run, and none once one could not be started.
struct Places<'a> {
    crew: &'a Crew<'a>,
    most: usize,
    failed: OnceCell<io::Error>,
}

impl Room for Places<'_> {
    fn enter(&self) -> bool {
        self.failed.get().is_none() && self.crew.has_room(self.most)
    }

    /// The end of a thread gives its place back.
    fn leave(&self) {}
}

/// Tokens of what the acceptor waits for; the listening sockets follow.
const SIGNALS: u64 = 0;
const CHANGED: u64 = 1;
const LISTENERS: u64 = 2;

impl<'a, S: FnMut(Owned, Peer) -> io::Result<()>> Acceptor<'a, S> {
    fn new(
        worker: &'a Worker,
        crew: &'a Crew<'a>,
        desks: &'a Desks<'a>,
        start: S,
    ) -> io::Result<Self> {
        let (desk, mut mechanism) = (desks.lend(), readiness::open("poll")?);
        mechanism.add(worker.signals.as_fd(), SIGNALS, Interest::READ)?;
        mechanism.add(crew.changed().as_fd(), CHANGED, Interest::READ)?;
        let mut acceptor =
            Acceptor { worker, crew, desks, desk, start, mechanism, listens: false, warned: false };
        acceptor.listen(true)?;
        Ok(acceptor)
    }

    /// Waits for new connections, or not. A socket that another worker shut down would hang up
    /// whatever the interest, so that it is taken out.
    fn listen(&mut self, wanted: bool) -> io::Result<()> {
        self.crew.opens(wanted);
        if std::mem::replace(&mut self.listens, wanted) == wanted {
            return Ok(());
        }
        for (at, listener) in self.worker.listeners.iter().enumerate() {
            match wanted {
                true => {
                    let token = LISTENERS + at as u64;
                    self.mechanism.add(listener.as_fd(), token, Interest::READ)?;
                }
                false => self.mechanism.remove(listener.as_fd()),
            }
        }
        Ok(())
    }

    /// Accepts until the worker is told to end.
    fn run(&mut self) -> io::Result<()> {
        let idle_ms = if self.desk.log.lines.is_on() { LOG_MS } else { -1 };
        let (mut events, mut wait_ms) = (Vec::new(), idle_ms);
        let mut looked_ms = self.desk.now.ms();
        self.worker.enter_loop();
        loop {
            self.mechanism.wait(&mut events, wait_ms)?;
            self.desk.tick();
            if idle_ms >= 0 && self.desk.now.ms().saturating_sub(looked_ms) >= LOG_MS as u64 {
                looked_ms = self.desk.now.ms();
                self.desks.publish_spare();
            }
            self.crew.changed().clear();
            self.crew.take_orders();
            let told = self.crew.told();
            // What is queued when the server stops has arrived already.
            let ended = if told == Some(Order::Retire) { Ended::Full } else { self.accept_all() };
            self.desk.publish();
            if told.is_some() {
                return Ok(());
            }
            // As many run as may: the end of one wakes the acceptor.
            let waits = matches!(ended, Ended::Drained | Ended::Full);
            wait_ms = if waits { idle_ms } else { ACCEPT_PAUSE_MS as i32 };
            self.listen(ended == Ended::Drained)?;
        }
    }

    /// Accepts all that is queued, from one socket after the other.
    fn accept_all(&mut self) -> Ended {
        let Acceptor { worker, crew, desk, start, .. } = self;
        let places = Places { crew, most: worker.connections_max, failed: OnceCell::new() };
        let mut policy = AcceptPolicy::new(AcceptLimit::Infinite);
        let accept = |listener| {
            policy.phase_within(listener, &places, false, &mut desk.tally, |socket, peer| {
                if let Err(error) = start(socket, peer) {
                    let _ = places.failed.set(error);
                }
            })
        };
        let mut ended = worker.listeners.iter().map(accept);
        let stopped = ended.find(|ended| *ended != Ended::Drained);
        if let Some(error) = places.failed.into_inner() {
            self.desk.tally.closed(CloseReason::SocketError);
            self.say_once(&format!("no thread can be started: {error}"));
            return Ended::OutOfDescriptors;
        }
        if let Some(why) = stopped.and_then(Ended::why_paused) {
            self.say_once(why);
        }
        stopped.unwrap_or(Ended::Drained)
    }

    fn say_once(&mut self, why: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            self.worker.say(&accept::paused(why, self.crew.running()));
        }
    }
}
