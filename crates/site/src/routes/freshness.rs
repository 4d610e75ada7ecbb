//! How long an answer may be kept when nobody says (RFC 9111, section 5.2.2).

/// Files whose name changes with their bytes: for good (RFC 8246).
const FINGERPRINTED: &str = "public, max-age=31536000, immutable";

/// The same on a site that is not for everybody: `public` would let a cache that others use keep
/// what took a password.
const FINGERPRINTED_RESTRICTED: &str = "max-age=31536000, immutable";

/// Pages: kept, and asked for again each time.
const PAGE: &str = "no-cache";

/// Everything else: for one visit, in seconds.
const OTHER: &str = "max-age=300";

/// Least length of a fingerprint.
const FINGERPRINT_MIN: usize = 8;

/// Greatest length of a fingerprint: SHA-512 in hexadecimal digits is none that anybody puts in a
/// name.
const FINGERPRINT_MAX: usize = 64;

/// The value of `Cache-Control` for a file of this name and type, on a site that is for everybody
/// or not.
pub(crate) fn cache_control(name: &str, media_type: &str, restricted: bool) -> &'static str {
    let essence = media_type.split(';').next().unwrap_or(media_type).trim();
    if essence == "text/html" || essence == "application/xhtml+xml" {
        PAGE
    } else if is_fingerprinted(name) {
        if restricted { FINGERPRINTED_RESTRICTED } else { FINGERPRINTED }
    } else {
        OTHER
    }
}

/// Whether a file name holds a fingerprint of the bytes: `name-<hash>.ext` or `name.<hash>.ext`,
/// perhaps with further extensions such as `.min.js` or `.js.map`.
///
/// A name that only looks like one costs a client a year of an old file; a fingerprint that is not
/// recognised costs a request each five minutes. So in doubt it is none.
fn is_fingerprinted(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    let Some((stem, _)) = name.rsplit_once('.') else { return false };
    if ends_in_uuid(stem) {
        return false;
    }
    stem.split('.').enumerate().any(|(at, part)| {
        let after_dash = part.rsplit_once('-').filter(|(before, _)| at > 0 || !before.is_empty());
        let candidate = after_dash.map_or(part, |(_, after)| after);
        // The first part is the name itself, unless a dash divides it.
        (at > 0 || after_dash.is_some()) && is_fingerprint(candidate)
    })
}

/// Digits of a hash: at least one digit and one letter, and neither a date, a version, a word with
/// a number, nor a size such as `1920x1080`.
fn is_fingerprint(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if !(FINGERPRINT_MIN..=FINGERPRINT_MAX).contains(&bytes.len())
        || !bytes.iter().all(u8::is_ascii_alphanumeric)
        || digits == 0
        || digits == bytes.len()
        || begins_with_date(bytes)
    {
        return false;
    }
    let lower_hex = bytes.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    let upper_hex = bytes.iter().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(b));
    let words = words(bytes);
    if lower_hex || upper_hex {
        // `facade2024` and `2024facade` are words.
        return words > 2;
    }
    // In base 32, 36 or 62 letters and digits take turns; in names they come in words.
    words * 2 >= bytes.len()
}

/// How many words and numbers follow one another: in `iPhone15Pro` there are four.
fn words(bytes: &[u8]) -> usize {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    };
    let new_word = |pair: &&[u8]| {
        let (before, after) = (kind(pair[0]), kind(pair[1]));
        // A capital letter begins a word, and small ones go on with it.
        before != after && !(before == 1 && after == 2)
    };
    1 + bytes.windows(2).filter(new_word).count()
}

/// Whether a text begins with a date such as `20240131`.
fn begins_with_date(bytes: &[u8]) -> bool {
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let digits = bytes.get(range)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    matches!(
        (number(0..4), number(4..6), number(6..8)),
        (Some(1900..=2099), Some(1..=12), Some(1..=31))
    )
}

