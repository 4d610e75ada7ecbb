//! The page of an architecture and its fixed header, so that two of them can be laid side by side.

use super::Finding;
use super::layers::ARCHITECTURES;
use super::tree::{File, Tree};

/// The headings, in their order.
const HEADINGS: [&str; 6] =
    ["Paper", "Idea", "Differs from the paper", "Reads with", "Settings", "Kernel needs"];

/// Lines of an architecture's page: more is not about waiting any more.
const LINES_MAX: usize = 400;

/// Every architecture is a directory whose `mod.rs` is short and begins with the headings.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.rust().filter(|file| file.path.starts_with(ARCHITECTURES));
    files.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let below = &file.path[ARCHITECTURES.len()..];
    match below.split_once('/') {
        Some((_, "mod.rs")) => check_page(file),
        None if below != "mod.rs" => {
            let instead = "make it the `mod.rs` of a directory of that name";
            vec![Finding::new(&file.path, 1, "an architecture without a directory", instead)]
        }
        _ => Vec::new(),
    }
}

fn check_page(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.lines().count();
    if lines > LINES_MAX {
        let what = format!("{lines} lines in an architecture's page, at most {LINES_MAX}");
        let instead = "move what does not wait to sys, or to a file beside the page";
        findings.push(Finding::new(&file.path, 1, what, instead));
    }
    findings.extend(check_headings(file));
    findings
}

fn check_headings(file: &File) -> Vec<Finding> {
    let doc: Vec<(usize, &str)> =
        file.lines().map_while(|(at, line)| Some((at, line.strip_prefix("//!")?.trim()))).collect();
    let found: Vec<(usize, &str)> =
        doc.iter().filter_map(|(at, line)| Some((*at, heading(line)?))).collect();
    let names: Vec<&str> = found.iter().map(|(_, name)| *name).collect();
    if names != HEADINGS {
        let what = format!("its doc comment has the headings [{}]", names.join(", "));
        let instead = format!("begin a line of it with each of {}, in order", bold(&HEADINGS));
        return vec![Finding::new(&file.path, 1, what, instead)];
    }
    let ends = found.iter().skip(1).map(|(line, _)| *line).chain([doc.len() + 1]);
    let empty = found.iter().zip(ends).filter(|((line, name), end)| {
        let mut body = doc[*line - 1..*end - 1].iter().map(|(_, text)| text.len());
        body.by_ref().sum::<usize>() <= name.len() + "****.".len()
    });
    empty
        .map(|((line, name), _)| {
            let what = format!("nothing below **{name}**");
            Finding::new(&file.path, *line, what, "write it, or `none` with the reason")
        })
        .collect()
}

/// The heading that a line of the doc comment begins with.
fn heading(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(['*', '-', ' ']);
    let name = HEADINGS.into_iter().find(|name| line.starts_with(&format!("{name}**")))?;
    Some(name)
}

fn bold(names: &[&str]) -> String {
    names.iter().map(|name| format!("**{name}**")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> String {
        let part = |name: &&str| format!("//! **{name}**\n//! Something.\n//!\n");
        format!(
            "//! One title.\n//!\n{}\nfn f() {{}}\n",
            names.iter().map(part).collect::<String>()
        )
    }

    fn findings(name: &str, text: &str) -> Vec<Finding> {
        check(&Tree::of(&[(&format!("{ARCHITECTURES}{name}"), text)]))
    }

    #[test]
    fn the_headings_are_complete_and_in_order() {
        assert_eq!(findings("sped/mod.rs", &header(&HEADINGS)), []);
        assert_eq!(findings("sped/mod.rs", &header(&HEADINGS[1..])).len(), 1);
        let mut swapped = HEADINGS;
        swapped.swap(1, 2);
        assert_eq!(findings("sped/mod.rs", &header(&swapped)).len(), 1);
        assert_eq!(findings("sped/mod.rs", "fn f() {}").len(), 1);
        assert_eq!(findings("mod.rs", "fn f() {}"), []);
        assert_eq!(findings("sped/part.rs", "fn f() {}"), []);
    }

    #[test]
    fn an_architecture_is_a_directory() {
        assert_eq!(findings("sped.rs", &header(&HEADINGS)).len(), 1);
    }

    #[test]
    fn a_heading_has_something_to_say() {
        let text = header(&HEADINGS).replacen("//! Something.\n", "", 1);
        assert_eq!(findings("sped/mod.rs", &text)[0].what, "nothing below **Paper**");
        assert_eq!(findings("sped/mod.rs", &text)[0].line, 3);
        let text = text.replace("//! **Paper**", "//! **Paper**: Flash, 1999.");
        assert_eq!(findings("sped/mod.rs", &text), []);
    }

    #[test]
    fn an_architecture_has_at_most_400_lines() {
        let text = header(&HEADINGS);
        let fill = |lines: usize| text.clone() + &"\n".repeat(lines - text.lines().count());
        assert_eq!(findings("sped/mod.rs", &fill(400)), []);
        assert_eq!(findings("sped/mod.rs", &fill(401)).len(), 1);
    }
}
