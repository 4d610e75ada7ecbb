//! From the path of a request to the name of a file beneath a root, and back to a link.
//!
//! The path is the client's choice, so this is where traversal is stopped by syntax. The second
//! line of defence is the kernel's: files are opened beneath the root whatever their name is.

use std::borrow::Cow;

/// Longest name of one file, in bytes (Linux: `NAME_MAX`).
pub const SEGMENT_BYTES_MAX: usize = 255;

/// Bytes of the longest file path with its closing NUL (Linux: `PATH_MAX`), so 4,095 without it.
pub const PATH_BYTES_MAX: usize = 4_096;

/// The one directory with a leading dot that is always served (RFC 8615, section 3).
const WELL_KNOWN: &[u8] = b".well-known";

/// Stands in a decoded path for a slash that was encoded: there it is a byte of a name, and ends
/// none. NUL because no name that the kernel is given can hold it: no file is ever opened by it.
pub(crate) const ENCODED_SLASH: u8 = 0;

/// What the form of a path asks for; what the file system holds may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapped {
    /// The path does not end in a slash.
    File,
    /// The path ends in a slash, or in a dot segment, or is the root.
    Directory,
}

/// Why a path names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathError {
    /// Not a path that any client should send: answered with 400.
    Malformed,
    /// A name that begins with a dot: answered with 404, as if it did not exist.
    Hidden,
    /// A name or path longer than any file can have: answered with 404.
    TooLong,
}

/// Decodes, normalises and checks the path of a request: still percent-encoded, without its query.
///
/// The result goes into `relative`, which is cleared first and left empty on an error: segments
/// joined by single slashes, none at either end, `.` for the root. The buffer's capacity is reused,
/// so nothing is allocated once it has grown to the longest path seen. Nothing blocks.
///
/// * Octets are percent-decoded exactly once (RFC 3986, section 2.4), in whatever encoding.
/// * An encoded slash is data, not a separator (RFC 3986, section 2.2): [`ENCODED_SLASH`].
/// * Empty segments are dropped, then `.` and `..` are resolved (RFC 3986, section 5.2.4), whether
///   they were encoded or not: `/a//../b` is `/b`, as the file system would have it.
/// * Climbing above the root is an error. RFC 3986 would clamp it there, but no honest client sends
///   such a path, and a refusal tells it so.
/// * A file cannot be reached by a name with a leading dot unless `hidden` is true; only a first
///   segment that is exactly `.well-known` is exempt, not the names beneath it.
/// * An empty path is the root (RFC 9110, section 4.2.3).
///
/// The first fault in reading order decides; [`PathError::Hidden`] is only said of a path that has
/// no other fault.
pub fn map(path: &[u8], hidden: bool, relative: &mut Vec<u8>) -> Result<Mapped, PathError> {
    relative.clear();
    let mapped = normalise(path, relative).and_then(|mapped| {
        let shown = hidden || !has_hidden_segment(relative);
        if shown { Ok(mapped) } else { Err(PathError::Hidden) }
    });
    match mapped {
        Ok(_) if relative.is_empty() => relative.push(b'.'),
        Ok(_) => {}
        Err(_) => relative.clear(),
    }
    mapped
}

/// Appends the segments of `path` to the empty `relative`; the root leaves it empty.
fn normalise(path: &[u8], relative: &mut Vec<u8>) -> Result<Mapped, PathError> {
    let segments = match path {
        [] => path,
        [b'/', segments @ ..] => segments,
        _ => return Err(PathError::Malformed),
    };
    let mut mapped = Mapped::Directory;
    for segment in segments.split(|&byte| byte == b'/') {
        mapped = append(segment, relative)?;
        if relative.len() >= PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
    }
    Ok(mapped)
}

/// Appends one decoded segment and says what the path would ask for if it ended here.
fn append(segment: &[u8], relative: &mut Vec<u8>) -> Result<Mapped, PathError> {
    let parent = relative.len();
    if parent > 0 {
        relative.push(b'/');
    }
    let start = relative.len();
    decode(segment, relative)?;
    match &relative[start..] {
        // Taken as separators, they would climb.
        name if has_dot_part(name) => return Err(PathError::Malformed),
        b"" | b"." => relative.truncate(parent),
        b".." if parent == 0 => return Err(PathError::Malformed),
        b".." => {
            let above = memchr::memrchr(b'/', &relative[..parent]).unwrap_or(0);
            relative.truncate(above);
        }
        _ => return Ok(Mapped::File),
    }
    Ok(Mapped::Directory)
}

