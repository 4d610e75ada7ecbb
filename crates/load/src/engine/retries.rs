//! Clients that try again: after a time-out, a connection that broke, or a refusal (503, 429).
//!
//! A client waits before it does, twice as long each time, and at least as long as the server asks
//! for. It waits with its connection where that is kept. What it then sends is the same request,
//! which counts as one: its latency is that of all its tries together.

use std::time::Duration;

use flyball_http::date::parse_date;
use flyball_sys::clock;

use super::connection::Phase;
use super::generator::Generator;
use super::traffic::TICK_NS;
use crate::field;
use crate::observe::{End, Kind};
use crate::random::{Purpose, Random};

/// Longest wait before a try, whatever the server asks for.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How often clients try again, and what they wait before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// Tries of a request beyond its first.
    pub most: u32,
    /// The mean wait before the first of them.
    pub backoff: Duration,
}

/// Draws what clients wait.
#[derive(Debug)]
pub(super) struct BackOff {
    first_ns: u64,
    random: Random,
}

impl BackOff {
    pub(super) fn new(retries: Retries, seed: u64) -> BackOff {
        let first_ns = u64::try_from(retries.backoff.as_nanos()).unwrap_or(u64::MAX);
        BackOff { first_ns, random: Random::new(seed, Purpose::BackingOff) }
    }

    /// What is waited before the `nth` further try, from 1: half to one and a half of its mean, so
    /// that those who failed together do not come back together.
    fn wait_ns(&mut self, nth: u32) -> u64 {
        let mean = self.first_ns as f64 * f64::from(nth.saturating_sub(1)).exp2();
        (mean * (0.5 + self.random.unit())).min(longest_ns() as f64) as u64
    }
}

fn longest_ns() -> u64 {
    BACKOFF_MAX.as_nanos() as u64
}

/// From when on nothing is tried again: what was asked for in the run, which ends then, is tried
/// after it too, and has an end all the same.
pub(super) fn end_ns(run_ends_ns: u64) -> u64 {
    run_ends_ns.saturating_add(longest_ns())
}

/// How long a reply asks to wait, in nanoseconds: seconds, or until a date (RFC 9110, section
/// 10.2.3).
pub(super) fn retry_after_ns(head: &[u8]) -> u64 {
    let Some(value) = field::value(head, "retry-after") else { return 0 };
    let until = |unix: u64| unix.saturating_sub(clock::unix_ms() / 1000);
    let seconds = value.parse().ok().or_else(|| parse_date(value.as_bytes()).map(until));
    seconds.map_or(0, |seconds: u64| seconds.saturating_mul(1_000_000_000))
}

/// Whether a client tries again after such a failure: not where it is at its own limit, or the
/// answer would be the same.
fn is_worth_it(kind: Kind) -> bool {
    let broke = matches!(kind, Kind::Refused | Kind::Reset | Kind::Closed | Kind::ShortBody);
    broke || kind.is_timeout() || kind == Kind::Unreachable
}

impl Generator<'_> {
    /// The connection of a place has failed: counts the tries that end with it. Whether the client
    /// tries again.
    pub(super) fn tries_after(&mut self, slot: u32, kind: Kind, now_ns: u64) -> bool {
        let most = self.judge.retries_at(now_ns);
        let connection = &mut self.table[slot as usize];
        let is_last = |nth: u32| nth >= most || !is_worth_it(kind);
        if connection.counts {
            for one in &connection.waiting {
                self.tally.tries.ended(End::of_kind(kind), one.tries, is_last(one.tries));
            }
        }
        let Some(front) = connection.waiting.front_mut() else { return false };
        if is_last(front.tries) {
            return false;
        }
        front.tries += 1;
        self.disconnect(slot);
        self.wait_to_try(slot, 0, now_ns);
        true
    }

    /// Lets the request that is next wait for its next try, for as long as the server asked for at
    /// least.
    pub(super) fn wait_to_try(&mut self, slot: u32, asked_ns: u64, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        let Some(front) = connection.waiting.front_mut() else { return };
        let wait_ns = self.backoff.wait_ns(front.tries).max(asked_ns).min(longest_ns());
        front.due_ns = (now_ns + wait_ns).next_multiple_of(TICK_NS);
        front.begun = false;
        connection.due_ns = front.due_ns;
        connection.phase = Phase::Retrying;
        if connection.closing {
            self.disconnect(slot);
        }
        self.set_timer(slot);
    }

    /// The wait is over.
    pub(super) fn try_again(&mut self, slot: u32, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        if connection.counts {
            self.tally.late_by(now_ns.saturating_sub(connection.due_ns));
        }
        if let Some(front) = connection.waiting.front_mut() {
            front.actual_ns = now_ns;
        }
        self.proceed(slot, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_are_spread_and_repeat_with_their_seed() {
        let retries = Retries { most: 9, backoff: Duration::from_nanos(1_000) };
        let drawn = |seed| {
            let mut backoff = BackOff::new(retries, seed);
            (1..=9).map(|nth| backoff.wait_ns(nth)).collect::<Vec<u64>>()
        };
        let waits = drawn(1);
        for (nth, wait) in (0..).zip(&waits) {
            let mean = 1_000 << nth;
            assert!((mean / 2..mean * 3 / 2).contains(wait), "{waits:?}");
        }
        assert_eq!(waits, drawn(1));
        assert_ne!(waits, drawn(2));
        assert_eq!(BackOff::new(retries, 1).wait_ns(200), longest_ns());
        assert_eq!(BackOff::new(Retries::default(), 1).wait_ns(3), 0, "at once");
    }

    #[test]
    fn a_server_asks_for_seconds_or_names_a_date() {
        let head = |value: &str| {
            retry_after_ns(format!("HTTP/1.1 503 No\r\nretry-After: {value}\r\n\r\n").as_bytes())
        };
        assert_eq!(head("7"), 7_000_000_000);
        assert_eq!(head("soon"), 0);
        assert_eq!(head("Sun, 06 Nov 1994 08:49:37 GMT"), 0, "it is over");
        let later = flyball_http::date::format_date(clock::unix_ms() / 1000 + 100);
        let later = head(str::from_utf8(&later).unwrap());
        assert!((98_000_000_000..=100_000_000_000).contains(&later), "{later}");
        assert_eq!(retry_after_ns(b"HTTP/1.1 503 No\r\n\r\n"), 0);
    }
}
