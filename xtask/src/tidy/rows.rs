//! docs/rows.md: each row of the papers is held by code, a setting and a test that exist, or is an
//! experiment of the lab.

use std::collections::{BTreeSet, HashSet};

use super::Finding;
use super::markdown::{Table, code_spans, prose, tables};
use super::symbols::Symbols;
use super::tree::Tree;
use crate::rust::functions::functions;

const ROWS: &str = "docs/rows.md";
const SETTINGS: [&str; 2] = ["docs/settings.md", "docs/experiment-settings.md"];

/// Where the definitions of experiments are, which name rows themselves.
const EXPERIMENTS: &str = "lab/experiments/";

/// The last row of the papers.
const LAST: u32 = 172;

/// Head of each table.
const HEAD: [&str; 5] = ["row", "held by", "setting", "test", "note"];

/// What begins the line that says which rows the next table has.
const LIST: &str = "Rows: ";

/// What begins the second cell of a row that nothing holds; the reason follows.
const NOT_HERE: &str = "not here:";

/// The rows that are listed are there, once each, and what they name exists.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(ROWS) else {
        return vec![Finding::new(ROWS, 1, "it is missing", "write what holds each row")];
    };
    let found = tables(&file.text);
    let known = Known {
        symbols: Symbols::of(tree),
        settings: SETTINGS.iter().filter_map(|path| tree.file(path)).map(|f| &*f.text).collect(),
        tests: tree.rust().flat_map(|file| functions(&file.tokens())).map(|f| f.name).collect(),
    };
    let rows = found.iter().flat_map(|table| check_table(&known, table));
    let unnamed = check_complete(tree, &found);
    check_list(&file.text, &found).into_iter().chain(unnamed).chain(rows).collect()
}

/// No row of the papers is without a line and without an experiment.
fn check_complete(tree: &Tree, tables: &[Table<'_>]) -> Vec<Finding> {
    let mut experiments = tree.files.iter().filter(|f| f.path.starts_with(EXPERIMENTS)).peekable();
    if experiments.peek().is_none() {
        return Vec::new();
    }
    let of_experiments = experiments.flat_map(|file| file.text.lines()).filter_map(|line| {
        let rows = line.strip_prefix("rows = [")?.strip_suffix(']')?;
        Some(rows.split(", ").filter_map(|row| row_number(row.trim_matches('"'))))
    });
    let mut named: BTreeSet<u32> = of_experiments.flatten().collect();
    let rows = tables.iter().flat_map(|table| &table.rows);
    named.extend(rows.filter_map(|(_, cells)| row_number(cells[0])));
    let unnamed = (1..=LAST).filter(|number| !named.contains(number));
    let instead = format!("add it, or say `{NOT_HERE}` and why");
    unnamed
        .map(|number| {
            let what = format!("row M{number} has no line and no experiment");
            Finding::new(ROWS, 1, what, instead.clone())
        })
        .collect()
}

/// What the rows may name.
struct Known<'a> {
    symbols: Symbols<'a>,
    settings: String,
    tests: HashSet<String>,
}

/// The numbers in the lines that begin with "Rows: " are those of the tables.
fn check_list(text: &str, tables: &[Table<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for (line, list) in prose(text).filter_map(|(at, text)| Some((at, text.strip_prefix(LIST)?))) {
        match numbers(list) {
            Some(numbers) => listed.extend(numbers),
            None => {
                let instead = "write it like `Rows: M1 to M6, M54.` on one line";
                findings.push(Finding::new(ROWS, line, "the list cannot be read", instead));
            }
        }
    }
    let mut present = BTreeSet::new();
    for (line, cells) in tables.iter().flat_map(|table| &table.rows) {
        let number = row_number(cells[0]);
        if !number.is_some_and(|number| listed.contains(&number) && present.insert(number)) {
            let what = format!("row `{}` is not listed, or is there twice", cells[0]);
            let instead = "begin a row with its number, once, and list the number above the table";
            findings.push(Finding::new(ROWS, *line, what, instead));
        }
    }
    findings.extend(listed.difference(&present).map(|number| {
        let instead = format!("add it, or say `{NOT_HERE}` and why");
        Finding::new(ROWS, 1, format!("row M{number} is listed and missing"), instead)
    }));
    findings
}

fn check_table(known: &Known<'_>, table: &Table<'_>) -> Vec<Finding> {
    if table.head != HEAD {
        let what = format!("the head is `{}`", table.head.join(" | "));
        return vec![Finding::new(ROWS, table.line, what, format!("`{}`", HEAD.join(" | ")))];
    }
    let rows = table.rows.iter();
    rows.flat_map(|(line, cells)| {
        let told = check_row(known, cells);
        told.into_iter().map(|(what, instead)| Finding::new(ROWS, *line, what, instead))
    })
    .collect()
}

fn check_row(known: &Known<'_>, cells: &[&str]) -> Vec<(String, &'static str)> {
    let &[_, holder, setting, test, _] = cells else {
        return vec![(format!("{} cells", cells.len()), "a row has five")];
    };
    let mut told = Vec::new();
    let reason = holder.strip_prefix(NOT_HERE);
    if reason.is_some_and(|reason| reason.trim().is_empty()) {
        told.push(("no reason".to_string(), "say why it is not here"));
    }
    if reason.is_none() {
        let instead = "name a symbol in backticks, or say `not here:` and why";
        told.extend(code_spans(holder).is_empty().then(|| ("nothing holds it".into(), instead)));
        let instead = "name it in backticks, or write -";
        let unclear = [setting, test].into_iter().filter(|cell| !is_clear(cell));
        told.extend(unclear.map(|cell| (format!("`{cell}` names nothing"), instead)));
    }
    let holders = code_spans(holder).into_iter();
    let missing = holders.filter_map(|span| known.symbols.missing_strictly(span));
    told.extend(missing.map(|why| (why, "name what is there")));
    for name in code_spans(setting).into_iter().filter(|name| !has_setting(&known.settings, name)) {
        told.push((format!("no setting `{name}`"), "name one of docs/settings.md"));
    }
    for name in code_spans(test) {
        let function = name.rsplit("::").next().unwrap_or(name);
        if !known.tests.contains(function.trim_end_matches("()")) {
            told.push((format!("no test `{name}`"), "name a test function"));
        }
    }
    told
}

/// Whether a cell names something or says that there is nothing.
fn is_clear(cell: &str) -> bool {
    cell == "-" || !code_spans(cell).is_empty()
}

/// Whether the document of settings has the key `name`, which it writes in backticks.
fn has_setting(settings: &str, name: &str) -> bool {
    settings.contains(&format!("`{name}`"))
}

/// The numbers of a list like `M1 to M6, M54.`
fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.trim_end().trim_end_matches('.').split(", ") {
        let (first, last) = part.split_once(" to ").unwrap_or((part, part));
        let [first, last] = [first, last].map(|row| row.strip_prefix('M')?.parse::<u32>().ok());
        numbers.extend(first?..=last?);
    }
    Some(numbers)
}

