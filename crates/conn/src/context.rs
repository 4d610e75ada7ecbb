//! What a connection needs of the thread that works on it.

use std::sync::Arc;

use flyball_http::{Head, Limits, Now, Remote, Status};
use flyball_observe::counters::{Blocks, Tally};
use flyball_observe::histogram::Timing;
use flyball_observe::hosts::{NamePlace, NamedCounts};
use flyball_observe::trace::{Ring, Tracer};
use flyball_observe::writers::Writers;
use flyball_site::{Plan, Service};
use flyball_sys::signal::Masked;

use crate::buffers::{Buffers, Lender};
use crate::clients::{ClientLimits, ClientSettings, Seat};
use crate::logged::RequestLog;
use crate::times::{RequestTimes, Took, Turn};
use crate::transport::Agreed;

/// What one thread of control has at hand; lent to every step of every connection.
#[derive(Debug)]
pub struct Context {
    /// Who clients are taken to be.
    pub clients: ClientSettings,
    /// Limits of each connection.
    pub limits: Arc<Limits>,
    /// Bytes of a large body that are brought into memory together.
    pub piece_bytes: usize,
    /// The sites, with caches of its own or shared ones.
    pub service: Service,
    /// Scratch for one parsed head.
    pub head: Head,
    /// The time, as of the last turn.
    pub now: Now,
    /// What was counted since it was last published.
    pub tally: Tally,
    /// The access log.
    pub log: RequestLog,
    /// Who asks for timelines of requests.
    pub tracer: Tracer,
    /// Where it counts.
    pub account: Account,
    /// Its turn, which times the requests that are answered in it.
    pub turn: Turn,
    /// What is tried with its connections.
    pub tried: Tried,
    /// Buffers for connections that have something to do.
    pub buffers: Lender,
    /// Hellos of TLS that may still be answered in this turn.
    pub hellos: Hellos,
    /// What handshakes have agreed on.
    pub agreed: Agreed,
}

/// How many hellos of TLS may be answered before a turn ends. Each costs as much as dozens of
/// requests, which would wait for them.
#[derive(Clone, Copy, Debug)]
pub struct Hellos(u32);

/// Hellos that are answered in one turn.
const HELLOS_MAX: u32 = 4;

impl Default for Hellos {
    fn default() -> Hellos {
        Hellos(HELLOS_MAX)
    }
}

impl Hellos {
    /// Whether none may be answered any more.
    pub(crate) fn are_used_up(self) -> bool {
        self.0 == 0
    }

    /// One was answered.
    pub(crate) fn answered(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }
}

/// What all processes share of what connections use, and where in it a thread of control counts.
#[derive(Debug)]
pub struct Account {
    /// What is counted.
    pub blocks: Arc<Blocks>,
    /// What clients use.
    pub clients: Arc<ClientLimits>,
    /// Timelines of requests.
    pub traces: Arc<Ring>,
    /// The block that it counts in.
    pub block: usize,
    /// The first block of the process.
    pub owner: usize,
    /// How many threads of control count in the same block.
    pub writers: Writers,
}

/// What is tried with connections; nothing in production.
#[derive(Debug, Default)]
pub struct Tried {
    /// A connection ends of which a whole head is parsed.
    pub ends_parsed: bool,
    /// What is to be held while a request is looked up.
    pub masks: Option<fn() -> Masked>,
}

impl Account {
    /// A connection from this client came.
    pub fn seat(&self, client: Remote) -> Seat {
        self.clients.sit_down(client, self.owner)
    }

    /// A connection was accepted.
    pub fn opened(&self) {
        self.blocks.opened(self.block);
    }

    /// One is over.
    pub fn closed(&self) {
        self.blocks.closed(self.block);
    }

    /// Records how long each of `n` took, in nanoseconds.
    #[inline]
    pub fn time(&self, timing: Timing, ns: u64, n: u64) {
        self.blocks.time(self.block, self.writers, timing, ns, n);
    }

    /// Records how long each of `n` requests took, in nanoseconds.
    #[inline]
    pub fn took(&self, what: Took, ns: u64, n: u64) {
        self.time(what.timing(), ns, n);
        if let Took::Request(place) = what {
            self.blocks.hosts().took(self.block, self.writers, place, ns, n);
        }
    }

    fn count_by_name(
        &self,
        counts: &NamedCounts,
        number: Option<usize>,
        status: Status,
    ) -> NamePlace {
        counts.answered(self.block, self.writers, number, status)
    }
}

impl Context {
    /// Counts an answer of the site that the service asked last, to a request of this connection.
    pub fn answered(&mut self, status: Status, times: &mut RequestTimes) {
        self.count_answer(self.service.answered_for(), status, times);
        if let Some(module) = self.service.answered_by() {
            let account = &self.account;
            account.count_by_name(account.blocks.modules(), Some(module), status);
        }
    }

    /// Counts an answer of no site: the request was refused before any was asked.
    pub fn answered_by_none(&mut self, status: Status, times: &mut RequestTimes) {
        self.count_answer(None, status, times);
    }

    fn count_answer(&mut self, site: Option<usize>, status: Status, times: &mut RequestTimes) {
        let Context { tally, account, turn, .. } = self;
        tally.answered(status);
        let place = account.count_by_name(account.blocks.hosts(), site, status);
        times.answered(place, turn, |what, ns, n| account.took(what, ns, n));
    }

    /// A plan has come back for which none waits any more: what it found is for the caches.
    pub fn learn(&mut self, plan: Plan) {
        self.service.learn(plan, &self.now);
    }

    /// A turn begins.
    pub fn turn_begins(&mut self) {
        self.turn.begin();
        self.hellos = Hellos::default();
    }

    /// Buffers for a connection that has something to do.
    pub fn lend(&mut self) -> Box<Buffers> {
        self.buffers.lend(self.limits.head_bytes_max)
    }

    /// The time now, in monotonic nanoseconds, by the clock of the thread.
    pub fn now_ns(&self) -> u64 {
        self.turn.read_clock()
    }

    /// Records how long something took, in nanoseconds.
    #[inline]
    pub fn time(&self, timing: Timing, ns: u64) {
        self.account.time(timing, ns, 1);
    }

    /// A whole head was found, which had come then: [`RequestTimes::seen`].
    pub fn request_seen(&self, came_ns: u64, times: &mut RequestTimes) {
        times.seen(came_ns, &self.turn);
    }

    /// Bytes of answers were sent; all that there are if `finished`.
    pub fn answer_sent(&mut self, times: &mut RequestTimes, finished: bool) {
        let Context { turn, account, .. } = self;
        times.sent(finished, turn, |what, ns, n| account.took(what, ns, n));
    }
}
