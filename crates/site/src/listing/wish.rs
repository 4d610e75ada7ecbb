//! What a client wants of a listing: its format and its order.

use std::cmp::Ordering;

use flyball_http::Name;
use flyball_http::Request;

use super::Entry;

/// Ranges of an `Accept` field that are looked at; the others are passed over.
const RANGES_MAX: usize = 64;

/// The format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A page for people.
    Html,
    /// An object for programs.
    Json,
}

impl Format {
    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Format::Html => "text/html; charset=utf-8",
            Format::Json => "application/json",
        }
    }
}

/// What entries are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The name.
    Name,
    /// The length.
    Size,
    /// The time of the last change.
    Time,
}

impl Key {
    /// Every key.
    pub(super) const ALL: [Key; 3] = [Key::Name, Key::Size, Key::Time];

    /// As it stands in a query.
    pub(super) fn word(self) -> &'static str {
        match self {
            Key::Name => "name",
            Key::Size => "size",
            Key::Time => "time",
        }
    }
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) format: Format,
    pub(crate) key: Key,
    pub(crate) descending: bool,
}

impl Wish {
    /// By the query (`sort=name|size|time`, `order=asc|desc`, `format=html|json`); without a format
    /// there, by `Accept`. Whatever is not known is passed over.
    pub(crate) fn of(request: &Request<'_>) -> Wish {
        let mut wish = Wish { format: Format::Html, key: Key::Name, descending: false };
        let mut format = None;
        for pair in request.query().split(|&byte| byte == b'&') {
            match pair {
                b"sort=name" => wish.key = Key::Name,
                b"sort=size" => wish.key = Key::Size,
                b"sort=time" => wish.key = Key::Time,
                b"order=asc" => wish.descending = false,
                b"order=desc" => wish.descending = true,
                b"format=html" => format = Some(Format::Html),
                b"format=json" => format = Some(Format::Json),
                _ => {}
            }
        }
        wish.format = format.unwrap_or_else(|| accepted(request.values(Name::Accept)));
        wish
    }

    /// Directories first; equal entries by name.
    pub(super) fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        let by_key = match self.key {
            Key::Name => by_name(a, b),
            Key::Size if a.directory && b.directory => Ordering::Equal,
            Key::Size => a.size.cmp(&b.size),
            Key::Time => a.modified.cmp(&b.modified),
        };
        let by_key = if self.descending { by_key.reverse() } else { by_key };
        b.directory.cmp(&a.directory).then(by_key).then_with(|| by_name(a, b))
    }
}

/// Without regard to the case of ASCII letters, and by bytes between names that differ in nothing
/// else.
fn by_name(a: &Entry, b: &Entry) -> Ordering {
    let folded = a.name.iter().map(u8::to_ascii_lowercase);
    folded.cmp(b.name.iter().map(u8::to_ascii_lowercase)).then_with(|| a.name.cmp(&b.name))
}

/// JSON when it is preferred to HTML (RFC 9110, section 12.5.1); a page when both are welcome
/// alike, or neither is.
fn accepted<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Format {
    // How well the range fits each format, and its weight.
    let (mut html, mut json) = ((0, 0), (0, 0));
    let ranges = fields.flat_map(|field| field.split(|&byte| byte == b','));
    for range in ranges.take(RANGES_MAX) {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let media_type = parts.next().unwrap_or_default();
        let weight = parts.find_map(weight).unwrap_or(1_000);
        for (best, format, family) in [
            (&mut html, &b"text/html"[..], &b"text/*"[..]),
            (&mut json, b"application/json", b"application/*"),
        ] {
            let fit = match media_type {
                exact if exact.eq_ignore_ascii_case(format) => 3,
                family_range if family_range.eq_ignore_ascii_case(family) => 2,
                b"*/*" => 1,
                _ => 0,
            };
            if fit > best.0 {
                *best = (fit, weight);
            }
        }
    }
    if json.1 > html.1 { Format::Json } else { Format::Html }
}

