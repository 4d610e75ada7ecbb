//! Disk work in the event loop itself, as the papers' loops without helpers do it (S2, section
//! 3.3), and threads beside the loop for the long work that none of those loops had.
//!
//! Translating a path and bringing a file in is the loop's own work, and stops it. A listing, a
//! password, a body to be coded, a module that blocks: each may take milliseconds to seconds, and
//! whoever waits for one shall be the only one. It goes to a thread that is started when there is
//! none free and that ends when it has been idle for a time.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use flyball_observe::counters::Tally;
use flyball_site::Plan;

use super::NAME;
use crate::phases::DiskWork;
use crate::pool::{BlockingPool, Bounds, THREADS_MAX};
use crate::slots::Token;

/// A thread beside a loop ends when it has been idle for so long, in milliseconds.
const BESIDE_IDLE_MS: u64 = 10_000;

/// Disk work in the event loop: every connection of the loop waits for it, but not for long work.
pub struct Inline {
    beside: BlockingPool<Plan>,
    /// Whether there was long work ever: until then a turn of the loop takes no lock.
    used: bool,
}

impl Inline {
    /// For the loop of this worker; without threads yet.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn start(worker: usize) -> io::Result<Inline> {
        let bounds = Bounds { most: THREADS_MAX, reserve: 0, idle_ms: BESIDE_IDLE_MS, worker };
        let beside = BlockingPool::new(NAME, bounds, Arc::new(Plan::run))?;
        Ok(Inline { beside, used: false })
    }
}

impl DiskWork for Inline {
    fn submit(&mut self, token: Token, mut plan: Box<Plan>) -> Option<Box<Plan>> {
        if plan.is_long() {
            self.used = true;
            return self.beside.give(token, plan);
        }
        plan.run();
        Some(plan)
    }

    fn completions(&self) -> Option<BorrowedFd<'_>> {
        Some(self.beside.completions())
    }

    fn acknowledge(&mut self) {
        self.beside.acknowledge();
    }

    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        self.beside.collect()
    }

    fn tend(&mut self, tally: &mut Tally) {
        if self.used {
            self.beside.take_events().count(tally);
        }
    }
}
