//! The pull rule: a turn takes in what it can work on.

use crate::Ns;
use crate::bounds::PhaseBounds;
use crate::mean::Mean;
use crate::turn::Turn;

/// How many a turn works on before any work was measured.
const FIRST: u32 = 20;

/// How much work a connection is in a turn, and so how many one turn can work on.
///
/// S0 (section 7) leaves an accept-limit that adjusts itself as future work (M44), and with it the
/// choice by both queues (M46). A fixed limit and a work phase bounded in time together would only
/// move the queue from the kernel, where its age can be seen, into the loop: so accepting depends
/// on what is due. For cached files the rule gives tens, for requests of a millisecond two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pull {
    work: Mean<32>,
    /// Whether the last turn accepted none.
    skipped: bool,
}

impl Pull {
    /// A turn is over.
    pub(crate) fn turned(&mut self, seen: &Turn) {
        self.work.add(seen.took.saturating_sub(seen.accept_took), seen.worked_on);
        self.skipped = seen.accepted == 0;
    }

    /// How long a connection is worked on in a turn; 0 before it was measured.
    pub(crate) fn work(&self) -> Ns {
        self.work.ns().unwrap_or(0)
    }

    /// How many connections a turn can work on.
    pub(crate) fn work_on(&self, bounds: &PhaseBounds) -> u32 {
        match bounds.work_for {
            Some(time) if bounds.pulls => {
                self.work.in_time(time).unwrap_or(FIRST).min(bounds.accept_most).max(1)
            }
            _ => u32::MAX,
        }
    }

    /// How many are accepted whatever is due: one in each second turn.
    pub(crate) fn accept_least(&self) -> u32 {
        u32::from(self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;

    fn after(work: Ns, worked_on: u32) -> u32 {
        let mut pull = Pull::default();
        for _ in 0..300 {
            let took = work * Ns::from(worked_on) + 1_000;
            pull.turned(&Turn { took, accept_took: 1_000, worked_on, ..Turn::default() });
        }
        pull.work_on(&Bounds::default().phases)
    }

    #[test]
    fn it_gives_tens_for_cached_files_and_few_for_long_requests() {
        assert!((49..=50).contains(&after(40_000, 9)), "{}", after(40_000, 9));
        assert_eq!(after(1_000_000, 2), 2);
        assert_eq!(after(50_000_000, 1), 1);
        assert_eq!(after(0, 1_000), 4_096);
    }

    #[test]
    fn without_a_bound_in_time_or_with_a_fixed_limit_it_has_no_say() {
        let phases = Bounds::default().phases;
        let free = PhaseBounds { work_for: None, ..phases };
        assert_eq!(Pull::default().work_on(&free), u32::MAX);
        assert_eq!(Pull::default().work_on(&PhaseBounds { pulls: false, ..phases }), u32::MAX);
        assert_eq!(Pull::default().work_on(&phases), 20);
    }
}
