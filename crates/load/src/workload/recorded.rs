//! Sessions that were written down: those of a log, one after the other and round again.

use std::sync::Arc;

use super::{Step, Workload};

/// Goes through recorded sessions in their order, and begins anew at the end.
#[derive(Clone, Debug)]
pub struct Recorded {
    steps: Arc<[Step]>,
    /// Where each session ends among the steps.
    ends: Arc<[u32]>,
    next: usize,
    stride: usize,
}

impl Recorded {
    /// The sessions whose `steps` end before each of `ends`, which ascend.
    ///
    /// # Panics
    /// When there is no session: a log without one is refused before.
    pub fn new(steps: Vec<Step>, ends: Vec<u32>) -> Recorded {
        assert!(!ends.is_empty(), "a log has a session");
        Recorded { steps: steps.into(), ends: ends.into(), next: 0, stride: 1 }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.ends.len()
    }
}

impl Workload for Recorded {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let before = self.next.checked_sub(1).map_or(0, |at| self.ends[at]);
        steps.extend_from_slice(&self.steps[before as usize..self.ends[self.next] as usize]);
        self.next = (self.next + self.stride) % self.ends.len();
        true
    }

    fn fork(&self, index: usize, threads: usize) -> Box<dyn Workload> {
        let next = index % self.ends.len();
        Box::new(Recorded { next, stride: threads, ..self.clone() })
    }

    fn requests_per_session(&self) -> f64 {
        self.steps.len() as f64 / self.ends.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Follow;

    #[test]
    fn threads_ask_together_for_what_one_would_ask_for() {
        let step = |request| Step { request, follow: Follow::Think(0) };
        let log = Recorded::new((0..6).map(step).collect(), vec![1, 3, 6]);
        assert!((log.requests_per_session() - 2.0).abs() < 1e-9);
        let mut threads = [log.fork(0, 2), log.fork(1, 2)];
        let mut asked = Vec::new();
        for nth in 0..6 {
            let mut steps = Vec::new();
            assert!(threads[nth % 2].next_session(&mut steps));
            asked.push(steps.iter().map(|step| step.request).collect::<Vec<_>>());
        }
        assert_eq!(asked, [vec![0], vec![1, 2], vec![3, 4, 5], vec![0], vec![1, 2], vec![3, 4, 5]]);
    }
}
