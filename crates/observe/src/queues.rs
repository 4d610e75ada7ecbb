//! How long the heads of the accept queues have waited. The kernel tells that of a connection only
//! when it was accepted: workers look now and then, while it is asked for.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use flyball_sys::shared::SharedCounters;

/// Sockets whose queues are looked at, by their numbers; none beyond.
const QUEUES_MAX: usize = 1_024;

/// For how long it stays asked for, in milliseconds: longer than between two looks of what collects
/// metrics.
const ASKED_MS: u64 = 120_000;

/// Least time between two looks at one queue, in milliseconds.
const LOOK_MS: u64 = 100;

/// The longest wait of the last second is told, and so long a longer one hides others, in
/// milliseconds.
const WORST_MS: u64 = 1_000;

/// For how long a look tells of the queue, where it is not empty and nothing is accepted from it,
/// in milliseconds.
const LOOK_HOLDS_MS: u64 = 2 * WORST_MS;

/// Words of each queue, and their number.
#[derive(Clone, Copy)]
enum Word {
    /// How long the head had waited, in milliseconds.
    Age,
    /// When that was seen, in monotonic milliseconds; 0 for never.
    Seen,
    /// When these were asked for last.
    Looked,
    /// How many were accepted while it is asked for.
    Accepted,
    /// How many that were when the queue was first seen to stand, and when that was; 0 for not.
    Standing,
    Since,
}

const WORDS: usize = 8;

/// What all processes know of the accept queues, in memory that they share.
#[derive(Debug)]
pub struct Queues(SharedCounters);