/// The number of the row that a first cell like `M1 three phases` describes.
fn row_number(cell: &str) -> Option<u32> {
    cell.split([' ', ':']).next()?.strip_prefix('M')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub struct Phases; impl Phases { fn accept() {} }\n\
                          #[test]\nfn phases_are_timed() {}";

    fn findings(list: &str, rows: &[&str]) -> Vec<String> {
        let head = "| row | held by | setting | test | note |\n| --- | --- | --- | --- | --- |";
        let text = format!("{list}\n\n{head}\n{}\n", rows.join("\n"));
        let settings = "| `accept.limit` | 16 |";
        let tree = Tree::of(&[(ROWS, &text), (SETTINGS[0], settings), ("a.rs", SOURCE)]);
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_row_names_only_what_exists() {
        let row = "| M1 x | `Phases::accept` | `accept.limit` | `phases_are_timed` | |";
        assert!(findings("Rows: M1.", &[row]).is_empty());
        let row = "| M1 x | `Phases::gone` | `limit` | `phases_are_counted` | |";
        assert_eq!(
            findings("Rows: M1.", &[row]),
            ["nothing defines `gone`", "no setting `limit`", "no test `phases_are_counted`"]
        );
    }

    #[test]
    fn a_row_that_nothing_holds_says_why() {
        assert!(findings("Rows: M1.", &["| M1 x | not here: no need | - | - | |"]).is_empty());
        assert_eq!(findings("Rows: M1.", &["| M1 x | not here: | - | - | |"]), ["no reason"]);
        let told = findings("Rows: M1.", &["| M1 x | later | some | - | |"]);
        assert_eq!(told, ["nothing holds it", "`some` names nothing"]);
        assert_eq!(findings("Rows: M1.", &["| M1 x | - | - |"]), ["3 cells"]);
    }

    #[test]
    fn the_listed_rows_are_there_once_each() {
        let row = |number| format!("| M{number} x | not here: no need | - | - | |");
        let rows = [row(1), row(2), row(5)];
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        assert!(findings("Rows: M1 to M2, M5.", &rows).is_empty());
        assert_eq!(findings("Rows: M1 to M3, M5.", &rows), ["row M3 is listed and missing"]);
        assert_eq!(
            findings("Rows: M1, M2.", &rows),
            ["row `M5 x` is not listed, or is there twice"]
        );
        assert_eq!(findings("Rows: M1 to M2, M5.", &[rows, vec![&row(2)]].concat()).len(), 1);
        assert_eq!(findings("Rows: some.", &[]), ["the list cannot be read"]);
    }

    #[test]
    fn no_row_of_the_papers_is_without_a_line_and_without_an_experiment() {
        let head = "| row | held by | setting | test | note |\n| --- | --- | --- | --- | --- |";
        let text = format!("Rows: M1.\n\n{head}\n| M1 x | not here: no need | - | - | |\n");
        let experiment = "name = \"x\"\nrows = [\"M2\", \"M4\"]\n";
        let tree = Tree::of(&[(ROWS, &text), ("lab/experiments/x.toml", experiment)]);
        let told: Vec<String> = check(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(told.len(), LAST as usize - 3);
        assert_eq!(told[0], "row M3 has no line and no experiment");
    }

    #[test]
    fn a_table_has_its_five_columns() {
        let tree = Tree::of(&[(ROWS, "| row | note |\n| --- | --- |\n")]);
        assert_eq!(check(&tree)[0].what, "the head is `row | note`");
        assert_eq!(check(&Tree::of(&[]))[0].what, "it is missing");
    }
}
