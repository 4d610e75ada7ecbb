//! What tuning leaves: the configuration, if there is a better one, and the evidence beside it as a
//! page and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use flyball_stats::Interval;
use serde_json::json;

use super::bench::Score;
use super::found::{End, Found, Trial};
use super::{Asked, Target};
use crate::contestant::OURS;
use crate::definition::Value;
use crate::host::{Facts, SetupError, put, put_json};
use crate::outcome::Said;
use crate::report::{Figure, Line, Spot, drawn, escaped, style};

/// Points that the page shows of the screen.
const SHOWN_MAX: usize = 12;

/// Writes all of it, and says in words what came of it. Blocks.
pub(super) fn written(
    asked: &Asked,
    found: &Found,
    score: &Score,
    facts: &Facts,
) -> Result<Said, SetupError> {
    let settings = asked.space.settings(&found.best);
    let evidence = json!({
        "command": asked.command,
        "contestant": asked.contestant,
        "seed": asked.seed,
        "end": found.end,
        "settings": settings,
        "found": found,
        "score": score,
        "facts": facts,
    });
    // First what took hours to find: where the configuration goes may be written to no more.
    put_json(&asked.out.join(EVIDENCE), &evidence)?;
    let page = asked.out.join(PAGE);
    put(&page, &page_of(asked, found, score, facts))?;
    let config = match found.end {
        End::Better | End::Interrupted if !settings.is_empty() => {
            Some(configuration(asked, found, &settings)?)
        }
        _ => {
            set_aside(&place_of(asked))?;
            None
        }
    };
    let mut said = conclusion(found);
    if let Some(config) = config {
        let _ = writeln!(said, "written to {}", config.display());
    }
    let _ = writeln!(said, "the evidence is in {}", page.display());
    Ok(Said { text: said, has_result: found.end != End::NoResult })
}

/// What is said of a search that was ended before it had compared anything. What an earlier one
/// left stays.
pub(super) fn nothing() -> Said {
    Said { text: "no result: interrupted before anything was measured\n".into(), has_result: false }
}

/// Whether the configuration and the evidence may go where they would. Blocks.
///
/// # Errors
/// When a file is there that was not made here, or none can be written.
pub(super) fn may_write(asked: &Asked) -> Result<(), SetupError> {
    let config = place_of(asked);
    let is_ours = |path: &Path| fs::read_to_string(path).is_ok_and(|text| is_evidence(&text));
    let is_searched = is_ours(&asked.out.join(EVIDENCE));
    let mut theirs: Vec<PathBuf> = [EVIDENCE, PAGE].map(|name| asked.out.join(name)).into();
    theirs.retain(|path| path.exists() && !is_searched);
    let is_made =
        |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.starts_with(MADE_BY));
    let configs = [config.clone(), aside(&config)];
    theirs.extend(configs.into_iter().filter(|path| path.exists() && !is_made(path)));
    if let Some(path) = theirs.first() {
        let why = "it was not made by `flyball tune`, which would replace it; take another --out";
        return Err(SetupError(format!("{}: {why}", path.display())));
    }
    // Better now than after the search.
    let probe = config.with_extension("toml.probe");
    let made = config.parent().map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| fs::write(&probe, "")).and_then(|()| fs::remove_file(&probe));
    written.map_err(|error| SetupError(format!("{}: {error}", config.display())))
}

/// Where what was found is, and the page that shows it.
const EVIDENCE: &str = "tune.json";
const PAGE: &str = "report.html";

/// Whether a text is what a search has written.
fn is_evidence(text: &str) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    value.is_some_and(|value| value.get("found").is_some() && value.get("command").is_some())
}

/// What came of it, in a few lines.
fn conclusion(found: &Found) -> String {
    let mut text = match found.end {
        End::Better => format!("better than the default: {}\n", found.label),
        End::NoDifference => "no difference found: nothing beat the default significantly\n".into(),
        End::NoResult => "no result: nothing was compared with the default\n".into(),
        End::Interrupted => format!("interrupted; the best so far, unconfirmed: {}\n", found.label),
    };
    if let Some(noise) = found.noise {
        let _ = writeln!(text, "runs of the default differ by {:.1} % of each other", noise * 1e2);
    }
    for one in &found.finalists {
        let Interval { low, middle, high } = one.ratio;
        let _ = writeln!(
            text,
            "  {middle:.3} of the default ({low:.3} to {high:.3}, p {:.3}, {} pairs): {}",
            one.p, one.pairs, one.label
        );
    }
    let void: Vec<&str> = found.trials.iter().filter_map(|trial| trial.void.as_deref()).collect();
    if let Some(why) = void.first().filter(|_| void.len() * 2 > found.trials.len()) {
        let (void, all) = (void.len(), found.trials.len());
        let _ = writeln!(text, "  {void} of {all} runs do not count; the first: {why}");
    } else if let Some(why) = found.refused().filter(|_| found.finalists.is_empty()) {
        let _ = writeln!(text, "  none of the best could be confirmed; of the first: {why}");
    } else if found.end == End::NoResult {
        text += "  there was no time to compare anything twice; give it a larger --budget\n";
    }
    text
}

