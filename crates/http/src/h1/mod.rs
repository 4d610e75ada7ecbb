//! HTTP/1.x (RFC 9112) as machines that never wait: [`Conn`] serves, [`Client`] asks.

mod client;
mod conn;
mod incoming;
mod progress;
pub mod state;
mod stream;

pub use client::{AnswerHead, Client, Event};
pub use conn::{Conn, Wants};
pub use incoming::{Incoming, Part};
pub use stream::STREAM_QUEUED_MAX;
