//! Waiting for other processes, which tell nobody when they are ready or gone.

use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks: short beside a run, long beside the cost of a look.
const PAUSE_MS: u64 = 10;

/// Looks until something is found or the time is over; the first look is at once. Blocks.
pub(crate) fn until<T>(time_ms_max: u64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_millis(time_ms_max);
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        thread::sleep(Duration::from_millis(PAUSE_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_is_found_and_what_never_comes_is_given_up() {
        let mut looks = 0;
        let found = until(10_000, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
        assert_eq!(until(0, || None::<()>), None);
    }
}
