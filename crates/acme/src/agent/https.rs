//! Requests to authorities: one connection each, so that none is found dead, with bounds of time
//! and size. Everything blocks, so that a future is done when it was polled once: no runtime is
//! needed.

use std::fmt::Display;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use flyball_http::h1::{Incoming, Part};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::Deserialize;

/// For one request, from the look-up of the name to the last byte of the answer.
const REQUEST_MS_MAX: u64 = 60_000;

/// For a connection to one address.
const CONNECT_MS_MAX: u64 = 10_000;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Largest answer in bytes, its head apart.
const ANSWER_MAX: usize = 1 << 20;

/// Read at once.
const PIECE: usize = 16 << 10;

/// Fields of an answer's head.
const FIELDS_MAX: usize = 64;

/// A client of authorities.
#[derive(Clone)]
pub(crate) struct Https {
    tls: Arc<ClientConfig>,
    /// Seconds for which the last answer asked to wait; 0 when it did not.
    retry_after: Arc<AtomicU64>,
    /// Where the last request went: the library's errors do not say what they are about.
    asked: Arc<Mutex<String>>,
}

impl Https {
    /// A client that believes these roots, or those of the system. Blocks on the disk.
    ///
    /// # Errors
    /// When there are none, or they cannot be read.
    pub(crate) fn new(roots: Option<&Path>) -> Result<Https, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(read_roots(roots)?)
            .with_no_client_auth();
        Ok(Https { tls: Arc::new(config), retry_after: Arc::default(), asked: Arc::default() })
    }

    /// For how many seconds the last answer asked to wait (RFC 9110, section 10.2.3).
    pub(crate) fn retry_after(&self) -> Option<u64> {
        Some(self.retry_after.load(Relaxed)).filter(|seconds| *seconds > 0)
    }

    /// What a future gives that asks by this client alone, which waits only by blocking.
    ///
    /// # Errors
    /// When it fails, or waits in another way, which none does that is used here. An answer that
    /// the library does not understand is told with its URL.
    pub(crate) fn finish<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(Error::Json(why))) => Err(self.not_by_the_book(&why)),
            Poll::Ready(Err(Error::InvalidUri(why))) => Err(self.not_by_the_book(&why)),
            Poll::Ready(done) => done,
            Poll::Pending => Err(Error::Str("an answer that was waited for")),
        }
    }

    fn not_by_the_book(&self, why: &dyn Display) -> Error {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let of = format!("the authority's answer to {asked}");
        Error::Other(format!("{of} is not what RFC 8555 says: {why}").into())
    }

    /// One request and its answer. Blocks.
    fn exchange(&self, request: &Request<()>, body: &[u8]) -> io::Result<Response<Bytes>> {
        let deadline = Instant::now() + Duration::from_millis(REQUEST_MS_MAX);
        let uri = request.uri();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let stream = connect((&*host, uri.port_u16().unwrap_or(443)), deadline)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, Timed { stream, deadline });
        stream.write_all(&encode(request, body))?;
        stream.flush()?;
        let response = receive(&mut stream, request.method() == http::Method::HEAD)?;
        self.retry_after.store(seconds(&response).unwrap_or(0), Relaxed);
        match is_failure(&response) {
            true => Err(io::Error::other(format!("the answer is {}", response.status()))),
            false => Ok(response),
        }
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // The library reads bodies of answers alone.
            let mut body = BytesResponse::from(Response::new(body)).body;
            let body = body.into_bytes().await.map_err(Error::Other)?;
            let request = Request::from_parts(parts, ());
            *client.asked.lock().unwrap_or_else(PoisonError::into_inner) =
                request.uri().to_string();
            let (parts, body) = client
                .exchange(&request, &body)
                .and_then(has_usable_nonces)
                .map_err(|error| Error::Other(format!("{}: {error}", request.uri()).into()))?
                .into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

