//! Rows of tables that are for a path and all beneath it, or for the paths that match a pattern.

use flyball_site::{SiteSettings, routes};

use super::access::is_path;
use super::kind::Kind;
use super::routes::PATTERN;
use super::table::{Setting, Word};

/// `path`, which has this form.
pub(super) const fn path(
    form: &'static str,
    set: fn(&mut SiteSettings, String),
    unset: fn(&mut SiteSettings),
) -> Setting<SiteSettings> {
    Setting {
        key: "path",
        kind: Kind::Text { form, valid: is_path, set },
        word: Some(Word { name: "none", set: unset }),
        default: Some("none"),
        doc: "The path; the table covers it and all beneath it",
        ..Setting::ROW
    }
}

/// `match`, in the place of `path`.
pub(super) const fn pattern(
    set: fn(&mut SiteSettings, String),
    unset: fn(&mut SiteSettings),
) -> Setting<SiteSettings> {
    Setting {
        key: "match",
        kind: Kind::Text { form: PATTERN, valid: routes::is_pattern, set },
        word: Some(Word { name: "none", set: unset }),
        default: Some("none"),
        doc: "Instead of `path`: a pattern of paths, as `from` of a redirect",
        ..Setting::ROW
    }
}
