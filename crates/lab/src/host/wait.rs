//! Waiting for what another process does.

use std::thread;
use std::time::{Duration, Instant};

/// Looks until there is something to return: at once, and then every so often. `None` when the time
/// is over, or `stop` says that nobody waits any more. Blocks.
pub fn until<T>(
    most: Duration,
    every: Duration,
    stop: &dyn Fn() -> bool,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    let end = Instant::now() + most;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop() {
            return None;
        }
        // It may wake up early, which only means to look once more.
        thread::park_timeout(every.min(left));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_ends_with_what_is_found_with_the_time_or_when_nobody_waits() {
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(1));
        let looks = Cell::new(0);
        let third = || {
            looks.set(looks.get() + 1);
            (looks.get() == 3).then_some("found")
        };
        assert_eq!(until(long, short, &|| false, third), Some("found"));
        assert_eq!(until(short, short, &|| false, || None::<()>), None);
        assert_eq!(until(long, short, &|| true, || None::<()>), None);
    }
}
