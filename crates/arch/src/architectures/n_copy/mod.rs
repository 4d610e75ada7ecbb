//! `n-copy`: independent copies of the event-driven process, each with its own listening socket.
//!
//! **Paper**: A. Harji, P. Buhr, T. Brecht: Comparing High-Performance Multi-core Web-Server
//! Architectures, SYSTOR 2012 (section 4).
//!
//! **Idea**: One copy of the whole server per processor, bound to it, with its own listening socket
//! and its own caches: nothing is shared, so nothing is contended for. The paper's upper bound
//! while memory is ample.
//!
//! **Differs from the paper**:
//! * The copies share one port (SO_REUSEPORT) where the paper gives each its own port or subnet;
//!   the kernel spreads connections by their addresses.
//! * Interrupts are left where the system has them; the paper aligns them with the processes.
//!
//! **Reads with**: section 4, "N-copy"; the loop is that of `sped`.
//!
//! **Settings**: `workers`, `pin`, `accept.incoming-cpu`, `accept.by-address`, and those of the
//! event loop ([`phases::SETTINGS`]).
//!
//! **Kernel needs**: SO_REUSEPORT (3.9) and the chosen event mechanism.

use std::io;

use crate::architecture::{Architecture, Sockets};
use crate::helpers::Inline;
use crate::phases::{self, Phases};
use crate::worker::{Report, Worker};

/// Partitioned copies.
#[derive(Debug)]
pub struct NCopy;

impl Architecture for NCopy {
    fn name(&self) -> &'static str {
        "n-copy"
    }

    fn about(&self) -> &'static str {
        "event loops that share nothing but the port"
    }

    fn paper(&self) -> &'static str {
        "Harji et al., SYSTOR 2012"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[phases::SETTINGS, &["workers", "pin", "accept.incoming-cpu", "accept.by-address"]]
    }

    fn needs(&self) -> &'static str {
        "SO_REUSEPORT (Linux 3.9) and the chosen event mechanism"
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let work = Box::new(Inline::start(worker.index)?);
        let mut copy = Phases::new(worker, work)?;
        while !copy.is_done() {
            copy.getevents()?;
            copy.accept();
            copy.work();
        }
        Ok(copy.report())
    }
}