/// Percent-decodes one segment (RFC 3986, section 2.1) to the end of `relative`.
fn decode(segment: &[u8], relative: &mut Vec<u8>) -> Result<(), PathError> {
    let end = relative.len() + SEGMENT_BYTES_MAX;
    let mut bytes = segment.iter();
    while let Some(&byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let high = bytes.next().copied().and_then(hex_digit).ok_or(PathError::Malformed)?;
                let low = bytes.next().copied().and_then(hex_digit).ok_or(PathError::Malformed)?;
                high << 4 | low
            }
            // No URI holds one as it is, and browsers read it as a slash (URL Standard).
            b'\\' => return Err(PathError::Malformed),
            byte => byte,
        };
        let byte = match byte {
            b'/' => ENCODED_SLASH,
            // NUL ends a name for the kernel: another file would be opened than was checked. The
            // others forge lines in logs, terminals and header fields.
            control if control.is_ascii_control() => return Err(PathError::Malformed),
            byte => byte,
        };
        if relative.len() == end {
            return Err(PathError::TooLong);
        }
        relative.push(byte);
    }
    Ok(())
}

/// True when a name holds a dot segment once an encoded slash or a backslash counts as a separator.
fn has_dot_part(name: &[u8]) -> bool {
    memchr::memchr2(ENCODED_SLASH, b'\\', name).is_some()
        && name
            .split(|&byte| matches!(byte, ENCODED_SLASH | b'\\'))
            .any(|part| matches!(part, b"." | b".."))
}

/// Whether a file of this name can be asked for: what links to one is not refused for its form.
pub(crate) fn can_be_asked_for(name: &[u8]) -> bool {
    !name.iter().any(u8::is_ascii_control) && !has_dot_part(name)
}

/// Whether a path that is still percent-encoded holds a dot segment (RFC 3986, section 3.3).
pub(crate) fn has_dot_segment(path: &[u8]) -> bool {
    let after_dot = |rest: &'_ [u8]| match rest {
        [b'.', ..] => Some(1),
        [b'%', b'2', b'e' | b'E', ..] => Some(3),
        _ => None,
    };
    path.split(|&byte| byte == b'/').any(|segment| {
        let first = after_dot(segment).unwrap_or(0);
        let second = after_dot(&segment[first..]).unwrap_or(0);
        first > 0 && first + second == segment.len()
    })
}

/// The other reading of a decoded path or URL, in which each encoded slash ends a name; `None` when
/// there is none.
pub(crate) fn read_as_separators(path: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(ENCODED_SLASH, path)?;
    let is_separator = |byte: &u8| matches!(*byte, b'/' | ENCODED_SLASH);
    let names = path.split(is_separator).filter(|name| !name.is_empty());
    let mut read = if path.starts_with(b"/") { vec![b'/'] } else { Vec::new() };
    read.extend(names.collect::<Vec<_>>().join(&b'/'));
    if path.last().is_some_and(is_separator) && read.last().is_some_and(|last| *last != b'/') {
        read.push(b'/');
    }
    Some(read)
}

/// Writes the encoded slashes of a decoded path as `%2F`, for whatever reads it: decoded they
/// could not be told from separators (RFC 3875, section 4.1.5: "a loss of information"). What reads
/// `%2F` or `%25` in the path itself, as `%252F` decoded does, has its percent sign written as
/// `%25`: no two paths look alike.
pub(crate) fn write_slashes(path: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(ENCODED_SLASH, b'%', path).is_none() {
        return Cow::Borrowed(path);
    }
    let mut written = Vec::with_capacity(path.len() + 16);
    for (at, &byte) in path.iter().enumerate() {
        match byte {
            _ if !is_written_as_escape(path, at) => written.push(byte),
            ENCODED_SLASH => written.extend_from_slice(b"%2F"),
            _ => written.extend_from_slice(b"%25"),
        }
    }
    Cow::Owned(written)
}

