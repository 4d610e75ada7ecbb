//! A run as lines of CSV: a line for each second.

use std::fmt::Write as _;

use super::report::Report;
use super::series::merged;

/// What the columns are called.
pub const CSV_HEADER: &str = "second,sent,replies,good,errors,p50_us,p90_us,p99_us,p999_us,max_us";

/// The seconds of the run, under [`CSV_HEADER`].
pub fn csv(report: &Report) -> String {
    let mut out = format!("{CSV_HEADER}\n");
    for interval in merged(&report.tally.intervals) {
        let times = interval.times();
        let _ = write!(
            out,
            "{},{},{},{},{}",
            interval.second, interval.sent, interval.replies, interval.good, interval.errors
        );
        for percentile in [50.0, 90.0, 99.0, 99.9] {
            let _ = write!(out, ",{:.1}", times.percentile_us(percentile));
        }
        let _ = writeln!(out, ",{:.1}", times.max_us());
    }
    out
}
