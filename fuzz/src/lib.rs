//! Fuzz targets: each takes any bytes, must not panic, and checks what is true of every input.
//!
//! `cargo test -p flyball-fuzz` runs them over their seeds and over mutations of those for a short
//! while.
#![forbid(unsafe_code)]

mod backend;
mod config;
mod machine;
pub mod mutate;
mod path;
mod proxy;
mod ranges;
mod request;
mod routes;
mod session;

pub use backend::{backend_reply, fastcgi_records};
pub use config::config;
pub use machine::machine_operations;
pub use path::path_mapping;
pub use proxy::proxy_header;
pub use ranges::ranges;
pub use request::request_head;
pub use routes::routes;
pub use session::tls_session;

/// A target, with what helps the mutator to get past its first checks.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its file in `seeds/`.
    pub name: &'static str,
    /// Runs it; panics when something is wrong.
    pub run: fn(&[u8]),
    /// Words of its language.
    pub words: &'static [&'static [u8]],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "request_head", run: request_head, words: request::WORDS },
    Target { name: "machine_operations", run: machine_operations, words: machine::WORDS },
    Target { name: "path_mapping", run: path_mapping, words: path::WORDS },
    Target { name: "config", run: config, words: config::WORDS },
    Target { name: "ranges", run: ranges, words: ranges::WORDS },
    Target { name: "routes", run: routes, words: routes::WORDS },
    Target { name: "proxy_header", run: proxy_header, words: proxy::WORDS },
    Target { name: "fastcgi_records", run: fastcgi_records, words: backend::RECORD_WORDS },
    Target { name: "backend_reply", run: backend_reply, words: backend::REPLY_WORDS },
    Target { name: "tls_session", run: tls_session, words: session::WORDS },
];
