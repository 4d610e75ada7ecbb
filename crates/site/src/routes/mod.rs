//! What becomes of a path before files are looked for: redirects, rewrites, aliases, and the
//! fields that answers carry besides.
//!
//! All of it is a function of the path and of the type of what is found, so that the path cache can
//! hold what comes of it: a request that is answered from there meets no rule.

mod check;
mod fields;
mod language;
mod pattern;
mod redirects;
mod rewrites;
mod settings;
mod table;
mod target;

pub use check::{Fault, faults, is_path_target, is_pattern, is_target};
pub use fields::{field_fault, is_media_range};
pub use language::{LANGUAGES_MAX, is_language};
/// Longest error page, in bytes: each stays in memory.
pub const ERROR_PAGE_BYTES_MAX: u64 = 256 * 1024;

pub use settings::{
    AliasSettings, HeaderSettings, RedirectSettings, RewriteSettings, RouteSettings,
};
