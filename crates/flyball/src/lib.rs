//! What the `flyball` program is configured by: its command line, its configuration file and the
//! one table of settings behind both.
#![forbid(unsafe_code)]

pub mod cli;
pub mod configuration;
#[cfg(feature = "lab")]
pub mod experiments;
pub mod running;
pub mod settings;
pub mod top;
