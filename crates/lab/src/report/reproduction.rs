//! What is kept of campaigns in a repository, and the document that is made of it: every figure of
//! the papers, and what came of it on a recorded machine.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::page::word;
use super::{Campaign, Figure, json};
use crate::catalogue;
use crate::definition::{DefinitionError, Experiment, Fault};
use crate::host::{Facts, SetupError, put_json};
use crate::outcome::Outcome;
use crate::plan::{self, Asked};

/// Files of a record that are read.
const FILES_MAX: usize = 1_024;

const HEAD: &str = "\
# The papers' figures, and the results here

<!-- Made by `cargo xtask docs` from the records in lab/records: not to be edited. -->

Each figure and table of the papers is an experiment of [`flyball lab`](lab.md). Its predicates
follow from what the paper says, and were written before anything was run. An audit of the first
records found that some predicates did not say what the paper says; many were then rewritten. The
results below are by the current predicates, from new runs or from records that were judged again,
unless a table says otherwise. A result is one of these:

* *reproduced*: every claim holds, by at least as much as its predicate asks.
* *weaker*: a claim holds by less, or shows no difference, or shows the opposite by no more than two
  copies of one server differ.
* *reversed*: a claim shows the opposite.
* *not testable*: decided beforehand. The experiment needs more cores or real network cards.
* *no result*: too few valid runs.

These notes may follow a result:

* *by earlier claims*: a claim was changed since, and the experiment was not run again.
* *set up otherwise*: the load, the machine or the contestants were changed since, and the
  experiment was not run again. Records before 2026-11-23 do not say how they were set up.
* *beside others*: the campaign accepted runs (`--stolen-max`) in which the host took more than 1 %
  of the time; the record says how much.
* *withdrawn*, *cannot fail*, *cannot hold*: an audit found that the result does not show what the
  experiment claims, whatever the figures are. The last table gives the reasons.

Quick runs are short. The column *seconds* is the length of one run by the current definition; a
fifth of it is warm-up. The papers measured for minutes. Clients give up after 10 s, and try a
dropped connection again after 1 s. A run of less than a second has neither, and shows only the
beginning of an overload. The list of records names the congestion control of each. Pacing by BBR
costs more than the copies that it paces: do not compare figures of files with those under another
congestion control.

";

/// The record of a set of campaigns: what came of each experiment.
struct Kept {
    /// The directory's name, which begins with the date.
    name: String,
    outcomes: Vec<Outcome>,
}

/// The file of an experiment in a record, from which all that a reader sees can be drawn.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// Its figures as numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<Figure>,
}

/// Copies what a repository keeps of campaigns: one file for each. Blocks.
///
/// # Errors
/// When there are none, or files cannot be written.
pub fn keep(campaigns: &[Campaign], record: &Path) -> Result<(), SetupError> {
    let wrong = |error| SetupError(format!("{}: {error}", record.display()));
    fs::create_dir_all(record).map_err(wrong)?;
    for campaign in campaigns {
        let entry = Entry { outcome: &campaign.outcome, curves: campaign.figures() };
        put_json(&record.join(format!("{}.json", campaign.experiment.name)), &entry)?;
    }
    Ok(())
}

/// The document, from these records. Blocks.
///
/// # Errors
/// When one cannot be read.
pub fn reproduction(records: &[PathBuf]) -> Result<String, SetupError> {
    let mut kept = records.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    kept.retain(|record| !record.outcomes.is_empty());
    // Later ones have the say; the names begin with dates.
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    let experiments = catalogue::all().map_err(|error| SetupError(error.to_string()))?;
    let mut text = HEAD.to_owned();
    if kept.is_empty() {
        text += "**None has been run for the record yet.**\n";
    }
    // What later records have anew is no longer shown of the earlier ones.
    let latest: Vec<&Outcome> = experiments
        .iter()
        .flat_map(|experiment| [true, false].map(|quick| outcome(experiment, &kept, quick)))
        .flatten()
        .collect();
    for record in &kept {
        let is_shown = |one: &Outcome| latest.iter().any(|latest| std::ptr::eq(*latest, one));
        let shown: Vec<&Outcome> = record.outcomes.iter().filter(|one| is_shown(one)).collect();
        machine(&mut text, &record.name, &shown);
    }
    text += "\n| experiment | rows | about | runs | seconds | quick | full |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n";
    for experiment in &experiments {
        let _ = writeln!(text, "{}", row(experiment, &kept)?);
    }
    let shown: Vec<_> =
        experiments.iter().filter_map(|one| Some((one, best(one, &kept)?))).collect();
    if !shown.is_empty() {
        claims(&mut text, &shown);
    }
    doubts(&mut text, &experiments);
    Ok(text)
}

