//! A descriptor that can be read once a time is over: what a connection waits for that waits for
//! nothing else.

use std::io;
use std::sync::Arc;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::owned::Owned;

/// A timer.
#[derive(Debug)]
pub struct Timer(Arc<Owned>);

impl Timer {
    /// One that fires once, after this many milliseconds, at least one.
    ///
    /// # Errors
    /// When descriptors or memory are out.
    pub fn after_ms(ms: u64) -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = Owned::open(|| timerfd_create(TimerfdClockId::Monotonic, flags))?;
        let ms = ms.max(1);
        let at = Timespec {
            tv_sec: (ms / 1000).try_into().unwrap_or(i64::MAX),
            tv_nsec: ((ms % 1000) * 1_000_000) as _,
        };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval: never, it_value: at };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &value)?;
        Ok(Timer(Arc::new(timer)))
    }

    /// What can be read once it has fired.
    pub fn descriptor(&self) -> &Arc<Owned> {
        &self.0
    }

    /// Whether it has fired; told once. Never blocks.
    pub fn has_fired(&self) -> bool {
        rustix::io::read(&*self.0, &mut [0; 8]).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net;

    #[test]
    fn a_timer_can_be_read_once_its_time_is_over() {
        let timer = Timer::after_ms(30_000).unwrap();
        assert!(!timer.has_fired());
        let timer = Timer::after_ms(1).unwrap();
        assert!(net::wait_readable(timer.descriptor(), 10_000).unwrap());
        assert!(timer.has_fired());
        assert!(!timer.has_fired());
    }
}
