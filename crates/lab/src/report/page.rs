//! The page of a campaign, of one experiment or of many: it holds all that it shows, so that it can
//! be sent and kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use flyball_stats::change_point;

use super::figure::{Figure, Spot, label};
use super::svg::{draw, number};
use super::{Campaign, escaped};
use crate::campaign::{Runs, Unfair};
use crate::definition::Machine;
use crate::noise::Noise;
use crate::outcome::{Outcome, Stolen};
use crate::run::{Record, STOLEN_PERCENT_MAX};

/// How many times what it was a rate becomes within a run before a reader is told.
const SHIFT_MIN: f64 = 1.05;

pub(super) const STYLE: &str = "
:root{color-scheme:light dark;--back:#fff;--ink:#1c1c1e;--soft:#5c5c63;--edge:#d9d9de;\
--card:#f6f6f8;--good:#00703c;--weak:#8a5a00;--bad:#b00020}
@media(prefers-color-scheme:dark){:root{--back:#141416;--ink:#ececee;--soft:#a2a2aa;\
--edge:#3a3a40;--card:#1e1e22;--good:#4fd08a;--weak:#f0b64d;--bad:#ff7b86}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:960px;padding:16px;background:var(--back);color:var(--ink);\
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.4em 0}h2{font-size:1.15rem;margin:1.8em 0 .4em}
p{margin:.4em 0}.soft{color:var(--soft)}.card{background:var(--card);border:1px solid \
var(--edge);border-radius:8px;padding:12px 16px;margin:12px 0}
.verdict{font-weight:700}.reproduced{color:var(--good)}.weaker{color:var(--weak)}\
.reversed{color:var(--bad)}.no-result,.not-testable{color:var(--soft)}
svg{width:100%;height:auto;display:block}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.93rem}th,td{text-align:left;\
vertical-align:top;padding:6px 12px 6px 0;border-bottom:1px solid var(--edge)}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
pre{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:12px;\
overflow-x:auto;font-size:.9rem}
.wide td:first-child{min-width:7em}
@media(max-width:640px){.wide>svg{min-width:600px}.claims tr:first-child{display:none}\
.claims tr{display:block;border-bottom:1px solid var(--edge);padding:8px 0}\
.claims td,.claims td.n{display:block;border:0;padding:1px 0;text-align:left;white-space:normal}\
.claims td[data-h]::before{content:attr(data-h)\": \";color:var(--soft)}}
details{border-bottom:1px solid var(--edge);padding:8px 0}summary{cursor:pointer}
@media print{.card{break-inside:avoid}}
";

/// The page of one experiment.
pub(super) fn of(campaign: &Campaign, figures: &[Figure]) -> String {
    let title = title(campaign);
    let text = format!("<h1>{}</h1>\n{}", escaped(&title), content(campaign, figures));
    document(&title, &text)
}

/// The page of many: how many had which verdict, and each beneath its title.
pub(super) fn of_all(campaigns: &[Campaign]) -> String {
    const TITLE: &str = "The papers' figures, from this machine";
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    for campaign in campaigns {
        *verdicts.entry(word(campaign.outcome.verdict)).or_default() += 1;
    }
    let counts = verdicts.iter().map(|(verdict, count)| {
        format!("{count} <span class=\"verdict {verdict}\">{verdict}</span>")
    });
    let mut text = format!("<h1>{TITLE}</h1>\n<div class=\"card\"><p>");
    let _ = writeln!(text, "{}</p></div>", counts.collect::<Vec<_>>().join(", "));
    for campaign in campaigns {
        let verdict = word(campaign.outcome.verdict);
        let _ = writeln!(
            text,
            "<details><summary>{} <span class=\"verdict {verdict}\">{verdict}{}</span></summary>\n\
             {}</details>",
            escaped(&title(campaign)),
            campaign.outcome.reservation(),
            content(campaign, &campaign.figures())
        );
    }
    document(TITLE, &text)
}

fn title(campaign: &Campaign) -> String {
    format!("{}: {}", campaign.experiment.name, campaign.experiment.title)
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{}</title>\
         <style>{STYLE}</style></head><body>\n{body}</body></html>\n",
        escaped(title)
    )
}

/// What there is to say of one experiment.
fn content(campaign: &Campaign, figures: &[Figure]) -> String {
    let Campaign { experiment, outcome, .. } = campaign;
    let mut text = String::new();
    if !experiment.source.is_empty() {
        let rows = experiment.rows.join(", ");
        let (source, rows) = (escaped(&experiment.source), escaped(&rows));
        let _ = writeln!(text, "<p class=\"soft\">{source}, {rows}</p>");
    }
    let verdict = word(outcome.verdict);
    let _ = write!(text, "<div class=\"card\"><p class=\"verdict {verdict}\">{verdict}</p>");
    for caution in cautions(campaign) {
        let _ = write!(text, "<p>{}</p>", escaped(&caution));
    }
    text += "</div>\n";
    let paragraph = |text: &mut String, head: &str, words: &str| {
        if !words.trim().is_empty() {
            let _ = writeln!(text, "<h2>{head}</h2><p>{}</p>", escaped(words.trim()));
        }
    };
    paragraph(&mut text, "What the paper showed", &experiment.shows);
    paragraph(&mut text, "What is done otherwise here", &experiment.deviates);
    claims(&mut text, campaign);
    for figure in figures.iter().filter(|figure| !figure.lines.is_empty()) {
        let along = figure.along.as_ref().map_or("", |_| " along the axis");
        let _ = writeln!(
            text,
            "<h2>{}{along}</h2><div class=\"wide\">{}</div>{}",
            escaped(figure.measure),
            draw(figure),
            table(figure)
        );
    }
    surroundings(&mut text, campaign);
    text
}

/// A word as in the file, such as a verdict.
pub(super) fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// What a reader has to know before believing a figure.
fn cautions(campaign: &Campaign) -> Vec<String> {
    let Campaign { experiment, outcome, runs, .. } = campaign;
    let mut cautions = Vec::new();
    if let Some(why) = &experiment.not_testable {
        cautions.push(format!("Not testable on such a machine: {why}"));
    }
    if outcome.quick && runs.is_some() {
        cautions.push(
            "A quick campaign: short runs, few of them, at few points. It shows a direction, and \
             no more."
                .into(),
        );
    }
    if !campaign.is_set_up_as_now() {
        cautions.push(
            "Its definition was changed since: what this page says of load, machine and servers \
             follows the current one."
                .into(),
        );
    }
    if let Some(fewer) = runs.as_ref().and_then(|runs| runs.unjudged) {
        let times = if fewer == 1 { "once".to_owned() } else { format!("{fewer} times") };
        cautions.push(format!("Points that no claim looks at were measured {times} only."));
    }
    if let Some(waited) = runs.as_ref().and_then(|runs| runs.timeout_s) {
        cautions.push(format!(
            "Clients waited {waited:.1} s at most, not {} s: a generator could not hold so many \
             descriptors at once.",
            experiment.workload.timeout_s
        ));
    }
    if outcome.reduced {
        cautions.push(
            "Reduced: on loopback, without namespaces and control groups, since it was not run \
             as root. Packets are not those of a network, CPU time is unknown, nothing is limited \
             but the time for which servers run, and the page cache has what it had."
                .into(),
        );
    }
    if runs.as_ref().is_some_and(|runs| !runs.complete) {
        cautions.push("Not all runs were made: it was interrupted, or its time was over.".into());
    }
    cautions.extend(outcome.stolen.filter(Stolen::is_beyond_the_usual).map(|stolen| {
        format!(
            "The machine beneath took {:.1} % of the time of the run in the middle, and {:.1} % of \
             the run of which it took most; usually runs of which it takes more than \
             {STOLEN_PERCENT_MAX} % do not count.",
            stolen.middle, stolen.most
        )
    }));
    cautions.extend(runs.as_ref().and_then(unsteady));
    cautions.extend(runs.iter().flat_map(Runs::unfair).map(unfair));
    if outcome.noisy > 0 {
        let noisy = outcome.noisy;
        cautions
            .push(format!("Cells without a valid run, whose points are drawn hollow: {noisy}."));
    }
    cautions.extend(runs.as_ref().and_then(not_counting));
    if let Some(noise) = &outcome.noise {
        cautions.extend(noise_floor(campaign, noise));
    } else if runs.is_some() {
        cautions.push("Too few runs of two copies count: there is no noise floor.".into());
    }
    for (name, why) in &outcome.absent {
        cautions.push(format!("{name} did not take part: {why}"));
    }
    cautions
}

/// Where a server broke the rule of quality, so that nothing of it counts.
fn unfair(one: Unfair) -> String {
    let Unfair { series, point, broken, kept } = one;
    let rounds = broken + kept;
    format!(
        "{series} at {point} broke the rule of quality in {broken} of {rounds} rounds: none of \
         them counts."
    )
}

/// Causes of runs that do not count that are told, and how many more there are is told as well.
const CAUSES_TOLD: usize = 5;

/// Why runs do not count.
fn not_counting(runs: &Runs) -> Option<String> {
    let causes = runs.causes();
    let told = |(why, times): &(&str, usize)| format!("{why} ({times} of them)");
    let mut text = causes.iter().take(CAUSES_TOLD).map(told).collect::<Vec<_>>().join("; ");
    if causes.len() > CAUSES_TOLD {
        let _ = write!(text, "; and {} other causes", causes.len() - CAUSES_TOLD);
    }
    let all = runs.records.iter().filter(|record| !record.void.is_empty()).count();
    (all > 0).then(|| format!("{all} runs do not count: {text}."))
}

/// How many runs changed their level while they were measured: upwards in the first half most
/// likely since their warm-up was too short.
fn unsteady(runs: &Runs) -> Option<String> {
    let series: Vec<Vec<f64>> = runs.counting().filter_map(Record::replies_by_second).collect();
    let shift = |series: &Vec<f64>| {
        let change = change_point(series, runs.seed)?;
        let rises = change.ratio > 1.0 && change.at * 2 < series.len();
        (change.ratio.ln().abs() > SHIFT_MIN.ln()).then_some(rises)
    };
    let (shifts, all): (Vec<bool>, usize) =
        (series.iter().filter_map(shift).collect(), series.len());
    let rising = shifts.iter().filter(|rises| **rises).count();
    (!shifts.is_empty()).then(|| {
        format!(
            "In {} of the {all} runs that are long enough to tell, and that count, the rate of \
             replies changed by more than {:.0} % while it was measured, in {rising} of them \
             upwards in the first half: the warm-up may have been too short. Where a load does \
             not wait for replies and the server keeps up, replies arrive at the rate of the load, \
             and a change cannot be seen.",
            shifts.len(),
            (SHIFT_MIN - 1.0) * 100.0
        )
    })
}

/// What two copies of one server differed by, and what that means for the claims.
fn noise_floor(campaign: &Campaign, noise: &Noise) -> Vec<String> {
    let Noise { series, runs, spread, differ, .. } = noise;
    let pairs = campaign.outcome.figures.iter().map(|one| one.pairs).max().unwrap_or(1);
    let measures = campaign.measures();
    let told = measures.iter().filter_map(|measure| {
        let spread = spread.get(measure)? * 100.0;
        let floor = (noise.floor(*measure, pairs)? - 1.0) * 100.0;
        Some(format!("{} {spread:.1} % from run to run ({floor:.1} %)", label(*measure)))
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let mut cautions = vec![format!(
        "Noise, by {runs} runs of two copies of {series}: {told}. In parentheses: differences that \
         count as none."
    )];
    if !differ.is_empty() {
        let names = differ.iter().map(|measure| label(*measure)).collect::<Vec<_>>().join(", ");
        cautions.push(format!("The two copies differed as if they were two servers: {names}."));
    }
    cautions
}

fn claims(text: &mut String, campaign: &Campaign) {
    let Outcome { predicate: predicates, figures, .. } = &campaign.outcome;
    if figures.is_empty() {
        return;
    }
    let when = match &campaign.claimed {
        Some(before) if *before == campaign.experiment.claims => {
            "as they were written down before the run"
        }
        Some(_) => "some of which were put otherwise before the run",
        None => "as the definition has them",
    };
    let _ = write!(text, "<h2>Claims, {when}</h2>");
    *text += "<div class=\"wide\"><table class=\"claims\"><tr><th>claim</th>\
              <th class=\"n\">paper</th>\
              <th class=\"n\">here</th>\
              <th class=\"n\">95 %</th><th class=\"n\">p</th><th class=\"n\">pairs</th>\
              <th>verdict</th></tr>";
    for (nth, judged) in figures.iter().enumerate() {
        let dash = || "–".to_owned();
        let verdict = word(judged.verdict);
        let _ = write!(
            text,
            "<tr><td>{}</td><td class=\"n\" data-h=\"paper\">{}</td>\
             <td class=\"n\" data-h=\"here\">{}\
             </td><td class=\"n\" data-h=\"95 %\">{}</td><td class=\"n\" data-h=\"p\">{}</td>\
             <td class=\"n\" data-h=\"pairs\">{}</td>\
             <td><span class=\"{verdict}\">{verdict}</span> {}</td></tr>",
            escaped(predicates.get(nth).unwrap_or(&judged.says)),
            judged.paper.map_or_else(dash, |paper| format!("{paper:.2}")),
            judged.ratio.map_or_else(dash, |ratio| format!("{:.2}", ratio.middle)),
            judged.ratio.map_or_else(dash, |r| format!("{:.2} to {:.2}", r.low, r.high)),
            judged.p.map_or_else(dash, |p| format!("{p:.3}")),
            judged.pairs,
            escaped(&judged.note),
        );
    }
    *text += "</table></div><p class=\"soft\">Figures are left by right of a claim; p is corrected \
              for the number of claims by Holm's rule.</p>\n";
}

fn table(figure: &Figure) -> String {
    let mut text = "<details><summary>The numbers</summary><div class=\"wide\"><table><tr>\
                    <th>series</th><th class=\"n\">at</th><th class=\"n\">value</th>\
                    <th class=\"n\">95 %</th><th class=\"n\">runs</th></tr>"
        .to_owned();
    for line in &figure.lines {
        for Spot { at, value, runs, noisy } in &line.spots {
            let void = if *noisy { " (void)" } else { "" };
            let _ = write!(
                text,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{} \
                 to {}</td><td class=\"n\">{runs}{void}</td></tr>",
                escaped(&line.name),
                number(*at),
                number(value.middle),
                number(value.low),
                number(value.high),
            );
        }
    }
    text + "</table></div></details>"
}

/// A limit in words.
fn limited(limit: Option<u64>, of: &str) -> String {
    limit.map_or_else(|| "no limit".to_owned(), |limit| format!("{limit} {of}"))
}

fn disk(machine: &Machine) -> String {
    match machine.disk_seek_ms {
        Some(ms) => format!("{ms} ms for each read, one after the other"),
        None => limited(machine.disk_mib_per_s, "MiB in a second"),
    }
}

fn surroundings(text: &mut String, campaign: &Campaign) {
    let Campaign { experiment, outcome, runs, .. } = campaign;
    let machine = &experiment.machine;
    let facts = &outcome.facts;
    let mut rows: Vec<(String, String)> = vec![
        ("kernel".into(), facts.kernel.clone()),
        ("processor".into(), format!("{}, {} CPUs", facts.cpu, facts.cpus)),
        ("memory".into(), format!("{} MiB", facts.memory_mib)),
        (
            "idle processors".into(),
            facts.idle_processors.clone().unwrap_or_else(|| "unknown".into()),
        ),
        ("commit".into(), facts.commit.clone().unwrap_or_else(|| "unknown".into())),
    ];
    let versions = outcome.versions.iter();
    rows.extend(versions.map(|(name, version)| (name.clone(), version.clone())));
    rows.extend([
        ("workload".into(), experiment.workload.name.clone()),
        ("load".into(), experiment.axis.model().to_owned()),
        ("a server's share of its CPUs".into(), experiment.machine.cpu_share.to_string()),
        ("accept queue".into(), experiment.machine.backlog.to_string()),
        ("a server's memory".into(), limited(machine.memory_mib, "MiB, with its page cache")),
        ("a server's disk".into(), disk(machine)),
        ("the page cache before a run".into(), word(machine.page_cache)),
    ]);
    if let Some(runs) = runs {
        rows.push((
            "each run".into(),
            format!("{} s, the first fifth of which rates and latency leave out", runs.seconds),
        ));
        rows.push(("runs, void ones too".into(), runs.records.len().to_string()));
    }
    if let Some(peak) = outcome.peak {
        rows.push(("1 on the axis".into(), format!("{} per second", number(peak))));
    }
    let of_kernel = facts.sysctls.iter().chain(&facts.mitigations);
    rows.extend(of_kernel.map(|(name, value)| (name.clone(), value.clone())));
    *text += "<h2>Where it ran</h2><div class=\"wide\"><table>";
    for (name, value) in rows {
        let _ = write!(text, "<tr><td>{}</td><td>{}</td></tr>", escaped(&name), escaped(&value));
    }
    let _ = writeln!(
        text,
        "</table></div>\n<h2>To run it again</h2><pre>{}</pre><p class=\"soft\">Every run is in \
         runs/, as the generator and the kernel told it; the figures are beside this page as SVG \
         and CSV.</p>",
        escaped(&outcome.command)
    );
}
