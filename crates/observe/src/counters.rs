//! What a server counts, in one table: names, kinds and help for `/status` and `/metrics`.
//!
//! Each thread of control counts in a [`Tally`] of its own and publishes the difference to its
//! block of one shared mapping, once per turn of its loop. S0's Equation 1 is among them: the
//! accept rate is the number of accept phases times the mean number accepted in each, over time.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_http::CloseReason;
use flyball_sys::shared::SharedCounters;

use crate::histogram::{self, Distribution, Timing};
use crate::hosts::{CLASSES, NamedCounts};
use crate::standing::{STANDINGS, Standing};
use crate::writers::Writers;

mod tally;

pub use tally::Tally;

macro_rules! counters {
    ($($name:ident $label:literal $help:literal),* $(,)?) => {
        /// A counter that only grows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $help] $name),* }

        impl Counter {
            /// Every counter, in the order of the block.
            pub const ALL: &[Counter] = &[$(Counter::$name),*];

            /// Its name in `/status` and `/metrics`.
            pub fn label(self) -> &'static str {
                match self { $(Counter::$name => $label),* }
            }

            /// One sentence about it.
            pub fn help(self) -> &'static str {
                match self { $(Counter::$name => $help),* }
            }
        }
    };
}

counters! {
    Accepted "accepted" "Connections accepted.",
    AcceptPhases "accept_phases" "Accept phases entered (N_phases of Equation 1).",
    AcceptLimitReached "accept_limit_reached" "Accept phases that the accept-limit ended.",
    AcceptTimeOver "accept_time_over" "Accept phases that their bound in time ended.",
    AcceptFailures "accept_failures" "Accepts that failed because the peer had gone.",
    TlsFull "tls_full" "Full handshakes of TLS that were done.",
    TlsResumed "tls_resumed" "Handshakes of TLS that resumed a session.",
    TlsClear "tls_failed_in_the_clear" "Clients that spoke in the clear where TLS is spoken.",
    TlsNothingInCommon "tls_failed_in_common" "Handshakes without a version or suite in common.",
    TlsNoCertificate "tls_failed_name" "Handshakes for a name that is refused.",
    TlsClientCertificate "tls_failed_client" "Handshakes whose client's certificate is refused.",
    TlsRefused "tls_failed_refused" "Handshakes that the client has refused.",
    TlsMalformed "tls_failed_malformed" "Handshakes that broke the protocol.",
    TlsLate "tls_failed_late" "Handshakes whose time was over.",
    Overloads "overloads" "Times that a loop found itself overloaded.",
    GovernorMoves "governor_moves" "Decisions of governors, those included that are only watched.",
    OutOfDescriptors "out_of_descriptors" "Times that accepting stopped for want of descriptors.",
    GetEvents "getevents_calls" "Waits for events.",
    WorkPhases "work_phases" "Work phases with at least one connection.",
    WorkedOn "worked_on" "Connections worked on in work phases.",
    WorkTimeOver "work_time_over" "Work phases that their bound in time ended.",
    GetEventsNs "getevents_ns" "Nanoseconds spent waiting for events.",
    AcceptNs "accept_ns" "Nanoseconds spent in accept phases.",
    WorkNs "work_ns" "Nanoseconds spent in work phases.",
    Requests "requests" "Requests answered.",
    Status1 "responses_1xx" "Answers with a status from 100 to 199.",
    Status2 "responses_2xx" "Answers with a status from 200 to 299.",
    Status3 "responses_3xx" "Answers with a status from 300 to 399.",
    Status4 "responses_4xx" "Answers with a status from 400 to 499.",
    Status5 "responses_5xx" "Answers with a status from 500 to 599.",
    BytesIn "bytes_received" "Bytes received from clients.",
    BytesOut "bytes_sent" "Bytes handed to sockets.",
    DiskWaits "disk_waits" "Operations that may have waited on the disk.",
    HelperJobs "helper_jobs" "Pieces of disk work that were given to a helper.",
    HelpersStarted "helpers_started" "Helpers that were started.",
    HelpersReaped "helpers_reaped" "Helpers that ended because they were idle.",
    HelpersDied "helpers_died" "Helpers that died; their work was done again.",
    PathHits "path_cache_hits" "Paths answered from the path-translation cache.",
    PathMisses "path_cache_misses" "Paths that the path-translation cache did not hold.",
    PathEvictions "path_cache_evictions" "Cached paths that were pushed out.",
    Revalidations "revalidations" "Cached paths looked at again because their time was over.",
    HeadHits "head_cache_hits" "Answers by a head that was built before.",
    HeadMisses "head_cache_misses" "Heads that were built to be kept.",
    HeadEvictions "head_cache_evictions" "Heads that were pushed out with their files.",
    HeadRevalidations "head_cache_revalidations" "Heads whose files had not changed.",
    ContentHits "content_cache_hits" "Bodies served from memory.",
    ContentMisses "content_cache_misses" "Bodies that were brought into memory.",
    ContentEvictions "content_cache_evictions" "Bodies that were pushed out of memory.",
    ContentRevalidations "content_cache_revalidations" "Bodies whose files had not changed.",
    DescriptorHits "descriptor_cache_hits" "Bodies served from a kept descriptor.",
    DescriptorMisses "descriptor_cache_misses" "Larger files that were opened.",
    DescriptorEvictions "descriptor_cache_evictions" "Kept descriptors that were pushed out.",
    DescriptorRevalidations "descriptor_cache_revalidations" "Open files that had not changed.",
    Changes "cache_changes" "Cached files that were found changed.",
    Evictions "cache_evictions" "Cached files that were pushed out, of memory or descriptors.",
    Prefetches "cache_prefetches" "Files brought in before anybody asked for them.",
    MappedHits "mapped_chunk_hits" "Chunks of files that were found mapped.",
    MappedMisses "mapped_chunk_misses" "Chunks of files that were mapped to be sent.",
    MappedUnmaps "mapped_chunk_unmaps" "Chunks of files that were unmapped again.",
    Handovers "stage_handovers" "Connections handed to the queue of another stage.",
    QueuedBefore "stage_queued_before" "Connections already in the queue, summed over hand-overs.",
    Compressions "compressions" "Bodies that were compressed.",
    CompressionSaved "compression_saved_bytes" "Bytes that those bodies were smaller by.",
    CompressionsShed "compressions_shed" "Bodies that left plain because there was enough to do.",
    LockOperations "lock_operations" "Times that a lock of shared caches was taken.",
    Throttled "requests_throttled" "Requests answered with 429: their client asked too fast.",
    Crowded "requests_crowded" "Requests refused: too many connections are answered at their path.",
    TurnedAway "connections_turned_away" "Connections refused: their client has too many.",
    LoginsFailed "logins_failed" "Requests whose name and password were wrong.",
    LoginsThrottled "logins_throttled" "Logins not tried: too many failed, or are being verified.",
    Denied "requests_denied" "Requests from networks that may not see what they asked for.",
    SlowRequests "slow_requests" "Requests that were slow, while there is a slow log.",
    SlowLogLost "slow_log_lost" "Lines of the slow log that were lost.",
    BackendRequests "backend_requests" "Requests that were given to a backend.",
    BackendsBroken "backend_failures_502" "Backends that ended, or said what is no answer.",
    BackendsBusy "backend_failures_503" "Requests for which no backend could be had.",
    BackendsLate "backend_failures_504" "Backends that did not answer in time.",
    SpoolFull "spool_full" "Requests refused because there was no room for their bodies.",
    BackendsCancelled "backend_cancels" "Backends whose client left before they had answered.",
    AccessLogLines "access_log_lines" "Lines of the access log that were written.",
    AccessLogLost "access_log_lost" "Lines of the access log that were lost.",
    AcceptPhase0 "accept_phase_0" "Accept phases that accepted nothing.",
    AcceptPhase1 "accept_phase_1" "Accept phases that accepted 1 connection.",
    AcceptPhase2 "accept_phase_2" "Accept phases that accepted 2 or 3 connections.",
    AcceptPhase4 "accept_phase_4" "Accept phases that accepted 4 to 7 connections.",
    AcceptPhase8 "accept_phase_8" "Accept phases that accepted 8 to 15 connections.",
    AcceptPhase16 "accept_phase_16" "Accept phases that accepted 16 to 31 connections.",
    AcceptPhase32 "accept_phase_32" "Accept phases that accepted 32 to 63 connections.",
    AcceptPhase64 "accept_phase_64" "Accept phases that accepted 64 to 127 connections.",
    AcceptPhase128 "accept_phase_128" "Accept phases that accepted 128 connections or more.",
}

