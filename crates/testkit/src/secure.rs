//! TLS of a client: what it says becomes records, and records become what it reads.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Bytes of records that are asked of the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// A certificate for 127.0.0.1 and its key, and clients that trust it.
#[derive(Debug)]
pub struct Identity {
    /// The certificate, as PEM.
    pub chain: String,
    /// Its key, as PEM.
    pub key: String,
    clients: Arc<ClientConfig>,
}

impl Identity {
    /// The one of all servers of this process.
    ///
    /// # Panics
    /// When none can be made.
    pub fn shared() -> &'static Identity {
        static SHARED: OnceLock<Identity> = OnceLock::new();
        SHARED.get_or_init(Identity::new)
    }

    fn new() -> Identity {
        let names = ["127.0.0.1".to_string(), "localhost".to_string()];
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a root");
        let clients = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Identity { chain: cert.pem(), key: signing_key.serialize_pem(), clients: Arc::new(clients) }
    }
}

/// The client's side of one connection.
pub(crate) struct Secure(ClientConnection);

impl Secure {
    /// Shakes hands.
    pub(crate) fn connect(stream: &mut TcpStream) -> io::Result<Secure> {
        let clients = Arc::clone(&Identity::shared().clients);
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let mut connection = ClientConnection::new(clients, name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(stream)?;
        }
        Ok(Secure(connection))
    }

    /// Sends these bytes.
    pub(crate) fn write_all(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(READ_BYTES / 2) {
            self.0.writer().write_all(part)?;
            self.flush(stream)?;
        }
        Ok(())
    }

    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(stream)?;
        }
        Ok(())
    }

    /// Says that nothing more is sent.
    pub(crate) fn end(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        self.0.send_close_notify();
        self.flush(stream)
    }

    /// Reads plain text; none at the end, if the server has said that it is one.
    pub(crate) fn read(&mut self, stream: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.0.read_tls(stream)?;
            self.0.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").finish_non_exhaustive()
    }
}
