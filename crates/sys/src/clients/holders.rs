//! How many connections clients hold, over all processes of a server.
//!
//! A word counts what one process holds for one client; what a client holds is the sum over the
//! words of its sets that bear its tag: so many processes as a set has words share one, and the
//! next ones have the next. A process that dies is taken out by the one that reaps it.

use std::hash::{BuildHasher, Hash, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::shared::SharedCounters;

/// Words in which a client may be, one for each process that has it: eight cache lines.
const WAYS: usize = 64;

/// Bits of a word: how many, for which process, for whom.
const COUNT_BITS: u32 = 16;
const OWNER_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;

/// Most attempts to change a word that others change as well; then the connection is not counted.
const ATTEMPTS_MAX: u32 = 64;

/// Who holds connections.
#[derive(Debug)]
pub struct Holders {
    /// Those of the sets, and behind them how many sets of a client may be in use beside its first.
    words: SharedCounters,
    sets: usize,
    hasher: RandomState,
}

/// A connection as its client's limit sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// It may stay, and is not counted: there is no limit, or no room to count its client.
    Free,
    /// It is counted in this word, which [`Holders::leave`] has to be told of.
    Counted(u32),
    /// There is none: its client has as many as it may.
    Refused,
}

impl Holders {
    /// Nobody yet, and room for about so many clients at a time. To be made before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(clients: usize) -> io::Result<Holders> {
        let sets = clients.div_ceil(WAYS).max(1);
        let words = SharedCounters::new(sets * WAYS + 1)?;
        Ok(Holders { words, sets, hasher: RandomState::new() })
    }

    /// A connection of this client, which may hold `most`, came to process `owner`, below 2^20.
    /// Never blocks. Of several that come at the same time fewer may be let in than there is room
    /// for, never more.
    pub fn enter(&self, client: impl Hash, most: u64, owner: usize) -> Seat {
        let hash = self.hasher.hash_one(client);
        let first = (hash >> 32) as usize;
        let (words, further) = self.words.all().split_at(self.sets * WAYS);
        let set_of = |group: usize| (first + group) % self.sets * WAYS;
        let group = (owner / WAYS).min(self.sets - 1);
        // Before it is counted: who comes at the same time and looks at fewer sets was counted by
        // then, and is seen from here.
        if further[0].load(SeqCst) < group as u64 {
            further[0].fetch_max(group as u64, SeqCst);
        }
        let (start, name) = (set_of(group), name_of(hash, owner));
        let Some(at) = add(&words[start..start + WAYS], name) else { return Seat::Free };
        let same = |word: u64| word & COUNT_MASK > 0 && tag_of(word) == tag_of(name);
        let sets = (0..=further[0].load(SeqCst) as usize).map(set_of);
        let all = sets.flat_map(|set| &words[set..set + WAYS]).map(|word| word.load(SeqCst));
        let held: u64 = all.filter(|word| same(*word)).map(|word| word & COUNT_MASK).sum();
        let place = (start + at) as u32;
        if held > most.clamp(1, COUNT_MASK) {
            self.leave(place);
            return Seat::Refused;
        }
        Seat::Counted(place)
    }

    /// A connection that was counted there is over.
    pub fn leave(&self, place: u32) {
        let Some(word) = self.counts().get(place as usize) else { return };
        let one_less = |word: u64| match word & COUNT_MASK {
            0 => None,
            1 => Some(0),
            _ => Some(word - 1),
        };
        let left = word.fetch_update(SeqCst, SeqCst, one_less);
        debug_assert!(left.is_ok(), "no client was counted there");
    }

    /// Process `owner` is dead: all that it held is over. Looks at the whole table.
    pub fn release(&self, owner: usize) {
        for word in self.counts() {
            let seen = word.load(SeqCst);
            if seen & COUNT_MASK > 0 && owner_of(seen) == owner as u64 & OWNER_MASK {
                // Only its owner would have changed it.
                let _ = word.compare_exchange(seen, 0, SeqCst, SeqCst);
            }
        }
    }

    /// Connections that are counted.
    pub fn held(&self) -> u64 {
        self.counts().iter().map(|word| word.load(SeqCst) & COUNT_MASK).sum()
    }

    fn counts(&self) -> &[AtomicU64] {
        &self.words.all()[..self.sets * WAYS]
    }
}

