//! Conditions under which a run fails, such as `p99 > 50ms`.

use std::fmt;
use std::str::FromStr;

use super::report::Report;
use crate::units::{parse_duration, parse_rate};

/// A condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    is_above: bool,
    includes: bool,
    /// Microseconds, per second, a share, or a count, as the metric is.
    limit: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Percentile(f64),
    Mean,
    Max,
    Errors,
    ErrorShare,
    BadShare,
    Replies,
    Goodput,
}

const METRICS: [(&str, Metric); 16] = [
    ("p50", Metric::Percentile(50.0)),
    ("p75", Metric::Percentile(75.0)),
    ("p90", Metric::Percentile(90.0)),
    ("p95", Metric::Percentile(95.0)),
    ("p99", Metric::Percentile(99.0)),
    ("p99.9", Metric::Percentile(99.9)),
    ("p999", Metric::Percentile(99.9)),
    ("p99.99", Metric::Percentile(99.99)),
    ("p9999", Metric::Percentile(99.99)),
    ("mean", Metric::Mean),
    ("max", Metric::Max),
    ("errors", Metric::Errors),
    ("error-share", Metric::ErrorShare),
    ("bad-share", Metric::BadShare),
    ("replies", Metric::Replies),
    ("goodput", Metric::Goodput),
];

impl Threshold {
    /// What the run has, when that fails it: `p99 > 50ms: p99 is 61.20ms`.
    pub fn failed_by(&self, report: &Report) -> Option<String> {
        let found = self.value(report);
        let fails = match (self.is_above, self.includes) {
            (true, false) => found > self.limit,
            (true, true) => found >= self.limit,
            (false, false) => found < self.limit,
            (false, true) => found <= self.limit,
        };
        fails.then(|| format!("{self}: it is {}", self.shown(found)))
    }

    fn value(&self, report: &Report) -> f64 {
        let (tally, latency) = (&report.tally, &report.tally.latency);
        match self.metric {
            Metric::Percentile(percentile) => latency.percentile_us(percentile),
            Metric::Mean => latency.mean_us(),
            Metric::Max => latency.max_us(),
            Metric::Errors => tally.error_count() as f64,
            Metric::ErrorShare => tally.unanswered as f64 / tally.intended.max(1) as f64,
            Metric::BadShare => report.bad_share(),
            Metric::Replies => report.replies_per_s(),
            Metric::Goodput => report.goodput_per_s(),
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.metric {
            Metric::Percentile(_) | Metric::Mean | Metric::Max => super::text::short(value),
            Metric::Errors => format!("{value:.0}"),
            Metric::ErrorShare | Metric::BadShare => format!("{:.2}%", value * 100.0),
            Metric::Replies | Metric::Goodput => format!("{value:.1}/s"),
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let at = text.find(['<', '>']).ok_or(EXPECTED)?;
        let (name, rest) = text.split_at(at);
        let includes = rest[1..].starts_with('=');
        let value = rest[1 + usize::from(includes)..].trim();
        let name = name.trim();
        let found = METRICS.iter().find(|(known, _)| *known == name);
        let Some((_, metric)) = found else {
            let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name:?} is none of {}", names.join(", ")));
        };
        let limit = match metric {
            Metric::Percentile(_) | Metric::Mean | Metric::Max => {
                if value.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
                    return Err(format!("{name} is a time: give {value} a unit, as in 50ms"));
                }
                parse_duration(value)?.as_secs_f64() * 1e6
            }
            Metric::ErrorShare | Metric::BadShare => share(name, value)?,
            Metric::Errors | Metric::Replies | Metric::Goodput if value.ends_with('%') => {
                let whole = if *metric == Metric::Errors { "a number" } else { "a rate" };
                return Err(format!(
                    "{name} is {whole}: {value} is of error-share, requests without a reply, or \
                     of bad-share, those without a good one"
                ));
            }
            _ => parse_rate(value.trim_end_matches("/s"))?,
        };
        let is_above = rest.starts_with('>');
        Ok(Threshold { text: text.trim().into(), metric: *metric, is_above, includes, limit })
    }
}

/// A percentage, as a share of 1.
fn share(name: &str, value: &str) -> Result<f64, String> {
    let percent = value.strip_suffix('%');
    let percent = percent.ok_or_else(|| format!("{name} is a share: write it as {value}%"))?;
    let percent = parse_rate(percent.trim_end())
        .map_err(|_| format!("{name} is a share: expected a percentage such as 0.1%"))?;
    if percent > 100.0 {
        return Err(format!("{name} is at most 100%, and never {value}"));
    }
    Ok(percent / 100.0)
}

const EXPECTED: &str = "expected a condition such as 'p99 > 50ms', 'error-share > 1%' or \
                        'goodput < 1000'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Kind, Tally, Window};

    fn report() -> Report {
        let mut tally = Tally::new(Window { from_ns: 0, to_ns: 1_000_000_000 }, 0);
        (1..=100).for_each(|ms| tally.latency.record(ms * 1_000_000));
        (tally.intended, tally.unanswered, tally.good_in_window) = (200, 10, 90);
        tally.good = 150;
        tally.error(Kind::Reset, true);
        Report { tally, ..Report::default() }
    }

    #[test]
    fn a_condition_that_holds_fails_the_run_and_says_by_what() {
        let report = report();
        let told = |text: &str| text.parse::<Threshold>().unwrap().failed_by(&report);
        assert_eq!(told("p99 > 50ms").unwrap(), "p99 > 50ms: it is 99.02ms");
        assert_eq!(told("p99>2s"), None);
        assert_eq!(told("error-share > 4%").unwrap(), "error-share > 4%: it is 5.00%");
        assert_eq!(told("bad-share > 10%").unwrap(), "bad-share > 10%: it is 25.00%");
        assert_eq!(told("bad-share >= 25.1 %"), None);
        assert_eq!(told("p99.9 > 1s"), None);
        assert_eq!(told("errors > 1"), None);
        assert!(told("errors >= 1").is_some());
        assert!(told("goodput < 100/s").is_some());
        assert_eq!(told("goodput < 90"), None);
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["p99", "p98 > 1s", "p99 > fast", "> 5", "errors > many", ""] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
        for text in ["p99 > 50", "mean >= 0.5", "max > 0", "p9999<7."] {
            let why = text.parse::<Threshold>().unwrap_err();
            assert!(why.contains("a unit, as in 50ms"), "{text}: {why}");
        }
        for (text, why) in [
            ("error-share > 0.1", "error-share is a share: write it as 0.1%"),
            ("bad-share > 4", "write it as 4%"),
            ("error-share > x%", "a percentage such as 0.1%"),
            ("error-share > 400%", "at most 100%, and never 400%"),
            ("errors > 0%", "errors is a number: 0% is of error-share"),
            ("goodput < 5%", "goodput is a rate: 5% is of"),
        ] {
            let told = text.parse::<Threshold>().unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!("error-share >= 100%".parse::<Threshold>().is_ok());
    }
}
