//! What a page refers to: the images, scripts and style sheets that whoever shows it will ask for
//! next. For the policy `structured` (S3, section 3.1).
//!
//! Pages are whatever lies in a site, so that nothing here trusts them: each byte is looked at a
//! bounded number of times, the scan ends after [`SCAN_BYTES_MAX`] bytes or [`OBJECTS_MAX`]
//! references, and what is found goes through the same checks as the path of a request.

use memchr::{memchr, memmem};

use crate::path::{self, Mapped};

/// Most objects that a page is taken to refer to.
pub const OBJECTS_MAX: usize = 32;

/// Bytes of a page that are looked at.
pub const SCAN_BYTES_MAX: usize = 256 * 1024;

/// Longest reference that is followed, in bytes.
const REFERENCE_BYTES_MAX: usize = 1024;

/// The languages in which pages refer to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// HTML, and XHTML as far as it looks the same.
    Html,
    /// CSS.
    Css,
}

impl Language {
    /// That of this media type, which may have parameters.
    pub fn of_media_type(media_type: &str) -> Option<Language> {
        let essence = media_type.split(';').next().unwrap_or(media_type).trim();
        match essence {
            "text/html" | "application/xhtml+xml" => Some(Language::Html),
            "text/css" => Some(Language::Css),
            _ => None,
        }
    }
}

/// The names of the files, relative to the root of the site, that a page at this path of a request
/// refers to, each once and in the order of the page. References to other sites are left out.
pub fn references(language: Language, page: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let page = &page[..page.len().min(SCAN_BYTES_MAX)];
    let slash = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let mut found = Found { base: &path[..slash], names: Vec::new() };
    match language {
        Language::Html => html(page, &mut found),
        Language::Css => css(page, &mut found),
    }
    found.names
}

/// References found so far.
struct Found<'a> {
    /// The path of the page up to its last slash.
    base: &'a [u8],
    names: Vec<Vec<u8>>,
}

impl Found<'_> {
    fn is_full(&self) -> bool {
        self.names.len() >= OBJECTS_MAX
    }

    /// Adds a reference, if it leads to a file of the same site (RFC 3986, section 5.2).
    fn add(&mut self, reference: &[u8]) {
        let reference = reference.trim_ascii();
        let end = reference.iter().position(|byte| b"?#".contains(byte));
        let target = &reference[..end.unwrap_or(reference.len())];
        let is_absolute = target.starts_with(b"//") || has_scheme(target);
        if self.is_full() || target.is_empty() || is_absolute || target.len() > REFERENCE_BYTES_MAX
        {
            return;
        }
        let base = if target.starts_with(b"/") { &b""[..] } else { self.base };
        let mut name = Vec::new();
        if path::map(&[base, target].concat(), false, &mut name) == Ok(Mapped::File)
            && !self.names.contains(&name)
        {
            self.names.push(name);
        }
    }
}

/// Whether a reference begins with a scheme such as `https:` or `data:`.
fn has_scheme(reference: &[u8]) -> bool {
    let end = reference.iter().position(|byte| b":/".contains(byte));
    end.is_some_and(|at| reference[at] == b':')
}

/// Looks at every tag; the text of scripts and style sheets within the page is passed over.
fn html(page: &[u8], found: &mut Found<'_>) {
    let mut rest = page;
    while let Some(at) = memchr(b'<', rest) {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            rest = behind(comment, b"-->");
            continue;
        }
        let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let (name, behind_name) = rest.split_at(len);
        if name.is_empty() {
            continue;
        }
        rest = tag(&name.to_ascii_lowercase(), behind_name, found);
        if found.is_full() || name.eq_ignore_ascii_case(b"base") {
            // From here on references mean something else.
            return;
        }
        for raw in ["script", "style"] {
            if name.eq_ignore_ascii_case(raw.as_bytes()) {
                rest = behind_raw_text(rest, raw);
            }
        }
    }
}

/// What follows the next `end`; nothing when there is none.
fn behind<'a>(text: &'a [u8], end: &[u8]) -> &'a [u8] {
    memmem::find(text, end).map_or(&[], |at| &text[at + end.len()..])
}

/// What follows the text of an element that holds no tags but its own end.
fn behind_raw_text<'a>(mut text: &'a [u8], name: &str) -> &'a [u8] {
    loop {
        text = behind(text, b"</");
        let is_end =
            |start: &[u8]| start.len() == name.len() && start.eq_ignore_ascii_case(name.as_bytes());
        if text.is_empty() || text.get(..name.len()).is_some_and(is_end) {
            return text;
        }
    }
}

