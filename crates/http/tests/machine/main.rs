//! The connection machine driven without sockets: every script also runs with its input split at
//! every byte and with short writes, and must then put out the very same bytes.

mod bodies;
mod deadlines;
mod driver;
mod ends;
mod heads;
mod keep_alive;
mod pipelining;
mod refusals;
mod script;
mod simulation;
mod streams;
