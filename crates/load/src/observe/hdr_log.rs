//! A run as a log of HdrHistogram: an interval for each second, in the form that its tools merge
//! and draw.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use super::report::Report;
use super::series::merged;

/// Latencies are nanoseconds; the maxima in the log are milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Writes the latencies of each second.
///
/// # Errors
/// Those of `out`.
pub fn hdr_log<W: io::Write>(report: &Report, out: &mut W) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_millis(report.started_unix_ms);
    let url = report.asked.url.replace('\n', " ");
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("flyball load {url}, latency in nanoseconds from when due"))
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(out, &mut serializer)?;
    for interval in merged(&report.tally.intervals) {
        let second = Duration::from_secs(interval.second);
        log.write_histogram(interval.times().histogram(), second, Duration::from_secs(1), None)
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}
