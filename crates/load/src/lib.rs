//! The load generator: a schedule says when, a workload what, and what is observed comes out.
//!
//! * [`schedule`]: when sessions arrive, by an absolute clock.
//! * [`workload`]: what they ask for.
//! * [`engine`]: threads that open connections, ask, and listen.
//! * [`observe`]: counts, distributions, and what they mean.
#![forbid(unsafe_code)]

pub mod agent;
mod ask;
mod asking;
pub mod compare;
mod content;
mod dial;
pub mod doubts;
pub mod engine;
mod expecting;
mod field;
pub mod fileset;
pub mod job;
pub mod observe;
mod options;
pub mod peak;
mod preflight;
pub mod random;
pub mod schedule;
pub mod sessions;
mod set_checks;
pub mod target;
pub mod think;
pub mod units;
pub mod workload;
