//! Timelines in the shared mapping: a ring that any thread of any worker writes and the admin
//! process reads.
//!
//! A writer claims the next slot by a number, and keeps it odd while it writes; a reader takes a
//! slot only when the number is the one it expects before and after it was copied. Nobody waits for
//! anybody: what was overwritten before it was read is counted by the reader, and what finds its
//! slot still being written is given up by the writer.

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use flyball_http::random::nth;
use flyball_sys::shared::SharedCounters;

use super::record::{Record, WORDS};

/// Timelines that the ring holds.
const SLOTS: u64 = 1_024;

/// Words of a slot: its number, then the record.
const SLOT: usize = 1 + WORDS;

/// Words in front of the slots.
const CONTROL: usize = 8;

/// How often a reader looks again at a slot that is being written.
const LOOKS_MAX: u32 = 1_000;

/// What the words in front of the slots are.
#[derive(Clone, Copy)]
enum Control {
    /// Until when somebody asks, in monotonic milliseconds; 0 for nobody.
    Until,
    /// One request in so many.
    Sample,
    /// Only those that took at least so many microseconds.
    Slower,
    /// Only those of the host with this hash; 0 for all.
    Host,
    /// The number of the next record.
    Next,
}

/// Which timelines are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// One request in so many.
    pub(crate) sample: u64,
    /// Only those that took at least so long, in microseconds.
    pub(crate) slower_us: u64,
    /// [`host_hash`] of the host that is asked for, or 0.
    pub(crate) host: u64,
}

impl Filter {
    /// Whether this request is of the sample; the same whenever it is asked.
    pub(super) fn samples(&self, connection: u64, request: u32) -> bool {
        let n = connection.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(request));
        nth(0, n).is_multiple_of(self.sample.max(1))
    }

    pub(super) fn takes(&self, record: &Record) -> bool {
        u64::from(record.took_us()) >= self.slower_us
            && (self.host == 0 || host_hash(record.host.as_bytes()) == self.host)
    }
}

/// A number for the name of a host, without its port and whatever its case; never 0. FNV-1a.
pub(crate) fn host_hash(host: &[u8]) -> u64 {
    let end = match host {
        [b'[', ..] => host.iter().position(|byte| *byte == b']').map_or(host.len(), |at| at + 1),
        _ => host.iter().position(|byte| *byte == b':').unwrap_or(host.len()),
    };
    let step = |hash: u64, byte: &u8| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    };
    host[..end].iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

/// The ring. Its memory is touched only when somebody asks.
#[derive(Debug)]
pub struct Ring(SharedCounters);

