//! What becomes of a path before files are looked for: redirects, rewrites, aliases, and the
//! fields that answers carry besides.
//!
//! All of it is a function of the path and of the type of what is found, so that the path cache can
//! hold what comes of it: a request that is answered from there meets no rule.

mod check;
mod error_pages;
mod fields;
mod freshness;
mod images;
mod language;
mod neighbours;
mod opening;
mod path_rules;
mod paths;
mod pattern;
mod perfect_hash;
mod redirects;
mod returns;
mod rewrites;
mod settings;
mod site_routes;
mod slips;
mod table;
mod target;
mod types;
mod users;

pub use check::{Fault, faults, is_path_target, is_pattern, is_target};
pub(crate) use error_pages::ErrorPages;
pub use fields::{field_fault, is_media_range};
pub(crate) use freshness::cache_control;
pub use language::{LANGUAGES_MAX, is_language};
/// Longest error page, in bytes: each stays in memory.
pub const ERROR_PAGE_BYTES_MAX: u64 = 256 * 1024;

pub(crate) use neighbours::{Candidate, Depends, GZIP_SUFFIX, Neighbours, Role, language_in};
pub(crate) use opening::{ENTERED, file as found, named as closed, or_before, page, told};
pub(crate) use path_rules::PathRules;
pub(crate) use paths::{Prefix, readings, relative_of, relative_of_url, url_of};
pub(crate) use pattern::Pattern;
pub(crate) use returns::Returns;
pub use settings::{
    AliasSettings, CacheControl, FileSettings, HeaderSettings, Holds, RedirectSettings,
    ReturnSettings, RewriteSettings, RouteSettings, TypeSettings,
};
pub use site_routes::user_directories;
pub(crate) use site_routes::{Asked, Led, Place, Route, SiteRoutes, canonical};
pub use slips::slip_in_path;
