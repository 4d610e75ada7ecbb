//! A configuration that is kept in several files.

use std::path::Path;

use flyball::settings::{self, Typed};
use tempfile::TempDir;

use crate::common::{Launch, Site, ctl, get, text, told, within};

/// A directory with these files, the first of which is the configuration.
fn files(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, lines) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::write(path, lines).expect("it is written");
    }
    directory
}

fn read(directory: &TempDir) -> Typed {
    settings::read(&within(directory, "main.toml")).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// The errors, without the directory.
fn errors(directory: &TempDir) -> Vec<String> {
    let here = format!("{}/", directory.path().display());
    let wrong = match settings::read(&within(directory, "main.toml")) {
        Err(wrong) => wrong,
        Ok(typed) => settings::resolve(&typed, &["n-copy"]).expect_err("it is wrong"),
    };
    wrong.iter().map(|error| error.to_string().replace(&here, "")).collect()
}

const SITE: &str = "[[site]]\nroot = \".\"\nhosts = ";

#[test]
fn files_are_read_in_the_order_of_their_names_each_once_with_paths_of_their_own() {
    let directory = files(&[
        ("main.toml", "include = [\"sites/*.toml\", \"more.toml\"]\nworkers = 2\n"),
        ("sites/b.toml", &format!("{SITE}\"b.test\"\n")),
        ("sites/a.toml", &format!("include = \"../more.toml\"\n{SITE}\"a.test\"\n")),
        // What an editor leaves, and what is called otherwise.
        ("sites/.c.toml", "wrong"),
        ("sites/d.toml~", "wrong"),
        ("more.toml", "include = \"main.toml\"\ndrain = \"5s\"\n"),
    ]);
    let typed = read(&directory);
    let names: Vec<String> = typed
        .included
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["a.toml", "b.toml", "more.toml"]);
    let settings = settings::resolve(&typed, &["n-copy"]).unwrap();
    assert_eq!((settings.workers, settings.drain_ms), (Some(2), 5_000));
    let hosts: Vec<&str> = settings.sites.iter().map(|site| &*site.hosts[0]).collect();
    assert_eq!(hosts, ["a.test", "b.test"]);
    let mut roots = settings.sites.iter().filter_map(|site| site.root.as_deref());
    assert!(roots.all(|root| root.ends_with("sites")));
    assert_eq!(settings.running.files.len(), 4);
}

#[test]
fn a_pattern_that_fits_no_file_is_a_warning() {
    let directory = files(&[
        ("main.toml", &format!("workers = 1\ninclude = \"sites/*.tml\"\n{SITE}\"x.test\"\n")),
        ("sites/a.toml", &format!("{SITE}\"a.test\"\n")),
    ]);
    let settings = settings::resolve(&read(&directory), &["n-copy"]).unwrap();
    let main = within(&directory, "main.toml");
    let pattern = within(&directory, "sites/*.tml");
    let told = format!("{}:2: include: {} fits no file", text(&main), text(&pattern));
    assert_eq!(settings.running.notes, [told]);
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_line() {
    let main = |include: &str| format!("# a comment\ninclude = {include}\n{SITE}\"x.test\"\n");
    for (include, other, told) in [
        ("\"sites/none.toml\"", "", "sites/none.toml: cannot be read: No such file or directory"),
        ("\"nowhere/*.toml\"", "", "main.toml:2: include: nowhere cannot be read: No such file"),
        ("\"*/a.toml\"", "", "*/a.toml: cannot be read: No such file"),
        ("\"*/*.toml\"", "", "main.toml:2: include: a pattern stands in the last part of a path"),
        ("[5]", "", "main.toml:2: include: expected a path such as \"sites/*.toml\", found 5"),
        ("\"other.toml\"", "\n\nworkers = 0", "other.toml:3: workers: expected an integer"),
        ("\"other.toml\"", "worker = 1", "other.toml:1: worker: unknown key; did you mean"),
        ("\"other.toml\"", "drain = = 1", "other.toml:1: "),
    ] {
        let directory = files(&[("main.toml", &main(include)), ("other.toml", other)]);
        let said = errors(&directory);
        assert!(said.len() == 1 && said[0].starts_with(told), "{include}: {said:?}");
    }
    let directory = files(&[
        ("main.toml", &format!("include = \"other.toml\"\ndrain = \"1s\"\n{SITE}\"x.test\"\n")),
        ("other.toml", "drain = \"2s\"\n"),
    ]);
    let said = errors(&directory);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("other.toml:1: drain: is written already, at ")
            && said[0].ends_with("main.toml:2"),
        "{said:?}"
    );
    // A pattern that nothing fits is none yet.
    let directory = files(&[("main.toml", &main("\"*.conf\""))]);
    assert!(read(&directory).included.is_empty());
}

#[test]
fn a_reload_reads_all_files_again() {
    let site = Site::with(&[("page", b"page")]);
    let directory = files(&[("main.toml", ""), ("sites/a.toml", "")]);
    let write = |name: &str, lines: &str| {
        std::fs::write(directory.path().join(name), lines).expect("it is written");
    };
    let admin = within(&directory, "admin");
    write(
        "main.toml",
        "listen = \"127.0.0.1:0\"\nworkers = 1\nadmin = \"unix:admin\"\n\
         include = \"sites/*.toml\"\n",
    );
    let of_site = |host: &str| {
        format!("[[site]]\nhosts = {host:?}\nroot = {:?}\n", site.path().display().to_string())
    };
    write("sites/a.toml", &of_site("a.test"));
    let main = within(&directory, "main.toml");
    // Named without --config: it is known by its name.
    let server = Launch::bare::<&str>(&[]).asked().arg(text(&main)).start();
    let ask = |host: &str| {
        let request = get("/page").replace("Host: localhost", &format!("Host: {host}"));
        server.connect().ask(request).status()
    };
    assert_eq!((ask("a.test"), ask("b.test")), (200, 421));
    write("sites/b.toml", &of_site("b.test"));
    told(&admin, &["reload"]);
    assert_eq!((ask("a.test"), ask("b.test")), (200, 200));
    // One that is wrong changes nothing, and is named.
    write("sites/b.toml", "[[site]]\nrot = 1\n");
    let said = ctl(&admin, &["reload"]);
    assert!(!said.status.success());
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("sites/b.toml:2: site.rot: unknown key"), "{said}");
    assert_eq!((ask("a.test"), ask("b.test")), (200, 200));
    std::fs::remove_file(directory.path().join("sites/b.toml")).expect("it is removed");
    told(&admin, &["reload"]);
    assert_eq!((ask("a.test"), ask("b.test")), (200, 421));
}

/// Not of the command line, where it would be read too late.
#[test]
fn it_is_a_key_of_files() {
    let typed = match flyball::cli::parse(["flyball", "serve", "--set", "include=a.toml"]) {
        Ok(flyball::cli::Command::Serve(typed)) => typed,
        other => panic!("{other:?}"),
    };
    let errors = settings::resolve(&typed, &["n-copy"]).expect_err("it is wrong");
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["--set include: is written in a file: name that by --config"]);
    assert!(Path::new("src").is_dir(), "the current one is served");
}
