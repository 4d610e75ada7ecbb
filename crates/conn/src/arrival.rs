//! How long a connection had been there when it was accepted, and what of that was the wait of its
//! first request.

use flyball_observe::waited::Waited;

/// What the kernel said of a connection that was just accepted, if it was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// In the accept queue, if that is known.
    queued_ms: u32,
    is_known: bool,
    /// Whether some of what its client had said was received.
    is_received: bool,
    /// When its client had said what it had said so far, in monotonic nanoseconds; 0 where it had
    /// said nothing, or that is not known.
    said_ns: u64,
}

// Each connection has one.
const _: () = assert!(size_of::<Arrival>() == 16);

impl Arrival {
    /// That of a connection which waited for so long in the accept queue, and whose client had said
    /// then what it had said so far, in monotonic nanoseconds; `None` where it had said nothing.
    pub fn of(queued_ms: u32, said_ns: Option<u64>) -> Arrival {
        let said_ns = said_ns.unwrap_or(0);
        Arrival { queued_ms, is_known: true, is_received: false, said_ns }
    }

    /// Something is received. What its client had said is the whole head of its first request only
    /// if that is received at once: it may be a part of it, or what a proxy says in front of it.
    pub(crate) fn receives(&mut self) {
        if std::mem::replace(&mut self.is_received, true) {
            self.said_ns = 0;
        }
    }

    /// When its first request had come, in monotonic nanoseconds; 0 where that is not known.
    pub(crate) fn came_ns(&self) -> u64 {
        self.said_ns
    }

    /// How long it had waited of which no request was found.
    pub(crate) fn without_request(&self) -> Waited {
        Waited { queued_ms: self.is_known.then_some(self.queued_ms), age_ms: None }
    }

    /// How long its first request had waited, which was found now: by `clock`, which is read only
    /// where that matters.
    pub(crate) fn waited(&self, clock: impl FnOnce() -> u64) -> Waited {
        let age_ms = (self.said_ns > 0).then(|| {
            u32::try_from(clock().saturating_sub(self.said_ns) / 1_000_000).unwrap_or(u32::MAX)
        });
        Waited { age_ms, ..self.without_request() }
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
        in_parts.receives();
        assert_eq!(in_parts.came_ns(), 60_000_000);
        in_parts.receives();
        assert_eq!((in_parts.came_ns(), in_parts.waited(|| 0)), (0, unknown));
    }
}
