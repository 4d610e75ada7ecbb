//! What a run came to: the counts, what they were meant to be, and whether they may be believed.

use std::time::Duration;

use super::kind::{KINDS, Kind};
use super::tally::Tally;
use crate::workload::PostLog;

/// Share of requests that may be begun late before a run says nothing about the server.
pub const LATE_SHARE_MAX: f64 = 0.01;

/// Share of its time for which a thread may be busy before it is the client that is measured.
pub const BUSY_SHARE_MAX: f64 = 0.95;

/// Share of its time for which a thread has to be busy, for more threads to help against sessions
/// that begin late.
const BUSY_SHARE_LATE: f64 = 0.5;

/// How a run was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The URL.
    pub url: String,
    /// `open`, `closed`, `sessions`, `replay` or `kept`.
    pub mode: String,
    /// The rate, or the number of connections.
    pub load: String,
    /// How many connections are kept; `None` where each session has its own.
    pub kept_connections: Option<u32>,
    /// How arrivals scatter.
    pub arrivals: String,
    /// The workload, in words.
    pub workload: String,
    /// Lines of a log that were skipped.
    pub skipped_lines: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// How long sessions began, warm-up included.
    pub duration: Duration,
    /// What of it was not counted.
    pub warmup: Duration,
    /// From which lateness on a session was late.
    pub late_after: Duration,
    /// How long a reply was waited for.
    pub timeout: Duration,
    /// Latency up to which a reply is good.
    pub deadline: Duration,
    /// Threads.
    pub threads: u32,
    /// Requests in a session, on average.
    pub requests_per_session: f64,
    /// Whether replies were compared.
    pub verify: bool,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How it was asked for.
    pub asked: Asked,
    /// When it started, in milliseconds since 1970, UTC.
    pub started_unix_ms: u64,
    /// The counts.
    pub tally: Tally,
    /// Connections that listening sockets of this machine dropped; `None` when the server is not
    /// on it.
    pub listen_drops: Option<u64>,
    /// Names of the classes of the tally.
    pub classes: Vec<String>,
    /// The server's log of what was posted to it; `None` when nothing was to be.
    pub post_log: Option<PostLog>,
    /// What else whoever reads it should know.
    pub notes: Vec<String>,
    /// Why the run counts for nothing, beside the client's limits: agents that were lost.
    pub void: Vec<String>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

impl Report {
    /// Requests per second that the schedule intended; of a closed loop, those sent.
    pub fn intended_per_s(&self) -> f64 {
        let is_closed = self.asked.mode == "closed";
        self.per_s(if is_closed { self.tally.sent } else { self.tally.intended })
    }

    /// Replies per second.
    pub fn replies_per_s(&self) -> f64 {
        self.per_s(self.tally.replies_in_window)
    }

    /// Replies per second that were what they should be, and within the deadline.
    pub fn goodput_per_s(&self) -> f64 {
        self.per_s(self.tally.good_in_window)
    }

    /// Share of the requests that got no good reply: none, or one that was late, was not what it
    /// should be, or had a status from 400 on.
    pub fn bad_share(&self) -> f64 {
        let (intended, good) = (self.tally.intended, self.tally.good);
        intended.saturating_sub(good) as f64 / intended.max(1) as f64
    }

    /// What a reader should know: notes from before the run, and on what came of it.
    pub fn told(&self) -> Vec<String> {
        let interrupted = || {
            let seconds = self.tally.window.seconds();
            format!("interrupted: it was ended when {seconds:.1} s of it counted")
        };
        let early = self.interrupted.then(interrupted);
        self.notes.iter().cloned().chain(early).chain(self.nothing_good()).collect()
    }

    /// That no reply was good, though there were some, and what most of them were.
    fn nothing_good(&self) -> Option<String> {
        let tally = &self.tally;
        if tally.replies == 0 || tally.good > 0 {
            return None;
        }
        let statuses = tally.status.iter().enumerate();
        let (status, count) = statuses.max_by_key(|(_, count)| **count)?;
        Some(match status {
            400.. => format!("no reply was good: {count} of {} had status {status}", tally.replies),
            _ => "no reply was good: each was late, or not what it should be".into(),
        })
    }

