//! When a certificate is ordered and when its authority is asked about renewal: pure, the time is a
//! parameter. Times are seconds since 1970, UTC.

use std::hash::{DefaultHasher, Hash, Hasher};

use flyball_tls::Certificate;

use crate::agent::ladder::Failures;

/// Between two questions about renewal when the authority does not say (RFC 9773, section 4.3.2).
const ASK_EVERY: u64 = 6 * 3_600;

/// The least and the most of what it can say.
const ASK_EVERY_MIN: u64 = 60;
const ASK_EVERY_MAX: u64 = 24 * 3_600;

/// Of the lifetime, what is left when a certificate is renewed without advice: a third.
const LEFT: u64 = 3;

/// Of the lifetime, what must be left even where the authority advises to wait: a twentieth.
const LEFT_MIN: u64 = 20;

/// From an order that succeeded to the next: neither an authority that always advises to renew at
/// once nor a clock that is wrong by years makes more of them.
const APART: u64 = 3_600;

/// As much of a certificate as its renewal depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    not_before: u64,
    not_after: u64,
    serial: String,
}

impl From<&Certificate> for Validity {
    fn from(certificate: &Certificate) -> Validity {
        let serial = certificate.serial.clone();
        // One that ends before it begins has ended.
        let (not_before, not_after) = (certificate.not_before_s, certificate.not_after_s);
        Validity { not_before: not_before.min(not_after), not_after, serial }
    }
}

/// What is due for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// To order it; against staging first when the authority has refused it.
    Order { rehearse: bool },
    /// To ask the authority when it should be renewed.
    Ask,
    /// Nothing until then.
    At(u64),
}

/// What is known about one certificate.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    held: Option<Validity>,
    /// Within the window that the authority has suggested.
    suggested: Option<u64>,
    ask_at: u64,
    /// When the last order succeeded, in the life of this agent.
    ordered_at: Option<u64>,
    pub(crate) is_asked_for: bool,
    /// The one that is there came from another authority than those that are asked now.
    pub(crate) is_foreign: bool,
    pub(crate) failures: Failures,
}

impl Schedule {
    /// A certificate is there that covers all names. One that was there already keeps its advice.
    pub(crate) fn holds(&mut self, leaf: Validity) {
        if self.held.as_ref() != Some(&leaf) {
            self.held = Some(leaf);
            self.suggested = None;
            self.ask_at = 0;
        }
    }

    /// None is there any more, or it does not cover all names.
    pub(crate) fn lacks(&mut self) {
        (self.held, self.is_foreign) = (None, false);
    }

    /// A certificate came by an order.
    pub(crate) fn succeeded(&mut self, leaf: Validity, now: u64) {
        self.holds(leaf);
        self.ordered_at = Some(now);
        self.failures = Failures::default();
        self.is_asked_for = false;
    }

    /// The operator wants another one, now.
    pub(crate) fn ask_for(&mut self) {
        self.is_asked_for = true;
        self.failures = Failures::default();
    }

    /// What the authority said, if it did: the window, and after how many seconds it wants to be
    /// asked again. The point within the window depends on the certificate alone, so that a server
    /// that starts again does not draw another.
    pub(crate) fn advised(&mut self, now: u64, advice: Option<(u64, u64)>, after: Option<u64>) {
        let after = after.unwrap_or(ASK_EVERY).clamp(ASK_EVERY_MIN, ASK_EVERY_MAX);
        self.ask_at = now + after;
        let Some((start, end)) = advice.filter(|(start, end)| start < end) else { return };
        let mut hasher = DefaultHasher::new();
        self.held.as_ref().map(|leaf| &leaf.serial).hash(&mut hasher);
        self.suggested = Some(start + hasher.finish() % (end - start));
    }

    /// The authority has no advice to give: it is not asked again for this certificate.
    pub(crate) fn never_ask(&mut self) {
        self.ask_at = u64::MAX;
    }

    /// When the certificate that is there is renewed.
    pub(crate) fn renews_at(&self) -> Option<u64> {
        let leaf = self.held.as_ref()?;
        // Once in the life of an agent: two agents with one storage may go by other authorities.
        if self.is_foreign && self.ordered_at.is_none() {
            return Some(leaf.not_before);
        }
        let lifetime = leaf.not_after - leaf.not_before;
        let latest = leaf.not_after - lifetime / LEFT_MIN;
        let by_itself = leaf.not_after - lifetime / LEFT;
        let at = self.suggested.map_or(by_itself, |at| at.min(latest));
        Some(at.max(self.ordered_at.map_or(0, |at| at + APART)))
    }

