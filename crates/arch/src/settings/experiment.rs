//! What an experiment tries (M55, M93, M117, M118, M123, M125), as it is written in the settings.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_http::HeadStyle;
use flyball_sys::lock::{self, FileLock, Way};

use super::{CompletionOrder, Settings, WorkOrder};

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
    /// How a file is locked around accept, if one is, so that one thread or process at a time is in
    /// it (M125).
    pub accept_lock: Option<Way>,
    /// Whether all signals are masked while a request is looked up (M125).
    pub signal_mask: bool,
    /// What the loops do in another way.
    pub loops: LoopHabits,
    /// The file that is locked around accept.
    lock: LockFile,
}

/// What loops do in the way that was found best, or in another one (M49 to M52, M54, M57 to M59).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopHabits {
    /// Connections worked on between two accept phases within a work phase; 0 has none (M50).
    pub accept_extra: u64,
    /// Whether one connection is accepted whenever one closes (M51).
    pub accept_on_close: bool,
    /// Whether there is an accept phase in every loop, ready or not (M52).
    pub accept_every_loop: bool,
    /// Whether pausing changes what a listening socket is watched for instead of removing it (M57).
    pub modify_listeners: bool,
    /// The order in which ready connections are worked on (M49).
    pub work_order: WorkOrder,
    /// Whether an answer is written as soon as it is there (M54).
    pub eager_write: bool,
    /// Whether a connection is read until a read would block (M54).
    pub full_read: bool,
    /// Whether a head is held back for its body by TCP_CORK instead of MSG_MORE (M58).
    pub cork: bool,
    /// In which order what is complete is acted on (M59).
    pub completion_order: CompletionOrder,
}

/// Those of a server that tries nothing.
static BEST: LoopHabits = LoopHabits::BEST;

impl LoopHabits {
    const BEST: LoopHabits = LoopHabits {
        accept_extra: 0,
        accept_on_close: false,
        accept_every_loop: false,
        modify_listeners: false,
        work_order: WorkOrder::Fifo,
        eager_write: true,
        full_read: false,
        cork: false,
        completion_order: CompletionOrder::Arrival,
    };
}

impl Default for LoopHabits {
    fn default() -> LoopHabits {
        LoopHabits::BEST
    }
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
        if self.accept_lock.is_some() {
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
            tried.accept_lock = None;
        }
        tried
    }

    /// The lock around accept for one thread of control.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn lock(&self) -> io::Result<Option<FileLock>> {
        let (Some(file), Some(way)) = (&self.lock.0, self.accept_lock) else { return Ok(None) };
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

    /// What the loops do, and in which order.
    pub fn habits(&self) -> &LoopHabits {
        self.experiment.as_deref().map_or(&BEST, |tried| &tried.loops)
    }

    /// Changes what the loops do.
    pub fn try_habit(&mut self, change: impl FnOnce(&mut LoopHabits)) {
        self.try_out(|tried| change(&mut tried.loops));
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