/// Takes the references of one tag; gives what follows it.
fn tag<'a>(name: &[u8], mut rest: &'a [u8], found: &mut Found<'_>) -> &'a [u8] {
    let (mut link, mut is_used) = (None, false);
    loop {
        let (attribute, behind) = attribute(rest);
        rest = behind;
        let Some((attribute, value)) = attribute else { break };
        match (name, attribute.to_ascii_lowercase().as_slice()) {
            (b"img" | b"script" | b"source", b"src") => found.add(value),
            (b"img" | b"source", b"srcset") => {
                // `a.png 2x, b.png 3x`: the URL is what comes first in each.
                for candidate in value.split(|&byte| byte == b',') {
                    let candidate = candidate.trim_ascii_start();
                    found.add(candidate.split(u8::is_ascii_whitespace).next().unwrap_or_default());
                }
            }
            (b"link", b"href") => link = Some(value),
            (b"link", b"rel") => is_used = is_used || leads_to_object(value),
            _ => {}
        }
    }
    link.filter(|_| is_used).into_iter().for_each(|link| found.add(link));
    rest.strip_prefix(b">").unwrap_or(rest)
}

/// Whether a link of this relation is fetched to show the page.
fn leads_to_object(relation: &[u8]) -> bool {
    const FETCHED: [&str; 6] =
        ["stylesheet", "icon", "preload", "modulepreload", "manifest", "apple-touch-icon"];
    let mut words = relation.split(u8::is_ascii_whitespace);
    words.any(|word| FETCHED.iter().any(|fetched| word.eq_ignore_ascii_case(fetched.as_bytes())))
}

/// The name of an attribute, and its value.
type Attribute<'a> = (&'a [u8], &'a [u8]);

/// The next attribute of a tag and its value, `None` at the end of the tag, and what follows: `>`
/// at the end, and nothing when the tag never ends.
fn attribute(text: &[u8]) -> (Option<Attribute<'_>>, &[u8]) {
    const UNENDING: (Option<Attribute<'_>>, &[u8]) = (None, &[]);
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let Some(start) = text.iter().position(|b| !is_space(b) && *b != b'/') else {
        return UNENDING;
    };
    let text = &text[start..];
    let Some(len) = text.iter().position(|b| is_space(b) || b"=>/".contains(b)) else {
        return UNENDING;
    };
    // A stray `=` begins a name (the HTML Standard, before attribute name state).
    let len = if len == 0 && text[0] == b'=' { 1 } else { len };
    if len == 0 {
        return (None, text);
    }
    let (name, rest) = text.split_at(len);
    let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") else {
        return (Some((name, b"")), rest);
    };
    let value = value.trim_ascii_start();
    match value.first() {
        Some(quote @ (b'"' | b'\'')) => match memchr(*quote, &value[1..]) {
            Some(end) => (Some((name, &value[1..=end])), &value[end + 2..]),
            None => UNENDING,
        },
        _ => match value.iter().position(|b| is_space(b) || *b == b'>') {
            Some(end) => (Some((name, &value[..end])), &value[end..]),
            None => UNENDING,
        },
    }
}