/// Whether [`write_slashes`] writes three bytes for the one at this place.
pub(crate) fn is_written_as_escape(path: &[u8], at: usize) -> bool {
    matches!(path[at..], [ENCODED_SLASH, ..] | [b'%', b'2', b'F' | b'f' | b'5', ..])
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// True when a segment begins with a dot, but for a leading `.well-known`.
pub fn has_hidden_segment(relative: &[u8]) -> bool {
    let mut segments = relative.split(|&byte| byte == b'/');
    let first = segments.next().unwrap_or(&[]);
    (first.starts_with(b".") && first != WELL_KNOWN) || segments.any(|name| name.starts_with(b"."))
}

/// Appends a file name to `out`, percent-encoded so that it is one segment of a path.
///
/// Only unreserved characters (RFC 3986, section 2.3) stay as they are: the result is also safe in
/// a quoted HTML attribute and in a header field, and holds no colon that could end a scheme. A
/// slash that [`map`] has found encoded is encoded again.
pub fn encode_segment(name: &[u8], out: &mut Vec<u8>) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in name {
        let byte = if byte == ENCODED_SLASH { b'/' } else { byte };
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', HEX_DIGITS[high], HEX_DIGITS[low]]);
        }
    }
}

/// Appends the path that [`map`] turns into this relative path: with its leading slash, and
/// percent-encoded like [`encode_segment`]; `.` gives `/`. The caller adds a trailing slash to any
/// other directory.
///
/// A result of `map` has no empty segment, so the path never begins with two slashes, which a
/// client would read as the name of another host (RFC 3986, section 4.2).
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    if path == b"." {
        out.push(b'/');
        return;
    }
    for segment in path.split(|&byte| byte == b'/') {
        out.push(b'/');
        encode_segment(segment, out);
    }
}

