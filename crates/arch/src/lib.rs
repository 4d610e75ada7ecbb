//! One file per concurrency architecture, the registry, and what they share.
#![forbid(unsafe_code)]

mod settings;

pub use settings::{AcceptLimit, AccessLog, AdminAddress, Events, SendMode, Settings};
