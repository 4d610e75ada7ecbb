//! A share of time that something may take.

use crate::Ns;

/// How much may be saved up: the share of so long.
const SAVED: Ns = 1_000_000_000;

/// A bucket that fills with a share of the time, and out of which is spent what something took.
/// What costs more than is in it leaves a debt, so that the share holds in the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// One of so many nanoseconds may be spent.
    one_of: u64,
    left: i64,
    at: Ns,
}

impl Budget {
    /// One of `one_of` nanoseconds.
    pub(crate) fn one_of(one_of: u64) -> Budget {
        Budget { one_of, left: (SAVED / one_of) as i64, at: 0 }
    }

    /// Whether there is something left to spend.
    pub(crate) fn has_some(&mut self, now: Ns) -> bool {
        let gained = now.saturating_sub(self.at).min(SAVED) / self.one_of;
        // What is smaller than one part is gained later.
        if gained > 0 {
            self.at = now;
            self.left = (self.left + gained as i64).min((SAVED / self.one_of) as i64);
        }
        self.left > 0
    }

    /// So much was spent.
    pub(crate) fn spend(&mut self, ns: Ns) {
        self.left = self.left.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_at_most_the_share() {
        let mut budget = Budget::one_of(10);
        let (mut now, mut spent) = (0, 0);
        while now < 20 * SAVED {
            if budget.has_some(now) {
                budget.spend(30_000);
                spent += 30_000;
            }
            now += 1_000;
        }
        let most = now / 10 + SAVED / 10 + 30_000;
        assert!(spent <= most && spent >= now / 11, "{spent} of {now}");
    }

    #[test]
    fn a_debt_is_paid_back_first_and_nothing_overflows() {
        let mut budget = Budget::one_of(20);
        budget.spend(SAVED);
        assert!(!budget.has_some(1));
        assert!(!budget.has_some(10 * SAVED / 10));
        budget.spend(Ns::MAX);
        assert!(!budget.has_some(Ns::MAX));
    }
}
