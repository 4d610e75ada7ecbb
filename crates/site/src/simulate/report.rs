//! What a replay found, as a table and as JSON.

use std::fmt;

use serde_json::{Value, json};

use crate::policy::CachePolicy;

/// Hits that a smaller cache may miss of those of the best: it is set if it comes so near.
const NEAR: f64 = 0.01;

/// Hits that another policy has to have more than that of the server's own default.
const BETTER: f64 = 0.005;

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

    /// The cache to have: the smallest that comes near the best, by the default policy unless
    /// another is better; `None` where none answered anything.
    fn advised(&self) -> Option<&Outcome> {
        let ratio = |outcome: &&Outcome| self.hit_ratio(outcome);
        let best = self.outcomes.iter().map(|one| self.hit_ratio(one)).fold(0.0, f64::max);
        let near = self.outcomes.iter().filter(|one| best > 0.0 && ratio(one) >= best - NEAR);
        let least = near.map(|one| one.size).min()?;
        let of_size = || self.outcomes.iter().filter(|one| one.size == least);
        let first = of_size().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        let usual = of_size().find(|one| one.policy == CachePolicy::default());
        usual.filter(|usual| ratio(usual) + BETTER >= ratio(&first)).or(Some(first))
    }

    /// What to set, in one sentence.
    fn advice(&self) -> String {
        let Some(advised) = self.advised() else {
            return "Leave the cache as it is: none of these would have answered a request.".into();
        };
        let (policy, content) = (advised.policy.name(), setting(advised.size));
        let (share, near) = (100.0 * self.hit_ratio(advised), 100.0 * NEAR);
        format!(
            "Set cache.policy = {policy:?} and cache.content = {content:?}: it would have answered \
             {share:.1} % of the requests, and none of the others more than {near:.0} % more."
        )
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
            "advised": self.advised().map(outcome),
            "advice": self.advice(),
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
        writeln!(f, "\n{}", self.advice())
    }
}

/// A size as the setting takes it, which has no fractions.
fn setting(bytes: u64) -> String {
    let whole = size(bytes);
    if whole.contains('.') { bytes.to_string() } else { whole }
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
