//! `mp`: processes that block, one connection each.
//!
//! **Paper**: V. Pai, P. Druschel, W. Zwaenepoel: Flash: An Efficient and Portable Web Server,
//! USENIX 1999 (MP, section 3.1).
//!
//! **Idea**: Each of many processes accepts a connection, serves it to its end with blocking
//! calls, and accepts the next. What one waits for, the others do not see. Nothing is shared but
//! the listening sockets, and so nothing is locked.
//!
//! **Differs from the paper**:
//! * The kernel's socket time-outs, which accepted sockets inherit, are the watchdog: a call
//!   that is overdue returns, and its process looks at the time and for orders.
//! * The paper's processes hold 4 MB of mapped files each; here so much is mapped when `send.mode`
//!   says so, and as much memory holds bodies that were read. Open files are limited as well.
//!
//! **Reads with**: section 3.1, figure 2: a process's life is [`Thread::run`]; sections 5.2
//! and 5.4 for the sizes of its caches: [`caches`] and [`mapped_bytes_max`].
//!
//! **Settings**: `mp.processes`, `pin`, `send.mode`, `send.piece`, `experiment.cork`,
//! `experiment.accept-lock`.
//!
//! **Kernel needs**: nothing beyond blocking sockets.

use std::io;
use std::sync::Arc;

use flyball_site::{CacheSettings, Service};
use flyball_sys::sandbox::Calls;

use crate::architecture::{Architecture, Sockets};
use crate::blocking::{Crew, Thread};
use crate::chunks::Chunks;
use crate::settings::Settings;
use crate::worker::{Report, Worker};

/// Paths that a process remembers (section 5.2).
const PATHS_MAX: usize = 200;

/// Bytes of file bodies that a process holds (section 5.4).
const CONTENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of files that a process keeps mapped (section 5.4).
const MAPPED_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Open files that a process holds; 32 processes hold as many as one of another architecture.
const FILES_MAX: usize = 32;

/// Multi-process.
#[derive(Debug)]
pub struct Mp;

impl Architecture for Mp {
    fn name(&self) -> &'static str {
        "mp"
    }

    fn about(&self) -> &'static str {
        "processes that block, one connection each"
    }

    fn paper(&self) -> &'static str {
        "Pai et al., USENIX 1999"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[&[
            "mp.processes",
            "pin",
            "send.mode",
            "send.piece",
            "experiment.cork",
            "experiment.accept-lock",
        ]]
    }

    fn ignores(&self) -> &'static [&'static str] {
        // A process serves one connection.
        &["connections.max"]
    }

    fn defaults(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("cache.paths", "200"),
            ("cache.content", "4MiB"),
            ("cache.files", "32"),
            ("cache.mapped", "4MiB"),
        ]
    }

    fn needs(&self) -> &'static str {
        "nothing beyond blocking sockets"
    }

    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        &[]
    }

    fn sockets(&self) -> Sockets {
        Sockets::Shared
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn workers(&self, settings: &Settings) -> usize {
        settings.processes
    }

    fn run(&self, mut worker: Worker) -> io::Result<Report> {
        // A process that blocks has one.
        worker.connections_max = 1;
        let (number, processes) = (worker.index, worker.settings.processes);
        let service = Service::new(Arc::clone(&worker.sites), caches(&worker.settings));
        let crew = Crew::new(&worker)?;
        let mut desk = worker.desk_with(service, 0);
        let (chunk, most) = (worker.settings.chunk_bytes, mapped_bytes_max(&worker.settings));
        desk.sender.chunks = Chunks::new(chunk, most, worker.settings.mapped_advice);
        let process = Thread::new(&crew, desk).alone();
        process.run(number, processes)?;
        crew.leave_listeners();
        Ok(Report { unfinished: crew.unfinished() })
    }
}

/// The caches of one process: small, unless the user has said how large.
fn caches(settings: &Settings) -> CacheSettings {
    let mut caches = settings.caches.clone();
    let is_given = |key: &str| settings.given.contains_key(key);
    if !is_given("cache.paths") {
        caches.paths_max = caches.paths_max.min(PATHS_MAX);
    }
    if !is_given("cache.content") {
        caches.content_bytes_max = caches.content_bytes_max.min(CONTENT_BYTES_MAX);
    }
    if !is_given("cache.files") {
        caches.files_max = caches.files_max.min(FILES_MAX);
    }
    caches
}

/// What stays mapped of one process.
fn mapped_bytes_max(settings: &Settings) -> u64 {
    let is_given = settings.given.contains_key("cache.mapped");
    if is_given { settings.mapped_bytes_max } else { MAPPED_BYTES_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_small_caches_unless_their_size_was_given() {
        let written =
            |keys: &[&'static str]| keys.iter().map(|key| (*key, String::new())).collect();
        let sizes = |given: &[&'static str]| {
            let settings = Settings { given: written(given), ..Settings::default() };
            let caches = caches(&settings);
            (caches.paths_max, caches.content_bytes_max, caches.files_max)
        };
        let default = CacheSettings::default();
        let bytes = default.content_bytes_max;
        assert_eq!(sizes(&[]), (200, 4 << 20, 32));
        assert_eq!(sizes(&["cache.paths"]), (default.paths_max, 4 << 20, 32));
        let all = ["cache.paths", "cache.content", "cache.files"];
        assert_eq!(sizes(&all), (default.paths_max, bytes, default.files_max));
        let default = Settings::default();
        let given = Settings { given: written(&["cache.mapped"]), ..Settings::default() };
        assert_eq!(mapped_bytes_max(&default), 4 << 20);
        assert_eq!(mapped_bytes_max(&given), default.mapped_bytes_max);
    }
}
