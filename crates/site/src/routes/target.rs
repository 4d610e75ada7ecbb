//! Where a rule leads: a text in which `$1` stands for what the pattern's first group found.

use crate::path;

use super::pattern::{GROUPS_MAX, Groups};

/// A text with places for groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pieces: Vec<Piece>,
    /// How many pieces stand before the fragment.
    fragment_at: usize,
    has_query: bool,
    /// True when it begins with a slash, false when with a scheme and a host.
    is_path: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// As it is sent.
    Literal(Vec<u8>),
    Group(usize),
    /// The host of the request.
    Host,
}

/// What the places of a target are filled from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    /// The canonical path.
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a [u8],
    /// The host that was asked for, without its port.
    pub(crate) host: &'a [u8],
}

impl Target {
    /// Reads a path or a URL for a pattern with this many groups.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn parse(text: &str, groups: usize) -> Result<Target, String> {
        let is_path = text.starts_with('/');
        if let Some(host) = text.split_once("://").map(|(_, rest)| rest) {
            let host = host.split(['/', '?', '#']).next().unwrap_or(host);
            if !is_path && host.replace(HOST, "").contains('$') {
                return Err("a group cannot stand in the host, nor right after it".into());
            }
        }
        let (before, fragment) = match text.find('#') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let mut pieces = pieces(before, groups)?;
        let fragment_at = pieces.len();
        pieces.extend(self::pieces(fragment, groups)?);
        Ok(Target { pieces, fragment_at, has_query: before.contains('?'), is_path })
    }

    /// Whether it has a query of its own.
    pub(crate) fn has_query(&self) -> bool {
        self.has_query
    }

    /// Whether the host of a request has a place in it.
    pub(crate) fn names_host(&self) -> bool {
        self.pieces.contains(&Piece::Host)
    }

    /// Appends the text for what was sent and its groups, as a value of `Location`. The query is
    /// put in unless there is one already.
    ///
    /// What a group brings is percent-encoded but for its slashes; a path never begins with two
    /// slashes, which a client would read as the name of another host (RFC 3986, section 4.2).
    pub(crate) fn write(&self, sent: &Sent<'_>, groups: &Groups, out: &mut Vec<u8>) {
        let start = out.len();
        let (before, fragment) = self.pieces.split_at(self.fragment_at);
        write_pieces(before, sent, groups, out);
        if self.is_path {
            let slashes = out[start..].iter().take_while(|&&byte| byte == b'/').count();
            out.drain(start + 1..start + slashes.max(1));
        }
        if !self.has_query && !sent.query.is_empty() {
            out.push(b'?');
            path::encode_query(sent.query, out);
        }
        write_pieces(fragment, sent, groups, out);
    }
}

fn write_pieces(pieces: &[Piece], sent: &Sent<'_>, groups: &Groups, out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text),
            Piece::Host => out.extend_from_slice(sent.host),
            Piece::Group(number) => {
                let range = groups.get(*number).cloned().flatten().unwrap_or_default();
                write_group(sent.path.get(range).unwrap_or_default(), out);
            }
        }
    }
}

fn write_group(text: &[u8], out: &mut Vec<u8>) {
    for (at, segment) in text.split(|&byte| byte == b'/').enumerate() {
        if at > 0 {
            out.push(b'/');
        }
        path::encode_segment(segment, out);
    }
}