/// Adds one to the word of this name, or makes it; where that was.
fn add(set: &[AtomicU64], name: u64) -> Option<usize> {
    for _ in 0..ATTEMPTS_MAX {
        let mut free = None;
        let mut own = None;
        for (at, word) in set.iter().enumerate() {
            match word.load(SeqCst) {
                0 => free = free.or(Some((at, 0))),
                seen if seen & !COUNT_MASK == name && seen & COUNT_MASK < COUNT_MASK => {
                    own = own.or(Some((at, seen)));
                }
                _ => {}
            }
        }
        let (at, seen) = own.or(free)?;
        let new = if seen == 0 { name | 1 } else { seen + 1 };
        if set[at].compare_exchange(seen, new, SeqCst, SeqCst).is_ok() {
            return Some(at);
        }
    }
    None
}

fn name_of(hash: u64, owner: usize) -> u64 {
    let tag = hash & ((1 << (u64::BITS - COUNT_BITS - OWNER_BITS)) - 1);
    (tag << OWNER_BITS | owner as u64 & OWNER_MASK) << COUNT_BITS
}

fn owner_of(word: u64) -> u64 {
    word >> COUNT_BITS & OWNER_MASK
}

fn tag_of(word: u64) -> u64 {
    word >> (COUNT_BITS + OWNER_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};

    const ONE: u32 = 1;
    const TWO: u32 = 2;

    fn counted(entered: Seat) -> u32 {
        match entered {
            Seat::Counted(place) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_client_holds_as_many_as_it_may_over_all_processes() {
        let holders = Holders::new(1_024).unwrap();
        let first = counted(holders.enter(ONE, 3, 7));
        counted(holders.enter(ONE, 3, 7));
        counted(holders.enter(ONE, 3, 8));
        assert_eq!(holders.enter(ONE, 3, 7), Seat::Refused);
        assert_eq!(holders.enter(ONE, 3, 9), Seat::Refused);
        counted(holders.enter(TWO, 3, 7));
        holders.leave(first);
        counted(holders.enter(ONE, 3, 9));
        assert_eq!(holders.enter(ONE, 3, 9), Seat::Refused);
        assert_eq!(holders.held(), 4);
    }

    #[test]
    fn of_more_processes_than_a_set_has_words_all_count() {
        let holders = Holders::new(1_024).unwrap();
        let enter = |owner| holders.enter(ONE, 150, owner);
        let places: Vec<u32> = (0..150).map(|owner| counted(enter(owner * 3))).collect();
        assert!((0..300).all(|owner| enter(owner) == Seat::Refused));
        counted(holders.enter(TWO, 1, 400));
        holders.leave(places[149]);
        counted(enter(0));
        assert_eq!(enter(1), Seat::Refused);
        holders.release(3);
        counted(enter(5_000_000 / 64));
        assert_eq!(holders.held(), 151);
    }

    #[test]
    fn what_a_dead_process_held_is_free() {
        let holders = Holders::new(64).unwrap();
        counted(holders.enter(ONE, 4, 0));
        match fork().unwrap() {
            Forked::Child => {
                for _ in 0..3 {
                    counted(holders.enter(ONE, 4, 5));
                }
                exit_now(i32::from(holders.enter(ONE, 4, 5) != Seat::Refused));
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 0),
        }
        assert_eq!(holders.enter(ONE, 4, 0), Seat::Refused);
        holders.release(5);
        assert_eq!(holders.held(), 1);
        counted(holders.enter(ONE, 4, 0));
    }

    #[test]
    fn nobody_is_lost_and_nobody_gets_more_among_threads() {
        let holders = Holders::new(256).unwrap();
        let most = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for owner in 0..4 {
                let (holders, most) = (&holders, &most);
                scope.spawn(move || {
                    for _ in 0..3_000 {
                        let Seat::Counted(place) = holders.enter(ONE, 5, owner) else { continue };
                        let inside = most.fetch_add(1, SeqCst) + 1;
                        assert!(inside <= 5, "{inside}");
                        most.fetch_sub(1, SeqCst);
                        holders.leave(place);
                    }
                });
            }
        });
        assert_eq!(holders.held(), 0);
    }

    #[test]
    fn those_for_whom_there_is_no_room_are_let_in_uncounted() {
        let holders = Holders::new(1).unwrap();
        let entered: Vec<Seat> = (0..100_u32).map(|client| holders.enter(client, 1, 0)).collect();
        let uncounted = entered.iter().filter(|entered| **entered == Seat::Free).count();
        assert_eq!((holders.held(), uncounted), (64, 36));
        holders.release(0);
        assert_eq!(holders.held(), 0);
        counted(holders.enter(ONE, 1, 0));
    }
}
