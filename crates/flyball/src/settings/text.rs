//! The written forms of single values: sizes, durations, switches, limits, tokens, host names.

use std::net::Ipv6Addr;

use flyball_site::hosts::HOST_BYTES_MAX;
use flyball_site::routes::slip_in_path;

/// Units of a size, the largest binary one first so that a size is shown in the fewest digits.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Units of a duration in milliseconds. `ms` comes before `s`, in which it also ends.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("ms", 1), ("s", 1_000)];

/// Bytes of a size such as `64KiB`, `10MB`, `512B` or `4096`.
pub fn size(text: &str) -> Option<u64> {
    match unit(text, &SIZE_UNITS) {
        Some((number, factor)) => integer(number)?.checked_mul(factor),
        None => integer(text),
    }
}

/// Milliseconds of a duration such as `10s`, `250ms`, `5min`, `1h` or `30d`. Only 0 needs no unit.
pub(super) fn duration_ms(text: &str) -> Option<u64> {
    match unit(text, &DURATION_UNITS) {
        Some((number, factor)) => integer(number)?.checked_mul(factor),
        None => integer(text).filter(|&ms| ms == 0),
    }
}

/// An integer in decimal digits only.
pub(super) fn integer(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `true` or `on`, `false` or `off`.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "true" | "on" => Some(true),
        "false" | "off" => Some(false),
        _ => None,
    }
}

/// A token (RFC 9110, section 5.6.2), so that it can stand in a field value.
pub(super) fn is_token(text: &str) -> bool {
    flyball_http::field::is_name(text.as_bytes())
}

/// A media type (RFC 9110, section 8.3.1): `type/subtype`, perhaps with parameters.
pub(super) fn is_media_type(text: &str) -> bool {
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let tokens = essence.trim_end().split_once('/');
    tokens.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && are_parameters(parameters)
}

/// Parameters behind the first semicolon (RFC 9110, section 5.6.6), of which each may be missing.
fn are_parameters(mut text: &str) -> bool {
    loop {
        text = text.trim_matches(' ');
        if let Some((name, value)) = text.split_once('=')
            && is_token(name)
        {
            let Some(rest) = behind_value(value) else { return false };
            text = rest.trim_matches(' ');
        }
        match text.strip_prefix(';') {
            Some(rest) => text = rest,
            None => return text.is_empty(),
        }
    }
}

/// What is behind the value of a parameter: a token, or a string in quotes (section 5.6.4).
fn behind_value(text: &str) -> Option<&str> {
    let Some(inside) = text.strip_prefix('"') else {
        let end = text.find([';', ' ']).unwrap_or(text.len());
        return is_token(&text[..end]).then_some(&text[end..]);
    };
    let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(&inside[at + 1..]),
            b'\\' if bytes.next().is_some_and(|(_, quoted)| is_shown(quoted)) => {}
            byte if byte == b'\\' || !is_shown(byte) => return None,
            _ => {}
        }
    }
    None
}

/// The extension of a file name, without its dot.
pub(super) fn is_extension(text: &str) -> bool {
    is_file_name(text) && !text.contains('.')
}

/// The name of one file: not a path, and no dot segment.
pub(super) fn is_file_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && text.len() <= flyball_site::path::SEGMENT_BYTES_MAX
        && !text.contains(['/', '\0'])
}

/// A normalised absolute path of a URL, not percent-encoded and without a query. A pattern is none:
/// a star would be taken for a name.
pub(super) fn is_url_path(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_file_name))
        && text.bytes().all(|b| b.is_ascii_graphic() && !b"?#%*".contains(&b))
        && slip_in_path(text).is_none()
}

