//! The media type of a file by its name (RFC 9110, section 8.3).
//!
//! Asked for only when a file enters a cache, so it is written to be read, not to be fast.

use hashbrown::HashMap;
use std::borrow::Cow;

/// What is said of bytes of which nothing is known (RFC 2046, section 4.5.1).
pub const UNKNOWN: &str = "application/octet-stream";

/// Where the table of `mime_guess` is behind a standard or against one. A test fails when an entry
/// has become superfluous.
const CORRECTIONS: &[(&str, &str)] = &[
    // RFC 9239, section 6; `cjs` is what Node.js calls a script that is not a module.
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    // ECMA-426: a source map is JSON.
    ("map", "application/json"),
    // RFC 8081, section 4.4.
    ("otf", "font/otf"),
    ("woff", "font/woff"),
    // AV1 Image File Format: sequences have no type of their own.
    ("avifs", "image/avif"),
    // RFC 8216, section 10; its segments (section 3.2) are MPEG-2 transport streams (RFC 3555).
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("ts", "video/mp2t"),
    // RFC 4337.
    ("m4a", "audio/mp4"),
    // RFC 6713. A compressed SVG is one only under `Content-Encoding: gzip`, which is not sent.
    ("tgz", "application/gzip"),
    ("svgz", "application/gzip"),
    // RFC 8878, section 7.1.
    ("zst", "application/zstd"),
    // RFC 9512.
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    // TOML 1.0, "MIME type"; in IANA's registry since 2024.
    ("toml", "application/toml"),
    // RFC 6350, section 10.1.
    ("vcf", "text/vcard"),
    // RFC 6922.
    ("sql", "application/sql"),
    // RFC 8949, section 9.3.
    ("cbor", "application/cbor"),
    // WGSL, appendix "The text/wgsl media type".
    ("wgsl", "text/wgsl"),
    // Not registered, but a package is not the RealAudio plug-in of the same extension.
    ("rpm", "application/x-rpm"),
];

/// Media types by extension: the site's own first, then the built-in table.
#[derive(Clone, Debug)]
pub struct Types {
    overrides: HashMap<Vec<u8>, String>,
    charset: String,
}

impl Types {
    /// Media types by extension, without its dot: where one is given twice the first counts. An
    /// extension may have dots inside (`tar.gz`). An empty `charset` adds none to any type.
    pub fn new(overrides: &[(String, String)], charset: &str) -> Types {
        let mut types = Types { overrides: HashMap::new(), charset: charset.to_owned() };
        for (extension, media_type) in overrides {
            let extension = extension.to_ascii_lowercase().into_bytes();
            types.overrides.entry(extension).or_insert_with(|| media_type.clone());
        }
        types
    }

    /// The value of `Content-Type` for a file of this name, in whatever case and encoding it is.
    ///
    /// An override for `tar.gz` comes before one for `gz`. A leading dot does not begin an
    /// extension. Textual types get the charset, overrides too, unless they name one.
    pub fn of(&self, file_name: &[u8]) -> Cow<'_, str> {
        let name = file_name.to_ascii_lowercase();
        let media_type = extensions(&name)
            .find_map(|extension| self.overrides.get(extension).map(String::as_str))
            .or_else(|| extensions(&name).last().and_then(built_in))
            .unwrap_or(UNKNOWN);
        self.told(media_type)
    }

    /// The value of `Content-Type` for a file of this type: a textual one gets the charset, unless
    /// it names one.
    pub(crate) fn told<'a>(&self, media_type: &'a str) -> Cow<'a, str> {
        if self.charset.is_empty() || has_charset(media_type) || !takes_charset(media_type) {
            return Cow::Borrowed(media_type);
        }
        Cow::Owned(format!("{media_type}; charset={}", self.charset))
    }
}

/// What follows each dot of a name but a leading one, longest first: `tar.gz`, `gz`.
fn extensions(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    memchr::memchr_iter(b'.', name).filter(|&dot| dot > 0).map(|dot| &name[dot + 1..])
}

fn built_in(extension: &[u8]) -> Option<&'static str> {
    let extension = std::str::from_utf8(extension).ok()?;
    CORRECTIONS
        .iter()
        .find(|(corrected, _)| *corrected == extension)
        .map(|(_, media_type)| *media_type)
        .or_else(|| mime_guess::from_ext(extension).first_raw())
}

/// True when the type has a `charset` parameter (RFC 9110, section 8.3.2).
fn has_charset(media_type: &str) -> bool {
    media_type.split(';').skip(1).any(|parameter| {
        let name = parameter.split('=').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("charset")
    })
}

