//! The little of Markdown that the checks read: code spans and tables.

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table<'a> {
    /// Line of its head, from 1.
    pub(crate) line: usize,
    /// Cells of its head.
    pub(crate) head: Vec<&'a str>,
    /// Cells of its rows, each with its line.
    pub(crate) rows: Vec<(usize, Vec<&'a str>)>,
}

/// The lines outside fenced code, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((at + 1, line))
    })
}

/// What stands between backticks in a line.
pub(crate) fn code_spans(line: &str) -> Vec<&str> {
    let parts: Vec<&str> = line.split('`').collect();
    // A last backtick without a partner opens nothing.
    let closed = parts.len().saturating_sub(1) / 2;
    parts.into_iter().skip(1).step_by(2).take(closed).collect()
}

/// The tables, in order.
pub(crate) fn tables(text: &str) -> Vec<Table<'_>> {
    let mut tables: Vec<Table<'_>> = Vec::new();
    let mut last = 0;
    for (at, line) in prose(text) {
        let Some(cells) = cells(line) else { continue };
        match tables.last_mut().filter(|_| last + 1 == at) {
            None => tables.push(Table { line: at, head: cells, rows: Vec::new() }),
            Some(table) if !is_separator(&cells) => table.rows.push((at, cells)),
            Some(_) => {}
        }
        last = at;
    }
    tables
}

/// The cells of a row; a `|` inside a code span is text.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let mut in_code = false;
    let at_bar = |c: char| {
        in_code ^= c == '`';
        c == '|' && !in_code
    };
    Some(inside.split(at_bar).map(str::trim).collect())
}

fn is_separator(cells: &[&str]) -> bool {
    cells.iter().all(|cell| cell.chars().all(|c| "-: ".contains(c)) && cell.contains('-'))
        && cells.iter().any(|cell| cell.len() >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_spans_come_in_pairs_of_backticks() {
        assert_eq!(code_spans("a `b` c `d e` f"), ["b", "d e"]);
        assert_eq!(code_spans("a `b` c ` d"), ["b"]);
        assert!(code_spans("a").is_empty());
    }

    #[test]
    fn fenced_code_is_not_prose() {
        let lines: Vec<usize> = prose("a\n```text\n`b`\n```\nc").map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 5]);
    }

    #[test]
    fn tables_have_a_head_and_rows() {
        let text = "x\n| a | b |\n| --- | - |\n| `c|d` | e |\n| - | - |\n\n| f |\n| --- |\n";
        let found = tables(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, &found[0].head[..]), (2, &["a", "b"][..]));
        assert_eq!(found[0].rows, [(4, vec!["`c|d`", "e"]), (5, vec!["-", "-"])]);
        assert_eq!((found[1].line, found[1].rows.len()), (7, 0));
    }
}
