//! Settings in two stages: [`Typed`] is what the user wrote and where, [`Settings`] is what the
//! server runs by, checked once and frozen.
//!
//! Each setting is one entry of [`SETTINGS`] or [`SITE_SETTINGS`]; flags, help, errors and
//! `docs/settings.md` are made from these tables. Defaults hold first, then the configuration file,
//! then `--set` and flags in the order given.
//!
//! [`Settings`]: flyball_arch::Settings

mod access;
mod access_files;
mod acme;
mod address;
mod architectures;
mod backends;
mod certificates;
mod client_certificates;
mod clients;
mod compress;
mod contradictions;
mod duplicates;
mod error;
mod expand;
mod experiment;
mod explain;
mod file;
mod foreign;
mod governor;
mod holding;
mod include;
mod keys;
mod kind;
mod limits;
mod listeners;
mod markdown;
mod mechanisms;
mod modules;
mod moved;
mod origins;
mod path_limits;
mod path_rows;
mod pools;
mod raw;
mod requests;
mod resolve;
mod responders;
mod routes;
mod running;
mod runtime;
mod sandbox;
mod secret_files;
mod server;
mod shortcuts;
mod site;
mod state;
mod suggest;
mod table;
mod task;
mod text;
mod tls;
mod typed;

pub use address::{Schemed, admin_address};
pub use architectures::TUNED_FIRST;
pub use error::{ERRORS_MAX, Origin, SettingError};
pub use expand::Environment;
pub use explain::{Change, Explained, Group, explain};
pub use file::{FILE_BYTES_MAX, parse};
pub use include::read;
pub use kind::{Kind, Mismatch};
pub use listeners::{LISTENERS, Listener, Listeners};
pub use markdown::{experiments_markdown, settings_markdown};
pub use moved::name_before;
pub use raw::Raw;
pub use resolve::{PORT, PORT_TRIES, defaults, resolve, resolve_in};
pub use runtime::runtime_directories;
pub use server::SETTINGS;
pub use site::{SITE_SETTINGS, SITE_TABLES};
pub use state::state_directory;
pub use suggest::nearest;
pub use table::{Flag, Range, Setting, Table, Task, UsedBy, Word, find};
pub use text::size as parse_size;
pub use typed::{Typed, TypedSite, TypedTable, Written};
