//! A listing as an HTML document in UTF-8.
//!
//! All links are relative to the page, whose own path ends in a slash: a proxy in front may serve
//! it under a prefix.

use super::readme::Readme;
use super::time::Time;
use super::wish::Key;
use super::{ENTRIES_SORTED_MAX, Entry, Page};
use crate::path::encode_segment;

/// Everything before the first entry.
pub(super) fn begin(page: &Page, out: &mut Vec<u8>) {
    let root = page.path == b".";
    out.extend_from_slice(HEAD.as_bytes());
    out.extend_from_slice(b"<title>Index of /");
    if !root {
        push_text(&page.path, out);
        out.push(b'/');
    }
    out.extend_from_slice(b"</title>\n");
    out.extend_from_slice(STYLE.as_bytes());
    out.extend_from_slice(b"</head>\n<body>\n");
    push_breadcrumb(if root { b"" } else { &page.path }, out);
    if !page.sorted {
        let note = format!(
            "<p class=\"note\">This directory has more than {ENTRIES_SORTED_MAX} entries. They are \
             not sorted, but come in the order in which the directory has them.</p>\n",
        );
        out.extend_from_slice(note.as_bytes());
    }
    out.extend_from_slice(b"<table class=\"list\">\n<thead><tr>");
    for key in Key::ALL {
        push_column(page, key, out);
    }
    out.extend_from_slice(b"</tr></thead>\n<tbody>\n");
    if !root {
        out.extend_from_slice(
            b"<tr class=\"up\"><td><a href=\"../\">Parent directory</a></td>\
              <td></td><td></td></tr>\n",
        );
    }
}

/// The heading of a column, which sorts by it: the other way round when it does already.
fn push_column(page: &Page, key: Key, out: &mut Vec<u8>) {
    let title = match key {
        Key::Name => "Name",
        Key::Size => "Size",
        Key::Time => "Modified (UTC)",
    };
    if !page.sorted {
        out.extend_from_slice(format!("<th scope=\"col\">{title}</th>").as_bytes());
        return;
    }
    let (state, order) = match (page.wish.key == key, page.wish.descending) {
        (true, false) => (" aria-sort=\"ascending\"", "&amp;order=desc"),
        (true, true) => (" aria-sort=\"descending\"", ""),
        (false, _) => ("", ""),
    };
    let column = format!(
        "<th scope=\"col\"{state}><a href=\"?sort={}{order}\">{title}</a></th>",
        key.word()
    );
    out.extend_from_slice(column.as_bytes());
}

/// One row.
pub(super) fn entry(entry: &Entry, out: &mut Vec<u8>) {
    // Without `./` a name such as `javascript:x` would be a URL of its own (RFC 3986, section 4.2).
    let row: &[u8] = if entry.directory { b"<tr class=\"dir\">" } else { b"<tr>" };
    out.extend_from_slice(row);
    out.extend_from_slice(b"<td><a href=\"./");
    encode_segment(&entry.name, out);
    out.extend_from_slice(if entry.directory { b"/\">" } else { b"\">" });
    push_name(&entry.name, entry.directory, out);
    out.extend_from_slice(b"</a></td><td>");
    if !entry.directory {
        out.extend_from_slice(readable_size(entry.size).as_bytes());
    }
    let time = Time::of(entry.modified);
    let cells = format!(
        "</td><td><time datetime=\"{0}T{1}:{2}Z\">{0} {1}</time></td></tr>\n",
        time.date, time.minute, time.second,
    );
    out.extend_from_slice(cells.as_bytes());
}