/// The counters of answers by the class of their status, in the order of [`CLASS_NAMES`].
///
/// [`CLASS_NAMES`]: crate::hosts::CLASS_NAMES
pub const STATUS_CLASSES: [Counter; CLASSES] =
    [Counter::Status1, Counter::Status2, Counter::Status3, Counter::Status4, Counter::Status5];

/// The counters of accept phases by what they accepted, and at most how many that is.
pub const ACCEPT_BATCHES: [(Counter, Option<u64>); 9] = [
    (Counter::AcceptPhase0, Some(0)),
    (Counter::AcceptPhase1, Some(1)),
    (Counter::AcceptPhase2, Some(3)),
    (Counter::AcceptPhase4, Some(7)),
    (Counter::AcceptPhase8, Some(15)),
    (Counter::AcceptPhase16, Some(31)),
    (Counter::AcceptPhase32, Some(63)),
    (Counter::AcceptPhase64, Some(127)),
    (Counter::AcceptPhase128, None),
];

const COUNTERS: usize = Counter::ALL.len();

/// How many counters and reasons for closes there are: a block begins with their sums.
const SUMS: usize = COUNTERS + CloseReason::ALL.len();

/// Where the sum of a reason stands in a block; that of a counter stands at its number.
const fn reason_at(reason: CloseReason) -> usize {
    COUNTERS + reason as usize
}

