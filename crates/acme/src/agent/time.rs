//! The time of day, which certificates are about.

use flyball_sys::clock;

/// Seconds since 1970, UTC.
pub(crate) fn unix() -> u64 {
    clock::unix_ms() / 1_000
}

/// Milliseconds since 1970, UTC.
pub(crate) fn unix_ms() -> u64 {
    clock::unix_ms()
}
