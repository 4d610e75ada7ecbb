//! One URL, over and over.

use super::{Follow, RequestId, Step, Workload};

/// Asks for the same thing each time.
#[derive(Clone, Copy, Debug)]
pub struct OneUrl {
    request: RequestId,
    requests: u32,
    pipelined: bool,
}

impl OneUrl {
    /// Sessions of `requests` requests, each a think time after the reply to the one before it, or
    /// with it when they are `pipelined`.
    pub fn new(request: RequestId, requests: u32, pipelined: bool) -> OneUrl {
        OneUrl { request, requests, pipelined }
    }
}

impl Workload for OneUrl {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let next = if self.pipelined { Follow::Together } else { Follow::Pause };
        steps.extend((0..self.requests).map(|_| Step { request: self.request, follow: next }));
        true
    }

    fn fork(&self, _index: usize, _threads: usize) -> Box<dyn Workload> {
        Box::new(*self)
    }

    fn requests_per_session(&self) -> f64 {
        f64::from(self.requests)
    }
}