/// Whether a name ends in a UUID (RFC 9562): it names a thing, whose bytes may change.
fn ends_in_uuid(stem: &str) -> bool {
    const LENGTHS: [usize; 5] = [12, 4, 4, 4, 8];
    let mut parts = stem.rsplit('-');
    LENGTHS.iter().enumerate().all(|(at, &length)| {
        parts.next().is_some_and(|part| {
            // The first group may have a name before it, after a dot or an underscore.
            let digits = part.len().checked_sub(length).and_then(|from| part.get(from..));
            let whole = part.len() == length || at + 1 == LENGTHS.len();
            whole && digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fingerprints_of_build_tools_are_recognised() {
        for name in [
            "app.3f2a91bc.js",
            "app-3f2a91bc.js",
            "style.0a1b2c3d4e5f.min.css",
            "main.d41d8cd98f00b204e980.js.map",
            "chunk-2d0a4b3f.6a0f2bc1.js",
            "index-B4x9QzLk.js",
            "app-JN5QXZ7K.js",
            "logo.5d5d9eefa31e4a2d.svg",
            "font-9e107d9d372bb6826bd81d3542a419d6.woff2",
            "assets/app.3F2A91BC.js",
            "some-long-name.a1b2c3d4.png",
        ] {
            assert!(is_fingerprinted(name), "{name}");
        }
    }

    #[test]
    fn dates_versions_sizes_and_words_are_no_fingerprints() {
        for name in [
            "jquery-3.7.1.min.js",
            "report-20240101.pdf",
            "photo.12345678.jpg",
            "backup-20240101T120000.tar.gz",
            "backup-20240101abc.zip",
            "photo-screenshot2024.png",
            "building-facade2024.jpg",
            "holiday-2024facade.jpg",
            "wallpaper-1920x1080.jpg",
            "case-iPhone15Pro.jpg",
            "DSC-Photo2024.jpg",
            "IMG-20240101-WA0003.jpg",
            "IMG_20240101.jpg",
            "lib-v12345678.js",
            "deadbeef.js",
            "deadbeef1.js",
            "app-deadbeef.js",
            "internationalization.js",
            "a-internationalization.js",
            "3f2a91bc.js",
            "-3f2a91bc.js",
            "app-3f2a91b.js",
            "3f2a91bc",
            "app-3f2a91bc",
            "550e8400-e29b-41d4-a716-4466554400ab.jpg",
            "avatar.550e8400-e29b-41d4-a716-4466554400ab.jpg",
            "model-bert12layers.bin",
            "",
            ".",
            "-.",
        ] {
            assert!(!is_fingerprinted(name), "{name}");
        }
        assert!(!is_fingerprinted(&format!("app.{}.js", "a1".repeat(FINGERPRINT_MAX))));
    }

    #[test]
    fn pages_are_asked_for_again_and_others_are_kept_for_a_visit() {
        let open = |name, media_type| cache_control(name, media_type, false);
        assert_eq!(open("a.html", "text/html; charset=utf-8"), "no-cache");
        assert_eq!(open("a.3f2a91bc.html", "text/html"), "no-cache");
        assert_eq!(open("a.css", "text/css"), "max-age=300");
        assert_eq!(open("a.3f2a91bc.css", "text/css"), FINGERPRINTED);
        assert!(!cache_control("a.3f2a91bc.css", "text/css", true).contains("public"));
    }

    proptest! {
        #[test]
        fn any_name_is_judged(name: String) {
            is_fingerprinted(&name);
        }

        #[test]
        fn most_fingerprints_are_found(hash in "[0-9a-f]{16}") {
            let plain = hash.bytes().all(|b| b.is_ascii_digit())
                || hash.bytes().all(|b| b.is_ascii_alphabetic())
                || words(hash.as_bytes()) < 3
                || begins_with_date(hash.as_bytes());
            let name = format!("app.{hash}.js");
            prop_assert_eq!(is_fingerprinted(&name), !plain);
        }

        #[test]
        fn numbers_and_words_are_never_taken_for_one(
            name in "[a-z]{1,12}-([0-9]{8,20}|[a-z]{8,20}|[a-z]{2,10}[0-9]{2,10})\\.[a-z]{2,4}",
        ) {
            prop_assert!(!is_fingerprinted(&name), "{}", name);
        }
    }
}