/// A weight in thousandths (RFC 9110, section 12.4.2); one that is malformed is none.
fn weight(parameter: &[u8]) -> Option<u32> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| decimals.get(at).map_or(0, |digit| u32::from(digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    Some((u32::from(whole - b'0') * 1_000 + thousandths).min(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::{Head, Limits, scan};

    fn wish(target: &str, fields: &str) -> Wish {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut head = Head::default();
        scan::parse_head(bytes.as_bytes(), &Limits::default(), &mut head).unwrap();
        Wish::of(&head.request(bytes.as_bytes()))
    }

    #[test]
    fn the_query_says_the_order_and_what_is_not_known_says_nothing() {
        let of = |target: &str| {
            let wish = wish(target, "");
            (wish.key, wish.descending)
        };
        assert_eq!(of("/"), (Key::Name, false));
        assert_eq!(of("/?"), (Key::Name, false));
        assert_eq!(of("/?sort=size"), (Key::Size, false));
        assert_eq!(of("/?sort=time&order=desc"), (Key::Time, true));
        assert_eq!(of("/?order=desc&x=y&sort=size&&="), (Key::Size, true));
        assert_eq!(of("/?sort=sizes&order=DESC&sort"), (Key::Name, false));
    }

    #[test]
    fn json_comes_when_it_is_preferred_or_asked_for() {
        let of = |accept: &str| wish("/", &format!("Accept: {accept}\r\n")).format;
        for html in [
            "*/*",
            "text/html",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "application/json;q=0.5, text/html;q=0.50",
            "application/json;q=0",
            "application/json;q=0.4, */*;q=0.5",
            "application/*;q=0.1, text/html",
            "image/png",
            ",;q",
            "application/json-seq",
        ] {
            assert_eq!(of(html), Format::Html, "{html}");
        }
        for json in [
            "application/json",
            "APPLICATION/json",
            "application/json, text/html;q=0.9",
            "application/json, */*;q=0.5",
            "text/html;q=0, */*;q=0.1",
            "text/html;level=1;q=0.2, application/*;q=0.201",
        ] {
            assert_eq!(of(json), Format::Json, "{json}");
        }
        assert_eq!(wish("/", "").format, Format::Html);
        assert_eq!(wish("/?format=json", "Accept: text/html\r\n").format, Format::Json);
        assert_eq!(wish("/?format=html", "Accept: application/json\r\n").format, Format::Html);
    }

    #[test]
    fn weights_are_read_strictly() {
        for (text, value) in [("q=1", 1_000), ("q=0.5", 500), ("Q=0.125", 125), ("q=1.9", 1_000)] {
            assert_eq!(weight(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["q=", "q=2", "q=0.1234", "q=.5", "q=0.x", "r=1", "q=-1"] {
            assert_eq!(weight(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn directories_come_first_in_every_order() {
        let entry = |name: &str, directory, size, modified| Entry {
            name: name.into(),
            directory,
            size,
            modified,
        };
        let entries = [
            entry("b", false, 3, 30),
            entry("A", false, 5, 10),
            entry("a", false, 5, 20),
            entry("Z", true, 9, 5),
            entry("y", true, 1, 50),
        ];
        for (key, descending, expected) in [
            (Key::Name, false, "yZAab"),
            (Key::Name, true, "ZybaA"),
            (Key::Size, false, "yZbAa"),
            (Key::Size, true, "yZAab"),
            (Key::Time, false, "ZyAab"),
            (Key::Time, true, "yZbaA"),
        ] {
            let wish = Wish { format: Format::Html, key, descending };
            let mut sorted = entries.to_vec();
            sorted.sort_by(|a, b| wish.compare(a, b));
            let names: Vec<u8> = sorted.into_iter().flat_map(|entry| entry.name).collect();
            assert_eq!(names, expected.as_bytes(), "{key:?} {descending}");
        }
    }
}
