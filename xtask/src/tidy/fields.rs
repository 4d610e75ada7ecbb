//! How many fields a type has that serves.

use super::Finding;
use super::tree::{File, Tree};
use crate::rust::definitions::fields;

/// The crates that serve and hold state.
const CRATES: [&str; 4] = ["arch", "conn", "server", "site"];

/// More are several ideas in one type.
const FIELDS_MAX: usize = 15;

/// Types that have more, each with its file and its reason. The list only shrinks.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/arch/src/settings.rs", "Settings", "settings"),
    ("crates/site/src/settings.rs", "SiteSettings", "settings"),
    ("crates/site/src/cache_settings.rs", "CacheSettings", "settings"),
    ("crates/site/src/counts.rs", "CacheCounts", "counters"),
];

/// No type of a crate that serves has more fields, but for settings and counters.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let serves = |file: &&File| {
        CRATES.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")))
    };
    let mut findings = Vec::new();
    for file in tree.rust().filter(serves) {
        let large = large(file);
        let is_large = |name: &str| large.iter().any(|(known, ..)| *known == name);
        let allowed = || ALLOWED.iter().filter(|(path, ..)| *path == file.path);
        for (name, line, count) in &large {
            if !allowed().any(|(_, known, _)| known == name) {
                let what = format!("`{name}` has {count} fields, at most {FIELDS_MAX}");
                let instead = "put those together that are set, or live, together";
                findings.push(Finding::new(&file.path, *line, what, instead));
            }
        }
        findings.extend(allowed().filter(|(_, name, _)| !is_large(name)).map(|(_, name, _)| {
            let what = format!("`{name}` needs no exception");
            Finding::new(&file.path, 1, what, "delete it from the list in xtask/src/tidy/fields.rs")
        }));
    }
    findings
}

/// The types of a file that have too many fields: name, line and how many.
fn large(file: &File) -> Vec<(&str, usize, usize)> {
    let tokens = file.tokens();
    let types = tokens.windows(2).enumerate().filter(|(_, pair)| pair[0].text == "struct");
    let product = types.filter(|(_, pair)| !file.is_test(pair[0].line));
    let counted = product.map(|(at, pair)| (pair[1].text, pair[1].line, fields(&tokens, at).len()));
    counted.filter(|(_, _, count)| *count > FIELDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    fn with(name: &str, count: usize) -> String {
        let field = |at: usize| format!("    /// One.\n    pub(crate) f{at}: Vec<(u8, u8)>,\n");
        format!("\nstruct {name} {{\n{}}}\n", (0..count).map(field).collect::<String>())
    }

    #[test]
    fn a_type_that_serves_has_at_most_15_fields() {
        assert_eq!(findings("crates/conn/src/a.rs", &with("T", 15)), [""; 0]);
        let told = "2: `T` has 16 fields, at most 15";
        assert_eq!(findings("crates/conn/src/a.rs", &with("T", 16)), [told]);
        assert_eq!(findings("crates/lab/src/a.rs", &with("T", 16)), [""; 0]);
        let in_tests = format!("#[cfg(test)]\nmod tests {{ {} }}", with("T", 16));
        assert_eq!(findings("crates/conn/src/a.rs", &in_tests), [""; 0]);
    }

    #[test]
    fn an_exception_holds_and_is_needed() {
        let (path, name, _) = ALLOWED[0];
        assert_eq!(findings(path, &with(name, 16)), [""; 0]);
        assert_eq!(findings(path, &with(name, 15)), ["1: `Settings` needs no exception"]);
    }
}
