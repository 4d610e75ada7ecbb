//! What a replay found, as a table and as JSON.

use std::fmt;

use serde_json::{Value, json};

use crate::policy::CachePolicy;

/// What came of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines read.
    pub lines: u64,
    /// Requests replayed.
    pub requests: u64,
    /// Bytes that were sent to them.
    pub bytes: u64,
    /// Different files among them, and their bytes.
    pub files: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Largest body that a cache holds, in bytes.
    pub small_bytes_max: u64,
    /// Requests for files that are larger than that.
    pub large: u64,
    /// Requests for files whose size nothing tells, or whose paths name none.
    pub unknown: u64,
    /// Other methods and other statuses.
    pub others: u64,
    /// Lines that are not of an access log.
    pub malformed: u64,
    /// The numbers of the first of them.
    pub malformed_lines: Vec<u64>,
    /// Whether any page is known to refer to objects.
    pub has_objects: bool,
    /// What each cache did.
    pub outcomes: Vec<Outcome>,
}

/// What one cache did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its policy.
    pub policy: CachePolicy,
    /// Its size, in bytes.
    pub size: u64,
    /// Requests that it answered.
    pub hits: u64,
    /// Bytes of these answers.
    pub hit_bytes: u64,
    /// Files that it pushed out.
    pub evictions: u64,
    /// Files that it brought in ahead.
    pub ahead: u64,
    /// Bytes of these files.
    pub ahead_bytes: u64,
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome {
            policy: CachePolicy::Lru,
            size: 0,
            hits: 0,
            hit_bytes: 0,
            evictions: 0,
            ahead: 0,
            ahead_bytes: 0,
        }
    }
}

impl Report {
    /// What the cache of this policy and size did.
    pub fn outcome(&self, policy: CachePolicy, size: u64) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.policy == policy && outcome.size == size)
    }

    /// The share of requests that an outcome answered; 0 when there was none.
    pub fn hit_ratio(&self, outcome: &Outcome) -> f64 {
        ratio(outcome.hits, self.requests)
    }

    /// The share of bytes that an outcome answered; 0 when there was none.
    fn byte_hit_ratio(&self, outcome: &Outcome) -> f64 {
        ratio(outcome.hit_bytes, self.bytes)
    }

    /// All of it.
    pub fn to_json(&self) -> Value {
        let outcome = |outcome: &Outcome| {
            json!({
                "policy": outcome.policy.name(),
                "size": outcome.size,
                "hits": outcome.hits,
                "hit_ratio": self.hit_ratio(outcome),
                "hit_bytes": outcome.hit_bytes,
                "byte_hit_ratio": self.byte_hit_ratio(outcome),
                "evictions": outcome.evictions,
                "brought_in_ahead": outcome.ahead,
                "bytes_brought_in_ahead": outcome.ahead_bytes,
            })
        };
        json!({
            "lines": self.lines,
            "requests": self.requests,
            "bytes": self.bytes,
            "files": self.files,
            "file_bytes": self.file_bytes,
            "small_bytes_max": self.small_bytes_max,
            "left_out": {
                "large": self.large,
                "unknown": self.unknown,
                "others": self.others,
                "malformed": self.malformed,
                "malformed_lines": self.malformed_lines,
            },
            "has_objects": self.has_objects,
            "outcomes": self.outcomes.iter().map(outcome).collect::<Vec<_>>(),
        })
    }

    fn write_left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = size(self.small_bytes_max);
        for (count, what) in [
            (self.large, format!("for files beyond {small}, which are not held in memory")),
            (self.unknown, "for files whose size nothing tells".into()),
            (self.others, "of other methods, without a file, or not sent to the end".into()),
        ] {
            if count > 0 {
                writeln!(f, "left out: {count} {what}")?;
            }
        }
        if self.malformed > 0 {
            let numbers: Vec<String> = self.malformed_lines.iter().map(u64::to_string).collect();
            let more = if self.malformed > numbers.len() as u64 { ", ..." } else { "" };
            let (noun, list) =
                (if numbers.len() == 1 { "line" } else { "lines" }, numbers.join(", "));
            writeln!(f, "malformed: {} ({noun} {list}{more})", self.malformed)?;
        }
        let follows = self.outcomes.iter().any(|o| o.policy == CachePolicy::Structured);
        if follows && !self.has_objects {
            writeln!(
                f,
                "structured: no page is known to refer to anything; give --root, or a log \
                         with referers"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} requests of {} lines, {}; {} files, {}",
            self.requests,
            self.lines,
            size(self.bytes),
            self.files,
            size(self.file_bytes)
        )?;
        self.write_left_out(f)?;
        writeln!(
            f,
            "\n{:<11} {:>9} {:>9} {:>9} {:>11} {:>9}",
            "policy", "size", "requests", "bytes", "evictions", "ahead"
        )?;
        for outcome in &self.outcomes {
            writeln!(
                f,
                "{:<11} {:>9} {:>7.2} % {:>7.2} % {:>11} {:>9}",
                outcome.policy.name(),
                size(outcome.size),
                100.0 * self.hit_ratio(outcome),
                100.0 * self.byte_hit_ratio(outcome),
                outcome.evictions,
                outcome.ahead
            )?;
        }
        Ok(())
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A size in the largest unit that it fills.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes.is_multiple_of(*unit) => format!("{}{name}", bytes / unit),
        Some((name, unit)) => format!("{:.1}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}
