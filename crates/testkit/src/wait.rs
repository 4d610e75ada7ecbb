//! Waiting for another process, which does not report when it is ready.

use std::thread;
use std::time::{Duration, Instant};

/// The longest that a test waits for anything: long beside a very busy machine, and only waited for
/// in full by a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks: short beside a test, long beside the cost of a look.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until something is found or `at_most` is over; the first look is at once. Blocks.
pub fn until<T>(at_most: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + at_most;
    loop {
        let found = look();
        let now = Instant::now();
        if found.is_some() || now >= deadline {
            return found;
        }
        thread::sleep(LOOK_EVERY.min(deadline - now));
    }
}

/// Fails when more than `at_most` has gone by since `start`. A test whose subject is wall time says
/// its bound by this, so that `cargo xtask ci --timed` finds it; the bound is at least ten times
/// what was seen beside four busy loops.
///
/// # Panics
/// When it took longer.
#[track_caller]
pub fn assert_within(start: Instant, at_most: Duration, what: &str) {
    let took = start.elapsed();
    assert!(took < at_most, "{what}: it took {took:?}, more than {at_most:?}");
}

/// What a slow client does between two pieces. Not for waiting until something has happened.
pub fn dawdle(time: Duration) {
    until(time, || None::<()>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_is_found_and_what_never_comes_is_given_up() {
        let mut looks = 0;
        let found = until(DEADLINE, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
        assert_eq!(until(Duration::ZERO, || None::<()>), None);
    }
}
