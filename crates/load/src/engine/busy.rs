//! How busy a thread of the generator is.

use flyball_sys::clock::{monotonic_ns, thread_cpu_ns};
use flyball_sys::process;

use crate::observe::Window;

/// What a thread has used up at some moment.
#[derive(Clone, Copy)]
struct Used {
    wall_ns: u64,
    cpu_ns: u64,
    /// How long it was ready to run and waited for a CPU.
    waited_ns: u64,
}

impl Used {
    fn now() -> Used {
        Used {
            wall_ns: monotonic_ns(),
            cpu_ns: thread_cpu_ns(),
            waited_ns: process::run_queue_wait_ns(),
        }
    }

    /// The share of the time since then for which it was on a CPU, or waited for one.
    fn share_since(&self, before: &Used) -> f64 {
        let wall_ns = self.wall_ns.saturating_sub(before.wall_ns).max(1);
        let cpu_ns = self.cpu_ns.saturating_sub(before.cpu_ns);
        let waited_ns = self.waited_ns.saturating_sub(before.waited_ns);
        (cpu_ns + waited_ns) as f64 / wall_ns as f64
    }
}

/// How busy a thread is in the window: what comes before it, and the wait for stragglers after it,
/// would make it look idle.
pub(super) struct Busy {
    window: Window,
    begun: Used,
    from: Option<Used>,
    to: Option<Used>,
}

impl Busy {
    pub(super) fn begin(window: Window) -> Busy {
        Busy { window, begun: Used::now(), from: None, to: None }
    }

    /// Takes down what is used up when the window opens and when it closes.
    pub(super) fn look(&mut self, now_ns: u64) {
        if self.from.is_none() && now_ns >= self.window.from_ns {
            self.from = Some(Used::now());
        }
        if self.to.is_none() && now_ns >= self.window.to_ns {
            self.to = Some(Used::now());
        }
    }

    /// CPU time since the beginning, and the share of the window that was busy: of the whole run,
    /// when it ended before its window opened.
    pub(super) fn end(self) -> (u64, f64) {
        let now = Used::now();
        let share = self.to.unwrap_or(now).share_since(&self.from.unwrap_or(self.begun));
        (now.cpu_ns.saturating_sub(self.begun.cpu_ns), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_warm_up_nor_the_wait_for_stragglers_makes_a_thread_look_idle() {
        let used = |wall_ns, cpu_ns, waited_ns| Some(Used { wall_ns, cpu_ns, waited_ns });
        let window = Window { from_ns: 100, to_ns: 200 };
        let busy = Busy { from: used(100, 10, 0), to: used(200, 90, 5), ..Busy::begin(window) };
        let (_, share) = busy.end();
        assert_eq!(share, 0.85);
    }

    #[test]
    fn a_window_is_taken_down_once_it_opens_and_once_it_closes() {
        let mut busy = Busy::begin(Window { from_ns: 100, to_ns: 200 });
        busy.look(99);
        assert!(busy.from.is_none() && busy.to.is_none());
        busy.look(100);
        let from = busy.from.map(|used| used.wall_ns);
        assert!(from.is_some() && busy.to.is_none());
        busy.look(200);
        let to = busy.to.map(|used| used.wall_ns);
        busy.look(300);
        assert_eq!(busy.from.map(|used| used.wall_ns), from, "as it opened");
        assert!(to.is_some() && busy.to.map(|used| used.wall_ns) == to, "as it closed");
    }
}
