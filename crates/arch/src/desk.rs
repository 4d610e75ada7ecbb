//! What one thread of control has at hand while it works on connections.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use flyball_http::{Head, Limits, Now, Status};
use flyball_observe::counters::{Counter, Owner, Tally};
use flyball_observe::hosts::NamedCounts;
use flyball_observe::standing::{Standing, StateChanges, count_states};
use flyball_observe::trace::Tracer;
use flyball_site::{AccessCounts, CacheCounts, CompressCounts, Out, Service};
use flyball_sys::residency::Residency;
use flyball_sys::{clock, process};

use crate::chunks::{ChunkCounts, Chunks};
use crate::clients::{ClientLimits, Seat};
use crate::connection::SendWindow;
use crate::experiment::Trial;
use crate::logged::RequestLog;
use crate::settings::{SendMode, Settings};
use crate::shared_state::SharedState;
use crate::turn::{RequestTimes, Turn};

/// Sets of buffers kept for reuse when no connection needs them, by a thread of control.
const SPARE_BUFFERS_MAX: usize = 64;

/// The same by threads that share them. Under load each connection between two of their stages has
/// a set: with 256 connections, a reply of 20 kB cost `watpipe` 34 us of CPU time when 64 were kept
/// and the others made anew, and 23 us with these (one CPU, Linux 6.18).
const COMMON_SPARE_BUFFERS_MAX: usize = 256;

/// How often the states of connections are counted, in milliseconds.
const STATES_MS: u64 = 1_000;

/// How often a thread that blocks publishes what it counted, in milliseconds: often enough to
/// watch, and seldom enough to cost a request nothing.
const PUBLISH_MS: u64 = 100;

/// Reads one counter of the caches.
type Count = fn(&CacheCounts) -> u64;

/// Where each counter of the caches is counted.
const COUNTED: [(Counter, Count); 20] = [
    (Counter::PathHits, |c| c.path_hits),
    (Counter::PathMisses, |c| c.path_misses),
    (Counter::PathEvictions, |c| c.path_evictions),
    (Counter::Revalidations, |c| c.revalidations),
    (Counter::HeadHits, |c| c.head_hits),
    (Counter::HeadMisses, |c| c.head_misses),
    (Counter::HeadEvictions, |c| c.head_evictions),
    (Counter::HeadRevalidations, |c| c.head_revalidations),
    (Counter::ContentHits, |c| c.content_hits),
    (Counter::ContentMisses, |c| c.content_misses),
    (Counter::ContentEvictions, |c| c.content_evictions),
    (Counter::ContentRevalidations, |c| c.content_revalidations),
    (Counter::DescriptorHits, |c| c.descriptor_hits),
    (Counter::DescriptorMisses, |c| c.descriptor_misses),
    (Counter::DescriptorEvictions, |c| c.descriptor_evictions),
    (Counter::DescriptorRevalidations, |c| c.descriptor_revalidations),
    (Counter::Changes, |c| c.changes),
    (Counter::Evictions, |c| c.evictions),
    (Counter::Prefetches, |c| c.prefetches),
    (Counter::LockOperations, |c| c.lock_operations),
];

/// The buffers of a connection that is not idle.
#[derive(Debug)]
pub struct Buffers {
    /// Bytes received and not yet consumed.
    pub input: Input,
    /// What is to be sent.
    pub out: Out,
    /// What is known of the file at its front.
    pub window: SendWindow,
    /// Of the requests whose answers go there.
    pub(crate) times: RequestTimes,
}

/// Spare buffers of threads that hand connections to each other: what one takes out another gives
/// back.
#[expect(clippy::vec_box, reason = "a connection holds one pointer, idle or not")]
#[derive(Debug, Default)]
pub struct SpareBuffers(Mutex<Vec<Box<Buffers>>>);