/// Everything after the last entry.
pub(super) fn end(page: &Page, readme: &Readme, out: &mut Vec<u8>) {
    out.extend_from_slice(b"</tbody>\n</table>\n<p class=\"sum\">");
    let Page { directories, files, bytes, .. } = page;
    let sum = match (directories, files) {
        (0, 0) => "This directory is empty.".to_owned(),
        _ => format!(
            "{}, {}, {}",
            counted(*directories, "directory", "directories"),
            counted(*files, "file", "files"),
            readable_size(*bytes)
        ),
    };
    out.extend_from_slice(sum.as_bytes());
    out.extend_from_slice(b" <a href=\"?format=json\">JSON</a></p>\n");
    if !readme.text.is_empty() {
        push_readme(readme, out);
    }
    out.extend_from_slice(b"</body>\n</html>\n");
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn push_readme(readme: &Readme, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<section>\n<h2>");
    push_text(readme.name(), out);
    out.extend_from_slice(b"</h2>\n");
    if readme.rendered {
        out.extend_from_slice(b"<div>\n");
        out.extend_from_slice(&readme.text);
        out.extend_from_slice(b"</div>\n");
    } else {
        out.extend_from_slice(b"<pre>");
        push_lines(&readme.text, out);
        out.extend_from_slice(b"</pre>\n");
    }
    if readme.cut {
        out.extend_from_slice(b"<p class=\"note\">There is more in the file.</p>\n");
    }
    out.extend_from_slice(b"</section>\n");
}

/// Text whose lines and tabs are kept.
fn push_lines(text: &[u8], out: &mut Vec<u8>) {
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if at > 0 {
            out.push(b'\n');
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        for (at, cell) in line.split(|&byte| byte == b'\t').enumerate() {
            if at > 0 {
                out.push(b'\t');
            }
            push_text(cell, out);
        }
    }
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
pub(super) fn is_deceptive(character: char) -> bool {
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

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
";

/// Colours follow the reader's choice, light or dark. Names wrap anywhere, so that a long one does
/// not widen the page; on a narrow screen size and time go beneath the name. The signs before names
/// are shapes, so that nothing has to be fetched for them.
const STYLE: &str = "<style>
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --quiet: #59636e;
--line: #d1d9e0; --hover: #f3f6f9; --link: #0a58ca; --folder: #54aeff; --sheet: #aeb6bf; }
@media (prefers-color-scheme: dark) {
:root { --page: #14181d; --text: #e3e8ed; --quiet: #9aa5b1; --line: #30363d; --hover: #1d232a;
--link: #6cb0ff; --folder: #5b9bd8; --sheet: #6e7681; }
}
* { box-sizing: border-box; }
body { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; background: var(--page);
color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 1rem; font-size: 1.375rem; font-weight: 600; overflow-wrap: anywhere; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
.list { width: 100%; border-collapse: collapse; }
.list th, .list td { padding: 0 .75rem; text-align: left; vertical-align: baseline; }
.list th { border-bottom: 1px solid var(--line); color: var(--quiet); font-size: .875rem;
font-weight: 600; }
.list th a { display: inline-block; padding: .375rem 0; color: inherit; }
.list th[aria-sort] a { color: var(--text); }
.list th[aria-sort=ascending] a::after { content: ' \\2191'; }
.list th[aria-sort=descending] a::after { content: ' \\2193'; }
.list td { border-bottom: 1px solid var(--line); }
.list th:nth-child(n+2), .list td:nth-child(n+2) { width: 1%; text-align: right;
white-space: nowrap; }
.list td:nth-child(n+2) { color: var(--quiet); font-size: .875rem;
font-variant-numeric: tabular-nums; }
.list td a { display: block; position: relative; padding: .4375rem 0 .4375rem 1.875rem;
overflow-wrap: anywhere; }
.list td a::before { content: ''; position: absolute; left: .125rem; top: .8125rem; width: .75rem;
height: .9375rem; background: var(--sheet);
clip-path: polygon(0 0, 62% 0, 100% 30%, 100% 100%, 0 100%); }
.list .dir a::before { left: 0; width: 1.0625rem; height: .8125rem; background: var(--folder);
clip-path: polygon(0 0, 40% 0, 52% 18%, 100% 18%, 100% 100%, 0 100%); }
.list .up a::before { left: .125rem; width: .8125rem; background: var(--quiet);
clip-path: polygon(50% 0, 100% 50%, 65% 50%, 65% 100%, 35% 100%, 35% 50%, 0 50%); }
.list tbody tr:hover { background: var(--hover); }
.sum, .note { color: var(--quiet); font-size: .875rem; }
.sum { margin: .75rem; }
.sum a { margin-left: .75rem; }
section { margin-top: 2rem; border: 1px solid var(--line); border-radius: .5rem; }
section h2 { margin: 0; padding: .5rem 1rem; border-bottom: 1px solid var(--line);
color: var(--quiet); font-size: .875rem; }
section > :not(h2) { margin: 0; padding: 1rem; overflow-x: auto; }
pre, code { font: .875rem/1.5 ui-monospace, monospace; }
section > pre { white-space: pre-wrap; overflow-wrap: anywhere; }
section > div > :first-child { margin-top: 0; }
section > div > :last-child { margin-bottom: 0; }
section div { overflow-wrap: break-word; }
section div pre { padding: .75rem 1rem; border-radius: .375rem; background: var(--hover);
overflow-x: auto; }
section h3, section h4 { padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
section h3 { font-size: 1.375rem; }
section h4 { font-size: 1.1875rem; }
section h5, section h6 { font-size: 1rem; }
section :not(pre) > code { padding: .125rem .25rem; border-radius: .25rem;
background: var(--hover); }
section table { border-collapse: collapse; }
section th, section td { padding: .25rem .75rem; border: 1px solid var(--line); }
section blockquote { margin: 1rem 0; padding-left: 1rem; border-left: .25rem solid var(--line);
color: var(--quiet); }
section hr { height: 1px; border: 0; background: var(--line); }
@media (max-width: 36rem) {
body { padding-top: 1rem; }
.list, .list thead, .list tbody { display: block; }
.list thead tr { display: flex; gap: 1.5rem; border-bottom: 1px solid var(--line); }
.list th:nth-child(n) { width: auto; padding: 0; border: 0; }
.list th a { padding: .625rem 0; }
.list tbody tr { display: flex; flex-wrap: wrap; column-gap: 1rem; padding-bottom: .5rem;
border-bottom: 1px solid var(--line); }
.list td:nth-child(n) { width: auto; padding: 0; border: 0; }
.list td:empty { display: none; }
.list td:first-child { flex-basis: 100%; }
.list td:nth-child(n+2) { font-size: .8125rem; line-height: 1.25; }
.list td:nth-child(2), .list .dir td:nth-child(3) { padding-left: 1.875rem; }
.list td a { padding: .5625rem 0 .125rem 1.875rem; }
.list td a::before { top: .9375rem; }
.list .up { align-items: center; }
.sum { margin: .75rem 0; }
}
</style>
";

#[cfg(test)]
mod tests {
    use super::super::wish::{Format, Wish};
    use super::*;
    use crate::path::{Mapped, can_be_asked_for, map};
    use proptest::prelude::*;

    fn file(name: &[u8]) -> Entry {
        Entry { name: name.to_vec(), directory: false, size: 1_536, modified: 784_111_777 }
    }

    fn directory(name: &[u8]) -> Entry {
        Entry { directory: true, ..file(name) }
    }

    fn render(path: &[u8], entries: &[Entry]) -> String {
        render_with(path, entries, &Readme::wanted(true))
    }

    fn render_with(path: &[u8], entries: &[Entry], readme: &Readme) -> String {
        let wish = Wish { format: Format::Html, key: Key::Name, descending: false };
        let (mut page, mut out) = (Page::new(path, wish), Vec::new());
        page.begin(&mut out);
        entries.iter().for_each(|entry| page.entry(entry, &mut out));
        end(&page, readme, &mut out);
        String::from_utf8(out).expect("the page is UTF-8")
    }

    /// The values of all `href` attributes but those that ask for the page in another way, in
    /// order.
    fn links(page: &str) -> Vec<&str> {
        let values = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        values.filter(|link| !link.starts_with('?')).collect()
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
    fn names_are_escaped_and_links_stay_beneath_the_directory() {
        let entries = [
            file(b"<script>alert(1)</script>"),
            file(b"javascript:alert(1)"),
            file(b"\"onmouseover=\"alert(1)"),
            file(b"'x' & y"),
            file(b"a b?c#d%41"),
            file(b"//evil.example"),
            directory(b"&lt;"),
        ];
        let page = render(b".", &entries);
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
        let page = render(b".", &[file(b"caf\xe9"), file(b"a\nb\x1b[0m")]);
        parse(&page);
        assert!(page.contains("<a href=\"./caf%E9\"><bdi>caf\u{fffd}</bdi></a>"), "{page}");
        assert!(page.contains("<bdi>a\u{fffd}b\u{fffd}[0m</bdi>"), "{page}");
        assert!(page.contains("\"./a%0Ab%1B%5B0m\""), "{page}");
    }

    #[test]
    fn a_name_cannot_pretend_to_read_backwards() {
        let page = render(b".", &[file("x\u{202e}gpj.exe".as_bytes()), file("שלום".as_bytes())]);
        assert!(page.contains("<bdi>x\u{fffd}gpj.exe</bdi>"), "{page}");
        assert!(page.contains("\"./x%E2%80%AEgpj.exe\""), "{page}");
        assert!(page.contains("<bdi>שלום</bdi>"), "{page}");
    }

    #[test]
    fn the_root_has_no_parent() {
        let page = render(b".", &[file(b"a")]);
        assert_eq!(links(&page), ["./a"]);
        assert!(page.contains("<title>Index of /</title>"), "{page}");
        assert!(page.contains("<h1>Index of <bdi>/</bdi></h1>"), "{page}");
    }

    #[test]
    fn the_breadcrumb_links_every_directory_above() {
        let page = render("a/<b>/é".as_bytes(), &[directory(b"d")]);
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
        let page = render(b"x", &[file(b"a"), directory(b"d")]);
        let time = "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>";
        assert!(page.contains(&format!("</a></td><td>1.5 KiB</td><td>{time}")), "{page}");
        assert!(page.contains(&format!("<bdi>d/</bdi></a></td><td></td><td>{time}")), "{page}");
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
    fn the_headings_sort_by_their_column_and_the_other_way_round() {
        let begun = |key, descending| {
            let wish = Wish { format: Format::Html, key, descending };
            let (page, mut out) = (Page::new(b".", wish), Vec::new());
            begin(&page, &mut out);
            let page = String::from_utf8(out).unwrap();
            page[page.find("<thead>").unwrap()..page.find("</thead>").unwrap()].to_owned()
        };
        assert_eq!(
            begun(Key::Name, false),
            "<thead><tr><th scope=\"col\" aria-sort=\"ascending\">\
             <a href=\"?sort=name&amp;order=desc\">Name</a></th>\
             <th scope=\"col\"><a href=\"?sort=size\">Size</a></th>\
             <th scope=\"col\"><a href=\"?sort=time\">Modified (UTC)</a></th></tr>"
        );
        let by_size = begun(Key::Size, true);
        let column =
            "<th scope=\"col\" aria-sort=\"descending\"><a href=\"?sort=size\">Size</a></th>";
        assert!(by_size.contains(column), "{by_size}");
    }

    #[test]
    fn what_is_not_sorted_says_so_and_offers_no_order() {
        let wish = Wish { format: Format::Html, key: Key::Name, descending: false };
        let mut page = Page::new(b".", wish);
        page.sorted = false;
        let mut out = Vec::new();
        page.begin(&mut out);
        end(&page, &Readme::wanted(true), &mut out);
        let page = String::from_utf8(out).unwrap();
        parse(&page);
        assert!(page.contains("They are not sorted") && !page.contains("?sort="), "{page}");
    }

    #[test]
    fn a_readme_is_shown_as_text() {
        let mut readme = Readme::wanted(true);
        readme.see(&file(b"README"));
        readme.text = b"a\t<b>\r\n&amp; \x1b[1m caf\xe9\n".to_vec();
        let page = render_with(b".", &[file(b"README")], &readme);
        parse(&page);
        let shown = "<h2>README</h2>\n<pre>a\t&lt;b&gt;\n&amp;amp; \u{fffd}[1m caf\u{fffd}\n</pre>";
        assert!(page.contains(shown) && !page.contains("more in the file"), "{page}");
        readme.cut = true;
        let page = render_with(b".", &[], &readme);
        assert!(page.contains("There is more in the file."), "{page}");
    }

    #[test]
    fn an_empty_directory_says_so() {
        let page = render(b"x", &[]);
        parse(&page);
        assert!(page.contains("This directory is empty."), "{page}");
        assert!(!render(b"x", &[file(b"a")]).contains("is empty"));
    }

    #[test]
    fn a_page_has_no_script_and_loads_nothing() {
        let page = render(b"a/b", &[file(b"x"), directory(b"y")]);
        for banned in ["<script", "src=", "<link", "@import", "url(", "http:", "https:"] {
            assert!(!page.contains(banned), "{banned}");
        }
        assert!(page.contains("name=\"viewport\""));
        assert!(page.contains("color-scheme: light dark") && page.contains("dark) {"));
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
            let entries: Vec<Entry> =
                names.iter().map(|(n, dir)| if *dir { directory(n) } else { file(n) }).collect();
            let page = render(path.as_bytes(), &entries);
            parse(&page);
            let links: Vec<&str> =
                links(&page).into_iter().filter(|link| link.starts_with("./")).collect();
            prop_assert_eq!(links.len(), entries.len());
            let mut relative = Vec::new();
            for (link, entry) in links.iter().zip(&entries) {
                let form = map(&link.as_bytes()[1..], true, &mut relative).ok();
                let requestable = can_be_asked_for(&entry.name);
                let expected = if entry.directory { Mapped::Directory } else { Mapped::File };
                prop_assert_eq!(form, requestable.then_some(expected));
                prop_assert!(form.is_none() || relative == entry.name);
            }
        }
    }
}
