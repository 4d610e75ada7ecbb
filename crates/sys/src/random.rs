//! Random bytes from the kernel.

use std::fs::File;
use std::io::{self, Read};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::refused::is_refused;

/// Where they are without getrandom(2).
const DEVICE: &str = "/dev/urandom";

/// Fills the buffer. Blocks only while the machine starts and has gathered no entropy yet.
///
/// # Errors
/// When there is neither getrandom(2) nor a device that can be read.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Err(error) if is_refused(error) => {
                let device = File::open(DEVICE).and_then(|mut from| from.read_exact(bytes));
                let why = |why| format!("getrandom: {error}; {DEVICE}: {why}");
                return device.map_err(|error| io::Error::other(why(error)));
            }
            got => filled += got?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::tests::{REFUSALS, without};

    #[test]
    fn random_bytes_come_where_getrandom_is_refused() {
        for errno in REFUSALS {
            let mut bytes = [0; 64];
            without(&[libc::SYS_getrandom], errno, || fill(&mut bytes).unwrap());
            assert_ne!(bytes, [0; 64]);
        }
    }

    #[test]
    fn two_fills_differ() {
        let (mut one, mut two) = ([0; 300], [0; 300]);
        fill(&mut one).unwrap();
        fill(&mut two).unwrap();
        assert_ne!(one, two);
        assert_ne!(one[..150], one[150..]);
    }
}
