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
mod descriptors;
mod desk;
mod drive;
mod exchange;
mod experiment;
pub mod explain;
mod group;
mod handover;
mod helpers;
mod limits;
mod listening;
mod live;
mod logged;
mod operations;
mod overload;
mod phases;
mod pieces;
mod pool;
mod registry;
mod restart;
mod rings;
mod room;
mod sandbox;
mod server;
mod settings;
mod share;
mod shared_state;
mod slots;
mod spool;
mod stages;
mod supervise;
mod surroundings;
mod timers;
mod transmit;
mod turn;
mod user_threads;
mod warnings;
mod worker;

pub use configuration::{Changes, Configuration};
pub use experiment::{AcceptLock, CloseAfter, Experiment};
pub use flyball_observe::ascii_json;
pub use flyball_observe::log::{FormatError, LogFormat};
pub use flyball_sys::sandbox::Violation;
pub use registry::{ALL, Architecture, Sockets, find};
pub use sandbox::{Row, SERVING, TABLE};
pub use server::Server;
pub use settings::{
    AcceptLimit, AccessLog, AdminAddress, Advice, ClientAddress, ClientSettings, CompletionOrder,
    Events, HelperKind, LogLevel, LogSettings, ResidencyTest, RingSettings, RunningSettings,
    SandboxMode, SandboxSettings, SendMode, Settings, SpoolSettings, StageSettings, ThreadOrder,
    WorkOrder,
};
pub use surroundings::{Lack, lacks};
pub use worker::{Order, Report, Worker};
