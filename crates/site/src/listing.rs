//! The page that lists a directory without an index.
//!
//! File names are whatever somebody once called a file, so nothing of them reaches the page but
//! escaped text and percent-encoded links. The page has no script and asks for nothing further.

use crate::path::encode_segment;
use flyball_http::date::format_date;
use std::cmp::Ordering;

/// Most entries that one page lists; what a directory holds beyond is left out, with a note.
pub const LISTING_ENTRIES_MAX: usize = 10_000;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file name as the kernel has it, in no certain encoding.
    pub name: Vec<u8>,
    /// True for directories, whose links end in a slash.
    pub directory: bool,
    /// Length in bytes; not shown for directories.
    pub size: u64,
    /// When the contents last changed, in seconds since 1970, UTC.
    pub modified: u64,
}

/// Renders a directory as an HTML document in UTF-8, and sorts its entries on the way.
///
/// `path` is the directory's decoded path relative to the root, `.` for the root itself. Hidden
/// names and the dot entries are the caller's to leave out. `cut` says that the directory has more
/// entries than were gathered; entries past [`LISTING_ENTRIES_MAX`] are left out here as well.
///
/// All links are relative to the page, whose own path must end in a slash: a proxy in front may
/// serve it under a prefix.
pub fn html(path: &[u8], entries: &mut [Entry], cut: bool) -> Vec<u8> {
    entries.sort_unstable_by(order);
    let shown = &entries[..entries.len().min(LISTING_ENTRIES_MAX)];
    let root = path == b".";
    let mut page = Vec::with_capacity(HEAD.len() + STYLE.len() + 1_024 + shown.len() * ROW_BYTES);
    page.extend_from_slice(HEAD.as_bytes());
    page.extend_from_slice(b"<title>Index of /");
    if !root {
        push_text(path, &mut page);
        page.push(b'/');
    }
    page.extend_from_slice(b"</title>\n");
    page.extend_from_slice(STYLE.as_bytes());
    page.extend_from_slice(b"</head>\n<body>\n");
    push_breadcrumb(if root { b"" } else { path }, &mut page);
    push_table(shown, root, &mut page);
    if shown.is_empty() {
        page.extend_from_slice(b"<p>This directory is empty.</p>\n");
    }
    if cut || shown.len() < entries.len() {
        let note = format!("<p>There are more entries; {} are shown.</p>\n", shown.len());
        page.extend_from_slice(note.as_bytes());
    }
    page.extend_from_slice(b"</body>\n</html>\n");
    page
}

/// Directories first, then by name: without regard to the case of ASCII letters, and by bytes
/// between names that differ in nothing else.
fn order(a: &Entry, b: &Entry) -> Ordering {
    let folded = a.name.iter().map(u8::to_ascii_lowercase);
    b.directory
        .cmp(&a.directory)
        .then_with(|| folded.cmp(b.name.iter().map(u8::to_ascii_lowercase)))
        .then_with(|| a.name.cmp(&b.name))
}

/// The heading: every directory above as a link, the directory itself as text.
fn push_breadcrumb(path: &[u8], page: &mut Vec<u8>) {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|n| !n.is_empty()).collect();
    page.extend_from_slice(b"<nav><h1>Index of ");
    for (above, name) in (0..=names.len()).rev().zip([&b""[..]].iter().chain(&names)) {
        if above > 0 {
            page.extend_from_slice(b"<a href=\"");
            page.extend_from_slice(&b"../".repeat(above));
            page.extend_from_slice(b"\">");
        }
        push_name(name, true, page);
        page.extend_from_slice(if above > 0 { b"</a>" } else { b"" });
    }
    page.extend_from_slice(b"</h1></nav>\n");
}

fn push_table(entries: &[Entry], root: bool, page: &mut Vec<u8>) {
    page.extend_from_slice(
        b"<table>\n<thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th>\
          <th scope=\"col\">Modified (UTC)</th></tr></thead>\n<tbody>\n",
    );
    if !root {
        page.extend_from_slice(
            b"<tr><td><a href=\"../\">Parent directory</a></td><td></td><td></td></tr>\n",
        );
    }
    for entry in entries {
        push_row(entry, page);
    }
    page.extend_from_slice(b"</tbody>\n</table>\n");
}

fn push_row(entry: &Entry, page: &mut Vec<u8>) {
    // Without `./` a name such as `javascript:x` would be a URL of its own (RFC 3986, section 4.2).
    page.extend_from_slice(b"<tr><td><a href=\"./");
    encode_segment(&entry.name, page);
    page.extend_from_slice(if entry.directory { b"/\">" } else { b"\">" });
    push_name(&entry.name, entry.directory, page);
    page.extend_from_slice(b"</a></td><td>");
    if !entry.directory {
        page.extend_from_slice(readable_size(entry.size).as_bytes());
    }
    let time = Time::of(entry.modified);
    let cells = format!(
        "</td><td><time datetime=\"{0}T{1}:{2}Z\">{0} {1}</time></td></tr>\n",
        time.date, time.minute, time.second,
    );
    page.extend_from_slice(cells.as_bytes());
}

