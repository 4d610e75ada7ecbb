//! `cargo xtask ci --times`: where the minutes go, written to the table of CONTRIBUTING.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::executables;

const DOCUMENT: &str = "CONTRIBUTING.md";

/// The lines around the table.
const BEGIN: &str = "<!-- Made by `cargo xtask ci --times`. -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// An executable that takes less than this in both tiers is counted among the others.
const WORTH_A_ROW: Duration = Duration::from_secs(2);

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// How long an executable takes in each tier.
struct Row {
    name: String,
    fast: Duration,
    full: Duration,
}

/// Builds the tests, runs each executable in both tiers, and writes the table. Whether all passed.
///
/// # Errors
/// When the tests do not build or cannot be started, or the table cannot be written.
pub(super) fn main(root: &Path) -> Result<bool, String> {
    let start = Instant::now();
    let all = executables::build(root)?;
    let build = start.elapsed();
    let (mut rows, mut tests, mut passed) = (Vec::new(), Vec::new(), true);
    for executable in &all {
        let fast = executable.run(&[])?;
        let full = executable.run(&["--ignored"])?;
        println!("ci: {:<24}{:>8.1?}{:>8.1?}", executable.name, fast.took, full.took);
        passed &= fast.passed && full.passed;
        rows.push(Row { name: executable.name.clone(), fast: fast.took, full: full.took });
        tests.extend(fast.tests.into_iter().map(|(name, seconds)| (seconds, "fast", name)));
        tests.extend(full.tests.into_iter().map(|(name, seconds)| (seconds, "full", name)));
    }
    tests.sort_by(|a, b| b.0.total_cmp(&a.0));
    tests.truncate(SLOWEST);
    let path = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let text = replaced(&text, &table(build, rows, &tests))?;
    std::fs::write(path, text).map_err(|error| error.to_string())?;
    Ok(passed)
}

/// How many seconds each executable took in the full tier when the table was made.
pub(super) fn of_full_tier(root: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    let table = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    table.map(|(table, _)| table.lines().filter_map(row).collect()).unwrap_or_default()
}

/// The name and the seconds in the full tier in a row of the table.
fn row(line: &str) -> Option<(String, u64)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let name = cells.next()?.to_owned();
    Some((name, cells.nth(1)?.trim_end_matches(" |").parse().ok()?))
}

/// The table as Markdown.
fn table(build: Duration, rows: Vec<Row>, slowest: &[(f64, &str, String)]) -> String {
    let is_small = |row: &Row| row.fast.max(row.full) < WORTH_A_ROW;
    let (small, mut large): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_small);
    large.sort_by_key(|row| std::cmp::Reverse(row.fast + row.full));
    let sum = |rows: &[Row], of: fn(&Row) -> Duration| rows.iter().map(of).sum::<Duration>();
    let others = Row {
        name: format!("{} others", small.len()),
        fast: sum(&small, |row| row.fast),
        full: sum(&small, |row| row.full),
    };
    large.push(others);
    let (fast, full) = (sum(&large, |row| row.fast), sum(&large, |row| row.full));
    let mut text = String::from("| seconds | fast tier | the rest |\n| --- | --- | --- |\n");
    let _ = writeln!(text, "| build | {:.0} | |", build.as_secs_f64());
    for Row { name, fast, full } in &large {
        let (fast, full) = (fast.as_secs_f64(), full.as_secs_f64());
        let _ = writeln!(text, "| {name} | {fast:.0} | {full:.0} |");
    }
    let (fast, full) = (fast.as_secs_f64(), full.as_secs_f64());
    let _ = writeln!(text, "| all tests | {fast:.0} | {full:.0} |\n");
    text.push_str("| slowest tests | tier | seconds |\n| --- | --- | --- |\n");
    for (seconds, tier, name) in slowest {
        let _ = writeln!(text, "| `{name}` | {tier} | {seconds:.0} |");
    }
    text
}

/// A document with another table between the two lines.
fn replaced(text: &str, table: &str) -> Result<String, String> {
    let ends = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?)));
    let Some((head, (_, tail))) = ends else {
        return Err(format!("{DOCUMENT} has no place for the table: {BEGIN}"));
    };
    Ok(format!("{head}{BEGIN}\n{table}\n{END}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_build_the_slow_ones_and_the_sum_of_the_others() {
        let row = |name: &str, fast, full| Row {
            name: name.to_owned(),
            fast: Duration::from_secs(fast),
            full: Duration::from_secs(full),
        };
        let rows = vec![row("a", 1, 1), row("b", 3, 0), row("c", 10, 20), row("d", 1, 0)];
        let text = table(Duration::from_secs(99), rows, &[(7.4, "full", "a::slow".to_owned())]);
        assert_eq!(
            text,
            "| seconds | fast tier | the rest |\n| --- | --- | --- |\n| build | 99 | |\n\
             | c | 10 | 20 |\n| b | 3 | 0 |\n| 2 others | 2 | 1 |\n| all tests | 15 | 21 |\n\n\
             | slowest tests | tier | seconds |\n| --- | --- | --- |\n| `a::slow` | full | 7 |\n"
        );
    }

    #[test]
    fn the_times_of_the_full_tier_are_read_from_the_table() {
        let row = |line| super::row(line).map(|(name, seconds)| (name.to_owned(), seconds));
        assert_eq!(row("| null lab | 0 | 71 |"), Some(("null lab".to_owned(), 71)));
        assert_eq!(row("| build | 277 | |"), None);
        assert_eq!(row("| `a::slow` | full | 7 |"), Some(("`a::slow`".to_owned(), 7)));
        assert!(of_full_tier(&crate::root()).contains_key("null lab"));
    }

    #[test]
    fn what_is_between_the_lines_is_replaced_and_nothing_else() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let expected = format!("before\n{BEGIN}\nnew\n\n{END}after\n");
        assert_eq!(replaced(&text, "new\n"), Ok(expected));
        assert!(replaced("none", "new").is_err());
    }
}
