//! What a comparison says: medians and ranges, ratios against the targets, and the raw record.

use std::fmt::Write;

use flyball_stats::quantile;
use serde_json::{Value, json};

use super::beside::Pair;
use super::measure::{FULL, Run};
use super::work::{Unit, Work};

/// Share of one CPU from which on other programs are called a disturbance.
const DISTURBING: f64 = 0.10;

/// The circumstances of a comparison.
#[derive(Debug)]
pub(crate) struct Header {
    /// Timed runs of each contestant in each work.
    pub(crate) rounds: u32,
    /// Length of each, in seconds.
    pub(crate) seconds: u32,
    /// Start of the comparison in seconds since 1970.
    pub(crate) started_unix_s: u64,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Number of CPUs that are online.
    pub(crate) cpus: usize,
    /// Their name.
    pub(crate) cpu_model: String,
    /// The system's congestion control, where a work does not change it.
    pub(crate) congestion_control: String,
    /// Name and version of the generator and each contestant.
    pub(crate) versions: Vec<(String, String)>,
    /// What could not be done as intended.
    pub(crate) notes: Vec<String>,
}

/// Median, smallest and largest of a figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Median; of an even number, the mean of the middle two.
    pub(crate) median: f64,
    /// Smallest.
    pub(crate) min: f64,
    /// Largest.
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Spread {
        let figures: Vec<f64> = figures.collect();
        let at = |q| quantile(&figures, q);
        Spread { median: at(0.5), min: at(0.0), max: at(1.0) }
    }

    pub(crate) fn text(self) -> String {
        format!("{} ({}..{})", figure(self.median), figure(self.min), figure(self.max))
    }

    pub(crate) fn json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }
}

/// All rounds of one contestant in one work.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) work: &'static Work,
    pub(crate) contestant: String,
    requests_per_s: Spread,
    mebibytes_per_s: Spread,
    pub(crate) cpu_us: Spread,
    server_share: Spread,
    others_share: Spread,
    pub(crate) errors: u64,
    processes_ended: usize,
    rounds: usize,
    generator_limited_rounds: usize,
}

impl Summary {
    /// Of the contestant's runs in the work; none when it took no part.
    fn of(work: &'static Work, contestant: &str, runs: &[Run]) -> Option<Summary> {
        let runs: Vec<&Run> =
            runs.iter().filter(|r| r.work == work.name && r.contestant == contestant).collect();
        if runs.is_empty() {
            return None;
        }
        let spread = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(|run| figure(run)));
        Some(Summary {
            work,
            contestant: contestant.to_owned(),
            requests_per_s: spread(Run::throughput),
            mebibytes_per_s: spread(Run::mebibytes),
            cpu_us: spread(Run::cpu_us),
            server_share: spread(Run::server_share),
            others_share: spread(Run::others_share),
            errors: runs.iter().map(|run| run.load.errors()).sum(),
            processes_ended: runs.iter().map(|run| run.processes_ended).sum(),
            rounds: runs.len(),
            generator_limited_rounds: runs.iter().filter(|r| r.generator_was_the_limit()).count(),
        })
    }

    /// What kept the throughput from being higher. Neither, when both CPUs had time left: answers
    /// waited for something else, as pipelined ones may behind Nagle's algorithm.
    fn limit(&self) -> &'static str {
        if self.generator_limited_rounds * 2 > self.rounds {
            "wrk"
        } else if self.server_share.median >= FULL {
            "server"
        } else {
            "neither"
        }
    }

    fn row(&self) -> Vec<String> {
        let megabytes = match self.work.unit {
            Unit::Request => figure(self.mebibytes_per_s.median),
            Unit::Mebibyte => self.mebibytes_per_s.text(),
        };
        vec![
            self.contestant.clone(),
            self.requests_per_s.text(),
            megabytes,
            self.cpu_us.text(),
            format!("{:.0} %", self.server_share.median * 100.0),
            format!("{:.0} %", self.others_share.median * 100.0),
            self.limit().to_owned(),
            self.errors.to_string(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "work": self.work.name,
            "contestant": self.contestant,
            "requests_per_s": self.requests_per_s.json(),
            "mebibytes_per_s": self.mebibytes_per_s.json(),
            "server_cpu_us": self.cpu_us.json(),
            "per": self.work.unit.name(),
            "server_share": self.server_share.json(),
            "others_share": self.others_share.json(),
            "limit": self.limit(),
            "generator_limited_rounds": self.generator_limited_rounds,
            "errors": self.errors,
        })
    }
}

/// All contestants of all works, in the order they ran.
pub(crate) fn summarise(
    works: &[&'static Work],
    contestants: &[String],
    runs: &[Run],
) -> Vec<Summary> {
    let of_work = |work| contestants.iter().filter_map(move |name| Summary::of(work, name, runs));
    works.iter().flat_map(|work| of_work(*work)).collect()
}

/// One target and whether it was met.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) work: &'static str,
    /// Whom it is compared with.
    pub(crate) peer: String,
    pub(crate) flyball: String,
    pub(crate) ratio: f64,
    pub(crate) at_most: f64,
    /// Why the ratio may not be worth what it seems.
    pub(crate) doubt: String,
    /// Whether the ratio is within the target, and Flyball made no error.
    pub(crate) passed: bool,
}

