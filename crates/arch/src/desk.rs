//! What one thread of control has at hand while it works on connections.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use flyball_conn::{
    Account, Agreed, Context, Hellos, Lender, Mapped, RequestLog, SpareBuffers, Turn,
};
use flyball_http::{Head, Limits, Now};
use flyball_observe::counters::{Counter, Owner, Tally};
use flyball_observe::standing::{Standing, StateChanges, count_states};
use flyball_observe::trace::Tracer;
use flyball_observe::writers::Writers;
use flyball_site::{AccessCounts, CacheCounts, CompressCounts, OpenFile, Service};
use flyball_sys::alloc;
use flyball_sys::lock::FileLock;
use flyball_sys::process;
use flyball_sys::residency::Residency;

use crate::chunks::{ChunkCounts, Chunks};
use crate::end::End;
use crate::experiment::Trial;
use crate::governed::Governed;
use crate::kernel::clock;
use crate::limits::SENDFILE_BYTES_MAX;
use crate::links::Upstreams;
use crate::renewals::Renewals;
use crate::settings::{SendMode, Settings};
use crate::shared_state::SharedState;

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

/// What one thread of control has at hand: what its connections need, and what it sends and counts
/// with.
#[derive(Debug)]
pub struct Desk {
    /// What connections need of it.
    pub(crate) context: Context,
    /// The settings.
    pub settings: Arc<Settings>,
    /// How large bodies leave.
    pub(crate) sender: Sender,
    /// What it does of an experiment; nothing in production.
    pub(crate) trial: Option<Box<Trial>>,
    pub(crate) shared: Arc<SharedState>,
    /// What changes of TLS, where a socket speaks it.
    pub(crate) renewals: Option<Arc<Renewals>>,
    /// What its worker's threads share of links.
    pub(crate) upstreams: Arc<Upstreams>,
    published: Published,
    /// The last change of the limits that was taken over.
    change: u64,
    /// As [`Desk::asked_ms`].
    pub(crate) asked_ms: u64,
    /// When `drain` is over, once it has begun.
    pub(crate) end: Option<End>,
    /// The governor of its loop.
    pub(crate) governed: Option<Box<Governed>>,
}

/// How large bodies leave, and what calls to sockets do.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Whether pieces that are not in memory are brought in by others.
    pub(crate) resident_only: bool,
    /// How it knows what is in memory.
    pub(crate) residency: Residency,
    /// Whether sockets block and every call but sendfile shall return at once all the same (M149):
    /// of event loops, and of threads over Unix-domain sockets.
    pub(crate) only_sendfile_waits: bool,
    /// Bytes that one sendfile may take, if the socket's buffer does.
    pub(crate) sendfile_bytes_max: usize,
    /// Files that are mapped to be sent, with the other threads of the worker.
    pub(crate) chunks: Arc<Chunks>,
    /// Scratch for one piece of a large body; empty until one is sent.
    piece: Vec<u8>,
}

impl Sender {
    /// A chunk of a file at an offset, mapped, if it can be.
    pub(crate) fn map(&self, file: &OpenFile, offset: u64) -> Option<Box<dyn Mapped>> {
        let chunk = self.chunks.take(file, offset).ok()?;
        Some(Box::new(chunk))
    }
}

/// What was published last, and when.
#[derive(Debug, Default)]
struct Published {
    at_ms: u64,
    /// Lines that the log had gathered then.
    gathered: u64,
    /// Where the one connection of a thread that blocks stands.
    shown: Option<Standing>,
    caches: CacheCounts,
    compressed: CompressCounts,
    access: AccessCounts,
    /// When states are due.
    states_ms: u64,
}

