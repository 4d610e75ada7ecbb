//! The page of servers that were looked into: pies as in S3's Figures 6 to 10, and tables as its
//! Table 2 and S4's Tables 2 and 3.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Locks, Opened, SHOWN, Waits, WhiteBoxes};
use crate::definition::Experiment;
use crate::host::{SetupError, put, put_json};
use crate::profile::{CATEGORIES, category, title};
use crate::report::{escaped, label, style};

/// System calls that a table names at most, the most frequent first.
const CALLS_MAX: usize = 16;

/// Functions that a table names at most, and how much of a name it shows: Rust's may be long.
const FUNCTIONS_MAX: usize = 16;
const NAME_MAX: usize = 60;

/// The radius of a pie.
const RADIUS: f64 = 80.0;

/// Colours of the categories, then of the kernel's other work, the C library and the server's own,
/// light and dark.
const COLOURS: [(&str, &str); 10] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8a3d"),
    ("#00805f", "#2fc79c"),
    ("#a3457c", "#e58fc0"),
    ("#b00020", "#ff6b7d"),
    ("#4b4fc4", "#9ea2ff"),
    ("#8a6d00", "#e8c547"),
    ("#777777", "#999999"),
    ("#3d6b6b", "#7fb8b8"),
    ("#c9c9cf", "#4a4a52"),
];

/// Writes the page and the numbers. Returns where the page is.
pub(super) fn write(
    experiment: &Experiment,
    all: &WhiteBoxes,
    out: &Path,
) -> Result<PathBuf, SetupError> {
    put_json(&out.join("white-box.json"), all)?;
    let page = out.join("white-box.html");
    put(&page, &of(experiment, all))?;
    Ok(page)
}

/// The slices of a pie, with their names: shares of processor time.
fn slices(one: &Opened) -> Vec<(&'static str, f64)> {
    let share = |samples: u64| samples as f64 / one.samples.all.max(1) as f64;
    let mut slices: Vec<(&str, f64)> =
        CATEGORIES.iter().map(|category| (title(*category), one.share(*category))).collect();
    let in_calls: f64 = slices.iter().map(|(_, share)| share).sum();
    slices.push(("kernel, outside of calls", (share(one.samples.kernel) - in_calls).max(0.0)));
    slices.push(("C library", share(one.samples.libc)));
    slices.push(("the server itself", share(one.samples.user)));
    slices
}

fn of(experiment: &Experiment, all: &WhiteBoxes) -> String {
    let title = format!("{}, looked into", experiment.name);
    let classes = |dark: bool| -> String {
        let rule = |(nth, pair): (usize, &(&str, &str))| {
            let colour = if dark { pair.1 } else { pair.0 };
            format!(".c{nth}{{fill:{colour};background:{colour}}}")
        };
        COLOURS.iter().enumerate().map(rule).collect()
    };
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{}</title><style>{}{}\
         @media(prefers-color-scheme:dark){{{}}}\
         .pies{{display:flex;flex-wrap:wrap;gap:16px}}.pies figure{{margin:0;flex:1 1 150px;\
         max-width:220px}}.pies figcaption{{text-align:center}}\
         .key{{display:inline-block;margin-right:14px;white-space:nowrap}}\
         .key i{{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px}}\
         .pie path{{stroke:var(--back);stroke-width:1}}\
         .wide td:first-child{{min-width:8.5em;overflow-wrap:normal}}\
         .wide th.n{{white-space:normal;overflow-wrap:normal;min-width:6em;\
         vertical-align:bottom}}</style></head>\
         <body>\n<h1>{}</h1>\
         <p>{}</p><p class=\"soft\">Each series once, where the first claim looks, under full \
         view: what looks at a server slows it down, so nothing here is a figure of speed.</p>",
        escaped(&title),
        style(),
        classes(false),
        classes(true),
        escaped(&title),
        escaped(&experiment.title),
    );
    for (name, why) in &all.absent {
        let _ = write!(text, "<p>{} was not looked into: {}</p>", escaped(name), escaped(why));
    }
    for one in all.boxes.iter().filter(|one| !one.record.void.is_empty()) {
        let (name, why) = (escaped(&one.series), escaped(&one.record.void.join("; ")));
        let _ = write!(text, "<p>Of {name} it would be no valid run: {why}</p>");
    }
    text += "<h2>Processor time</h2><div class=\"pies\">";
    for one in &all.boxes {
        let _ = write!(
            text,
            "<figure>{}<figcaption>{}</figcaption></figure>",
            pie(&slices(one)),
            escaped(&one.series)
        );
    }
    text += "</div><p>";
    for (nth, (name, _)) in all.boxes.first().map(slices).unwrap_or_default().iter().enumerate() {
        let _ = write!(text, "<span class=\"key\"><i class=\"c{nth}\"></i>{name}</span>");
    }
    text += "</p>";
    tables(&mut text, all);
    let facts = &all.facts;
    let _ = writeln!(
        text,
        "<h2>Where it ran</h2><p>Linux {}, {}, {} CPUs; stacks by perf's cpu-clock, calls by \
         perf trace, locks by tracepoints.</p><h2>To run it again</h2><pre>{}</pre></body></html>",
        escaped(&facts.kernel),
        escaped(&facts.cpu),
        facts.cpus,
        escaped(&all.command)
    );
    text
}

