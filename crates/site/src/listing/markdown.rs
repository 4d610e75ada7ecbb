//! A README in Markdown, as HTML. Whoever writes one may be somebody else than who serves it:
//! nothing of it becomes a tag, a script or a request but what is made here.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::html::is_deceptive;

/// Schemes of links that are followed; one without a scheme stays on the site, or on its own.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// Renders it. Raw HTML is shown as it is written, and pictures become links to them.
pub(super) fn render(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let shown = |character| match character {
        '\n' | '\t' => character,
        '\r' => '\n',
        character if is_deceptive(character) => char::REPLACEMENT_CHARACTER,
        character => character,
    };
    let text: String = text.replace("\r\n", "\n").chars().map(shown).collect();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut links = 0;
    let events = Parser::new_ext(&text, options).filter_map(|event| harmless(event, &mut links));
    let mut page = String::new();
    html::push_html(&mut page, events);
    page.into_bytes()
}

/// An event that can be rendered; `None` where nothing is. `links` counts those that are open:
/// one within another would end it.
fn harmless<'a>(event: Event<'a>, links: &mut usize) -> Option<Event<'a>> {
    Some(match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: below_the_page(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below_the_page(level))),
        Event::Start(
            Tag::Link { link_type, dest_url, title, id }
            | Tag::Image { link_type, dest_url, title, id },
        ) => {
            *links += 1;
            if *links > 1 {
                return None;
            }
            let dest_url = if is_followed(&dest_url) { dest_url } else { CowStr::Borrowed("#") };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::End(TagEnd::Link | TagEnd::Image) => {
            *links -= 1;
            if *links > 0 {
                return None;
            }
            Event::End(TagEnd::Link)
        }
        event => event,
    })
}

/// The page's own headings are two levels above.
fn below_the_page(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

/// Whether a link may be followed. Browsers pass over blanks and control characters in a scheme.
fn is_followed(target: &str) -> bool {
    let visible = || target.chars().filter(|c| !c.is_ascii_control() && !c.is_whitespace());
    match visible().find(|c| matches!(c, ':' | '/' | '?' | '#')) {
        Some(':') => {
            let scheme: String = visible().take_while(|c| *c != ':').collect();
            SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendered(text: &str) -> String {
        String::from_utf8(render(text.as_bytes())).unwrap()
    }

    #[test]
    fn what_is_written_is_rendered() {
        let text = "# Files\r\n\r\nA *small* `list` of [notes](notes.txt):\n\n* one\n* two\n\n\
                    | a | b |\n| - | - |\n| 1 | 2 |\n";
        let page = rendered(text);
        for part in [
            "<h3>Files</h3>",
            "A <em>small</em> <code>list</code> of <a href=\"notes.txt\">notes</a>:",
            "<li>one</li>",
            "<td>2</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn raw_html_is_text() {
        let page = rendered("<script>alert(1)</script>\n\nand <b onclick=x>bold</b> <!-- no -->");
        assert!(!page.contains("<script") && !page.contains("<b "), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
        assert!(page.contains("and &lt;b onclick=x&gt;bold&lt;/b&gt;"), "{page}");
    }

    #[test]
    fn links_lead_to_pages_and_pictures_become_links() {
        for (target, shown) in [
            ("x.txt", "x.txt"),
            ("../a/b:c", "../a/b:c"),
            ("https://example.org/", "https://example.org/"),
            ("HTTP://example.org/", "HTTP://example.org/"),
            ("mailto:me@example.org", "mailto:me@example.org"),
            ("javascript:alert(1)", "#"),
            ("JaVaScRiPt:alert(1)", "#"),
            ("<java\tscript:alert(1)>", "#"),
            ("<\u{1}javascript:alert(1)>", "#"),
            ("&#106;avascript:alert(1)", "#"),
            ("data:text/html,x", "#"),
            ("vbscript:x", "#"),
            ("file:///etc/passwd", "#"),
        ] {
            for text in [format!("[a]({target})"), format!("![a]({target})")] {
                let page = rendered(&text);
                assert_eq!(page, format!("<p><a href=\"{shown}\">a</a></p>\n"), "{text}");
            }
        }
        let page = rendered("[![a](b.png)](c.html)");
        assert_eq!(page, "<p><a href=\"c.html\">a</a></p>\n");
        assert!(rendered("<javascript:alert(1)>").contains("<a href=\"#\">"));
    }

    #[test]
    fn control_characters_are_not_hidden() {
        assert_eq!(rendered("a\u{202e}b\u{1b}[1m"), "<p>a\u{fffd}b\u{fffd}[1m</p>\n");
        assert_eq!(render(b"caf\xe9"), "<p>caf\u{fffd}</p>\n".as_bytes());
    }

    proptest! {
        #[test]
        fn nothing_but_known_tags_comes_of_any_text(
            words in prop::collection::vec(
                prop_oneof![
                    Just("<script>".to_owned()), Just("[a](javascript:x)".into()),
                    Just("![".into()), Just("](\"onload=".into()), Just("\n\n".into()),
                    Just("```x\"y\n".into()), Just("> ".into()), Just("|-|-|\n".into()),
                    Just("<a href='x'>".into()), Just("&lt;".into()), Just("[b]: java".into()),
                    "\\PC{0,9}",
                ],
                0..20,
            ),
        ) {
            const TAGS: [&str; 28] = [
                "p", "a", "em", "strong", "del", "code", "pre", "ul", "ol", "li", "hr", "br", "h3",
                "h4", "h5", "h6", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "dl",
                "dt", "dd", "sup", "div",
            ];
            let page = rendered(&words.concat());
            for tag in page.split('<').skip(1) {
                let name = tag.trim_start_matches('/').split([' ', '>', '\n']).next().unwrap();
                prop_assert!(TAGS.contains(&name), "{} in {}", name, page);
                let inside = tag.split('>').next().unwrap();
                prop_assert!(!inside.to_ascii_lowercase().contains("href=\"javascript:"));
                prop_assert!(!inside.split('"').step_by(2).any(|part| part.contains("on")
                    && part.contains('=')), "{}", inside);
            }
        }
    }
}
