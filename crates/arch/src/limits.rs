//! Bounds that all architectures keep.

/// Reads of one connection in one turn; then others have theirs.
pub(crate) const READS_PER_TURN: u32 = 4;

/// Longest wait for events, in milliseconds: how late counters are published when nothing happens.
pub(crate) const WAIT_MS_MAX: u64 = 500;

/// How long accepting stops after descriptors ran out, in milliseconds, if none is freed before.
pub(crate) const ACCEPT_PAUSE_MS: u64 = 250;

/// How long a blocking call may take before its thread looks at the time, in milliseconds.
pub const BLOCKING_TICK_MS: u64 = 500;

/// Bytes that one sendfile may take, if the socket's buffer does.
pub(crate) const SENDFILE_BYTES_MAX: usize = 4 * 1024 * 1024;
