//! Frozen exceptions: they may shrink and vanish, never grow.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::Finding;
use super::tree::Tree;

/// Where the exceptions are.
const RATCHET: &str = "xtask/ratchet.toml";

/// A limit, and the section of the ratchet that holds its exceptions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) section: &'static str,
    pub(crate) most: usize,
    /// What is counted, in the plural.
    pub(crate) unit: &'static str,
    /// What to do instead of going above.
    pub(crate) instead: &'static str,
}

/// Lines of a file.
pub(crate) const FILE_LINES: Limit = Limit {
    section: "file-lines",
    most: 800,
    unit: "lines in the file",
    instead: "split it: one idea per file",
};

/// Lines of a function, from its `fn` to its brace.
pub(crate) const FUNCTION_LINES: Limit = Limit {
    section: "function-lines",
    most: 70,
    unit: "lines in the function",
    instead: "split it: a function fits on a screen",
};

/// Characters of a line.
pub(crate) const COLUMNS: Limit =
    Limit { section: "columns", most: 100, unit: "columns", instead: "wrap the line" };

/// Sleeps in a file.
pub(crate) const SLEEPS: Limit = Limit {
    section: "sleeps",
    most: 0,
    unit: "sleeps in the file",
    instead: "wait for what you wait for, with a deadline",
};

/// Words of [`super::plain`] in the comments and in the tests of a crate.
pub(crate) const COMMENT_WORDS: Limit = Limit {
    section: "comment-words",
    most: 0,
    unit: "words that read badly, in comments and tests",
    instead: "say it plainly: the subject first, in the terms of the field",
};

/// The same in the texts that the program shows.
pub(crate) const MESSAGE_WORDS: Limit = Limit {
    section: "message-words",
    most: 0,
    unit: "words that read badly, in messages",
    instead: "say it plainly: the subject first, in the terms of the field",
};

/// Modules of a crate that import each other: see [`super::circles`].
pub(crate) const CIRCLES: Limit = Limit {
    section: "circles",
    most: 1,
    unit: "modules in one circle of imports",
    instead: "let one of them be told by values, or move what both need",
};

const LIMITS: [Limit; 7] =
    [FILE_LINES, FUNCTION_LINES, COLUMNS, SLEEPS, COMMENT_WORDS, MESSAGE_WORDS, CIRCLES];

/// Something that was counted.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// What the ratchet calls it.
    pub(crate) key: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) count: usize,
}

/// The ratchet itself can be read and has only sections that mean something.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    match frozen(tree) {
        Err(finding) => vec![finding],
        Ok(frozen) => frozen
            .iter()
            .filter(|(section, _)| LIMITS.iter().all(|limit| limit.section != *section))
            .map(|(section, _)| {
                let what = format!("unknown section `{section}`");
                let known = LIMITS.map(|limit| limit.section).join(", ");
                Finding::new(RATCHET, 1, what, format!("use one of {known}"))
            })
            .collect(),
    }
}

/// Findings for everything above `limit` that is not frozen, and for exceptions that are not exact.
pub(crate) fn hold(tree: &Tree, limit: Limit, measures: &[Measure]) -> Vec<Finding> {
    let frozen = frozen(tree).unwrap_or_default().remove(limit.section).unwrap_or_default();
    let above = measures.iter().filter(|measure| measure.count > limit.most);
    let mut worst: BTreeMap<&str, &Measure> = BTreeMap::new();
    let mut findings = Vec::new();
    for measure in above {
        if !frozen.contains_key(&measure.key) {
            let what = format!("{} {}, at most {}", measure.count, limit.unit, limit.most);
            findings.push(Finding::new(&measure.path, measure.line, what, limit.instead));
        }
        let seen = worst.entry(&measure.key).or_insert(measure);
        if measure.count > seen.count {
            *seen = measure;
        }
    }
    for (key, exception) in &frozen {
        findings.extend(compare(limit, key, *exception, worst.get(key.as_str()).copied()));
    }
    findings
}