/// A name in a `bdi` element, so that right-to-left script does not reorder what is around it.
fn push_name(name: &[u8], directory: bool, page: &mut Vec<u8>) {
    page.extend_from_slice(b"<bdi>");
    push_text(name, page);
    page.extend_from_slice(if directory { b"/</bdi>" } else { b"</bdi>" });
}

/// Text as element content or quoted attribute value (HTML, section 13.3). What is not UTF-8, and
/// what [`is_deceptive`], shows as U+FFFD.
fn push_text(text: &[u8], page: &mut Vec<u8>) {
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => page.extend_from_slice(b"&amp;"),
            '<' => page.extend_from_slice(b"&lt;"),
            '>' => page.extend_from_slice(b"&gt;"),
            '"' => page.extend_from_slice(b"&quot;"),
            '\'' => page.extend_from_slice(b"&#39;"),
            character => {
                let shown = if is_deceptive(character) { '\u{fffd}' } else { character };
                page.extend_from_slice(shown.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

/// True for control characters, which HTML forbids, and for those that make `gpj.exe` read as
/// `exe.jpg` (Unicode Standard Annex 9, section 2: explicit directional formatting).
fn is_deceptive(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A size in the largest binary unit that leaves at least one, with one decimal, rounded half up.
fn readable_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    let mut divisor = 1_024_u128;
    let tenths = loop {
        let tenths = (u128::from(bytes) * 10 + divisor / 2) / divisor;
        // What rounds up to 1024.0 is 1.0 of the next unit.
        if tenths < 10_240 || unit + 1 == UNITS.len() {
            break tenths;
        }
        divisor *= 1_024;
        unit += 1;
    };
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A point of time in UTC, as text.
struct Time {
    /// `1994-11-06`
    date: String,
    /// `08:49`
    minute: String,
    /// `37`
    second: String,
}

impl Time {
    /// Takes the HTTP-date apart, which is clamped to the year 9999.
    fn of(unix: u64) -> Time {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let text = format_date(unix);
        let text = String::from_utf8_lossy(&text);
        // `Sun, 06 Nov 1994 08:49:37 GMT`, always of this width (RFC 9110, section 5.6.7).
        let month = MONTHS.find(&text[8..11]).unwrap_or(0) / 3 + 1;
        Time {
            date: format!("{}-{month:02}-{}", &text[12..16], &text[5..7]),
            minute: text[17..22].to_owned(),
            second: text[23..25].to_owned(),
        }
    }
}

/// Bytes that a row takes at a guess, so that the page seldom has to move while it grows.
const ROW_BYTES: usize = 192;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
";

/// Colours are the browser's own, light or dark. Names wrap anywhere, so a long one does not
/// widen the page; on a narrow screen size and time go beneath the name.
const STYLE: &str = "<style>
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; overflow-wrap: anywhere; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .35rem .5rem; text-align: left; vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; overflow-wrap: anywhere; }
th:nth-child(n+2), td:nth-child(n+2) { width: 1%; text-align: right; white-space: nowrap; }
td:nth-child(n+2) { font-variant-numeric: tabular-nums; opacity: .75; }
tbody tr { border-top: 1px solid #8884; }
a { text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
@media (max-width: 36rem) {
thead, td:empty { display: none; }
table, tbody { display: block; }
tbody tr { display: flex; flex-wrap: wrap; column-gap: 1rem; padding: .5rem 0; }
td:nth-child(n) { width: auto; padding: 0; }
td:first-child { flex-basis: 100%; }
td:nth-child(n+2) { font-size: .875rem; }
}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Mapped, map};
    use proptest::prelude::*;

    fn file(name: &[u8]) -> Entry {
        Entry { name: name.to_vec(), directory: false, size: 1_536, modified: 784_111_777 }
    }

    fn directory(name: &[u8]) -> Entry {
        Entry { directory: true, ..file(name) }
    }

    fn render(path: &[u8], entries: &mut [Entry]) -> String {
        String::from_utf8(html(path, entries, false)).expect("the page is UTF-8")
    }

    /// The values of all `href` attributes, in order.
    fn links(page: &str) -> Vec<&str> {
        page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    /// A strict little parser: every `<` starts a tag, attributes are in double quotes, elements
    /// nest, and references are among the five that the page writes. Returns the text.
    fn parse(page: &str) -> String {
        const VOID: [&str; 2] = ["meta", "!DOCTYPE"];
        let (mut open, mut text, mut rest) = (Vec::new(), String::new(), page);
        while let Some(start) = rest.find('<') {
            let content = &rest[..start];
            assert!(open.last() == Some(&"style") || !content.contains('>'), "{content:?}");
            text.push_str(content);
            let end = start + rest[start..].find('>').expect("every tag ends");
            let tag = &rest[start + 1..end];
            let name = tag.split([' ', '\n']).next().expect("a tag has a name");
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else {
                let quotes = tag.matches('"').count();
                assert_eq!(quotes, tag.matches("=\"").count() * 2, "{tag}");
                if !VOID.contains(&name) {
                    open.push(name);
                }
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "left open: {open:?}");
        for reference in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(known.iter().any(|name| reference.starts_with(name)), "{reference}");
        }
        text
    }

    #[test]
    fn directories_come_first_and_case_does_not_separate_names() {
        let mut entries = [
            file(b"b"),
            file(b"B"),
            file(b"a10"),
            directory(b"zoo"),
            file(b"A"),
            directory(b"Abc"),
            file(b"_"),
            file(b"\xff"),
        ];
        let page = render(b".", &mut entries);
        let expected = ["./Abc/", "./zoo/", "./_", "./A", "./a10", "./B", "./b", "./%FF"];
        assert_eq!(links(&page), expected);
        entries.reverse();
        assert_eq!(render(b".", &mut entries), page);
    }

    #[test]
    fn names_are_escaped_and_links_stay_beneath_the_directory() {
        let mut entries = [
            file(b"<script>alert(1)</script>"),
            file(b"javascript:alert(1)"),
            file(b"\"onmouseover=\"alert(1)"),
            file(b"'x' & y"),
            file(b"a b?c#d%41"),
            file(b"//evil.example"),
            directory(b"&lt;"),
        ];
        let page = render(b".", &mut entries);
        parse(&page);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>"), "{page}");
        assert!(page.contains("<bdi>&quot;onmouseover=&quot;alert(1)</bdi>"), "{page}");
        assert!(page.contains("<bdi>&#39;x&#39; &amp; y</bdi>"), "{page}");
        assert!(page.contains("<bdi>&amp;lt;/</bdi>"), "{page}");
        let links = links(&page);
        assert_eq!(links.len(), 7);
        assert!(links.iter().all(|link| link.starts_with("./")), "{links:?}");
        for link in ["./javascript%3Aalert%281%29", "./a%20b%3Fc%23d%2541", "./%26lt%3B/"] {
            assert!(links.contains(&link), "{link} in {links:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_shown_lossy_and_linked_exactly() {
        let page = render(b".", &mut [file(b"caf\xe9"), file(b"a\nb\x1b[0m")]);
        parse(&page);
        assert!(page.contains("<a href=\"./caf%E9\"><bdi>caf\u{fffd}</bdi></a>"), "{page}");
        assert!(page.contains("<bdi>a\u{fffd}b\u{fffd}[0m</bdi>"), "{page}");
        assert!(page.contains("\"./a%0Ab%1B%5B0m\""), "{page}");
    }

    #[test]
    fn a_name_cannot_pretend_to_read_backwards() {
        let page =
            render(b".", &mut [file("x\u{202e}gpj.exe".as_bytes()), file("שלום".as_bytes())]);
        assert!(page.contains("<bdi>x\u{fffd}gpj.exe</bdi>"), "{page}");
        assert!(page.contains("\"./x%E2%80%AEgpj.exe\""), "{page}");
        assert!(page.contains("<bdi>שלום</bdi>"), "{page}");
    }

    #[test]
    fn the_root_has_no_parent() {
        let page = render(b".", &mut [file(b"a")]);
        assert_eq!(links(&page), ["./a"]);
        assert!(page.contains("<title>Index of /</title>"), "{page}");
        assert!(page.contains("<h1>Index of <bdi>/</bdi></h1>"), "{page}");
    }

    #[test]
    fn the_breadcrumb_links_every_directory_above() {
        let page = render("a/<b>/é".as_bytes(), &mut [directory(b"d")]);
        parse(&page);
        assert_eq!(links(&page), ["../../../", "../../", "../", "../", "./d/"]);
        assert!(page.contains("<title>Index of /a/&lt;b&gt;/é/</title>"), "{page}");
        let heading = "<h1>Index of <a href=\"../../../\"><bdi>/</bdi></a>\
            <a href=\"../../\"><bdi>a/</bdi></a><a href=\"../\"><bdi>&lt;b&gt;/</bdi></a>\
            <bdi>é/</bdi></h1>";
        assert!(page.contains(heading), "{page}");
    }

    #[test]
    fn a_row_shows_size_and_time() {
        let page = render(b"x", &mut [file(b"a"), directory(b"d")]);
        let time = "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>";
        assert!(page.contains(&format!("</a></td><td>1.5 KiB</td><td>{time}")), "{page}");
        assert!(page.contains(&format!("<bdi>d/</bdi></a></td><td></td><td>{time}")), "{page}");
    }

    #[test]
    fn times_are_right_at_the_ends_of_years_and_clamped_at_the_last() {
        for (unix, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_704_067_199, "2023-12-31 23:59:59"),
            (1_704_067_200, "2024-01-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (u64::MAX, "9999-12-31 23:59:59"),
        ] {
            let time = Time::of(unix);
            assert_eq!(format!("{} {}:{}", time.date, time.minute, time.second), text);
        }
        for month in 0..12 {
            // Every 31 days from 15 January on is a day of each month of 1970.
            let time = Time::of((14 + month * 30) * 86_400);
            assert_eq!(&time.date[..8], format!("1970-{:02}-", month + 1));
        }
    }

    #[test]
    fn sizes_are_rounded_to_the_unit_that_suits_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_075, "1.0 KiB"),
            (1_076, "1.1 KiB"),
            (1_536, "1.5 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_525, "1.0 MiB"),
            (1_048_576, "1.0 MiB"),
            (10 * 1_048_576, "10.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (1 << 40, "1.0 TiB"),
            (1 << 50, "1.0 PiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(readable_size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn an_empty_directory_says_so() {
        let page = render(b"x", &mut []);
        parse(&page);
        assert!(page.contains("<p>This directory is empty.</p>"), "{page}");
        assert!(!render(b"x", &mut [file(b"a")]).contains("is empty"));
    }

    #[test]
    fn a_listing_that_is_cut_says_so() {
        let page = String::from_utf8(html(b".", &mut [file(b"a")], true)).expect("UTF-8");
        parse(&page);
        assert!(page.contains("<p>There are more entries; 1 are shown.</p>"), "{page}");
        assert!(!render(b".", &mut [file(b"a")]).contains("more entries"));

        let mut many: Vec<Entry> =
            (0..=LISTING_ENTRIES_MAX).map(|n| file(format!("{n:05}").as_bytes())).collect();
        let page = render(b".", &mut many);
        assert_eq!(links(&page).len(), LISTING_ENTRIES_MAX);
        assert!(page.contains("<p>There are more entries; 10000 are shown.</p>"));
        assert!(!page.contains("\"./10000\""));
        let page = render(b".", &mut many[..LISTING_ENTRIES_MAX]);
        assert!(!page.contains("more entries"));
    }

    #[test]
    fn a_page_has_no_script_and_loads_nothing() {
        let page = render(b"a/b", &mut [file(b"x"), directory(b"y")]);
        for banned in ["<script", "src=", "<link", "@import", "url(", "http:", "https:"] {
            assert!(!page.contains(banned), "{banned}");
        }
        assert!(page.contains("name=\"viewport\""));
        assert!(page.contains("color-scheme: light dark"));
    }

    /// Any bytes that a file name can hold, half of them as text.
    fn file_name() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(1_u8.., 1..24),
            "[^\0]{1,24}".prop_map(String::into_bytes),
        ]
        .prop_filter("no file has this name", |name| {
            !name.contains(&b'/') && name != b"." && name != b".."
        })
    }

    proptest! {
        #[test]
        fn any_names_make_a_page_that_parses_with_links_that_lead_to_them(
            path in "[^/]{1,9}(/[^/]{1,9}){0,3}",
            names in prop::collection::vec((file_name(), any::<bool>()), 0..12),
        ) {
            let mut entries: Vec<Entry> =
                names.iter().map(|(n, dir)| if *dir { directory(n) } else { file(n) }).collect();
            let page = render(path.as_bytes(), &mut entries);
            parse(&page);
            let links: Vec<&str> =
                links(&page).into_iter().filter(|link| link.starts_with("./")).collect();
            prop_assert_eq!(links.len(), entries.len());
            let mut relative = Vec::new();
            for (link, entry) in links.iter().zip(&entries) {
                let form = map(&link.as_bytes()[1..], true, &mut relative).ok();
                let requestable = std::str::from_utf8(&entry.name).is_ok_and(|name| {
                    !name.contains(|c: char| c.is_ascii_control() || c == '\\')
                });
                let expected = if entry.directory { Mapped::Directory } else { Mapped::File };
                prop_assert_eq!(form, requestable.then_some(expected));
                prop_assert!(form.is_none() || relative == entry.name);
            }
        }
    }
}
