//! How long a connection had been there when it was accepted, and what of that was the wait of its
//! first request.

use flyball_observe::waited::Waited;

/// What the kernel said of a connection that was just accepted, if it was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    queued_ms: Option<u32>,
    /// When its client had said what it had said so far, in monotonic nanoseconds; 0 where it had
    /// said nothing, or that is not known.
    said_ns: u64,
}

impl Arrival {
    /// That of a connection which waited for so long in the accept queue, and whose client had said
    /// then what it had said so far, in monotonic nanoseconds; `None` where it had said nothing.
    pub fn of(queued_ms: u32, said_ns: Option<u64>) -> Arrival {
        Arrival { queued_ms: Some(queued_ms), said_ns: said_ns.unwrap_or(0) }
    }

    /// What its client had said is not its first request, or not the whole head of it.
    pub(crate) fn says_more(&mut self) {
        self.said_ns = 0;
    }

    /// When its first request had come, in monotonic nanoseconds; 0 where that is not known.
    pub(crate) fn came_ns(&self) -> u64 {
        self.said_ns
    }

    /// How long it had waited of which no request was found.
    pub(crate) fn without_request(&self) -> Waited {
        Waited { queued_ms: self.queued_ms, age_ms: None }
    }

    /// How long its first request had waited, which was found now: by `clock`, which is read only
    /// where that matters.
    pub(crate) fn waited(&self, clock: impl FnOnce() -> u64) -> Waited {
        let age_ms = (self.said_ns > 0).then(|| {
            u32::try_from(clock().saturating_sub(self.said_ns) / 1_000_000).unwrap_or(u32::MAX)
        });
        Waited { queued_ms: self.queued_ms, age_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_old_as_its_client_is_silent_and_some_more() {
        let arrival = Arrival::of(52, Some(60_000_000));
        assert_eq!(arrival.came_ns(), 60_000_000);
        let waited = arrival.waited(|| 103_900_000);
        assert_eq!(waited, Waited { queued_ms: Some(52), age_ms: Some(43) });
        assert_eq!(Arrival::default().waited(|| panic!("the clock is read")), Waited::default());
    }

    #[test]
    fn what_came_later_or_in_parts_is_of_no_known_age() {
        let unknown = Waited { queued_ms: Some(52), age_ms: None };
        let later = Arrival::of(52, None);
        assert_eq!((later.came_ns(), later.waited(|| 0)), (0, unknown));
        let mut in_parts = Arrival::of(52, Some(60_000_000));
        assert_eq!(in_parts.without_request(), unknown);
        in_parts.says_more();
        assert_eq!((in_parts.came_ns(), in_parts.waited(|| 0)), (0, unknown));
    }
}
