//! Every dependency has its reason on record.

use toml::de::{DeTable, DeValue};

use super::Finding;
use super::markdown::{Table, tables};
use super::tree::Tree;

const MANIFEST: &str = "Cargo.toml";
const RECORD: &str = "CONTRIBUTING.md";

/// Head of the table of dependencies.
pub(super) const HEAD: [&str; 3] = ["crate", "why not our own", "used by"];

/// The table in CONTRIBUTING.md has a reason for each foreign dependency, and nothing else.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(manifest) = tree.file(MANIFEST) else { return Vec::new() };
    let dependencies = match foreign(&manifest.text) {
        Ok(dependencies) => dependencies,
        Err(why) => return vec![Finding::new(MANIFEST, 1, why, "mend the manifest")],
    };
    let text = tree.file(RECORD).map_or("", |file| &file.text);
    let table = tables(text).into_iter().find(|table| table.head == HEAD).unwrap_or_default();
    let unexplained = dependencies.iter().filter(|(name, _)| reason(&table, name).is_none());
    let unused = table.rows.iter().filter(|(_, cells)| {
        dependencies.iter().all(|(name, _)| cells.first().map(|cell| bare(cell)) != Some(name))
    });
    let unexplained = unexplained.map(|(name, line)| {
        let what = format!("`{name}` has no reason");
        let instead = format!("fill its row `{}` in {RECORD}", HEAD.join(" | "));
        Finding::new(MANIFEST, *line, what, instead)
    });
    let unused = unused.map(|(line, cells)| {
        let what = format!("{} is not a dependency", cells.first().unwrap_or(&""));
        Finding::new(RECORD, *line, what, "delete its row")
    });
    unexplained.chain(unused).collect()
}

/// The dependencies of the workspace that are not its own crates, each with its line.
fn foreign(manifest: &str) -> Result<Vec<(String, usize)>, String> {
    let document = DeTable::parse(manifest).map_err(|error| error.message().to_string())?;
    let dependencies = ["workspace", "dependencies"]
        .iter()
        .try_fold(document.get_ref(), |table, name| table.get(*name)?.get_ref().as_table())
        .ok_or("it has no [workspace.dependencies]")?;
    let is_foreign =
        |value: &DeValue<'_>| value.as_table().is_none_or(|table| table.get("path").is_none());
    let foreign = dependencies.iter().filter(|(_, value)| is_foreign(value.get_ref()));
    let line = |offset: usize| 1 + manifest[..offset].matches('\n').count();
    Ok(foreign.map(|(key, _)| (key.get_ref().to_string(), line(key.span().start))).collect())
}

/// The reason of the dependency `name`, when its row has no empty cell.
fn reason<'a>(table: &Table<'a>, name: &str) -> Option<&'a str> {
    let (_, cells) = table.rows.iter().find(|(_, cells)| bare(cells[0]) == name)?;
    let is_full = cells.len() == HEAD.len() && cells.iter().all(|cell| !cell.is_empty());
    is_full.then(|| cells[1])
}

fn bare(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_foreign_dependency_has_a_full_row_and_each_row_a_dependency() {
        let manifest = "[workspace.dependencies]\nours = { path = \"ours\" }\na = \"1\"\n\
                        b = { version = \"1\", features = [] }\nc = \"1\"\n";
        let record = "| crate | why not our own | used by |\n| --- | --- | --- |\n\
                      | `a` | because | http |\n| `b` | | http |\n| `d` | because | http |\n";
        let findings = check(&Tree::of(&[(MANIFEST, manifest), (RECORD, record)]));
        let told: Vec<String> = findings
            .iter()
            .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.what))
            .collect();
        assert_eq!(
            told,
            [
                "Cargo.toml:4: `b` has no reason",
                "Cargo.toml:5: `c` has no reason",
                "CONTRIBUTING.md:5: `d` is not a dependency",
            ]
        );
    }

    #[test]
    fn without_a_table_nothing_has_a_reason() {
        let tree = Tree::of(&[(MANIFEST, "[workspace.dependencies]\na = \"1\"\n")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
