//! `sped`: one process, one thread, an event loop.
//!
//! **Paper**: T. Brecht, D. Pariag, L. Gammo: accept()able Strategies for Improving Web Server
//! Performance, USENIX 2004 (the µserver, section 4.1); V. Pai, P. Druschel, W. Zwaenepoel: Flash,
//! USENIX 1999 (SPED, section 3.3).
//!
//! **Idea**: A single process interleaves all connections. It asks the kernel which of them are
//! ready, accepts new ones up to the accept-limit, and lets each ready one go as far as it can
//! without waiting on the network. What waits on the disk stops them all.
//!
//! **Differs from the paper**:
//! * The event mechanism is a setting; the paper's experiments use select.
//! * A new connection is read in the loop that accepted it unless `accept.eager-read` is off; the
//!   paper's µserver waits for the next getevents phase.
//! * A connection is registered only once a read would block.
//! * Listings, passwords, coding and modules that block, which the papers' servers do not have, are
//!   left to threads ([`Inline`]).
//!
//! **Reads with**: section 4.1 and figure 1 of the accept paper: getevents is
//! [`Phases::getevents`], the accept-phase is [`Phases::accept`], the work-phase is
//! [`Phases::work`].
//!
//! **Settings**: `pin`, and those of the event loop ([`phases::SETTINGS`]).
//!
//! **Kernel needs**: the chosen event mechanism.

use std::io;

use crate::architecture::{Architecture, Sockets};
use crate::helpers::Inline;
use crate::phases::{self, Phases};
use crate::settings::Settings;
use crate::worker::{Report, Worker};

/// Single-process event-driven.
#[derive(Debug)]
pub struct Sped;

impl Architecture for Sped {
    fn name(&self) -> &'static str {
        "sped"
    }

    fn about(&self) -> &'static str {
        "one event loop; the disk stops it"
    }

    fn paper(&self) -> &'static str {
        "Brecht et al., USENIX 2004; Pai et al., USENIX 1999"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[phases::SETTINGS, &["pin"]]
    }

    fn needs(&self) -> &'static str {
        "the chosen event mechanism"
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn workers(&self, _settings: &Settings) -> usize {
        1
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let work = Box::new(Inline::start(worker.index)?);
        let mut process = Phases::new(worker, work)?;
        while !process.is_done() {
            process.getevents()?;
            process.accept();
            process.work();
        }
        Ok(process.report())
    }
}
