//! The name that a client asks for: rustls' sessions over bytes do not tell it.

use std::cell::Cell;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

thread_local! {
    /// The name in the hello that was looked at last. A session looks at its hello, and takes the
    /// name, in one call.
    static NAME: Cell<Option<Box<str>>> = const { Cell::new(None) };
}

/// The name in the hello that this thread has looked at since the last call.
pub(crate) fn take_name() -> Option<Box<str>> {
    NAME.take()
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
