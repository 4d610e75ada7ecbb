//! What a body must be.

/// The bytes that a body must have.
pub trait Content: Send + Sync + std::fmt::Debug {
    /// Whether `bytes` are what the body holds from `offset` on. Must not wait: it is called on
    /// the path of every reply.
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool;
}
