//! Bounds that all architectures keep.

use crate::settings::Settings;

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

/// The same where it waits for the client. It waits for [`BLOCKING_TICK_MS`] again with each part
/// that the client has taken, a third of the socket's buffer and more: by more bytes at once, its
/// thread would hear of no order for as long as a slow client takes them.
const WAITING_SENDFILE_BYTES_MAX: usize = 64 * 1024;

/// Bytes that one sendfile takes which waits for the client, by these settings: a buffer that is
/// small by them is taken in small parts.
pub(crate) fn waiting_sendfile_bytes(settings: &Settings) -> usize {
    let buffers = settings.send_buffer.map_or(usize::MAX, |bytes| 2 * bytes as usize);
    buffers.min(WAITING_SENDFILE_BYTES_MAX)
}
