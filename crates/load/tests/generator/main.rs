//! What the generator does to a server that does exactly what a test tells it to. All in one
//! program of tests, which is linked once.

#![forbid(unsafe_code)]

mod agents;
mod clients;
mod common;
mod dynamic;
mod errors;
mod kept;
mod latency;
mod preflight;
mod retries;
mod secure;