/// A desk is used as the context that it has.
impl Deref for Desk {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl DerefMut for Desk {
    fn deref_mut(&mut self) -> &mut Context {
        &mut self.context
    }
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
        let trial = settings.experiment.as_deref().map(Trial::of);
        let context = Context {
            clients: settings.clients.clone(),
            limits: Arc::new(settings.limits.clone()),
            piece_bytes: settings.piece_bytes,
            service,
            head: Head::default(),
            now: Now::new(clock::monotonic_ms(), clock::unix_ms()),
            tally: Tally::default(),
            log,
            tracer: Tracer::new(block),
            account: Account {
                blocks: Arc::clone(&shared.blocks),
                clients: Arc::clone(shared.clients()),
                traces: Arc::clone(shared.traces()),
                block,
                owner: block,
                writers: Writers::One,
            },
            turn: Turn::new(clock::monotonic_ns, flyball_sys::clock::tick_ns()),
            tried: trial.as_ref().map(|trial| trial.with_connections()).unwrap_or_default(),
            buffers: Lender::default(),
            hellos: Hellos::default(),
            agreed: Agreed::default(),
        };
        let sender = Sender {
            resident_only: false,
            residency: Residency::by(settings.residency),
            only_sendfile_waits: false,
            sendfile_bytes_max: SENDFILE_BYTES_MAX,
            chunks: Chunks::of(settings),
            piece: Vec::new(),
        };
        Desk {
            context,
            settings: Arc::clone(settings),
            sender,
            trial,
            shared: Arc::clone(shared),
            upstreams: Arc::default(),
            renewals: None,
            published: Published::default(),
            // Settings are those of the fork; what changed since is taken over at the first tick.
            change: 0,
            asked_ms: 0,
            end: None,
            governed: None,
        }
    }

    /// The same desk, in this worker's process whose first block is this one.
    pub fn of_process(mut self, worker: usize, owner: usize) -> Desk {
        self.account.owner = owner;
        let block = self.account.block;
        if let Some(known) = self.shared.blocks.owner(block) {
            self.shared.blocks.set_owner(block, Owner { worker: Some(worker), ..known });
        }
        self
    }

    /// The same desk, where other threads count in its block too.
    pub fn sharing_its_block(mut self) -> Desk {
        self.account.writers = Writers::Several;
        self
    }

    /// What is to be held while accepting: by loops around a phase, and by blocking threads, which
    /// look at their orders between the lock and the accept.
    pub(crate) fn accept_lock(&self) -> Option<Arc<FileLock>> {
        self.trial.as_ref()?.accept_lock()
    }

    /// Whether a connection that was accepted ends at once.
    pub(crate) fn ends_accepted(&mut self) -> bool {
        self.trial.as_mut().is_some_and(|trial| trial.ends_accepted())
    }

    /// Whether a connection ends from which something was read.
    pub(crate) fn ends_read(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.ends_read())
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

    /// Takes spare buffers from these from now on, and gives them back there.
    pub fn share_buffers(&mut self, common: &Arc<SpareBuffers>) {
        self.buffers.share(common);
    }