fn read(directory: &Path) -> Result<Kept, SetupError> {
    let wrong = |error| SetupError(format!("{}: {error}", directory.display()));
    let entries = fs::read_dir(directory).map_err(wrong)?.take(FILES_MAX).flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // A record of something else has files of other names.
    files.retain(|file| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".json").unwrap_or_default();
        catalogue::names().any(|known| known == stem)
    });
    files.sort();
    let outcomes = files.iter().map(|file| json(file)).collect::<Result<_, _>>()?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Kept { name, outcomes })
}

/// Where those outcomes of a record ran that are shown.
fn machine(text: &mut String, name: &str, outcomes: &[&Outcome]) {
    let Some(Outcome { facts, quick, .. }) = outcomes.first() else { return };
    let Facts { kernel, cpu, cpus, sysctls, .. } = facts;
    let congestion = sysctls.get("net.ipv4.tcp_congestion_control");
    let congestion = congestion.map(|name| format!(", {name}")).unwrap_or_default();
    let kind = if *quick { "quick" } else { "full" };
    let count = outcomes.len();
    let mut commits: Vec<&str> = Vec::new();
    for commit in outcomes.iter().filter_map(|outcome| outcome.facts.commit.as_deref()) {
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    let commits = match commits.as_slice() {
        [] => String::new(),
        [one] => format!(", commit {one}"),
        several => format!(",\n  commits {}", several.join(", ")),
    };
    let _ = writeln!(
        text,
        "* [{name}](../lab/records/{name}):\n  {count} experiments, {kind}; {cpus} CPUs ({cpu}), \
         Linux {kernel}{congestion}{commits}."
    );
}

/// The outcome of an experiment in the latest record of this kind.
fn outcome<'a>(experiment: &Experiment, kept: &'a [Kept], quick: bool) -> Option<&'a Outcome> {
    let all = kept.iter().rev().flat_map(|record| &record.outcomes);
    all.into_iter().find(|one| one.experiment == experiment.name && one.quick == quick)
}

/// The one that says most: a full campaign, or else a quick one; first of all one of the definition
/// of now.
fn best<'a>(experiment: &Experiment, kept: &'a [Kept]) -> Option<&'a Outcome> {
    let both = [false, true].map(|quick| outcome(experiment, kept, quick));
    let both = || both.into_iter().flatten().filter(|one| !one.figures.is_empty());
    both().find(|one| is_of_now(experiment, one)).or_else(|| both().next())
}

/// Whether neither the claims nor the set-up of an experiment were changed since.
fn is_of_now(experiment: &Experiment, outcome: &Outcome) -> bool {
    !has_other_claims(experiment, outcome) && !has_other_setup(experiment, outcome)
}

/// Older records tell the words of the claims only.
fn has_other_claims(experiment: &Experiment, outcome: &Outcome) -> bool {
    let words = outcome.predicate != experiment.predicates();
    words || (!outcome.claims.is_empty() && outcome.claims != experiment.claims)
}

fn has_other_setup(experiment: &Experiment, outcome: &Outcome) -> bool {
    let setup = outcome.setup.as_ref();
    setup.is_some_and(|setup| *setup != experiment.setup(outcome.quick))
}

/// What was changed in a definition since an outcome of it, and what else a reader has to know.
fn since(experiment: &Experiment, outcome: &Outcome) -> String {
    let disturbed = outcome.stolen.is_some_and(|stolen| stolen.is_beyond_the_usual());
    let notes = [
        (has_other_claims(experiment, outcome), ", by earlier claims"),
        (has_other_setup(experiment, outcome), ", set up otherwise"),
        (disturbed, ", beside others"),
    ];
    notes.into_iter().filter_map(|(is_so, note)| is_so.then_some(note)).collect()
}

