//! The links of a pipeline. Those at rest wait in ReadPoll, where its event mechanism lets any
//! thread arm them; else they are looked at before they are used again.

use std::sync::Arc;

use flyball_site::Upstream;

use super::poll::PollStage;
use crate::links::{Held, Pool, Unwatched, Upstreams};

/// Those of one worker, by the stage in which they wait.
pub(crate) struct Parked<'a>(pub(crate) &'a PollStage);

impl Pool for Parked<'_> {
    fn take(&mut self, upstream: &Arc<Upstream>, shared: &Upstreams) -> Held {
        match self.0.keeps_links() {
            true => self.0.take_link(upstream),
            false => Unwatched.take(upstream, shared),
        }
    }

    fn leave(&mut self, held: &mut Held, keeps: bool, shared: &Upstreams) {
        match held.take_if(|_| keeps && self.0.keeps_links()) {
            Some(link) => self.0.rest_link(link),
            None => Unwatched.leave(held, keeps, shared),
        }
    }
}
