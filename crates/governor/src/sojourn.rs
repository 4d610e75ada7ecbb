//! Whether a loop is overloaded, by how long the head of its accept queue has waited.

use crate::Ns;
use crate::bounds::QueueBounds;
use crate::turn::{Head, Queue, Turn};
use crate::why::{Ms, Why};

/// Detection by delay: the least sojourn time of the queue's head within a window.
///
/// The least, and not the mean, is CoDel's (Nichols and Jacobson, "Controlling Queue Delay", ACM
/// Queue 2012): a burst, or a stall, has young heads before or after it, a standing queue has not.
/// That an overload is declared when the least of 100 ms is above the target, without CoDel's law
/// of intervals, is folly's `Codel` ("Fail at Scale", ACM Queue 2015).
///
/// The sojourn time saturates: a queue that overflows is as old as it is long. So two windows in a
/// row with drops count as well. A drop counts only at a full queue: the kernel also drops the last
/// packet of a handshake that it defers, and what is sent again of one that goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sojourn {
    from: Ns,
    least: Option<Ns>,
    shed: bool,
    drops: Drops,
    /// When the queue's head was accepted, or the queue seen empty, last.
    moved: Ns,
    overloaded: bool,
    /// Whether the last window by itself was one of overload.
    pressed: bool,
    calm_since: Option<Ns>,
}

/// What the kernel dropped at the queue; in windows, while it was full.
#[derive(Clone, Copy, Debug, Default)]
struct Drops {
    /// In all, when it was looked at last.
    total: Option<u32>,
    window: u32,
    before: u32,
}

impl Sojourn {
    /// That of a loop that begins now.
    pub(crate) fn from(now: Ns) -> Sojourn {
        Sojourn { from: now, moved: now, ..Sojourn::default() }
    }

