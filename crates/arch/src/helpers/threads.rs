//! Helper threads: each runs one plan at a time, whole.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flyball_site::Plan;
use flyball_sys::wake::Wake;

use super::{Bounds, DEATHS_MAX, Events};
use crate::slots::Token;

/// What is done with a plan.
pub(super) type Run = dyn Fn(&mut Plan) + Send + Sync;

/// The pool and its two queues.
pub(super) struct Threads {
    shared: Arc<Shared>,
}

struct Shared {
    bounds: Bounds,
    /// What a helper does with a plan.
    run: Arc<Run>,
    asked: Mutex<Asked>,
    work: Condvar,
    done: Mutex<VecDeque<(Token, Box<Plan>)>>,
    completion: Wake,
}

#[derive(Default)]
struct Asked {
    jobs: VecDeque<Job>,
    /// Threads that exist, and those of them that wait for work.
    helpers: usize,
    idle: usize,
    events: Events,
    stopping: bool,
}

struct Job {
    token: Token,
    plan: Box<Plan>,
    /// Helpers that died of it.
    deaths: u32,
}

impl Threads {
    pub(super) fn new(bounds: Bounds, run: Arc<Run>) -> io::Result<Threads> {
        let shared = Shared {
            bounds,
            run,
            asked: Mutex::default(),
            work: Condvar::new(),
            done: Mutex::default(),
            completion: Wake::new()?,
        };
        Ok(Threads { shared: Arc::new(shared) })
    }

    /// Leaves a plan to a helper, a new one if none is free. Where there can be none at all the
    /// plan is run here, and given back.
    pub(super) fn give(&mut self, token: Token, plan: Box<Plan>) -> Option<Box<Plan>> {
        let mut asked = self.shared.lock();
        asked.events.jobs += 1;
        asked.jobs.push_back(Job { token, plan, deaths: 0 });
        if asked.idle >= asked.jobs.len() {
            drop(asked);
            self.shared.work.notify_one();
            return None;
        }
        drop(asked);
        if Shared::employ(&self.shared) {
            return None;
        }
        // Nobody will come: the job that nobody takes is the last one.
        let mut job = self.shared.lock().jobs.pop_back()?;
        (self.shared.run)(&mut job.plan);
        Some(job.plan)
    }

    pub(super) fn completions(&self) -> BorrowedFd<'_> {
        self.shared.completion.as_fd()
    }

    pub(super) fn acknowledge(&mut self) {
        self.shared.completion.clear();
    }

    pub(super) fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        lock(&self.shared.done).pop_front()
    }

    pub(super) fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.shared.lock().events)
    }
}

impl Drop for Threads {
    /// Idle helpers end at once, the others after the work that they have; nobody waits for it.
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }

    /// Starts a helper if there may be one more; false when there is no helper at all.
    fn employ(shared: &Arc<Shared>) -> bool {
        let mut asked = shared.lock();
        if asked.helpers >= shared.bounds.most {
            return true;
        }
        asked.helpers += 1;
        asked.events.started += 1;
        drop(asked);
        let helper = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("helper".into());
        if thread.spawn(move || help(&helper)).is_ok() {
            return true;
        }
        let mut asked = shared.lock();
        asked.helpers -= 1;
        asked.events.started -= 1;
        asked.helpers > 0
    }

    /// Waits for work; `None` when this helper shall end.
    fn next(&self) -> Option<Job> {
        let mut asked = self.lock();
        let mut in_reserve = false;
        loop {
            if asked.stopping {
                asked.helpers -= 1;
                return None;
            }
            if let Some(job) = asked.jobs.pop_front() {
                return Some(job);
            }
            asked.idle += 1;
            asked = if in_reserve {
                self.work.wait(asked).unwrap_or_else(PoisonError::into_inner)
            } else {
                let idle = Duration::from_millis(self.bounds.idle_ms);
                let waited = self.work.wait_timeout(asked, idle);
                let (asked, ended) = waited.unwrap_or_else(PoisonError::into_inner);
                // Those who are in reserve need not wake up again and again.
                in_reserve = ended.timed_out();
                asked
            };
            asked.idle -= 1;
            if in_reserve && asked.jobs.is_empty() && asked.helpers > self.bounds.reserve {
                asked.helpers -= 1;
                asked.events.reaped += 1;
                return None;
            }
        }
    }

    fn finish(&self, token: Token, plan: Box<Plan>) {
        lock(&self.done).push_back((token, plan));
        self.completion.notify();
    }

    /// Takes the work of a helper that died, and replaces it.
    fn bury(shared: &Arc<Shared>, mut job: Job) {
        job.deaths += 1;
        job.plan.lost();
        let mut asked = shared.lock();
        asked.helpers -= 1;
        asked.events.died += 1;
        if job.deaths > DEATHS_MAX {
            drop(asked);
            shared.bounds.say("a helper thread died of the same work again; it is given up");
            job.plan.fail();
            return shared.finish(job.token, job.plan);
        }
        asked.jobs.push_front(job);
        drop(asked);
        shared.bounds.say("a helper thread died; its work is done again");
        if !Shared::employ(shared) {
            let jobs: Vec<Job> = shared.lock().jobs.drain(..).collect();
            for mut job in jobs {
                job.plan.fail();
                shared.finish(job.token, job.plan);
            }
        }
    }
}

