//! The gate of a scarce resource: what begins, what waits, what is refused.

use crate::Ns;
use crate::bounds::Mode;
use crate::budget::Budget;
use crate::mean::Mean;
use crate::moves::{Lever, Move, Notes};
use crate::orders::Orders;
use crate::why::{Ms, Why};

/// What refusals may take: a tenth of the time. An answer that refuses costs as much as a cached
/// file, and one that comes at once is asked for again at once.
const REFUSALS: u64 = 10;

/// What requests that always pass may take: a twentieth of the time.
const FIRST: u64 = 20;

/// `Retry-After`, from and to, in seconds: clients that were refused together do not come back so.
const RETRY_AFTER_S: (u32, u32) = (1, 3);

/// Above this busy share of the loop, in percent, it would not bear another thread beside it: with
/// one more beside one it has two thirds of the CPU that it had.
const ROOM_PERCENT: u32 = 50;

/// What the operator allows a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateBounds {
    /// Whether requests are refused. Watched or off, the gate has places and an endless queue.
    pub mode: Mode,
    /// While it is set the places stay as they are.
    pub frozen: bool,
    /// How many may be at work.
    pub places: u32,
    /// The same while the loop beside them is overloaded: for work that takes its CPU.
    pub places_least: u32,
    /// How long a request may wait for a place; at least for as long as two take.
    pub queue: Ns,
    /// Above so many that wait, or
    pub newest_above: u32,
    /// when the oldest has waited for so long, the newest is next.
    pub newest_after: Ns,
    /// How often a place is added again at most.
    pub dwell: Ns,
}

impl Default for GateBounds {
    fn default() -> GateBounds {
        const MS: Ns = 1_000_000;
        GateBounds {
            mode: Mode::On,
            frozen: false,
            places: 8,
            places_least: 1,
            queue: 100 * MS,
            newest_above: 10,
            newest_after: 50 * MS,
            dwell: 1_000 * MS,
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// It is on the list of those that always pass (`governor.first`).
    pub first: bool,
    /// How long it has waited in the accept queue, where that is known.
    pub queued: Ns,
}

/// What happens to one that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It begins.
    Now,
    /// It waits for a place.
    Wait,
    /// It is answered with 503 and this `Retry-After` in seconds, and its connection is kept.
    Refuse {
        /// In seconds.
        retry_after_s: u32,
        /// Why.
        why: Why,
    },
    /// It is ended without an answer: those have taken their share of the time.
    Cut {
        /// Why.
        why: Why,
    },
}

/// Which of those that wait begins next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The one that has waited longest.
    Oldest,
    /// The one that came last: it is the likeliest to still want its answer (adaptive LIFO, "Fail
    /// at Scale", ACM Queue 2015).
    Newest,
}

/// The gate of one resource of a process: helpers of the disk, threads for long work, a backend's
/// places. What is answered from a cache does not pass it.
///
/// Its queue is bounded by the time that its own measured service gives (Little's law), not by a
/// limit that is searched for: a gradient of round-trip times needs a baseline, which drifts.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    places: Option<u32>,
    busy: u32,
    waiting: u32,
    service: Mean<32>,
    refusals: Budget,
    first: Budget,
    moved: Ns,
    random: u32,
}

impl Gate {
    /// One where nothing is at work; the seed is for `Retry-After`.
    pub fn with_seed(seed: u32) -> Gate {
        Gate {
            places: None,
            busy: 0,
            waiting: 0,
            service: Mean::default(),
            refusals: Budget::one_of(REFUSALS),
            first: Budget::one_of(FIRST),
            moved: 0,
            random: seed | 1,
        }
    }

    /// A request asks for the resource, by the orders of the loop beside it.
    pub fn ask(
        &mut self,
        now: Ns,
        ask: Ask,
        orders: &Orders,
        bounds: &GateBounds,
        notes: &mut impl Notes,
    ) -> Entry {
        let places = self.places_at(now, orders, bounds, notes);
        if ask.first && self.first.has_some(now) || self.busy < places && self.waiting == 0 {
            let late = self.late(ask.queued, orders).filter(|_| bounds.mode == Mode::On);
            if let Some(why) = late.filter(|_| !ask.first) {
                return self.refuse(now, why);
            }
            self.busy += 1;
            return Entry::Now;
        }
        let service = self.service.ns().unwrap_or(0);
        let expected = Ns::from(self.waiting + 1).saturating_mul(service) / Ns::from(places.max(1));
        let bound = self.bound(orders, bounds);
        let mut why = self.late(ask.queued, orders);
        if expected > bound {
            let (busy, waiting) = (self.busy, self.waiting);
            let (expected_ms, bound_ms) = (Ms(expected), Ms(bound));
            why = Some(Why::QueueFull { busy, waiting, expected_ms, bound_ms });
        }
        if let Some(why) = why.filter(|_| bounds.mode == Mode::On) {
            return self.refuse(now, why);
        }
        self.waiting += 1;
        Entry::Wait
    }