/// Splits a text at its dollar signs.
fn pieces(text: &str, groups: usize) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut parts = text.split('$');
    let mut literal = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        let mut letters = part.chars();
        match letters.next() {
            // The part between two dollar signs is empty: what follows them is not a group.
            None => match parts.next() {
                Some(after) => {
                    literal.push('$');
                    literal.push_str(after);
                }
                None => return Err(DOLLAR.into()),
            },
            Some(digit) if digit.is_ascii_digit() => {
                let number = digit as usize - '0' as usize;
                if number > groups {
                    return Err(match groups {
                        0 => format!("there is no group ${number}: `from` has none"),
                        1 => format!("there is no group ${number}: `from` has one"),
                        _ => format!("there is no group ${number}: `from` has {groups}"),
                    });
                }
                pieces.push(Piece::Literal(encoded(&literal)?));
                pieces.push(Piece::Group(number.min(GROUPS_MAX)));
                literal = letters.as_str().to_owned();
            }
            Some(_) => {
                let after = format!("${part}");
                let Some(after) = after.strip_prefix(HOST) else { return Err(DOLLAR.into()) };
                pieces.push(Piece::Literal(encoded(&literal)?));
                pieces.push(Piece::Host);
                literal = after.to_owned();
            }
        }
    }
    pieces.push(Piece::Literal(encoded(&literal)?));
    pieces.retain(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()));
    Ok(pieces)
}

const DOLLAR: &str =
    "after `$` comes the number of a group, or `host`; a dollar sign itself is `$$`";

/// What stands for the host of the request.
pub(crate) const HOST: &str = "$host";

/// Whether a host that a client names may be told where it is to go: a name or an address, and none
/// of the other characters that a URI allows there.
pub(crate) fn is_host(host: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(byte);
    !host.is_empty() && host.iter().all(is_plain)
}

