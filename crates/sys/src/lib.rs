//! Every system call of Flyball and every unsafe line.
//!
//! Each wrapper is as thin as the call allows: it takes and returns owned or borrowed descriptors,
//! says in its doc whether it may block, and hides pointers. Nothing here knows HTTP.
#![deny(clippy::undocumented_unsafe_blocks)]
#![allow(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

pub mod alloc;
#[cfg(test)]
mod apart;
pub mod bundle;
pub mod cgroup;
pub mod channel;
pub mod clients;
pub mod clock;
pub mod connect;
mod descriptor_limits;
pub mod descriptors;
pub mod disk;
pub mod error_log;
pub mod executable;
pub mod file;
pub mod file_kind;
pub mod inherit;
pub mod intake;
pub mod known_file;
pub mod letterbox;
pub mod lock;
pub mod lock_file;
pub mod log_file;
pub mod machine;
pub mod mapping;
mod mincore;
pub mod nameless;
pub mod net;
pub mod netstat;
pub mod node;
pub mod notify;
pub mod own_directory;
pub mod owned;
pub mod pid_file;
pub mod pinned;
pub mod place;
pub mod process;
pub mod program;
pub mod random;
pub mod readiness;
mod refused;
pub mod residency;
pub mod responder;
pub mod sandbox;
pub mod sealed;
pub mod secret_file;
pub mod shared;
pub mod shared_file;
pub mod signal;
pub mod subdirectories;
pub mod timer;
pub mod title;
pub mod uring;
pub mod usage;
pub mod user_thread;
pub mod wake;
pub mod whole_file;
pub mod within;
