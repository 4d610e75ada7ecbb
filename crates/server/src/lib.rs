//! What runs an architecture: the master that forks its workers and restarts them, generations of
//! workers, handover to another master, commands, the admin process, and what each process gives
//! up.
//!
//! The master waits for signals and commands and reads no byte of the network.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

mod acme;
mod admin;
mod agent;
mod configuration;
pub mod control;
pub mod explain;
mod handover;
mod host_watch;
mod issuers;
mod listening;
mod sandbox;
mod server;
mod spawner;
mod spool;
mod supervise;
mod surroundings;
mod tls;
mod warnings;
pub mod words;

pub use acme::names_of as certificate_names;
pub use admin::{Found, find};
pub use configuration::{Changeable, Changes, Configuration};
pub use handover::has_secrets;
pub use issuers::{is_internal, is_public, spread_hosts};
pub use sandbox::USERS;
pub use server::{Checked, Server};
pub use surroundings::{Lack, lack_of_log, lacks};
pub use tls::{FILE_BYTES_MAX, Told, authority_in, root_path};
