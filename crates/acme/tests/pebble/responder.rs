//! What workers do with challenges: answers them at a port for HTTP and one for TLS.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use flyball_acme::messages::Challenge;
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const PROTOCOL: &[u8] = b"acme-tls/1";

/// Challenges that stand, by their agent and number.
type Table = Arc<Mutex<HashMap<(u32, u64), Challenge>>>;

/// Two listeners, and what they answer.
#[derive(Clone, Debug)]
pub(crate) struct Responder {
    pub(crate) http: SocketAddr,
    pub(crate) tls: SocketAddr,
    table: Table,
}

impl Responder {
    pub(crate) fn start() -> Responder {
        let table = Table::default();
        let (http, tls) = (listener(), listener());
        let addresses = (http.local_addr().unwrap(), tls.local_addr().unwrap());
        let for_http = Arc::clone(&table);
        thread::spawn(move || serve(&http, move |stream| answer_http(stream, &for_http)));
        let config = Arc::new(config(&table));
        thread::spawn(move || serve(&tls, move |stream| answer_tls(stream, &config)));
        Responder { http: addresses.0, tls: addresses.1, table }
    }

    pub(crate) fn set(&self, agent: u32, id: u64, challenge: Challenge) {
        self.table.lock().unwrap().insert((agent, id), challenge);
    }

    pub(crate) fn clear(&self, agent: u32, id: u64) {
        self.table.lock().unwrap().remove(&(agent, id));
    }

    /// How many challenges stand.
    pub(crate) fn standing(&self) -> usize {
        self.table.lock().unwrap().len()
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Until the test process ends.
fn serve(listener: &TcpListener, answer: impl Fn(TcpStream) -> Option<()>) {
    for stream in listener.incoming() {
        // A client that leaves early is no failure of the test.
        let _ = answer(stream.unwrap());
    }
}

fn answer_http(mut stream: TcpStream, table: &Table) -> Option<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone().ok()?).read_line(&mut line).ok()?;
    let asked = line.split(' ').nth(1)?.strip_prefix("/.well-known/acme-challenge/")?;
    let answer = table.lock().unwrap().values().find_map(|challenge| match challenge {
        Challenge::Http01 { token, answer } if token == asked => Some(answer.clone()),
        _ => None,
    });
    let body = answer.unwrap_or_default();
    let len = body.len();
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{body}")
        .ok()
}

fn answer_tls(stream: TcpStream, config: &Arc<ServerConfig>) -> Option<()> {
    let connection = ServerConnection::new(Arc::clone(config)).ok()?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut line = String::new();
    BufReader::new(&mut stream).read_line(&mut line).ok()?;
    Some(())
}

/// Where a server listens that answers every request over TLS with this head.
pub(crate) fn answer_each(config: ServerConfig, head: &'static str) -> SocketAddr {
    let (listener, config) = (listener(), Arc::new(config));
    let at = listener.local_addr().unwrap();
    let answer = move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).ok()?;
        let mut stream = StreamOwned::new(connection, stream);
        let mut line = String::new();
        BufReader::new(&mut stream).read_line(&mut line).ok()?;
        write!(stream, "HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").ok()?;
        stream.flush().ok()
    };
    thread::spawn(move || serve(&listener, answer));
    at
}

fn config(table: &Table) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Resolver(Arc::clone(table))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config
}

#[derive(Debug)]
struct Resolver(Table);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name()?;
        let found = self.0.lock().unwrap().values().find_map(|challenge| match challenge {
            Challenge::TlsAlpn01 { name, chain, key } if name == asked => {
                Some((chain.clone(), key.clone()))
            }
            _ => None,
        });
        let (chain, key) = found?;
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        Some(Arc::new(CertifiedKey::new(chain.unwrap(), any_supported_type(&key).unwrap())))
    }
}
