//! One connection's TLS: records in, plain text out, and the other way round.

use std::fmt;
use std::sync::Arc;

use rustls::Error;
use rustls::server::UnbufferedServerConnection;

use crate::config::Config;

/// The server's side of one connection.
pub struct Session {
    connection: UnbufferedServerConnection,
}

impl Session {
    /// That of a connection that was accepted now.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn accept(config: &Config) -> Result<Session, Error> {
        let server = Arc::clone(&config.server);
        Ok(Session { connection: UnbufferedServerConnection::new(server)? })
    }

    /// Whether nothing can be sealed yet.
    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}
