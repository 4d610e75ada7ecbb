//! User-level threads and what they wait for (S0, section 4.2; Capriccio): a cooperative scheduler
//! over the event mechanisms, and the life of a connection as straight-line code that parks where a
//! blocking thread would block.
//!
//! One kernel thread runs them all. Whoever runs owns the [`Commons`]: they are handed over with
//! each switch, so that nobody can hold a borrow of the caches or the buffers while another runs,
//! and nothing of a user-level thread is thread-local.

mod commons;
mod connection;
mod schedule;
mod scheduler;

pub(crate) use commons::Commons;
pub(crate) use connection::serve_connection;
pub(crate) use scheduler::{Here, Scheduler, Wake, Why};

/// The settings that the threads honour, however many there are, beside those of their helpers.
pub(crate) const SETTINGS: &[&str] = &[
    "knot.stack",
    "knot.order",
    "workers",
    "pin",
    "events",
    "accept.limit",
    "accept.eager-read",
    "accept.exclusive",
    "send.mode",
    "send.piece",
    "experiment.cork",
];