/// Refuses a directory (RFC 8555, section 7.1.1) whose `newNonce` is no URL: the library asks there
/// without a look, and would panic.
fn has_usable_nonces(response: Response<Bytes>) -> io::Result<Response<Bytes>> {
    #[derive(Deserialize)]
    struct Directory {
        #[serde(rename = "newNonce")]
        new_nonce: String,
    }
    match serde_json::from_slice::<Directory>(response.body()) {
        Ok(directory) if directory.new_nonce.parse::<http::Uri>().is_err() => {
            Err(io::Error::other(format!("newNonce is no URL: {:?}", directory.new_nonce)))
        }
        // Most answers are something else.
        _ => Ok(response),
    }
}

fn read_roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates: Vec<CertificateDer<'_>> = match file {
        Some(path) => {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            read.map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    match roots.is_empty() {
        true => Err("no roots are known: install ca-certificates, or name a file".into()),
        false => Ok(roots),
    }
}

fn connect(to: (&str, u16), deadline: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = to.to_socket_addrs()?.take(ADDRESSES_MAX).collect();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent(REQUEST_MS_MAX));
        }
        match TcpStream::connect_timeout(&address, left.min(Duration::from_millis(CONNECT_MS_MAX)))
        {
            Ok(stream) => return Ok(stream),
            Err(error) if is_silence(&error) => last = silent(CONNECT_MS_MAX),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket whose calls end at one time.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(silent(REQUEST_MS_MAX)),
            left => Ok(Some(left)),
        }
    }
}

