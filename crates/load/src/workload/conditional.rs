//! A share of the requests as conditional ones (Nahum: 28 % of the requests of a busy site).

use super::{RequestId, Step, Workload};
use crate::random::{Purpose, Random};

/// Makes a share of another workload's requests conditional.
pub struct Conditional {
    inner: Box<dyn Workload>,
    share: f64,
    /// The conditional variant of request `n` is request `n + offset`.
    offset: RequestId,
    seed: u64,
    random: Random,
}

impl Conditional {
    /// `share` of the requests of `inner` become those `offset` further on in the catalog, which
    /// [`Catalog::add_conditional`](super::Catalog::add_conditional) tells.
    pub fn new(inner: Box<dyn Workload>, share: f64, offset: RequestId, seed: u64) -> Conditional {
        let random = Random::new(seed, Purpose::Conditions);
        Conditional { inner, share, offset, seed, random }
    }
}

impl Workload for Conditional {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let more = self.inner.next_session(steps);
        for step in steps {
            if self.random.chance(self.share) {
                step.request += self.offset;
            }
        }
        more
    }

    fn fork(&self, index: usize, threads: usize) -> Box<dyn Workload> {
        let inner = self.inner.fork(index, threads);
        let seed = self.seed.wrapping_add(index as u64);
        Box::new(Conditional::new(inner, self.share, self.offset, seed))
    }

    fn requests_per_session(&self) -> f64 {
        self.inner.requests_per_session()
    }
}

impl std::fmt::Debug for Conditional {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conditional").field("share", &self.share).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OneUrl;

    #[test]
    fn so_large_a_share_is_conditional_and_no_more() {
        for share in [0.0, 0.28, 1.0] {
            let inner = Box::new(OneUrl::new(3, 100_000, false));
            let (mut conditional, mut steps) = (Conditional::new(inner, share, 10, 1), Vec::new());
            assert!(conditional.next_session(&mut steps));
            let found = steps.iter().filter(|step| step.request == 13).count();
            assert!(steps.iter().all(|step| matches!(step.request, 3 | 13)));
            assert!((found as f64 / 1e5 - share).abs() < 0.01, "{found} for {share}");
        }
    }
}
