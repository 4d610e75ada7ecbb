//! A connection without a socket.
#![forbid(unsafe_code)]

mod arrival;
mod secure;
mod site;
mod wishes;