/// Where the cells of histograms begin in a block, and those that are no sums.
const TIMINGS_AT: usize = SUMS;
const STATES_AT: usize = TIMINGS_AT + histogram::ALL_CELLS;

/// Where a block says how many lines of the access log wait in the memory of their process.
const GATHERED_AT: usize = STATES_AT + STANDINGS;

/// Where a block says how many connections began in it, less those that ended in it.
const OPEN_AT: usize = GATHERED_AT + 1;

/// Values in one block; whole cache lines, so that blocks do not share one.
const BLOCK: usize = (OPEN_AT + 1).next_multiple_of(8);

/// What the whole server shares beside its counters: a word each, in front of the blocks.
#[derive(Clone, Copy)]
enum Word {
    Generation,
    Architecture,
    Workers,
    Sockets,
}

/// Words in front of the blocks; a whole cache line.
const WORDS: usize = 8;

/// The blocks of all threads of control of a server, and one for those that died.
///
/// The mapping holds words of the whole server, then a cache line for each block that says who
/// counts in it, and then the blocks: those in which nobody counted are never touched.
#[derive(Debug)]
pub struct Blocks {
    shared: Arc<SharedCounters>,
    blocks: usize,
    hosts: NamedCounts,
    modules: NamedCounts,
}

/// Who counts in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The number of the generation of workers.
    pub generation: u64,
    /// The number of the worker in it; `None` for a process that serves nobody.
    pub worker: Option<usize>,
    /// Its process.
    pub process: i32,
}

/// Words of an owner.
const OWNER: usize = 8;

/// Where they say whether the worker that counts there has entered its loop.
const ENTERED_AT: usize = 4;

