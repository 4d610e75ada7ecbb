//! A connection outside of a run, which blocks: for what is asked before it and after it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flyball_tls::{Client, ClientSession, PLAIN_BYTES_MAX, State};

/// Bytes of records that are received at once.
const RECEIVED_BYTES: usize = 16 * 1024;

/// Whom to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) address: SocketAddr,
    /// What TLS is spoken by; `None` is in the clear.
    pub(crate) client: Option<&'a Client>,
}

impl Peer<'_> {
    /// Connects, and waits no longer than this for it, and for each step afterwards.
    ///
    /// # Errors
    /// Those of the socket, and what a handshake fails by.
    pub(crate) fn dial(&self, wait: Duration) -> io::Result<Dialed> {
        let socket = TcpStream::connect_timeout(&self.address, wait)?;
        socket.set_read_timeout(Some(wait))?;
        socket.set_write_timeout(Some(wait))?;
        let Some(client) = self.client else { return Ok(Dialed { socket, sealed: None }) };
        let mut wire = Vec::new();
        let session = client.begin(false, &mut wire).map_err(io::Error::other)?;
        let plain = vec![0; PLAIN_BYTES_MAX];
        let mut sealed = Sealed { session, cipher: Vec::new(), plain, from: 0, upto: 0, wire };
        sealed.tell(&socket)?;
        while sealed.session.state() == State::Handshake && sealed.open(&socket)? {}
        match sealed.session.state() {
            State::Open => Ok(Dialed { socket, sealed: Some(Box::new(sealed)) }),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Dialed {
    socket: TcpStream,
    sealed: Option<Box<Sealed>>,
}

/// A session with what lies between it and a reader.
#[derive(Debug)]
struct Sealed {
    session: ClientSession,
    /// Bytes that are not opened yet.
    cipher: Vec<u8>,
    /// Bytes that are not read yet, between two places.
    plain: Vec<u8>,
    from: usize,
    upto: usize,
    wire: Vec<u8>,
}

impl Sealed {
    /// Sends what is to be told.
    fn tell(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        let told = socket.write_all(&self.wire);
        self.wire.clear();
        told
    }

    /// Receives and opens some more; false at the end.
    fn open(&mut self, mut socket: &TcpStream) -> io::Result<bool> {
        if !self.session.has_more() {
            let at = self.cipher.len();
            self.cipher.resize(at + RECEIVED_BYTES, 0);
            let received = socket.read(&mut self.cipher[at..]);
            self.cipher.truncate(at + received.as_ref().map_or(0, |received| *received));
            if received? == 0 {
                return Ok(false);
            }
        }
        let opened = self.session.open(&mut self.cipher, &mut self.plain, &mut self.wire);
        self.cipher.drain(..opened.used);
        (self.from, self.upto) = (0, opened.plain);
        let told = self.tell(socket);
        match opened.state {
            State::Failed(_) => {
                let why = self.session.why();
                Err(io::Error::other(why.unwrap_or_else(|| "TLS that is none".into())))
            }
            _ => told.map(|()| true),
        }
    }
}

impl Read for Dialed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(sealed) = &mut self.sealed else { return self.socket.read(buffer) };
        while sealed.from == sealed.upto {
            if sealed.session.state() == State::PeerClosed || !sealed.open(&self.socket)? {
                return Ok(0);
            }
        }
        let len = buffer.len().min(sealed.upto - sealed.from);
        buffer[..len].copy_from_slice(&sealed.plain[sealed.from..sealed.from + len]);
        sealed.from += len;
        Ok(len)
    }
}

impl Write for Dialed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(sealed) = &mut self.sealed else { return self.socket.write(bytes) };
        let len = sealed.session.seal(bytes, &mut sealed.wire);
        sealed.tell(&self.socket)?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
