//! What commands that take long say of how they go on.

use std::io::{Write, stderr};
use std::time::Duration;

/// A time as people say it.
pub(super) fn spoken(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Prints to standard error how something goes on. Its reader may have gone, as a terminal that was
/// closed, and what was begun has to be undone then.
pub(super) fn tell(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}
