//! Experiments: what a mechanism of the papers is worth (M55, M93, M117, M118, M123), and what the
//! habits cost that they advise against (M125). A server that is not measured has none.
//!
//! [`Experiment`] is what the settings ask for. [`Trial`] is what one thread of control has of it:
//! the loops ask it after accept, after a read and after a head is parsed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_conn::Tried;
use flyball_http::HeadStyle;
use flyball_sys::error_log::Level;
use flyball_sys::lock::{self, FileLock, Way};
use flyball_sys::say;
use flyball_sys::signal::Masked;

use crate::desk::Desk;
use crate::registry;
use crate::settings::Settings;
use crate::transmit::GATHER_MAX;

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

    /// The lock around accept for one thread of control.
    fn accept_lock(&self) -> io::Result<Option<FileLock>> {
        let (Some(file), Some(way)) = (&self.lock.0, self.accept_lock.way()) else {
            return Ok(None);
        };
        FileLock::on(file, way).map(Some)
    }
}

/// Keys that not every architecture honours.
const ACCEPT_LOCK: &str = "experiment.accept-lock";
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

    /// Memory segments that one write carries.
    pub(crate) fn gather_max(&self) -> usize {
        if self.limits.head_style.joins_bodies { GATHER_MAX } else { 1 }
    }
}

/// What one thread of control has of an experiment.
#[derive(Debug)]
pub(crate) struct Trial {
    rejections: Rejections,
    close_after: CloseAfter,
    accept_lock: Option<Arc<FileLock>>,
    signal_mask: bool,
}

impl Trial {
    /// That of these settings, as far as their architecture honours it.
    pub(crate) fn of(settings: &Settings) -> Option<Box<Trial>> {
        let experiment = settings.experiment.as_deref()?;
        let architecture = registry::find(&settings.arch)?;
        let honours = |key| !registry::is_unused(architecture, key);
        let lock = experiment.accept_lock().unwrap_or_else(|error| {
            // Nothing is kept out then, which is no harm but to what is measured.
            say!(Level::Error, "{ACCEPT_LOCK}: {error}");
            None
        });
        let percent = if honours(REJECT_RATE) { experiment.reject_percent } else { 0 };
        let stage = if honours(CLOSE_AFTER) { experiment.close_after } else { CloseAfter::Off };
        Some(Box::new(Trial {
            rejections: Rejections::new(percent),
            close_after: stage,
            accept_lock: lock.filter(|_| honours(ACCEPT_LOCK)).map(Arc::new),
            signal_mask: experiment.signal_mask,
        }))
    }
}

impl Trial {
    /// What is tried with connections.
    pub(crate) fn with_connections(&self) -> Tried {
        Tried {
            ends_parsed: self.close_after == CloseAfter::Parse,
            masks: self.signal_mask.then_some(Masked::all as fn() -> Masked),
        }
    }
}

impl Desk {
    /// What is to be held while accepting.
    pub(crate) fn accept_lock(&self) -> Option<Arc<FileLock>> {
        self.trial.as_ref()?.accept_lock.clone()
    }

    /// Whether a connection that was accepted ends at once.
    pub(crate) fn ends_accepted(&mut self) -> bool {
        let ends = |trial: &mut Box<Trial>| {
            trial.close_after == CloseAfter::Accept || trial.rejections.next()
        };
        self.trial.as_mut().is_some_and(ends)
    }

    /// Whether a connection ends from which something was read.
    pub(crate) fn ends_read(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.close_after == CloseAfter::Read)
    }
}

/// Which connections are closed right after accept: so many of a hundred, evenly (M55).
#[derive(Debug)]
struct Rejections {
    percent: u64,
    credit: u64,
}

impl Rejections {
    /// So many of a hundred.
    fn new(percent: u64) -> Rejections {
        Rejections { percent, credit: 0 }
    }

    /// Whether the connection that was accepted now is one of them.
    fn next(&mut self) -> bool {
        self.credit += self.percent;
        let rejected = self.credit >= 100;
        if rejected {
            self.credit -= 100;
        }
        rejected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_spread_evenly() {
        let rejected = |percent| {
            let mut rejections = Rejections::new(percent);
            (0..8).map(|_| u8::from(rejections.next())).collect::<Vec<_>>()
        };
        assert_eq!(rejected(0), [0; 8]);
        assert_eq!(rejected(25), [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(rejected(75), [0, 1, 1, 1, 0, 1, 1, 1]);
    }

    #[test]
    fn a_server_that_tries_nothing_has_no_experiment() {
        let mut settings = Settings::default();
        assert!(settings.experiment.is_none());
        settings.try_out(|experiment| experiment.signal_mask = true);
        assert!(settings.experiment.is_some());
        settings.try_out(|experiment| experiment.signal_mask = false);
        assert!(settings.experiment.is_none());
    }

    #[test]
    fn an_architecture_tries_what_it_honours() {
        let trial = |name: &str| {
            let mut settings = Settings { arch: name.into(), ..Settings::default() };
            settings.try_out(|experiment| {
                experiment.reject_percent = 100;
                experiment.accept_lock = AcceptLock::Flock;
                experiment.make_lock().unwrap();
            });
            let mut trial = Trial::of(&settings).unwrap();
            (trial.rejections.next(), trial.accept_lock.is_some())
        };
        assert_eq!(trial("symped"), (true, true));
        assert_eq!(trial("sped"), (true, false));
        assert_eq!(trial("mt"), (false, true));
    }
}
