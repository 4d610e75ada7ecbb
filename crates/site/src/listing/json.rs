//! A listing as JSON (RFC 8259), documented in docs/listings.md.

use super::time::Time;
use super::{Entry, Page};
use crate::path::{encode_path, encode_segment};

pub(super) fn begin(page: &Page, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"path\":\"");
    encode_path(&page.path, out);
    // The root's is its slash alone.
    let slash: &[u8] = if page.path == b"." { b"" } else { b"/" };
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\",\"sorted\":");
    out.extend_from_slice(if page.sorted { b"true" } else { b"false" });
    out.extend_from_slice(b",\"entries\":[");
}

pub(super) fn entry(entry: &Entry, first: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if first { b"\n{\"name\":" } else { b",\n{\"name\":" });
    let name = String::from_utf8_lossy(&entry.name);
    string(&name, out);
    out.extend_from_slice(b",\"href\":\"./");
    // What is left of a name by percent-encoding needs no escapes.
    encode_segment(&entry.name, out);
    out.extend_from_slice(if entry.directory { b"/\"" } else { b"\"" });
    if std::str::from_utf8(&entry.name).is_err() {
        out.extend_from_slice(b",\"exact\":false");
    }
    let time = Time::of(entry.modified);
    let (kind, size) = match entry.directory {
        true => ("directory", String::new()),
        false => ("file", format!(",\"size\":{}", entry.size)),
    };
    let rest = format!(
        ",\"type\":\"{kind}\"{size},\"modified\":\"{}T{}:{}Z\"}}",
        time.date, time.minute, time.second,
    );
    out.extend_from_slice(rest.as_bytes());
}

pub(super) fn end(page: &Page, out: &mut Vec<u8>) {
    let Page { directories, files, bytes, .. } = page;
    let end = format!("\n],\"directories\":{directories},\"files\":{files},\"bytes\":{bytes}}}\n");
    out.extend_from_slice(end.as_bytes());
}

/// A string with its quotes.
fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            control if control.is_control() => {
                // Every control character has but four digits.
                out.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes());
            }
            character => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::wish::{Format, Key, Wish};
    use super::*;
    use proptest::prelude::*;

    fn render(path: &[u8], entries: &[Entry]) -> Vec<u8> {
        let wish = Wish { format: Format::Json, key: Key::Name, descending: false };
        let mut page = Page::new(path, wish);
        let mut out = Vec::new();
        begin(&page, &mut out);
        entries.iter().for_each(|entry| page.entry(entry, &mut out));
        end(&page, &mut out);
        out
    }

    fn file(name: &[u8]) -> Entry {
        Entry { name: name.to_vec(), directory: false, size: 1_536, modified: 784_111_777 }
    }

    #[test]
    fn a_listing_is_exactly_this() {
        let entries =
            [Entry { directory: true, ..file(b"d") }, file(b"a\"\\\n\x7f"), file(b"caf\xe9")];
        assert_eq!(
            String::from_utf8(render("a/é".as_bytes(), &entries)).unwrap(),
            "{\"path\":\"/a/%C3%A9/\",\"sorted\":true,\"entries\":[\n\
             {\"name\":\"d\",\"href\":\"./d/\",\"type\":\"directory\",\
             \"modified\":\"1994-11-06T08:49:37Z\"},\n\
             {\"name\":\"a\\\"\\\\\\u000a\\u007f\",\"href\":\"./a%22%5C%0A%7F\",\"type\":\"file\",\
             \"size\":1536,\"modified\":\"1994-11-06T08:49:37Z\"},\n\
             {\"name\":\"caf\u{fffd}\",\"href\":\"./caf%E9\",\"exact\":false,\"type\":\"file\",\
             \"size\":1536,\"modified\":\"1994-11-06T08:49:37Z\"}\n\
             ],\"directories\":1,\"files\":2,\"bytes\":3072}\n"
        );
        let empty = render(b".", &[]);
        let empty_text = "{\"path\":\"/\",\"sorted\":true,\"entries\":[\n],\"directories\":0,\
            \"files\":0,\"bytes\":0}\n";
        assert_eq!(std::str::from_utf8(&empty).unwrap(), empty_text);
    }

    proptest! {
        #[test]
        fn any_names_make_json_that_parses(
            names in prop::collection::vec(prop::collection::vec(1_u8.., 1..24), 0..9),
        ) {
            let entries: Vec<Entry> = names.iter().map(|name| file(name)).collect();
            let value: serde_json::Value = serde_json::from_slice(&render(b"x", &entries)).unwrap();
            let listed = value["entries"].as_array().unwrap();
            prop_assert_eq!(listed.len(), names.len());
            for (listed, name) in listed.iter().zip(&names) {
                let lossy = String::from_utf8_lossy(name);
                prop_assert_eq!(listed["name"].as_str(), Some(&*lossy));
                let exact = std::str::from_utf8(name).is_ok();
                prop_assert_eq!(listed.get("exact").is_none(), exact);
            }
        }
    }
}