fn row(experiment: &Experiment, kept: &[Kept]) -> Result<String, SetupError> {
    let runs = match (&experiment.not_testable, &experiment.shares_runs_of) {
        (Some(_), _) => "-".to_owned(),
        (None, Some(base)) => format!("of `{base}`"),
        (None, None) => "its own".to_owned(),
    };
    let of = |quick: bool| match experiment.not_testable {
        Some(_) => None,
        None => outcome(experiment, kept, quick),
    };
    let verdict = |quick: bool| match (&experiment.not_testable, of(quick)) {
        (Some(_), _) => "not testable".to_owned(),
        (None, Some(outcome)) => {
            let doubt = doubt_about_all(experiment);
            word(outcome.verdict).replace('-', " ") + &since(experiment, outcome) + doubt
        }
        (None, None) => "not run yet".to_owned(),
    };
    let lengths = [true, false].into_iter().filter_map(of).map(|one| seconds(experiment, one));
    let lengths = lengths.collect::<Result<Vec<_>, _>>()?.join(", ");
    let lengths = if lengths.is_empty() { "-" } else { &lengths };
    let (quick, full) = (verdict(true), verdict(false));
    let Experiment { name, title, rows, .. } = experiment;
    let rows = rows.join(", ");
    Ok(format!("| `{name}` | {rows} | {title} | {runs} | {lengths} | {quick} | {full} |"))
}

/// Seconds of a run of a campaign, by the current definition and the command that started it.
fn seconds(experiment: &Experiment, outcome: &Outcome) -> Result<String, SetupError> {
    let wrong = |error: DefinitionError| SetupError(error.to_string());
    let claims = catalogue::claims_on(experiment).map_err(wrong)?;
    let mut words = outcome.command.split(' ').skip_while(|word| *word != "--unjudged");
    let unjudged = words.nth(1).and_then(|count| count.parse().ok());
    let asked = Asked { quick: outcome.quick, unjudged, ..Asked::default() };
    let plan = plan::of(experiment, &plan::cells(experiment, outcome.quick), &claims, asked);
    Ok(format!("{:.1}", plan.seconds))
}

/// What to say of a verdict whose claims are all doubtful alike.
fn doubt_about_all(experiment: &Experiment) -> &'static str {
    let mut doubts = (0..experiment.claims.len()).map(|at| experiment.doubt(at));
    let Some(Some(first)) = doubts.next() else { return "" };
    let alike = doubts.all(|doubt| doubt.is_some_and(|doubt| doubt.is == first.is));
    if alike { note(first.is) } else { "" }
}

fn note(fault: Fault) -> &'static str {
    match fault {
        Fault::Withdrawn => ", withdrawn",
        Fault::CannotFail => ", cannot fail",
        Fault::CannotHold => ", cannot hold",
    }
}

fn claims(text: &mut String, shown: &[(&Experiment, &Outcome)]) {
    *text += "\n## Claim by claim\n\n\
              A figure is the left side of the claim divided by its right side, here with the 95 \
              % interval.\nIt is from the full campaign, if there is one by the current \
              definition, else from the quick one.\n\n\
              | experiment | claim | paper | here | verdict |\n\
              | --- | --- | --- | --- | --- |\n";
    for (experiment, outcome) in shown {
        for (at, claim) in outcome.figures.iter().enumerate() {
            let paper = claim.paper.map_or_else(|| "-".into(), |paper| format!("{paper:.2}"));
            let here = claim.ratio.map_or_else(
                || "-".into(),
                |ratio| format!("{:.2} ({:.2} to {:.2})", ratio.middle, ratio.low, ratio.high),
            );
            let doubt = experiment.doubt(at).map_or("", |doubt| note(doubt.is));
            let verdict =
                word(claim.verdict).replace('-', " ") + &since(experiment, outcome) + doubt;
            let (name, says) = (&experiment.name, claim.says.replace('|', "\\|"));
            let _ = writeln!(text, "| `{name}` | {says} | {paper} | {here} | {verdict} |");
        }
    }
}

/// Which results are not to be built on, and why.
fn doubts(text: &mut String, experiments: &[Experiment]) {
    *text += "\n## Results that prove nothing\n\n\
              | experiment | claim | | why |\n\
              | --- | --- | --- | --- |\n";
    for experiment in experiments {
        for doubt in &experiment.doubts {
            let claims = match doubt.claims.len() == experiment.claims.len() {
                true => "all".to_owned(),
                false => {
                    let says = doubt.claims.iter().map(|claim| &*experiment.claims[claim - 1].says);
                    says.collect::<Vec<_>>().join("; ")
                }
            };
            let (name, fault) = (&experiment.name, note(doubt.is).trim_start_matches(", "));
            let why = doubt.why.trim();
            let _ = writeln!(text, "| `{name}` | {claims} | {fault} | {why} |");
        }
    }
}