/// Bytes received and not yet consumed, in a buffer that holds the largest head.
#[derive(Debug)]
pub struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    fn new(capacity: usize) -> Input {
        Input { bytes: vec![0; capacity].into(), start: 0, end: 0 }
    }

    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// True when nothing is.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes from `at` on, where `at` is what [`Input::position`] gave, consumed or not.
    pub fn since(&self, at: usize) -> &[u8] {
        &self.bytes[at..self.end]
    }

    /// Where the unconsumed bytes begin.
    pub fn position(&self) -> usize {
        self.start
    }

    /// Drops the first `n` bytes; they stay readable through [`Input::since`] until the next call
    /// of [`Input::space`].
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// Room for more, at the end; what is left over moves to the front first.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// `n` bytes were put into that room.
    pub fn filled(&mut self, n: usize) {
        self.end = (self.end + n).min(self.bytes.len());
    }

    fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

/// What one thread of control has at hand; lent to every step of every connection.
#[derive(Debug)]
pub struct Desk {
    /// The settings.
    pub settings: Arc<Settings>,
    /// Limits of each connection.
    pub limits: Arc<Limits>,
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
    /// Whether pieces that are not in memory are left to somebody else.
    pub resident_only: bool,
    /// How it knows what is in memory.
    pub residency: Residency,
    /// Whether sockets block and every call but sendfile shall return at once all the same (M149).
    pub only_sendfile_waits: bool,
    /// What it does of an experiment; nothing in production.
    pub(crate) trial: Option<Box<Trial>>,
    /// Files that are mapped to be sent, with the other threads of the worker.
    pub chunks: Arc<Chunks>,
    /// Who asks for timelines of requests.
    pub(crate) tracer: Tracer,
    /// Scratch for one piece of a large body; empty until one is sent.
    piece: Vec<u8>,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) block: usize,
    /// The first block of the process.
    owner: usize,
    /// Whether other threads count in the same block.
    pub(crate) shares_block: bool,
    published_ms: u64,
    /// Lines that the log had gathered then.
    gathered: u64,
    /// Where the one connection of a thread that blocks stands, as it was last shown.
    shown: Option<Standing>,
    cache_counts: CacheCounts,
    compress_counts: CompressCounts,
    access_counts: AccessCounts,
    pub(crate) turn: Turn,
    states_due_ms: u64,
    /// The last change of the limits that was taken over.
    change: u64,
    #[expect(clippy::vec_box, reason = "a connection holds one pointer, idle or not")]
    spare: Vec<Box<Buffers>>,
    common: Option<Arc<SpareBuffers>>,
}

impl Desk {
    /// A desk that serves by `service` and counts in block `block`.
    pub fn new(
        service: Service,
        settings: &Arc<Settings>,
        shared: &Arc<SharedState>,
        block: usize,
        log: RequestLog,
    ) -> Desk {
        let ((generation, ..), process) = (shared.blocks.generation(), process::own_id());
        // Others of the process may count there already.
        if shared.blocks.owner(block).is_none_or(|owner| owner.process != process) {
            shared.blocks.set_owner(block, Owner { generation, worker: None, process });
        }
        Desk {
            settings: Arc::clone(settings),
            limits: Arc::new(settings.limits.clone()),
            service,
            head: Head::default(),
            now: Now::new(clock::monotonic_ms(), clock::unix_ms()),
            tally: Tally::default(),
            log,
            resident_only: false,
            residency: Residency::by(settings.residency),
            only_sendfile_waits: false,
            trial: Trial::of(settings),
            chunks: Chunks::of(settings),
            tracer: Tracer::new(block),
            piece: Vec::new(),
            shared: Arc::clone(shared),
            block,
            owner: block,
            shares_block: false,
            published_ms: 0,
            gathered: 0,
            shown: None,
            cache_counts: CacheCounts::default(),
            compress_counts: CompressCounts::default(),
            access_counts: AccessCounts::default(),
            turn: Turn::new(),
            states_due_ms: 0,
            // Settings are those of the fork; what changed since is taken over at the first tick.
            change: 0,
            spare: Vec::new(),
            common: None,
        }
    }

