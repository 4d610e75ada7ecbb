//! Configuration files that cannot be read: which one, and why.

use std::path::Path;
use std::process::Command;

use flyball::settings::{FILE_BYTES_MAX, read, resolve_in};

/// The only error of a file.
fn error(path: &Path) -> String {
    let told = match read(path) {
        Err(errors) => errors,
        Ok(typed) => resolve_in(&typed, &["n-copy"], &|_| None).unwrap_err(),
    };
    assert_eq!(told.len(), 1, "{told:?}");
    told[0].to_string()
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing.toml");
    assert!(error(&path).starts_with(&format!("{}: cannot be read: ", path.display())));
    assert!(error(directory.path()).contains(": cannot be read: "));

    let path = directory.path().join("latin1.toml");
    std::fs::write(&path, b"workers = 1\n# caf\xe9\n").unwrap();
    assert_eq!(error(&path), format!("{}:2: is not UTF-8", path.display()));

    let path = directory.path().join("long.toml");
    std::fs::write(&path, "\n".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
    let why = "cannot be read: is longer than 1048576 bytes";
    assert_eq!(error(&path), format!("{}: {why}", path.display()));
    std::fs::write(&path, "\n".repeat(FILE_BYTES_MAX as usize)).unwrap();
    assert!(read(&path).is_ok());
}

/// No one writes to it: the master would wait for good.
#[test]
fn a_pipe_is_no_configuration_and_no_table_of_users() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let pipe = at("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let why = format!("{}: cannot be read: is not a file", pipe.display());
    assert_eq!(error(&pipe), why);
    std::fs::write(at("by.toml"), "include = \"pipe.toml\"\n").unwrap();
    assert_eq!(error(&at("by.toml")), why);
    let table = "root = \".\"\nuser-directories = \"www\"\nuser-table = \"pipe.toml\"\n";
    std::fs::write(at("table.toml"), format!("[[site]]\n{table}")).unwrap();
    let told = error(&at("table.toml"));
    assert!(told.ends_with("pipe.toml cannot be read: is not a file"), "{told}");
}

/// The linker would wait for a writer, or for the next line of the kernel's log.
#[test]
fn what_is_no_shared_object_is_no_module_and_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    std::fs::write(at("text"), "GROUP(a.so)").unwrap();
    for (library, why) in [
        (at("pipe"), "pipe: is not a file"),
        (at("text"), "text is no shared object"),
        ("/proc/kmsg".into(), "/proc/kmsg"),
        ("/proc/version".into(), "/proc/version is no shared object"),
    ] {
        let module = format!("[[site.module]]\npath = \"/m\"\nlibrary = {library:?}\n");
        std::fs::write(at("site.toml"), format!("[[site]]\nroot = \".\"\n{module}")).unwrap();
        let told = error(&at("site.toml"));
        assert!(told.contains("library: ") && told.contains(why), "{told}");
    }
}
