//! How long an answer may be kept when no rule says (RFC 9111, section 5.2.2).
//!
//! Nothing is fresh by its name: what looks like a fingerprint of the bytes may be a date, a size
//! or a number of a user, and a client that keeps an old file for a year is out of reach.
//! Which directories hold files that never change is known to the operator alone, who says it by a
//! rule (docs/routing.md).

use super::settings::CacheControl;

/// Kept, and asked for again each time: a file that has not changed costs a 304.
const REVALIDATED: &str = "no-cache";

/// For one visit, in seconds.
const VISIT: &str = "max-age=300";

/// The value of `Cache-Control` for a file of this type, if there shall be one. What only some may
/// see is `private` besides, which is said where they are admitted.
pub(crate) fn cache_control(way: CacheControl, media_type: &str) -> Option<&'static str> {
    match way {
        CacheControl::Revalidate => Some(REVALIDATED),
        CacheControl::Auto if is_page(media_type) => Some(REVALIDATED),
        CacheControl::Auto => Some(VISIT),
        CacheControl::Off => None,
    }
}

/// Whether a type is that of pages, which refer to other files.
fn is_page(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or(media_type).trim();
    essence == "text/html" || essence == "application/xhtml+xml"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_asked_for_again_unless_a_site_says_otherwise() {
        for media_type in ["text/html", "text/css", "image/jpeg", "application/x-mpegURL"] {
            assert_eq!(cache_control(CacheControl::Revalidate, media_type), Some("no-cache"));
            assert_eq!(cache_control(CacheControl::Off, media_type), None);
        }
        let auto = |media_type| cache_control(CacheControl::Auto, media_type);
        assert_eq!(auto("text/html; charset=utf-8"), Some("no-cache"));
        assert_eq!(auto("application/xhtml+xml"), Some("no-cache"));
        assert_eq!(auto("text/css"), Some("max-age=300"));
    }
}