/// A host that a site can answer to: a name, `*.` and a name, an IPv4 or bracketed IPv6 address,
/// or `*` for whatever no other site answers to. No port.
pub(super) fn is_host(text: &str) -> bool {
    if let Some(inside) = text.strip_prefix('[') {
        return inside.strip_suffix(']').is_some_and(|v6| v6.parse::<Ipv6Addr>().is_ok());
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text == "*" || (name.len() <= HOST_BYTES_MAX && name.split('.').all(label))
}

/// A size in the largest binary unit that divides it.
pub(super) fn shown_size(bytes: u64) -> String {
    let (unit, factor) = SIZE_UNITS
        .into_iter()
        .find(|&(unit, factor)| unit.ends_with("iB") && bytes > 0 && bytes.is_multiple_of(factor))
        .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// A duration in the largest unit that divides it.
pub(super) fn shown_duration(ms: u64) -> String {
    let (unit, factor) = [("h", 3_600_000), ("min", 60_000), ("s", 1_000)]
        .into_iter()
        .find(|&(_, factor)| ms > 0 && ms.is_multiple_of(factor))
        .unwrap_or(("ms", 1));
    format!("{}{unit}", ms / factor)
}

/// Splits off the unit that a text ends in.
fn unit<'a>(text: &'a str, units: &[(&str, u64)]) -> Option<(&'a str, u64)> {
    units
        .iter()
        .find_map(|&(unit, factor)| text.strip_suffix(unit).map(|rest| (rest.trim_end(), factor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("1MiB", 1 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("10kB", 10_000),
            ("10KB", 10_000),
            ("3MB", 3_000_000),
            ("1GB", 1_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "banana",
            "KiB",
            "-1",
            "+1",
            "1.5MiB",
            "64kib",
            "64K",
            "1 2",
            "0x10",
            "1_000",
            " 1",
            "18446744073709551616",
            "16777216TiB",
            "９",
        ] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ms) in
            [("0", 0), ("250ms", 250), ("5min", 300_000), ("1h", 3_600_000), ("2d", 172_800_000)]
        {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1.5s", "1y", "10S", "1m", "99999999999999999999s"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn switches_are_words() {
        assert_eq!(switch("true"), Some(true));
        assert_eq!(switch("on"), Some(true));
        assert_eq!(switch("false"), Some(false));
        assert_eq!(switch("off"), Some(false));
        for text in ["", "yes", "1", "True", "0"] {
            assert_eq!(switch(text), None, "{text}");
        }
    }

    #[test]
    fn what_goes_into_a_field_value_is_a_token() {
        for text in ["utf-8", "cubic", "a!b"] {
            assert!(is_token(text), "{text}");
        }
        for text in ["", "a b", "a\r\nb", "a;b", "é", "a/b", "\"a\""] {
            assert!(!is_token(text), "{text}");
        }
        for text in [
            "text/html",
            "application/ld+json",
            "text/x; charset=a",
            "text/x ;q=\"b\"",
            "text/x; a=\"b;c\\\"\" ; d=e",
            "text/x;",
            "text/x; ;a=b;",
        ] {
            assert!(is_media_type(text), "{text}");
        }
        for text in [
            "",
            "text",
            "text/",
            "/html",
            "a/b/c",
            "text/html\r\nX: y",
            "text/x;\n",
            "text/html; charset=\"x",
            "text/html; charset=\"x\\\"",
            "text/html; charset=x\"",
            "text/html; charset=",
            "text/html; charset",
            "text/html; charset =x",
            "text/html; a=\"b\"c",
            "text/html; a=\"b\r\n\"",
        ] {
            assert!(!is_media_type(text), "{text}");
        }
    }

    #[test]
    fn hosts_are_names_wildcards_or_addresses() {
        for text in [
            "*",
            "a",
            "Example.org",
            "example.org.",
            "*.example.org",
            "a_b.c",
            "127.0.0.1",
            "[::1]",
        ] {
            assert!(is_host(text), "{text}");
        }
        for text in [
            "", ".", "*.", "**", "*a.b", "a.*.b", "a..b", ".a", "a b", "a:80", "::1", "[::1",
            "[a]", "é.org", "a/b", "[::1]:80",
        ] {
            assert!(!is_host(text), "{text}");
        }
        assert!(!is_host(&"a".repeat(HOST_BYTES_MAX + 1)));
    }

    #[test]
    fn file_names_extensions_and_paths_are_checked() {
        for text in ["", ".", "..", "a/b", "a\0b", &"a".repeat(256)] {
            assert!(!is_file_name(text), "{text}");
        }
        assert!(is_file_name("index.html"));
        assert!(is_extension("html") && !is_extension("tar.gz") && !is_extension(".html"));
        for text in ["/digest", "/a/b.c"] {
            assert!(is_url_path(text), "{text}");
        }
        for text in
            "|/|a|/a/|//a|/a/../b|/a?b|/*|/a/*|/a/**|/a*|/*/b|/a/*.txt|/a%20b|/a b|/é".split('|')
        {
            assert!(!is_url_path(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_the_same_value(number: u64) {
            prop_assert_eq!(size(&shown_size(number)), Some(number));
            prop_assert_eq!(duration_ms(&shown_duration(number)), Some(number));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = (size(&text), duration_ms(&text), switch(&text));
            let _ = (is_token(&text), is_media_type(&text), is_host(&text), is_url_path(&text));
        }
    }
}
