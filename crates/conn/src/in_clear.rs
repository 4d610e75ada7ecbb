//! Clients that speak TLS where plain text is spoken: a wrong address in a browser or a proxy. The
//! log tells of some of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_http::Remote;
use flyball_sys::error_log::Level;
use flyball_sys::say;

/// A process tells of one in so many milliseconds at most, whatever clients do.
const EVERY_MS: u64 = 60_000;

/// From when on this process tells of the next one, in milliseconds of its clock.
static NEXT_MS: AtomicU64 = AtomicU64::new(0);

/// A client began by a record of TLS.
pub(crate) fn tell(client: Remote, now_ms: u64) {
    if is_due(&NEXT_MS, now_ms) {
        say!(Level::Warn, "{client} speaks TLS to an address of plain http");
    }
}

/// Whether nothing was told for a while; it is told now.
fn is_due(next_ms: &AtomicU64, now_ms: u64) -> bool {
    let due = next_ms.load(Relaxed);
    now_ms >= due && next_ms.compare_exchange(due, now_ms + EVERY_MS, Relaxed, Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_minute_is_told_of() {
        let next_ms = AtomicU64::new(0);
        let told = [5, 6, 60_004, 60_005, 60_006, 200_000].map(|now| is_due(&next_ms, now));
        assert_eq!(told, [true, false, false, true, false, true]);
    }
}
