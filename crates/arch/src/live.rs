//! Limits that running workers take over as they are: a word for each in memory that all processes
//! share, and one that says when to look again. A worker reads that one when it reads the clock.
//! The accept-limit is read in each accept phase.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use flyball_http::Limits;
use flyball_sys::shared::SharedCounters;

use crate::settings::AcceptLimit;

/// How many limits change in place.
const LIMITS: usize = 10;

/// They themselves.
fn words(limits: &mut Limits) -> [&mut u64; LIMITS] {
    let l = limits;
    [
        &mut l.head_ms,
        &mut l.handshake_ms,
        &mut l.idle_ms,
        &mut l.answer_ms,
        &mut l.send_ms,
        &mut l.linger_ms,
        &mut l.linger_ms_max,
        &mut l.rate_window_ms,
        &mut l.body_rate_min,
        &mut l.send_rate_min,
    ]
}

/// Where the accept-limit stands: behind the number of the change and the limits.
const ACCEPT_LIMIT_AT: usize = 1 + LIMITS;

/// The limits that hold now. The first word is the number of the change.
#[derive(Debug)]
pub struct Live(SharedCounters);

impl Live {
    /// Nothing has changed yet, and the accept-limit is infinite until it is set. To be called
    /// before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn new() -> io::Result<Live> {
        let live = Live(SharedCounters::new(ACCEPT_LIMIT_AT + 1)?);
        live.set_accept_limit(AcceptLimit::Infinite);
        Ok(live)
    }

    /// The accept-limit of every accept phase from now on, in all workers (M12).
    pub fn set_accept_limit(&self, limit: AcceptLimit) {
        self.0.all()[ACCEPT_LIMIT_AT].store(limit.as_f64().to_bits(), Relaxed);
    }

    /// The accept-limit that holds now.
    pub fn accept_limit(&self) -> AcceptLimit {
        let limit = f64::from_bits(self.0.all()[ACCEPT_LIMIT_AT].load(Relaxed));
        AcceptLimit::from_f64(limit).unwrap_or(AcceptLimit::Infinite)
    }

    /// In the master: these hold from now on, for connections that are accepted from now on.
    pub fn set(&self, limits: &Limits) {
        let (change, shared) = (&self.0.all()[0], &self.0.all()[1..]);
        for (shared, value) in shared.iter().zip(words(&mut limits.clone())) {
            shared.store(*value, Relaxed);
        }
        change.fetch_add(1, Release);
    }

    /// The number of the last change.
    pub(crate) fn change(&self) -> u64 {
        self.0.all()[0].load(Acquire)
    }

    /// These limits as they are after the last change.
    pub(crate) fn apply(&self, limits: &mut Limits) {
        for (shared, value) in self.0.all()[1..].iter().zip(words(limits)) {
            *value = shared.load(Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_and_touches_nothing_else() {
        let live = Live::new().unwrap();
        let before = live.change();
        let changed = Limits { idle_ms: 7, send_rate_min: 9, ..Limits::default() };
        live.set(&changed);
        assert_ne!(live.change(), before);
        let mut limits = Limits { fields_max: 3, ..Limits::default() };
        live.apply(&mut limits);
        assert_eq!((limits.idle_ms, limits.send_rate_min, limits.fields_max), (7, 9, 3));
        assert_eq!(limits.head_ms, Limits::default().head_ms);
    }
    #[test]
    fn the_accept_limit_is_infinite_until_it_is_set_and_no_change_of_the_others() {
        let live = Live::new().unwrap();
        let before = live.change();
        assert_eq!(live.accept_limit(), AcceptLimit::Infinite);
        live.set_accept_limit(AcceptLimit::At(0.25));
        live.set(&Limits::default());
        assert_eq!(live.accept_limit(), AcceptLimit::At(0.25));
        assert_eq!(live.change(), before + 1);
    }
}
