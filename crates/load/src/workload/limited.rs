//! Another workload, up to a number of requests.

use super::{Step, Workload};

/// Ends after so many requests.
pub struct Limited {
    inner: Box<dyn Workload>,
    left: u64,
}

impl Limited {
    /// The sessions of `inner`, of which the last one may be cut off, until they have `requests`
    /// requests together.
    pub fn new(inner: Box<dyn Workload>, requests: u64) -> Limited {
        Limited { inner, left: requests }
    }
}

impl Workload for Limited {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        if self.left == 0 || !self.inner.next_session(steps) {
            return false;
        }
        steps.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= steps.len() as u64;
        true
    }

    fn fork(&self, index: usize, threads: usize) -> Box<dyn Workload> {
        let (index, of) = (index as u64, threads as u64);
        let share = self.left / of + u64::from(index < self.left % of);
        Box::new(Limited::new(self.inner.fork(index as usize, threads), share))
    }

    fn requests_per_session(&self) -> f64 {
        self.inner.requests_per_session()
    }
}

impl std::fmt::Debug for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limited").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OneUrl;

    #[test]
    fn threads_ask_together_for_as_many_as_were_asked_for() {
        let limited = Limited::new(Box::new(OneUrl::new(0, 3, false)), 10);
        let asked = |mut thread: Box<dyn Workload>| {
            let (mut steps, mut lengths) = (Vec::new(), Vec::new());
            while thread.next_session(&mut steps) {
                lengths.push(steps.len());
                steps.clear();
            }
            lengths
        };
        assert_eq!(asked(limited.fork(0, 1)), [3, 3, 3, 1]);
        assert_eq!([0, 1, 2].map(|n| asked(limited.fork(n, 3))), [vec![3, 1], vec![3], vec![3]]);
    }
}