/// How a configuration begins that was made here.
const MADE_BY: &str = "# Made by `";

/// Where the configuration goes: of a site that has one beside that, since its paths may be
/// relative.
fn place_of(asked: &Asked) -> PathBuf {
    match &asked.target {
        _ if asked.contestant != OURS => asked.out.join("series.toml"),
        Target::Config(config) => config.with_extension("tuned.toml"),
        Target::Directory(_) | Target::Workload(_) => asked.out.join("flyball.toml"),
    }
}

/// Gives another name to what an earlier search made there: beside evidence that is not its own it
/// would pass for what that is of, and somebody may be using it.
fn set_aside(path: &Path) -> Result<(), SetupError> {
    if !fs::read_to_string(path).is_ok_and(|text| text.starts_with(MADE_BY)) {
        return Ok(());
    }
    let aside = aside(path);
    fs::rename(path, &aside).map_err(|error| SetupError(format!("{}: {error}", aside.display())))
}

/// The name that an earlier one gets.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("toml.before")
}

/// Writes the configuration, and returns where.
fn configuration(
    asked: &Asked,
    found: &Found,
    settings: &BTreeMap<String, Value>,
) -> Result<PathBuf, SetupError> {
    let wrong = |path: &Path, why: String| SetupError(format!("{}: {why}", path.display()));
    let path = place_of(asked);
    let mut table = match &asked.target {
        _ if asked.contestant != OURS => series_of(asked),
        Target::Config(config) => {
            let text = fs::read_to_string(config).map_err(|error| wrong(config, error.to_string()));
            text?
                .parse()
                .map_err(|error: toml::de::Error| wrong(config, error.message().to_owned()))?
        }
        Target::Directory(directory) => {
            table_of_site(&fs::canonicalize(directory).unwrap_or_else(|_| directory.clone()))
        }
        Target::Workload(name) => {
            let root = asked.out.join(name);
            table_of_site(&fs::canonicalize(&root).unwrap_or(root))
        }
    };
    for (key, value) in settings {
        match asked.contestant == OURS {
            true => set(&mut table, key, value),
            false => set(&mut table, &format!("set.{key}"), value),
        }
    }
    let body = toml::to_string(&table).map_err(|error| wrong(&path, error.to_string()))?;
    let mut head = format!("{MADE_BY}{}`.\n", asked.command);
    for line in conclusion(found).lines() {
        let _ = writeln!(head, "# {line}");
    }
    head += "# The evidence is in report.html and tune.json.";
    if let Target::Config(config) = &asked.target {
        let _ = write!(head, "\n# Comments of {} are not kept.", config.display());
    }
    set_aside(&path)?;
    put(&path, &format!("{head}\n\n{body}"))?;
    Ok(path)
}

/// A peer's settings as a series of a definition of `flyball lab` has them.
fn series_of(asked: &Asked) -> toml::Table {
    let words = [("name", &asked.contestant), ("contestant", &asked.contestant)];
    words.into_iter().map(|(key, word)| (key.to_owned(), word.clone().into())).collect()
}

/// A configuration that serves this directory as `flyball serve DIR` does.
fn table_of_site(root: &Path) -> toml::Table {
    let mut site = toml::Table::new();
    site.insert("root".into(), root.to_string_lossy().into_owned().into());
    site.insert("listing".into(), true.into());
    let mut table = toml::Table::new();
    table.insert("site".into(), toml::Value::Array(vec![site.into()]));
    table
}