/// Compares the better of Flyball's architectures with each peer for which there is a target.
pub(crate) fn verdicts(works: &[&'static Work], summaries: &[Summary]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for work in works {
        let of_work = || summaries.iter().filter(|summary| summary.work.name == work.name);
        // One that made errors is the better one only when all did.
        let better = of_work().filter(|s| s.contestant.starts_with("flyball-")).min_by(|a, b| {
            let errors = (a.errors > 0).cmp(&(b.errors > 0));
            errors.then(a.cpu_us.median.total_cmp(&b.cpu_us.median))
        });
        let Some(flyball) = better else { continue };
        for target in work.targets {
            let Some(peer) = of_work().find(|s| s.contestant == target.peer) else { continue };
            let ratio = flyball.cpu_us.median / peer.cpu_us.median;
            verdicts.push(Verdict {
                work: work.name,
                peer: target.peer.to_owned(),
                flyball: flyball.contestant.clone(),
                ratio,
                at_most: target.at_most,
                doubt: doubt(flyball, peer),
                passed: ratio <= target.at_most && flyball.errors == 0,
            });
        }
    }
    verdicts
}

/// Why a ratio may not be worth what it seems.
pub(crate) fn doubt(flyball: &Summary, peer: &Summary) -> String {
    let mut doubts = Vec::new();
    for summary in [flyball, peer] {
        let name = &summary.contestant;
        if summary.errors > 0 {
            doubts.push(format!("{name} made errors"));
        }
        if summary.processes_ended > 0 {
            doubts.push(format!("{} processes of {name} ended uncounted", summary.processes_ended));
        }
        if summary.others_share.median >= DISTURBING {
            doubts.push(format!("other programs ran beside {name}"));
        }
        match summary.limit() {
            "server" => {}
            "wrk" => doubts.push(format!("wrk limited {name}")),
            _ => doubts.push(format!("{name} was not saturated")),
        }
    }
    doubts.join(", ")
}

impl Verdict {
    fn row(&self) -> Vec<String> {
        vec![
            self.work.to_owned(),
            format!("{} / {}", self.flyball, self.peer),
            format!("{:.3}", self.ratio),
            format!("{:.2}", self.at_most),
            if self.passed { "PASS" } else { "MISS" }.to_owned(),
            self.doubt.clone(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "work": self.work,
            "peer": self.peer,
            "flyball": self.flyball,
            "ratio": self.ratio,
            "at_most": self.at_most,
            "passed": self.passed,
            "doubt": self.doubt,
        })
    }
}