impl Ring {
    /// Maps it, to be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new() -> io::Result<Ring> {
        SharedCounters::new(CONTROL + SLOTS as usize * SLOT).map(Ring)
    }

    fn control(&self, word: Control) -> &AtomicU64 {
        &self.0.all()[word as usize]
    }

    fn slot(&self, number: u64) -> (&AtomicU64, &[AtomicU64]) {
        let start = CONTROL + (number % SLOTS) as usize * SLOT;
        let slot = &self.0.all()[start..start + SLOT];
        (&slot[0], &slot[1..])
    }

    /// Asks for timelines until then.
    pub(crate) fn ask(&self, filter: &Filter, until_ms: u64) {
        self.control(Control::Sample).store(filter.sample, Relaxed);
        self.control(Control::Slower).store(filter.slower_us, Relaxed);
        self.control(Control::Host).store(filter.host, Relaxed);
        self.control(Control::Until).store(until_ms, Release);
    }

    /// What is asked for now.
    pub(crate) fn filter(&self, now_ms: u64) -> Option<Filter> {
        if self.control(Control::Until).load(Relaxed) <= now_ms {
            return None;
        }
        let word = |word| self.control(word).load(Relaxed);
        let (sample, slower_us) = (word(Control::Sample), word(Control::Slower));
        Some(Filter { sample, slower_us, host: word(Control::Host) })
    }

    /// Puts a record in. Never waits.
    pub(crate) fn publish(&self, record: &Record) {
        let number = self.control(Control::Next).fetch_add(1, Relaxed);
        let (state, words) = self.slot(number);
        let before = state.load(Relaxed);
        // Odd: somebody has not finished who began a whole round ago, or died meanwhile.
        if !before.is_multiple_of(2)
            || state.compare_exchange(before, 2 * number + 1, AcqRel, Relaxed).is_err()
        {
            return;
        }
        fence(Release);
        for (word, value) in words.iter().zip(record.encode()) {
            word.store(value, Relaxed);
        }
        state.store(2 * number + 2, Release);
    }

    /// The number that the next record will have.
    pub(crate) fn next(&self) -> u64 {
        self.control(Control::Next).load(Acquire)
    }

    /// The records from this number on, how many of them were lost, and the number to go on from.
    pub(crate) fn read(&self, from: u64) -> (Vec<Record>, u64, u64) {
        let next = self.next();
        let first = from.clamp(next.saturating_sub(SLOTS), next);
        let records: Vec<Record> = (first..next).filter_map(|at| self.record(at)).collect();
        let lost = next.saturating_sub(from) - records.len() as u64;
        (records, lost, next)
    }

    fn record(&self, number: u64) -> Option<Record> {
        let (state, words) = self.slot(number);
        let is_whole = |order| state.load(order) == 2 * number + 2;
        for _ in 0..LOOKS_MAX {
            if state.load(Acquire) != 2 * number + 1 {
                break;
            }
            std::hint::spin_loop();
        }
        if !is_whole(Acquire) {
            return None;
        }
        let mut copy = [0; WORDS];
        copy.iter_mut().zip(words).for_each(|(copy, word)| *copy = word.load(Relaxed));
        fence(Acquire);
        is_whole(Relaxed).then(|| Record::decode(&copy))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::example;
    use super::*;

    fn numbered(request: u32) -> Record {
        Record { request, ..example() }
    }

    #[test]
    fn records_come_out_in_order_and_once() {
        let ring = Ring::new().unwrap();
        (0..5).for_each(|n| ring.publish(&numbered(n)));
        let (records, lost, next) = ring.read(2);
        assert_eq!((records, lost, next), ((2..5).map(numbered).collect(), 0, 5));
        assert_eq!(ring.read(next), (Vec::new(), 0, 5));
        // A number that was never given is no reason to wait for it.
        assert_eq!(ring.read(99), (Vec::new(), 0, 5));
    }

    #[test]
    fn what_was_overwritten_is_counted() {
        let ring = Ring::new().unwrap();
        let all = SLOTS as u32 + 10;
        (0..all).for_each(|n| ring.publish(&numbered(n)));
        let (records, lost, next) = ring.read(0);
        assert_eq!((records.len() as u64, lost, next), (SLOTS, 10, u64::from(all)));
        assert_eq!(records[0].request, 10);
    }

    #[test]
    fn a_writer_that_died_costs_its_slot_and_nothing_else() {
        let ring = Ring::new().unwrap();
        ring.slot(1).0.store(3, Relaxed);
        (0..3).for_each(|n| ring.publish(&numbered(n)));
        let (records, lost, _) = ring.read(0);
        assert_eq!(records.iter().map(|r| r.request).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(lost, 1);
    }

    #[test]
    fn nothing_is_torn_when_many_write() {
        let ring = Ring::new().unwrap();
        let torn = std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let ring = &ring;
                scope.spawn(move || {
                    for n in 0..5_000 {
                        let mut record = numbered(n);
                        (record.worker, record.bytes) = (thread, u64::from(n));
                        record.waits_ns[0] = u64::from(n);
                        ring.publish(&record);
                    }
                });
            }
            let mut from = 0;
            let mut torn = 0;
            while from < 20_000 {
                let (records, _, next) = ring.read(from);
                let is_torn = |r: &&Record| r.bytes != r.waits_ns[0];
                torn += records.iter().filter(is_torn).count();
                from = next;
            }
            torn
        });
        assert_eq!(torn, 0);
    }

    #[test]
    fn nobody_asks_when_the_time_is_over() {
        let ring = Ring::new().unwrap();
        let filter = Filter { sample: 3, slower_us: 4, host: 5 };
        assert_eq!(ring.filter(0), None);
        ring.ask(&filter, 100);
        assert_eq!((ring.filter(99), ring.filter(100)), (Some(filter), None));
    }

    #[test]
    fn one_in_so_many_is_about_that() {
        let filter = Filter { sample: 100, slower_us: 0, host: 0 };
        let taken = (0..100_000).filter(|n| filter.samples(*n, 1)).count();
        assert!((700..1_300).contains(&taken), "{taken}");
        let of_one = (0..100_000).filter(|n| filter.samples(7, *n)).count();
        assert!((700..1_300).contains(&of_one), "{of_one}");
        assert!((0..100).all(|n| Filter { sample: 1, ..filter }.samples(n, 1)));
    }

    #[test]
    fn a_host_is_the_same_with_a_port_and_in_any_case() {
        assert_eq!(host_hash(b"Example.org:8080"), host_hash(b"example.org"));
        assert_eq!(host_hash(b"[::1]:8080"), host_hash(b"[::1]"));
        assert_ne!(host_hash(b"a.org"), host_hash(b"b.org"));
        assert_ne!(host_hash(b""), 0);
    }
}
