//! The governor of one loop: bounded phases, the pull rule, the accept queue in time, the ladder.

use crate::Ns;
use crate::backlog::Backlog;
use crate::bounds::{Bounds, Mode};
use crate::ladder::Ladder;
use crate::moves::{Lever, Move, Notes};
use crate::orders::{Arrive, Orders};
use crate::pull::Pull;
use crate::sojourn::Sojourn;
use crate::turn::Turn;

/// From this busy share on, in percent, the accept queue is looked at.
const BUSY_PERCENT: u32 = 70;

/// The governor of one loop, or of what accepts for threads that block.
///
/// [`Loop::turn`] is told what each turn was like and says what holds for the next. It allocates
/// nothing; all that costs a system call is asked for by [`Orders::sample`] and [`Orders::look`],
/// which a calm loop does not do.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    pull: Pull,
    sojourn: Sojourn,
    backlog: Backlog,
    ladder: Ladder,
    from: Ns,
    /// The time of its turns within the window.
    busy: Ns,
    sampled: Ns,
    orders: Orders,
}

impl Loop {
    /// That of a loop that begins now.
    pub fn from(now: Ns) -> Loop {
        Loop {
            pull: Pull::default(),
            sojourn: Sojourn::from(now),
            backlog: Backlog::default(),
            ladder: Ladder::default(),
            from: now,
            busy: 0,
            sampled: 0,
            orders: Orders::FREE,
        }
    }

    /// A turn is over, or a few that are told as their sum; what holds until the next is. Moves are
    /// noted also where they are only watched.
    pub fn turn(&mut self, seen: &Turn, bounds: &Bounds, notes: &mut impl Notes) -> &Orders {
        if bounds.mode == Mode::Off {
            self.orders = Orders::FREE;
            return &self.orders;
        }
        self.orders.look = false;
        if self.sojourn.is_due(seen.now, &bounds.queue) {
            self.window(seen.now, bounds, notes);
        }
        self.pull.turned(seen);
        self.sojourn.turned(seen);
        self.backlog.turned(seen);
        self.busy = self.busy.saturating_add(seen.took);
        let asks = seen.took >= bounds.queue.sample
            || self.orders.busy_percent >= BUSY_PERCENT
            || self.sojourn.is_overloaded();
        self.orders.sample = asks && seen.now.saturating_sub(self.sampled) >= bounds.queue.sample;
        if self.orders.sample {
            self.sampled = seen.now;
        }
        if bounds.mode == Mode::On {
            self.orders.accept_for = bounds.phases.accept_for;
            self.orders.work_for = bounds.phases.work_for;
            self.orders.work_on = self.pull.work_on(&bounds.phases);
            self.orders.accept_least = self.pull.accept_least();
        }
        &self.orders
    }

    /// A window is over: what is judged ten times a second.
    #[cold]
    fn window(&mut self, now: Ns, bounds: &Bounds, notes: &mut impl Notes) {
        let lasted = now.saturating_sub(self.from).max(1);
        let percent = u128::from(self.busy) * 100 / u128::from(lasted);
        (self.from, self.busy) = (now, 0);
        let target = bounds.queue.target(self.pull.work());
        let judged = self.sojourn.judge(now, target, bounds.frozen, &bounds.queue);
        let (overloaded, pressed) = (self.sojourn.is_overloaded(), self.sojourn.is_pressed());
        let mut note = |lever, from: u64, to: u64, why| {
            notes.note(now, Move { lever, from, to, why });
        };
        if let Some(why) = judged {
            note(Lever::Overload, u64::from(!overloaded), u64::from(overloaded), why);
        }
        let look = self.backlog.look(now, overloaded, bounds.frozen, &bounds.queue);
        if let Some((from, to, why)) = look {
            note(Lever::Backlog, u64::from(from), u64::from(to), why);
        }
        if !bounds.frozen
            && let Some((from, why)) = self.ladder.look(now, pressed, overloaded, bounds.dwell)
        {
            let to = self.ladder.level().number();
            note(Lever::Level, u64::from(from.number()), u64::from(to), why);
        }
        self.orders.busy_percent = percent.min(100) as u32;
        self.orders.look = overloaded || self.orders.busy_percent >= BUSY_PERCENT;
        match bounds.mode {
            Mode::On => self.order(overloaded, bounds),
            Mode::Off | Mode::Watch => {
                let Orders { look, busy_percent, .. } = self.orders;
                self.orders = Orders { look, busy_percent, ..Orders::FREE };
            }
        }
    }

    /// What holds by what was judged.
    fn order(&mut self, overloaded: bool, bounds: &Bounds) {
        let queue = &bounds.queue;
        let when = |time: Ns| overloaded.then_some(time);
        self.orders = Orders {
            arrive: Arrive {
                gone_after: when(queue.gone),
                stale_after: queue.give_up.filter(|_| overloaded),
                late_after: when(2 * queue.time).filter(|_| !queue.owned),
            },
            backlog: self.backlog.length(),
            overloaded,
            level: self.ladder.level(),
            ..self.orders
        };
    }
}