    /// Reads the clocks; once per turn of a loop, or after a call that blocked.
    pub fn tick(&mut self) {
        let Context { now, tracer, account, .. } = &mut self.context;
        let unix_ms = clock::unix_ms();
        now.set(clock::monotonic_ms(), unix_ms);
        tracer.refresh(&account.traces, now.ms());
        if let Some(end) = &mut self.end {
            end.look(self.context.now.ms());
        }
        if self.shared.live().change() != self.change {
            self.take_change();
        }
        if let Some(renewals) = &self.renewals {
            renewals.look(unix_ms);
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

    /// The worker was told to end: `drain` begins.
    pub(crate) fn begin_draining(&mut self) {
        self.ends_at(self.now.ms() + self.settings.drain_ms);
    }

    /// `drain` has begun, and is over then.
    pub(crate) fn ends_at(&mut self, at_ms: u64) {
        self.end = Some(End::at(at_ms, self.now.ms()));
    }

    /// Whether `drain` has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.end.is_some()
    }

    /// Whether `drain` was over by then.
    pub(crate) fn is_over_by(&self, ms: u64) -> bool {
        self.end.is_some_and(|end| ms >= end.at_ms())
    }

    /// As long a wait for events, or one to the end of `drain`: that is not to be seen late.
    pub(crate) fn wait_ms(&self, most_ms: u64) -> u64 {
        let left_ms = |end: End| end.at_ms().saturating_sub(self.now.ms());
        self.end.map_or(most_ms, |end| most_ms.min(left_ms(end)))
    }

    /// The log, and the time of its lines.
    pub(crate) fn log(&mut self) -> (&mut RequestLog, &Now) {
        (&mut self.context.log, &self.context.now)
    }

    /// Lets the log go out when it is due, and publishes what was counted.
    pub fn publish(&mut self) {
        self.count_caches();
        if self.settings.send == SendMode::Mapped {
            self.count_chunks();
        }
        let Context { service, now, tally, log, account, .. } = &mut self.context;
        let (blocks, block) = (&account.blocks, account.block);
        log.lines.flush_when_due(now);
        tally.add(Counter::AccessLogLost, log.lines.take_lost());
        let before = std::mem::replace(&mut self.published.gathered, log.lines.gathered());
        if before != self.published.gathered {
            blocks.change_gathered(block, before, self.published.gathered);
        }
        service.take_module_times(|module, ns| blocks.modules().spent(block, module, ns));
        blocks.publish(block, account.writers, tally);
        self.published.at_ms = now.ms();
    }

    /// Publishes unless that was done a moment ago, for a thread that may now wait: it looks around
    /// again within [`BLOCKING_TICK_MS`](crate::worker::BLOCKING_TICK_MS).
    pub fn publish_when_due(&mut self) {
        if self.now.ms().saturating_sub(self.published.at_ms) >= PUBLISH_MS {
            self.publish();
        }
    }

    /// Shows where the one connection of a thread that blocks stands; `None` when it has none.
    pub fn show(&mut self, state: Option<Standing>) {
        if self.published.shown != state {
            let before = std::mem::replace(&mut self.published.shown, state);
            self.account.blocks.change_state(self.account.block, before, state);
        }
    }

    /// Scratch for one piece of a large body.
    pub fn piece(&mut self) -> &mut [u8] {
        if self.sender.piece.is_empty() {
            self.sender.piece = vec![0; self.settings.piece_bytes];
        }
        &mut self.sender.piece
    }

    /// Gives back what is kept for the next request: none came for a while.
    pub fn rest(&mut self) {
        self.buffers.rest();
        self.sender.piece = Vec::new();
        self.service.rest();
        alloc::rest();
    }

    /// True once a second: counting the states of many connections has its price.
    pub fn states_are_due(&mut self) -> bool {
        let due = self.now.ms() >= self.published.states_ms;
        if due {
            self.published.states_ms = self.now.ms() + STATES_MS;
        }
        due
    }

    /// Says how many connections stand where.
    pub fn publish_states(&self, states: impl Iterator<Item = Standing>) {
        self.account.blocks.set_states(self.account.block, &count_states(states));
    }

    /// Says how the connections' states changed under this thread.
    pub fn publish_state_changes(&self, changes: &StateChanges) {
        self.account.blocks.set_states(self.account.block, changes.counts());
    }

    fn count_chunks(&mut self) {
        let ChunkCounts { hits, misses, unmaps } = self.sender.chunks.take_counts();
        self.tally.add(Counter::MappedHits, hits);
        self.tally.add(Counter::MappedMisses, misses);
        self.tally.add(Counter::MappedUnmaps, unmaps);
    }

    fn count_caches(&mut self) {
        let counts = self.service.cache_counts();
        let before = std::mem::replace(&mut self.published.caches, counts);
        for (counter, of) in COUNTED {
            self.tally.add(counter, of(&counts) - of(&before));
        }
        let coded = self.service.compress_counts();
        let before = std::mem::replace(&mut self.published.compressed, coded);
        self.tally.add(Counter::Compressions, coded.compressions - before.compressions);
        self.tally.add(Counter::CompressionSaved, coded.saved_bytes - before.saved_bytes);
        self.tally.add(Counter::CompressionsShed, coded.shed - before.shed);
        let refused = self.service.access_counts();
        let before = std::mem::replace(&mut self.published.access, refused);
        self.tally.add(Counter::LoginsFailed, refused.failed - before.failed);
        self.tally.add(Counter::LoginsThrottled, refused.throttled - before.throttled);
        self.tally.add(Counter::Denied, refused.denied - before.denied);
    }
}
