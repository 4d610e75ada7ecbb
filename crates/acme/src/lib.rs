//! The agent that gets certificates by ACME (RFC 8555) and renews them.
//!
//! It is a process of its own, which is executed. It has what no other process of the server has:
//! the outside network, DNS, the key of an account, and a directory that it writes. It has no
//! socket of a client. [`messages`] is all that it and the master tell each other.
//!
//! It does one thing after the other, and blocks: its library's futures are done when they are
//! polled once, so that there is no runtime. What is in the storage is told before any authority is
//! asked.
#![forbid(unsafe_code)]

mod account;
mod agent;
mod challenges;
mod channel;
mod configuration;
mod entry;
mod fault;
mod https;
mod ladder;
mod lease;
pub mod messages;
mod names;
mod order;
mod pair;
mod schedule;
mod storage;
mod time;

pub use agent::run;
pub use configuration::{Authority, Configuration, External, Kind};