/// A pie of shares of 1, beginning at the top.
fn pie(slices: &[(&str, f64)]) -> String {
    let mut text = "<svg class=\"pie\" viewBox=\"-90 -90 180 180\" role=\"img\">".to_owned();
    let whole: f64 = slices.iter().map(|(_, share)| share).sum();
    let mut from = 0.0;
    for (nth, (name, share)) in slices.iter().enumerate().filter(|(_, one)| one.1 > 0.0) {
        let part = share / whole;
        let to = from + part;
        let spot = |at: f64| ((at * TAU).sin() * RADIUS, -(at * TAU).cos() * RADIUS);
        let ((x, y), (to_x, to_y)) = (spot(from), spot(to));
        let large = u8::from(part > 0.5);
        let shape = match part > 0.9999 {
            // An arc that ends where it begins would be none.
            true => format!("M0 -{RADIUS}A{RADIUS} {RADIUS} 0 1 1 -0.01 -{RADIUS}Z"),
            false => {
                format!("M0 0L{x:.2} {y:.2}A{RADIUS} {RADIUS} 0 {large} 1 {to_x:.2} {to_y:.2}Z")
            }
        };
        let _ = write!(
            text,
            "<path class=\"c{nth}\" d=\"{shape}\"><title>{name}: {:.1} %</title></path>",
            share * 100.0
        );
        from = to;
    }
    text + "</svg>"
}

/// A table with a column for each series: the head of a row, and a cell for each.
fn table(text: &mut String, head: &str, all: &WhiteBoxes, rows: &[(String, Vec<String>)]) {
    let _ = write!(text, "<h2>{head}</h2><div class=\"wide\"><table><tr><th></th>");
    for one in &all.boxes {
        let _ = write!(text, "<th class=\"n\">{}</th>", escaped(&one.series));
    }
    *text += "</tr>";
    for (name, cells) in rows {
        let _ = write!(text, "<tr><td>{}</td>", escaped(name));
        for cell in cells {
            let _ = write!(text, "<td class=\"n\">{cell}</td>");
        }
        *text += "</tr>";
    }
    *text += "</table></div>";
}

