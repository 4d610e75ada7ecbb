//! `symped`: symmetric copies of the event-driven process, on one listening socket.
//!
//! **Paper**: A. Shukla, L. Li, A. Subramanian, P. Ward, T. Brecht: Evaluating the Performance of
//! User-Space and Kernel-Space Web Servers, CASCON 2004 (section 4.3); A. Harji, P. Buhr,
//! T. Brecht: Comparing High-Performance Multi-core Web-Server Architectures, SYSTOR 2012
//! (section 2).
//!
//! **Idea**: The event-driven process is forked N times after it listens. All copies accept from
//! the same socket; while one waits on the disk, the others run on. Each has caches of its own.
//!
//! **Differs from the paper**:
//! * Only one copy is woken for a new connection where the event mechanism can do that
//!   (EPOLLEXCLUSIVE, `accept.exclusive`).
//! * The default number of copies is what the processor quota allows; the papers use up to 16 on
//!   one processor.
//!
//! **Reads with**: section 4.3 of the CASCON paper; the loop is that of `sped`.
//!
//! **Settings**: `workers`, `pin`, `accept.exclusive`, `experiment.accept-lock`, and those of the
//! event loop ([`phases::SETTINGS`]).
//!
//! **Kernel needs**: the chosen event mechanism.

use std::io;

use crate::architecture::{Architecture, Sockets};
use crate::helpers::Inline;
use crate::phases::{self, Phases};
use crate::worker::{Report, Worker};

/// Symmetric multi-process event-driven.
#[derive(Debug)]
pub struct Symped;

impl Architecture for Symped {
    fn name(&self) -> &'static str {
        "symped"
    }

    fn about(&self) -> &'static str {
        "event loops on one shared socket; the disk stops one of them"
    }

    fn paper(&self) -> &'static str {
        "Shukla et al., CASCON 2004; Harji et al., SYSTOR 2012"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[phases::SETTINGS, &["workers", "pin", "accept.exclusive", "experiment.accept-lock"]]
    }

    fn needs(&self) -> &'static str {
        "the chosen event mechanism"
    }

    fn sockets(&self) -> Sockets {
        Sockets::Shared
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