#[cfg(test)]
mod tests {
    use flyball_stats::Interval;

    use super::*;
    use crate::report::{Line, Spot};
    use crate::verdict::Verdict;

    /// The outcome of an experiment by its current definition, without figures.
    fn outcome_of(experiment: &Experiment, quick: bool, verdict: Verdict) -> Outcome {
        Outcome {
            experiment: experiment.name.clone(),
            quick,
            verdict,
            predicate: experiment.predicates(),
            claims: experiment.claims.clone(),
            setup: Some(experiment.setup(quick)),
            figures: Vec::new(),
            reduced: false,
            noisy: 0,
            stolen: None,
            peak: None,
            noise: None,
            absent: Default::default(),
            versions: Default::default(),
            facts: Facts::of(None),
            command: String::new(),
        }
    }

    #[test]
    fn a_file_of_a_record_has_what_came_of_it_and_its_curves() {
        let all = catalogue::all().unwrap();
        let experiment = catalogue::find(&all, "s0-fig8").unwrap();
        let outcome = outcome_of(experiment, true, Verdict::Weaker);
        let value = Interval { low: 1.0, middle: 2.5, high: 3.0 };
        let spots = vec![Spot { at: 0.7, value, runs: 2, noisy: false }];
        let lines = vec![Line { name: "limit 1".into(), spots }];
        let (name, measure, along) = ("goodput-per-s".into(), "good replies per second", None);
        let curves = vec![Figure { name, measure, along, lines }];
        let text = serde_json::to_string(&Entry { outcome: &outcome, curves }).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        let spot = r#"{"at":0.7,"low":1.0,"middle":2.5,"high":3.0,"runs":2,"noisy":false}"#;
        let line = format!(r#"{{"name":"limit 1","spots":[{spot}]}}"#);
        let curves = format!(r#""curves":[{{"name":"goodput-per-s","lines":[{line}]}}]}}"#);
        assert!(text.ends_with(&curves), "{text}");
    }

    #[test]
    fn a_doubtful_result_is_marked_wherever_it_is_shown_and_tells_why() {
        let all = catalogue::all().unwrap();
        let find = |name| catalogue::find(&all, name).unwrap();
        assert_eq!(doubt_about_all(find("s0-fig4")), ", withdrawn");
        assert_eq!(doubt_about_all(find("s0-fig6")), "");
        let mut text = String::new();
        doubts(&mut text, &all);
        let whose = |name: &str| text.lines().filter(|line| line.contains(name)).count();
        assert_eq!((whose("`s0-fig4`"), whose("`s0-fig6`"), whose("`s0-fig8`")), (1, 1, 0));
    }

    #[test]
    fn the_document_is_what_the_records_make_of_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let entries = fs::read_dir(root.join("lab/records")).unwrap().flatten();
        let mut records: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        records.retain(|path| path.is_dir());
        let written = fs::read_to_string(root.join("docs/reproduction.md")).unwrap();
        let stale = "docs/reproduction.md is stale: `cargo xtask docs` makes it";
        assert!(reproduction(&records).unwrap() == written, "{stale}");
    }

    #[test]
    fn a_full_campaign_has_the_say_over_a_quick_one() {
        let directory = tempfile::tempdir().unwrap();
        let all = catalogue::all().unwrap();
        let experiment = catalogue::find(&all, "s0-fig8").unwrap();
        let mut earlier = outcome_of(experiment, true, Verdict::Weaker);
        earlier.predicate = vec!["another".into()];
        earlier.setup.as_mut().unwrap().machine.backlog += 1;
        for (name, kept) in [
            ("2026-01-01-lab-quick", earlier),
            ("2026-01-02-lab-full", outcome_of(experiment, false, Verdict::Reproduced)),
        ] {
            let record = directory.path().join(name);
            fs::create_dir_all(&record).unwrap();
            fs::write(record.join("s0-fig8.json"), serde_json::to_string(&kept).unwrap()).unwrap();
            // Records of other things are left alone.
            fs::write(record.join("record.json"), "{}").unwrap();
        }
        let records: Vec<PathBuf> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let text = reproduction(&records).unwrap();
        let row = text.lines().find(|line| line.starts_with("| `s0-fig8`")).unwrap();
        let then = "| weaker, by earlier claims, set up otherwise | reproduced |";
        assert!(row.ends_with(then), "{row}");
        assert!(text.contains("2026-01-01-lab-quick"), "{text}");
    }
}