/// Sets a key such as `accept.limit`, whose table may be there.
fn set(table: &mut toml::Table, key: &str, value: &Value) {
    let value = match value {
        Value::Flag(flag) => (*flag).into(),
        Value::Whole(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.clone().into(),
    };
    match key.split_once('.') {
        None => {
            table.insert(key.into(), value);
        }
        Some((outer, inner)) => {
            let entry = table.entry(outer).or_insert_with(|| toml::Table::new().into());
            if let Some(inside) = entry.as_table_mut() {
                inside.insert(inner.into(), value);
            }
        }
    }
}

/// The verdict of the page: its class, and itself.
fn verdict(found: &Found) -> (&'static str, String) {
    match found.end {
        End::Better => ("reproduced", format!("Better than the default: {}", found.label)),
        End::NoDifference => ("no-result", "Nothing beat the default significantly".to_owned()),
        End::NoResult => ("no-result", "No result: nothing was compared".to_owned()),
        End::Interrupted => ("weaker", format!("Interrupted. Best so far: {}", found.label)),
    }
}

fn page_of(asked: &Asked, found: &Found, score: &Score, facts: &Facts) -> String {
    let verdict = verdict(found);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>flyball tune</title>\
         <style>{}</style></head><body>\n<h1>Settings for this site</h1>\n<div class=\"card\">\
         <p class=\"verdict {}\">{}</p>",
        style(),
        verdict.0,
        escaped(&verdict.1)
    );
    for line in conclusion(found).lines().skip(1) {
        let _ = write!(text, "<p>{}</p>", escaped(line.trim()));
    }
    text += "<p class=\"soft\">Chosen from many, the best of a search looks better than it is; \
             only the runs of the confirmation count here, which nothing was chosen by.</p></div>";
    if !found.finalists.is_empty() {
        let figure = drawn(&finalists(found));
        let _ = writeln!(text, "<h2>Confirmation</h2><div class=\"wide\">{figure}</div>");
    }
    let screened = screen(found);
    if !screened.lines.is_empty() {
        let _ = writeln!(text, "<h2>The best of the search, by one run or a few</h2>");
        let _ = writeln!(text, "<div class=\"wide\">{}</div>", drawn(&screened));
    }
    let rows = [
        ("server", asked.contestant.clone()),
        (
            "budget",
            format!(
                "{:.0} s, of which {:.0} s were used",
                asked.budget.as_secs_f64(),
                score.took_s
            ),
        ),
        ("runs", format!("{}, of {:.1} s each", found.trials.len(), score.seconds)),
        ("void runs", found.trials.iter().filter(|one| one.void.is_some()).count().to_string()),
        ("the default's peak", format!("{:.0} connections per second", score.peak)),
        (
            "compared by",
            match found.swept {
                true => {
                    format!(
                        "the area under replies in time per second, up to {:.0}",
                        score.sweeps_to
                    )
                }
                false => format!("replies in time per second when {:.0} arrive", score.arrives),
            },
        ),
        ("network", if score.reduced { "loopback" } else { "two namespaces, MTU 1500" }.to_owned()),
        ("kernel", facts.kernel.clone()),
        ("processor", format!("{}, {} CPUs", facts.cpu, facts.cpus)),
    ];
    text += "<h2>How it was measured</h2><div class=\"wide\"><table>";
    for (name, value) in rows {
        let _ = write!(text, "<tr><td>{name}</td><td>{}</td></tr>", escaped(&value));
    }
    let _ = writeln!(
        text,
        "</table></div><h2>To run it again</h2><pre>{}</pre><p class=\"soft\">Every run is in \
         tune.json.</p></body></html>",
        escaped(&asked.command)
    );
    text
}

fn bar(name: &str, value: Interval, runs: usize) -> Line {
    Line { name: name.to_owned(), spots: vec![Spot { at: 0.0, value, runs, noisy: false }] }
}

fn finalists(found: &Found) -> Figure {
    let one = Interval { low: 1.0, middle: 1.0, high: 1.0 };
    let mut lines = vec![bar("default", one, 0)];
    lines.extend(found.finalists.iter().map(|one| bar(&one.label, one.ratio, one.pairs)));
    Figure {
        name: "confirmation".into(),
        measure: "replies in time, by those of the default",
        along: None,
        lines,
    }
}

/// The best points of the search by their means.
fn screen(found: &Found) -> Figure {
    let mut scores: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // Under the load to which it rose in the end: scores under another are of another scale.
    let load = found.trials.iter().map(|trial| trial.load).max();
    let searched = |trial: &&Trial| trial.stage.searches() && Some(trial.load) == load;
    for trial in found.trials.iter().filter(searched) {
        if let Some(score) = trial.score {
            scores.entry(&trial.label).or_default().push(score);
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    for (label, all) in scores {
        let middle = flyball_stats::mean(&all);
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        lines.push(bar(label, Interval { low, middle, high }, all.len()));
    }
    lines.sort_by(|a, b| b.spots[0].value.middle.total_cmp(&a.spots[0].value.middle));
    lines.truncate(SHOWN_MAX);
    Figure { name: "search".into(), measure: "replies in time per second", along: None, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_go_into_the_tables_that_are_there() {
        let mut table: toml::Table = "arch = \"mt\"\n[accept]\ndefer = false".parse().unwrap();
        set(&mut table, "accept.limit", &Value::Text("inf".into()));
        set(&mut table, "arch", &Value::Text("sped".into()));
        set(&mut table, "cache.files", &Value::Whole(64));
        let text = toml::to_string(&table).unwrap();
        for line in ["arch = \"sped\"", "defer = false", "limit = \"inf\"", "files = 64"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(text.matches("[accept]").count(), 1);
    }

    #[test]
    fn what_an_earlier_search_made_is_set_aside_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flyball.toml");
        for (text, stays) in
            [(format!("{MADE_BY}flyball tune .`.\n"), false), ("a = 1\n".into(), true)]
        {
            fs::write(&path, &text).unwrap();
            set_aside(&path).unwrap();
            assert_eq!(path.exists(), stays);
            let aside = fs::read_to_string(directory.path().join("flyball.toml.before")).unwrap();
            assert_eq!(aside == text, !stays);
        }
    }
}