impl Blocks {
    /// Maps `blocks` blocks, to be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(blocks: usize) -> io::Result<Blocks> {
        let shared = Arc::new(SharedCounters::new(WORDS + (blocks + 1) * (OWNER + BLOCK))?);
        let (hosts, modules) = (NamedCounts::default(), NamedCounts::default());
        let blocks = Blocks { shared, blocks, hosts, modules };
        // That of the dead is always in use.
        blocks.set_owner(blocks.blocks, Owner { generation: 0, worker: None, process: 0 });
        Ok(blocks)
    }

    /// The same counters, for hosts and modules of other names.
    pub fn of_names(&self, hosts: &[String], modules: &[String]) -> Blocks {
        let (hosts, modules) = (self.hosts.of_names(hosts), self.modules.of_names(modules));
        let shared = Arc::clone(&self.shared);
        Blocks { shared, blocks: self.blocks, hosts, modules }
    }

    /// The same with counts of answers by host and by module; to be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn with_names(&self, hosts: &[String], modules: &[String]) -> io::Result<Blocks> {
        let hosts = NamedCounts::new(hosts, self.blocks)?.with_times()?;
        let modules = NamedCounts::new(modules, self.blocks)?;
        Ok(Blocks { shared: Arc::clone(&self.shared), blocks: self.blocks, hosts, modules })
    }

    /// What is counted by module.
    pub fn modules(&self) -> &NamedCounts {
        &self.modules
    }

    /// What is counted by host.
    pub fn hosts(&self) -> &NamedCounts {
        &self.hosts
    }

    fn owner_words(&self, index: usize) -> &[AtomicU64] {
        &self.shared.all()[WORDS + index * OWNER..][..OWNER]
    }

    /// Says who counts in a block from now on. Nobody is heard who did not say so.
    pub fn set_owner(&self, index: usize, owner: Owner) {
        let [used, generation, worker, process, ..] = self.owner_words(index) else { return };
        generation.store(owner.generation, Relaxed);
        worker.store(owner.worker.map_or(0, |worker| worker as u64 + 1), Relaxed);
        process.store(owner.process as u64, Relaxed);
        used.store(1, Relaxed);
    }

    /// Who counts in a block, if anybody does.
    pub fn owner(&self, index: usize) -> Option<Owner> {
        let [used, generation, worker, process, ..] = self.owner_words(index) else { return None };
        let worker = worker.load(Relaxed).checked_sub(1);
        (used.load(Relaxed) == 1).then(|| Owner {
            generation: generation.load(Relaxed),
            worker: worker.map(|worker| worker as usize),
            process: process.load(Relaxed) as i32,
        })
    }

    /// Says whether the worker that these blocks are for has entered its loop.
    pub fn set_entered(&self, mut blocks: Range<usize>, entered: bool) {
        let word = |index| self.owner_words(index).get(ENTERED_AT);
        blocks.by_ref().filter_map(word).for_each(|word| word.store(u64::from(entered), Relaxed));
    }

    /// Whether it has: of a group, each of its processes.
    pub fn has_entered(&self, mut blocks: Range<usize>) -> bool {
        blocks.all(|index| self.owner_words(index)[ENTERED_AT].load(Relaxed) == 1)
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.shared.all()[word as usize]
    }

    /// Says which generation of workers accepts: its number, the place of its architecture among
    /// all, and how many workers it has.
    pub fn set_generation(&self, number: u64, architecture: usize, workers: usize) {
        self.word(Word::Architecture).store(architecture as u64, Relaxed);
        self.word(Word::Workers).store(workers as u64, Relaxed);
        self.word(Word::Generation).store(number, Relaxed);
    }

    /// What [`Blocks::set_generation`] said last.
    pub fn generation(&self) -> (u64, usize, usize) {
        let word = |word| self.word(word).load(Relaxed);
        let (architecture, workers) = (word(Word::Architecture), word(Word::Workers));
        (word(Word::Generation), architecture as usize, workers as usize)
    }

    /// Says how many listening sockets there are; gives back how many were said before.
    pub fn set_sockets(&self, sockets: usize) -> usize {
        self.word(Word::Sockets).swap(sockets as u64, Relaxed) as usize
    }

    fn block(&self, index: usize) -> &[AtomicU64] {
        let start = WORDS + (self.blocks + 1) * OWNER + index * BLOCK;
        &self.shared.all()[start..start + BLOCK]
    }

    /// Records how long something took, `n` times.
    pub fn time(&self, index: usize, writers: Writers, timing: Timing, ns: u64, n: u64) {
        histogram::record(&self.block(index)[TIMINGS_AT..STATES_AT], writers, timing, ns, n);
    }

    /// Adds a tally to a block and empties it.
    pub fn publish(&self, index: usize, writers: Writers, tally: &mut Tally) {
        let block = self.block(index);
        tally.take(|place, n| writers.add(&block[place], n));
    }

    /// One connection goes from one place to another, or comes, or goes; the block may have
    /// several writers.
    pub fn change_state(&self, index: usize, before: Option<Standing>, now: Option<Standing>) {
        let cells = &self.block(index)[STATES_AT..];
        if let Some(before) = before {
            cells[before.place()].fetch_sub(1, Relaxed);
        }
        if let Some(now) = now {
            cells[now.place()].fetch_add(1, Relaxed);
        }
    }

    /// A connection begins; the block may have several writers.
    pub fn opened(&self, index: usize) {
        self.block(index)[OPEN_AT].fetch_add(1, Relaxed);
    }

    /// A connection ends, which may have begun in another block of the same process.
    pub fn closed(&self, index: usize) {
        self.block(index)[OPEN_AT].fetch_sub(1, Relaxed);
    }

    /// How many connections some owners have open, and how many processes they are.
    pub fn open(&self, wanted: impl Fn(&Owner) -> bool) -> (u64, usize) {
        let (mut open, mut processes, mut last) = (0u64, 0, None);
        for index in 0..self.blocks {
            let Some(owner) = self.owner(index).filter(&wanted) else { continue };
            open = open.wrapping_add(self.block(index)[OPEN_AT].load(Relaxed));
            // Those of one process lie side by side.
            processes += usize::from(last.replace(owner.process) != Some(owner.process));
        }
        // One that ended while the sum was made may count without its beginning.
        (counted(open), processes)
    }

    /// Says how many connections stand where now; the block has one writer.
    pub fn set_states(&self, index: usize, states: &[u64; STANDINGS]) {
        for (cell, value) in self.block(index)[STATES_AT..].iter().zip(states) {
            cell.store(*value, Relaxed);
        }
    }

    /// Lines of the access log that a thread of control has gathered: so many before, so many now.
    pub fn change_gathered(&self, index: usize, before: u64, now: u64) {
        self.block(index)[GATHERED_AT].fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Moves what a dead worker counted to the block of the dead; its connections are gone, and so
    /// are lines of the log if it could not hand them over.
    pub fn fold(&self, index: usize, abruptly: bool) {
        if self.owner(index).is_none() {
            return;
        }
        self.hosts.fold(index, self.blocks);
        self.modules.fold(index, self.blocks);
        let (dead, block) = (self.block(self.blocks), self.block(index));
        for (at, cell) in block.iter().enumerate() {
            let value = cell.swap(0, Relaxed);
            if at < STATES_AT && value > 0 {
                dead[at].fetch_add(value, Relaxed);
            }
            if at == GATHERED_AT && abruptly {
                dead[Counter::AccessLogLost as usize].fetch_add(value, Relaxed);
            }
        }
        self.owner_words(index)[0].store(0, Relaxed);
    }

    /// The sums over all blocks.
    pub fn totals(&self) -> Totals {
        self.totals_of(|_| true)
    }

    /// The sums over the blocks of some owners.
    pub fn totals_of(&self, wanted: impl Fn(&Owner) -> bool) -> Totals {
        let mut sums = vec![0u64; BLOCK];
        for index in 0..=self.blocks {
            if self.owner(index).is_some_and(|owner| wanted(&owner)) {
                for (sum, cell) in sums.iter_mut().zip(self.block(index)) {
                    *sum = sum.wrapping_add(cell.load(Relaxed));
                }
            }
        }
        Totals { sums }
    }
}

