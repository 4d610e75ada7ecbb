//! What an experiment tries (M55, M93, M117, M118, M123, M125), as it is written in the settings.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_http::HeadStyle;
use flyball_sys::lock::{self, FileLock, Way};

use super::Settings;

/// What is tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Experiment {
    /// Percent of connections that are closed right after accept (M55).
    pub reject_percent: u64,
    /// The stage after which every connection is closed (M55).
    pub close_after: CloseAfter,
    /// How heads are written.
    pub head: HeadStyle,
    /// Whether those who share caches share one lock too, and hold it while they look (M118).
    pub global_lock: bool,
    /// Whether a file of settings is looked for in every directory of a path (M125).
    pub directory_config: bool,
    /// What is locked around accept (M125).
    pub accept_lock: AcceptLock,
    /// Whether all signals are masked while a request is looked up (M125).
    pub signal_mask: bool,
    /// The file that is locked around accept.
    lock: LockFile,
}

/// After which stage every connection is closed: what the stages cost can then be told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseAfter {
    /// None: connections are served.
    #[default]
    Off,
    /// Accepted.
    Accept,
    /// Accepted, and the first bytes read.
    Read,
    /// Accepted and read, and the first head parsed.
    Parse,
}

/// What is locked around accept, so that one thread or process at a time is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptLock {
    /// Nothing.
    #[default]
    Off,
    /// A file, by fcntl(2).
    Fcntl,
    /// A file, by flock(2).
    Flock,
}

impl AcceptLock {
    fn way(self) -> Option<Way> {
        match self {
            AcceptLock::Off => None,
            AcceptLock::Fcntl => Some(Way::Fcntl),
            AcceptLock::Flock => Some(Way::Flock),
        }
    }
}

/// A file that all processes of the server have open; there is none before the start.
#[derive(Clone, Debug, Default)]
struct LockFile(Option<Arc<OwnedFd>>);

impl PartialEq for LockFile {
    fn eq(&self, _: &LockFile) -> bool {
        // Which file it is does not matter.
        true
    }
}

impl Eq for LockFile {}

impl Experiment {
    /// Makes the file that is locked around accept, if one shall be: before the first fork.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn make_lock(&mut self) -> Result<(), String> {
        if self.accept_lock != AcceptLock::Off {
            let file = lock::file().map_err(|error| format!("{ACCEPT_LOCK}: {error}"))?;
            self.lock = LockFile(Some(Arc::new(file)));
        }
        Ok(())
    }

    /// What of it an architecture tries that honours these keys alone.
    pub(crate) fn as_honoured(&self, honours: impl Fn(&str) -> bool) -> Experiment {
        let mut tried = self.clone();
        if !honours(REJECT_RATE) {
            tried.reject_percent = 0;
        }
        if !honours(CLOSE_AFTER) {
            tried.close_after = CloseAfter::Off;
        }
        if !honours(ACCEPT_LOCK) {
            tried.accept_lock = AcceptLock::Off;
        }
        tried
    }

    /// The lock around accept for one thread of control.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn lock(&self) -> io::Result<Option<FileLock>> {
        let (Some(file), Some(way)) = (&self.lock.0, self.accept_lock.way()) else {
            return Ok(None);
        };
        FileLock::on(file, way).map(Some)
    }
}

/// Keys that not every architecture honours.
pub(crate) const ACCEPT_LOCK: &str = "experiment.accept-lock";
const REJECT_RATE: &str = "experiment.reject-rate";
const CLOSE_AFTER: &str = "experiment.close-after";

impl Settings {
    /// Changes what is tried. A server that tries nothing has no experiment.
    pub fn try_out(&mut self, change: impl FnOnce(&mut Experiment)) {
        let mut experiment = self.experiment.take().unwrap_or_default();
        change(&mut experiment);
        self.experiment = Some(experiment).filter(|tried| **tried != Experiment::default());
    }

    /// Has the limits and the caches take part in what is tried.
    pub fn begin_experiment(&mut self) {
        let Some(experiment) = &self.experiment else { return };
        self.limits.head_style = experiment.head;
        self.caches.global_lock = experiment.global_lock;
        self.caches.directory_config = experiment.directory_config;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_tries_nothing_has_no_experiment() {
        let mut settings = Settings::default();
        assert!(settings.experiment.is_none());
        settings.try_out(|experiment| experiment.signal_mask = true);
        assert!(settings.experiment.is_some());
        settings.try_out(|experiment| experiment.signal_mask = false);
        assert!(settings.experiment.is_none());
    }
}
