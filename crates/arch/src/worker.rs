//! What an architecture is given to run: a worker, made by the master before it forked.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use flyball_conn::{Context, RequestLog};
use flyball_observe::log::LogSender;
use flyball_site::{Service, SharedCaches, Sites};
use flyball_sys::error_log::Level;
use flyball_sys::{process, say};

use crate::chunks::Chunks;
use crate::descriptors::DESCRIPTORS_RESERVED;
use crate::desk::Desk;
use crate::kernel::net;
use crate::kernel::signal::{Signal, Signals};
use crate::links::Upstreams;
use crate::listener::Listener;
use crate::overload::Overload;
use crate::renewals::Renewals;
use crate::rings::Rings;
use crate::settings::Settings;
use crate::shared_state::SharedState;
pub use flyball_conn::Order;

pub use crate::limits::BLOCKING_TICK_MS;

/// One worker.
#[derive(Debug)]
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// The listening sockets that are its own, or shared with the other workers.
    pub listeners: Vec<Listener>,
    /// Whether other processes read the same listening sockets.
    pub shares_listeners: bool,
    /// The settings.
    pub settings: Arc<Settings>,
    /// The sites, with their roots open.
    pub sites: Arc<Sites>,
    /// What all processes of the server share: it counts there.
    pub shared: Arc<SharedState>,
    /// Its blocks, one for each of [`Architecture::threads`].
    ///
    /// [`Architecture::threads`]: crate::Architecture::threads
    pub blocks: Range<usize>,
    /// Its signals; readable when there may be an [`Order`].
    pub signals: Signals,
    /// Most connections it may have open: no more than it has threads for that block.
    pub connections_max: usize,
    /// Where lines of the access log go.
    pub log: LogSender,
    /// Files that are mapped to be sent.
    pub chunks: Arc<Chunks>,
    /// Its links to servers that answer.
    pub upstreams: Arc<Upstreams>,
    /// How its rings are made.
    pub rings: Rings,
    /// How it leaves its listening sockets.
    pub leaving: Leaving,
    /// What changes of TLS, where any of the sockets speaks it.
    pub renewals: Option<Arc<Renewals>>,
}

/// How a worker leaves its listening sockets, and tells that it accepts no more.
#[derive(Debug, Default)]
pub struct Leaving {
    stops_listening: bool,
    accepting: Mutex<Option<OwnedFd>>,
}

impl Leaving {
    /// The master sees that `accepting` is closed. The sockets may be those of others too, who go
    /// on listening: they are `lent` then.
    pub fn seen_at(accepting: OwnedFd, lent: bool) -> Leaving {
        Leaving { stops_listening: !lent, accepting: Mutex::new(Some(accepting)) }
    }

    /// It is one of a group, whose leader leaves the listening sockets for all.
    pub(crate) fn by_leader() -> Leaving {
        Leaving::default()
    }
}

impl Worker {
    /// A desk with private caches, for a worker that is one thread of control.
    pub fn desk(&self) -> Desk {
        self.desk_with(self.service(), 0)
    }

    /// A desk that serves by `service` and counts in block `block` of this worker's.
    pub fn desk_with(&self, service: Service, block: usize) -> Desk {
        let log = RequestLog::new(&self.log);
        let mut desk =
            Desk::new(service, &self.settings, &self.shared, self.blocks.start + block, log);
        desk.sender.chunks = Arc::clone(&self.chunks);
        desk.upstreams = Arc::clone(&self.upstreams);
        desk.renewals.clone_from(&self.renewals);
        desk.tracer.set_worker(self.index, self.log.slow());
        let Context { service, now, .. } = &mut *desk;
        service.warm(now);
        let desk = desk.of_process(self.index, self.blocks.start);
        let (places, shares) = (self.connections_max, self.shares_listeners);
        let overload =
            || Overload::of(desk.account.block, places, &self.listeners, shares, &self.shared);
        self.sites.watch(|| Box::new(overload()));
        if let Some(spool) = self.sites.spool() {
            spool.share(self.shared.spooled(), self.blocks.start);
        }
        desk
    }

    /// The sites, with empty caches of one's own.
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.sites), self.settings.caches.clone())
    }

    /// The sites, with these caches.
    pub fn service_sharing(&self, caches: &Arc<SharedCaches>) -> Service {
        Service::sharing(Arc::clone(&self.sites), caches)
    }

    /// Empty caches for several threads of this worker.
    pub fn shared_caches(&self) -> Arc<SharedCaches> {
        SharedCaches::new(self.settings.caches.clone())
    }

    /// Makes room for all descriptors that it may hold: to be called before its threads share the
    /// kernel's table of them. Growing that later stops whoever accepts for 10 to 20 ms.
    pub fn make_room_for_descriptors(&self) {
        let files = self.settings.caches.files_max;
        let wanted =
            self.connections_max.saturating_add(files).saturating_add(DESCRIPTORS_RESERVED);
        // Where it cannot be done nothing but that time is lost.
        let _ = process::grow_descriptor_table(wanted);
    }

    /// Tells the master that the worker stands and serves from now on: to be called where its loop
    /// is entered, with nothing left before that which may fail.
    pub fn enter_loop(&self) {
        self.shared.blocks.set_entered(self.blocks.clone(), true);
    }

    /// The next order, if one came. Never blocks. A stop may follow a retirement. From the first on
    /// no link is kept for another request.
    pub fn order(&self) -> Option<Order> {
        let order = loop {
            match self.signals.next()? {
                Signal::Stop => break Order::Stop,
                Signal::Retire => break Order::Retire,
                _ => {}
            }
        };
        self.upstreams.close();
        Some(order)
    }

    /// How many connections wait at its sockets because somebody must make room for them: none
    /// when nobody shall.
    pub fn waits_for_room(&self) -> usize {
        if self.settings.close_idle_when_full { self.queued() } else { 0 }
    }

    /// How many connections wait at its sockets to be accepted.
    pub(crate) fn queued(&self) -> usize {
        let queue = |listener: &Listener| net::accept_queue(listener).map_or(0, |(n, _)| n);
        self.listeners.iter().map(|listener| queue(listener) as usize).sum()
    }

    /// To be called, for either order, as soon as the worker accepts nothing any more. When the
    /// server stops, new connections are refused from now on, so that clients can go elsewhere at
    /// once; the master listens again before it starts another worker. A Unix-domain socket could
    /// not listen again: the master has removed its name when the server stops.
    pub fn leave_listeners(&self, order: Order) {
        if order == Order::Stop && self.leaving.stops_listening {
            for listener in self.listeners.iter().filter(|listener| !listener.is_unix()) {
                net::stop_listening(listener);
            }
        }
        self.leaving.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Tells whoever runs the server, on standard error.
    pub fn say(&self, message: &str) {
        say!(Level::Warn, "worker {}: {message}", self.index);
    }
}

/// What a worker says when it is done.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Connections that were still open at the drain deadline.
    pub unfinished: usize,
}
