//! How fast clients go: a bucket each, in one word.
//!
//! The word holds the time at which the client has used nothing (the "theoretical arrival time" of
//! the generic cell rate algorithm, ITU-T I.371, annex A). Each use moves it on by an interval; a
//! use that would move it beyond a window from now is refused. A word whose time has passed says
//! no more than one that is empty, so that it is anybody's.

use std::hash::{BuildHasher, Hash, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::shared::SharedCounters;

/// Words in which a client may be: a cache line.
const WAYS: usize = 8;

/// Bits of a word that hold a time, in microseconds; it comes round after 12 days.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Longest window. What lies further ahead was left there a round ago.
const WINDOW_US_MAX: u64 = TIME_MASK / 8;

/// Most attempts to change a word that others change as well; then the use is let through.
const ATTEMPTS_MAX: u32 = 16;

/// The buckets of clients.
#[derive(Debug)]
pub struct Rates {
    words: SharedCounters,
    sets: usize,
    hasher: RandomState,
}

/// How fast a client may go. Buckets of one table may have different rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    interval_us: u64,
    window_us: u64,
}

impl Rate {
    /// So many uses in a second, and `burst` at once.
    pub fn new(per_s: f64, burst: u64) -> Rate {
        let interval_us = (1e6 / per_s).clamp(1.0, WINDOW_US_MAX as f64) as u64;
        let window_us = interval_us.saturating_mul(burst.max(1)).min(WINDOW_US_MAX);
        Rate { interval_us, window_us }
    }
}

/// Where a client's bucket is, or may be made.
struct Place<'a> {
    word: &'a AtomicU64,
    seen: u64,
    /// How far the bucket is ahead of now, in microseconds.
    ahead_us: u64,
}

