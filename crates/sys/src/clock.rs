//! The clocks.

use std::sync::OnceLock;

use rustix::time::{ClockId, clock_getres, clock_gettime};

/// Monotonic milliseconds, from the coarse clock (4 ms or better): for deadlines.
pub fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Nanoseconds between two ticks of the kernel: how coarse the coarse clock is, and what the kernel
/// tells of when something happened. One call in the life of a process.
pub fn tick_ns() -> u64 {
    static TICK_NS: OnceLock<u64> = OnceLock::new();
    *TICK_NS.get_or_init(|| clock_getres(ClockId::MonotonicCoarse).tv_nsec as u64)
}

/// Monotonic nanoseconds: for phase times.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of CPU that this thread has used, in user mode and in the kernel.
pub fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Milliseconds since 1970, UTC, from the coarse clock.
pub fn unix_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec.max(0) as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_cpu_and_no_more_than_has_passed() {
        let (wall, cpu) = (monotonic_ns(), thread_cpu_ns());
        while thread_cpu_ns() < cpu + 1_000_000 {
            std::hint::spin_loop();
        }
        let used = thread_cpu_ns() - cpu;
        assert!(used <= monotonic_ns() - wall + 1_000_000, "{used}");
    }

    #[test]
    fn the_clocks_agree_with_the_standard_library() {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!(unix_ms().abs_diff(since.as_millis() as u64) <= 20);
        assert!(monotonic_ms().abs_diff(monotonic_ns() / 1_000_000) <= 20);
        assert!((100_000..=10_000_000).contains(&tick_ns()), "{}", tick_ns());
    }
}