/// What was written, with what a URI cannot hold percent-encoded (RFC 3986, section 2).
fn encoded(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        match letter {
            '%' => {
                let digits = text.as_bytes().get(at + 1..at + 3).unwrap_or_default();
                if digits.len() < 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err("after `%` come two hexadecimal digits".into());
                }
                out.push(b'%');
            }
            '\\' => return Err("a backslash cannot stand in a URL".into()),
            control if control.is_control() => {
                return Err("a control character cannot stand in a URL".into());
            }
            letter if letter.is_ascii_graphic() && !"\"<>^`{|}".contains(letter) => {
                out.push(letter as u8);
            }
            letter => path::encode_segment(letter.encode_utf8(&mut [0; 4]).as_bytes(), &mut out),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{Pattern, canonical};
    use super::*;
    use proptest::prelude::*;

    fn location(from: &str, to: &str, path: &str, query: &str) -> String {
        let pattern = Pattern::parse(from).unwrap();
        let target = Target::parse(to, pattern.groups()).unwrap();
        let path = canonical(path.as_bytes()).unwrap();
        let mut out = b"kept ".to_vec();
        let groups = pattern.groups_in(&path).expect("the pattern matches");
        let sent = Sent { path: &path, query: query.as_bytes(), host: b"asked.test" };
        target.write(&sent, &groups, &mut out);
        String::from_utf8(out).unwrap().strip_prefix("kept ").unwrap().to_owned()
    }

    #[test]
    fn groups_are_put_in_and_encoded() {
        for (from, to, path, expected) in [
            ("/a", "/b", "/a", "/b"),
            ("/old/*", "/new/$1", "/old/x/y", "/new/x/y"),
            ("/old/*", "/new/$1", "/old/", "/new/"),
            ("/old/*", "/new$0", "/old/x", "/new/old/x"),
            (r"~^/u/(\d+)/(\w+)$", "/$2/$1.html", "/u/7/bob", "/bob/7.html"),
            ("/old/*", "/q?p=$1", "/old/a%26b=c", "/q?p=a%26b%3Dc"),
            ("/old/*", "/new/$1", "/old/a%0Db", ""),
            ("/old/*", "/new/$1", "/old/AC%2fDC/a%5Cb/caf%e9", "/new/AC%2FDC/a%5Cb/caf%E9"),
            ("~^/old/(.)(.+)$", "/$1/$2", "/old/%FF%2F%FE", "/%FF/%2F%FE"),
            ("/old/*", "/cost/$$$1", "/old/5", "/cost/$5"),
            ("/old/*", "/gr\u{fc}n/ $1", "/old/\u{fc}", "/gr%C3%BCn/%20%C3%BC"),
            ("/a", "https://example.org", "/a", "https://example.org"),
            ("/*", "https://example.org/$1", "/x", "https://example.org/x"),
        ] {
            if canonical(path.as_bytes()).is_some() {
                assert_eq!(location(from, to, path, ""), expected, "{from} {path}");
            } else {
                assert_eq!(expected, "", "{path}");
            }
        }
    }

    #[test]
    fn the_query_is_kept_unless_the_target_has_one() {
        assert_eq!(location("/a", "/b", "/a", "x=1"), "/b?x=1");
        assert_eq!(location("/a", "/b?y=2", "/a", "x=1"), "/b?y=2");
        assert_eq!(location("/a", "/b?", "/a", "x=1"), "/b?");
        assert_eq!(location("/a", "/b#c", "/a", "x=1"), "/b?x=1#c");
        assert_eq!(location("/a", "/b#c?d", "/a", "x=1"), "/b?x=1#c?d");
    }

    #[test]
    fn the_host_that_was_asked_for_is_put_in() {
        for (to, expected) in [
            ("https://$host/$1", "https://asked.test/x?q"),
            ("https://www.$host:8443", "https://www.asked.test:8443?q"),
            ("/for/$host?at=$1", "/for/asked.test?at=x"),
        ] {
            assert_eq!(location("/a/*", to, "/a/x", "q"), expected);
        }
        assert!(Target::parse("https://$host", 0).unwrap().names_host());
        for host in ["a.test", "A-1_b.test", "[::1]", "10.0.0.1"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in ["", "a%2f", "a@b", "a/b", "a,b", "a b", "a\\b", "a$", "\u{fc}"] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn a_group_never_becomes_a_host() {
        assert_eq!(location("~^/go(/.*)$", "/$1", "/go/evil.test", ""), "/evil.test");
        assert_eq!(location("~^/go(.*)$", "/$1", "/go/evil.test/", ""), "/evil.test/");
        assert_eq!(location("~^/go/(.*)$", "/$1", "/go//evil.test", ""), "/evil.test");
        assert_eq!(location("~^/go/(.*)$", "/$1", "/go/http:/evil", ""), "/http%3A/evil");
        for to in ["https://$1/", "https://a$1", "https://a$1/b", "//$1", "http://$host$1"] {
            let told = Target::parse(to, 1);
            assert!(told.is_err() || to == "//$1", "{to}");
        }
    }

    #[test]
    fn what_is_no_target_is_told() {
        for (to, why) in [
            ("/$2", "there is no group $2: `from` has one"),
            ("/$x", DOLLAR),
            ("/$", DOLLAR),
            ("/a%zz", "after `%` come two hexadecimal digits"),
            ("/a\\b", "a backslash cannot stand in a URL"),
            ("/a\nb", "a control character cannot stand in a URL"),
        ] {
            assert_eq!(Target::parse(to, 1).unwrap_err(), why);
        }
        assert_eq!(Target::parse("/$1", 0).unwrap_err(), "there is no group $1: `from` has none");
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_the_location_stays_on_this_host(
            path in "/go[/a.%:@2fF\\\\]{0,12}",
            to in prop::sample::select(vec!["/$1", "$0", "/./$1", "/a$1", "/a/../$1"]),
        ) {
            let Some(path) = canonical(path.as_bytes()) else { return Ok(()) };
            let pattern = Pattern::parse("~^/go(.*)$").unwrap();
            let to = if to == "$0" { "/$0" } else { to };
            let target = Target::parse(to, 1).unwrap();
            let Some(groups) = pattern.groups_in(&path) else { return Ok(()) };
            let mut out = Vec::new();
            let sent = Sent { path: &path, query: b"", host: b"" };
            target.write(&sent, &groups, &mut out);
            prop_assert!(out.starts_with(b"/") && !out.starts_with(b"//"));
            let twice = Target::parse("//$1", 1).unwrap();
            let mut other = Vec::new();
            twice.write(&sent, &groups, &mut other);
            prop_assert!(!other.starts_with(b"//"));
            prop_assert!(out.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\'));
        }
    }
}
