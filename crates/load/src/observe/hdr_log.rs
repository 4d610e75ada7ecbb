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

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::observe::{Interval, Tally, Times, Window};

    /// The bytes of a text in base 64 (RFC 4648, section 4), which is how histograms are written.
    fn base64(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digit = |byte| DIGITS.iter().position(|digit| *digit == byte).expect("a digit") as u32;
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
        let bytes = digits.chunks(4).flat_map(|four| {
            let bits = four.iter().fold(0, |bits, byte| bits << 6 | digit(*byte));
            let unused = 4 - four.len();
            let bytes = (bits << (6 * unused)).to_be_bytes();
            bytes[1..4 - unused].to_vec()
        });
        bytes.collect()
    }

    /// Latencies of a thread in one second.
    fn second(second: u64, latencies_ns: &[u64]) -> Interval {
        let latencies = latencies_ns.iter().map(|ns| (*ns, 1)).collect();
        Interval { second, latencies, ..Interval::default() }
    }

    #[test]
    fn other_tools_read_every_second_and_its_percentiles() {
        let all: Vec<u64> = (1..=1_000).map(|n| n * 37_000).collect();
        let mut tally = Tally::new(Window::default(), 0);
        // Two threads in the first second, one in the third, none in the second.
        tally.intervals = vec![second(0, &all[..400]), second(2, &all[700..])];
        tally.intervals.push(second(0, &all[400..700]));
        let report = Report { started_unix_ms: 1_400_000_000_250, tally, ..Report::default() };
        let mut text = Vec::new();
        hdr_log(&report, &mut text).unwrap();

        let (mut seconds, mut start) = (Vec::new(), None);
        let mut total: Histogram<u64> = Histogram::new(3).unwrap();
        for entry in IntervalLogIterator::new(&text) {
            match entry.unwrap() {
                LogEntry::StartTime(time) => start = Some(time),
                LogEntry::BaseTime(time) => assert_eq!(Some(time), start),
                LogEntry::Interval(interval) => {
                    let encoded = base64(interval.encoded_histogram());
                    let read = Deserializer::new().deserialize(&mut encoded.as_slice());
                    let histogram: Histogram<u64> = read.unwrap();
                    let max_ms = histogram.max() as f64 / MAX_DIVISOR;
                    assert!((interval.max() - max_ms).abs() < 0.001, "{}", interval.max());
                    let (from, length) = (interval.start_timestamp(), interval.duration());
                    seconds.push((from.as_secs_f64(), length.as_secs_f64(), histogram.len()));
                    total.add(histogram).unwrap();
                }
            }
        }
        assert_eq!(start.map(|time| time.as_secs_f64()), Some(1_400_000_000.25));
        assert_eq!(seconds, [(0.0, 1.0, 700), (2.0, 1.0, 300)]);
        let mut own = Times::new();
        all.iter().for_each(|ns| own.record(*ns));
        for percentile in [1.0, 50.0, 70.0, 90.0, 99.0, 99.9, 100.0] {
            let read_us = total.value_at_percentile(percentile) as f64 / 1e3;
            let own_us = own.percentile_us(percentile);
            assert!((read_us / own_us - 1.0).abs() < 0.002, "p{percentile}: {read_us} {own_us}");
        }
    }
}
