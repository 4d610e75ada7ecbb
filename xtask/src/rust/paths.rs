//! The paths that a file names, with grouped imports written out.

use super::Token;

/// One path, for example `std::fs::read`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Its segments; a final `self` of an import is left out, `*` is a segment.
    pub(crate) segments: Vec<String>,
    /// Line of its last segment.
    pub(crate) line: usize,
}

impl Path {
    /// Whether the segments of `pattern` (joined by `::`) stand next to each other in this path.
    pub(crate) fn contains(&self, pattern: &str) -> bool {
        let wanted: Vec<&str> = pattern.split("::").collect();
        self.segments.windows(wanted.len()).any(|window| window == wanted)
    }
}

/// Every path in `tokens`, single words included, and every path that a `use` brings in.
pub(crate) fn paths(tokens: &[Token<'_>]) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text == "use" {
            at = import(tokens, at + 1, &[], &mut paths);
        } else if tokens[at].is_word() {
            at = inline(tokens, at, &mut paths);
        } else {
            at += 1;
        }
    }
    paths
}

/// Reads the path that begins at `at`; returns the index behind it.
fn inline(tokens: &[Token<'_>], mut at: usize, paths: &mut Vec<Path>) -> usize {
    let mut segments = vec![tokens[at].text.to_string()];
    let mut line = tokens[at].line;
    while let [separator, word, ..] = &tokens[at + 1..]
        && separator.text == "::"
        && word.is_word()
    {
        segments.push(word.text.to_string());
        line = word.line;
        at += 2;
    }
    paths.push(Path { segments, line });
    at + 1
}

/// Reads one tree of an import, below `prefix`; returns the index behind it.
fn import(tokens: &[Token<'_>], mut at: usize, prefix: &[String], paths: &mut Vec<Path>) -> usize {
    let mut segments = prefix.to_vec();
    let mut line = tokens.get(at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => {}
            "{" => return group(tokens, at + 1, &segments, paths),
            "as" => {
                at += 2; // The new name is not a path.
                break;
            }
            "self" if !segments.is_empty() => {}
            "*" => segments.push("*".to_string()),
            _ if token.is_word() => {
                segments.push(token.text.to_string());
                line = token.line;
            }
            _ => break,
        }
        at += 1;
    }
    paths.push(Path { segments, line });
    at
}

/// Reads the members of `{ ... }`, from behind its opening brace; returns the index behind it.
fn group(tokens: &[Token<'_>], mut at: usize, prefix: &[String], paths: &mut Vec<Path>) -> usize {
    while let Some(token) = tokens.get(at) {
        at = match token.text {
            "}" => return at + 1,
            "," => at + 1,
            _ => import(tokens, at, prefix, paths).max(at + 1),
        };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    fn found(code: &str) -> Vec<String> {
        paths(&tokens(code)).into_iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn inline_paths_are_found_whole() {
        assert_eq!(found("std::fs::read(x::y)"), ["std::fs::read", "x::y"]);
        assert_eq!(found("Vec::<u8>::new()"), ["Vec", "u8", "new"]);
    }

    #[test]
    fn grouped_imports_are_written_out() {
        assert_eq!(
            found("use std::{fs, net::{self, IpAddr as Ip}, io::*}; a::b"),
            ["std::fs", "std::net", "std::net::IpAddr", "std::io::*", "a::b"]
        );
        assert_eq!(found("pub use ::std::fs as f; c"), ["pub", "std::fs", "c"]);
        assert_eq!(found("use self::a::B;"), ["self::a::B"]);
    }

    #[test]
    fn a_pattern_matches_whole_segments_anywhere_in_the_path() {
        let path = &paths(&tokens("use std::net::TcpStream;"))[0];
        assert!(path.contains("std::net"));
        assert!(path.contains("TcpStream"));
        assert!(!path.contains("std::ne"));
        assert!(!path.contains("net::std"));
        assert_eq!(path.line, 1);
    }

    #[test]
    fn unfinished_imports_end() {
        assert_eq!(found("use a::{b, c"), ["a::b", "a::c"]);
        assert_eq!(found("use"), [""]);
        assert_eq!(found("use a::{;}"), ["a"]);
    }
}
