//! Random bytes from the kernel.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Fills the buffer. Blocks only while the machine starts and has gathered no entropy yet.
///
/// # Errors
/// When the kernel has no getrandom(2) (before Linux 3.17).
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_fills_differ() {
        let (mut one, mut two) = ([0; 300], [0; 300]);
        fill(&mut one).unwrap();
        fill(&mut two).unwrap();
        assert_ne!(one, two);
        assert_ne!(one[..150], one[150..]);
    }
}
