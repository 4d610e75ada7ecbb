//! TLS of a client: what it says becomes records before it is sent, and records become what it has
//! received. The keys differ in each run, and no length does: a seed repeats its run.

use std::collections::VecDeque;
use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use flyball_tls::Config;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::random::Random;

/// The name of all servers.
const NAME: &str = "a.test";

/// One case in so many has clients that speak TLS, and one of these a server that signs slowly.
const TLS_ONE_IN: usize = 3;
const SLOW_ONE_IN: usize = 3;

/// What is spoken on all connections of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Clear,
    Tls,
    /// TLS by a key of RSA.
    SlowTls,
}

impl Speaks {
    pub(super) fn draw(random: &mut Random) -> Speaks {
        match random.one_in(TLS_ONE_IN) {
            false => Speaks::Clear,
            true if random.one_in(SLOW_ONE_IN) => Speaks::SlowTls,
            true => Speaks::Tls,
        }
    }

    /// What a server goes by at its listening socket.
    pub(super) fn config(self) -> Option<Config> {
        match self {
            Speaks::Clear => None,
            Speaks::Tls => Some(ends().quick.clone()),
            Speaks::SlowTls => Some(ends().slow.clone()),
        }
    }
}

/// What both ends go by.
struct Ends {
    quick: Config,
    slow: Config,
    clients: ClientConfig,
}

fn ends() -> &'static Ends {
    static ENDS: OnceLock<Ends> = OnceLock::new();
    ENDS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // Others have signatures of several lengths.
        let [quick, slow] = [&PKCS_ED25519, &PKCS_RSA_SHA256].map(|kind| {
            let key = KeyPair::generate_for(kind).expect("a key");
            let named = CertificateParams::new([NAME.to_owned()]).expect("a name");
            let certificate = named.self_signed(&key).expect("a certificate");
            roots.add(certificate.der().clone()).expect("a root");
            let (chain, key) = (certificate.pem(), key.serialize_pem());
            Config::of_one(chain.as_bytes(), key.as_bytes()).expect("they belong together")
        });
        let mut provider = default_provider();
        provider.kx_groups = vec![kx_group::X25519];
        let clients = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ends { quick, slow, clients }
    })
}

/// What all clients of a run go by: they know no tickets of other runs.
pub(super) fn clients() -> Arc<ClientConfig> {
    let mut clients = ends().clients.clone();
    clients.resumption = Resumption::in_memory_sessions(1);
    Arc::new(clients)
}

/// A client's side of one connection.
pub(super) struct Secure {
    connection: ClientConnection,
    /// Records that are not sent yet.
    records: VecDeque<u8>,
    /// It says that it sends no more before it closes its side, which it has not done yet.
    pub(super) says_end: bool,
}

impl Secure {
    pub(super) fn new(clients: &Arc<ClientConfig>, says_end: bool) -> Box<Secure> {
        let name = NAME.try_into().expect("a name");
        let mut connection = ClientConnection::new(Arc::clone(clients), name).expect("a session");
        connection.set_buffer_limit(None);
        let mut secure = Secure { connection, records: VecDeque::new(), says_end };
        secure.collect();
        Box::new(secure)
    }

    /// Bytes of records that are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.records.len()
    }

    /// Whether it can say something of its own.
    pub(super) fn is_open(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// The next `n` bytes of records.
    pub(super) fn take(&mut self, n: usize) -> Vec<u8> {
        self.records.drain(..n).collect()
    }

    /// Makes records of plain text.
    pub(super) fn seal(&mut self, plain: &[u8]) {
        self.connection.writer().write_all(plain).expect("it has room");
        self.collect();
    }

    /// Says that nothing follows.
    pub(super) fn end(&mut self) {
        self.says_end = false;
        self.connection.send_close_notify();
        self.collect();
    }

    /// Opens what came; the plain text in it.
    pub(super) fn open(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes).expect("it has room");
            let opened = self.connection.process_new_packets();
            opened.unwrap_or_else(|error| panic!("a client of TLS gives up: {error}"));
            // Neither what is not there yet nor the end is of interest here.
            let _ = self.connection.reader().read_to_end(&mut plain);
        }
        self.collect();
        plain
    }

    fn collect(&mut self) {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.records).expect("it has room");
        }
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of records wait, open {}", self.waiting(), self.is_open())
    }
}
