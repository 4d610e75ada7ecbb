//! A minimum data rate, held over windows: slow is allowed, stalled is not.

use crate::Now;
use crate::limits::Limits;

/// Progress of one direction within the current window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    window_end: u64,
    moved: u64,
    in_socket: Option<u64>,
}

impl Progress {
    /// Starts a window of `window_ms`. `in_socket` is how many bytes are still queued in the
    /// kernel; when that is not known, this window cannot be judged.
    pub(super) fn start(now: &Now, window_ms: u64, in_socket: Option<u64>) -> Progress {
        Progress { window_end: now.ms() + window_ms, moved: 0, in_socket }
    }

    /// Counts bytes handed over.
    pub(super) fn add(&mut self, n: u64) {
        self.moved += n;
    }

    /// Lengthens the window by time in which nothing could move.
    pub(super) fn pause(&mut self, ms: u64) {
        self.window_end += ms;
    }

    /// When the window ends, in monotonic milliseconds.
    pub(super) fn window_end(&self) -> u64 {
        self.window_end
    }

    /// True when at least `rate` bytes a second truly moved: bytes that merely went into the
    /// socket's buffer do not count, and bytes that left it do.
    pub(super) fn holds(&self, rate: u64, window_ms: u64, in_socket: u64) -> bool {
        self.taken(in_socket).is_none_or(|taken| taken >= rate * window_ms / 1000)
    }

    /// Bytes that truly moved, where that can be told.
    fn taken(&self, in_socket: u64) -> Option<u64> {
        self.in_socket.map(|before| (self.moved + before).saturating_sub(in_socket))
    }
}

/// How a client takes what is sent: windows one after the other, and what they have shown. A client
/// that is slow, or has paused, keeps its place until another needs it; one that takes nothing
/// at all has its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taking {
    window: Progress,
    window_ms: u64,
    /// When it had last taken anything, as far as windows tell.
    moved_ms: u64,
    /// When the first of the windows began that were all too slow.
    slow_since_ms: Option<u64>,
}

impl Taking {
    /// Begins, as [`Progress::start`] does.
    pub(super) fn begin(&mut self, limits: &Limits, in_socket: Option<u64>, now: &Now) {
        (self.moved_ms, self.slow_since_ms) = (now.ms(), None);
        self.go_on(limits, in_socket, now);
    }

    fn go_on(&mut self, limits: &Limits, in_socket: Option<u64>, now: &Now) {
        self.window_ms = limits.rate_window_ms.min(limits.send_ms);
        self.window = Progress::start(now, self.window_ms, in_socket);
    }

    /// Counts bytes handed over.
    pub(super) fn add(&mut self, n: u64) {
        self.window.add(n);
    }

    /// When it is to be judged, in monotonic milliseconds.
    pub(super) fn judged_at(&self) -> u64 {
        self.window.window_end()
    }

    /// Since when the client takes less than the least rate, if it does.
    pub(super) fn slow_since_ms(&self) -> Option<u64> {
        self.slow_since_ms
    }

    /// Judges a window and begins the next; false when the client is given up.
    pub(super) fn judge(&mut self, limits: &Limits, in_socket: u64, now: &Now) -> bool {
        if self.window.taken(in_socket).is_none_or(|taken| taken > 0) {
            self.moved_ms = now.ms();
        }
        let holds = self.window.holds(limits.send_rate_min, self.window_ms, in_socket);
        let began_ms = self.window.window_end().saturating_sub(self.window_ms);
        let slow_since_ms = self.slow_since_ms.unwrap_or(began_ms);
        self.slow_since_ms = (!holds).then_some(slow_since_ms);
        self.go_on(limits, Some(in_socket), now);
        now.ms() < self.moved_ms + limits.send_ms && (holds || limits.keeps_slow)
    }
}
