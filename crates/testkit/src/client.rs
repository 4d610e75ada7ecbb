//! A client that sends the bytes it is told to and says exactly what came back.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType, sockopt};
use rustls::ClientConfig;

use crate::response::{self, Response};
use crate::secure::{Harm, Secure};
use crate::wait::{DEADLINE, dawdle};

/// Between two pieces of a split request, so that the server sees them apart.
const BETWEEN_PIECES: Duration = Duration::from_millis(1);

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// One connection. Every call blocks, for [`DEADLINE`] at most, and panics when the server does
/// something else than is expected.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    /// TLS, if it speaks that.
    tls: Option<Box<Secure>>,
    /// Received and not yet asked for.
    received: Vec<u8>,
}

impl Client {
    /// Connects; every piece that is sent is a segment of its own.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, DEADLINE);
        Client::with(stream.expect("the server accepts"))
    }

    /// Connects to a socket in the file system.
    ///
    /// # Panics
    /// When nothing listens there.
    pub fn connect_unix(path: &Path) -> Client {
        Client::try_connect_unix(path).expect("the server accepts")
    }

    /// The same, if something listens there.
    ///
    /// # Errors
    /// Why it cannot be connected to.
    pub fn try_connect_unix(path: &Path) -> io::Result<Client> {
        // What a stream is asked for here any socket does.
        UnixStream::connect(path).map(|stream| Client::patient(OwnedFd::from(stream).into()))
    }

    fn with(stream: TcpStream) -> Client {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Client::patient(stream)
    }

    fn patient(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(DEADLINE)).expect("SO_RCVTIMEO");
        stream.set_write_timeout(Some(DEADLINE)).expect("SO_SNDTIMEO");
        Client { stream, tls: None, received: Vec::new() }
    }

    /// The same, once it has shaken hands with a server of [`Identity::shared`].
    ///
    /// [`Identity::shared`]: crate::Identity::shared
    pub fn secure(mut self) -> Client {
        self.tls = Some(Box::new(Secure::connect(&mut self.stream).expect("it shakes hands")));
        self
    }

    /// The same as clients of this kind do it.
    pub(crate) fn secure_with(mut self, clients: &Arc<ClientConfig>) -> Client {
        let secure = Secure::shake(&mut self.stream, clients, Harm::None);
        self.tls = Some(Box::new(secure.expect("it shakes hands")));
        self
    }

    /// Speaks TLS from now on: its hello, of which nothing is sent yet. Behind that,
    /// [`Client::shake_hands`].
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        let (secure, hello) = Secure::with_hello().expect("a hello");
        self.tls = Some(Box::new(secure));
        hello
    }

    /// Sends these bytes, although it may speak TLS.
    pub(crate) fn send_as_is(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Its hello has been sent: shakes hands.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.shake_hands(&mut self.stream))
    }

    /// Whether it speaks TLS by an earlier session, which it has resumed.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_resumed())
    }

    /// The same, where bytes leave as the harm says, by a handshake that is short and resumes none.
    ///
    /// # Errors
    /// When the handshake fails by it.
    pub fn secure_by(mut self, harm: Harm) -> io::Result<Client> {
        self.tls = Some(Box::new(Secure::connect_by(&mut self.stream, harm)?));
        Ok(self)
    }

    /// The other end of a connection that a test has accepted.
    pub fn accepted(stream: TcpStream) -> Client {
        Client::with(stream)
    }

    /// Connects, if the server accepts.
    pub fn try_connect(address: SocketAddr) -> Option<Client> {
        TcpStream::connect_timeout(&address, DEADLINE).ok().map(Client::with)
    }

    /// Connects from this address, of which the machine must have one: 127.0.0.0/8 is all its own.
    pub fn connect_from(source: IpAddr, address: SocketAddr) -> Client {
        let family = match source {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = net::socket(family, SocketType::STREAM, None).expect("a socket");
        net::bind(&socket, &SocketAddr::new(source, 0)).expect("an address of this machine");
        net::connect(&socket, &address).expect("the server accepts");
        Client::with(socket.into())
    }

    /// Connects with room for about this many bytes on the way to it, so that a server which is not
    /// read from has to wait soon. Less than two segments of the loopback's 64 KiB would make the
    /// kernel wait for its timers between them.
    pub fn connect_narrow(address: SocketAddr, bytes: usize) -> Client {
        let client = Client::connect(address);
        sockopt::set_socket_recv_buffer_size(&client.stream, bytes).expect("SO_RCVBUF");
        client
    }

    /// Sends these bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.write_all(bytes.as_ref()).expect("the server takes what is sent");
    }

    /// Sends as much of these bytes as the server takes; false when it has closed or reset.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.write_all(bytes.as_ref()).is_ok()
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(tls) => tls.write_all(&mut self.stream, bytes),
        }
    }

    /// Sends as much of these bytes as there is room for, and how many that are. Does not block:
    /// one that speaks TLS may keep the rest of a record for the next call.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, or why the connection has ended.
    pub fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let sent = match &mut self.tls {
            None => self.stream.write(bytes),
            Some(tls) => tls.write_some(&mut self.stream, bytes),
        };
        self.stream.set_nonblocking(false)?;
        sent
    }

    /// Sends these bytes in pieces that end at the offsets of `ends`, which ascend.
    #[track_caller]
    pub fn send_split(&mut self, bytes: impl AsRef<[u8]>, ends: impl IntoIterator<Item = usize>) {
        let bytes = bytes.as_ref();
        let mut start = 0;
        for end in ends {
            self.send(&bytes[start..end]);
            dawdle(BETWEEN_PIECES);
            start = end;
        }
        self.send(&bytes[start..]);
    }

    /// Closes this side: nothing more will be sent.
    pub fn half_close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(&mut self.stream).expect("the connection is open");
        }
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }

    /// The same, without what TLS has to say before.
    pub fn cut(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }

    /// Says that it sends no more as TLS does, and leaves the socket open.
    ///
    /// # Panics
    /// When it does not speak TLS.
    pub fn say_end(&mut self) {
        let tls = self.tls.as_mut().expect("it speaks TLS");
        tls.end(&mut self.stream).expect("the connection is open");
    }

    /// Says by an alert of TLS that it cannot go on. From then on only
    /// [`Client::bytes_to_the_end`] reads.
    ///
    /// # Panics
    /// When it does not speak TLS.
    pub fn fail(&mut self) {
        let tls = self.tls.as_mut().expect("it speaks TLS");
        tls.fail(&mut self.stream).expect("the connection is open");
    }

    /// How many bytes come up to the end of the connection, orderly or not: of records, where it
    /// speaks TLS.
    #[track_caller]
    pub fn bytes_to_the_end(&mut self) -> usize {
        let (mut count, mut into) = (0, vec![0; READ_BYTES]);
        loop {
            match self.stream.read(&mut into) {
                Ok(0) => return count,
                Ok(n) => count += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => panic!("it stays open after {count} bytes"),
                Err(_) => return count,
            }
        }
    }

    /// Closes both sides at once, with a reset.
    pub fn reset(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("SO_LINGER");
    }

    /// The next response, to a request that was not HEAD.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        let mut response = self.response_head();
        response.body = self.take(response.body_bytes());
        response
    }

    /// The next response, of which only the head comes: that to HEAD.
    #[track_caller]
    pub fn response_head(&mut self) -> Response {
        loop {
            if let Some((response, len)) = response::head(&self.received) {
                self.received.drain(..len);
                return response;
            }
            self.receive_more("a response");
        }
    }

    /// Sends a request that is not HEAD and reads the response to it.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request);
        self.response()
    }

    /// The same, and `None` when the connection ends before the whole response has come.
    ///
    /// # Panics
    /// When it neither comes nor ends.
    #[track_caller]
    pub fn try_ask(&mut self, request: impl AsRef<[u8]>) -> Option<Response> {
        if !self.try_send(request) {
            return None;
        }
        self.try_response()
    }

    /// The next response, as [`Client::try_ask`] reads it.
    #[track_caller]
    pub fn try_response(&mut self) -> Option<Response> {
        let (mut response, len) = loop {
            match response::head(&self.received) {
                Some(found) => break found,
                None => self.try_receive()?,
            }
        };
        self.received.drain(..len);
        let bytes = response.body_bytes();
        while self.received.len() < bytes {
            self.try_receive()?;
        }
        response.body = self.take(bytes);
        Some(response)
    }

    #[track_caller]
    fn try_receive(&mut self) -> Option<()> {
        match self.receive() {
            Ok(0) => None,
            Ok(_) => Some(()),
            Err(error) if is_timeout(&error) => panic!("it hangs; {}", self.so_far()),
            Err(_) => None,
        }
    }

    /// Exactly the next `len` bytes.
    #[track_caller]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        self.received.reserve(len.saturating_sub(self.received.len()));
        while self.received.len() < len {
            self.receive_more("the rest of a body");
        }
        let rest = self.received.split_off(len);
        std::mem::replace(&mut self.received, rest)
    }

    /// Everything up to an orderly close by the server, of which TLS tells as well.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        match self.rest_and_end() {
            (rest, Ok(())) => rest,
            (rest, Err(error)) => panic!("no orderly close: {error}; {}", shown(&rest)),
        }
    }

    /// Everything up to a reset.
    ///
    /// # Panics
    /// When the end is an orderly one, or does not come.
    #[track_caller]
    pub fn rest_before_reset(&mut self) -> Vec<u8> {
        match self.rest_and_end() {
            (rest, Ok(())) => panic!("an orderly end; {}", shown(&rest)),
            (rest, Err(_)) => rest,
        }
    }

    /// Everything up to the end of a connection whose last answer is not whole: a reset, or an end
    /// of which TLS does not tell.
    ///
    /// # Panics
    /// When it does, or the end does not come.
    #[track_caller]
    pub fn rest_before_cut(&mut self) -> Vec<u8> {
        match self.rest_and_end() {
            (rest, Ok(())) if self.tls.is_some() => panic!("the end was told; {}", shown(&rest)),
            (rest, _) => rest,
        }
    }

    /// Everything up to the end of the connection, orderly or not.
    #[track_caller]
    pub fn rest_before_end(&mut self) -> Vec<u8> {
        self.rest_and_end().0
    }

    /// Everything up to the end of the connection, and what end that is.
    #[track_caller]
    fn rest_and_end(&mut self) -> (Vec<u8>, io::Result<()>) {
        let end = loop {
            match self.receive() {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => panic!("it stays open; {}", self.so_far()),
                Err(error) => break Err(error),
            }
        };
        (std::mem::take(&mut self.received), end)
    }

    /// A body in chunks (RFC 9112, section 7.1), to its end: what each of them holds. They have no
    /// extensions here, and no trailers.
    ///
    /// # Panics
    /// When they are framed in another way.
    #[track_caller]
    pub fn chunks(&mut self) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                assert!(line.len() < 18, "not the size of a chunk: {line:?}");
                line.extend(self.take(1));
            }
            let size = std::str::from_utf8(&line[..line.len() - 2]).expect("a size is ASCII");
            let size = usize::from_str_radix(size, 16).expect("a size is a number");
            let mut chunk = self.take(size + 2);
            assert!(chunk.ends_with(b"\r\n"), "a chunk of {size} bytes does not end there");
            if size == 0 {
                return chunks;
            }
            chunk.truncate(size);
            chunks.push(chunk);
        }
    }

    /// The server closes in good order without another byte.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "more before the close: {:?}", String::from_utf8_lossy(&rest));
    }

    /// The server sends nothing for this long, and does not close.
    #[track_caller]
    pub fn expect_silence(&mut self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).expect("SO_RCVTIMEO");
        let start = Instant::now();
        while self.received.is_empty() {
            match self.receive() {
                Err(error) if is_timeout(&error) && start.elapsed() >= time => break,
                Err(error) if is_timeout(&error) => {}
                Ok(0) => panic!("it closed after {:?}", start.elapsed()),
                other => other.map(drop).expect("a quiet connection"),
            }
        }
        assert!(self.received.is_empty(), "not silent: {}", self.so_far());
        self.stream.set_read_timeout(Some(DEADLINE)).expect("SO_RCVTIMEO");
    }

    /// Whether anything has arrived that was not asked for yet, or the end. Does not block.
    pub fn arrived(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("O_NONBLOCK");
        let arrived = match self.receive() {
            Err(error) if is_timeout(&error) => !self.received.is_empty(),
            _ => true,
        };
        self.stream.set_nonblocking(false).expect("O_NONBLOCK");
        arrived
    }

    #[track_caller]
    fn receive_more(&mut self, what: &str) {
        match self.receive() {
            Ok(0) => panic!("closed before {what}; {}", self.so_far()),
            Ok(_) => {}
            Err(error) => panic!("{error} before {what}; {}", self.so_far()),
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let start = self.received.len();
        self.received.resize(start + READ_BYTES, 0);
        let received = loop {
            let into = &mut self.received[start..];
            let received = match &mut self.tls {
                None => self.stream.read(into),
                Some(tls) => tls.read(&mut self.stream, into),
            };
            match received {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        self.received.truncate(start + received.as_ref().map_or(0, |n| *n));
        received
    }

    fn so_far(&self) -> String {
        shown(&self.received)
    }
}

/// The start of what came.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 400;
    let start = &bytes[..bytes.len().min(SHOWN)];
    format!("{} bytes so far: {:?}", bytes.len(), String::from_utf8_lossy(start))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
