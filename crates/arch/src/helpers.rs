//! Helpers: threads or processes that do the work which may wait on the disk, for a loop that must
//! not (S2, section 5.1).
//!
//! The loop first does itself what need not wait: names and pages that are in memory
//! ([`Nowait`]). The rest goes to a helper. A helper handles one request at a time; helpers are
//! started when there is work and none is free, up to a limit, some are kept in reserve, and the
//! others end when they have been idle for a time. A helper thread runs a plan whole; a helper
//! process only brings into memory what an operation needs, and the loop repeats it. Either way
//! the loop is told of a completion, and of nothing else.

mod inline;
mod life;
mod processes;
mod threads;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use flyball_site::Plan;
use flyball_sys::disk::Nowait;
use flyball_sys::error_log::Level;
use flyball_sys::residency::Residency;
use flyball_sys::{clock, say};

use crate::counters::{Counter, Tally};
use crate::phases::DiskWork;
use crate::settings::{HelperKind, Settings};
use crate::slots::Token;
use crate::worker::Worker;

pub use inline::Inline;
use processes::Processes;
use threads::Threads;

/// Most times that work is given out again because its helper died.
const DEATHS_MAX: u32 = 3;

/// The helpers of one loop.
pub(crate) struct Helpers {
    nowait: Nowait,
    pool: Pool,
}

enum Pool {
    Threads(Threads),
    Processes(Box<Processes>),
}

/// How many helpers there are, and for how long.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Most at a time.
    most: usize,
    /// So many stay however long they are idle.
    reserve: usize,
    /// The others end when they have been idle for so long, in milliseconds.
    idle_ms: u64,
    /// The number of the worker that they help.
    worker: usize,
}

/// What happened since it was last counted.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    /// Pieces of work that were given to a helper.
    jobs: u64,
    /// Helpers that were started.
    started: u64,
    /// Helpers that ended because they were idle.
    reaped: u64,
    /// Helpers that died.
    died: u64,
}

impl Helpers {
    /// A pool without helpers yet. To be called before the worker has threads: processes are forked
    /// from a small one that is forked here.
    ///
    /// # Errors
    /// When descriptors or processes are out.
    pub(crate) fn start(worker: &Worker) -> io::Result<Helpers> {
        let settings = &worker.settings;
        let bounds = Bounds::of(settings, worker.index);
        let pool = match settings.helper_kind {
            HelperKind::Thread => Pool::Threads(Threads::new(bounds, Arc::new(Plan::run))?),
            HelperKind::Process => Pool::Processes(Box::new(Processes::new(bounds)?)),
        };
        Ok(Helpers { nowait: Nowait::new(Residency::by(settings.residency)), pool })
    }
}

impl Bounds {
    fn of(settings: &Settings, worker: usize) -> Bounds {
        Bounds {
            most: settings.helpers,
            reserve: settings.helper_reserve.min(settings.helpers),
            idle_ms: settings.helper_idle_ms,
            worker,
        }
    }

    /// Tells whoever runs the server, on standard error.
    fn say(&self, message: &str) {
        say!(Level::Warn, "worker {}: {message}", self.worker);
    }
}

impl Events {
    fn count(self, tally: &mut Tally) {
        tally.add(Counter::HelperJobs, self.jobs);
        tally.add(Counter::HelpersStarted, self.started);
        tally.add(Counter::HelpersReaped, self.reaped);
        tally.add(Counter::HelpersDied, self.died);
    }
}

impl DiskWork for Helpers {
    fn submit(&mut self, token: Token, mut plan: Box<Plan>) -> Option<Box<Plan>> {
        match &mut self.pool {
            Pool::Threads(threads) => {
                // Bringing a piece in was asked for because it is not there.
                if plan.warmed().is_none() && plan.run_nowait(&mut self.nowait) {
                    return Some(plan);
                }
                threads.give(token, plan)
            }
            Pool::Processes(processes) => processes.submit(token, plan, &mut self.nowait),
        }
    }

    fn reads_large_bodies(&self) -> bool {
        true
    }

    fn completions(&self) -> Option<BorrowedFd<'_>> {
        Some(match &self.pool {
            Pool::Threads(threads) => threads.completions(),
            Pool::Processes(processes) => processes.completions(),
        })
    }

    fn acknowledge(&mut self) {
        match &mut self.pool {
            Pool::Threads(threads) => threads.acknowledge(),
            Pool::Processes(processes) => processes.listen(&mut self.nowait),
        }
    }

    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        match &mut self.pool {
            Pool::Threads(threads) => threads.collect(),
            Pool::Processes(processes) => processes.collect(),
        }
    }

    fn tend(&mut self, tally: &mut Tally) {
        let events = match &mut self.pool {
            Pool::Threads(threads) => threads.take_events(),
            Pool::Processes(processes) => {
                processes.reap_idle(clock::monotonic_ms());
                processes.take_events()
            }
        };
        events.count(tally);
    }
}
