//! From a request to its answer: hosts, path safety, the caches, static files, listings.
//!
//! [`Service::lookup`] answers from the caches and never blocks. Whatever may wait on the disk
//! comes out as a [`Plan`]; how it is waited for is the architecture's business.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

pub mod access;
pub mod backend;
mod backend_paths;
mod backend_settings;
mod blocks;
mod cache_settings;
mod caches;
mod coded;
mod coded_source;
mod compress;
mod configure;
mod counts;
mod decoded_source;
mod entry;
mod etag;
mod files;
mod filter;
mod found;
mod held;
pub mod host_roots;
pub mod hosts;
pub mod limits;
mod listing;
mod listing_source;
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
mod reply;
pub mod routes;
mod secrets;
mod served;
mod service;
mod settings;
mod shared;
mod shared_table;
pub mod simulate;
mod source;
mod spread;
mod steps;
mod store;
mod tls_settings;
mod translate;
mod variant;

pub use access::AccessCounts;
pub use backend::programs;
pub use backend::{
    BackendLimits, CgiSettings, Failure as BackendFailure, Fill, LinkBounds, NoLink, PoolSettings,
    Program, Relay, ResponderSettings, Spool, Target, Upstream, Went, Wire, Wish,
};
pub use cache_settings::{CacheSettings, Hints};
pub use compress::{CompressCounts, CompressSettings, Overloaded};
pub use counts::CacheCounts;
pub use entry::{File, OpenFile};
pub use etag::EtagRule;
pub use filter::{FILTERS, FilterKind, Level};
pub use limits::{Limit, LimitSettings};
pub use plan::{Ask, Plan};
pub use policy::{CachePolicy, Class};
pub use secrets::Secret;
pub use service::{
    Answer, Earlier, Lookup, MovedRoots, Out, Responder, Role, Service, Sites, Wants,
};
pub use settings::{SiteSettings, Symlinks};
pub use shared::SharedCaches;
pub use shared_table::SharedTable;
pub use source::Piece;
pub use spread::{HostRoots, Spread};
pub use steps::Steps;
pub use tls_settings::{CertificateFiles, CertificateSource, ClientFiles, TlsSettings};
