//! `shared-symped`: symmetric copies of the event-driven process that share one table of
//! descriptors and one cache.
//!
//! **Paper**: A. Harji, P. Buhr, T. Brecht: Comparing High-Performance Multi-core Web-Server
//! Architectures, SYSTOR 2012 (section 4, shared-SYMPED).
//!
//! **Idea**: SYMPED's copies hold the same files open and the same heads in memory, each for
//! itself. Here they share a table of descriptors (`CLONE_FILES` without `CLONE_VM`), so that one
//! cache of open files and heads, in a shared mapping, serves all. Processes are divided among
//! listening sockets, and while one of them waits on the disk, the others run on.
//!
//! **Differs from the paper**:
//! * Partitions share one port (SO_REUSEPORT), unless `accept.by-address` is on; the paper gives
//!   each a subnet. Interrupts are left where the system has them.
//! * A leader, which serves nothing, cleans up after processes that die: it closes what they had
//!   open, breaks their locks, and starts others. The paper's server would leak both.
//! * The maps of the cache are sets of 16 records with a victim each, not one list in order of use;
//!   names beyond 256 bytes and heads beyond 2,048 are not cached.
//! * No body is in memory but the kernel's: small files leave by `send` and `sendfile` or `pread`
//!   as well. An answer from the cache allocates twice: the loan of the descriptor, and its holder.
//! * Opening, accepting and closing write one word more in shared memory, before and after.
//!
//! **Reads with**: section 4: the two tiers of locks are in `flyball_site`'s shared table, named
//! there; the processes are a [`Group`]; the loop is that of `sped`. Section 8: the mapping takes 8
//! bytes for each descriptor number once (the paper: in each process), 2,512 for each file and 8
//! more for each process, 296 for each path.
//!
//! **Settings**: `shared-symped.partitions`, `workers` (the processes of the group), `pin` (each
//! partition to a CPU), `accept.exclusive`, `accept.incoming-cpu`, `accept.by-address`,
//! `experiment.entry-locks`, and those of the event loop ([`phases::SETTINGS`]).
//!
//! **Kernel needs**: SO_REUSEPORT (3.9), `/proc`, and the chosen event mechanism.

mod group;

use std::io;

use flyball_sys::sandbox::Calls;

use self::group::Group;
use crate::architecture::{Architecture, Auto, Sockets};
use crate::phases;
use crate::settings::Settings;
use crate::worker::{Report, Worker};

/// Symmetric multi-process event-driven, with a shared cache.
#[derive(Debug)]
pub struct SharedSymped;

impl Architecture for SharedSymped {
    fn name(&self) -> &'static str {
        "shared-symped"
    }

    fn about(&self) -> &'static str {
        "event loops that share open files and one cache; the disk stops one of them"
    }

    fn paper(&self) -> &'static str {
        "Harji et al., SYSTOR 2012"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[
            phases::SETTINGS,
            &[
                "shared-symped.partitions",
                "workers",
                "pin",
                "accept.exclusive",
                "accept.incoming-cpu",
                "accept.by-address",
                "experiment.entry-locks",
            ],
        ]
    }

    fn ignores(&self) -> &'static [&'static str] {
        // The table that the processes share has an order of its own, and no bodies of files.
        &["cache.policy", "cache.pin", "cache.keep", "cache.never", "cache.lock", "cache.small"]
    }

    fn needs(&self) -> &'static str {
        "SO_REUSEPORT (Linux 3.9), /proc and the chosen event mechanism"
    }

    fn probe(&self) -> Result<(), String> {
        group::probe()
    }

    fn auto(&self, settings: &Settings) -> Option<Auto> {
        let is_auto = settings.groups.is_none();
        is_auto.then(|| Auto::ByCpus("shared-symped.partitions", group::partitions(settings)))
    }

    /// The leader clones the processes.
    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        &[Calls::Readiness, Calls::Threads, Calls::Processes]
    }

    fn shares_cache(&self) -> bool {
        true
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    /// The leader is free to go where there is room; the processes bind themselves.
    fn pins_workers(&self) -> bool {
        false
    }

    fn sockets_wanted(&self, settings: &Settings) -> usize {
        group::partitions(settings)
    }

    /// The leader; the processes are its own.
    fn workers(&self, _settings: &Settings) -> usize {
        1
    }

    fn processes(&self, settings: &Settings) -> usize {
        group::processes(settings)
    }

    fn threads(&self, settings: &Settings) -> usize {
        group::processes(settings)
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        Group::new(worker)?.run(&|mut process, seat| {
            while !process.is_done() {
                process.getevents()?;
                process.accept();
                process.work();
                if process.is_draining() {
                    seat.leave_listeners();
                }
            }
            Ok(process.report())
        })
    }
}
