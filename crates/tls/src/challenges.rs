//! Challenges of an authority that come by TLS (RFC 8737): certificates that show that names are
//! ours, and protect nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use crate::hello::{CHALLENGE, Noted};
use crate::load::Pair;

/// The number of the policy that a session of an authority goes by: no site has it.
pub(crate) const POLICY: usize = usize::MAX;

/// What is shown to authorities.
pub(crate) struct Challenges {
    table: Arc<Table>,
    server: Arc<ServerConfig>,
}

#[derive(Default)]
struct Table {
    /// By the name that an authority asks for, in lower case.
    all: RwLock<HashMap<Box<str>, Arc<CertifiedKey>>>,
    has_any: AtomicBool,
}

impl Challenges {
    /// None yet.
    ///
    /// # Errors
    /// Never, in practice.
    pub(crate) fn new() -> Result<Challenges, rustls::Error> {
        let table = Arc::new(Table::default());
        let resolver = Arc::new(Noted(Arc::clone(&table) as _));
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        server.alpn_protocols = vec![CHALLENGE.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Challenges { table, server: Arc::new(server) })
    }

    /// Puts these in the place of those that there are: names, and what they are shown.
    pub(crate) fn replace(&self, challenges: Vec<(String, Pair)>) {
        let all: HashMap<Box<str>, _> =
            challenges.into_iter().map(|(name, pair)| (name.into(), pair.certified)).collect();
        self.table.has_any.store(!all.is_empty(), Relaxed);
        *self.table.all.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Whether an authority may come.
    pub(crate) fn are_there(&self) -> bool {
        self.table.has_any.load(Relaxed)
    }

    /// What a session goes by in which an authority asks for this name, if it is expected.
    pub(crate) fn server_for(&self, name: Option<&str>) -> Option<&Arc<ServerConfig>> {
        self.table.of(name?).map(|_| &self.server)
    }
}

impl Table {
    fn of(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl ResolvesServerCert for Table {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.of(hello.server_name()?)
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenges").field("table", &self.table).finish_non_exhaustive()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("has_any", &self.has_any).finish_non_exhaustive()
    }
}
