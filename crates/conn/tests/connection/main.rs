//! A connection without a socket.
#![forbid(unsafe_code)]

mod secure;
mod site;
mod wishes;
