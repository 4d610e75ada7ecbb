//! S4's rule of quality of service (Section 5): a server must not look fast because it gives up
//! requests, or those of some sizes.
//!
//! Of all requests at most 10 % may time out; of each class of sizes at most 2 % of all clients'
//! requests and at most 5 % of each client's, and at most five points more than of the classes on
//! average, of all clients and of each. Time-outs before the server's kernel took the connection
//! count among all, and for no class; what waits in its accept queue looks to a client like any
//! other request, and counts for its class, though the paper leaves it out. A client is a thread of
//! the generator, as it was a process in the paper.

use serde_json::{Value, json};

use super::kind::KINDS;
use super::report::Report;
use super::tally::ClassTally;

/// Share of all requests that may time out.
pub const TIMEOUTS_MAX: f64 = 0.10;

/// Share of the requests of a class that may.
pub const CLASS_TIMEOUTS_MAX: f64 = 0.02;

/// Share of the requests of a class that may, of one client.
pub const CLIENT_TIMEOUTS_MAX: f64 = 0.05;

/// Requests of a class from which on a client is judged by it: of fewer, one is more than 5 %.
pub const CLIENT_REQUESTS_MIN: u64 = 20;

/// How much above the mean of the classes that share may be.
pub const ABOVE_MEAN_MAX: f64 = 0.05;

/// Whether a run kept the rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Qos {
    /// It did.
    Pass,
    /// It did not.
    Fail {
        /// The class with the largest share of time-outs among those that broke it; `None` when
        /// only the share of all requests did.
        class: Option<String>,
        /// Why, in words.
        because: Vec<String>,
    },
}

impl Qos {
    /// The verdict on a run; `None` for a workload without classes, and when nothing was counted.
    pub fn of(report: &Report) -> Option<Qos> {
        let tally = &report.tally;
        let timeouts: u64 = KINDS
            .into_iter()
            .filter(|kind| kind.is_timeout())
            .map(|kind| tally.errors_of(kind))
            .sum();
        let requests = tally.replies + timeouts;
        if report.classes.is_empty() || requests == 0 {
            return None;
        }
        let mut because = Vec::new();
        let share = timeouts as f64 / requests as f64;
        if share > TIMEOUTS_MAX {
            because.push(format!("{} of all requests timed out", percent(share)));
        }
        let mut worst = None;
        let all = Judged { whose: "", most: CLASS_TIMEOUTS_MAX, requests_min: 1 };
        all.judge(&report.classes, &tally.classes, &mut because, &mut worst);
        // One client alone is all of them.
        for (nth, client) in tally.clients.iter().enumerate().filter(|_| tally.clients.len() > 1) {
            let whose = format!(" of client {}", nth + 1);
            let each = Judged {
                whose: &whose,
                most: CLIENT_TIMEOUTS_MAX,
                requests_min: CLIENT_REQUESTS_MIN,
            };
            each.judge(&report.classes, client, &mut because, &mut worst);
        }
        let class = worst.map(|(name, _): (&str, f64)| name.to_owned());
        Some(if because.is_empty() { Qos::Pass } else { Qos::Fail { class, because } })
    }

    /// As the report has it.
    pub fn json(&self) -> Value {
        match self {
            Qos::Pass => json!({ "verdict": "pass", "class": null, "because": [] }),
            Qos::Fail { class, because } => {
                json!({ "verdict": "fail", "class": class, "because": because })
            }
        }
    }
}

/// Whose requests are judged, and by what.
struct Judged<'a> {
    whose: &'a str,
    most: f64,
    requests_min: u64,
}

