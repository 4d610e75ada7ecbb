//! What holds for a loop until its next turn ends.

use crate::Ns;
use crate::ladder::Level;
use crate::turn::Age;

/// The most connections between two readings of the clock within a work phase: a reading is 22 ns,
/// and sixteen cached answers are a tenth of the phase.
const UNREAD_MAX: u32 = 16;

/// What holds until the next turn ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orders {
    /// How many connections a turn can work on; `u32::MAX` where that is not bounded. As many
    /// events are asked for: more would be told again in each turn while they are carried over.
    pub work_on: u32,
    /// How many are accepted at least, whatever is due already: none, or one.
    pub accept_least: u32,
    /// When an accept phase ends that has begun; `None` for no bound.
    pub accept_for: Option<Ns>,
    /// When a work phase ends that has begun, its first connection apart, and the rest is carried
    /// over; `None` for no bound.
    pub work_for: Option<Ns>,
    /// Who of those that are accepted is not served.
    pub arrive: Arrive,
    /// What the accept queue's length shall be; `None` where it is left alone.
    pub backlog: Option<u32>,
    /// Whether the age of the next phase's first connection is asked for.
    pub sample: bool,
    /// Whether the accept queue is looked at once.
    pub look: bool,
    /// How much of the last window the loop was not waiting for events, in percent.
    pub busy_percent: u32,
    /// Whether the loop is overloaded.
    pub overloaded: bool,
    /// What is left out.
    pub level: Level,
}

/// Who of those that are accepted is not served; ages in nanoseconds, `None` for no such rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrive {
    /// Clients that have sent FIN and were silent for longer are discarded. FIN alone is no reason:
    /// a client may close its half and wait for the answer.
    pub gone_after: Option<Ns>,
    /// All that have waited for longer are discarded.
    pub stale_after: Option<Ns>,
    /// Those that have waited for longer get what is cached, and no work is begun for them.
    pub late_after: Option<Ns>,
}

impl Arrive {
    /// Whether the ages of those that are accepted after `head` have to be asked for: the queue is
    /// first in, first out, so that none of them is older.
    pub fn asks(&self, head: Age) -> bool {
        let rules = [self.gone_after, self.stale_after, self.late_after];
        let oldest = head.queued.max(head.silent);
        rules.into_iter().flatten().any(|after| oldest > after)
    }

    /// Whether one of that age is discarded.
    pub fn closes(&self, age: Age) -> bool {
        let is_older = |after: Option<Ns>, than: Ns| after.is_some_and(|after| than > after);
        let is_gone = age.half_closed && is_older(self.gone_after, age.silent);
        is_gone || is_older(self.stale_after, age.queued)
    }
}

impl Orders {
    /// Those of a loop without a governor.
    pub const FREE: Orders = Orders {
        work_on: u32::MAX,
        accept_least: 1,
        accept_for: None,
        work_for: None,
        arrive: Arrive { gone_after: None, stale_after: None, late_after: None },
        backlog: None,
        sample: false,
        look: false,
        busy_percent: 0,
        overloaded: false,
        level: Level::NORMAL,
    };

    /// How many the next accept phase accepts at most, where so many connections are due to be
    /// worked on already. Work that has begun goes first.
    pub fn accepts(&self, due: usize) -> u32 {
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        self.work_on.saturating_sub(due).max(self.accept_least)
    }

    /// After how many connections of a work phase the clock is read, to see whether it is over.
    pub fn unread(&self) -> u32 {
        (self.work_on / 4).clamp(1, UNREAD_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_goes_first_and_newcomers_are_not_starved() {
        let orders = Orders { work_on: 40, accept_least: 1, ..Orders::FREE };
        assert_eq!([0, 30, 39, 40, usize::MAX].map(|due| orders.accepts(due)), [40, 10, 1, 1, 1]);
        assert_eq!(Orders { accept_least: 0, ..orders }.accepts(40), 0);
        assert_eq!(Orders::FREE.accepts(7), u32::MAX - 7);
    }

    #[test]
    fn long_work_reads_the_clock_after_each_connection() {
        let unread = |work_on| Orders { work_on, ..Orders::FREE }.unread();
        assert_eq!([1, 7, 40, 1_000].map(unread), [1, 1, 10, 16]);
    }
}
