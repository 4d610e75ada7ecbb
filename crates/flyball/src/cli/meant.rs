//! What people type who know other servers by heart: a directory, a port or a file where a
//! subcommand is expected, as in `flyball .`, `flyball 8000` and `flyball site.toml`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The subcommand that is meant, and what comes before the word that was typed.
type Before = &'static [&'static str];

/// The subcommand that clap adds.
const HELP: &str = "help";

const SERVE: Before = &["serve"];
const SERVE_AT_PORT: Before = &["serve", "--port"];

/// The command line, whose first item is the program's name, with a subcommand before the first
/// word where that is none but names a directory, a configuration file or a port. Subcommands win.
/// Blocks on the disk.
pub fn meant(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let program = super::program();
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_known = |word: &OsStr| word == HELP || program.find_subcommand(word).is_some();
    let first = arguments.get(1).filter(|word| !is_known(word));
    if let Some(before) = first.and_then(|word| before(word)) {
        arguments.splice(1..1, before.iter().map(OsString::from));
    }
    arguments
}

fn before(word: &OsStr) -> Option<Before> {
    if word.to_str().is_some_and(is_port) {
        return Some(SERVE_AT_PORT);
    }
    let path = Path::new(word);
    (path.is_dir() || is_configuration(path)).then_some(SERVE)
}

fn is_port(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) && word.parse::<u16>().is_ok()
}

/// Whether a file is there whose name says that it is a configuration.
pub(super) fn is_configuration(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml") && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &[&str]) -> Vec<String> {
        let told = meant(words.iter().map(OsString::from));
        told.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_directory_a_port_and_a_file_are_served() {
        assert_eq!(told(&["flyball", "."]), ["flyball", "serve", "."]);
        assert_eq!(told(&["flyball", "src"]), ["flyball", "serve", "src"]);
        assert_eq!(told(&["flyball", "8000"]), ["flyball", "serve", "--port", "8000"]);
        assert_eq!(told(&["flyball", "Cargo.toml"]), ["flyball", "serve", "Cargo.toml"]);
        assert_eq!(told(&["flyball", ".", "--https"]), ["flyball", "serve", ".", "--https"]);
    }

    #[test]
    fn what_is_a_subcommand_or_names_nothing_stays() {
        for words in [
            &["flyball"][..],
            &["flyball", "help"],
            &["flyball", "check"],
            &["flyball", "--help"],
            &["flyball", "serv"],
            &["flyball", "65536"],
            &["flyball", "build.rs"],
        ] {
            assert_eq!(told(words), words);
        }
    }
}
