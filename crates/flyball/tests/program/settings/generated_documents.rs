//! Pages of the manual, completions and tables of documents are made from the tables of the code.
use std::process::Command;

use flyball::settings::SETTINGS;
use flyball_arch::{ALL, HelperKind, Settings};
use flyball_sys::sandbox::Calls;
use flyball_testkit::binary;

fn docs(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(binary()).arg("docs").args(arguments).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

/// The subcommands that help lists.
fn subcommands() -> Vec<String> {
    let listed = flyball::cli::program();
    let shown = listed.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let (code, page) = docs(&["man"]);
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH flyball 1"), "{page}");
    for name in subcommands() {
        let of_it = name.replace('-', "\\-");
        assert!(page.contains(&of_it), "{name} in {page}");
        let (code, page) = docs(&["man", &name]);
        assert_eq!(code, Some(0), "{name}");
        assert!(page.contains(&format!(".TH flyball-{name} 1")), "{page}");
    }
    let (_, serve) = docs(&["man", "serve"]);
    assert!(serve.contains("accept\\-limit"), "{serve}");
    assert_eq!(docs(&["man", "nothing"]).0, Some(2));
}

#[test]
fn shells_complete_subcommands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = docs(&["completions", shell]);
        assert_eq!(code, Some(0), "{shell}");
        for word in ["explain", "trace", "accept-limit", "slower-than"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (_, script) = docs(&["completions", "bash"]);
    let mut bash = Command::new("bash");
    let output = bash.args(["-n", "-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(docs(&["completions", "none"]).0, Some(2));
}

/// What the groups of calls hold, and which architecture has which, as docs/security.md tells.
fn tables_of_calls() -> String {
    let names = |groups: &[Calls]| -> Vec<String> {
        groups.iter().map(|group| format!("`{}`", group.name())).collect()
    };
    let mut text = "| architecture | groups | more where helpers are processes |\n\
                    | --- | --- | --- |\n"
        .to_owned();
    let threads = Settings::default();
    let processes = Settings { helper_kind: HelperKind::Process, ..Settings::default() };
    for architecture in ALL {
        let own = architecture.calls(&threads);
        let more = architecture.calls(&processes).iter().filter(|group| !own.contains(group));
        let more: Vec<Calls> = more.copied().collect();
        let (own, more) = (names(own).join(", "), names(&more).join(", "));
        text += &format!("| `{}` | {own} | {more} |\n", architecture.name())
            .replace("|  |", "| |")
            .replace("|  |", "| |");
    }
    text += "\n| group | system calls |\n| --- | --- |\n";
    for group in Calls::ALL {
        let calls = group.calls().iter().map(|call| match call.is_free() {
            true => format!("`{}`", call.name),
            false => format!("`{}`\\*", call.name),
        });
        let calls: Vec<String> = calls.collect();
        text += &format!("| `{}` | {} |\n", group.name(), calls.join(" "));
    }
    text
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_document_names_each_system_call_that_a_process_may_make() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let document = std::fs::read_to_string(path).expect("it is there");
    let (begin, end) = ("| architecture | groups |", "\n\nA star");
    let at = document.find(begin).expect("the first table");
    let len = document[at..].find(end).expect("what follows the second");
    let (found, expected) = (&document[at..at + len], tables_of_calls());
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        let text = document.replace(found, expected.trim_end());
        return std::fs::write(path, text).expect("it can be written");
    }
    assert_eq!(found, expected.trim_end(), "FLYBALL_BLESS=1 writes it");
}

/// Every bound is on a page of docs/operations, with its default.
#[test]
fn every_bound_is_among_the_limits_with_its_default() {
    const BOUNDS: [&str; 7] =
        ["Most", "Longest", "Largest", "Threads", "Processes", "User-level", "Time"];
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations");
    let pages = std::fs::read_dir(pages).expect("the pages are there");
    let read = |page: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(page.expect("a page").path()).expect("text")
    };
    let text: String = pages.map(read).collect();
    // Sizes and times are written with a space there, and large numbers with a comma.
    let text: String = text.chars().filter(|c| *c != ' ' && *c != ',').collect();
    let is_bound = |doc: &str| BOUNDS.contains(&doc.split(' ').next().unwrap_or_default());
    let bounds = SETTINGS.iter().filter(|setting| is_bound(setting.doc));
    let missing: Vec<String> = bounds
        .filter_map(|setting| Some((setting.key, setting.default?)))
        .filter(|(key, default)| {
            ["(", "|"].iter().all(|open| !text.contains(&format!("`{key}`{open}{default}")))
        })
        .map(|(key, default)| format!("{key} ({default})"))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

const MIB: u64 = 1 << 20;

/// A number of bytes, or of something else, as it is written for people.
fn number(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    let value: u64 = text[..end].replace(',', "").parse().expect(text);
    let unit = text[end..].trim();
    value * [("KiB", 1 << 10), ("MiB", MIB)].iter().find(|of| of.0 == unit).map_or(1, |of| of.1)
}

/// The example of how much memory and how many descriptors a server takes is by the formula above
/// it, with what was measured and what is the default.
#[test]
fn the_example_of_sizing_adds_up() {
    let read = |name: &str| {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("the document is there")
    };
    let operations = read("operations/start.md");
    let (_, table) = operations.split_once("| what | each | how many | memory |").expect("a table");
    let table: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .map_while(|row| Some(row.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect()))
        .collect();
    let (total, parts) = table.split_last().expect("rows");
    let mut sum = 0;
    for part in parts {
        let [what, each, many, memory] = part[..] else { panic!("{part:?}") };
        assert_eq!((number(each) * number(many)).div_ceil(MIB) * MIB, number(memory), "{what}");
        sum += number(memory);
    }
    assert_eq!(number(total.last().expect("a sum")), sum);

    let default = |key: &str| {
        let setting = SETTINGS.iter().find(|setting| setting.key == key).expect(key);
        number(setting.default.expect(key))
    };
    let measured = read("architectures/README.md");
    let row = measured.lines().find(|row| row.starts_with("| `amped` |")).expect("its row");
    let measured: Vec<&str> = row.split(" | ").collect();
    let caches = (default("cache.content") * 105 / 100).div_ceil(MIB) * MIB;
    let buffers = default("limit.head") + number("16 KiB");
    let (at_rest, idle) = (number(measured[1]), number(measured[2]));
    // The kernel's part, and that of TLS.
    let (kernel, session) = (number("4 KiB"), number("4 KiB"));
    let expected = [at_rest, caches, 64 * buffers, idle, kernel, session, buffers];
    let each: Vec<u64> = parts.iter().map(|part| number(part[1])).collect();
    assert_eq!(each[..7], expected);
    assert_eq!(each[7], default("send.piece"));
    let descriptors = 10_000 + default("cache.files") + 64;
    assert_eq!(descriptors, number("11,088"));
    assert!(operations.contains("10,000 + 1,024 + 64 = 11,088 descriptors"));
}