/// Sums over all threads of control, the dead ones too.
#[derive(Clone, Debug)]
pub struct Totals {
    sums: Vec<u64>,
}

impl Totals {
    /// The sum of a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.sums[counter as usize]
    }

    /// Connections closed for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.sums[reason_at(reason)]
    }

    /// Connections that stand there now.
    pub fn connections(&self, standing: Standing) -> u64 {
        counted(self.sums[STATES_AT + standing.place()])
    }

    /// Connections that are open now. One that changed its state while the sums were made is missed
    /// in one state and counted twice in another, which this undoes.
    pub fn open(&self) -> u64 {
        let places = Standing::open().map(|standing| self.sums[STATES_AT + standing.place()]);
        counted(places.fold(0, u64::wrapping_add))
    }

    /// How long things took.
    pub fn timing(&self, timing: Timing) -> Distribution<'_> {
        Distribution::of(timing, &self.sums[TIMINGS_AT..STATES_AT])
    }

    /// Connections accepted per accept phase (C_avg in Equation 1).
    pub fn accepted_per_phase(&self) -> f64 {
        ratio(self.counter(Counter::Accepted), self.counter(Counter::AcceptPhases))
    }

    /// Connections worked on per work phase.
    pub fn worked_on_per_phase(&self) -> f64 {
        ratio(self.counter(Counter::WorkedOn), self.counter(Counter::WorkPhases))
    }
}

