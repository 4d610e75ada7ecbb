//! TLS between a connection's bytes and its socket's. Bytes go in and come out, and the time is
//! told: nothing here touches a socket or waits.
#![forbid(unsafe_code)]

mod config;
mod session;

pub use config::Config;
pub use session::Session;