fn compare(
    limit: Limit,
    key: &str,
    exception: Exception,
    measure: Option<&Measure>,
) -> Option<Finding> {
    let Some(measure) = measure else {
        let what = format!("`{key}` is no longer an exception");
        return Some(Finding::new(RATCHET, exception.line, what, "delete its line"));
    };
    if measure.count > exception.count {
        let what = format!("{} {}, frozen at {}", measure.count, limit.unit, exception.count);
        return Some(Finding::new(&measure.path, measure.line, what, limit.instead));
    }
    (measure.count < exception.count).then(|| {
        let what = format!("`{key}` has shrunk to {} {}", measure.count, limit.unit);
        Finding::new(RATCHET, exception.line, what, format!("write {}", measure.count))
    })
}

#[derive(Clone, Copy, Debug)]
struct Exception {
    count: usize,
    line: usize,
}

/// The exceptions by section and key. A missing ratchet is an empty one.
fn frozen(tree: &Tree) -> Result<BTreeMap<String, BTreeMap<String, Exception>>, Finding> {
    let Some(file) = tree.file(RATCHET) else { return Ok(BTreeMap::new()) };
    let at = |offset: usize| 1 + file.text[..offset].matches('\n').count();
    let document = DeTable::parse(&file.text).map_err(|error| {
        let line = error.span().map_or(1, |span| at(span.start));
        Finding::new(RATCHET, line, error.message(), "write `\"key\" = count` below a section")
    })?;
    let mut sections = BTreeMap::new();
    for (section, value) in document.get_ref() {
        let entries: &mut BTreeMap<String, Exception> =
            sections.entry(section.get_ref().to_string()).or_default();
        let table = value.get_ref().as_table();
        for (key, value) in table.into_iter().flatten() {
            let integer = value.get_ref().as_integer();
            let line = at(key.span().start);
            let count = integer.and_then(|integer| integer.as_str().parse().ok());
            let count = count.ok_or_else(|| {
                Finding::new(RATCHET, line, "not a count", "write `\"key\" = count`")
            })?;
            entries.insert(key.get_ref().to_string(), Exception { count, line });
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(ratchet: &str, counts: &[(&str, usize)]) -> Vec<String> {
        let measures: Vec<Measure> = counts
            .iter()
            .map(|(key, count)| Measure {
                key: key.to_string(),
                path: "a.rs".into(),
                line: 7,
                count: *count,
            })
            .collect();
        let tree = Tree::of(&[(RATCHET, ratchet)]);
        let findings = hold(&tree, FUNCTION_LINES, &measures);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_is_not_frozen_stays_below_the_limit() {
        assert!(held("", &[("f", 70)]).is_empty());
        assert_eq!(
            held("", &[("f", 71)]),
            ["a.rs:7: 71 lines in the function, at most 70: split it: a function fits on a screen"]
        );
    }

    #[test]
    fn a_frozen_exception_is_exact() {
        let ratchet = "[function-lines]\n\"f\" = 90\n";
        assert!(held(ratchet, &[("f", 90), ("f", 80)]).is_empty());
        assert_eq!(
            held(ratchet, &[("f", 91)]),
            ["a.rs:7: 91 lines in the function, frozen at 90: \
             split it: a function fits on a screen"]
        );
        assert_eq!(
            held(ratchet, &[("f", 89)]),
            ["xtask/ratchet.toml:2: `f` has shrunk to 89 lines in the function: write 89"]
        );
        for gone in [&[("f", 70)][..], &[]] {
            assert_eq!(
                held(ratchet, gone),
                ["xtask/ratchet.toml:2: `f` is no longer an exception: delete its line"]
            );
        }
    }

    #[test]
    fn a_ratchet_that_means_nothing_is_a_finding() {
        let told = |text| check(&Tree::of(&[(RATCHET, text)]));
        assert!(told("[columns]\n\"a.md\" = 120\n").is_empty());
        assert_eq!(told("[colums]\n\"a.md\" = 120\n")[0].what, "unknown section `colums`");
        assert_eq!(told("\n[columns]\n\"a.md\" = \"many\"\n")[0].line, 3);
        assert_eq!(told("\n[columns\n").len(), 1);
    }
}
