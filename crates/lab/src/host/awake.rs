//! Keeps processors from sleeping while a campaign runs. In a virtual machine waking one takes the
//! machine beneath, and is counted as stolen time: two processes on two processors that wake each
//! other lost 23 to 34 % of the time so, and 1 % when none slept (2 processors, Linux 6.18).

use std::fs::{self, File};
use std::io::{self, Write};

/// Where the kernel takes how long a processor may need to wake up (its PM QoS interface).
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Processors do not sleep until this is dropped, or its process ends in whatever way: they wait
/// by polling, which counts as idle.
#[derive(Debug)]
pub struct Awake {
    /// What is asked for holds as long as it is open.
    _latency: File,
}

impl Awake {
    /// Keeps all processors awake.
    ///
    /// # Errors
    /// When the kernel has no such interface, or this process is not root's.
    pub fn keep() -> io::Result<Awake> {
        let mut latency = File::options().write(true).open(LATENCY)?;
        latency.write_all(&0i32.to_ne_bytes())?;
        Ok(Awake { _latency: latency })
    }
}

/// The microseconds that a processor may need to wake up, by all who ask for less than anything:
/// with 0 none sleeps. Nothing when the kernel does not tell.
pub fn wakes_within_us() -> Option<i32> {
    let bytes = fs::read(LATENCY).ok()?;
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_stay_awake_for_as_long_as_it_is_held() {
        let before = wakes_within_us();
        let Ok(awake) = Awake::keep() else {
            // Without root, or in a container that has no such device.
            assert!(before.is_none_or(|us| us >= 0));
            return;
        };
        assert_eq!(wakes_within_us(), Some(0));
        drop(awake);
        assert_eq!(wakes_within_us(), before);
    }
}
