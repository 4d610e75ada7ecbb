//! What a ring can do beyond the necessary, probed by doing it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, cqueue, opcode};

use super::buffers::{Buffers, GROUP};
use super::registered::Chunks;
use super::sockets::SIOCOUTQ_COMMAND;

/// What a ring may use if the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Buffers that the kernel takes when bytes come (Linux 5.19).
    pub provided: bool,
    /// Receives that go on by themselves, into provided buffers (Linux 6.0).
    pub multishot: bool,
    /// Sockets in a table of the ring's own instead of the process's (Linux 6.7, which can tell
    /// without a descriptor what such a socket holds). Measured on one busy machine (Linux 6.18,
    /// loopback, medians of 5 runs of 1 s): a server that kept none of its sockets in the process's
    /// table used 0.92 of the CPU time of `sped` for a new connection, and 0.98 with plain ones;
    /// for a request on a kept connection 0.93 and 0.90, which is within the noise.
    pub direct: bool,
    /// Closing linked to the last send.
    pub linked: bool,
    /// A descriptor of the process's own for a direct socket, as sendfile needs (Linux 6.8).
    pub installs: bool,
    /// Pieces of files read into memory that is registered with the ring (Linux 5.19, as far as
    /// memory may be locked).
    pub registered: bool,
}

impl Features {
    /// All.
    pub const ALL: Features = Features {
        provided: true,
        multishot: true,
        direct: true,
        linked: true,
        installs: true,
        registered: true,
    };

    /// None: what Linux 5.19 has.
    pub const NONE: Features = Features {
        provided: false,
        multishot: false,
        direct: false,
        linked: false,
        installs: false,
        registered: false,
    };

    /// Those of these that work here.
    pub fn probed(self) -> Features {
        let provided = self.provided && provides().is_ok();
        Features {
            provided,
            multishot: provided && self.multishot && receives_repeatedly().is_ok(),
            direct: self.direct && has_direct_sockets().is_ok(),
            linked: self.linked,
            installs: self.installs && has(opcode::FixedFdInstall::CODE),
            registered: self.registered && registers().is_ok(),
        }
    }
}

/// Whether completions are worked on when the thread that owns the ring asks for them (Linux 6.1);
/// else whenever the kernel interrupts it.
pub fn defers() -> bool {
    let mut builder: io_uring::Builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().build(2).is_ok()
}

fn has(code: u8) -> bool {
    let mut probe = io_uring::Probe::new();
    let probed =
        IoUring::new(2).and_then(|ring: IoUring| ring.submitter().register_probe(&mut probe));
    probed.is_ok() && probe.is_supported(code)
}

fn provides() -> io::Result<()> {
    Buffers::register(&IoUring::new(2)?, 1).map(drop)
}

fn registers() -> io::Result<()> {
    let ring = IoUring::new(2)?;
    let mut chunks = Chunks::register(&ring, 1, 1)?;
    chunks.take(&ring, 1).map(drop).ok_or(io::ErrorKind::Unsupported.into())
}

fn receives_repeatedly() -> io::Result<()> {
    let mut ring = IoUring::new(2)?;
    let _buffers = Buffers::register(&ring, 1)?;
    let (client, server) = UnixStream::pair()?;
    std::io::Write::write_all(&mut &client, b"x")?;
    let server = OwnedFd::from(server);
    let entry = opcode::RecvMulti::new(Fd(server.as_raw_fd()), GROUP).build();
    let (received, goes_on) = perform(&mut ring, &entry)?;
    match (received, goes_on) {
        (1, true) => Ok(()),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn has_direct_sockets() -> io::Result<()> {
    let mut ring = IoUring::new(2)?;
    ring.submitter().register_files_sparse(1)?;
    let entry = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0)
        .file_index(Some(DestinationSlot::auto_target()))
        .build();
    perform(&mut ring, &entry)?;
    let entry = opcode::UringCmd16::new(Fixed(0), SIOCOUTQ_COMMAND).build();
    perform(&mut ring, &entry).map(drop)
}

/// Performs an operation that completes at once and names no memory.
fn perform(ring: &mut IoUring, entry: &Entry) -> io::Result<(i32, bool)> {
    // SAFETY: the entry holds no pointer; the descriptors in it are open until it completes.
    unsafe { ring.submission().push(entry) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    let completion = ring.completion().next().ok_or(io::ErrorKind::Unsupported)?;
    match completion.result() {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        result => Ok((result, cqueue::more(completion.flags()))),
    }
}

/// The flag of an entry whose descriptor is direct.
pub(super) fn fixed(direct: bool) -> Flags {
    if direct { Flags::FIXED_FILE } else { Flags::empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_is_not_probed_and_repeating_needs_provided_buffers() {
        assert_eq!(Features::NONE.probed(), Features::NONE);
        let found = Features { provided: false, ..Features::ALL }.probed();
        assert!(!found.provided && !found.multishot, "{found:?}");
    }
}