fn tables(text: &mut String, all: &WhiteBoxes) {
    let row = |name: &str, cell: &dyn Fn(&Opened) -> String| -> (String, Vec<String>) {
        (name.to_owned(), all.boxes.iter().map(cell).collect())
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let of_all = |one: &Opened, samples: u64| samples as f64 / one.samples.all.max(1) as f64;
    let rows = [
        row("in the server itself", &|one| percent(of_all(one, one.samples.user))),
        row("in the C library", &|one| percent(of_all(one, one.samples.libc))),
        row("in the kernel", &|one| percent(of_all(one, one.samples.kernel))),
        row("of that in packets and timers", &|one| percent(of_all(one, one.samples.softirq))),
        row("of that in page faults", &|one| percent(of_all(one, one.samples.faults))),
        row("samples", &|one| one.samples.all.to_string()),
    ];
    table(text, "Where the server's time goes", all, &rows);
    let shares: Vec<_> = CATEGORIES
        .iter()
        .map(|category| row(title(*category), &|one| percent(one.share(*category))))
        .collect();
    table(text, "Time in system calls, of all the server's time", all, &shares);
    let calls: Vec<_> = CATEGORIES
        .iter()
        .map(|category| row(title(*category), &|one| format!("{:.2}", one.per_request(*category))))
        .collect();
    table(text, "System calls for each request", all, &calls);
    table(text, "The most frequent ones, for each request", all, &frequent(all));
    let took: Vec<_> = CATEGORIES
        .iter()
        .map(|category| row(title(*category), &|one| format!("{:.1} µs", one.took_us(*category))))
        .collect();
    table(text, "From the entry of calls to their return, for each request", all, &took);
    table(text, "Waiting for locks", all, &locks(all));
    let of_kernel = functions(all, &|one| &one.samples.in_kernel);
    table(text, "Functions of the kernel, of all the server's time", all, &of_kernel);
    let of_program = functions(all, &|one| &one.samples.in_program);
    table(text, "Functions of the server and its libraries", all, &of_program);
    table(text, "The machine meanwhile", all, &machine(all));
    table(text, "What the server counted", all, &counters(all));
}

/// The calls that are made most often by anyone.
fn frequent(all: &WhiteBoxes) -> Vec<(String, Vec<String>)> {
    let rate = |one: &Opened, name: &str| {
        one.calls.get(name).map(|count| count.calls as f64 / one.requests.max(1.0))
    };
    let mut names: Vec<&String> = all.boxes.iter().flat_map(|one| one.calls.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let most = |name: &str| all.boxes.iter().filter_map(|one| rate(one, name)).fold(0.0, f64::max);
    names.sort_by(|a, b| most(b).total_cmp(&most(a)));
    names.truncate(CALLS_MAX);
    let cell = |one: &Opened, name: &str| {
        let errors = one.calls.get(name).map_or(0, |count| count.errors);
        let failed = errors as f64 / one.requests.max(1.0);
        let failed = if failed >= 0.005 { format!(" ({failed:.2} fail)") } else { String::new() };
        rate(one, name).map_or_else(|| "–".into(), |rate| format!("{rate:.2}{failed}"))
    };
    let row = |name: &&String| {
        let head = format!("{name} ({})", title(category(name)));
        (head, all.boxes.iter().map(|one| cell(one, name)).collect())
    };
    names.iter().map(row).collect()
}

/// Waits for each request, and what they took.
fn locks(all: &WhiteBoxes) -> Vec<(String, Vec<String>)> {
    let row = |name: &str, of: &dyn Fn(&Locks) -> Waits| -> (String, Vec<String>) {
        let cell = |one: &Opened| {
            let waits = one.locks.as_ref().map(of);
            waits.map_or_else(
                || "–".into(),
                |Waits { count, ms }| {
                    let (count, us) = (count as f64, ms * 1e3);
                    let each = one.requests_at_locks.max(1.0);
                    format!("{:.3} times, {:.2} µs", count / each, us / each)
                },
            )
        };
        (name.to_owned(), all.boxes.iter().map(cell).collect())
    };
    vec![
        row("for a lock of the server, for each request", &|locks| locks.contended),
        row("in futex, idle threads too", &|locks| locks.futex),
        row("for a lock of the kernel", &|locks| locks.kernel),
    ]
}

/// The functions in which anyone spends most, as shares of all time.
fn functions(
    all: &WhiteBoxes,
    of: &dyn Fn(&Opened) -> &BTreeMap<String, u64>,
) -> Vec<(String, Vec<String>)> {
    let share = |one: &Opened, name: &str| {
        let samples = of(one).get(name).copied().unwrap_or(0);
        samples as f64 / one.samples.all.max(1) as f64
    };
    let mut names: Vec<&String> = all.boxes.iter().flat_map(|one| of(one).keys()).collect();
    names.sort_unstable();
    names.dedup();
    let most = |name: &str| all.boxes.iter().map(|one| share(one, name)).fold(0.0, f64::max);
    names.sort_by(|a, b| most(b).total_cmp(&most(a)));
    names.truncate(FUNCTIONS_MAX);
    let row = |name: &&String| {
        let short: String = name.chars().take(NAME_MAX).collect();
        let cell = |one: &Opened| format!("{:.1} %", share(one, name) * 100.0);
        (short, all.boxes.iter().map(cell).collect())
    };
    names.iter().map(row).collect()
}

fn machine(all: &WhiteBoxes) -> Vec<(String, Vec<String>)> {
    let row = |name: &str, cell: &dyn Fn(&Opened) -> Option<String>| -> (String, Vec<String>) {
        let cells = all.boxes.iter().map(|one| cell(one).unwrap_or_else(|| "–".into()));
        (name.to_owned(), cells.collect())
    };
    let mut rows = vec![
        row("dropped: all", &|one| Some(one.record.drops?.all.to_string())),
        row("dropped: accept queue full", &|one| Some(one.record.drops?.overflows.to_string())),
        row("dropped: half-open queue full", &|one| Some(one.record.drops?.requests.to_string())),
        row("dropped: half-open queue three quarters full, or no memory", &|one| {
            Some(one.record.drops?.others().to_string())
        }),
    ];
    rows.extend(SHOWN.iter().map(|measure| {
        let figure = |one: &Opened| Some(format!("{:.2}", one.record.figures.get(measure)?));
        row(label(*measure), &figure)
    }));
    rows
}

fn counters(all: &WhiteBoxes) -> Vec<(String, Vec<String>)> {
    let mut names: Vec<&String> =
        all.boxes.iter().flat_map(|one| one.record.counters.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &&String| {
        let cell = |one: &Opened| {
            let requests = one.record.counters.get("requests").copied().unwrap_or(0).max(1);
            one.record.counters.get(*name).map_or_else(
                || "–".into(),
                |count| format!("{count}, {:.3} a request", *count as f64 / requests as f64),
            )
        };
        (name.replace('_', " "), all.boxes.iter().map(cell).collect())
    };
    names.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pie_is_whole_whatever_its_slices() {
        let of = |slices: &[(&str, f64)]| pie(slices);
        assert_eq!(of(&[("a", 0.5), ("b", 0.0), ("c", 0.5)]).matches("<path").count(), 2);
        let half = of(&[("a", 0.25), ("b", 0.75)]);
        // A quarter ends at the right; what is more than half goes the long way round.
        assert!(
            half.contains("A80 80 0 0 1 80.00 -0.00") || half.contains("A80 80 0 0 1 80.00 0.00")
        );
        assert!(half.contains("0 1 1"), "{half}");
        assert!(of(&[("a", 1.0)]).contains("-0.01 -80Z"));
    }
}
