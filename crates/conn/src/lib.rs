//! What a connection does, in whatever way it is waited for.
//!
//! A connection goes as far as it can and says what it needs. Nothing here waits, touches a socket
//! or reads a clock, and nothing here knows an architecture: what a thread lends to its connections
//! is a [`Context`].
#![forbid(unsafe_code)]
// What a client wrote is escaped in one place, the error log.
#![deny(clippy::print_stderr)]

mod apart;
mod arrival;
mod buffers;
mod clients;
mod connection;
mod context;
mod exchange;
mod in_clear;
mod input;
mod logged;
mod needs;
mod order;
mod peer;
mod times;
mod transport;
mod window;

pub use arrival::Arrival;
pub use buffers::{Lender, SpareBuffers};
pub use clients::{ClientAddress, ClientLimits, ClientSettings, Seat};
pub use connection::{Connection, FileBody, Unsealed};
pub use context::{Account, Context, Hellos, Tried};
pub use logged::RequestLog;
pub use needs::{Asks, LinkNeed, Needs, SocketNeed, Watch};
pub use order::Order;
pub use peer::Peer;
pub use times::Turn;
pub use transport::Agreed;
pub use window::{Mapped, SEEN_HOLDS_MS, SendWindow};
