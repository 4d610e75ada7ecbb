//! One directory per concurrency architecture, the registry, and what they share.
//!
//! An architecture is only a way to wait: a connection goes as far as it can and says what it
//! needs, and the architecture decides whether that blocks, is polled for, handed to a helper or
//! submitted to a ring.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]
// A simulated kernel lies below one thread, and user-level threads do not run on it.
#![cfg_attr(test, allow(clippy::disallowed_macros))]

mod accept;
mod architecture;
pub mod architectures;
mod awaited;
mod blocking;
pub mod chunks;
pub mod clients;
pub mod descriptors;
mod desk;
mod drive;
pub mod end;
mod event_sources;
mod experiment;
mod governed;
mod governing;
mod helpers;
mod kernel;
mod limits;
pub mod links;
mod listener;
pub mod live;
mod overload;
mod phases;
mod pool;
pub mod registry;
mod renewals;
pub mod restart;
pub mod rings;
mod room;
pub mod settings;
pub mod share;
pub mod shared_state;
#[cfg(test)]
mod simulation;
mod slots;
mod timers;
mod transmit;
mod turn;
mod user_threads;
pub mod worker;

pub use architecture::{Architecture, Auto, Cut, Sockets};
pub use flyball_governor::Mode as GovernorMode;
pub use flyball_observe::ascii_json;
pub use flyball_observe::log::{FormatError, LogFormat};
pub use flyball_sys::sandbox::Violation;
pub use listener::Listener;
pub use registry::{ALL, find};
pub use renewals::Renewals;
pub use settings::{
    ACCESS_LOGS_MAX, AcceptLimit, AccessLog, AcmeSettings, AdminPlace, Advice, ClientAddress,
    ClientSettings, CloseAfter, CompletionOrder, Events, Experiment, GovernorSettings, HelperKind,
    Listen, LogLevel, LogSettings, LoopHabits, ResidencyTest, RingSettings, RunningSettings,
    SandboxMode, SandboxSettings, SendMode, Settings, SpoolSettings, StageSettings, ThreadOrder,
    TicketKeys, TlsSettings, UserThreadSettings, WorkOrder,
};
pub use worker::{Order, Report, Worker};
