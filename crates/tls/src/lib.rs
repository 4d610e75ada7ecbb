//! TLS between a connection's bytes and its socket's. Bytes go in and come out, and the time is
//! told: nothing here touches a socket or waits.
#![forbid(unsafe_code)]
// The name in a hello is taken in the call that sets it, in which no thread waits.
#![expect(clippy::disallowed_macros, reason = "rustls names no way to hand it over")]

mod authority;
mod bundle;
mod challenges;
mod client;
mod clients;
mod config;
mod der;
mod failure;
mod hello;
mod identities;
mod kept;
mod key;
mod load;
mod records;
mod revoked;
mod session;
mod signers;
mod suites;
mod tickets;
mod x509;

pub use authority::Authority;
pub use bundle::Bundle;
pub use client::{Client, ClientSession, Trust};
pub use clients::{ClientAuth, ClientFault};
pub use config::{Config, Policy, Site, Unknown};
pub use failure::Failure;
pub use identities::SiteOf;
pub use kept::Kept;
pub use load::{Fault, Pair};
pub use records::{Opened, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, State};
pub use session::{Facts, Session};
pub use tickets::{ROOT_BYTES, Root, Tickets};
pub use x509::{Certificate, fingerprint};