impl Judged<'_> {
    /// Says which classes break the rule, and which of them by most.
    fn judge<'a>(
        &self,
        names: &'a [String],
        classes: &[ClassTally],
        because: &mut Vec<String>,
        worst: &mut Option<(&'a str, f64)>,
    ) {
        let each = names.iter().map(String::as_str).zip(classes);
        let shares: Vec<(&str, f64)> = each
            .filter(|(_, class)| class.replies + class.timeouts >= self.requests_min)
            .map(|(name, class)| (name, share_of(class)))
            .collect();
        let mean = shares.iter().map(|(_, share)| share).sum::<f64>() / shares.len().max(1) as f64;
        for (name, share) in shares {
            let is_above = share > mean + ABOVE_MEAN_MAX;
            if share <= self.most && !is_above {
                continue;
            }
            let above = if is_above {
                format!(", and of the classes {} on average", percent(mean))
            } else {
                String::new()
            };
            let whose = self.whose;
            because.push(format!("{} of the class {name}{whose} timed out{above}", percent(share)));
            if worst.is_none_or(|(_, largest)| share > largest) {
                *worst = Some((name, share));
            }
        }
    }
}

fn share_of(class: &ClassTally) -> f64 {
    class.timeouts as f64 / (class.replies + class.timeouts) as f64
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Kind, Tally, Window};

    /// Replies and time-outs of two classes, and time-outs of connecting.
    fn report(small: (u64, u64), large: (u64, u64), connecting: u64) -> Report {
        let mut tally = Tally::new(Window::default(), 2);
        for (class, (replies, timeouts)) in tally.classes.iter_mut().zip([small, large]) {
            *class = ClassTally { replies, timeouts, bytes: 0 };
        }
        tally.replies = small.0 + large.0;
        tally.errors[Kind::ReplyTimeout as usize] = small.1 + large.1;
        tally.errors[Kind::ConnectTimeout as usize] = connecting;
        Report { tally, classes: vec!["small".into(), "large".into()], ..Report::default() }
    }

    fn failure(report: &Report) -> (Option<String>, String) {
        match Qos::of(report) {
            Some(Qos::Fail { class, because }) => (class, because.join("; ")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_class_that_is_given_up_breaks_the_rule_and_is_named() {
        assert_eq!(Qos::of(&report((1000, 0), (98, 2), 0)), Some(Qos::Pass), "2 % are allowed");
        let (class, why) = failure(&report((1000, 0), (97, 3), 0));
        assert_eq!(
            (class.as_deref(), why.as_str()),
            (
                Some("large"),
                "3.0 % of the class large \
            timed out"
            )
        );
        let (class, why) = failure(&report((960, 40), (80, 20), 0));
        assert_eq!(class.as_deref(), Some("large"));
        assert!(why.contains("20.0 % of the class large timed out, and of the classes 12.0 %"));
        let value = Qos::of(&report((960, 40), (80, 20), 0)).unwrap().json();
        assert_eq!((&value["verdict"], &value["class"]), (&"fail".into(), &"large".into()));
    }

    #[test]
    fn what_was_never_accepted_counts_among_all_and_for_no_class() {
        assert_eq!(Qos::of(&report((900, 0), (0, 0), 100)), Some(Qos::Pass), "10 % are allowed");
        let found = failure(&report((890, 0), (0, 0), 110));
        assert_eq!(found, (None, "11.0 % of all requests timed out".into()));
    }

    #[test]
    fn a_client_whose_requests_of_a_size_are_given_up_breaks_the_rule() {
        let class = |replies, timeouts| ClassTally { replies, timeouts, bytes: 0 };
        let mut report = report((10_000, 0), (994, 6), 0);
        // Two clients: 5 % of one's large requests are allowed, and 6 % are not.
        report.tally.clients =
            vec![vec![class(5_000, 0), class(899, 1)], vec![class(5_000, 0), class(95, 5)]];
        assert_eq!(Qos::of(&report), Some(Qos::Pass));
        report.tally.clients[1][1] = class(94, 6);
        let (class_name, why) = failure(&report);
        assert_eq!(class_name.as_deref(), Some("large"));
        assert_eq!(why, "6.0 % of the class large of client 2 timed out");
        // One of nineteen says nothing.
        report.tally.clients[1][1] = class(18, 1);
        assert_eq!(Qos::of(&report), Some(Qos::Pass));
    }

    #[test]
    fn without_classes_or_requests_there_is_no_verdict() {
        assert_eq!(Qos::of(&report((0, 0), (0, 0), 0)), None);
        let report = Report { classes: Vec::new(), ..report((1, 0), (1, 0), 0) };
        assert_eq!(Qos::of(&report), None);
    }
}
