//! The log of slow requests: a line for each, handed over to the log process by a call that never
//! waits.

use std::sync::Arc;

use flyball_sys::channel::Channel;

use super::record::Record;

/// Where one worker sends the lines of slow requests.
#[derive(Clone, Debug)]
pub struct SlowSender {
    channel: Arc<Channel>,
    threshold_us: u64,
}

impl SlowSender {
    /// Sends lines of requests that took at least so many milliseconds.
    pub(crate) fn new(channel: Channel, threshold_ms: u64) -> SlowSender {
        let threshold_us = threshold_ms.saturating_mul(1_000);
        SlowSender { channel: Arc::new(channel), threshold_us }
    }

    pub(super) fn takes(&self, record: &Record) -> bool {
        record.has_request() && u64::from(record.took_us()) >= self.threshold_us
    }

    /// True when the line found room. Never waits.
    pub(super) fn send(&self, record: &Record) -> bool {
        let line = record.line() + "\n";
        self.channel.send(line.as_bytes(), None).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::example;
    use super::*;

    #[test]
    fn only_slow_requests_are_taken_and_a_full_channel_holds_nobody_up() {
        let (channel, there) = Channel::pair().unwrap();
        channel.set_nonblocking().unwrap();
        let slow = SlowSender::new(channel, 3);
        assert!(slow.takes(&example()));
        assert!(!SlowSender { threshold_us: 3_001, ..slow.clone() }.takes(&example()));
        assert!(slow.send(&example()));
        let mut line = [0; 2_048];
        let (len, _) = there.receive(&mut line).unwrap();
        assert!(line[..len].ends_with(b"ms\n"));
        assert!((0..100_000).any(|_| !slow.send(&example())));
    }
}
