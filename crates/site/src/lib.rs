//! From a request to its answer: hosts, path safety, the caches, static files, listings.
//!
//! [`Service::lookup`] answers from the caches and never blocks. Whatever may wait on the disk
//! comes out as a [`Plan`]; how it is waited for is the architecture's business.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

pub mod access;
pub mod backend;
mod blocks;
mod caches;
mod coded;
mod coded_source;
mod compress;
mod configure;
mod counts;
mod entry;
mod files;
mod filter;
mod found;
mod held;
pub mod hosts;
mod listing;
pub mod mime;
pub mod modules;
mod outcome;
mod pages;
pub mod path;
pub mod pattern;
mod pid_locks;
mod plan;
mod policy;
pub mod references;
mod responder;
pub mod routes;
mod served;
mod service;
mod settings;
mod shared;
mod shared_table;
pub mod simulate;
mod source;
mod steps;
mod store;
mod translate;
mod variant;

pub use backend::{
    BackendLimits, CgiSettings, Failure as BackendFailure, Fill, LinkBounds, NoLink, PoolSettings,
    Relay, ResponderSettings, Spawner, Spool, Upstream, Went, Wire, Wish,
};
pub use compress::{CompressCounts, CompressSettings, Overloaded};
pub use counts::{AccessCounts, CacheCounts};
pub use entry::OpenFile;
pub use filter::{FILTERS, FilterKind, Level};
pub use plan::{Ask, Plan};
pub use policy::{CachePolicy, Class};
pub use responder::{Responder, Role, Wants};
pub use service::{Answer, Earlier, File, Lookup, MovedRoots, Out, Service, Sites};
pub use settings::{CacheSettings, Hints, SiteSettings, Symlinks};
pub use shared::SharedCaches;
pub use shared_table::SharedTable;
pub use source::Piece;
pub use steps::Steps;
