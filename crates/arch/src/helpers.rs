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

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use flyball_observe::counters::Tally;
use flyball_site::Plan;
use flyball_sys::disk::Nowait;
use flyball_sys::residency::Residency;
use flyball_sys::sandbox::Calls;

use crate::phases::DiskWork;
use crate::pool::{BlockingPool, Bounds, Name};
use crate::settings::{HelperKind, Settings};
use crate::slots::Token;
use crate::worker::Worker;

pub use inline::Inline;
use processes::Processes;

/// The name of every helper thread.
const NAME: Name = |_| "helper".into();

/// What a worker with helpers calls. Beside processes, threads do long work for the processor.
pub(crate) fn calls(settings: &Settings) -> &'static [Calls] {
    match settings.helper_kind {
        HelperKind::Thread => &[Calls::Readiness, Calls::Threads],
        HelperKind::Process => &[Calls::Readiness, Calls::Threads, Calls::Processes],
    }
}

/// The helpers of one loop; there are none yet. To be called before the worker has threads:
/// processes are forked from a small one that is forked here.
///
/// # Errors
/// When descriptors or processes are out.
pub(crate) fn start(worker: &Worker) -> io::Result<Box<dyn DiskWork>> {
    let settings = &worker.settings;
    let bounds = Bounds {
        most: settings.helpers,
        reserve: settings.helper_reserve.min(settings.helpers),
        idle_ms: settings.helper_idle_ms,
        worker: worker.index,
    };
    let nowait = Nowait::new(Residency::by(settings.residency));
    Ok(match settings.helper_kind {
        HelperKind::Thread => Box::new(Threads { nowait, pool: threads(bounds)? }),
        HelperKind::Process => Box::new(Processes::new(bounds, nowait)?),
    })
}

/// A pool of threads each of which runs one plan at a time, whole.
fn threads(bounds: Bounds) -> io::Result<BlockingPool<Plan>> {
    BlockingPool::new(NAME, bounds, Arc::new(Plan::run))
}

/// Helper threads.
struct Threads {
    nowait: Nowait,
    pool: BlockingPool<Plan>,
}

impl DiskWork for Threads {
    fn submit(&mut self, token: Token, mut plan: Box<Plan>) -> Option<Box<Plan>> {
        // Bringing a piece in was asked for because it is not there.
        if plan.warmed().is_none() && plan.run_nowait(&mut self.nowait) {
            return Some(plan);
        }
        self.pool.give(token, plan)
    }

    fn reads_large_bodies(&self) -> bool {
        true
    }

    fn completions(&self) -> Option<BorrowedFd<'_>> {
        Some(self.pool.completions())
    }

    fn acknowledge(&mut self) {
        self.pool.acknowledge();
    }

    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        self.pool.collect()
    }

    fn tend(&mut self, tally: &mut Tally) {
        self.pool.take_events().count(tally);
    }
}