    /// Whether one that waits can begin.
    pub fn has_place(&self, bounds: &GateBounds) -> bool {
        self.busy < self.places.unwrap_or(bounds.places)
    }

    /// Which of those that wait is next, where the oldest has waited for so long.
    pub fn next(&self, oldest: Ns, bounds: &GateBounds) -> Next {
        let is_long = self.waiting > bounds.newest_above || oldest > bounds.newest_after;
        if bounds.mode == Mode::On && is_long { Next::Newest } else { Next::Oldest }
    }

    /// The turn of one that has waited for so long has come: it begins, or is
    /// refused when that was twice as long as it may (folly's `Codel`). The caller still has it
    /// count as waiting until then.
    pub fn begin(&mut self, now: Ns, waited: Ns, orders: &Orders, bounds: &GateBounds) -> Entry {
        self.waiting = self.waiting.saturating_sub(1);
        let bound = self.bound(orders, bounds);
        if bounds.mode == Mode::On && waited > 2 * bound {
            return self.refuse(now, Why::Late { waited_ms: Ms(waited), bound_ms: Ms(bound) });
        }
        self.busy += 1;
        Entry::Now
    }

    /// One that waited has left.
    pub fn left(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// One that was at work has ended, after so long. One that failed is no measure of the service
    /// unless it took longer: what fails at once would make the queue look short.
    pub fn ended(&mut self, took: Ns, failed: bool, first: bool) {
        self.busy = self.busy.saturating_sub(1);
        if !failed || self.service.ns().is_none_or(|mean| took > mean) {
            self.service.add(took, 1);
        }
        if first {
            self.first.spend(took);
        }
    }

    /// A refusal took so long.
    pub fn refused(&mut self, took: Ns) {
        self.refusals.spend(took);
    }

    /// How many may be at work now. An overload of the loop beside takes them down at once; they
    /// come back one by one, as far as the loop bears them.
    fn places_at(
        &mut self,
        now: Ns,
        orders: &Orders,
        bounds: &GateBounds,
        notes: &mut impl Notes,
    ) -> u32 {
        let before = self.places.unwrap_or(bounds.places).min(bounds.places);
        if bounds.frozen || bounds.mode != Mode::On {
            return before;
        }
        let least = bounds.places_least.min(bounds.places);
        let lasted = now.saturating_sub(self.moved);
        let (places, why) = if orders.overloaded && before > least {
            (least, Why::LoopOverloaded { busy: self.busy })
        } else if !orders.overloaded
            && before < bounds.places
            && orders.busy_percent < ROOM_PERCENT
            && lasted >= bounds.dwell
        {
            (before + 1, Why::LoopHasRoom { busy_percent: orders.busy_percent })
        } else {
            return before;
        };
        (self.places, self.moved) = ((places < bounds.places).then_some(places), now);
        let (from, to) = (u64::from(before), u64::from(places));
        notes.note(now, Move { lever: Lever::Places, from, to, why });
        places
    }

    /// How long one may wait here.
    fn bound(&self, orders: &Orders, bounds: &GateBounds) -> Ns {
        let queue = if orders.level.halves_queues() { bounds.queue / 2 } else { bounds.queue };
        queue.max(2 * self.service.ns().unwrap_or(0))
    }

    /// Why one that has waited for so long in the accept queue has come too late for work to begin.
    fn late(&self, queued: Ns, orders: &Orders) -> Option<Why> {
        let bound = orders.arrive.late_after.filter(|bound| queued > *bound)?;
        Some(Why::Late { waited_ms: Ms(queued), bound_ms: Ms(bound) })
    }

    fn refuse(&mut self, now: Ns, why: Why) -> Entry {
        if !self.refusals.has_some(now) {
            return Entry::Cut { why };
        }
        // xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let (from, to) = RETRY_AFTER_S;
        Entry::Refuse { retry_after_s: from + self.random % (to - from + 1), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    fn orders(overloaded: bool, busy_percent: u32) -> Orders {
        Orders { overloaded, busy_percent, ..Orders::FREE }
    }

    fn ask(gate: &mut Gate, now: Ns, orders: &Orders, bounds: &GateBounds) -> Entry {
        gate.ask(now, Ask::default(), orders, bounds, &mut |_: Ns, _: Move| {})
    }

    #[test]
    fn the_queue_is_as_long_as_its_time_and_never_shorter_than_two_requests() {
        let waiting = |service: Ns| {
            let (mut gate, bounds) = (Gate::with_seed(1), GateBounds::default());
            gate.ended(service, false, false);
            let entries: Vec<Entry> =
                (0..300).map(|_| ask(&mut gate, 0, &orders(false, 90), &bounds)).collect();
            assert!(entries[..8].iter().all(|entry| *entry == Entry::Now));
            entries.iter().filter(|entry| **entry == Entry::Wait).count()
        };
        // Eight places: 100 ms are 160 requests of 5 ms; two of 400 ms are 16.
        assert_eq!([waiting(5 * MS), waiting(50 * MS), waiting(400 * MS)], [160, 16, 16]);
    }

    #[test]
    fn an_overload_takes_places_at_once_and_they_come_back_as_the_loop_bears_them() {
        let (mut gate, bounds) = (Gate::with_seed(1), GateBounds::default());
        let mut moved = Vec::new();
        let mut note = |_: Ns, made: Move| moved.push((made.from, made.to));
        for (s, overloaded, busy) in
            [(1, true, 99), (2, false, 80), (3, false, 40), (3, false, 40), (4, false, 40)]
        {
            let now = s * 1_000 * MS;
            gate.ask(now, Ask::default(), &orders(overloaded, busy), &bounds, &mut note);
        }
        assert_eq!(moved, [(8, 1), (1, 2), (2, 3)]);
    }

    #[test]
    fn who_is_first_passes_within_a_twentieth_of_the_time() {
        let bounds = GateBounds { places: 1, ..GateBounds::default() };
        let mut gate = Gate::with_seed(1);
        gate.ended(300 * MS, false, false);
        let first = Ask { first: true, queued: 0 };
        let mut passed = 0;
        for n in 0..200 {
            let now = n * 100 * MS;
            let entry = gate.ask(now, first, &Orders::FREE, &bounds, &mut |_: Ns, _: Move| {});
            // Now and then one has its turn as any other.
            if entry == Entry::Now {
                passed += 1;
                gate.ended(100 * MS, false, true);
            } else if entry == Entry::Wait {
                gate.left();
            }
            gate.busy = 1;
        }
        assert!((9..=12).contains(&passed), "{passed} of 200, each of 100 ms within 20 s");
    }

    #[test]
    fn late_work_is_refused_and_what_waited_too_long_too() {
        let (mut gate, bounds) = (Gate::with_seed(1), GateBounds::default());
        let mut late = Orders::FREE;
        late.arrive.late_after = Some(200 * MS);
        let asks = |queued| Ask { first: false, queued };
        let mut ask = |queued| gate.ask(0, asks(queued), &late, &bounds, &mut |_: Ns, _: Move| {});
        assert_eq!(ask(200 * MS), Entry::Now);
        assert!(matches!(ask(201 * MS), Entry::Refuse { why: Why::Late { .. }, .. }));
        assert_eq!(gate.begin(0, 200 * MS, &late, &bounds), Entry::Now);
        let entry = gate.begin(0, 201 * MS, &late, &bounds);
        assert!(matches!(entry, Entry::Refuse { why: Why::Late { .. }, .. }));
    }

    #[test]
    fn watched_or_off_none_is_refused_and_the_oldest_is_next() {
        for mode in [Mode::Watch, Mode::Off] {
            let bounds = GateBounds { mode, places: 2, ..GateBounds::default() };
            let mut gate = Gate::with_seed(1);
            gate.ended(1_000 * MS, false, false);
            let asked: Vec<Entry> =
                (0..50).map(|_| ask(&mut gate, 0, &orders(true, 99), &bounds)).collect();
            assert_eq!(asked[..2], [Entry::Now; 2]);
            assert!(asked[2..].iter().all(|entry| *entry == Entry::Wait));
            assert_eq!(gate.next(9_000 * MS, &bounds), Next::Oldest);
            assert_eq!(gate.begin(0, 9_000 * MS, &orders(true, 99), &bounds), Entry::Now);
        }
        let gate = Gate { waiting: 11, ..Gate::with_seed(1) };
        assert_eq!(gate.next(0, &GateBounds::default()), Next::Newest);
        assert_eq!(Gate::with_seed(1).next(51 * MS, &GateBounds::default()), Next::Newest);
        assert_eq!(Gate::with_seed(1).next(50 * MS, &GateBounds::default()), Next::Oldest);
    }
}
