//! A client that is slow on purpose: it reads or writes so many bytes in a second.

/// Time for which bytes are saved up before they are moved: ten moves in a second at least.
const QUANTUM_NS: u64 = 10_000_000;

/// How far a connection has come with its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    from_ns: u64,
    bytes: u64,
}

impl Pace {
    /// Bytes count from `now_ns` on.
    pub(super) fn begin(now_ns: u64) -> Pace {
        Pace { from_ns: now_ns, bytes: 0 }
    }

    /// Bytes that may be moved now.
    pub(super) fn allowance(&self, rate: u64, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.from_ns);
        let upto = u128::from(rate) * u128::from(passed) / 1_000_000_000;
        u64::try_from(upto).unwrap_or(u64::MAX).saturating_sub(self.bytes)
    }

    /// This many bytes were moved.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// When the next bytes may be moved: some milliseconds' worth of them, or one.
    pub(super) fn next_ns(&self, rate: u64, now_ns: u64) -> u64 {
        let quantum = u128::from(rate) * u128::from(QUANTUM_NS) / 1_000_000_000;
        let wanted = u128::from(self.bytes) + quantum.max(1);
        let after = (wanted * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        let at = u128::from(self.from_ns) + after;
        u64::try_from(at).unwrap_or(u64::MAX).max(now_ns + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_allowed_as_time_passes_and_not_before() {
        let mut pace = Pace::begin(0);
        assert_eq!(pace.allowance(1000, 0), 0);
        let at = pace.next_ns(1000, 0);
        assert_eq!(at, 10_000_000);
        assert_eq!(pace.allowance(1000, at), 10);
        pace.moved(10);
        assert_eq!(pace.allowance(1000, at), 0);
        assert_eq!(pace.allowance(1000, 1_000_000_000), 990);
        assert_eq!(Pace::begin(0).next_ns(1, 0), 1_000_000_000, "a byte in a second");
    }
}
