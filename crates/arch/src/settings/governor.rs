//! What keeps a server steady when there is more to do than it can, as it is written in its
//! settings.

use flyball_governor::{Bounds, Mode, Ns, PhaseBounds, QueueBounds};

/// Nanoseconds of a millisecond.
const MS: Ns = 1_000_000;

/// What the governor of a loop may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernorSettings {
    /// Whether there is one, and whether what it decides has an effect.
    pub mode: Mode,
    /// The age of the connection at the head of the accept queue above which a loop is overloaded,
    /// in milliseconds; `None` follows from how long a request takes.
    pub target_ms: Option<u64>,
    /// How long a connection shall wait in the accept queue at most while a loop is overloaded, in
    /// milliseconds.
    pub queue_ms: u64,
    /// How long a client waits until it gives up, in milliseconds; `None` where that is not known.
    pub give_up_ms: Option<u64>,
    /// How long an accept phase lasts at most, in milliseconds; `None` for no bound.
    pub accept_ms: Option<u64>,
    /// How long a work phase lasts at most, its first connection apart, in milliseconds; `None` for
    /// no bound.
    pub work_ms: Option<u64>,
}

impl Default for GovernorSettings {
    fn default() -> GovernorSettings {
        GovernorSettings {
            mode: Mode::Off,
            target_ms: None,
            queue_ms: 100,
            give_up_ms: None,
            accept_ms: Some(1),
            work_ms: Some(2),
        }
    }
}

impl GovernorSettings {
    /// By what a loop's governor decides, where the accept queue has this length by the settings,
    /// and is the loop's own or is not.
    pub(crate) fn bounds(&self, backlog: u32, owned: bool) -> Bounds {
        let bounds = Bounds::default();
        let ns = |ms: u64| ms.saturating_mul(MS);
        let (accept_for, work_for) = (self.accept_ms.map(ns), self.work_ms.map(ns));
        let phases = PhaseBounds { accept_for, work_for, ..bounds.phases };
        let queue = QueueBounds {
            target: self.target_ms.map(ns),
            time: ns(self.queue_ms),
            give_up: self.give_up_ms.map(ns),
            backlog,
            owned,
            ..bounds.queue
        };
        Bounds { mode: self.mode, phases, queue, ..bounds }
    }
}
