//! The named limits of one connection. Every one is per connection and finite by default.

/// Longest request target, in bytes, unless a setting says otherwise.
pub(crate) const TARGET_BYTES_MAX: usize = 8 * 1024;

/// Limits on size, count and time for one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request target, in bytes; longer is refused with 414.
    pub target_bytes_max: usize,
    /// Longest request head with its blank line, in bytes; longer is refused with 431.
    pub head_bytes_max: usize,
    /// Most field lines in a head; more are refused with 431.
    pub fields_max: usize,
    /// Longest request body, in bytes; longer is refused with 413.
    pub body_bytes_max: u64,
    /// Most bytes of an unwanted request body read so that the connection can be kept.
    pub drain_bytes_max: u64,
    /// Most bytes thrown away after a refusal while the client reads the answer.
    pub linger_bytes_max: u64,
    /// Most pipelined answers gathered before they are written.
    pub pipeline_max: u16,
    /// Time for a whole handshake of TLS, from accept, in milliseconds.
    pub handshake_ms: u64,
    /// Time for a whole request head, from its first byte (or from accept), in milliseconds.
    pub head_ms: u64,
    /// Time between requests on a kept connection, in milliseconds.
    pub idle_ms: u64,
    /// Time for the work behind one answer, in milliseconds.
    pub answer_ms: u64,
    /// Time in which a client takes nothing of an answer before it is given up, in milliseconds.
    pub send_ms: u64,
    /// Time in which nothing comes of a client that may still read a last answer, in milliseconds.
    pub linger_ms: u64,
    /// Time for that in all, while the client sends, in milliseconds.
    pub linger_ms_max: u64,
    /// Length of the windows over which the minimum data rates hold, in milliseconds.
    pub rate_window_ms: u64,
    /// Least bytes of request body per second, averaged over a window.
    pub body_rate_min: u64,
    /// Least bytes of answer taken by the client per second, averaged over a window.
    pub send_rate_min: u64,
    /// Whether a client that takes less keeps its place as long as no other needs it.
    pub keeps_slow: bool,
    /// Whether answers carry `Server: flyball`.
    pub server_field: bool,
    /// How heads are written.
    pub head_style: HeadStyle,
}

/// How heads are written: the default is for production, anything else for experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadStyle {
    /// Pads each head to a multiple of this many bytes (Flash, section 5.5); 1 is no padding.
    pub align: usize,
    /// Whether the text of `Date` is formatted once a second, and not for each answer.
    pub date_cached: bool,
    /// Whether a head and its body leave in one write: a small body is copied behind its head, so
    /// that both are one segment.
    pub joins_bodies: bool,
}

impl HeadStyle {
    /// The spaces that pad a head that is `len` bytes long without them, if there is a place.
    pub(crate) fn pad(self, no_place: bool, len: impl FnOnce() -> usize) -> &'static [u8] {
        const SPACES: [u8; 64] = [b' '; 64];
        if no_place || self.align <= 1 {
            return b"";
        }
        let len = len();
        &SPACES[..(len.next_multiple_of(self.align) - len).min(SPACES.len())]
    }
}

impl Default for HeadStyle {
    fn default() -> HeadStyle {
        HeadStyle { align: 1, date_cached: true, joins_bodies: true }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            target_bytes_max: TARGET_BYTES_MAX,
            head_bytes_max: 16 * 1024,
            fields_max: 100,
            body_bytes_max: 64 * 1024 * 1024,
            drain_bytes_max: 64 * 1024,
            linger_bytes_max: 64 * 1024 * 1024,
            pipeline_max: 32,
            handshake_ms: 10_000,
            head_ms: 10_000,
            idle_ms: 60_000,
            answer_ms: 60_000,
            send_ms: 60_000,
            linger_ms: 2_000,
            linger_ms_max: 30_000,
            rate_window_ms: 10_000,
            body_rate_min: 512,
            send_rate_min: 512,
            keeps_slow: true,
            server_field: true,
            head_style: HeadStyle::default(),
        }
    }
}