    /// Whether the loop is overloaded.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.overloaded
    }

    /// Whether the last window by itself was one of overload. One that is over lasts until it was
    /// calm for long enough, and is not pressed meanwhile.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// Whether a window is over at that time.
    pub(crate) fn is_due(&self, now: Ns, bounds: &QueueBounds) -> bool {
        now.saturating_sub(self.from) >= bounds.window
    }

    /// A turn is over. To be called after a window that is over was judged: the head that ends a
    /// stall belongs to the next one.
    pub(crate) fn turned(&mut self, seen: &Turn) {
        let age = match seen.head {
            Head::Unseen => None,
            Head::Empty => Some(0),
            Head::Accepted(age) => Some(age.queued),
            // It ages by itself.
            Head::Stuck => Some(seen.now.saturating_sub(self.moved)),
        };
        if seen.accepted > 0 || seen.head == Head::Empty {
            self.moved = seen.now;
        }
        if let Some(age) = age {
            self.least = Some(self.least.map_or(age, |least| least.min(age)));
        }
        self.shed |= seen.shed > 0;
        if let Some(Queue { drops, is_full, .. }) = seen.queue {
            let before = self.drops.total.replace(drops).unwrap_or(drops);
            let lost = if is_full { drops.wrapping_sub(before) } else { 0 };
            self.drops.window = self.drops.window.saturating_add(lost);
        }
    }

    /// A window is over; how long it was, and why the loop is overloaded or is no more, if that
    /// changes. A frozen one changes nothing.
    pub(crate) fn judge(
        &mut self,
        now: Ns,
        target: Ns,
        frozen: bool,
        bounds: &QueueBounds,
    ) -> Option<Why> {
        let (least, shed) = (self.least.take(), std::mem::take(&mut self.shed));
        let Drops { window: drops, before, .. } = self.drops;
        (self.drops.before, self.drops.window) = (drops, 0);
        self.from = now;
        let is_old = least.is_some_and(|age| age > target);
        let is_calm = least.is_none_or(|age| age < target / 2) && drops == 0 && !shed;
        self.pressed = is_old || drops > 0 && before > 0;
        if !is_calm {
            self.calm_since = None;
        }
        if frozen {
            return None;
        }
        if !self.overloaded {
            self.overloaded = self.pressed;
            let (age_ms, target_ms) = (Ms(least.unwrap_or(0)), Ms(target));
            let why =
                if is_old { Why::HeadOld { age_ms, target_ms } } else { Why::Dropped { drops } };
            return self.overloaded.then_some(why);
        }
        if !is_calm {
            return None;
        }
        let calm = now - *self.calm_since.get_or_insert(now.saturating_sub(bounds.window));
        self.overloaded = calm < bounds.calm;
        (!self.overloaded).then_some(Why::Calm { for_ms: Ms(calm) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;
    use crate::turn::Age;

    const MS: Ns = 1_000_000;
    const TARGET: Ns = 8 * MS;

    /// Whether it is overloaded after each window of 100 ms, of whose heads these are the ages in
    /// milliseconds.
    fn after(windows: &[&[u64]]) -> Vec<bool> {
        let (mut sojourn, bounds) = (Sojourn::from(0), Bounds::default().queue);
        let mut now = 0;
        let judged = windows.iter().map(|ages| {
            for (n, age) in ages.iter().enumerate() {
                let (queued, at) = (age * MS, now + n as Ns * MS);
                let head = Head::Accepted(Age { queued, ..Age::default() });
                sojourn.turned(&Turn { now: at, accepted: 1, head, ..Turn::default() });
            }
            now += 100 * MS;
            assert!(sojourn.is_due(now, &bounds));
            sojourn.judge(now, TARGET, false, &bounds);
            sojourn.is_overloaded()
        });
        judged.collect()
    }

    #[test]
    fn the_least_age_of_a_window_counts_and_not_the_mean() {
        assert_eq!(after(&[&[90, 60, 30, 8]]), [false]);
        assert_eq!(after(&[&[90, 60, 30, 12]]), [true]);
    }

    #[test]
    fn it_is_over_when_it_was_calm_by_half_for_a_second() {
        let mut windows: Vec<&[u64]> = vec![&[12]];
        windows.extend([&[0][..]; 9]);
        // Not old, and not calm: it begins again.
        windows.push(&[4]);
        windows.extend([&[0][..]; 10]);
        let overloaded = after(&windows);
        assert!(overloaded[..20].iter().all(|is| *is) && !overloaded[20], "{overloaded:?}");
    }

    /// Whether it is overloaded after three windows in which the kernel drops at a queue whose
    /// heads are young.
    fn after_drops(is_full: bool) -> bool {
        let (mut sojourn, bounds) = (Sojourn::from(0), Bounds::default().queue);
        for n in 1..=300 {
            let (now, queue) = (n * MS, Queue { length: 8, drops: n as u32, is_full });
            let head = Head::Accepted(Age::default());
            let queue = Some(queue);
            sojourn.turned(&Turn { now, accepted: 1, head, queue, ..Turn::default() });
            if sojourn.is_due(now, &bounds) {
                sojourn.judge(now, TARGET, false, &bounds);
            }
        }
        sojourn.is_overloaded()
    }

    #[test]
    fn drops_count_at_a_full_queue_alone() {
        assert!(after_drops(true));
        assert!(!after_drops(false));
    }

    #[test]
    fn drops_where_there_is_room_keep_no_overload_alive() {
        let (mut sojourn, bounds) = (Sojourn::from(0), Bounds::default().queue);
        for n in 1..=15 {
            let now = n * 100 * MS;
            let queued = if n == 1 { 12 * MS } else { 0 };
            let head = Head::Accepted(Age { queued, ..Age::default() });
            let queue = Some(Queue { length: 0, drops: n as u32, is_full: false });
            sojourn.turned(&Turn { now, accepted: 1, head, queue, ..Turn::default() });
            sojourn.judge(now, TARGET, false, &bounds);
            assert_eq!(sojourn.is_overloaded(), n <= 10, "window {n}");
        }
    }

    #[test]
    fn a_queue_from_which_none_is_accepted_ages_by_itself() {
        let (mut sojourn, bounds) = (Sojourn::from(0), Bounds::default().queue);
        sojourn.turned(&Turn { now: 10 * MS, accepted: 1, ..Turn::default() });
        for n in 2..10 {
            let now = n * 10 * MS;
            sojourn.turned(&Turn { now, head: Head::Stuck, ..Turn::default() });
        }
        let why = sojourn.judge(100 * MS, TARGET, false, &bounds);
        assert_eq!(why, Some(Why::HeadOld { age_ms: Ms(10 * MS), target_ms: Ms(TARGET) }));
    }
}
