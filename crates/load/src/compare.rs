//! Two reports beside each other: by how much each figure differs, and how sure that is.
//!
//! A file has the reports of one run or of several, one JSON object after the other. Of several
//! runs an interval is that of their mean. Of one run it comes from within the run: of a percentile
//! from the ranks of its histogram, as if requests were independent of each other, and of a rate
//! from its seconds. By how much runs differ from each other, one run cannot tell.

mod side;
mod words;

use flyball_stats::Interval;

pub use side::Side;
pub use words::{json, text};

/// Figures of reports, where they are, and what they are counted in.
const FIGURES: [(&str, Figure); 10] = [
    ("replies/s", Figure::Rate("replies_per_s", "replies_by_second")),
    ("goodput/s", Figure::Rate("goodput_per_s", "good_by_second")),
    ("mean", Figure::Mean),
    ("p50", Figure::Percentile("p50", 0.50)),
    ("p75", Figure::Percentile("p75", 0.75)),
    ("p90", Figure::Percentile("p90", 0.90)),
    ("p95", Figure::Percentile("p95", 0.95)),
    ("p99", Figure::Percentile("p99", 0.99)),
    ("p99.9", Figure::Percentile("p999", 0.999)),
    ("p99.99", Figure::Percentile("p9999", 0.9999)),
];

/// What is compared.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// Per second, at the first key; second by second at the other.
    Rate(&'static str, &'static str),
    /// The mean latency.
    Mean,
    /// The latency at this key, which so large a share of the requests does not exceed.
    Percentile(&'static str, f64),
}

/// A figure of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Per second, or microseconds.
    pub figure: f64,
    /// Where it is with 95 %; `None` where the runs do not tell.
    pub interval: Option<Interval>,
}

/// A figure of both.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What it is called.
    pub name: &'static str,
    /// Whether it is a time, in microseconds.
    pub is_time: bool,
    /// Of the first file.
    pub a: Found,
    /// Of the second.
    pub b: Found,
}

impl Row {
    /// The second by the first, from the least to the most that both intervals allow; `None`
    /// without both of them, or where the first may be nothing.
    pub fn ratio(&self) -> Option<Interval> {
        let (a, b) = (self.a.interval?, self.b.interval?);
        let is_there = a.low > 0.0 && self.a.figure > 0.0;
        is_there.then(|| Interval {
            low: b.low / a.high,
            middle: self.b.figure / self.a.figure,
            high: b.high / a.low,
        })
    }

    /// Whether the intervals have nothing in common; `None` without both of them.
    pub fn is_apart(&self) -> Option<bool> {
        let (a, b) = (self.a.interval?, self.b.interval?);
        Some(a.high < b.low || b.high < a.low)
    }
}

/// Runs of each side from which on their bootstrap is believed.
const RUNS_MIN: usize = 5;

/// Times that the most is of the least ratio beyond which an interval tells nothing.
const RATIO_SPAN_MAX: f64 = 100.0;

/// Most runs that are advised.
const RUNS_ADVISED_MAX: f64 = 1_000.0;

/// How many runs of each may tell whether a figure differs, if those of each side were too few, or
/// differ too much among themselves; `None` where they tell.
pub fn runs_needed(row: &Row, a: &Side, b: &Side) -> Option<usize> {
    let runs = [a.runs(), b.runs()];
    let is_wide = row.ratio().is_some_and(|ratio| ratio.high > RATIO_SPAN_MAX * ratio.low);
    // One run says itself that it does not tell of others.
    let are_few = runs.iter().all(|runs| *runs > 1) && runs.iter().any(|runs| *runs < RUNS_MIN);
    if !is_wide && !are_few {
        return None;
    }
    let (of_a, of_b) = (row.a.interval?, row.b.interval?);
    // Half of an interval shrinks as the root of the runs grows: until both fit between the means.
    let half = |of: Interval, runs: usize| (of.high - of.low) / 2.0 * (runs as f64).sqrt();
    let apart = (row.a.figure - row.b.figure).abs();
    let needed = ((half(of_a, runs[0]) + half(of_b, runs[1])) / apart).powi(2);
    // Of no difference at all none tell, and it is no number.
    let needed = if needed.is_finite() { needed } else { RUNS_ADVISED_MAX };
    Some(needed.ceil().clamp(RUNS_MIN as f64, RUNS_ADVISED_MAX) as usize)
}

/// All figures of both sides.
pub fn rows(a: &Side, b: &Side) -> Vec<Row> {
    let row = |&(name, figure): &(&'static str, Figure)| {
        let is_time = !matches!(figure, Figure::Rate(..));
        Some(Row { name, is_time, a: a.find(figure)?, b: b.find(figure)? })
    };
    FIGURES.iter().filter_map(row).collect()
}

/// Why the comparison says nothing: runs that do not count.
pub fn void(a: &Side, b: &Side) -> Vec<String> {
    [a, b].into_iter().flat_map(Side::void).collect()
}

/// What is not alike about the runs, beside what they measured.
pub fn unlike(a: &Side, b: &Side) -> Vec<String> {
    let keys = [
        "mode",
        "load",
        "kept_connections",
        "workload",
        "requests_per_session",
        "duration_s",
        "timeout_s",
        "deadline_s",
        "threads",
        "version",
        "machine",
    ];
    let differs = |key: &&str| a.first(key) != b.first(key);
    let told = |key: &str| format!("{key}: {} and {}", a.first(key), b.first(key));
    let scheme = |side: &Side| {
        let url = side.first("url").as_str().unwrap_or_default();
        url.split_once(':').map_or_else(String::new, |(scheme, _)| scheme.to_owned())
    };
    let (of_a, of_b) = (scheme(a), scheme(b));
    let by_tls = (of_a != of_b).then(|| format!("scheme: {of_a} and {of_b}"));
    by_tls.into_iter().chain(keys.into_iter().filter(differs).map(told)).collect()
}

#[cfg(test)]
mod tests;
