//! How a run is disturbed.

use super::random::Random;

/// What a run does to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Nothing: each request comes whole, when the answer before it was taken.
    pub(super) is_undisturbed: bool,
    /// Most bytes that a client sends at once, and takes at once; 0 is all.
    pub(super) send_max: usize,
    pub(super) take_max: usize,
    /// Bytes that the two buffers of a socket hold.
    pub(super) inbound_max: usize,
    pub(super) outbound_max: usize,
    /// Something happens meanwhile at one call in so many; 0 is never.
    pub(super) preempts: usize,
    /// One wait in so many ends without or with an event too many; 0 is never.
    pub(super) spurious: usize,
    /// The disk is late, and does not keep the order.
    pub(super) late: bool,
    /// The disk is so slow that time is up before.
    pub(super) slow: bool,
    /// One plan in so many fails; 0 is none.
    pub(super) fails: usize,
    /// Time jumps beyond deadlines.
    pub(super) jumps: bool,
    /// A client breaks its connection at one act in so many; 0 is never.
    pub(super) leaves: usize,
    /// The server is told to end meanwhile.
    pub(super) ends: bool,
    /// Steps after which all of this ends.
    pub(super) calm_after: u64,
}

impl Schedule {
    /// Nothing disturbs.
    pub(super) const UNDISTURBED: Schedule = Schedule {
        is_undisturbed: true,
        send_max: 0,
        take_max: 0,
        inbound_max: 1 << 20,
        outbound_max: 1 << 20,
        preempts: 0,
        spurious: 0,
        late: false,
        slow: false,
        fails: 0,
        jumps: false,
        leaves: 0,
        ends: false,
        calm_after: u64::MAX,
    };

    /// A schedule in which something is disturbed. `harsh` ones also have time jump, plans fail and
    /// clients leave.
    pub(super) fn draw(random: &mut Random, harsh: bool) -> Schedule {
        let mut one = |n| harsh && random.one_in(n);
        let (jumps, fails, leaves) = (one(2), one(2), one(2));
        Schedule {
            is_undisturbed: false,
            send_max: random.pick(&[0, 1, 7, 100, 2_000]),
            take_max: random.pick(&[0, 100, 1_000, 20_000]),
            inbound_max: random.pick(&[50, 2_000, 1 << 16]),
            outbound_max: random.pick(&[300, 3_000, 1 << 17]),
            preempts: random.pick(&[0, 2, 8]),
            spurious: random.pick(&[0, 20]),
            late: random.one_in(2),
            slow: jumps && random.one_in(2),
            fails: if fails { 6 } else { 0 },
            jumps,
            leaves: if leaves { 60 } else { 0 },
            ends: harsh && !(jumps || fails || leaves),
            calm_after: u64::MAX,
        }
    }

    /// Whether a client's time may be up.
    pub(super) fn is_late(&self) -> bool {
        self.jumps || self.slow
    }

    /// Whether every answer must come, whole and as it is.
    pub(super) fn is_fair(&self) -> bool {
        self.is_patient() && !self.ends
    }

    /// Whether no answer may be broken off, and none be one that tells of a failure.
    pub(super) fn is_patient(&self) -> bool {
        !self.is_late() && self.fails == 0 && self.leaves == 0
    }

    /// From now on nothing is disturbed any more.
    pub(super) fn calm(&mut self) {
        let Schedule { inbound_max, outbound_max, .. } = *self;
        *self =
            Schedule { is_undisturbed: false, inbound_max, outbound_max, ..Schedule::UNDISTURBED };
    }
}
