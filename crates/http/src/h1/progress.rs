//! A minimum data rate, held over windows: slow is allowed, stalled is not.

use crate::Now;

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
        self.in_socket.is_none_or(|before| {
            (self.moved + before).saturating_sub(in_socket) >= rate * window_ms / 1000
        })
    }
}
