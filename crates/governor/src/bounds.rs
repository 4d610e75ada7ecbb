//! What the operator allows a loop's governor, with every time that it reckons by.

use crate::Ns;

const MS: Ns = 1_000_000;

/// Whether decisions are made, and have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None is made.
    Off,
    /// They are made and noted, and nothing else happens.
    Watch,
    /// They hold.
    On,
}

/// What a loop's governor may do, and by what it does it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Whether decisions have an effect.
    pub mode: Mode,
    /// While it is set no lever moves.
    pub frozen: bool,
    /// The phases of a turn.
    pub phases: PhaseBounds,
    /// The accept queue.
    pub queue: QueueBounds,
    /// How long a level of the ladder lasts at least; sixty of it are the minute in which at most
    /// six levels change.
    pub dwell: Ns,
}

/// Bounds of the phases of a turn, which S0 (section 7) proposes as future work (M45, M47).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseBounds {
    /// Time of an accept phase; `None` for no bound.
    pub accept_for: Option<Ns>,
    /// Time of a work phase, after which the rest is carried over; `None` for no bound.
    pub work_for: Option<Ns>,
    /// Whether as many are accepted as a turn can work on. Otherwise the limit is fixed, and is
    /// none of the governor's business.
    pub pulls: bool,
    /// The most that one phase accepts when it pulls.
    pub accept_most: u32,
}

/// Bounds of the accept queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueBounds {
    /// The age of the queue's head above which the loop is overloaded; `None` for the larger of
    /// `target_least` and four times the mean work of a request.
    pub target: Option<Ns>,
    /// The least such target: two ticks of the kernel, whose clock of ages has that grain.
    pub target_least: Ns,
    /// How long a connection shall wait in the queue at most.
    pub time: Ns,
    /// Over how long the least age is taken: no less than a period of the group's CPU quota, since
    /// a stall by it looks like overload to all but the least.
    pub window: Ns,
    /// The age of a head is asked for no more often than this, and in a calm loop only after a turn
    /// that took as long.
    pub sample: Ns,
    /// How long the queue must be calm until an overload is over.
    pub calm: Ns,
    /// How long the queue stays bounded after an overload.
    pub lasts: Ns,
    /// How long a client that has sent FIN was silent before it counts as gone.
    pub gone: Ns,
    /// The age at which a connection is given up for stale; `None` for never.
    pub give_up: Option<Ns>,
    /// The accept queue's configured length, which is never exceeded.
    pub backlog: u32,
    /// The shortest that it may become.
    pub backlog_least: u32,
    /// Whether this worker alone reads its listening socket, and may change the queue's length.
    pub owned: bool,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            mode: Mode::On,
            frozen: false,
            phases: PhaseBounds {
                accept_for: Some(MS),
                work_for: Some(2 * MS),
                pulls: true,
                accept_most: 4_096,
            },
            queue: QueueBounds {
                target: None,
                target_least: 8 * MS,
                time: 100 * MS,
                window: 100 * MS,
                sample: MS,
                calm: 1_000 * MS,
                lasts: 10_000 * MS,
                gone: 1_000 * MS,
                give_up: None,
                backlog: 4_096,
                backlog_least: 16,
                owned: true,
            },
            dwell: 1_000 * MS,
        }
    }
}

impl QueueBounds {
    /// The age of the head above which the loop is overloaded, where a request takes so long.
    ///
    /// A fixed target of 5 ms, as in folly's `Codel`, refuses clients below saturation when a
    /// request itself takes 5 ms: two of them then are a queue.
    pub(crate) fn target(&self, work: Ns) -> Ns {
        self.target.unwrap_or_else(|| self.target_least.max(4 * work))
    }
}