impl Queues {
    /// Maps it, to be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new() -> io::Result<Queues> {
        SharedCounters::new((1 + QUEUES_MAX) * WORDS).map(Queues)
    }

    fn until(&self) -> &AtomicU64 {
        &self.0.all()[0]
    }

    fn words(&self, socket: usize) -> Option<&[AtomicU64]> {
        (socket < QUEUES_MAX).then(|| &self.0.all()[(1 + socket) * WORDS..][..WORDS])
    }

    /// Asks how long heads wait, from now on for a while.
    pub fn ask(&self, now_ms: u64) {
        if self.until().swap(now_ms + ASKED_MS, Relaxed) <= now_ms {
            // What was accepted meanwhile was not counted.
            let all = (0..QUEUES_MAX).filter_map(|socket| self.words(socket));
            let known = all.filter(|words| words[Word::Since as usize].load(Relaxed) > 0);
            known.for_each(|words| words[Word::Since as usize].store(0, Relaxed));
        }
    }

    /// A connection was accepted from the queue of this socket now: whether its age is to be asked
    /// for, and told by [`Queues::saw`]. `clock` is read only while it is asked for, in monotonic
    /// milliseconds.
    #[inline]
    pub fn accepted(&self, socket: usize, clock: impl FnOnce() -> u64) -> bool {
        let until_ms = self.until().load(Relaxed);
        until_ms > 0 && self.is_due(socket, until_ms, clock())
    }

    fn is_due(&self, socket: usize, until_ms: u64, now_ms: u64) -> bool {
        let Some(words) = self.words(socket).filter(|_| now_ms < until_ms) else { return false };
        words[Word::Accepted as usize].fetch_add(1, Relaxed);
        let looked = &words[Word::Looked as usize];
        let is_due = now_ms >= looked.load(Relaxed) + LOOK_MS;
        if is_due {
            looked.store(now_ms, Relaxed);
        }
        is_due
    }

    /// The head of the queue had waited so long when it was accepted now.
    pub fn saw(&self, socket: usize, age_ms: u64, now_ms: u64) {
        let Some(words) = self.words(socket) else { return };
        let (age, seen) = (&words[Word::Age as usize], &words[Word::Seen as usize]);
        if age_ms >= age.load(Relaxed) || now_ms >= seen.load(Relaxed) + WORST_MS {
            age.store(age_ms, Relaxed);
            seen.store(now_ms, Relaxed);
        }
    }

    /// How long heads of the queue of this socket wait, in milliseconds, if so many are in it now:
    /// the worst of the last second. Where nothing is accepted the head gets older by itself: that
    /// is seen from one call to the next. `None` where it is not known.
    pub fn head_age_ms(&self, socket: usize, length: u32, now_ms: u64) -> Option<u64> {
        let words = self.words(socket)?;
        let word = |word: Word| &words[word as usize];
        let seen_ms = word(Word::Seen).load(Relaxed);
        let holds = seen_ms > 0 && now_ms < seen_ms + LOOK_HOLDS_MS;
        let seen = holds.then(|| word(Word::Age).load(Relaxed));
        if length == 0 {
            word(Word::Since).store(0, Relaxed);
            return Some(seen.unwrap_or(0));
        }
        let accepted = word(Word::Accepted).load(Relaxed);
        let mut since_ms = word(Word::Since).load(Relaxed);
        if since_ms == 0 || word(Word::Standing).swap(accepted, Relaxed) != accepted {
            word(Word::Since).store(now_ms, Relaxed);
            word(Word::Standing).store(accepted, Relaxed);
            since_ms = now_ms;
        }
        let stood_ms = Some(now_ms.saturating_sub(since_ms)).filter(|ms| *ms > 0);
        seen.max(stood_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(at_ms: u64) -> Queues {
        let queues = Queues::new().unwrap();
        queues.ask(at_ms);
        queues
    }

    #[test]
    fn nothing_is_looked_at_and_no_clock_read_unless_it_is_asked_for() {
        let queues = Queues::new().unwrap();
        assert!(!queues.accepted(0, || panic!("the clock is read")));
        queues.ask(1_000);
        assert!(queues.accepted(0, || 1_000));
        assert!(!queues.accepted(0, || 1_000 + LOOK_MS - 1));
        assert!(queues.accepted(0, || 1_000 + LOOK_MS));
        assert!(queues.accepted(1, || 1_001));
        assert!(!queues.accepted(0, || 1_000 + ASKED_MS));
        assert!(!queues.accepted(QUEUES_MAX, || 5_000));
    }

    #[test]
    fn the_worst_of_the_last_second_is_told_and_then_none() {
        let queues = asked(1_000);
        assert_eq!(queues.head_age_ms(3, 0, 1_000), Some(0));
        queues.saw(3, 40, 1_000);
        queues.saw(3, 8, 1_000 + WORST_MS - 1);
        assert_eq!(queues.head_age_ms(3, 0, 1_999), Some(40));
        queues.saw(3, 8, 1_000 + WORST_MS);
        assert_eq!(queues.head_age_ms(3, 0, 2_000), Some(8));
        queues.saw(3, 9, 2_001);
        assert_eq!(queues.head_age_ms(3, 1, 2_001), Some(9));
        assert_eq!(queues.head_age_ms(3, 0, 2_001 + LOOK_HOLDS_MS), Some(0));
        assert_eq!(queues.head_age_ms(4, 0, 2_001), Some(0));
        assert_eq!(queues.head_age_ms(QUEUES_MAX, 0, 2_001), None);
    }

    #[test]
    fn a_head_that_none_accepts_gets_older() {
        let queues = asked(1_000);
        assert_eq!(queues.head_age_ms(0, 2, 1_000), None);
        assert_eq!(queues.head_age_ms(0, 5, 2_500), Some(1_500));
        assert_eq!(queues.head_age_ms(0, 5, 9_000), Some(8_000));
        // Another is the head now.
        queues.accepted(0, || 9_001);
        assert_eq!(queues.head_age_ms(0, 4, 9_002), None);
        assert_eq!(queues.head_age_ms(0, 4, 9_102), Some(100));
        assert_eq!(queues.head_age_ms(0, 0, 9_103), Some(0));
        assert_eq!(queues.head_age_ms(0, 1, 9_104), None);
        // While it was not asked for, what was accepted was not counted.
        queues.ask(9_105 + ASKED_MS);
        assert_eq!(queues.head_age_ms(0, 1, 9_106 + ASKED_MS), None);
    }
}