    /// The same desk, in this worker's process whose first block is this one.
    pub fn of_process(mut self, worker: usize, owner: usize) -> Desk {
        self.owner = owner;
        if let Some(known) = self.shared.blocks.owner(self.block) {
            self.shared.blocks.set_owner(self.block, Owner { worker: Some(worker), ..known });
        }
        self
    }

    /// The same desk, where other threads count in its block too.
    pub fn sharing_its_block(mut self) -> Desk {
        self.shares_block = true;
        self
    }

    /// A desk of its own with default settings.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Desk {
        let settings = Arc::new(Settings::default());
        let sites =
            Arc::new(flyball_site::Sites::open(&[], &flyball_sys::sandbox::Rights::OWN).unwrap());
        let shared = Arc::new(SharedState::new(1).unwrap());
        let log = RequestLog::new(&flyball_observe::log::LogSender::off());
        let service = Service::new(sites, settings.caches.clone());
        Desk::new(service, &settings, &shared, 0, log)
    }

    /// What clients use.
    pub(crate) fn clients(&self) -> &ClientLimits {
        self.shared.clients()
    }

    /// A connection from this address came.
    pub(crate) fn seat(&self, address: IpAddr) -> Seat {
        self.shared.clients().sit_down(address, self.owner)
    }

    /// Takes spare buffers from these from now on, and gives them back there.
    pub fn share_buffers(&mut self, common: &Arc<SpareBuffers>) {
        self.common = Some(Arc::clone(common));
    }

    /// Reads the clocks; once per turn of a loop, or after a call that blocked.
    pub fn tick(&mut self) {
        self.now.set(clock::monotonic_ms(), clock::unix_ms());
        self.tracer.refresh(self.shared.traces(), self.now.ms());
        if self.shared.live().change() != self.change {
            self.take_change();
        }
    }

    /// Takes over limits that were changed while the server runs: for new connections, since each
    /// keeps those that it began with.
    #[cold]
    fn take_change(&mut self) {
        self.change = self.shared.live().change();
        let mut limits = Limits::clone(&self.limits);
        self.shared.live().apply(&mut limits);
        self.limits = Arc::new(limits);
    }

    /// Counts an answer of the site that the service asked last.
    pub(crate) fn answered(&mut self, status: Status) {
        self.count_answer(self.service.answered_for(), status);
        if let Some(module) = self.service.answered_by() {
            self.count_by_name(self.shared.blocks.modules(), Some(module), status);
        }
    }

    /// Counts an answer of no site: the request was refused before any was asked.
    pub(crate) fn answered_by_none(&mut self, status: Status) {
        self.count_answer(None, status);
    }

    fn count_answer(&mut self, site: Option<usize>, status: Status) {
        self.tally.answered(status);
        self.count_by_name(self.shared.blocks.hosts(), site, status);
    }

    fn count_by_name(&self, counts: &NamedCounts, number: Option<usize>, status: Status) {
        match self.shares_block {
            false => counts.answered(self.block, number, status),
            true => counts.answered_among_others(self.block, number, status),
        }
    }

    /// Buffers for a connection that has something to do.
    pub fn buffers(&mut self) -> Box<Buffers> {
        let spare = match &self.common {
            Some(common) => common.0.lock().unwrap_or_else(PoisonError::into_inner).pop(),
            None => self.spare.pop(),
        };
        spare.unwrap_or_else(|| {
            let input = Input::new(self.limits.head_bytes_max + 1);
            let (window, times) = (SendWindow::default(), RequestTimes::default());
            Box::new(Buffers { input, out: Out::new(), window, times })
        })
    }

    /// Takes buffers back from a connection that is idle or over.
    pub fn give_back(&mut self, mut buffers: Box<Buffers>) {
        buffers.input.clear();
        buffers.out.clear();
        (buffers.window, buffers.times) = (SendWindow::default(), RequestTimes::default());
        let mut common = self
            .common
            .as_ref()
            .map(|common| common.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (spare, most) = match &mut common {
            Some(common) => (&mut **common, COMMON_SPARE_BUFFERS_MAX),
            None => (&mut self.spare, SPARE_BUFFERS_MAX),
        };
        if spare.len() < most {
            spare.push(buffers);
        }
    }

    /// Lets the log go out when it is due, and publishes what was counted.
    pub fn publish(&mut self) {
        self.count_caches();
        self.log.lines.flush_when_due(&self.now);
        self.tally.add(Counter::AccessLogLost, self.log.lines.take_lost());
        let before = std::mem::replace(&mut self.gathered, self.log.lines.gathered());
        if before != self.gathered {
            self.shared.blocks.change_gathered(self.block, before, self.gathered);
        }
        if self.settings.send == SendMode::Mapped {
            self.count_chunks();
        }
        let (modules, block) = (self.shared.blocks.modules(), self.block);
        self.service.take_module_times(|module, ns| modules.spent(block, module, ns));
        if self.shares_block {
            self.shared.blocks.publish_among_others(self.block, &mut self.tally);
        } else {
            self.shared.blocks.publish(self.block, &mut self.tally);
        }
        self.published_ms = self.now.ms();
    }

    /// Publishes unless that was done a moment ago, for a thread that may now wait: it looks around
    /// again within [`BLOCKING_TICK_MS`](crate::worker::BLOCKING_TICK_MS).
    pub fn publish_when_due(&mut self) {
        if self.now.ms().saturating_sub(self.published_ms) >= PUBLISH_MS {
            self.publish();
        }
    }

    /// Shows where the one connection of a thread that blocks stands; `None` when it has none.
    pub fn show(&mut self, state: Option<Standing>) {
        if self.shown != state {
            self.shared.blocks.change_state(self.block, self.shown, state);
            self.shown = state;
        }
    }

    /// Scratch for one piece of a large body.
    pub fn piece(&mut self) -> &mut [u8] {
        if self.piece.is_empty() {
            self.piece = vec![0; self.settings.piece_bytes];
        }
        &mut self.piece
    }

    /// Gives back what is kept for the next request: none came for a while.
    pub fn rest(&mut self) {
        self.spare = Vec::new();
        self.piece = Vec::new();
        self.service.rest();
    }

    /// True once a second: counting the states of many connections has its price.
    pub fn states_are_due(&mut self) -> bool {
        let due = self.now.ms() >= self.states_due_ms;
        if due {
            self.states_due_ms = self.now.ms() + STATES_MS;
        }
        due
    }

    /// Says how many connections stand where.
    pub fn publish_states(&self, states: impl Iterator<Item = Standing>) {
        self.shared.blocks.set_states(self.block, &count_states(states));
    }

    /// Says how the connections' states changed under this thread.
    pub fn publish_state_changes(&self, changes: &StateChanges) {
        self.shared.blocks.set_states(self.block, changes.counts());
    }

    fn count_chunks(&mut self) {
        let ChunkCounts { hits, misses, unmaps } = self.chunks.take_counts();
        self.tally.add(Counter::MappedHits, hits);
        self.tally.add(Counter::MappedMisses, misses);
        self.tally.add(Counter::MappedUnmaps, unmaps);
    }

    fn count_caches(&mut self) {
        let counts = self.service.cache_counts();
        let before = std::mem::replace(&mut self.cache_counts, counts);
        for (counter, of) in COUNTED {
            self.tally.add(counter, of(&counts) - of(&before));
        }
        let coded = self.service.compress_counts();
        let before = std::mem::replace(&mut self.compress_counts, coded);
        self.tally.add(Counter::Compressions, coded.compressions - before.compressions);
        self.tally.add(Counter::CompressionSaved, coded.saved_bytes - before.saved_bytes);
        self.tally.add(Counter::CompressionsShed, coded.shed - before.shed);
        let refused = self.service.access_counts();
        let before = std::mem::replace(&mut self.access_counts, refused);
        self.tally.add(Counter::LoginsFailed, refused.failed - before.failed);
        self.tally.add(Counter::LoginsThrottled, refused.throttled - before.throttled);
        self.tally.add(Counter::Denied, refused.denied - before.denied);
    }
}
