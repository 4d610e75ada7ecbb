//! TLS of a client: what it says becomes records, and records become what it reads.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

use crate::client::Client;
use crate::wait::dawdle;

/// Bytes of records that are asked of the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// Between two pieces, so that the server sees them apart.
const BETWEEN_PIECES: Duration = Duration::from_millis(1);

/// What is done to the bytes of a client's records on their way to the server. Places are counted
/// from the first byte of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Nothing.
    None,
    /// Each piece of so many bytes is a segment of its own.
    Pieces(usize),
    /// The server sees what comes before this place apart from what follows.
    SplitAt(usize),
    /// The byte at this place is another, and this side ends behind what is sent with it: a record
    /// whose length has grown is waited for otherwise.
    ChangedAt(usize),
    /// This side ends at this place.
    CutAt(usize),
}

/// A socket, and the harm that is done before it.
struct Harmed<'a> {
    stream: &'a mut TcpStream,
    harm: Harm,
    /// Bytes that went before.
    sent: &'a mut usize,
}

impl Read for Harmed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl Write for Harmed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The place, if it is within these bytes.
        let within = |at: usize| at.checked_sub(*self.sent).filter(|at| *at < bytes.len());
        let (piece, pause) = match self.harm {
            Harm::Pieces(len) => (&bytes[..len.min(bytes.len())], false),
            Harm::SplitAt(at) => match within(at).filter(|at| *at > 0) {
                Some(at) => (&bytes[..at], true),
                None => (bytes, false),
            },
            Harm::ChangedAt(at) => match within(at) {
                Some(at) => {
                    let mut changed = bytes.to_vec();
                    changed[at] ^= 1;
                    self.stream.write_all(&changed)?;
                    self.stream.shutdown(Shutdown::Write)?;
                    *self.sent += bytes.len();
                    return Ok(bytes.len());
                }
                None => (bytes, false),
            },
            Harm::CutAt(at) => match within(at) {
                Some(0) => {
                    self.stream.shutdown(Shutdown::Write)?;
                    return Err(ErrorKind::BrokenPipe.into());
                }
                Some(at) => (&bytes[..at], false),
                None => (bytes, false),
            },
            Harm::None => (bytes, false),
        };
        let sent = self.stream.write(piece)?;
        if pause {
            dawdle(BETWEEN_PIECES);
        }
        *self.sent += sent;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A certificate for 127.0.0.1 and hosts of tests, and its key, and clients that trust it.
#[derive(Debug)]
pub struct Identity {
    /// The certificate, as PEM.
    pub chain: String,
    /// Its key, as PEM.
    pub key: String,
    clients: Arc<ClientConfig>,
    /// Those whose hello is short, and which resume nothing: each of their handshakes is as long.
    short: Arc<ClientConfig>,
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
        // With the hosts of sites that are tested, or the server warns of these.
        let names = ["127.0.0.1", "localhost", "*.test", "*.wild.test"].map(str::to_owned);
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a root");
        let clients = |groups| {
            let mut provider = default_provider();
            if let Some(groups) = groups {
                provider.kx_groups = groups;
            }
            let builder = ClientConfig::builder_with_provider(Arc::new(provider));
            let builder = builder.with_safe_default_protocol_versions().expect("versions");
            builder.with_root_certificates(roots.clone()).with_no_client_auth()
        };
        let mut short = clients(Some(vec![kx_group::X25519]));
        short.resumption = Resumption::disabled();
        Identity {
            chain: cert.pem(),
            key: signing_key.serialize_pem(),
            clients: Arc::new(clients(None)),
            short: Arc::new(short),
        }
    }
}

/// One who comes again: its connections over TLS resume the sessions of those before them, of which
/// it keeps eight tickets.
#[derive(Debug)]
pub struct Visitor(Arc<ClientConfig>);

impl Default for Visitor {
    fn default() -> Visitor {
        Visitor::new()
    }
}

