//! Configuration files.

use std::path::Path;
use std::sync::Arc;

use flyball::settings::{ERRORS_MAX, Origin, SettingError, parse, resolve_in};

pub(crate) const WORDS: &[&[u8]] = &[
    b"[[site]]\n",
    b"root = \".\"\n",
    b"host = [\"*\"]\n",
    b"arch = \"sped\"\n",
    b"workers = 2\n",
    b"listen = [\"127.0.0.1:1\"]\n",
    b"drain = \"30s\"\n",
    b"[limits]\n",
    b"[accept]\n",
    b"limit = \"inf\"\n",
    b"${HOME}",
    b"${A:-b}",
    b"$${",
    b"${",
    b"}",
    b"\"",
    b"'",
    b"\"\"\"",
    b"#",
    b"=",
    b".",
    b"[",
    b"]",
    b"{",
    b"\n",
    b"\\u0000",
    b"\\",
    b"true",
    b"-1",
    b"1e999",
    b"0x10",
    b"99999999999999999999",
    b"1979-05-27",
    b"256KiB",
    b"\xc3\xa9",
    b"\xf0\x9f\x92\xa9",
];

/// Any text as a configuration: each error says what is wrong, and on which of its lines.
///
/// # Panics
/// When one does not.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let path: Arc<Path> = Path::new("fuzz.toml").into();
    let read = parse(path, &text)
        .and_then(|typed| resolve_in(&typed, &["sped", "mt"], &|_| Some("x".into())).map(drop));
    let Err(errors) = read else { return };
    assert!(!errors.is_empty() && errors.len() <= ERRORS_MAX);
    errors.iter().for_each(|error| check(error, &text));
}

fn check(error: &SettingError, text: &str) {
    assert!(!error.why.is_empty());
    assert!(!error.to_string().is_empty());
    if let Origin::File { line: Some(line), .. } = error.origin {
        let lines = text.matches('\n').count() + 1;
        assert!(line >= 1 && line <= lines, "line {line} of {lines}");
    }
}