    /// Something that was counted, per second.
    pub fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.tally.window.seconds().max(1e-9)
    }

    /// Share of the begun requests that were begun more than a millisecond late.
    pub fn late_share(&self) -> f64 {
        self.tally.late as f64 / self.tally.lateness.count().max(1) as f64
    }

    /// Why it was the client that was measured, and not the server, and what to do about it; empty
    /// when it was not.
    pub fn client_limits(&self) -> Vec<String> {
        self.limits().into_iter().map(|(cause, advice)| format!("{cause}: {advice}")).collect()
    }

    /// The same without what to do about it.
    pub fn client_limit_causes(&self) -> Vec<String> {
        self.limits().into_iter().map(|(cause, _)| cause).collect()
    }

    fn limits(&self) -> Vec<(String, String)> {
        let tally = &self.tally;
        let mut limits = Vec::new();
        for kind in KINDS.into_iter().filter(|kind| kind.is_of_client()) {
            let count = tally.errors_of(kind);
            if count > 0 {
                limits.push((format!("{count} times {}", kind.name()), remedy(kind).into()));
            }
        }
        limits.extend(self.lateness());
        if tally.busy_max >= BUSY_SHARE_MAX {
            let percent = tally.busy_max * 100.0;
            limits.push((
                format!("a thread was busy, or waited for a CPU, for {percent:.0} % of its time"),
                "use more --threads".into(),
            ));
        }
        limits
    }

    /// That sessions began late, and what to do: more threads help one that has much to do, and not
    /// one that has to wait for a CPU now and then.
    fn lateness(&self) -> Option<(String, String)> {
        let latest_us = self.tally.lateness.percentile_us(100.0 * (1.0 - LATE_SHARE_MAX));
        let late_us = self.asked.late_after.as_secs_f64() * 1e6;
        if latest_us <= late_us {
            return None;
        }
        let (latest_ms, late_ms) = (latest_us / 1000.0, late_us / 1000.0);
        let mut cause = format!(
            "one in a hundred sessions began {latest_ms:.1} ms late or later, and more than \
             {late_ms} ms is too late"
        );
        let is_busy = self.tally.busy_max >= BUSY_SHARE_LATE;
        if !is_busy {
            let percent = self.tally.busy_max * 100.0;
            cause += &format!(
                ", as other programs, or the machine beneath, had the CPU (the generator was busy \
                 for {percent:.0} % of its time)"
            );
        }
        let advice =
            if is_busy { "use more --threads, free CPUs, or a lower rate" } else { "free CPUs" };
        let fits_ms = latest_ms.floor() + 1.0;
        let advice = format!(
            "{advice}; where latencies may be as much too long, --late-after {fits_ms:.0}ms fits \
             what was done here"
        );
        Some((cause, advice))
    }

    /// Why the run counts for nothing, beside the client's limits.
    pub fn void_because(&self) -> Vec<String> {
        self.void.iter().cloned().chain(self.nothing()).collect()
    }

    /// All reasons why the numbers say nothing about the server, the client's limits last.
    pub fn invalid_because(&self) -> Vec<String> {
        self.void_because().into_iter().chain(self.client_limits()).collect()
    }

    /// That nothing was sent, or nothing answered, and what failed most.
    fn nothing(&self) -> Option<String> {
        let tally = &self.tally;
        let count = |kind: &Kind| {
            tally.errors[*kind as usize].saturating_add(tally.warmup_errors[*kind as usize])
        };
        let most = KINDS.into_iter().max_by_key(count).filter(|kind| count(kind) > 0);
        let what = if tally.bytes_out == 0 { "sent" } else { "answered" };
        let why = most.map(|kind| {
            let first = tally.handshakes.failure.iter().filter(|_| kind == Kind::Handshake);
            let first: String = first.map(|why| format!(": {why}")).collect();
            format!(": {} times {}{first}", count(&kind), kind.name())
        });
        let told = || format!("no request was {what}{}", why.unwrap_or_default());
        (tally.replies_total == 0).then(told)
    }

    /// Whether the numbers say something about the server.
    pub fn is_valid(&self) -> bool {
        self.invalid_because().is_empty()
    }
}

fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::NoDescriptor => "raise the limit of descriptors (ulimit -n)",
        _ => "use more --source addresses, or --close reset",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Window;

    #[test]
    fn replies_of_which_none_was_good_are_told() {
        let tally = Tally::new(Window::default(), 0);
        let mut report = Report { tally, notes: vec!["a".into()], ..Report::default() };
        assert_eq!(report.told(), ["a"]);
        report.tally.replies = 9;
        (report.tally.status[404], report.tally.status[503]) = (7, 2);
        assert_eq!(report.told()[1], "no reply was good: 7 of 9 had status 404");
        (report.tally.status[200], report.tally.intended) = (8, 10);
        assert!(report.told()[1].contains("each was late"), "{:?}", report.told());
        assert_eq!(report.bad_share(), 1.0);
        report.tally.good = 1;
        assert_eq!((report.told().len(), report.bad_share()), (1, 0.9));
    }

    /// Of a hundred sessions, so many began this late.
    fn late(count: u32, ns: u64) -> Report {
        let asked = Asked { late_after: Duration::from_millis(1), ..Asked::default() };
        let mut report = Report { asked, ..Report::default() };
        report.tally.replies_total = 100;
        (0..100).for_each(|nth| report.tally.late_by(if nth < count { ns } else { 1_000 }));
        report
    }

    #[test]
    fn a_client_that_begins_late_was_the_limit_and_one_session_is_no_measure() {
        assert_eq!(late(1, 50_000_000).client_limits(), Vec::<String>::new());
        assert_eq!(late(100, 900_000).client_limits(), Vec::<String>::new());
        let report = late(2, 50_000_000);
        let why = report.client_limits().join("; ");
        assert!(why.contains("began 50.0 ms late") && why.contains("more than 1 ms"), "{why}");
        assert!(why.contains("too late, as other programs"), "{why}");
        let mut busy = report.clone();
        busy.tally.busy_max = 0.7;
        assert!(busy.client_limits()[0].contains("too late: use more --threads"), "{why}");
        assert_eq!(report.invalid_because(), report.client_limits());
        assert!(why.contains("--late-after 51ms fits what was done here"), "{why}");
        assert!(!report.is_valid() && (report.late_share() - 0.02).abs() < 1e-9);
        let later = Asked { late_after: Duration::from_millis(51), ..Asked::default() };
        assert!(Report { asked: later, ..report }.is_valid(), "it is late when it was said to be");
    }

    #[test]
    fn a_run_without_an_answer_says_nothing_and_what_failed_most() {
        let mut report = late(0, 0);
        assert!(report.is_valid() && report.void_because().is_empty());
        report.tally.replies_total = 0;
        assert_eq!(report.void_because(), ["no request was sent"]);
        (0..3).for_each(|nth| report.tally.error(Kind::Refused, nth > 0));
        report.tally.error(Kind::Reset, true);
        report.tally.bytes_out = 1;
        assert_eq!(report.void_because(), ["no request was answered: 3 times refused"]);
        assert!(!report.is_valid());
    }

    #[test]
    fn a_client_without_a_cpu_or_a_port_was_the_limit() {
        let mut report = late(0, 0);
        report.tally.busy_max = 0.94;
        assert!(report.is_valid());
        report.tally.busy_max = 0.96;
        let why = report.client_limits().join("; ");
        assert!(why.contains("for 96 % of its time: use more --threads"), "{why}");
        report.tally.busy_max = 0.0;
        report.tally.error(Kind::NoPort, true);
        let why = report.client_limits().join("; ");
        assert!(why.starts_with("1 times no_port: use more --source addresses"), "{why}");
    }
}
