//! When a server has more to do than it can, and what it does then: samples in, decisions out.
//!
//! Nothing here waits, allocates in its fast part, or knows a socket. Time is a parameter in
//! nanoseconds of one monotonic clock. All signals are absolute (a delay has a zero, so that no
//! baseline is learned that could drift), each lever has one owner, and each move has its reason
//! with numbers ([`Why`]).
//!
//! | part | acts within | by | decides |
//! | --- | --- | --- | --- |
//! | [`Loop`] | a turn, 100 ms | a worker, once a turn | what is taken in, and how long it waits |
//! | its ladder | 1 s | the same | the [`Level`] of what is left out |
//! | [`Gate`] | a request | who uses a scarce resource | what begins, waits or is refused |
//! | [`Steering`] | 10 s and more | one process of the server | sizes of pools, workers; advice |
//!
//! A slower part does not move while a faster one is active.

#![forbid(unsafe_code)]

mod backlog;
mod bounds;
mod budget;
mod event_loop;
mod gate;
mod ladder;
mod machine;
mod mean;
mod moves;
mod orders;
mod pool;
mod pull;
mod sojourn;
mod steering;
mod turn;
mod why;

pub use bounds::{Bounds, Mode, PhaseBounds, QueueBounds};
pub use event_loop::Loop;
pub use gate::{Ask, Entry, Gate, GateBounds, Next};
pub use ladder::Level;
pub use machine::Machine;
pub use moves::{Lever, Move, Notes};
pub use orders::{Arrive, Orders};
pub use pool::{Pool, PoolBounds};
pub use steering::{Advice, Steering, SteeringBounds, Window};
pub use turn::{Age, Head, Queue, Turn};
pub use why::{Ms, Why};

/// Nanoseconds of a monotonic clock, or between two of its readings.
pub type Ns = u64;
