//! Sockets.
/// An address to listen on.
pub type Address = std::net::SocketAddr;