/// Whether a call has ended because its time was over (socket(7): `EAGAIN` by `SO_RCVTIMEO`).
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// That a server was silent for so many milliseconds, in words.
fn silent(for_ms: u64) -> io::Error {
    let why = format!("did not answer within {} s", for_ms / 1_000);
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn in_time<T>(done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| if is_silence(&error) { silent(REQUEST_MS_MAX) } else { error })
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        in_time(self.stream.read(buffer))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        in_time(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn encode(request: &Request<()>, body: &[u8]) -> Vec<u8> {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut bytes = format!("{} {path} HTTP/1.1\r\nhost: {authority}\r\n", request.method());
    bytes.push_str(&format!("connection: close\r\ncontent-length: {}\r\n", body.len()));
    let mut bytes = bytes.into_bytes();
    for (name, value) in request.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

fn receive(stream: &mut impl Read, to_head: bool) -> io::Result<Response<Bytes>> {
    let (mut answer, mut input) = (Incoming::new(to_head), vec![0; PIECE]);
    let (mut parts, mut body) = (None, Vec::new());
    loop {
        let part = match answer.next_part() {
            Part::More => {
                // An end without the word of TLS is an error: what comes may have been cut.
                let read = stream.read(&mut input)?;
                if read > 0 {
                    answer.received(&input[..read]);
                    continue;
                }
                answer.eof()
            }
            part => part,
        };
        match part {
            Part::Head(_, bytes) => parts = Some(fields(bytes)?),
            Part::Body(bytes) if body.len() + bytes.len() <= ANSWER_MAX => {
                body.extend_from_slice(bytes);
            }
            Part::Body(_) => return Err(io::ErrorKind::FileTooLarge.into()),
            Part::End => break,
            Part::More => {}
            Part::Broken(refusal) => {
                return Err(io::Error::other(format!("the answer is broken: {refusal:?}")));
            }
        }
    }
    let head = parts.ok_or(io::ErrorKind::UnexpectedEof)?;
    head.body(Bytes::from(body)).map_err(io::Error::other)
}

/// Status and fields of a head.
fn fields(head: &[u8]) -> io::Result<http::response::Builder> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed.parse(head).map_err(io::Error::other)?;
    let mut builder = Response::builder().status(parsed.code.unwrap_or_default());
    for field in parsed.headers {
        builder = builder.header(field.name, field.value);
    }
    Ok(builder)
}

/// Whether it is a failure without a problem that could be read (RFC 8555, section 6.7): a server
/// in front of the authority has sent it.
fn is_failure(response: &Response<Bytes>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    response.status().as_u16() >= 400 && !kind.unwrap_or_default().contains("json")
}

/// What `Retry-After` says, in seconds from now.
fn seconds(response: &Response<Bytes>) -> Option<u64> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    let until = |date| SystemTime::from(date).duration_since(SystemTime::now()).ok();
    let from_date = || text.parse::<httpdate::HttpDate>().ok().and_then(until);
    text.parse().ok().or_else(|| from_date().map(|left| left.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_fields_and_body() {
        let text = "HTTP/1.1 201 Created\r\nReplay-Nonce: n\r\nRetry-After: 5\r\n\
                    Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        let response = receive(&mut text.as_bytes(), false).unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers()["replay-nonce"], "n");
        assert_eq!(seconds(&response), Some(5));
        assert_eq!(&response.body()[..], b"hi");
    }

    #[test]
    fn an_answer_that_is_cut_or_too_large_is_an_error() {
        let cut = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
        assert!(receive(&mut cut.as_bytes(), false).is_err());
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n";
        let large = [head.as_bytes(), &vec![b'x'; ANSWER_MAX + 1]].concat();
        assert!(receive(&mut &large[..], false).is_err());
        assert!(receive(&mut &b""[..], false).is_err());
    }

    #[test]
    fn a_directory_whose_nonces_come_from_no_url_is_an_error() {
        let usable = |body: &str| has_usable_nonces(Response::new(Bytes::from(body.to_owned())));
        for url in ["https://ca.example/a b", "", "http://[", "a\\nb"] {
            let body = format!("{{\"newNonce\": \"{url}\", \"newOrder\": \"x\"}}");
            assert!(usable(&body).unwrap_err().to_string().contains("newNonce"), "{url}");
        }
        for body in ["{\"newNonce\": \"https://ca.example/n\"}", "{}", "no JSON", "[1]"] {
            assert!(usable(body).is_ok(), "{body}");
        }
    }

    #[test]
    fn an_answer_that_is_not_understood_is_told_with_its_url() {
        let authority = flyball_tls::Authority::new(1_800_000_000).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let roots = dir.path().join("roots.pem");
        std::fs::write(&roots, authority.root()).unwrap();
        let https = Https::new(Some(&roots)).unwrap();
        "https://ca.example/dir".clone_into(&mut https.asked.lock().unwrap());
        let json = serde_json::from_str::<u8>("{}").unwrap_err();
        let told = https.finish(async { Err::<(), _>(Error::Json(json)) }).unwrap_err().to_string();
        let of = "the authority's answer to https://ca.example/dir is not what RFC 8555 says: ";
        assert!(told.starts_with(of) && !told.contains("serialize"), "{told}");
        let uri = "http://[".parse::<http::Uri>().unwrap_err();
        let told =
            https.finish(async { Err::<(), _>(Error::InvalidUri(uri)) }).unwrap_err().to_string();
        assert!(told.starts_with(of), "{told}");
    }

    #[test]
    fn a_silent_authority_is_not_waited_for_longer_than_a_request_may_take() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut timed = Timed { stream, deadline: Instant::now() + Duration::from_millis(20) };
        // By the clock of the socket, then by our own.
        assert_eq!(timed.read(&mut [0]).unwrap_err().to_string(), "did not answer within 60 s");
        while Instant::now() < timed.deadline {}
        assert_eq!(timed.read(&mut [0]).unwrap_err().to_string(), "did not answer within 60 s");
        assert_eq!(timed.write(&[0]).unwrap_err().to_string(), "did not answer within 60 s");
    }

    #[test]
    fn a_request_says_where_to_and_how_long_it_is() {
        let request = Request::post("https://ca.example:14000/new?x=1")
            .header("content-type", "application/jose+json")
            .body(())
            .unwrap();
        let text = String::from_utf8(encode(&request, b"{}")).unwrap();
        assert!(text.starts_with("POST /new?x=1 HTTP/1.1\r\nhost: ca.example:14000\r\n"), "{text}");
        assert!(text.contains("content-type: application/jose+json\r\n"), "{text}");
        assert!(text.ends_with("content-length: 2\r\n\r\n{}") || text.ends_with("\r\n\r\n{}"));
    }
}
