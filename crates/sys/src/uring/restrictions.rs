//! What a ring may be asked for: seccomp does not see the operations of a ring, so the ring itself
//! refuses all but these (io_uring_register(2), IORING_REGISTER_RESTRICTIONS).

use std::io;

use io_uring::register::Restriction;
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode};

use super::Ring;

/// The operations that this crate starts. None makes a socket, connects, opens a name for writing
/// by itself, or runs anything.
const OPERATIONS: &[u8] = &[
    opcode::Accept::CODE,
    opcode::AsyncCancel::CODE,
    opcode::Close::CODE,
    opcode::FixedFdInstall::CODE,
    opcode::OpenAt2::CODE,
    opcode::PollAdd::CODE,
    opcode::PollRemove::CODE,
    opcode::Read::CODE,
    opcode::ReadFixed::CODE,
    opcode::Recv::CODE,
    opcode::Send::CODE,
    opcode::SendMsg::CODE,
    opcode::SendZc::CODE,
    opcode::SendMsgZc::CODE,
    opcode::Shutdown::CODE,
    opcode::Statx::CODE,
    opcode::UringCmd16::CODE,
];

/// What may be registered while the ring runs: tables of descriptors and buffers, and questions.
const REGISTRATIONS: &[u8] = &[
    0,  // IORING_REGISTER_BUFFERS
    1,  // IORING_UNREGISTER_BUFFERS
    3,  // IORING_UNREGISTER_FILES
    8,  // IORING_REGISTER_PROBE
    12, // IORING_REGISTER_ENABLE_RINGS
    13, // IORING_REGISTER_FILES2
    15, // IORING_REGISTER_BUFFERS2
    16, // IORING_REGISTER_BUFFERS_UPDATE
    22, // IORING_REGISTER_PBUF_RING
    23, // IORING_UNREGISTER_PBUF_RING
];

/// Restricts a ring that was made disabled, and enables it.
pub(super) fn apply(ring: &IoUring) -> io::Result<()> {
    let operations = OPERATIONS.iter().copied().map(Restriction::sqe_op);
    let registrations = REGISTRATIONS.iter().copied().map(Restriction::register_op);
    let flags = [Flags::FIXED_FILE, Flags::IO_LINK, Flags::IO_HARDLINK, Flags::ASYNC]
        .into_iter()
        .chain([Flags::BUFFER_SELECT, Flags::SKIP_SUCCESS])
        .fold(0, |all, flag| all | flag.bits());
    let mut all: Vec<Restriction> =
        operations.chain(registrations).chain([Restriction::sqe_flags_allowed(flags)]).collect();
    ring.submitter().register_restrictions(&mut all)?;
    ring.submitter().register_enable_rings()
}

impl Ring {
    /// Whether rings can be restricted here.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn probe_restrictions() -> io::Result<()> {
        let ring = IoUring::builder().setup_r_disabled().build(2)?;
        apply(&ring)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::sync::Arc;

    use super::super::{Completion, Mode};
    use super::*;
    use crate::descriptors::Descriptor;
    use crate::disk::{Done, Op};
    use crate::file;

    #[test]
    fn a_restricted_ring_reads_files_and_makes_no_socket() {
        let mut ring = Ring::restricted(8, Mode::Deferred).unwrap();
        let root: OwnedFd = file::open_root(std::path::Path::new("/")).unwrap();
        assert!(ring.disk(Op::Stat { file: Arc::new(Descriptor::from(root)) }, 1).is_none());
        let mut completions = Vec::new();
        while completions.is_empty() {
            ring.wait(&mut completions, 1000).unwrap();
        }
        assert!(matches!(completions[..], [(1, Completion::Disk(Done::Stamped(Ok(_))))]));

        let refused = |entry: io_uring::squeue::Entry| {
            let mut ring = Ring::restricted(8, Mode::Immediate).unwrap();
            // SAFETY: none of the entries of this test leads to memory.
            unsafe { ring.ring.submission().push(&entry).unwrap() };
            let told = ring.ring.submit_and_wait(1);
            let completion = ring.ring.completion().next().map(|entry| entry.result());
            completion == Some(-libc::EACCES)
                || told.is_err_and(|error| error.raw_os_error() == Some(libc::EACCES))
        };
        let tcp = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build();
        assert!(refused(tcp));
        assert!(refused(opcode::Nop::new().build()));
        assert!(!refused(opcode::Close::new(io_uring::types::Fd(-1)).build()));
    }

    #[test]
    fn restrictions_cannot_be_taken_back() {
        let ring = Ring::restricted(8, Mode::Deferred).unwrap();
        let again = ring.ring.submitter().register_restrictions(&mut []);
        assert!(again.is_err());
        assert!(ring.ring.as_raw_fd() >= 0);
    }
}
