//! Where the names of architectures may stand: what one of them needs that others do not is a
//! method of its trait, and never a name in a table.

use std::collections::BTreeSet;

use super::Finding;
use super::layers::{ARCHITECTURES, architecture};
use super::tree::{File, Tree};
use crate::rust::mask::{Part, parts};
use crate::rust::paths::paths;

/// The crates that serve.
const CRATES: [&str; 7] = ["arch", "conn", "flyball", "observe", "server", "site", "sys"];

/// The tables that name them: the registry, that of their settings, and that of keys which had
/// other names.
const TABLES: [&str; 3] = [
    "crates/arch/src/registry.rs",
    "crates/flyball/src/settings/architectures.rs",
    "crates/flyball/src/settings/moved.rs",
];

const INSTEAD: &str = "ask a method of `Architecture`, with a default for the common case";

/// Code that serves names no architecture outside its directory and these tables: neither its
/// module nor, in a literal, its name or a key of its table of settings.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let modules: BTreeSet<&str> = tree.rust().filter_map(|file| architecture(&file.path)).collect();
    let serves = |file: &&File| {
        let of = |name: &&str| file.path.starts_with(&format!("crates/{name}/src/"));
        let may = file.path.starts_with(ARCHITECTURES) || TABLES.contains(&file.path.as_str());
        CRATES.iter().any(of) && !may
    };
    tree.rust().filter(serves).flat_map(|file| check_file(file, &modules)).collect()
}

fn check_file(file: &File, modules: &BTreeSet<&str>) -> Vec<Finding> {
    let paths = paths(&file.tokens()).into_iter().filter_map(|path| {
        let at = path.segments.iter().position(|segment| segment == "architectures")?;
        let name = path.segments.get(at + 1)?;
        modules.get(name.as_str()).map(|name| (path.line, *name))
    });
    let literals = literals(file).into_iter().filter_map(|(line, text)| {
        let first = text.split('.').next()?.replace('-', "_");
        modules.get(first.as_str()).map(|name| (line, *name))
    });
    let named = paths.chain(literals).filter(|(line, _)| !file.is_test(*line));
    let finding = |(line, name): (usize, &str)| {
        let what = format!("the architecture `{}` is named", name.replace('_', "-"));
        Finding::new(&file.path, line, what, INSTEAD)
    };
    named.map(finding).collect()
}

/// The plain strings of a file, each with its line.
fn literals(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut line = 1;
    for (part, text) in parts(&file.text) {
        if part == Part::Literal {
            found.push((line, text.trim_matches('"')));
        }
        line += text.matches('\n').count();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/arch/src/architectures/knot_c/mod.rs", "const NAME: &str = \"knot-c\";"),
            ("crates/arch/src/architectures/tux/mod.rs", "use super::super::tux;"),
            (path, text),
        ]);
        check(&tree).iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    const TEXT: &str = "use crate::architectures::{knot_c, tux::Tux};\n// \"tux\"\n\
                        fn f() { g(\"tux\", \"a tux\") }\nconst KEY: &str = \"knot-c.threads\";\n\
                        #[cfg(test)]\nmod tests { const A: &str = \"tux\"; }\n";

    #[test]
    fn a_name_outside_its_directory_is_found_in_a_path_and_in_a_literal() {
        let named = |line, name| format!("{line}: the architecture `{name}` is named");
        let all = [named(1, "knot-c"), named(1, "tux"), named(3, "tux"), named(4, "knot-c")];
        for path in ["crates/server/src/a.rs", "crates/flyball/src/commands/a.rs"] {
            assert_eq!(findings(path, TEXT), all, "{path}");
        }
    }

    #[test]
    fn tables_name_them_and_so_do_crates_that_do_not_serve() {
        for path in TABLES.into_iter().chain(["crates/lab/src/a.rs", "crates/server/tests/a.rs"]) {
            assert_eq!(findings(path, TEXT), [""; 0], "{path}");
        }
    }
}
