//! The name that a client asks for: rustls' sessions over bytes do not tell it.

use std::cell::Cell;
use std::sync::Arc;

use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, SignatureScheme};

/// The one protocol that an authority names which looks for a challenge (RFC 8737, section 3).
pub(crate) const CHALLENGE: &[u8] = b"acme-tls/1";

thread_local! {
    /// The name in the hello that was looked at last. A session looks at its hello, and takes the
    /// name, in one call.
    static NAME: Cell<Option<Box<str>>> = const { Cell::new(None) };
}

/// The name in the hello that this thread has looked at since the last call.
pub(crate) fn take_name() -> Option<Box<str>> {
    NAME.take()
}

/// What a look at a client's first bytes shows.
pub(crate) enum Look {
    /// The hello is not whole.
    Incomplete,
    /// It is this.
    Whole(Hello),
    /// It is none, and the client is told so by these bytes.
    Wrong(Error, Vec<u8>),
}

/// What a certificate is chosen by.
pub(crate) struct Hello {
    /// The name that is asked for, in lower case.
    pub(crate) name: Option<Box<str>>,
    /// The signatures that the client can verify.
    pub(crate) schemes: Vec<SignatureScheme>,
    /// Whether it is that of an authority which looks for a challenge.
    pub(crate) is_challenge: bool,
}

/// Looks at what may be a client's hello, before a session begins with it.
pub(crate) fn look(cipher: &[u8]) -> Look {
    let (mut acceptor, mut rest) = (Acceptor::default(), cipher);
    while !rest.is_empty() {
        match acceptor.read_tls(&mut rest) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    match acceptor.accept() {
        Ok(None) => Look::Incomplete,
        Ok(Some(accepted)) => {
            let hello = accepted.client_hello();
            let mut protocols = hello.alpn().into_iter().flatten();
            let is_challenge = protocols.next() == Some(CHALLENGE) && protocols.next().is_none();
            let name = hello.server_name().map(Box::from);
            Look::Whole(Hello { name, schemes: hello.signature_schemes().to_vec(), is_challenge })
        }
        Err((error, mut alert)) => {
            let mut told = Vec::new();
            // Memory takes all.
            let _ = alert.write_all(&mut told);
            Look::Wrong(error, told)
        }
    }
}

/// Chooses as another does, and keeps the name that was asked for.
#[derive(Debug)]
pub(crate) struct Noted(pub(crate) Arc<dyn ResolvesServerCert>);

impl ResolvesServerCert for Noted {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        NAME.set(hello.server_name().map(Box::from));
        self.0.resolve(hello)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.0.only_raw_public_keys()
    }
}
