//! One file per concurrency architecture, the registry, and what they share.
//!
//! An architecture is only a way to wait: an exchange goes as far as it can and says what it needs,
//! and the architecture decides whether that blocks, is polled for, handed to a helper or submitted
//! to a ring.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

mod accept;
mod accepts;
mod admin;
pub mod architectures;
mod atoms;
mod awaited;
mod blocking;
mod chunks;
mod clients;
mod configuration;
pub mod control;
pub mod counters;
mod desk;
mod exchange;
mod experiment;
pub mod explain;
mod group;
mod handover;
mod helpers;
pub mod histogram;
pub mod hosts;
mod limits;
mod listening;
mod live;
mod log;
mod logged;
mod mix;
mod operations;
mod overload;
mod phases;
mod pieces;
mod pool;
mod registry;
mod room;
mod sandbox;
mod server;
mod settings;
mod shared_state;
mod slots;
mod spool;
mod stages;
pub mod standing;
mod supervise;
mod surroundings;
mod text;
mod timers;
pub mod trace;
mod transmit;
mod turn;
mod user_threads;
mod warnings;
mod worker;

pub use configuration::{Changes, Configuration};
pub use experiment::{AcceptLock, CloseAfter, Experiment};
pub use flyball_sys::sandbox::Violation;
pub use log::{FormatError, LogFormat};
pub use registry::{ALL, Architecture, Sockets, find};
pub use sandbox::{Row, SERVING, SandboxMode, SandboxSettings, TABLE};
pub use server::Server;
pub use settings::{
    AcceptLimit, AccessLog, AdminAddress, Advice, ClientAddress, ClientSettings, CompletionOrder,
    Events, HelperKind, LogLevel, LogSettings, ResidencyTest, RingSettings, RunningSettings,
    SendMode, Settings, SpoolSettings, StageSettings, ThreadOrder, WorkOrder,
};
pub use surroundings::{Lack, lacks};
pub use text::ascii_json;
pub use worker::{Order, Report, Worker};