/// True for types whose charset the server should tell, since the bytes need not.
///
/// * `text/*` (RFC 6657), but not `text/vtt`, which is always UTF-8 and has no parameters.
/// * XML under any name (RFC 7303, sections 4.2 and 9), SVG, XHTML, Atom and RSS among them.
/// * JavaScript by its obsolete names (RFC 9239, section 6), and SQL (RFC 6922).
/// * Not JSON: it is always UTF-8, and no parameter is defined (RFC 8259, sections 8.1 and 11).
///   The same holds for YAML (RFC 9512), TOML and web application manifests.
fn takes_charset(media_type: &str) -> bool {
    const TEXTUAL_APPLICATIONS: &[&str] = &[
        "application/xml",
        "application/xml-dtd",
        "application/xml-external-parsed-entity",
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
        "application/sql",
    ];
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (essence.starts_with("text/") && essence != "text/vtt")
        || essence.ends_with("+xml")
        || TEXTUAL_APPLICATIONS.contains(&essence.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn types(overrides: &[(&str, &str)], charset: &str) -> Types {
        let owned: Vec<(String, String)> =
            overrides.iter().map(|(e, t)| (e.to_string(), t.to_string())).collect();
        Types::new(&owned, charset)
    }

    fn check(types: &Types, cases: &[(&str, &str)]) {
        for &(name, media_type) in cases {
            assert_eq!(types.of(name.as_bytes()), media_type, "{name}");
        }
    }

    #[test]
    fn what_the_web_is_made_of_has_its_registered_type() {
        check(
            &types(&[], ""),
            &[
                ("index.html", "text/html"),
                ("a.css", "text/css"),
                ("a.js", "text/javascript"),
                ("a.mjs", "text/javascript"),
                ("a.cjs", "text/javascript"),
                ("a.json", "application/json"),
                ("a.js.map", "application/json"),
                ("a.jsonld", "application/ld+json"),
                ("a.webmanifest", "application/manifest+json"),
                ("a.wasm", "application/wasm"),
                ("a.xml", "text/xml"),
                ("a.txt", "text/plain"),
                ("a.md", "text/markdown"),
                ("a.csv", "text/csv"),
                ("a.ics", "text/calendar"),
                ("a.vcf", "text/vcard"),
                ("a.yaml", "application/yaml"),
                ("a.toml", "application/toml"),
                ("a.svg", "image/svg+xml"),
                ("a.svgz", "application/gzip"),
                ("a.png", "image/png"),
                ("a.jpg", "image/jpeg"),
                ("a.jpeg", "image/jpeg"),
                ("a.gif", "image/gif"),
                ("a.webp", "image/webp"),
                ("a.avif", "image/avif"),
                ("a.jxl", "image/jxl"),
                ("favicon.ico", "image/x-icon"),
                ("a.woff", "font/woff"),
                ("a.woff2", "font/woff2"),
                ("a.ttf", "font/ttf"),
                ("a.otf", "font/otf"),
                ("a.mp3", "audio/mpeg"),
                ("a.m4a", "audio/mp4"),
                ("a.opus", "audio/ogg"),
                ("a.mp4", "video/mp4"),
                ("a.webm", "video/webm"),
                ("a.m3u8", "application/vnd.apple.mpegurl"),
                ("a.ts", "video/mp2t"),
                ("a.vtt", "text/vtt"),
                ("a.pdf", "application/pdf"),
                ("a.zip", "application/zip"),
                ("a.gz", "application/gzip"),
                ("a.tar.gz", "application/gzip"),
                ("a.tar.zst", "application/zstd"),
                ("a.deb", "application/octet-stream"),
            ],
        );
    }

    #[test]
    fn every_correction_still_corrects_the_table() {
        for (at, &(extension, media_type)) in CORRECTIONS.iter().enumerate() {
            let table = mime_guess::from_ext(extension).first_raw();
            assert_ne!(table, Some(media_type), "{extension} needs no correction");
            let twice = CORRECTIONS[..at].iter().any(|(other, _)| *other == extension);
            assert!(!twice, "{extension} is corrected twice");
            assert_eq!(extension, extension.to_ascii_lowercase());
        }
    }

    #[test]
    fn names_without_a_known_extension_are_octets() {
        check(
            &types(&[("", "text/plain")], "utf-8"),
            &[("README", UNKNOWN), ("", UNKNOWN), (".html", UNKNOWN), ("a.unheard-of", UNKNOWN)],
        );
        check(&types(&[], "utf-8"), &[("a.", UNKNOWN), (".", UNKNOWN), ("..", UNKNOWN)]);
    }

    #[test]
    fn case_and_further_dots_do_not_matter() {
        check(
            &types(&[], "utf-8"),
            &[
                ("INDEX.HTML", "text/html; charset=utf-8"),
                ("a.min.JS", "text/javascript; charset=utf-8"),
                ("a.html.PNG", "image/png"),
                ("a..css", "text/css; charset=utf-8"),
                (".hidden.css", "text/css; charset=utf-8"),
                ("a.html.", UNKNOWN),
            ],
        );
    }

    #[test]
    fn only_the_extension_has_to_be_text() {
        let types = types(&[], "utf-8");
        assert_eq!(types.of(b"\xff\xfe.html"), "text/html; charset=utf-8");
        assert_eq!(types.of(b"caf\xe9.png"), "image/png");
        assert_eq!(types.of(b"a.\xff"), UNKNOWN);
        assert_eq!(types.of("a.é".as_bytes()), UNKNOWN);
    }

    #[test]
    fn a_charset_is_added_to_textual_types_only() {
        let types = types(&[], "utf-8");
        for (name, media_type) in [
            ("a.html", "text/html"),
            ("a.txt", "text/plain"),
            ("a.js", "text/javascript"),
            ("a.xml", "text/xml"),
            ("a.svg", "image/svg+xml"),
            ("a.xhtml", "application/xhtml+xml"),
            ("a.atom", "application/atom+xml"),
            ("a.rss", "application/rss+xml"),
            ("a.md", "text/markdown"),
            ("a.sql", "application/sql"),
        ] {
            assert_eq!(types.of(name.as_bytes()), format!("{media_type}; charset=utf-8"));
        }
        for name in
            ["a.json", "a.geojson", "a.webmanifest", "a.map", "a.yaml", "a.vtt", "a.png", "a.wasm"]
        {
            assert!(!types.of(name.as_bytes()).contains("charset"), "{name}");
        }
    }

    #[test]
    fn the_charset_is_the_settings_or_none() {
        check(&types(&[], "koi8-r"), &[("a.html", "text/html; charset=koi8-r")]);
        check(&types(&[], ""), &[("a.html", "text/html")]);
    }

    #[test]
    fn overrides_come_first_and_the_longest_extension_wins() {
        check(
            &types(
                &[
                    ("html", "application/x-mine"),
                    ("gz", "application/x-gzip"),
                    ("TAR.gz", "application/x-tgz"),
                    ("md", "text/plain"),
                    ("md", "text/html"),
                    ("new", "Text/New"),
                ],
                "utf-8",
            ),
            &[
                ("a.html", "application/x-mine"),
                ("a.gz", "application/x-gzip"),
                ("a.tar.gz", "application/x-tgz"),
                ("a.TAR.GZ", "application/x-tgz"),
                ("tar.gz", "application/x-gzip"),
                ("a.md", "text/plain; charset=utf-8"),
                ("a.new", "Text/New; charset=utf-8"),
                // An override for the whole of what follows a dot, not for its first part.
                ("a.html.png", "image/png"),
                ("a.css", "text/css; charset=utf-8"),
            ],
        );
    }

    #[test]
    fn a_charset_that_is_there_already_stays() {
        check(
            &types(
                &[
                    ("a", "text/html; charset=iso-8859-1"),
                    ("b", "text/html;CharSet = \"x\""),
                    ("c", "text/plain; format=flowed"),
                    ("d", "text/plain; x-charset=y"),
                ],
                "utf-8",
            ),
            &[
                ("x.a", "text/html; charset=iso-8859-1"),
                ("x.b", "text/html;CharSet = \"x\""),
                ("x.c", "text/plain; format=flowed; charset=utf-8"),
                ("x.d", "text/plain; x-charset=y; charset=utf-8"),
            ],
        );
    }

    proptest! {
        #[test]
        fn any_name_has_a_type_that_a_header_field_can_hold(name: Vec<u8>, extension: String) {
            let types = types(&[], "utf-8");
            let dotted = [&name[..], b".", extension.as_bytes()].concat();
            for name in [&name, &dotted] {
                let media_type = types.of(name);
                prop_assert!(media_type.contains('/'));
                prop_assert!(media_type.bytes().all(|b| b == b' ' || b.is_ascii_graphic()));
            }
        }
    }
}
