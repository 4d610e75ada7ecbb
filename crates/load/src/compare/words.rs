//! A comparison as text for people, and as JSON.

use std::fmt::Write as _;

use flyball_stats::Interval;
use serde_json::{Value, json as object};

use super::{Found, Row, Side, rows, runs_needed, unlike, void};
use crate::observe::short;

/// How intervals of one run are to be read.
const WITHIN: &str = "95 % within one run: percentiles by the ranks of the histogram, as if \
                      requests were independent, rates by whole seconds; runs may differ by more";

/// The same of several.
const OF_RUNS: &str = "95 % of the mean of the runs, by the bootstrap";

/// The comparison as lines of text.
pub fn text(a: &Side, b: &Side) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, a, b);
    out
}

fn write(out: &mut String, a: &Side, b: &Side) -> std::fmt::Result {
    for (letter, side) in [("A", a), ("B", b)] {
        writeln!(out, "{letter}: {}, {}", side.name, runs(side))?;
        writeln!(out, "   intervals: {}", how(side))?;
    }
    writeln!(out, "\n{:<10}{:<34}{:<34}B/A", "", "A", "B")?;
    for row in rows(a, b) {
        let (left, right) = (shown(&row, row.a), shown(&row, row.b));
        writeln!(out, "{:<10}{left:<34}{right:<34}{}", row.name, verdict(&row, a, b))?;
    }
    writeln!(out)?;
    unlike(a, b).iter().try_for_each(|what| writeln!(out, "note: not alike: {what}"))?;
    void(a, b).iter().try_for_each(|why| writeln!(out, "VOID: {why}"))
}

fn runs(side: &Side) -> String {
    match side.runs() {
        1 => "one run".into(),
        many => format!("{many} runs"),
    }
}

fn how(side: &Side) -> &'static str {
    if side.runs() == 1 { WITHIN } else { OF_RUNS }
}

fn shown(row: &Row, found: Found) -> String {
    let one = |value: f64| if row.is_time { short(value) } else { format!("{value:.1}") };
    match found.interval {
        Some(Interval { low, high, .. }) => {
            format!("{} ({} to {})", one(found.figure), one(low), one(high))
        }
        None => one(found.figure),
    }
}

/// The ratio, and whether it is one: by several runs of both it is one of the servers, else of
/// these runs.
fn verdict(row: &Row, a: &Side, b: &Side) -> String {
    let of_runs = a.runs() > 1 && b.runs() > 1;
    let ratio = match row.ratio() {
        Some(Interval { low, middle, high }) => format!("{middle:.3} ({low:.3} to {high:.3})"),
        None => return "too little to tell".into(),
    };
    if let Some(runs) = runs_needed(row, a, b) {
        return format!("{ratio} too little to tell: take about {runs} runs of each");
    }
    match row.is_apart() {
        Some(true) if of_runs => format!("{ratio} differs"),
        Some(true) => format!("{ratio} apart in these runs"),
        _ => ratio,
    }
}

/// The comparison as one JSON object.
pub fn json(a: &Side, b: &Side) -> Value {
    let figures: Vec<Value> = rows(a, b)
        .iter()
        .map(|row| {
            object!({
                "figure": row.name,
                "unit": if row.is_time { "us" } else { "1/s" },
                "a": found(row.a),
                "b": found(row.b),
                "ratio": row.ratio().map(ends),
                "apart": row.is_apart(),
                "runs_needed": runs_needed(row, a, b),
            })
        })
        .collect();
    object!({
        "a": { "file": a.name, "runs": a.runs(), "intervals": how(a) },
        "b": { "file": b.name, "runs": b.runs(), "intervals": how(b) },
        "figures": figures,
        "not_alike": unlike(a, b),
        "void_because": void(a, b),
    })
}

fn found(found: Found) -> Value {
    object!({ "figure": found.figure, "interval": found.interval.map(|of| [of.low, of.high]) })
}

fn ends(interval: Interval) -> [f64; 3] {
    [interval.low, interval.middle, interval.high]
}
