//! Timers of connections: a wheel of milliseconds, and one timer for each connection.
//!
//! A deadline that moves away is not moved here: when the timer fires, its owner sees that it has
//! time left and sets it again. So a connection that gets reply after reply costs a timer nothing.

/// Nanoseconds of one slot.
const TICK_NS: u64 = 1_000_000;

/// Slots: what lies further ahead than these goes round again.
const SLOTS: usize = 4096;

/// No timer.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    /// The tick at which it fires; `u64::MAX` when it is not set.
    tick: u64,
}

/// Timers by the numbers of their owners.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Vec<u32>,
    links: Vec<Link>,
    /// Which slots hold a timer, a bit each.
    occupied: [u64; SLOTS / 64],
    /// The next tick to look at.
    tick: u64,
}

impl Wheel {
    /// One that begins at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Wheel {
        Wheel {
            heads: vec![NONE; SLOTS],
            links: Vec::new(),
            occupied: [0; SLOTS / 64],
            tick: now_ns / TICK_NS,
        }
    }

    /// Makes the timer of `owner` fire at `at_ns`, or up to a millisecond later, unless it fires
    /// before that already.
    pub(crate) fn set_no_later(&mut self, owner: u32, at_ns: u64) {
        let tick = at_ns.div_ceil(TICK_NS).max(self.tick);
        if self.links.len() <= owner as usize {
            let unset = Link { next: NONE, previous: NONE, tick: u64::MAX };
            self.links.resize(owner as usize + 1, unset);
        }
        if self.links[owner as usize].tick > tick {
            self.unset(owner);
            self.link(owner, tick);
        }
    }

    fn link(&mut self, owner: u32, tick: u64) {
        let slot = tick as usize % SLOTS;
        let head = self.heads[slot];
        self.links[owner as usize] = Link { next: head, previous: NONE, tick };
        if head != NONE {
            self.links[head as usize].previous = owner;
        }
        self.heads[slot] = owner;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// The timer of `owner` does not fire.
    pub(crate) fn unset(&mut self, owner: u32) {
        let Some(link) = self.links.get(owner as usize).copied() else { return };
        if link.tick == u64::MAX {
            return;
        }
        let slot = link.tick as usize % SLOTS;
        if link.previous == NONE {
            self.heads[slot] = link.next;
            if link.next == NONE {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
            }
        } else {
            self.links[link.previous as usize].next = link.next;
        }
        if link.next != NONE {
            self.links[link.next as usize].previous = link.previous;
        }
        self.links[owner as usize].tick = u64::MAX;
    }

    /// Takes out every timer that is due, into `due`.
    pub(crate) fn expire(&mut self, now_ns: u64, due: &mut Vec<u32>) {
        let now = now_ns / TICK_NS;
        if now < self.tick {
            return;
        }
        // After a long pause every slot is looked at once.
        let first = self.tick.max((now + 1).saturating_sub(SLOTS as u64));
        for tick in first..=now {
            let slot = tick as usize % SLOTS;
            let mut owner = self.heads[slot];
            while owner != NONE {
                let link = self.links[owner as usize];
                if link.tick <= now {
                    self.unset(owner);
                    due.push(owner);
                }
                owner = link.next;
            }
        }
        self.tick = now + 1;
    }

    /// When the next slot with a timer is due, at most; `None` when no timer is set.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let start = self.tick as usize % SLOTS;
        let words = SLOTS / 64;
        for turn in 0..=words {
            let word = (start / 64 + turn) % words;
            let mut bits = self.occupied[word];
            if turn == 0 {
                bits &= u64::MAX << (start % 64);
            } else if turn == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - start) % SLOTS;
                return Some((self.tick + ahead as u64) * TICK_NS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    fn expired(wheel: &mut Wheel, now_ms: u64) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.expire(now_ms * TICK_NS, &mut due);
        due.sort_unstable();
        due
    }

    #[test]
    fn timers_fire_when_they_are_due_and_once() {
        let mut wheel = Wheel::new(1000 * TICK_NS);
        wheel.set_no_later(0, 1005 * TICK_NS);
        wheel.set_no_later(1, 1005 * TICK_NS);
        wheel.set_no_later(2, 21_000 * TICK_NS);
        assert_eq!(wheel.next_ns(), Some(1005 * TICK_NS));
        assert!(expired(&mut wheel, 1004).is_empty());
        wheel.unset(1);
        assert_eq!(expired(&mut wheel, 1005), [0]);
        assert!(expired(&mut wheel, 20_999).is_empty());
        assert_eq!(expired(&mut wheel, 21_000), [2]);
        assert_eq!(wheel.next_ns(), None);
    }

    #[test]
    fn a_later_time_does_not_move_a_timer_and_an_earlier_one_does() {
        let mut wheel = Wheel::new(0);
        wheel.set_no_later(7, 50 * TICK_NS);
        wheel.set_no_later(7, 90 * TICK_NS);
        assert_eq!(wheel.next_ns(), Some(50 * TICK_NS));
        wheel.set_no_later(7, 20 * TICK_NS);
        assert_eq!(expired(&mut wheel, 20), [7]);
        assert!(expired(&mut wheel, 100).is_empty());
    }

    #[test]
    fn it_agrees_with_a_sorted_list() {
        let mut random = Random::new(11, Purpose::Requests);
        let mut wheel = Wheel::new(0);
        let mut model = std::collections::BTreeMap::new();
        let mut now = 0;
        for _ in 0..20_000 {
            let owner = random.below(64) as u32;
            if random.chance(0.2) {
                wheel.unset(owner);
                model.remove(&owner);
            } else {
                let at = now + 1 + random.below(9000) as u64;
                wheel.set_no_later(owner, at * TICK_NS);
                let entry = model.entry(owner).or_insert(at);
                *entry = at.min(*entry);
            }
            now += random.below(40) as u64;
            let mut due: Vec<u32> =
                model.iter().filter(|(_, at)| **at <= now).map(|(owner, _)| *owner).collect();
            due.sort_unstable();
            model.retain(|_, at| *at > now);
            assert_eq!(expired(&mut wheel, now), due, "at {now}");
            let next = wheel.next_ns().map(|ns| ns / TICK_NS);
            assert!(next.is_none_or(|next| model.values().all(|at| *at >= next)));
            assert_eq!(next.is_none(), model.is_empty());
        }
    }
}
