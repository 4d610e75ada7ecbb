//! Limits that running workers take over as they are: a word for each in memory that all processes
//! share, and one that says when to look again. A worker reads that one when it reads the clock.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use flyball_http::Limits;
use flyball_sys::shared::SharedCounters;

/// A limit that changes in place: its key, and its value.
struct Key {
    key: &'static str,
    read: fn(&Limits) -> u64,
    write: fn(&mut Limits, u64),
}

const KEYS: [Key; 8] = [
    Key { key: "timeout.head", read: |l| l.head_ms, write: |l, ms| l.head_ms = ms },
    Key { key: "timeout.idle", read: |l| l.idle_ms, write: |l, ms| l.idle_ms = ms },
    Key { key: "timeout.answer", read: |l| l.answer_ms, write: |l, ms| l.answer_ms = ms },
    Key { key: "timeout.send", read: |l| l.send_ms, write: |l, ms| l.send_ms = ms },
    Key { key: "timeout.linger", read: |l| l.linger_ms, write: |l, ms| l.linger_ms = ms },
    Key { key: "rate.window", read: |l| l.rate_window_ms, write: |l, ms| l.rate_window_ms = ms },
    Key { key: "rate.body-min", read: |l| l.body_rate_min, write: |l, n| l.body_rate_min = n },
    Key { key: "rate.send-min", read: |l| l.send_rate_min, write: |l, n| l.send_rate_min = n },
];

/// Whether a change of this setting is taken over by the workers that run.
pub(crate) fn is_live(key: &str) -> bool {
    KEYS.iter().any(|known| known.key == key)
}

/// The limits that hold now. The first word is the number of the change.
#[derive(Debug)]
pub(crate) struct Live(SharedCounters);

impl Live {
    /// Nothing has changed yet. To be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn new() -> io::Result<Live> {
        Ok(Live(SharedCounters::new(1 + KEYS.len())?))
    }

    /// In the master: these hold from now on, for connections that are accepted from now on.
    pub(crate) fn set(&self, limits: &Limits) {
        let (change, words) = (&self.0.all()[0], &self.0.all()[1..]);
        for (word, key) in words.iter().zip(&KEYS) {
            word.store((key.read)(limits), Relaxed);
        }
        change.fetch_add(1, Release);
    }

    /// The number of the last change.
    pub(crate) fn change(&self) -> u64 {
        self.0.all()[0].load(Acquire)
    }

    /// These limits as they are after the last change.
    pub(crate) fn apply(&self, limits: &mut Limits) {
        for (word, key) in self.0.all()[1..].iter().zip(&KEYS) {
            (key.write)(limits, word.load(Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_and_touches_nothing_else() {
        let live = Live::new().unwrap();
        let before = live.change();
        let changed = Limits { idle_ms: 7, send_rate_min: 9, ..Limits::default() };
        live.set(&changed);
        assert_ne!(live.change(), before);
        let mut limits = Limits { fields_max: 3, ..Limits::default() };
        live.apply(&mut limits);
        assert_eq!((limits.idle_ms, limits.send_rate_min, limits.fields_max), (7, 9, 3));
        assert_eq!(limits.head_ms, Limits::default().head_ms);
        assert!(is_live("timeout.idle") && !is_live("cache.content"));
    }
}
