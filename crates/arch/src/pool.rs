//! The threads beside an event loop that do the work which blocks.
//!
//! The loop gives a job with a token. A thread that is free takes it; where none is, one is
//! started, up to a limit. The loop is told by a descriptor, and collects the finished jobs. A job
//! is a box that comes back, so that giving one allocates nothing. One that a thread died of is
//! done again: what a pool does with a job is therefore the pool's, and not a closure that is gone
//! once it was called.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flyball_observe::counters::{Counter, Tally};
use flyball_site::Plan;
use flyball_sys::error_log::Level;
use flyball_sys::say;
use flyball_sys::wake::Wake;

use crate::slots::Token;

/// Most threads beside a loop whose disk work is its own or a ring's: more work waits its turn.
pub(crate) const THREADS_MAX: usize = 8;

/// Most jobs that wait for a thread. A connection waits for one or two at a time, but one that is
/// closed leaves its jobs behind. The loop does itself what comes beyond, and accepts less.
const WAITING_MAX: usize = 65_536;

/// Most times that work is given out again because its helper died.
pub(crate) const DEATHS_MAX: u32 = 3;

/// How many helpers there are, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most at a time.
    pub(crate) most: usize,
    /// So many stay however long they are idle.
    pub(crate) reserve: usize,
    /// The others end when they have been idle for so long, in milliseconds.
    pub(crate) idle_ms: u64,
    /// The number of the worker that they help.
    pub(crate) worker: usize,
}

impl Bounds {
    /// Tells the operator, on standard error.
    pub(crate) fn say(&self, message: &str) {
        say!(Level::Warn, "worker {}: {message}", self.worker);
    }
}

/// What happened since it was last counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events {
    /// Pieces of work that were given to a helper.
    pub(crate) jobs: u64,
    /// Helpers that were started.
    pub(crate) started: u64,
    /// Helpers that ended because they were idle.
    pub(crate) reaped: u64,
    /// Helpers that died.
    pub(crate) died: u64,
}

impl Events {
    pub(crate) fn count(self, tally: &mut Tally) {
        tally.add(Counter::HelperJobs, self.jobs);
        tally.add(Counter::HelpersStarted, self.started);
        tally.add(Counter::HelpersReaped, self.reaped);
        tally.add(Counter::HelpersDied, self.died);
    }
}

/// What threads work on.
pub(crate) trait Job: Send + 'static {
    /// A thread died of it. It shall be done again.
    fn lost(&mut self);

    /// It is given up.
    fn fail(&mut self);
}

impl Job for Plan {
    fn lost(&mut self) {
        Plan::lost(self);
    }

    fn fail(&mut self) {
        Plan::fail(self);
    }
}

/// What a pool does with a job. It may block.
pub(crate) type Perform<J> = dyn Fn(&mut J) + Send + Sync;

/// The name of a thread that is started as so many run.
pub(crate) type Name = fn(usize) -> String;

/// The threads and their two queues.
pub(crate) struct BlockingPool<J: Job> {
    shared: Arc<Shared<J>>,
    collected: VecDeque<(Token, Box<J>)>,
}

struct Shared<J> {
    name: Name,
    bounds: Bounds,
    perform: Arc<Perform<J>>,
    state: Mutex<State<J>>,
    work: Condvar,
    done: Mutex<VecDeque<(Token, Box<J>)>>,
    completion: Wake,
}

struct State<J> {
    waiting: VecDeque<Given<J>>,
    /// Threads that exist, and those of them that wait for work.
    threads: usize,
    idle: usize,
    events: Events,
    stopping: bool,
}

struct Given<J> {
    token: Token,
    job: Box<J>,
    /// Threads that died of it.
    deaths: u32,
}

impl BlockingPool<Plan> {
    /// Beside a ring: a thread performs the one operation that the ring has none for, and stays.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn beside_ring(worker: usize, name: Name) -> io::Result<BlockingPool<Plan>> {
        let bounds = Bounds { most: THREADS_MAX, reserve: THREADS_MAX, idle_ms: 0, worker };
        BlockingPool::new(name, bounds, Arc::new(Plan::step))
    }
}

