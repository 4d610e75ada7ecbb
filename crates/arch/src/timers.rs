//! Deadlines of many connections: a wheel of lists, threaded through an array beside the slots.
//!
//! A deadline that moves later, as it does with every request, costs nothing: the entry stays where
//! it is and is put further on when its place comes up.

/// Milliseconds per place of the wheel: deadlines are seconds, so this is precise enough.
const TICK_MS: u64 = 64;

/// Places of the wheel; a deadline beyond one turn waits in the last place and is put on again.
const PLACES: usize = 1024;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    tick: u32,
    next: u32,
    previous: u32,
}

const UNQUEUED: Entry = Entry { tick: NONE, next: NONE, previous: NONE };

/// The wheel, for slots named by number.
#[derive(Debug)]
pub struct Timers {
    places: Box<[u32]>,
    entries: Vec<Entry>,
    tick: u32,
    start_ms: u64,
    queued: usize,
}

impl Timers {
    /// An empty wheel, starting now.
    pub fn new(now_ms: u64) -> Timers {
        Timers {
            places: vec![NONE; PLACES].into(),
            entries: Vec::new(),
            tick: 0,
            start_ms: now_ms,
            queued: 0,
        }
    }

    fn tick_of(&self, ms: u64) -> u32 {
        // Rounded up: never early.
        (ms.saturating_sub(self.start_ms).div_ceil(TICK_MS)).min(u64::from(NONE - 1)) as u32
    }

    /// Sees to it that slot `index` comes up no later than a tick after `deadline_ms`. It may come
    /// up earlier, if an earlier deadline was set before. `u64::MAX` asks for nothing.
    pub fn set(&mut self, index: usize, deadline_ms: u64) {
        if deadline_ms == u64::MAX {
            return;
        }
        if index >= self.entries.len() {
            self.entries.resize(index + 1, UNQUEUED);
        }
        let last = self.tick + PLACES as u32 - 1;
        let tick = self.tick_of(deadline_ms).clamp(self.tick + 1, last);
        let queued = self.entries[index].tick;
        if queued != NONE {
            if queued <= tick {
                return;
            }
            self.unlink(index);
        }
        self.link(index, tick);
    }

    /// Forgets slot `index`.
    pub fn clear(&mut self, index: usize) {
        if self.entries.get(index).is_some_and(|entry| entry.tick != NONE) {
            self.unlink(index);
        }
    }

    /// Takes out one slot whose place has come up; to be called until it gives `None`.
    pub fn pop(&mut self, now_ms: u64) -> Option<usize> {
        let now = (now_ms.saturating_sub(self.start_ms) / TICK_MS).min(u64::from(NONE)) as u32;
        while self.tick < now || self.head(self.tick) != NONE {
            let first = self.head(self.tick);
            if first != NONE {
                if self.tick > now {
                    return None;
                }
                self.unlink(first as usize);
                return Some(first as usize);
            }
            if self.queued == 0 {
                self.tick = now;
                return None;
            }
            self.tick += 1;
        }
        None
    }

    /// Milliseconds until something may come up, at most `most_ms`.
    pub fn wait_ms(&self, now_ms: u64, most_ms: u64) -> u64 {
        if self.queued == 0 {
            return most_ms;
        }
        // What was due while the machine stood still has not been taken out yet.
        let end = self.tick_of(now_ms + most_ms).clamp(self.tick, self.tick + PLACES as u32);
        let next = (self.tick..end).find(|&tick| self.head(tick) != NONE);
        let Some(next) = next else { return most_ms };
        let due = self.start_ms + u64::from(next) * TICK_MS;
        due.saturating_sub(now_ms).min(most_ms)
    }

    fn head(&self, tick: u32) -> u32 {
        self.places[tick as usize % PLACES]
    }

    fn link(&mut self, index: usize, tick: u32) {
        let place = tick as usize % PLACES;
        let next = self.places[place];
        self.entries[index] = Entry { tick, next, previous: NONE };
        if next != NONE {
            self.entries[next as usize].previous = index as u32;
        }
        self.places[place] = index as u32;
        self.queued += 1;
    }

    fn unlink(&mut self, index: usize) {
        let entry = std::mem::replace(&mut self.entries[index], UNQUEUED);
        if entry.next != NONE {
            self.entries[entry.next as usize].previous = entry.previous;
        }
        if entry.previous == NONE {
            self.places[entry.tick as usize % PLACES] = entry.next;
        } else {
            self.entries[entry.previous as usize].next = entry.next;
        }
        self.queued -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(timers: &mut Timers, now_ms: u64) -> Vec<usize> {
        let mut due: Vec<_> = std::iter::from_fn(|| timers.pop(now_ms)).collect();
        due.sort_unstable();
        due
    }

    #[test]
    fn nothing_comes_up_early_and_everything_within_a_tick() {
        let mut timers = Timers::new(1000);
        for index in 0..50 {
            timers.set(index, 1000 + index as u64 * 37);
        }
        let mut seen = Vec::new();
        for now in 1000..1000 + 50 * 37 + 2 * TICK_MS {
            for index in popped(&mut timers, now) {
                let deadline = 1000 + index as u64 * 37;
                assert!(now >= deadline, "slot {index} at {now}");
                assert!(now <= deadline + 2 * TICK_MS, "slot {index} at {now}");
                seen.push(index);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_overdue_is_not_waited_for() {
        let mut timers = Timers::new(0);
        timers.set(1, 10_000);
        assert_eq!(timers.wait_ms(0, 500), 500);
        for now in [10_048, 11_000, 1_000_000] {
            assert_eq!(timers.wait_ms(now, 500), 0, "{now}");
        }
        assert_eq!(popped(&mut timers, 1_000_000), [1]);
    }

    #[test]
    fn an_earlier_deadline_wins_and_a_later_one_costs_nothing() {
        let mut timers = Timers::new(0);
        timers.set(3, 10_000);
        timers.set(3, 20_000);
        timers.set(3, 500);
        assert!(popped(&mut timers, 400).is_empty());
        assert_eq!(popped(&mut timers, 700), [3]);
        assert!(popped(&mut timers, 30_000).is_empty());
    }

    #[test]
    fn a_deadline_beyond_one_turn_comes_up_to_be_set_again() {
        let mut timers = Timers::new(0);
        let turn = TICK_MS * PLACES as u64;
        timers.set(1, turn * 3);
        let mut now = 0;
        let mut rounds = 0;
        while now < turn * 3 {
            now += timers.wait_ms(now, 1_000).max(1);
            if timers.pop(now).is_some() && now < turn * 3 {
                rounds += 1;
                timers.set(1, turn * 3);
            }
        }
        assert!((2..=4).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_cleared_slot_never_comes_up() {
        let mut timers = Timers::new(0);
        for index in 0..3 {
            timers.set(index, 100);
        }
        timers.clear(1);
        timers.clear(9);
        assert_eq!(popped(&mut timers, 1000), [0, 2]);
        assert_eq!(timers.wait_ms(1000, 250), 250);
    }
}
