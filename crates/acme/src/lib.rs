//! The agent that gets certificates by ACME (RFC 8555) and renews them, and what it is told.
//!
//! The agent is a process of its own, which is executed. It has what no other process of the server
//! has: the outside network, DNS, the key of an account, and a directory that it writes. It has no
//! socket of a client. [`messages`] is all that it and the master tell each other: with these and
//! the [`Configuration`] alone, without the feature `agent`, the crate needs no library but serde.
//!
//! The agent does one thing after the other, and blocks: its library's futures are done when they
//! are polled once, so that there is no runtime. What is in the storage is told before any
//! authority is asked.
#![forbid(unsafe_code)]

#[cfg(feature = "agent")]
mod agent;
mod configuration;
mod files;
pub mod messages;
mod names;

#[cfg(feature = "agent")]
pub use agent::{About, Import, Imported, Kept, import, kept, run};
pub use configuration::{
    Authority, CERTIFICATES_MAX, Configuration, External, Kind, is_directory, is_of_internet,
    wants_external,
};
pub use files::{STORAGE_NAMES, certificate_path};
pub use names::Name;
