//! The ladder: what is left out, step by step, while an overload lasts.

use crate::Ns;
use crate::why::{Ms, Why};

/// Changes of level within a minute at most, under any input.
const CHANGES: usize = 6;

/// How many dwells a minute is.
const MINUTE: u64 = 60;

/// Within how many dwells a new overload goes on where the last one was left.
const RESUMES: u64 = 30;

/// What is left out: each level has what those below it have.
///
/// | level | left out |
/// | --- | --- |
/// | 0 | nothing |
/// | 1 | coding bodies that were not coded before |
/// | 2 | fetching ahead, and the order of listings |
/// | 3 | long pieces: they are a quarter as long, and small objects go first |
/// | 4 | half of the queues of gates |
///
/// Ordered steps with thresholds are Envoy's overload manager; that none of them ends kept
/// connections is ours: a new connection costs more than a request of a kept one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Level(u8);

impl Level {
    /// Nothing is left out.
    pub const NORMAL: Level = Level(0);

    /// The highest.
    const MOST: u8 = 4;

    /// Its number, 0 to 4.
    pub fn number(self) -> u8 {
        self.0
    }

    /// At 4 the queues of gates are half as long.
    pub fn halves_queues(self) -> bool {
        self.0 >= Level::MOST
    }
}

/// Goes up one step for each dwell under pressure, and down in one when the overload is over.
///
/// No more than six changes happen within a minute: a step up leaves one for the way down, so
/// that the way back to normal is always open. A loop that falls back into overload goes on where
/// it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ladder {
    level: Level,
    since: Ns,
    pressed_since: Option<Ns>,
    pressed_at: Ns,
    /// The last changes, each where it was put last.
    changes: [Option<Ns>; CHANGES],
    next: usize,
    left: Level,
}

impl Ladder {
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// To be called at each window: whether it was one of overload by itself, and whether an
    /// overload lasts. The level before, if it changes, and why.
    pub(crate) fn look(
        &mut self,
        now: Ns,
        pressed: bool,
        overloaded: bool,
        dwell: Ns,
    ) -> Option<(Level, Why)> {
        let before = self.level;
        if pressed {
            self.pressed_at = now;
        } else {
            self.pressed_since = None;
        }
        if !overloaded && before > Level::NORMAL {
            let lasted = now.saturating_sub(self.pressed_at);
            self.left = before;
            self.change(now, Level::NORMAL);
            return Some((before, Why::Calm { for_ms: Ms(lasted) }));
        }
        if !pressed || !overloaded {
            return None;
        }
        let pressed_since = *self.pressed_since.get_or_insert(now);
        let lasted = now.saturating_sub(pressed_since.max(self.since));
        let minute = dwell.saturating_mul(MINUTE);
        let is_recent = |at: &&Ns| now.saturating_sub(**at) <= minute;
        let changed = self.changes.iter().flatten().filter(is_recent).count();
        if before.0 >= Level::MOST || lasted < dwell || changed > CHANGES - 2 {
            return None;
        }
        let resumes = now.saturating_sub(self.since) <= dwell.saturating_mul(RESUMES);
        let resumed = if before == Level::NORMAL && resumes { self.left.0 } else { 0 };
        self.change(now, Level(resumed.max(before.0 + 1)));
        Some((before, Why::StillOverloaded { for_ms: Ms(lasted) }))
    }

    fn change(&mut self, now: Ns, level: Level) {
        self.level = level;
        self.since = now;
        self.changes[self.next] = Some(now);
        self.next = (self.next + 1) % CHANGES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Ns = 1_000_000_000;

    #[test]
    fn it_goes_up_step_by_step_under_pressure_and_down_at_once() {
        let mut ladder = Ladder::default();
        let mut levels = Vec::new();
        for tenth in 0..70 {
            ladder.look(10 * S + tenth * S / 10, tenth < 55, tenth < 60, S);
            levels.push(ladder.level().number());
        }
        assert_eq!([9, 10, 20, 30, 40, 59, 60].map(|at| levels[at]), [0, 1, 2, 3, 4, 4, 0]);
    }

    #[test]
    fn an_overload_that_is_not_pressed_for_a_dwell_goes_up_no_step() {
        let mut ladder = Ladder::default();
        for tenth in 0..100 {
            assert_eq!(ladder.look(tenth * S / 10, tenth % 9 > 0, true, S), None);
        }
    }

    #[test]
    fn a_loop_that_falls_back_goes_on_where_it_was() {
        let mut ladder = Ladder::default();
        for n in 0..=3 {
            ladder.look(n * S, true, true, S);
        }
        ladder.look(4 * S, false, false, S);
        assert_eq!(ladder.look(6 * S, true, true, S), None);
        ladder.look(7 * S, true, true, S);
        assert_eq!(ladder.level().number(), 3);
    }

    #[test]
    fn under_any_input_at_most_six_levels_change_in_a_minute() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut ladder, mut now, mut overloaded) = (Ladder::default(), 0, false);
            let mut changes: Vec<Ns> = Vec::new();
            for _ in 0..3_000 {
                now += rng.u64(..S);
                if rng.u8(..10) < 2 {
                    overloaded = !overloaded;
                }
                let pressed = overloaded && rng.u8(..10) < 9;
                if ladder.look(now, pressed, overloaded, S).is_some() {
                    changes.push(now);
                }
                assert!(overloaded || ladder.level() == Level::NORMAL, "the way down is open");
            }
            assert!(changes.len() > 20, "seed {seed}: {} changes", changes.len());
            let least = changes.windows(7).map(|seven| seven[6] - seven[0]).min();
            assert!(least.is_none_or(|apart| apart >= 60 * S), "seed {seed}: {least:?}");
        }
    }
}
