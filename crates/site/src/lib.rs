//! From a request to its answer: hosts, path safety, the caches, static files, listings.
#![forbid(unsafe_code)]

pub mod hosts;
pub mod listing;
pub mod mime;
pub mod path;
mod settings;

pub use settings::{CacheSettings, SiteSettings, Symlinks};