/// A sum over blocks of what comes and goes: what went while the sum was made may count without its
/// coming, and then there is none.
fn counted(sum: u64) -> u64 {
    sum.cast_signed().max(0).cast_unsigned()
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::{StateChanges, count_states};
    use flyball_http::h1::state::State;

    const IDLE: Standing = Standing::At(State::Idle);
    const CLOSING: Standing = Standing::At(State::Closing);
    const ASKED: Standing = Standing::At(State::Asked);

    /// Blocks that are in use.
    fn used(count: usize) -> Blocks {
        let blocks = Blocks::new(count).unwrap();
        for index in 0..count {
            let owner = Owner { generation: 1, worker: Some(index), process: index as i32 + 1 };
            blocks.set_owner(index, owner);
        }
        blocks
    }

    #[test]
    fn how_long_a_dead_worker_took_stays_in_the_totals_and_its_block_is_free() {
        let blocks = used(2);
        blocks.time(0, Writers::One, Timing::Request, 5_000, 3);
        blocks.time(1, Writers::One, Timing::Request, 7_000, 1);
        blocks.time(1, Writers::Several, Timing::Loop, 1, 1);
        assert_eq!(blocks.owner(0).map(|owner| owner.worker), Some(Some(0)));
        blocks.fold(0, false);
        let totals = blocks.totals();
        let request = totals.timing(Timing::Request);
        assert_eq!((request.count(), request.sum_ns()), (4, 22_000));
        assert_eq!(totals.timing(Timing::Loop).count(), 1);
        assert_eq!(blocks.owner(0), None);
        let second = blocks.totals_of(|owner| owner.worker == Some(1));
        assert_eq!(second.timing(Timing::Request).count(), 1);
    }

    #[test]
    fn what_a_dead_worker_counted_stays_in_the_totals() {
        let blocks = used(2);
        let mut tally = Tally::default();
        tally.add(Counter::Requests, 3);
        tally.closed(CloseReason::IdleTimeout);
        blocks.publish(0, Writers::One, &mut tally);
        blocks.set_states(0, &count_states([IDLE, IDLE].into_iter()));
        tally.add(Counter::Requests, 4);
        blocks.publish(1, Writers::One, &mut tally);
        assert_eq!(blocks.totals().counter(Counter::Requests), 7);
        assert_eq!(blocks.totals().connections(IDLE), 2);
        blocks.fold(0, false);
        assert_eq!(blocks.totals().counter(Counter::Requests), 7);
        assert_eq!(blocks.totals().closed(CloseReason::IdleTimeout), 1);
        assert_eq!(blocks.totals().connections(IDLE), 0);
    }

    #[test]
    fn threads_that_share_a_block_lose_no_count() {
        let blocks = used(1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut tally = Tally::default();
                    for _ in 0..1_000 {
                        tally.add(Counter::Requests, 1);
                        tally.closed(CloseReason::IdleTimeout);
                        blocks.publish(0, Writers::Several, &mut tally);
                        blocks.change_state(0, None, Some(IDLE));
                        blocks.change_state(0, Some(IDLE), Some(CLOSING));
                        blocks.change_state(0, Some(CLOSING), None);
                    }
                    blocks.change_state(0, None, Some(IDLE));
                });
            }
        });
        let totals = blocks.totals();
        assert_eq!(totals.counter(Counter::Requests), 4_000);
        assert_eq!(totals.closed(CloseReason::IdleTimeout), 4_000);
        assert_eq!(totals.connections(IDLE), 4);
        assert_eq!(totals.connections(CLOSING), 0);
    }

    #[test]
    fn connections_that_threads_hand_to_each_other_are_counted_once() {
        let blocks = used(2);
        let [mut first, mut second] = [StateChanges::default(), StateChanges::default()];
        first.count(None, Some(IDLE));
        first.count(None, Some(IDLE));
        second.count(Some(IDLE), Some(ASKED));
        second.count(Some(IDLE), None);
        blocks.set_states(0, first.counts());
        blocks.set_states(1, second.counts());
        let totals = blocks.totals();
        assert_eq!((totals.connections(IDLE), totals.connections(ASKED)), (0, 1));
        assert_eq!(totals.open(), 1);
    }

    #[test]
    fn a_state_that_connections_left_while_they_were_summed_has_none() {
        let blocks = used(2);
        // The sum sees the connections where they went to, and not where they came from.
        let mut gone = StateChanges::default();
        (0..2).for_each(|_| gone.count(Some(IDLE), Some(ASKED)));
        blocks.set_states(1, gone.counts());
        let totals = blocks.totals();
        assert_eq!((totals.connections(IDLE), totals.connections(ASKED)), (0, 2));
        assert_eq!(totals.open(), 0, "what is too much in one state is missing in another");
    }

    #[test]
    fn accept_phases_are_counted_by_powers_of_two() {
        let blocks = used(1);
        let mut tally = Tally::default();
        let phases = [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 1_000_000, u64::MAX];
        for accepted in phases {
            tally.accept_phase(accepted.min(1 << 40));
        }
        blocks.publish(0, Writers::One, &mut tally);
        let counted = |label: &str| {
            let counter = Counter::ALL.iter().find(|counter| counter.label() == label);
            blocks.totals().counter(*counter.unwrap())
        };
        assert_eq!(counted("accept_phases"), phases.len() as u64);
        assert_eq!((counted("accept_phase_0"), counted("accept_phase_1")), (1, 1));
        for lowest in [2, 4, 8, 16, 32, 64] {
            assert_eq!(counted(&format!("accept_phase_{lowest}")), 2, "{lowest}");
        }
        assert_eq!(counted("accept_phase_128"), 3);
    }

    #[test]
    fn equation_1_holds() {
        let blocks = used(1);
        let mut tally = Tally::default();
        tally.add(Counter::Accepted, 30);
        tally.add(Counter::AcceptPhases, 12);
        blocks.publish(0, Writers::One, &mut tally);
        let totals = blocks.totals();
        let phases = totals.counter(Counter::AcceptPhases) as f64;
        assert_eq!(phases * totals.accepted_per_phase(), 30.0);
    }
}