/// Appends a query as it came, with what is not printable ASCII percent-encoded: a parser of heads
/// lets other bytes pass, and a URI has none (RFC 3986, section 2).
pub(crate) fn encode_query(query: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in query {
        match byte {
            b'!'..=b'~' => out.push(byte),
            _ => out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The path as text, in which what is not UTF-8 is escaped.
    fn mapped(path: &[u8], hidden: bool) -> Result<(String, Mapped), PathError> {
        let mut relative = b"left over".to_vec();
        let result = map(path, hidden, &mut relative);
        assert!(result.is_ok() || relative.is_empty(), "an error leaves {relative:?} behind");
        let text = |relative: Vec<u8>| {
            String::from_utf8(relative)
                .unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
        };
        result.map(|mapped| (text(relative), mapped))
    }

    #[test]
    fn no_two_paths_look_alike_to_a_program() {
        for (decoded, written) in [
            (&b"/a b%"[..], &b"/a b%"[..]),
            (b"/a\0b", b"/a%2Fb"),
            (b"/a%2Fb", b"/a%252Fb"),
            (b"/a%2fb", b"/a%252fb"),
            (b"/a%252Fb", b"/a%25252Fb"),
            (b"/%20%", b"/%20%"),
        ] {
            assert_eq!(&*write_slashes(decoded), written, "{}", decoded.escape_ascii());
        }
    }

    #[test]
    fn a_segment_of_dots_is_found_however_it_is_written() {
        for path in ["/a/../b", "/..", "/.", "/a/./b", "/%2e%2E/b", "/.%2e"] {
            assert!(has_dot_segment(path.as_bytes()), "{path}");
        }
        for path in
            ["", "/", "//", "/.well-known/a", "/a..b", "/a.", "/%2f", "/.%2fa", "/%2", "/..."]
        {
            assert!(!has_dot_segment(path.as_bytes()), "{path}");
        }
    }

    fn accepts(cases: &[(&str, &str, Mapped)]) {
        for &(path, relative, form) in cases {
            assert_eq!(mapped(path.as_bytes(), false), Ok((relative.into(), form)), "{path}");
        }
    }

    fn refuses(error: PathError, paths: &[&[u8]]) {
        for path in paths {
            assert_eq!(mapped(path, false), Err(error), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn a_trailing_slash_asks_for_a_directory() {
        accepts(&[
            ("/", ".", Mapped::Directory),
            ("", ".", Mapped::Directory),
            ("/a", "a", Mapped::File),
            ("/a/", "a", Mapped::Directory),
            ("/a/b.html", "a/b.html", Mapped::File),
            ("/a/b/", "a/b", Mapped::Directory),
            ("/a/.", "a", Mapped::Directory),
            ("/a/..", ".", Mapped::Directory),
            ("/a/b/..", "a", Mapped::Directory),
            ("/a/b/%2e%2E", "a", Mapped::Directory),
            ("/.", ".", Mapped::Directory),
        ]);
    }

    #[test]
    fn dot_segments_and_double_slashes_are_normalised() {
        accepts(&[
            ("//", ".", Mapped::Directory),
            ("///a////b", "a/b", Mapped::File),
            ("/a//", "a", Mapped::Directory),
            ("/./a/./b/.", "a/b", Mapped::Directory),
            ("/a/../b", "b", Mapped::File),
            ("/a/b/../../c/d", "c/d", Mapped::File),
            ("/a/%2e%2e/b", "b", Mapped::File),
            ("/a/.%2E/b", "b", Mapped::File),
            ("/a/%2e./b", "b", Mapped::File),
            ("/a/%2E/b", "a/b", Mapped::File),
            ("/a//../b", "b", Mapped::File),
            ("/aa/bb/cc/../dd", "aa/bb/dd", Mapped::File),
            // RFC 3986, section 5.2.4, its own example.
            ("/a/b/c/./../../g", "a/g", Mapped::File),
        ]);
    }

    #[test]
    fn octets_are_decoded_exactly_once() {
        accepts(&[
            ("/%41%2d%7e", "A-~", Mapped::File),
            ("/a%20b", "a b", Mapped::File),
            ("/100%25", "100%", Mapped::File),
            ("/%252e%252e/a", "%2e%2e/a", Mapped::File),
            ("/%252f", "%2f", Mapped::File),
            ("/%2500", "%00", Mapped::File),
            ("/a%3Fb%23c", "a?b#c", Mapped::File),
            ("/%E2%82%AC", "€", Mapped::File),
            ("/€", "€", Mapped::File),
            ("/a+b", "a+b", Mapped::File),
            ("/C:/x", "C:/x", Mapped::File),
            ("/~user", "~user", Mapped::File),
        ]);
    }

    #[test]
    fn climbing_above_the_root_is_refused() {
        refuses(
            PathError::Malformed,
            &[
                b"/..",
                b"/../",
                b"/../etc/passwd",
                b"/a/../..",
                b"/a/../../a",
                b"//..",
                b"/./../a",
                b"/%2e%2e/a",
                b"/.%2e/a",
                b"/%2E./a",
                b"/a/%2e%2e/%2e%2e/etc/passwd",
                b"/.well-known/../../etc/passwd",
            ],
        );
    }

    #[test]
    fn bad_escapes_and_refused_octets_are_malformed() {
        refuses(
            PathError::Malformed,
            &[
                b"a",
                b"*",
                b"../a",
                b"\\a",
                b"%2fa",
                b"/%",
                b"/%2",
                b"/%2/a",
                b"/%zz",
                b"/%2g",
                b"/%%32%65",
                b"/%u002e",
                b"/%-1",
                b"/%+1",
                b"/%2f..%2f..%2fetc",
                b"/..%2f",
                b"/a%00",
                b"/a%00.html",
                b"/a\0b",
                b"/%0d%0aSet-Cookie:x",
                b"/\n",
                b"/%1f",
                b"/%7F",
                b"/\x7f",
                b"/a\\b",
                b"/..\\..\\etc",
                b"/..%5C",
                b"/a%5C..%2fb",
                b"/a%2F.",
                // A refused octet is refused even where normalising would drop its segment.
                b"/%00/../a",
                b"/.git/%00",
            ],
        );
    }

    #[test]
    fn a_name_may_hold_any_octet_but_controls() {
        accepts(&[
            ("/caf%E9.txt", "caf\\xe9.txt", Mapped::File),
            ("/%ff/%80/", "\\xff/\\x80", Mapped::Directory),
            ("/%e2%82/%ac", "\\xe2\\x82/\\xac", Mapped::File),
            // Overlong forms of a slash and of a dot are neither to the file system.
            ("/%c0%af", "\\xc0\\xaf", Mapped::File),
            ("/%c0%ae%c0%ae/", "\\xc0\\xae\\xc0\\xae", Mapped::Directory),
            ("/a%5Cb", "a\\b", Mapped::File),
        ]);
        assert_eq!(mapped(b"/\xff", false), Ok(("\\xff".into(), Mapped::File)));
    }

    #[test]
    fn an_encoded_slash_is_no_separator() {
        accepts(&[
            ("/a%2Fb", "a\0b", Mapped::File),
            ("/index.php/AC%2fDC", "index.php/AC\0DC", Mapped::File),
        ]);
        for (path, other) in [
            ("/a/b", None),
            ("/private%2Fx", Some("private/x")),
            ("/%2Fprivate%2F%2Fx/y", Some("private/x/y")),
            ("/%2F", Some("")),
        ] {
            let mut relative = Vec::new();
            map(path.as_bytes(), false, &mut relative).unwrap();
            let read = read_as_separators(&relative);
            assert_eq!(read.as_deref(), other.map(str::as_bytes), "{path}");
        }
        for (url, other) in [("/a\0", "/a/"), ("/\0", "/"), ("/\0a\0\0b/", "/a/b/")] {
            assert_eq!(read_as_separators(url.as_bytes()).as_deref(), Some(other.as_bytes()));
        }
    }

    #[test]
    fn names_with_a_leading_dot_are_hidden() {
        refuses(
            PathError::Hidden,
            &[
                b"/.git",
                b"/.git/config",
                b"/%2egit/config",
                b"/a/.htaccess",
                b"/a/../.ssh/",
                b"/...",
                b"/..a",
                b"/.well-known/.secret",
                b"/.well-known/a/.b/c",
                b"/a/.well-known/b",
                b"/.well-knownx",
                b"/.Well-Known/a",
            ],
        );
        accepts(&[
            ("/.well-known/acme-challenge/x", ".well-known/acme-challenge/x", Mapped::File),
            ("/.well-known/", ".well-known", Mapped::Directory),
            ("/%2ewell-known", ".well-known", Mapped::File),
            ("/a.b/c.", "a.b/c.", Mapped::File),
            ("/.git/../a", "a", Mapped::File),
        ]);
    }

    #[test]
    fn hidden_names_are_mapped_when_the_site_serves_them() {
        for (path, relative) in
            [("/.git/config", ".git/config"), ("/a/...", "a/..."), ("/..a", "..a")]
        {
            assert_eq!(mapped(path.as_bytes(), true), Ok((relative.into(), Mapped::File)));
        }
        assert_eq!(mapped(b"/..", true), Err(PathError::Malformed));
    }

    #[test]
    fn a_segment_of_255_bytes_is_the_longest() {
        let fits = "x".repeat(SEGMENT_BYTES_MAX);
        assert_eq!(mapped(format!("/{fits}").as_bytes(), false), Ok((fits.clone(), Mapped::File)));
        assert_eq!(mapped(format!("/{fits}x/../a").as_bytes(), false), Err(PathError::TooLong));
        // It is the decoded name that counts.
        let encoded = "%78".repeat(SEGMENT_BYTES_MAX);
        assert_eq!(mapped(format!("/{encoded}").as_bytes(), false), Ok((fits, Mapped::File)));
        assert_eq!(mapped(format!("/{encoded}%78").as_bytes(), false), Err(PathError::TooLong));
    }

    #[test]
    fn a_path_of_4095_bytes_is_the_longest() {
        let segment = format!("/{}", "y".repeat(SEGMENT_BYTES_MAX));
        let mut path = segment.repeat(PATH_BYTES_MAX / segment.len());
        assert_eq!(path.len() - 1, PATH_BYTES_MAX - 1);
        assert_eq!(mapped(path.as_bytes(), false), Ok((path[1..].into(), Mapped::File)));
        path.truncate(path.len() - 2);
        path.push_str("/z");
        assert_eq!(mapped(path.as_bytes(), false), Ok((path[1..].into(), Mapped::File)));
        path.push('z');
        assert_eq!(mapped(path.as_bytes(), false), Err(PathError::TooLong));
        // A long detour to a short path is none of the file system's business.
        let detour = format!("{}/a", "/b/..".repeat(2_000));
        assert_eq!(mapped(detour.as_bytes(), false), Ok(("a".into(), Mapped::File)));
    }

    #[test]
    fn a_buffer_that_is_large_enough_is_never_replaced() {
        let mut relative = Vec::with_capacity(PATH_BYTES_MAX + SEGMENT_BYTES_MAX + 1);
        let (start, capacity) = (relative.as_ptr(), relative.capacity());
        let long = format!("/{}", "z".repeat(SEGMENT_BYTES_MAX)).repeat(40);
        for path in [&b"/a/b/c"[..], b"/", long.as_bytes(), b"/a/../../b", b"/%E2%82%AC"] {
            let _ = map(path, false, &mut relative);
            assert_eq!((relative.as_ptr(), relative.capacity()), (start, capacity));
        }
    }

    #[test]
    fn everything_but_unreserved_characters_is_encoded() {
        let all: Vec<u8> = (0..=255).collect();
        let mut out = b"kept".to_vec();
        encode_segment(&all, &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.starts_with("kept%2F%01"), "{text}");
        assert!(text.ends_with("%FE%FF"), "{text}");
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(&b)), "{text}");
        assert_eq!(text.len(), 4 + 66 + (256 - 66) * 3);
    }

    #[test]
    fn a_path_is_encoded_with_one_leading_slash() {
        for (relative, path) in [
            (&b"."[..], "/"),
            (b"a", "/a"),
            (b"a/b c", "/a/b%20c"),
            (b".well-known/x", "/.well-known/x"),
            (b"\xff\"'<&>", "/%FF%22%27%3C%26%3E"),
        ] {
            let mut out = Vec::new();
            encode_path(relative, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), path);
        }
    }

    /// Pieces from which attacks are made; random bytes alone would almost never be a valid path.
    fn hostile_path() -> impl Strategy<Value = Vec<u8>> {
        let pieces: Vec<&[u8]> = vec![
            b"/",
            b"/",
            b"/",
            b".",
            b"..",
            b"%2e",
            b"%2E",
            b"%2f",
            b"%5c",
            b"\\",
            b"%00",
            b"%25",
            b"%",
            b"a",
            b"b",
            b"2e",
            b"%C3%A9",
            b"%c0%ae",
            b"\xc3\xa9",
            b".well-known",
            b"%7f",
            b"\xff",
        ];
        vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| {
            let mut path = b"/".to_vec();
            path.extend(pieces.concat());
            path
        })
    }

    fn is_dots(name: &[u8]) -> bool {
        matches!(name, b"." | b"..")
    }

    /// The bytes of names that can be asked for.
    fn name_bytes() -> Vec<u8> {
        (0..=255).filter(|&byte: &u8| byte != b'/' && !byte.is_ascii_control()).collect()
    }

    fn check(path: &[u8], hidden: bool) {
        let mut relative = Vec::new();
        let Ok(form) = map(path, hidden, &mut relative) else {
            assert!(relative.is_empty());
            return;
        };
        assert!(relative.len() < PATH_BYTES_MAX);
        assert!(relative.iter().all(|b| !b.is_ascii_control() || *b == ENCODED_SLASH));
        if relative == b"." {
            assert_eq!(form, Mapped::Directory);
        } else {
            for (at, segment) in relative.split(|&b| b == b'/').enumerate() {
                assert!(!segment.is_empty() && segment.len() <= SEGMENT_BYTES_MAX);
                assert!(segment != b"." && segment != b"..");
                assert!(!has_dot_part(segment));
                assert!(can_be_asked_for(segment) || segment.contains(&ENCODED_SLASH));
                let exempt = hidden || (at == 0 && segment == WELL_KNOWN);
                assert!(exempt || !segment.starts_with(b"."));
            }
        }
        let mut again = Vec::new();
        encode_path(&relative, &mut again);
        if form == Mapped::Directory {
            again.push(b'/');
        }
        let mut second = Vec::new();
        assert_eq!(map(&again, hidden, &mut second), Ok(form));
        assert_eq!(second, relative);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn arbitrary_bytes_map_to_a_safe_path_or_to_none(
            path in vec(any::<u8>(), 0..200),
            hidden: bool,
        ) {
            check(&path, hidden);
            check(&[b"/", &path[..]].concat(), hidden);
        }

        #[test]
        fn hostile_pieces_map_to_a_safe_path_or_to_none(path in hostile_path(), hidden: bool) {
            check(&path, hidden);
        }

        #[test]
        fn an_encoded_name_maps_back_to_itself(
            names in vec(vec(prop::sample::select(name_bytes()), 1..20), 1..5),
            directory: bool,
        ) {
            prop_assume!(names.iter().all(|name| can_be_asked_for(name) && !is_dots(name)));
            let relative = names.join(&b'/');
            let (mut path, mut found) = (Vec::new(), Vec::new());
            encode_path(&relative, &mut path);
            let form = if directory { Mapped::Directory } else { Mapped::File };
            path.extend_from_slice(if directory { b"/" } else { b"" });
            prop_assert_eq!(map(&path, true, &mut found), Ok(form));
            prop_assert_eq!(found, relative);
        }

        #[test]
        fn a_detour_does_not_change_where_a_path_leads(
            names in vec("[a-z]{1,5}", 1..6),
            at in any::<prop::sample::Index>(),
            detour in prop::sample::select(vec!["", ".", "%2e", "x/..", "x/%2E.", "x/y/../.."]),
        ) {
            let straight = names.join("/");
            let mut winding = names.clone();
            winding.insert(at.index(names.len()), detour.to_owned());
            let winding = format!("/{}", winding.join("/"));
            prop_assert_eq!(mapped(winding.as_bytes(), false), Ok((straight, Mapped::File)));
        }
    }
}
