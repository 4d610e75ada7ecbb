//! Bytes in memory that is never written again, for another process (F_ADD_SEALS in fcntl(2)).

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};

/// Memory with these bytes.
///
/// # Errors
/// When memory or descriptors are out.
pub fn write(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut memory = File::from(rustix::fs::memfd_create("sealed", flags)?);
    memory.write_all(bytes)?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, all)?;
    Ok(memory.into())
}

/// The bytes that are there, at most so many.
///
/// # Errors
/// When it cannot be read.
pub fn read(memory: OwnedFd, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut memory = File::from(memory);
    memory.rewind()?;
    let mut bytes = Vec::new();
    memory.take(bytes_max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_read_and_not_written() {
        let memory = write(b"secret").unwrap();
        assert!(File::from(memory.try_clone().unwrap()).write_all(b"x").is_err());
        assert_eq!(read(memory.try_clone().unwrap(), 4).unwrap(), b"secr");
        assert_eq!(read(memory, 99).unwrap(), b"secret");
    }
}
