//! Experiments: what a mechanism of the papers is worth (M55, M93, M117, M118, M123), and what the
//! habits cost that they advise against (M125). A server that is not measured has none.
//!
//! [`Experiment`] is what the settings ask for. [`Trial`] is what one thread of control has of it:
//! the loops ask it after accept, after a read and after a head is parsed.

use std::sync::Arc;

use flyball_conn::Tried;
use flyball_sys::error_log::Level;
use flyball_sys::lock::FileLock;
use flyball_sys::say;
use flyball_sys::signal::Masked;

use crate::settings::{ACCEPT_LOCK, CloseAfter, Experiment};

/// What one thread of control has of an experiment.
#[derive(Debug)]
pub(crate) struct Trial {
    rejections: Rejections,
    close_after: CloseAfter,
    accept_lock: Option<Arc<FileLock>>,
    signal_mask: bool,
}

impl Trial {
    /// That of an experiment, all of which is tried.
    pub(crate) fn of(experiment: &Experiment) -> Box<Trial> {
        let lock = experiment.lock().unwrap_or_else(|error| {
            // Nothing is kept out then, which is no harm but to what is measured.
            say!(Level::Error, "{ACCEPT_LOCK}: {error}");
            None
        });
        Box::new(Trial {
            rejections: Rejections::new(experiment.reject_percent),
            close_after: experiment.close_after,
            accept_lock: lock.map(Arc::new),
            signal_mask: experiment.signal_mask,
        })
    }

    /// What is tried with connections.
    pub(crate) fn with_connections(&self) -> Tried {
        Tried {
            ends_parsed: self.close_after == CloseAfter::Parse,
            masks: self.signal_mask.then_some(Masked::all as fn() -> Masked),
        }
    }

    /// What is to be held while accepting.
    pub(crate) fn accept_lock(&self) -> Option<Arc<FileLock>> {
        self.accept_lock.clone()
    }

    /// Whether a connection that was accepted ends at once.
    pub(crate) fn ends_accepted(&mut self) -> bool {
        self.close_after == CloseAfter::Accept || self.rejections.next()
    }

    /// Whether a connection ends from which something was read.
    pub(crate) fn ends_read(&self) -> bool {
        self.close_after == CloseAfter::Read
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
}