impl<J: Job> BlockingPool<J> {
    /// A pool without threads yet.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn new(
        name: Name,
        bounds: Bounds,
        perform: Arc<Perform<J>>,
    ) -> io::Result<BlockingPool<J>> {
        let (waiting, events) = (VecDeque::new(), Events::default());
        let state = State { waiting, threads: 0, idle: 0, events, stopping: false };
        let shared = Shared {
            name,
            bounds,
            perform,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Mutex::default(),
            completion: Wake::new()?,
        };
        Ok(BlockingPool { shared: Arc::new(shared), collected: VecDeque::new() })
    }

    /// Leaves a job to a thread, a new one if none is free. Where no thread or no place is to be
    /// had, the job is done here, and given back.
    pub(crate) fn give(&mut self, token: Token, mut job: Box<J>) -> Option<Box<J>> {
        let mut state = self.shared.lock();
        state.events.jobs += 1;
        if state.waiting.len() < WAITING_MAX {
            state.waiting.push_back(Given { token, job, deaths: 0 });
            if state.idle >= state.waiting.len() {
                drop(state);
                self.shared.work.notify_one();
                return None;
            }
            if Shared::employ(&self.shared, state) {
                return None;
            }
            // No thread will come: the job that none takes is the last one.
            job = self.shared.lock().waiting.pop_back()?.job;
        } else {
            drop(state);
        }
        (self.shared.perform)(&mut job);
        Some(job)
    }

    /// Readable when a job is done.
    pub(crate) fn completions(&self) -> BorrowedFd<'_> {
        self.shared.completion.as_fd()
    }

    /// Makes that unreadable again, and takes over what is done by then.
    pub(crate) fn acknowledge(&mut self) {
        self.shared.completion.clear();
        self.collected.append(&mut lock(&self.shared.done));
    }

    /// A job that was done, of those that were acknowledged.
    pub(crate) fn collect(&mut self) -> Option<(Token, Box<J>)> {
        self.collected.pop_front()
    }

    pub(crate) fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.shared.lock().events)
    }
}

impl<J: Job> Drop for BlockingPool<J> {
    /// Idle threads end at once, the others after the job that they have, which no one waits for:
    /// a disk may hold one up for ever. Jobs that wait are dropped.
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
    }
}

impl<J: Job> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }

    /// Starts a thread if there may be one more; false when there is no thread at all.
    fn employ(shared: &Arc<Shared<J>>, mut state: MutexGuard<'_, State<J>>) -> bool {
        if state.threads >= shared.bounds.most {
            return true;
        }
        let name = (shared.name)(state.threads);
        state.threads += 1;
        state.events.started += 1;
        drop(state);
        let own = Arc::clone(shared);
        if std::thread::Builder::new().name(name).spawn(move || serve(&own)).is_ok() {
            return true;
        }
        let mut state = shared.lock();
        state.threads -= 1;
        state.events.started -= 1;
        state.threads > 0
    }

    /// Waits for a job; `None` when this thread shall end.
    fn next(&self) -> Option<Given<J>> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                state.threads -= 1;
                return None;
            }
            if let Some(given) = state.waiting.pop_front() {
                return Some(given);
            }
            state.idle += 1;
            // Those in reserve need not wake up again and again.
            if state.threads <= self.bounds.reserve {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            }
            let idle = Duration::from_millis(self.bounds.idle_ms);
            let waited = self.work.wait_timeout(state, idle);
            let (after, ended) = waited.unwrap_or_else(PoisonError::into_inner);
            state = after;
            state.idle -= 1;
            let is_spare = state.waiting.is_empty() && state.threads > self.bounds.reserve;
            if ended.timed_out() && is_spare {
                state.threads -= 1;
                state.events.reaped += 1;
                return None;
            }
        }
    }

    fn finish(&self, token: Token, job: Box<J>) {
        lock(&self.done).push_back((token, job));
        self.completion.notify();
    }

    /// Takes the job of a thread that died, and replaces it.
    fn bury(shared: &Arc<Shared<J>>, mut given: Given<J>) {
        given.deaths += 1;
        given.job.lost();
        let mut state = shared.lock();
        state.threads -= 1;
        state.events.died += 1;
        if given.deaths > DEATHS_MAX {
            drop(state);
            shared.bounds.say("a helper thread died of the same work again; it is given up");
            shared.give_up(given);
        } else {
            state.waiting.push_front(given);
            drop(state);
            shared.bounds.say("a helper thread died; its work is done again");
        }
        let state = shared.lock();
        if !state.waiting.is_empty() && !Shared::employ(shared, state) {
            let rest = std::mem::take(&mut shared.lock().waiting);
            rest.into_iter().for_each(|given| shared.give_up(given));
        }
    }

    fn give_up(&self, mut given: Given<J>) {
        given.job.fail();
        self.finish(given.token, given.job);
    }
}

