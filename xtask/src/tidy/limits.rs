//! Limits that a document tells with the constant that holds them are what the code says.

use super::Finding;
use super::markdown::{code_spans, tables};
use super::tree::Tree;

/// The documents with such tables.
const DOCUMENTS: [&str; 2] = ["docs/limits.md", "docs/operations/start.md"];

/// Heads of the columns that are compared.
const VALUE: &str = "value";
const CONSTANT: &str = "constant";

/// Each row of a table with these two columns names a constant, its file, and its value.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = DOCUMENTS.iter().filter_map(|path| tree.file(path));
    files.flat_map(|file| rows(tree, &file.path, &file.text)).collect()
}

fn rows(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in tables(text) {
        let column = |name: &str| table.head.iter().position(|head| *head == name);
        let (Some(value), Some(constant)) = (column(VALUE), column(CONSTANT)) else { continue };
        for (line, cells) in &table.rows {
            let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
            if let Err(what) = compare(tree, cell(value), cell(constant)) {
                let instead = "write the value and the place that the code has";
                findings.push(Finding::new(path, *line, what, instead));
            }
        }
    }
    findings
}

/// Compares what a row says with what the constant is in the file that the row names.
fn compare(tree: &Tree, value: &str, constant: &str) -> Result<(), String> {
    let spans = code_spans(constant);
    let [name, path] = spans[..] else {
        return Err(format!("not a constant and its file, each between backticks: {constant}"));
    };
    let file = tree.file(path).ok_or_else(|| format!("no file `{path}`"))?;
    let begin = format!("const {name}: ");
    let line = file.text.lines().find_map(|line| line.split_once(&begin)).map(|(_, rest)| rest);
    let line = line.ok_or_else(|| format!("`{path}` has no constant `{name}`"))?;
    let given = line.split_once("= ").map_or("", |(_, rest)| rest.trim_end_matches(';'));
    let is = evaluated(given).ok_or_else(|| format!("cannot tell what `{given}` is"))?;
    let told = read(value, name).ok_or_else(|| format!("`{value}` is no value of `{name}`"))?;
    if is == told { Ok(()) } else { Err(format!("`{name}` is {is}, not {told} ({value})")) }
}

/// What an expression of literals is, whose operators are `*`, `<<` or `-`, one after the other.
fn evaluated(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number = |word: Option<&str>| word?.replace('_', "").parse::<u64>().ok();
    let mut so_far = number(words.next())?;
    while let Some(operator) = words.next() {
        let next = number(words.next())?;
        so_far = match operator {
            "*" => so_far.checked_mul(next)?,
            "<<" => so_far.checked_shl(u32::try_from(next).ok()?)?,
            "-" => so_far.checked_sub(next)?,
            _ => return None,
        };
    }
    Some(so_far)
}

/// A value as it is written for people: a number with commas, and perhaps a unit. Times are in
/// milliseconds, or in seconds where the name of the constant ends so.
fn read(value: &str, name: &str) -> Option<u64> {
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let number: u64 = number.replace(',', "").parse().ok()?;
    let seconds = if name.ends_with("_S") { 1 } else { 1_000 };
    let times = match unit {
        "" | "bytes" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "ms" => seconds / 1_000,
        "s" => seconds,
        "min" => 60 * seconds,
        _ => return None,
    };
    number.checked_mul(times).filter(|_| times > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "/// Some.\npub(crate) const A_MAX: usize = 16 * 1024;\n\
                        const B_MS: u64 = 2_000;\nconst C_S: u32 = 5;\nconst D: usize = 1 << 20;\n\
                        const E: usize = D - 1;\n";

    fn findings(rows: &str) -> Vec<String> {
        let text = format!("| limit | value | constant |\n| --- | --- | --- |\n{rows}");
        let tree = Tree::of(&[(DOCUMENTS[0], &text), ("crates/a/src/b.rs", CODE)]);
        check(&tree).iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn a_value_is_what_the_constant_is() {
        let rows = "| a | 16 KiB | `A_MAX` in `crates/a/src/b.rs` |\n\
                    | b | 2 s | `B_MS` in `crates/a/src/b.rs` |\n\
                    | c | 5 s | `C_S` in `crates/a/src/b.rs` |\n\
                    | d | 1,048,576 bytes | `D` in `crates/a/src/b.rs` |\n";
        assert!(findings(rows).is_empty(), "{:?}", findings(rows));
    }

    #[test]
    fn what_differs_or_is_not_there_is_named_with_its_line() {
        let rows = "| a | 8 KiB | `A_MAX` in `crates/a/src/b.rs` |\n\
                    | b | 2 s | `B_MS` in `crates/a/src/c.rs` |\n\
                    | c | 5 s | `C` in `crates/a/src/b.rs` |\n\
                    | d | much | `D` in `crates/a/src/b.rs` |\n\
                    | e | 1 | `E` in `crates/a/src/b.rs` |\n\
                    | f | 1 | `F` |\n\
                    | g | 5 ms | `C_S` in `crates/a/src/b.rs` |\n";
        assert_eq!(
            findings(rows),
            [
                "3: `A_MAX` is 16384, not 8192 (8 KiB)",
                "4: no file `crates/a/src/c.rs`",
                "5: `crates/a/src/b.rs` has no constant `C`",
                "6: `much` is no value of `D`",
                "7: cannot tell what `D - 1` is",
                "8: not a constant and its file, each between backticks: `F`",
                "9: `5 ms` is no value of `C_S`",
            ]
        );
    }

    #[test]
    fn tables_without_both_columns_are_left_alone() {
        let text = "| limit | value |\n| --- | --- |\n| a | b |\n";
        assert!(check(&Tree::of(&[(DOCUMENTS[1], text)])).is_empty());
    }
}