impl Visitor {
    /// One who was nowhere yet, and trusts [`Identity::shared`].
    pub fn new() -> Visitor {
        let mut clients = ClientConfig::clone(&Identity::shared().clients);
        clients.resumption = Resumption::in_memory_sessions(8);
        Visitor(Arc::new(clients))
    }

    /// A new connection.
    ///
    /// # Panics
    /// When there is none, or the handshake fails.
    pub fn connect(&self, address: SocketAddr) -> Client {
        Client::connect(address).secure_with(&self.0)
    }
}

/// The client's side of one connection.
pub(crate) struct Secure {
    connection: ClientConnection,
    harm: Harm,
    /// Bytes of records that went to the server.
    sent: usize,
}

impl Secure {
    /// Shakes hands.
    pub(crate) fn connect(stream: &mut TcpStream) -> io::Result<Secure> {
        Secure::shake(stream, &Identity::shared().clients, Harm::None)
    }

    /// The same with a short hello, and this harm.
    pub(crate) fn connect_by(stream: &mut TcpStream, harm: Harm) -> io::Result<Secure> {
        Secure::shake(stream, &Identity::shared().short, harm)
    }

    /// The same as clients of this kind do it.
    pub(crate) fn shake(
        stream: &mut TcpStream,
        clients: &Arc<ClientConfig>,
        harm: Harm,
    ) -> io::Result<Secure> {
        let mut secure = Secure::new(clients, harm)?;
        secure.shake_hands(stream)?;
        Ok(secure)
    }

    fn new(clients: &Arc<ClientConfig>, harm: Harm) -> io::Result<Secure> {
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let connection = ClientConnection::new(Arc::clone(clients), name);
        Ok(Secure { connection: connection.map_err(io::Error::other)?, harm, sent: 0 })
    }

    /// One that has a hello to say, and that.
    pub(crate) fn with_hello() -> io::Result<(Secure, Vec<u8>)> {
        let mut secure = Secure::new(&Identity::shared().clients, Harm::None)?;
        let mut hello = Vec::new();
        while secure.connection.wants_write() {
            secure.connection.write_tls(&mut hello)?;
        }
        Ok((secure, hello))
    }

    /// Shakes hands, or goes on with that.
    pub(crate) fn shake_hands(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.connection.is_handshaking() {
            let Secure { connection, harm, sent } = self;
            connection.complete_io(&mut Harmed { stream, harm: *harm, sent })?;
        }
        Ok(())
    }

    /// Whether it resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends these bytes.
    pub(crate) fn write_all(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(READ_BYTES / 2) {
            self.connection.writer().write_all(part)?;
            self.flush(stream)?;
        }
        Ok(())
    }

    /// Sends what waits, and then at most a record of these bytes, as far as the socket has room.
    pub(crate) fn write_some(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.flush(stream)?;
        let sent = self.connection.writer().write(&bytes[..bytes.len().min(READ_BYTES / 4)])?;
        match self.flush(stream) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(sent),
        }
    }

    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let Secure { connection, harm, sent } = self;
        while connection.wants_write() {
            connection.write_tls(&mut Harmed { stream, harm: *harm, sent })?;
        }
        Ok(())
    }

    /// Says that nothing more is sent.
    pub(crate) fn end(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        self.connection.send_close_notify();
        self.flush(stream)
    }

    /// Says by an alert that it cannot go on, and reads nothing more.
    pub(crate) fn fail(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        // What is no record, or the rest of one that has begun.
        let mut junk = &[0; 2 * READ_BYTES][..];
        while !junk.is_empty() {
            self.connection.read_tls(&mut junk)?;
            if self.connection.process_new_packets().is_err() {
                return self.flush(stream);
            }
        }
        Err(io::Error::other("it has found no fault"))
    }

    /// Reads plain text; none at the end, if the server has said that it is one.
    pub(crate) fn read(&mut self, stream: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.connection.read_tls(stream)?;
            self.connection.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").finish_non_exhaustive()
    }
}