    /// What is due now.
    pub(crate) fn next(&self, now: u64) -> Due {
        let renews_at = self.renews_at().unwrap_or(0);
        if self.is_asked_for || renews_at <= now {
            return match self.failures.until(now) {
                until if until > now => Due::At(until),
                _ => Due::Order { rehearse: self.failures.is_refused },
            };
        }
        match self.ask_at <= now {
            true => Due::Ask,
            false => Due::At(renews_at.min(self.ask_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn leaf(from: u64, days: u64) -> Validity {
        Validity { not_before: from, not_after: from + days * DAY, serial: from.to_string() }
    }

    #[test]
    fn without_a_certificate_one_is_ordered_at_once() {
        assert_eq!(Schedule::default().next(5), Due::Order { rehearse: false });
    }

    #[test]
    fn a_third_of_the_lifetime_is_left_at_renewal_whatever_the_lifetime() {
        for days in [6, 45, 90] {
            let mut schedule = Schedule::default();
            schedule.holds(leaf(0, days));
            schedule.never_ask();
            assert_eq!(schedule.next(0), Due::At(days * DAY * 2 / 3));
            assert_eq!(schedule.next(days * DAY * 2 / 3), Due::Order { rehearse: false });
        }
    }

    #[test]
    fn the_authority_is_asked_at_the_start_and_again_when_it_says() {
        let mut schedule = Schedule::default();
        schedule.holds(leaf(0, 90));
        assert_eq!(schedule.next(7), Due::Ask);
        schedule.advised(7, Some((50 * DAY, 52 * DAY)), Some(3_600));
        assert_eq!(schedule.next(7), Due::At(7 + 3_600));
        let at = schedule.renews_at().unwrap();
        assert!((50 * DAY..52 * DAY).contains(&at));
        // The same certificate draws the same point.
        schedule.advised(8, Some((50 * DAY, 52 * DAY)), None);
        assert_eq!(schedule.renews_at(), Some(at));
        schedule.holds(leaf(0, 90));
        assert_eq!(schedule.renews_at(), Some(at));
        schedule.holds(leaf(1, 90));
        assert_eq!(schedule.next(8), Due::Ask);
    }

    #[test]
    fn a_window_in_the_past_is_an_order_now_and_one_beyond_the_end_is_not_waited_for() {
        let mut schedule = Schedule::default();
        schedule.holds(leaf(0, 90));
        schedule.advised(DAY, Some((10, 20)), None);
        assert_eq!(schedule.next(DAY), Due::Order { rehearse: false });
        schedule.advised(DAY, Some((200 * DAY, 300 * DAY)), None);
        assert_eq!(schedule.renews_at(), Some(90 * DAY - 90 * DAY / 20));
    }

    #[test]
    fn an_authority_that_always_advises_to_renew_at_once_gets_an_order_an_hour() {
        let (mut schedule, mut orders) = (Schedule::default(), Vec::new());
        let mut now = DAY;
        while now < 2 * DAY {
            match schedule.next(now) {
                Due::Ask => schedule.advised(now, Some((10, 20)), None),
                Due::Order { .. } => {
                    orders.push(now);
                    schedule.succeeded(leaf(now, 90), now);
                }
                Due::At(at) => now = at,
            }
        }
        assert_eq!(orders.len(), 24);
    }

    #[test]
    fn a_clock_that_is_ahead_of_all_certificates_makes_an_order_an_hour() {
        let (mut schedule, now) = (Schedule::default(), 4_000 * DAY);
        schedule.succeeded(leaf(0, 90), now);
        schedule.never_ask();
        assert_eq!(schedule.next(now), Due::At(now + APART));
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_no_advice() {
        let mut schedule = Schedule::default();
        schedule.holds(leaf(0, 90));
        schedule.advised(DAY, Some((20, 10)), Some(0));
        assert_eq!(schedule.renews_at(), Some(60 * DAY));
        assert_eq!(schedule.next(DAY), Due::At(DAY + ASK_EVERY_MIN));
    }

    #[test]
    fn a_refused_order_is_rehearsed_and_one_that_failed_on_the_way_is_not() {
        let mut schedule = Schedule::default();
        schedule.failures.add(100, true, None);
        assert_eq!(schedule.next(100), Due::At(160));
        assert_eq!(schedule.next(160), Due::Order { rehearse: true });
        schedule.failures.add(160, false, None);
        assert_eq!(schedule.next(280), Due::Order { rehearse: false });
    }

    #[test]
    fn what_the_operator_asks_for_is_done_at_once_and_once() {
        let mut schedule = Schedule::default();
        schedule.holds(leaf(0, 90));
        schedule.failures.add(100, true, None);
        schedule.ask_for();
        assert_eq!(schedule.next(101), Due::Order { rehearse: false });
        schedule.succeeded(leaf(101, 90), 101);
        schedule.never_ask();
        assert!(matches!(schedule.next(102), Due::At(_)));
    }

    /// A year of a short-lived certificate with the authority away for a day: never without one.
    #[test]
    fn a_day_without_the_authority_leaves_no_gap_even_for_six_days() {
        let (mut schedule, mut now, mut held) = (Schedule::default(), 0, leaf(0, 6));
        let is_away = |now: u64| (100 * DAY..101 * DAY).contains(&now);
        schedule.succeeded(held.clone(), 0);
        while now < 365 * DAY {
            assert!(now < held.not_after, "day {}", now / DAY);
            match schedule.next(now) {
                Due::At(at) => now = at.max(now + 1),
                Due::Ask => schedule.never_ask(),
                Due::Order { .. } if is_away(now) => schedule.failures.add(now, false, None),
                Due::Order { .. } => {
                    held = leaf(now, 6);
                    schedule.succeeded(held.clone(), now);
                }
            }
        }
    }
}