/// A helper's life.
fn help(shared: &Arc<Shared>) {
    while let Some(mut job) = shared.next() {
        // Our own mistake, told by the panic's message. Where panics end the process, the worker
        // dies and is restarted.
        let run = catch_unwind(AssertUnwindSafe(|| (shared.run)(&mut job.plan)));
        match run {
            Ok(()) => shared.finish(job.token, job.plan),
            Err(_) => return Shared::bury(shared, job),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use flyball_site::OpenFile;
    use flyball_sys::file;

    const DEADLINE: Duration = Duration::from_secs(20);

    const BOUNDS: Bounds = Bounds { most: 2, reserve: 1, idle_ms: 1, worker: 0 };

    fn plan() -> Box<Plan> {
        let found = std::fs::File::open("/proc/self/exe").unwrap();
        let stamp = file::stamp(&found).unwrap();
        Plan::warm(&OpenFile::new(Arc::new(found.into()), stamp), 0, 16)
    }

    /// Looks until something is found, and fails after a time.
    fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "it never came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_helper_that_panics_is_replaced_and_its_work_done_again() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = |plan: &mut Plan| {
            // The operation is lost with its helper, twice.
            let op = plan.next_op().unwrap();
            assert!(RUNS.fetch_add(1, Ordering::Relaxed) >= 2, "a panic on purpose");
            plan.done(op.perform());
        };
        let mut threads = Threads::new(BOUNDS, Arc::new(run)).unwrap();
        let token = Token::from_bits(7);
        assert!(threads.give(token, plan()).is_none());
        let (done, mut plan) = wait_for(|| threads.collect());
        assert_eq!((done, plan.next_op().is_none()), (token, true));
        assert_eq!(RUNS.load(Ordering::Relaxed), 3);
        let events = threads.take_events();
        assert_eq!((events.jobs, events.started, events.died), (1, 3, 2));
    }

    #[test]
    fn work_that_kills_every_helper_is_given_up_after_a_few() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = |_: &mut Plan| {
            RUNS.fetch_add(1, Ordering::Relaxed);
            panic!("a panic on purpose");
        };
        let mut threads = Threads::new(BOUNDS, Arc::new(run)).unwrap();
        threads.give(Token::from_bits(7), plan());
        let (_, mut plan) = wait_for(|| threads.collect());
        assert!(plan.next_op().is_none());
        assert_eq!(RUNS.load(Ordering::Relaxed), DEATHS_MAX as usize + 1);
    }

    #[test]
    fn helpers_come_when_none_is_free_and_go_when_idle() {
        static GATE: Mutex<()> = Mutex::new(());
        let run = |plan: &mut Plan| {
            drop(lock(&GATE));
            plan.run();
        };
        let mut threads = Threads::new(BOUNDS, Arc::new(run)).unwrap();
        let shut = lock(&GATE);
        for (given, helpers) in [(1, 1), (2, 2), (3, 2)] {
            threads.give(Token::from_bits(given), plan());
            assert_eq!(threads.shared.lock().helpers, helpers);
        }
        drop(shut);
        for _ in 0..3 {
            wait_for(|| threads.collect());
        }
        wait_for(|| (threads.shared.lock().helpers == 1).then_some(()));
        let events = threads.take_events();
        assert_eq!((events.jobs, events.started, events.reaped), (3, 2, 1));
    }
}
