//! The lab against hosts that it makes and a server that does what a test tells it to. All in one
//! program of tests, which is linked once.

#![forbid(unsafe_code)]

mod fake_server;
mod two_hosts;