/// A thread's life.
fn serve<J: Job>(shared: &Arc<Shared<J>>) {
    while let Some(mut given) = shared.next() {
        // Our own mistake, told by the panic's message. Where panics end the process, the worker
        // dies and is restarted.
        let performed = catch_unwind(AssertUnwindSafe(|| (shared.perform)(&mut given.job)));
        match performed {
            Ok(()) => shared.finish(given.token, given.job),
            Err(_) => return Shared::bury(shared, given),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::RwLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::thread::yield_now;
    use std::time::Instant;

    use flyball_site::OpenFile;
    use flyball_sys::{file, net};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    const BOUNDS: Bounds = Bounds { most: 2, reserve: 1, idle_ms: 1, worker: 0 };

    /// A job that kills so many threads, and what was seen of it.
    #[derive(Debug, Default)]
    struct Deadly {
        kills: u32,
        runs: u32,
        lost: u32,
        failed: bool,
        /// Counts the runs of several jobs.
        counter: Arc<AtomicUsize>,
    }

    impl Job for Deadly {
        fn lost(&mut self) {
            self.lost += 1;
        }

        fn fail(&mut self) {
            self.failed = true;
        }
    }

    impl Deadly {
        fn run(&mut self) {
            self.runs += 1;
            self.counter.fetch_add(1, Relaxed);
            assert!(self.runs > self.kills, "a panic on purpose");
        }
    }

    /// A pool whose threads, but not the giver of the jobs, wait until the gate is open.
    fn gated(most: usize, gate: &Arc<RwLock<()>>) -> BlockingPool<Deadly> {
        let (gate, giver) = (Arc::clone(gate), std::thread::current().id());
        let perform = move |job: &mut Deadly| {
            let _open = (std::thread::current().id() != giver).then(|| gate.read());
            job.run();
        };
        BlockingPool::new(|_| "pool".into(), Bounds { most, ..BOUNDS }, Arc::new(perform)).unwrap()
    }

    fn give<J: Job>(pool: &mut BlockingPool<J>, token: u64, job: Box<J>) -> Option<Box<J>> {
        pool.give(Token::from_bits(token), job)
    }

    /// Sleeps until so many jobs are done.
    fn done<J: Job>(pool: &mut BlockingPool<J>, count: usize) -> Vec<(u64, Box<J>)> {
        let mut done = Vec::new();
        while done.len() < count {
            let told = net::wait_readable(pool.completions(), DEADLINE.as_millis() as u64).unwrap();
            assert!(told, "{} of {count} are done", done.len());
            pool.acknowledge();
            let found = std::iter::from_fn(|| pool.collect());
            done.extend(found.map(|(token, job)| (token.bits(), job)));
        }
        done
    }

    fn wait_until(is: impl Fn() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is() {
            assert!(Instant::now() < deadline, "it never came");
            yield_now();
        }
    }

    #[test]
    fn one_thread_does_the_jobs_in_their_order_and_keeps_their_boxes() {
        let gate = Arc::default();
        let mut pool = gated(1, &gate);
        let shut = gate.write();
        let mut given = Vec::new();
        for token in 0..100 {
            let job = Box::<Deadly>::default();
            given.push((token, &raw const *job));
            assert!(give(&mut pool, token, job).is_none());
        }
        drop(shut);
        let done = done(&mut pool, 100);
        assert!(done.iter().all(|(_, job)| job.runs == 1));
        assert!(done.iter().map(|(token, job)| (*token, &raw const **job)).eq(given));
    }

    #[test]
    fn a_thread_that_panics_is_replaced_and_its_job_done_again() {
        let mut pool = gated(2, &Arc::default());
        give(&mut pool, 7, Box::new(Deadly { kills: 2, ..Deadly::default() }));
        let (token, job) = done(&mut pool, 1).remove(0);
        assert_eq!((token, job.runs, job.lost, job.failed), (7, 3, 2, false));
        let events = pool.take_events();
        assert_eq!((events.jobs, events.started, events.died), (1, 3, 2));
    }

    #[test]
    fn a_job_that_kills_every_thread_is_given_up_after_a_few_and_others_are_done() {
        let gate = Arc::default();
        let mut pool = gated(1, &gate);
        let shut = gate.write();
        give(&mut pool, 0, Box::new(Deadly { kills: u32::MAX, ..Deadly::default() }));
        give(&mut pool, 1, Box::default());
        drop(shut);
        let done = done(&mut pool, 2);
        let seen: Vec<_> = done.iter().map(|(n, job)| (*n, job.runs, job.failed)).collect();
        assert_eq!(seen, [(0, DEATHS_MAX + 1, true), (1, 1, false)]);
        assert_eq!(pool.take_events().died, u64::from(DEATHS_MAX) + 1);
    }

    #[test]
    fn threads_come_when_none_is_free_and_end_when_idle_but_for_the_reserve() {
        let gate = Arc::default();
        let mut pool = gated(2, &gate);
        let shut = gate.write();
        for (given, threads) in [(1, 1), (2, 2), (3, 2)] {
            give(&mut pool, given, Box::default());
            assert_eq!(pool.shared.lock().threads, threads);
        }
        drop(shut);
        done(&mut pool, 3);
        let threads = || {
            let state = pool.shared.lock();
            (state.threads, state.idle)
        };
        wait_until(|| threads() == (1, 1));
        let events = pool.take_events();
        assert_eq!((events.jobs, events.started, events.reaped), (3, 2, 1));
        give(&mut pool, 4, Box::default());
        done(&mut pool, 1);
        let events = pool.take_events();
        assert_eq!((events.jobs, events.started, events.reaped), (1, 0, 0));
    }

    #[test]
    fn beyond_those_that_may_wait_a_job_is_done_by_its_giver() {
        let gate = Arc::default();
        let mut pool = gated(1, &gate);
        let shut = gate.write();
        give(&mut pool, 0, Box::default());
        wait_until(|| pool.shared.lock().waiting.is_empty());
        for token in 1..=WAITING_MAX as u64 {
            assert!(give(&mut pool, token, Box::default()).is_none());
        }
        let job = give(&mut pool, u64::MAX, Box::default());
        assert_eq!(job.map(|job| job.runs), Some(1));
        drop(shut);
        done(&mut pool, WAITING_MAX + 1);
    }

    #[test]
    fn a_pool_that_ends_finishes_what_is_begun_and_drops_what_waits() {
        let (gate, counter) = (Arc::default(), Arc::<AtomicUsize>::default());
        let mut pool = gated(1, &gate);
        let shut = gate.write();
        for token in 0..3 {
            let counter = Arc::clone(&counter);
            give(&mut pool, token, Box::new(Deadly { counter, ..Deadly::default() }));
        }
        wait_until(|| pool.shared.lock().waiting.len() == 2);
        drop(pool);
        assert_eq!(Arc::strong_count(&counter), 4);
        drop(shut);
        wait_until(|| Arc::strong_count(&counter) == 1);
        assert_eq!(counter.load(Relaxed), 1);
    }

    #[test]
    fn beside_a_ring_every_operation_is_performed_once_and_threads_stay() {
        let found = std::fs::File::open("/proc/self/exe").unwrap();
        let stamp = file::stamp(&found).unwrap();
        let file = OpenFile::new(Arc::new(found.into()), stamp);
        let mut pool = BlockingPool::beside_ring(0, |n| format!("offload-{n}")).unwrap();
        for token in 0..100 {
            assert!(give(&mut pool, token, Plan::warm(&file, 0, 16)).is_none());
        }
        let mut done = done(&mut pool, 100);
        assert!(done.iter_mut().all(|(_, plan)| plan.next_op().is_none()));
        done.sort_unstable_by_key(|(token, _)| *token);
        assert!(done.iter().map(|(token, _)| *token).eq(0..100));
        let state = pool.shared.lock();
        assert!((1..=THREADS_MAX).contains(&state.threads));
        assert_eq!((state.events.started, state.events.reaped), (state.threads as u64, 0));
    }
}
