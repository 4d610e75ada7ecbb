//! `amped`: one event loop, and helpers for whatever may wait on the disk.
//!
//! **Paper**: V. Pai, P. Druschel, W. Zwaenepoel: Flash: An Efficient and Portable Web Server,
//! USENIX 1999 (AMPED, sections 3.4 and 5.1).
//!
//! **Idea**: The event loop of `sped`, but it never waits on the disk: it hands pathname
//! translation and reading to a helper and goes on with other connections. The helper's completion
//! arrives as one more event.
//!
//! **Differs from the paper**:
//! * Helpers are threads of one fixed pool, and a helper brings the file's bytes with it; the
//!   paper's are processes, spawned on demand, that only touch the pages.
//! * The pieces of a large body are read by the loop itself when they are in memory
//!   (RWF_NOWAIT tells), and by a helper first when they are not. With `send.mode = "sendfile"`
//!   nothing tells, and the loop may wait.
//!
//! **Reads with**: section 3.4, figure 5: the loop is [`Phases`], the helpers are [`Helpers`];
//! section 5.1: a translation and a load are the two kinds of plan.
//!
//! **Settings**: `amped.helpers`, and those of `sped`.
//!
//! **Kernel needs**: eventfd, preadv2 with RWF_NOWAIT (4.14), and the chosen event mechanism.

use std::io;

use crate::helpers::Helpers;
use crate::phases::Phases;
use crate::registry::{Architecture, Sockets};
use crate::worker::{Report, Worker};

/// Asymmetric multi-process event-driven.
#[derive(Debug)]
pub struct Amped;

impl Architecture for Amped {
    fn name(&self) -> &'static str {
        "amped"
    }

    fn about(&self) -> &'static str {
        "an event loop that hands disk work to helpers"
    }

    fn paper(&self) -> &'static str {
        "Pai et al., USENIX 1999"
    }

    fn settings(&self) -> &'static [&'static str] {
        &[
            "amped.helpers",
            "workers",
            "pin",
            "events",
            "accept.limit",
            "accept.eager-read",
            "send.mode",
            "send.piece",
        ]
    }

    fn needs(&self) -> &'static str {
        "eventfd, preadv2 with RWF_NOWAIT (Linux 4.14) and the chosen event mechanism"
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let helpers = Helpers::start(worker.settings.helpers)?;
        let mut process = Phases::new(worker, helpers)?;
        while !process.is_done() {
            process.getevents()?;
            process.accept();
            process.work();
        }
        Ok(process.report())
    }
}
