//! Sessions of one request as HTTP/1.0, as three of ten connections of SPECweb99 are.

use super::{RequestId, Step, Workload};

/// Another workload, whose sessions of one request are of HTTP/1.0.
pub struct Singles {
    inner: Box<dyn Workload>,
    /// Request `n` by HTTP/1.0 is request `n + offset`.
    offset: RequestId,
}

impl Singles {
    /// The sessions of `inner`; [`Catalog::add_http10`](super::Catalog::add_http10) tells `offset`.
    pub fn new(inner: Box<dyn Workload>, offset: RequestId) -> Singles {
        Singles { inner, offset }
    }
}

impl Workload for Singles {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let more = self.inner.next_session(steps);
        if let [single] = steps.as_mut_slice() {
            single.request += self.offset;
        }
        more
    }

    fn fork(&self, index: usize, threads: usize) -> Box<dyn Workload> {
        Box::new(Singles::new(self.inner.fork(index, threads), self.offset))
    }

    fn requests_per_session(&self) -> f64 {
        self.inner.requests_per_session()
    }
}

impl std::fmt::Debug for Singles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Singles").field("offset", &self.offset).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OneUrl;

    #[test]
    fn only_a_session_of_one_request_is_another_one() {
        for (requests, asked) in [(1, vec![13]), (2, vec![3, 3])] {
            let singles = Singles::new(Box::new(OneUrl::new(3, requests, false)), 10);
            let mut steps = Vec::new();
            assert!(singles.fork(0, 1).next_session(&mut steps));
            let found: Vec<RequestId> = steps.iter().map(|step| step.request).collect();
            assert_eq!(found, asked);
        }
    }
}
