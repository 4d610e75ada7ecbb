//! What became of each try: a client that gets no answer, or a refusal, may try again.
//!
//! Every try that was begun ends in one way. Those that were answered, and not by a refusal, were
//! admitted: their time is counted apart, since that of a mean or a percentile of all is that of
//! the time-outs as soon as these are many. A connection that took a second or so has lost its
//! first packet, mostly where the queue before it was full: that wait is the kernel's.

use serde_json::{Value, json};

use super::histogram::Times;
use super::kind::Kind;

/// Time from which a connection that was not there must have sent its first packet again: the
/// kernel does so after a second (RFC 6298, section 2.1).
pub const SYN_RETRY_NS: u64 = 900_000_000;

/// How a try can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A reply other than a refusal.
    Admitted,
    /// Status 503.
    Unavailable,
    /// Status 429.
    TooMany,
    /// The connection was reset, or closed before the reply was whole.
    Cut,
    /// No connection: the server's machine refused it.
    Refused,
    /// The client gave up.
    Timeout,
    /// Anything else, such as a reply that is not HTTP.
    Other,
}

/// Every end, in the order of reports.
pub const ENDS: [End; 7] = [
    End::Admitted,
    End::Unavailable,
    End::TooMany,
    End::Cut,
    End::Refused,
    End::Timeout,
    End::Other,
];

impl End {
    /// That of a reply with this status.
    pub fn of_status(status: u16) -> End {
        match status {
            503 => End::Unavailable,
            429 => End::TooMany,
            _ => End::Admitted,
        }
    }

    /// That of a failure.
    pub fn of_kind(kind: Kind) -> End {
        match kind {
            Kind::Reset | Kind::Closed | Kind::ShortBody => End::Cut,
            Kind::Refused => End::Refused,
            kind if kind.is_timeout() => End::Timeout,
            _ => End::Other,
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            End::Admitted => "admitted",
            End::Unavailable => "status_503",
            End::TooMany => "status_429",
            End::Cut => "reset",
            End::Refused => "refused",
            End::Timeout => "timeout",
            End::Other => "other",
        }
    }

    /// Whether it is the server, or its machine, that told the client to go.
    pub fn is_refusal(self) -> bool {
        matches!(self, End::Unavailable | End::TooMany | End::Cut | End::Refused)
    }
}

/// The tries of sessions that were due within the window.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    /// How they ended, in the order of [`ENDS`].
    pub ends: [u64; ENDS.len()],
    /// Those of them that were no request's first.
    pub again: u64,
    /// Requests whose last try failed.
    pub given_up: u64,
    /// Good replies to a try that was no first one.
    pub good_again: u64,
    /// Connections that took as long as one whose first packet was lost, those that were given up
    /// after that time included.
    pub syn_retries: u64,
    /// How long those that were admitted took, from when the try was due.
    pub admitted: Times,
    /// Those of them whose connection did not take as long.
    pub admitted_at_once: Times,
}

impl Tries {
    /// A try has ended, the `nth` of its request from 0, after which there `is_last`.
    pub(crate) fn ended(&mut self, end: End, nth: u32, is_last: bool) {
        self.ends[end as usize] += 1;
        self.again += u64::from(nth > 0);
        self.given_up += u64::from(is_last && end != End::Admitted);
    }

    /// How many ended like that.
    pub fn count(&self, end: End) -> u64 {
        self.ends[end as usize]
    }

    /// All.
    pub fn all(&self) -> u64 {
        self.ends.iter().sum()
    }

    /// Whether there is more to tell than that all were answered.
    pub(crate) fn are_told(&self) -> bool {
        self.again + self.syn_retries > 0 || self.refused_share() + self.timeout_share() > 0.0
    }

    /// The share of them that was refused.
    pub fn refused_share(&self) -> f64 {
        let refused = ENDS.into_iter().filter(|end| end.is_refusal()).map(|end| self.count(end));
        self.share(refused.sum())
    }

    /// The share of them that the client gave up.
    pub fn timeout_share(&self) -> f64 {
        self.share(self.count(End::Timeout))
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / self.all().max(1) as f64
    }

    /// Adds those of another thread.
    pub(crate) fn merge(&mut self, other: &Tries) {
        self.ends.iter_mut().zip(other.ends).for_each(|(sum, n)| *sum += n);
        self.again += other.again;
        self.given_up += other.given_up;
        self.good_again += other.good_again;
        self.syn_retries += other.syn_retries;
        self.admitted.merge(&other.admitted);
        self.admitted_at_once.merge(&other.admitted_at_once);
    }

    /// As JSON, without the times.
    pub(crate) fn json(&self, good: u64) -> Value {
        let mut value = json!({
            "first": self.all() - self.again,
            "again": self.again,
            "given_up": self.given_up,
            "good_first": good.saturating_sub(self.good_again),
            "good_again": self.good_again,
            "refused_share": self.refused_share(),
            "timeout_share": self.timeout_share(),
            "syn_retries": self.syn_retries,
        });
        for end in ENDS {
            value[end.name()] = self.count(end).into();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_try_ends_in_one_way_and_shares_are_of_all_of_them() {
        let mut tries = Tries::default();
        tries.ended(End::of_status(503), 0, false);
        tries.ended(End::of_kind(Kind::FirstByteTimeout), 1, false);
        tries.ended(End::of_status(404), 2, true);
        tries.ended(End::of_kind(Kind::Closed), 0, true);
        assert_eq!((tries.all(), tries.again, tries.given_up), (4, 2, 1));
        assert_eq!((tries.refused_share(), tries.timeout_share()), (0.5, 0.25));
        let mut both = tries.clone();
        both.merge(&tries);
        let value = both.json(2);
        assert_eq!((&value["first"], &value["again"]), (&json!(4), &json!(4)));
        assert_eq!((&value["status_503"], &value["reset"]), (&json!(2), &json!(2)));
        assert_eq!(Tries::default().refused_share(), 0.0);
    }
}
