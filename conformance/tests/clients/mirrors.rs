//! Whole trees and changed files arrive byte for byte: `wget --mirror` of Debian's documentation,
//! and zsync, which asks for many ranges at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::common_programs::served::{Served, put};
use crate::common_programs::{have, noise, on_every_architecture, program, run};

on_every_architecture! {
    [zsync_fetches_the_blocks_that_it_lacks]
    full [wget_mirrors_documentation_byte_for_byte]
}

/// Where the packages debian-policy, debian-faq and developers-reference put what they document.
const DOCUMENTATION: &[(&str, &str)] = &[
    ("policy", "/usr/share/doc/debian-policy"),
    ("faq", "/usr/share/doc/debian/FAQ"),
    ("reference", "/usr/share/developers-reference"),
];

fn wget_mirrors_documentation_byte_for_byte(arch: &str) {
    let missing = DOCUMENTATION.iter().find(|(_, path)| !Path::new(path).is_dir());
    if let Some((_, path)) = missing {
        return flyball_testkit::skip(&format!("no documentation in {path}"));
    }
    if !have(&["wget"]) {
        return;
    }
    let served = Served::start(arch, "listing = true", &[]);
    for (name, path) in DOCUMENTATION {
        copy_tree(Path::new(path), &served.root().join(name));
    }
    let mirror = served.beside("mirror");
    let mut wget = program("wget");
    wget.args(["--no-config", "--quiet", "--mirror", "--no-host-directories", "--no-parent"]);
    // The orders of a listing are the same files again.
    wget.args(["--execute=robots=off", "--no-proxy", "--tries=1", "--reject-regex=[?]"]);
    wget.arg("--directory-prefix").arg(&mirror).arg(served.url("/"));
    // It tells of links that lead nowhere, as some in the documentation do, by its status.
    let status = wget.status().expect("timeout starts").code();
    assert!(matches!(status, Some(0 | 8)), "{arch}: {status:?}");
    let (there, mirrored) = (files(&served.root()), files(&mirror));
    assert!(mirrored.len() > 120, "{arch}: {} files", mirrored.len());
    for (name, bytes) in &mirrored {
        match there.get(name) {
            Some(expected) => assert!(bytes == expected, "{arch}: {} differs", name.display()),
            None => assert!(name.ends_with("index.html"), "{arch}: {} is new", name.display()),
        }
    }
    // Nothing leads to some pictures, to second names of pages, and to one or two pages.
    let bodies: BTreeSet<&Vec<u8>> = mirrored.values().collect();
    let is_page = |name: &PathBuf| name.extension().is_some_and(|extension| extension == "html");
    let missing = there.iter().filter(|(name, bytes)| is_page(name) && !bodies.contains(bytes));
    let missing: Vec<_> = missing.map(|(name, _)| name).collect();
    assert!(missing.len() < 4, "{arch}: {missing:?}");
}

/// Copies regular files, and what links lead to.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("the documentation is there").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tree(&path, &to);
        } else if path.is_file() {
            fs::copy(&path, to).expect("a file can be copied");
        }
    }
}

/// The files below a directory, by their names in it.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("it is there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).expect("it is below").to_owned();
                found.insert(name, fs::read(path).expect("it can be read"));
            }
        }
    }
    found
}

/// Length of the file that has changed here and there.
const SYNCHRONISED: usize = 4 * 1024 * 1024 + 321;

fn zsync_fetches_the_blocks_that_it_lacks(arch: &str) {
    if !have(&["zsync", "zsyncmake"]) {
        return;
    }
    let log = tempfile::tempdir().expect("a temporary directory");
    let log = log.path().join("access.log");
    let served = Served::start(arch, "", &[&format!("access-log={}", log.display())]);
    let new = noise(31, SYNCHRONISED);
    let mut old = new.clone();
    for at in (50_000..SYNCHRONISED).step_by(400_000) {
        old[at..at + 3_000].fill(b'-');
    }
    put(&served.root().join("disk.img"), &new);
    put(&served.beside("old.img"), &old);
    let mut zsyncmake = program("zsyncmake");
    zsyncmake.args(["-b", "2048", "-u", "disk.img", "-o"]);
    let list = served.root().join("disk.img.zsync");
    run(zsyncmake.arg(&list).arg(served.root().join("disk.img")));
    let mut zsync = program("zsync");
    zsync.current_dir(served.around()).arg("-q").arg("-i").arg(served.beside("old.img"));
    run(zsync.arg("-o").arg(served.beside("new.img")).arg(served.url("/disk.img.zsync")));
    let found = fs::read(served.beside("new.img")).expect("zsync has written it");
    assert!(found == new, "{arch}: what zsync put together is not the file");
    let _directory = served.stop();
    let log = fs::read_to_string(log).expect("the log was written");
    let parts =
        log.lines().filter(|line| line.contains("GET /disk.img ") && line.contains("\" 206 "));
    let bytes = parts.map(|line| line.split("\" 206 ").nth(1).expect("its length"));
    let bytes: usize =
        bytes.map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert!((30_000..400_000).contains(&bytes), "{arch}: {bytes} bytes in parts: {log}");
}