/// The report for people.
pub(crate) fn text(
    header: &Header,
    works: &[&'static Work],
    summaries: &[Summary],
    verdicts: &[Verdict],
    pairs: &[Pair],
) -> String {
    let mut text = head(header);
    for work in works {
        let cpu = format!("CPU us/{}", work.unit.name());
        let titles = ["", "req/s", "MiB/s", &cpu, "server CPU", "others", "limit", "errors"];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.extend(summaries.iter().filter(|s| s.work.name == work.name).map(Summary::row));
        let _ = writeln!(text, "\n{}: {}\n{}", work.name, work.title, table(&rows));
    }
    if !verdicts.is_empty() {
        let titles = ["work", "ratio of CPU medians", "is", "at most", "", ""];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.extend(verdicts.iter().map(Verdict::row));
        let _ = writeln!(text, "\ntargets\n{}", table(&rows));
    }
    if !pairs.is_empty() {
        let titles = ["work", "", "CPU of its round", "for a request", ""];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.extend(pairs.iter().map(Pair::row));
        let _ = writeln!(text, "\nbeside the other build\n{}", table(&rows));
    }
    text
}

fn head(header: &Header) -> String {
    let Header { rounds, seconds, kernel, cpus, cpu_model, congestion_control, .. } = header;
    let mut text = format!(
        "{rounds} interleaved rounds of {seconds} s; median (min..max); \
         server on CPU {}, wrk on CPU {}\n\
         Linux {kernel}, {cpus} CPUs ({cpu_model}), congestion control {congestion_control}\n",
        super::contestant::SERVER_CPU,
        super::measure::GENERATOR_CPU,
    );
    for (name, version) in &header.versions {
        let _ = writeln!(text, "{name}: {version}");
    }
    for note in &header.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// The raw record of all runs, beside what the report says of them.
pub(crate) fn record(
    header: &Header,
    runs: &[Run],
    summaries: &[Summary],
    verdicts: &[Verdict],
    pairs: &[Pair],
) -> Value {
    let versions: serde_json::Map<_, _> =
        header.versions.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
    json!({
        "format": 1,
        "started_unix_s": header.started_unix_s,
        "rounds": header.rounds,
        "seconds": header.seconds,
        "kernel": header.kernel,
        "cpus": header.cpus,
        "cpu_model": header.cpu_model,
        "congestion_control": header.congestion_control,
        "versions": versions,
        "notes": header.notes,
        "runs": runs.iter().map(run_record).collect::<Vec<_>>(),
        "summaries": summaries.iter().map(Summary::json).collect::<Vec<_>>(),
        "targets": verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
        "beside": pairs.iter().map(Pair::json).collect::<Vec<_>>(),
    })
}

pub(crate) fn run_record(run: &Run) -> Value {
    let load = &run.load;
    json!({
        "work": run.work,
        "contestant": run.contestant,
        "round": run.round,
        "duration_us": load.duration_us,
        "requests": load.requests,
        "bytes": load.bytes,
        "server_cpu_ns": run.server_cpu_ns,
        "generator_cpu_ns": run.generator_cpu_ns,
        "others_cpu_ns": run.others_cpu_ns,
        "processes_ended": run.processes_ended,
        "errors": {
            "connect": load.connect,
            "read": load.read,
            "write": load.write,
            "status": load.status,
            "timeout": load.timeout,
        },
    })
}

/// Rows in columns; the first is flush left.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A figure with three digits that count, or whole when there are more: 0.61, 9.40, 91,000.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value {
        ..100.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::super::measure::Load;
    use super::*;

    fn run(contestant: &str, cpu_us: u64, status: u64) -> Run {
        Run {
            work: "keep",
            unit: Unit::Request,
            contestant: contestant.into(),
            round: 1,
            load: Load { duration_us: 1_000_000, requests: 1000, status, ..Load::default() },
            server_cpu_ns: cpu_us * 1_000_000,
            processes_ended: 0,
            generator_cpu_ns: 0,
            others_cpu_ns: 0,
        }
    }

    fn judge(runs: &[Run]) -> Vec<Verdict> {
        let works = [Work::named("keep")];
        let names = ["flyball-sped", "flyball-n-copy", "nginx", "lighttpd"].map(str::to_owned);
        verdicts(&works, &summarise(&works, &names, runs))
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 8.0].into_iter());
        assert_eq!(spread, Spread { median: 3.5, min: 1.0, max: 8.0 });
        assert_eq!(Spread::of([5.0, 1.0, 3.0].into_iter()).median, 3.0);
    }

    #[test]
    fn the_better_architecture_is_held_against_each_peer() {
        let found = judge(&[
            run("flyball-sped", 710, 0),
            run("flyball-n-copy", 720, 0),
            run("nginx", 1000, 0),
            run("lighttpd", 710, 0),
        ]);
        let said: Vec<_> = found
            .iter()
            .map(|v| (v.peer.as_str(), v.flyball.as_str(), v.ratio, v.passed))
            .collect();
        assert_eq!(
            said,
            [("nginx", "flyball-sped", 0.71, true), ("lighttpd", "flyball-sped", 1.0, false)]
        );
    }

    #[test]
    fn an_architecture_that_makes_errors_is_not_the_better_one_and_meets_no_target() {
        let erring = run("flyball-sped", 10, 1);
        let peer = run("nginx", 1000, 0);
        let found = judge(&[erring.clone(), run("flyball-n-copy", 500, 0), peer.clone()]);
        assert_eq!((found[0].flyball.as_str(), found[0].passed), ("flyball-n-copy", true));
        let found = judge(&[erring, peer]);
        assert!(!found[0].passed);
        assert!(found[0].doubt.contains("flyball-sped made errors"), "{}", found[0].doubt);
    }

    #[test]
    fn without_a_peer_or_without_flyball_there_is_no_verdict() {
        assert!(judge(&[run("flyball-sped", 1, 0)]).is_empty());
        assert!(judge(&[run("nginx", 1, 0), run("lighttpd", 1, 0)]).is_empty());
    }

    #[test]
    fn figures_have_separators_and_as_many_decimals_as_count() {
        let said = [0.614, 9.4, 99.0, 354.0, 1000.4, 91_234.5, 1_500_000.0].map(figure);
        assert_eq!(said, ["0.61", "9.40", "99.00", "354.0", "1,000", "91,234", "1,500,000"]);
    }

    #[test]
    fn the_report_names_contestant_median_and_range() {
        let works = [Work::named("keep")];
        let runs = [run("nginx", 900, 0), run("nginx", 1000, 2), run("nginx", 1100, 0)];
        let summaries = summarise(&works, &["nginx".to_owned()], &runs);
        let header = Header {
            rounds: 3,
            seconds: 1,
            started_unix_s: 0,
            kernel: "6.1".into(),
            cpus: 2,
            cpu_model: "some".into(),
            congestion_control: "cubic".into(),
            versions: vec![("nginx".into(), "1.22".into())],
            notes: vec!["a note".into()],
        };
        let text = text(&header, &works, &summaries, &[], &[]);
        assert!(text.contains("1,000 (900.0..1,100)"), "{text}");
        assert!(text.contains("nginx: 1.22\nnote: a note\n"), "{text}");
        let record = record(&header, &runs, &summaries, &[], &[]);
        assert_eq!(record["summaries"][0]["errors"], 2);
        assert_eq!(record["runs"].as_array().unwrap().len(), 3);
    }
}
