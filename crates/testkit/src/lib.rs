//! What tests of the running server share: the server as a process, a client that speaks raw bytes,
//! and a site whose every byte is known.
//!
//! Nothing here is made of the server's own code. A parser that is tested with itself is right
//! about its own mistakes.

#![forbid(unsafe_code)]

mod address;
mod begun;
mod binary;
mod checksum;
mod client;
#[cfg(target_arch = "x86_64")]
pub mod foreign;
#[cfg(target_arch = "x86_64")]
pub mod foreign_clock;
pub mod pebble;
mod processes;
mod response;
mod secure;
mod server;
mod site;
mod skip;
#[cfg(feature = "disk")]
pub mod slow_disk;
mod tier;
pub mod wait;
mod watchdog;

pub use address::free_address;
pub use begun::Begun;
pub use binary::binary;
pub use checksum::crc32;
pub use client::Client;
pub use response::{Response, responses};
pub use secure::{Harm, Identity, Visitor};
pub use server::{
    ALONE, Door, Held, Launch, Refused, Server, Stopped, as_ourselves, interrupt_group,
};
pub use site::{LARGE_BYTES, MANY, MODIFIED, Site, digits, large, large_at, many, name_of_many};
pub use skip::{is_strict, skip};
