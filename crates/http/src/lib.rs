//! Sans-IO HTTP: messages, conditionals, ranges and limits, and the machine of HTTP/1.x.
//!
//! A message is no text of a protocol: a [`Head`] is offsets of its parts, an [`Answer`] a status,
//! fields and a body. [`scan`], [`framing`], [`body`] and [`h1`] know how HTTP/1 writes them.
//!
//! Nothing here opens a socket, reads a file, looks at a clock or starts a thread. Bytes, time and
//! answers come in as arguments; what the connection wants next comes out as data. Every
//! concurrency architecture drives the same [`h1::Conn`] and differs only in how it waits.
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

pub mod answer;
pub mod body;
pub mod coding;
pub mod conditional;
pub mod date;
pub mod error;
pub mod field;
pub mod fields;
pub mod forwarded;
pub mod framing;
pub mod h1;
pub mod head;
pub mod limits;
pub mod list;
pub mod network;
pub mod out;
pub mod proxy_protocol;
pub mod quality;
pub mod random;
pub mod range;
mod remote;
pub mod request;
pub mod scan;
pub mod secured;
pub mod status;
mod target;

pub use answer::{Answer, AnswerFields, Body};
pub use date::Now;
pub use error::{CloseReason, End, Refusal};
pub use field::Name;
pub use fields::{Block, FieldLines, Fields};
pub use head::{Head, Method, Scheme, Version};
pub use limits::{HeadStyle, Limits};
pub use network::Network;
pub use out::{Out, Segment};
pub use remote::Remote;
pub use request::{OwnedRequest, Request};
pub use secured::{ClientCertificate, Secured};
pub use status::Status;
