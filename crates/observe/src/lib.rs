//! What a server tells of itself: counters in shared memory, histograms, timelines of requests, and
//! the access log.
//!
//! An answer reaches it as its status and length, a plan as its kind. Nothing here waits but the
//! log process, and a thread that ends for its last lines.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

pub mod counters;
pub mod histogram;
pub mod hosts;
pub mod log;
pub mod queues;
pub mod standing;
mod text;
pub mod trace;
pub mod waited;
pub mod writers;

pub use text::ascii_json;
