//! A pair of connected sockets over which two processes pass records, with descriptors or without
//! (SOCK_SEQPACKET and SCM_RIGHTS in unix(7)).
//!
//! The process at the other end may have been taken over. What it sends is a record, whatever it
//! holds: the end of a channel is told by the kernel, which knows whether the other end is open.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Once;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::error_log::Level;
use crate::owned::{Opening, Owned};
use crate::say;

/// Most descriptors that can come with one record (`SCM_MAX_FD` in the kernel). Those for which
/// there is no room the kernel would close here as they are.
pub const DESCRIPTORS_MAX: usize = 253;

/// Empty records that are dropped before others than their sender have their turn.
const EMPTY_MAX: usize = 16;

/// Says, once in the life of this process, that another one sent what makes no sense. The caller
/// drops the record and goes on.
pub fn say_dropped() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let own = crate::process::own_id();
        say!(Level::Error, "process {own} drops a record of another process that makes no sense");
    });
}

/// One end.
#[derive(Debug)]
pub struct Channel(Owned);

impl Channel {
    /// Two connected ends, closed on exec, blocking.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (flags, opening) = (SocketFlags::CLOEXEC, Opening::begin());
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Channel(opening.own(a)), Channel(opening.own(b))))
    }

    /// The end that came over another channel.
    pub fn from_fd(fd: OwnedFd) -> Channel {
        Channel(fd.into())
    }

    /// Makes this end's calls return `WouldBlock` instead of waiting. The other end has a state of
    /// its own.
    ///
    /// # Errors
    /// Never on Linux, in practice.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, true)?)
    }

    /// Asks the kernel for room for this many bytes of records that nobody has received yet, and
    /// of its own account of them.
    ///
    /// # Errors
    /// Never on Linux, in practice; less than asked for is no error.
    pub fn set_room(&self, bytes: usize) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_send_buffer_size(&self.0, bytes)?)
    }

    /// Waits until there is room for another record, at most `timeout_ms`; whether there is.
    /// Blocks.
    ///
    /// # Errors
    /// When the kernel refuses the wait; an interrupting signal is no error.
    pub fn wait_for_room(&self, timeout_ms: u64) -> io::Result<bool> {
        crate::net::wait_writable(&self.0, timeout_ms)
    }

    /// Sends one record, and a copy of a descriptor with it.
    ///
    /// # Errors
    /// `BrokenPipe` when the other end is gone; `WouldBlock` when this one does not wait.
    pub fn send(&self, record: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_with(record, descriptor.as_slice())
    }

    /// Sends one record, and copies of at most [`DESCRIPTORS_MAX`] descriptors with it.
    ///
    /// # Errors
    /// As [`Channel::send`]; `InvalidInput` when a record is too long to be ever sent.
    pub fn send_with(&self, record: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_by(record, descriptors, SendFlags::NOSIGNAL)
    }

    /// Sends one record, and never waits, even where this end does: what another process has sent
    /// as an end it may have kept, and changed whether it waits.
    ///
    /// # Errors
    /// As [`Channel::send`]; `WouldBlock` when there is no room.
    pub fn send_now(&self, record: &[u8]) -> io::Result<()> {
        self.send_by(record, &[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn send_by(
        &self,
        record: &[u8],
        descriptors: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let record = [IoSlice::new(record)];
        rustix::net::sendmsg(&self.0, &record, &mut control, flags)?;
        Ok(())
    }

    /// Receives one record, and the descriptor that came with it; no bytes mean that the other end
    /// is gone. A record that is empty is dropped. What a record has beyond the buffer is lost.
    ///
    /// # Errors
    /// `ConnectionReset` when the other end is gone; `WouldBlock` when this one does not wait.
    pub fn receive(&self, record: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let (bytes, descriptors) = self.receive_with(record)?;
        Ok((bytes, descriptors.into_iter().next_back()))
    }

    /// Receives one record, and the descriptors that came with it, in their order; otherwise as
    /// [`Channel::receive`].
    ///
    /// # Errors
    /// As [`Channel::receive`].
    fn receive_with(&self, record: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        self.receive_by(record, RecvFlags::CMSG_CLOEXEC)
    }

    /// Receives one record, and never waits, even where this end does.
    ///
    /// # Errors
    /// As [`Channel::receive`]; `WouldBlock` when there is none.
    pub fn receive_now(&self, record: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive_now_with(record)?.0)
    }

    /// The same with the descriptors that came with the record, in their order.
    ///
    /// # Errors
    /// As [`Channel::receive_now`].
    pub fn receive_now_with(&self, record: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        self.receive_by(record, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
    }

    fn receive_by(&self, record: &mut [u8], flags: RecvFlags) -> io::Result<(usize, Vec<OwnedFd>)> {
        for _ in 0..EMPTY_MAX {
            let (len, descriptors) = self.receive_any(record, flags)?;
            if len > 0 || self.is_over()? {
                return Ok((len, descriptors));
            }
            say_dropped();
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Whether the other end is closed, or sends no more (shutdown(2)), and no record is left: a
    /// record of no bytes is received like the end.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub(crate) fn is_over(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Of records the kernel tells the bytes of all that wait.
        let is_closed = fds[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP);
        Ok(is_closed && rustix::io::ioctl_fionread(&self.0)? == 0)
    }

    /// Receives a record, which may be empty, or the end.
    fn receive_any(
        &self,
        record: &mut [u8],
        flags: RecvFlags,
    ) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut record = [IoSliceMut::new(record)];
        let received = loop {
            match rustix::net::recvmsg(&self.0, &mut record, &mut control, flags) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received?,
            }
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received.inspect(|descriptor| {
                    // Closing a socket that lingers would wait for its peer. Others do not linger.
                    let _ = rustix::net::sockopt::set_socket_linger(descriptor, None);
                }));
            }
        }
        Ok((received.bytes, descriptors))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;
    use std::io::{Read, Write};

    #[test]
    fn records_keep_their_bounds_and_bring_descriptors_along() {
        let (here, there) = Channel::pair().unwrap();
        let (read, write) = std::io::pipe().unwrap();
        here.send(b"first", None).unwrap();
        here.send(b"second", Some(read.as_fd())).unwrap();
        drop(read);
        let mut record = [0; 16];
        let (n, none) = there.receive(&mut record).unwrap();
        assert_eq!((&record[..n], none.is_none()), (&b"first"[..], true));
        let (n, pipe) = there.receive(&mut record).unwrap();
        assert_eq!(&record[..n], b"second");
        (&write).write_all(b"x").unwrap();
        let mut byte = [0];
        std::fs::File::from(pipe.unwrap()).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn several_descriptors_come_in_their_order() {
        let (here, there) = Channel::pair().unwrap();
        let (read, write) = std::io::pipe().unwrap();
        here.send_with(b"two", &[read.as_fd(), write.as_fd()]).unwrap();
        let (n, mut fds) = there.receive_with(&mut [0; 8]).unwrap();
        assert_eq!((n, fds.len()), (3, 2));
        std::fs::File::from(fds.pop().unwrap()).write_all(b"x").unwrap();
        let mut byte = [0];
        std::fs::File::from(fds.pop().unwrap()).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn a_full_one_is_not_waited_for_and_tells_when_there_is_room() {
        let (here, there) = Channel::pair().unwrap();
        here.set_nonblocking().unwrap();
        here.set_room(1 << 16).unwrap();
        assert!(here.wait_for_room(0).unwrap());
        let full = (0..1000).find_map(|_| here.send(&[7; 4096], None).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
        assert!(!here.wait_for_room(0).unwrap());
        there.set_nonblocking().unwrap();
        while there.receive(&mut [0; 4096]).is_ok() {}
        assert!(here.wait_for_room(0).unwrap());
    }

    #[test]
    fn an_empty_record_is_dropped_and_is_no_end() {
        // Processes that other tests fork have copies of the ends for a while.
        apart(|| {
            let (here, there) = Channel::pair().unwrap();
            let (pipe, held) = std::io::pipe().unwrap();
            there.set_nonblocking().unwrap();
            let record = &mut [0; 8];
            for n in 0..3 {
                (0..n).for_each(|_| here.send(b"", Some(held.as_fd())).unwrap());
                let error = there.receive(record).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                (0..n).for_each(|_| here.send(b"", None).unwrap());
                here.send(b"x", None).unwrap();
                assert_eq!(there.receive_now(record).unwrap(), 1);
            }
            // Neither is it where the other end is gone meanwhile.
            here.send(b"", None).unwrap();
            here.send(b"", None).unwrap();
            here.send(b"last", None).unwrap();
            here.send(b"", None).unwrap();
            drop(here);
            assert_eq!(there.receive(record).unwrap().0, 4);
            assert_eq!(there.receive(record).unwrap().0, 0);
            assert_eq!(there.receive(record).unwrap().0, 0);
            // What came with such records is closed.
            drop(held);
            assert_eq!((&pipe).read(record).unwrap(), 0);
        });
    }

    #[test]
    fn a_socket_that_lingers_is_closed_at_once() {
        use std::net::{TcpListener, TcpStream};
        use std::time::{Duration, Instant};

        apart(|| {
            let (here, there) = Channel::pair().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut sockets = Vec::new();
            for _ in 0..8 {
                let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let long = Some(Duration::from_secs(60));
                rustix::net::sockopt::set_socket_linger(&socket, long).unwrap();
                socket.set_nonblocking(true).unwrap();
                while (&socket).write(&[7; 65_536]).is_ok() {}
                sockets.push(socket);
            }
            let peers: Vec<_> = sockets.iter().map(|_| listener.accept().unwrap()).collect();
            let all: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            here.send_by(b"x", &all, SendFlags::NOSIGNAL).unwrap();
            drop(sockets);
            let began = Instant::now();
            assert_eq!(there.receive_now(&mut [0; 8]).unwrap(), 1);
            assert!(began.elapsed() < Duration::from_secs(30));
            drop(peers);
        });
    }

    #[test]
    fn an_end_that_is_shut_down_is_the_end_and_many_empty_records_hold_nobody_up() {
        let (here, there) = Channel::pair().unwrap();
        (0..EMPTY_MAX + 1).for_each(|_| here.send(b"", None).unwrap());
        here.send(b"x", None).unwrap();
        let record = &mut [0; 8];
        let error = there.receive_now(record).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        rustix::net::shutdown(&here, rustix::net::Shutdown::Write).unwrap();
        assert_eq!(there.receive(record).unwrap().0, 1);
        assert_eq!(there.receive(record).unwrap().0, 0);
    }

    #[test]
    fn an_end_that_is_gone_is_told_and_an_empty_one_is_not_waited_for() {
        apart(|| {
            let (here, there) = Channel::pair().unwrap();
            here.set_nonblocking().unwrap();
            let error = here.receive(&mut [0; 4]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            drop(there);
            assert_eq!(here.receive(&mut [0; 4]).unwrap().0, 0);
            let error = here.send(b"x", None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        });
    }
}