/// Looks at every `url()`, and at the strings of `@import`.
fn css(page: &[u8], found: &mut Found<'_>) {
    let mut rest = page;
    while let Some(&first) = rest.first()
        && !found.is_full()
    {
        rest = match first {
            b'/' if rest.starts_with(b"/*") => behind(&rest[2..], b"*/"),
            b'"' | b'\'' => behind_string(rest).1,
            b'@' if starts_with_word(rest, b"@import") => {
                let text = rest[7..].trim_ascii_start();
                match text.first() {
                    Some(b'"' | b'\'') => {
                        let (string, behind) = behind_string(text);
                        found.add(string);
                        behind
                    }
                    _ => text,
                }
            }
            b'u' | b'U' if starts_with_word(rest, b"url(") => url(&rest[4..], found),
            _ => &rest[1..],
        };
    }
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// A string and what follows it; it ends with its line if not before.
fn behind_string(text: &[u8]) -> (&[u8], &[u8]) {
    let body = &text[1..];
    let end = body.iter().position(|byte| *byte == text[0] || *byte == b'\n');
    let end = end.unwrap_or(body.len());
    (&body[..end], body.get(end + 1..).unwrap_or_default())
}

/// Takes the reference of a `url(`; gives what follows.
fn url<'a>(text: &'a [u8], found: &mut Found<'_>) -> &'a [u8] {
    let text = text.trim_ascii_start();
    if let Some(b'"' | b'\'') = text.first() {
        let (string, behind) = behind_string(text);
        found.add(string);
        return behind;
    }
    let end = text.iter().position(|byte| b")\n".contains(byte)).unwrap_or(text.len());
    found.add(&text[..end]);
    &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(language: Language, page: &str, path: &str) -> Vec<String> {
        let names = references(language, page.as_bytes(), path.as_bytes());
        names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn a_page_refers_to_its_images_scripts_and_style_sheets() {
        let page = r##"<!DOCTYPE html><html><head>
            <link rel="stylesheet" href="style.css?v=1"><LINK REL='shortcut icon' HREF=/icon.png>
            <link href="other.html" rel="next"><link rel=preload href="font.woff2" as=font>
            <!-- <img src="commented.png"> -->
            <script src="app.js"></script><script>var s = '<img src="text.png">';</script>
            <style>b { background: url(inner.png) }</style>
            </head><body><a href="elsewhere.html">x</a>
            <img alt="a > b" src = "../img/a%20b.png"/><img src=plain.png>
            <picture><source srcset="a.webp 1x, b.webp 2x"><img src="plain.png"></picture>
            <img src="https://other.example/x.png"><img src="//other.example/y.png">
            <img src="data:image/png;base64,AAAA"><img src="#"><img src=""><img src="dir/">
            <img src="../../../etc/passwd"><img src="/.git/config"><img src="%00.png">
            </body></html>"##;
        assert_eq!(
            names(Language::Html, page, "/docs/guide/page.html"),
            [
                "docs/guide/style.css",
                "icon.png",
                "docs/guide/font.woff2",
                "docs/guide/app.js",
                "docs/img/a b.png",
                "docs/guide/plain.png",
                "docs/guide/a.webp",
                "docs/guide/b.webp",
            ]
        );
    }

    #[test]
    fn a_style_sheet_refers_to_what_it_imports_and_shows() {
        let sheet = "@import \"base.css\"; @IMPORT url('print.css') print;\n\
            /* url(commented.png) */ a { background: URL( img/a.png ) } \
            b { content: \"url(text.png)\"; cursor: url(\"/c.cur\") }\n\
            c { background: url(data:image/gif;base64,R0) , url(https://other.example/x) }";
        assert_eq!(
            names(Language::Css, sheet, "/css/site.css"),
            ["css/base.css", "css/print.css", "css/img/a.png", "c.cur"]
        );
    }

    #[test]
    fn another_base_ends_the_scan() {
        let page = r#"<img src=a.png><base href="/elsewhere/"><img src=b.png>"#;
        assert_eq!(names(Language::Html, page, "/"), ["a.png"]);
    }

    #[test]
    fn a_scan_is_bounded() {
        let many: String = (0..100).map(|n| format!("<img src={n}.png>")).collect();
        assert_eq!(names(Language::Html, &many, "/").len(), OBJECTS_MAX);
        let far = " ".repeat(SCAN_BYTES_MAX) + "<img src=a.png>";
        assert_eq!(names(Language::Html, &far, "/"), Vec::<String>::new());
        let long = format!("<img src={}>", "a".repeat(REFERENCE_BYTES_MAX + 1));
        assert_eq!(names(Language::Html, &long, "/"), Vec::<String>::new());
        // What never ends is passed over once, not once for each beginning.
        for hostile in [
            "<!--",
            "<img src=\"",
            "<a b",
            "<a=",
            "<a",
            "<a ",
            "<a x='",
            "<a/",
            "<script>",
            "<script></",
            "</script",
            "url(",
            "\"",
            "/*",
            "@import ",
            "<img srcset=a,",
            "<img src= ",
        ] {
            let page = hostile.repeat(SCAN_BYTES_MAX / hostile.len());
            names(Language::Html, &page, "/");
            names(Language::Css, &page, "/");
        }
    }

    #[test]
    fn only_pages_have_a_language() {
        let of = Language::of_media_type;
        assert_eq!(of("text/html; charset=utf-8"), Some(Language::Html));
        assert_eq!((of("text/css"), of("text/plain")), (Some(Language::Css), None));
    }

    proptest! {
        #[test]
        fn hostile_pages_give_names_beneath_the_root(
            page in "([<>a-z=\"'/.%# ]|<img src=|<link rel=icon href=|url\\(|@import ){0,80}",
            path in "/[a-z./]{0,10}",
        ) {
            for language in [Language::Html, Language::Css] {
                for name in references(language, page.as_bytes(), path.as_bytes()) {
                    prop_assert!(!name.is_empty() && !name.starts_with(b"/"));
                    prop_assert!(!name.split(|&b| b == b'/').any(|part| part == b".."));
                }
            }
        }
    }
}
