//! The agent against Pebble, the test authority of Let's Encrypt: real orders over real sockets.
#![forbid(unsafe_code)]

mod agent;
mod authority;
mod faults;
mod kills;
mod orders;
mod requests;
mod responder;
