//! What a connection waits for beside its client.

use std::sync::Arc;

use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

/// What is waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// A descriptor of the backend.
    pub descriptor: Arc<Owned>,
    /// What it is waited for.
    pub interest: Interest,
    /// Whether input from the client is wanted too. Otherwise only its leaving matters.
    pub reads: bool,
}