impl Rates {
    /// Buckets for about so many clients at a time. To be made before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(clients: usize) -> io::Result<Rates> {
        let sets = clients.div_ceil(WAYS).max(1);
        let words = SharedCounters::new(sets * WAYS)?;
        Ok(Rates { words, sets, hasher: RandomState::new() })
    }

    /// One use by this client, which has this rate always, at a time in monotonic milliseconds.
    /// Never blocks. When the table is full, the client that is nearest to having used nothing
    /// makes room.
    ///
    /// # Errors
    /// The milliseconds after which it may be tried again, when the client has used up what it may.
    pub fn take(&self, client: impl Hash, rate: &Rate, now_ms: u64) -> Result<(), u64> {
        self.take_many(client, 1, rate, now_ms)
    }

    /// So many uses at once, or none.
    ///
    /// # Errors
    /// As [`Rates::take`].
    pub fn take_many(
        &self,
        client: impl Hash,
        uses: u64,
        rate: &Rate,
        now_ms: u64,
    ) -> Result<(), u64> {
        let many_us = rate.interval_us.saturating_mul(uses);
        let (now_us, hash) = (now_ms.wrapping_mul(1_000), self.hasher.hash_one(client));
        for _ in 0..ATTEMPTS_MAX {
            let place = self.place(hash, rate, now_us);
            let ahead_us = place.ahead_us.saturating_add(many_us);
            if ahead_us > rate.window_us {
                return Err((ahead_us - rate.window_us).div_ceil(1_000));
            }
            let new = packed(tag_of(hash), now_us.wrapping_add(ahead_us));
            if place.word.compare_exchange(place.seen, new, Relaxed, Relaxed).is_ok() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes so many uses back.
    pub fn give_back(&self, client: impl Hash, uses: u64, rate: &Rate, now_ms: u64) {
        let many_us = rate.interval_us.saturating_mul(uses);
        let (now_us, hash) = (now_ms.wrapping_mul(1_000), self.hasher.hash_one(client));
        for _ in 0..ATTEMPTS_MAX {
            let place = self.place(hash, rate, now_us);
            if place.ahead_us == 0 {
                return;
            }
            let ahead_us = place.ahead_us.saturating_sub(many_us);
            let new = packed(tag_of(hash), now_us.wrapping_add(ahead_us));
            if place.word.compare_exchange(place.seen, new, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Has this client use all that it may at once, so that it is known until a whole window has
    /// passed since.
    pub fn fill(&self, client: impl Hash, rate: &Rate, now_ms: u64) {
        let (now_us, hash) = (now_ms.wrapping_mul(1_000), self.hasher.hash_one(client));
        for _ in 0..ATTEMPTS_MAX {
            let place = self.place(hash, rate, now_us);
            let new = packed(tag_of(hash), now_us.wrapping_add(rate.window_us));
            if place.word.compare_exchange(place.seen, new, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Whether anything is known of this client.
    pub fn knows(&self, client: impl Hash, rate: &Rate, now_ms: u64) -> bool {
        let hash = self.hasher.hash_one(client);
        self.place(hash, rate, now_ms.wrapping_mul(1_000)).ahead_us > 0
    }

    /// The word of a client, or the one that it shall have.
    fn place(&self, hash: u64, rate: &Rate, now_us: u64) -> Place<'_> {
        let first = (hash >> 24) as usize % self.sets * WAYS;
        let words = &self.words.all()[first..first + WAYS];
        let mut spare: Option<Place<'_>> = None;
        for word in words {
            let seen = word.load(Relaxed);
            if seen >> TIME_BITS == tag_of(hash) {
                return Place { word, seen, ahead_us: ahead(seen, rate.window_us, now_us) };
            }
            let ahead_us = ahead(seen, WINDOW_US_MAX, now_us);
            if spare.as_ref().is_none_or(|spare| ahead_us < spare.ahead_us) {
                spare = Some(Place { word, seen, ahead_us });
            }
        }
        match spare {
            Some(spare) => Place { ahead_us: 0, ..spare },
            None => Place { word: &words[0], seen: 0, ahead_us: 0 },
        }
    }
}

/// How far a word's time is ahead of now. One that lies beyond the window has been forgotten for
/// days, and its time has come round.
fn ahead(word: u64, window_us: u64, now_us: u64) -> u64 {
    let ahead_us = (word & TIME_MASK).wrapping_sub(now_us) & TIME_MASK;
    if word == 0 || ahead_us > window_us { 0 } else { ahead_us }
}

/// What a client is told by in its set; never zero, which is nobody.
fn tag_of(hash: u64) -> u64 {
    (hash & ((1 << (u64::BITS - TIME_BITS)) - 1)).max(1)
}

fn packed(tag: u64, time_us: u64) -> u64 {
    tag << TIME_BITS | time_us & TIME_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets that all have one rate.
    struct Alike(Rates, Rate);

    impl Alike {
        fn new(clients: usize, per_s: f64, burst: u64) -> io::Result<Alike> {
            Ok(Alike(Rates::new(clients)?, Rate::new(per_s, burst)))
        }

        fn take(&self, client: u32, now_ms: u64) -> Result<(), u64> {
            self.0.take(client, &self.1, now_ms)
        }

        fn fill(&self, client: u32, now_ms: u64) {
            self.0.fill(client, &self.1, now_ms);
        }

        fn knows(&self, client: u32, now_ms: u64) -> bool {
            self.0.knows(client, &self.1, now_ms)
        }
    }

    /// How many of `tries` uses at one time are let through.
    fn taken(rates: &Alike, client: u32, tries: u32, now_ms: u64) -> u32 {
        (0..tries).map(|_| u32::from(rates.take(client, now_ms).is_ok())).sum()
    }

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let rates = Alike::new(64, 10.0, 5).unwrap();
        assert_eq!(taken(&rates, 1, 9, 7_000), 5);
        assert_eq!(rates.take(1, 7_000), Err(100));
        assert_eq!(rates.take(1, 7_060), Err(40));
        assert_eq!(taken(&rates, 1, 9, 7_100), 1);
        assert_eq!(taken(&rates, 1, 9, 7_400), 3);
        // Others are not concerned, and after a while neither is this one.
        assert_eq!(taken(&rates, 2, 9, 7_400), 5);
        assert_eq!(taken(&rates, 1, 9, 60_000), 5);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let rates = Alike::new(64, 0.1, 3).unwrap();
        let Alike(table, rate) = &rates;
        assert_eq!(taken(&rates, 1, 9, 0), 3);
        table.give_back(1_u32, 1, rate, 0);
        assert_eq!(taken(&rates, 1, 9, 0), 1);
        table.give_back(1_u32, 2, rate, 0);
        assert_eq!(table.take_many(1_u32, 3, rate, 0), Err(10_000));
        assert_eq!(table.take_many(1_u32, 2, rate, 0), Ok(()));
        assert_eq!(table.take_many(1_u32, u64::MAX, rate, 0).map_err(|_| ()), Err(()));
        for _ in 0..9 {
            table.give_back(2_u32, 1, rate, 0);
        }
        assert_eq!(taken(&rates, 2, 9, 0), 3);
    }

    #[test]
    fn one_that_was_filled_is_known_for_a_window() {
        let rates = Alike::new(64, 1.0, 10).unwrap();
        assert!(!rates.knows(1, 0));
        rates.fill(1, 0);
        assert_eq!((rates.knows(1, 9_999), rates.knows(2, 0)), (true, false));
        assert!(rates.take(1, 0).is_err());
        assert!(!rates.knows(1, 10_000));
        // Again, from then on.
        rates.fill(1, 9_000);
        assert_eq!((rates.knows(1, 18_000), rates.knows(1, 19_000)), (true, false));
    }

    #[test]
    fn no_client_gets_more_than_its_burst_and_its_rate_at_any_time() {
        let rates = Alike::new(1_024, 100.0, 10).unwrap();
        let (mut now_ms, mut seed) = (1 << 50, 9_u64);
        let start_ms = now_ms;
        let mut taken = [0_u64; 7];
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now_ms += seed >> 62;
            let client = (seed >> 40) as usize % taken.len();
            taken[client] += u64::from(rates.take(client as u32, now_ms).is_ok());
        }
        let most = 10 + (now_ms - start_ms) / 10;
        for taken in taken {
            assert!(taken <= most && taken > most / 3, "{taken} of {most}");
        }
    }

    #[test]
    fn threads_share_one_bucket() {
        let rates = Alike::new(64, 1.0, 1_000).unwrap();
        let all: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| taken(&rates, 1, 400, 0))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // Two that begin at once may each make a bucket.
        assert!((1_000..=1_600).contains(&all), "{all}");
    }

    #[test]
    fn a_full_table_lets_go_of_those_who_use_least() {
        let rates = Alike::new(1, 1.0, 1_000).unwrap();
        assert_eq!(taken(&rates, 0, 2_000, 0), 1_000);
        for client in 1..100 {
            assert_eq!(taken(&rates, client, 1, 0), 1, "{client}");
        }
        assert_eq!(taken(&rates, 0, 10, 0), 0, "the one that uses most is still known");
    }

    #[test]
    fn a_bucket_that_was_forgotten_for_a_round_is_an_empty_one() {
        let rates = Alike::new(64, 1.0, 2).unwrap();
        assert_eq!(taken(&rates, 1, 9, 0), 2);
        let round_ms = (TIME_MASK + 1) / 1_000;
        assert_eq!(taken(&rates, 1, 9, round_ms / 2), 2);
        assert_eq!(taken(&rates, 1, 9, round_ms - 10_000), 2);
    }

    #[test]
    fn buckets_of_one_table_have_rates_of_their_own() {
        let table = Rates::new(64).unwrap();
        let taken = |client: u32, rate: &Rate, now_ms| {
            (0..99).map(|_| u32::from(table.take(client, rate, now_ms).is_ok())).sum::<u32>()
        };
        let (slow, fast) = (Rate::new(1.0, 3), Rate::new(10.0, 20));
        assert_eq!([taken(1, &slow, 0), taken(2, &fast, 0)], [3, 20]);
        assert_eq!([taken(1, &slow, 1_000), taken(2, &fast, 1_000)], [1, 10]);
    }
}
