//! `amped`: one event loop, and helpers for whatever may wait on the disk.
//!
//! **Paper**: V. Pai, P. Druschel, W. Zwaenepoel: Flash: An Efficient and Portable Web Server,
//! USENIX 1999 (AMPED, sections 3.4 and 5.1).
//!
//! **Idea**: The event loop of `sped`, but it never waits on the disk: pathname translation and
//! bringing pages in are handed to a helper where they would wait, and the loop goes on with other
//! connections. The helper's completion, which holds no data, arrives as one more event.
//!
//! **Differs from the paper**:
//! * Helpers are threads unless `amped.helper-kind` says processes, as the paper's are. A thread
//!   runs the work whole; a process warms it and the loop repeats it.
//! * Whether a path needs a helper is asked of the kernel (RESOLVE_CACHED), not only of the path
//!   cache. A path of a file system without local state (FUSE, NFS) always has one.
//! * Files are read or sent by reference, not mapped: the residency test is RWF_NOWAIT before a
//!   copy, and mincore on a mapping made for it before sendfile.
//! * The feedback heuristic for systems without such a test (section 5.7) is not needed.
//! * Whether a large body's file is still the same is asked by the loop itself, which waits for it
//!   where the inode is not in memory (FUSE, network file systems).
//!
//! **Reads with**: section 3.4, figure 5: the loop is [`Phases`], the helpers are [`helpers`];
//! section 5.1: a translation and a load are the two kinds of plan; section 5.7: the residency test
//! is `Residency`.
//!
//! **Settings**: `amped.helpers`, `amped.helper-kind`, `amped.reserve`, `amped.idle`,
//! `amped.residency`, `workers`, `pin`, `accept.incoming-cpu`, `accept.by-address`, and those
//! of the event loop ([`phases::SETTINGS`]).
//!
//! **Kernel needs**: eventfd and the chosen event mechanism. Without openat2 with RESOLVE_CACHED
//! (5.12) every path has a helper, without preadv2 with RWF_NOWAIT (4.14) every read.

use std::io;

use flyball_sys::file;
use flyball_sys::residency::Probe;
use flyball_sys::sandbox::Calls;

use crate::architecture::{Architecture, Auto, Sockets};
use crate::helpers;
use crate::phases::{self, Phases};
use crate::settings::{ResidencyTest, Settings};
use crate::worker::{Report, Worker};

/// Asymmetric multi-process event-driven.
#[derive(Debug)]
pub struct Amped;

const OWN: &[&str] = &["workers", "pin", "accept.incoming-cpu", "accept.by-address"];

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

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[phases::SETTINGS, super::HELPER_SETTINGS, OWN]
    }

    fn needs(&self) -> &'static str {
        "eventfd and the chosen event mechanism; \
         better with openat2 and RESOLVE_CACHED (Linux 5.12) and preadv2 and RWF_NOWAIT (4.14)"
    }

    fn found(&self) -> Vec<(String, String)> {
        let probe = Probe::here();
        let path = match file::tells_cached_names() {
            true => "openat2 with RESOLVE_CACHED",
            false => "none: a helper always",
        };
        let tests = [
            ("residency test before a path is opened", path.to_string()),
            ("residency test before bytes are read", probe.for_reading().to_string()),
            ("residency test before sendfile", probe.for_sending().to_string()),
            ("residency test before sending from a mapping", probe.for_mappings().to_string()),
            ("preadv2 with RWF_NOWAIT", probe.nowait.to_string()),
            ("cachestat", probe.cachestat.to_string()),
            ("mincore", probe.mincore.to_string()),
            ("madvise with MADV_POPULATE_READ", probe.populate.to_string()),
        ];
        tests.into_iter().map(|(feature, here)| (feature.into(), here)).collect()
    }

    fn auto(&self, settings: &Settings) -> Option<Auto> {
        let is_auto = settings.residency == ResidencyTest::Auto;
        is_auto.then(|| {
            let probe = Probe::here();
            let (read, sent) = (probe.for_reading(), probe.for_sending());
            let why = format!("{read} to read, {sent} to send: what works here");
            Auto::Told("amped.residency", why)
        })
    }

    fn contradiction(&self, settings: &Settings) -> Option<(&'static str, String)> {
        let Settings { helpers, helper_reserve, given, .. } = settings;
        // A default gives way to what is written.
        let is_fault = given.contains_key("amped.reserve") && helper_reserve > helpers;
        let why = || format!("{helper_reserve} is more than amped.helpers, which is {helpers}");
        is_fault.then(|| ("amped.reserve", why()))
    }

    fn calls(&self, settings: &Settings) -> &'static [Calls] {
        helpers::calls(settings)
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let helpers = helpers::start(&worker)?;
        let mut process = Phases::new(worker, helpers)?;
        while !process.is_done() {
            process.getevents()?;
            process.accept();
            process.work();
        }
        Ok(process.report())
    }
}
