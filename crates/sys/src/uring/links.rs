//! Links on a ring: sockets of the process's own whose bytes are moved by operations. An operation
//! holds its socket and its memory until it is complete.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd;

use super::buffers::GROUP;
use super::outgoing::View;
use super::{Held, Outgoing, Ring};
use crate::owned::Owned;

impl Ring {
    /// Receives once on a link: into a provided buffer, of which there may be none left
    /// (`ENOBUFS`), or where there are none and if it `brings` that, into memory of its own.
    pub fn receive_on(&mut self, link: &Arc<Owned>, brings: bool, token: u64) {
        let fd = Fd(link.as_raw_fd());
        let brings = brings || self.buffers.is_none();
        let mut buffer = brings.then(|| self.own_buffer());
        let entry = match &mut buffer {
            Some(memory) => opcode::Recv::new(fd, memory.as_mut_ptr(), memory.len() as u32).build(),
            None => {
                let entry = opcode::Recv::new(fd, std::ptr::null_mut(), 0);
                entry.buf_group(GROUP).build().flags(Flags::BUFFER_SELECT)
            }
        };
        self.start(entry, token, Held::LinkReceive { _link: Arc::clone(link), buffer });
    }

    /// Sends on a link; what there is no room for at once is not sent.
    pub fn send_on(&mut self, link: &Arc<Owned>, mut outgoing: Box<Outgoing>, token: u64) {
        (outgoing.token, outgoing.closes) = (token, false);
        let (fd, flags) = (Fd(link.as_raw_fd()), libc::MSG_NOSIGNAL);
        let entry = match outgoing.view() {
            View::One(start, len) => opcode::Send::new(fd, start, len).flags(flags).build(),
            View::Many(message) => opcode::SendMsg::new(fd, message).flags(flags as u32).build(),
        };
        self.start(entry, token, Held::LinkSend { _link: Arc::clone(link), outgoing });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::super::tests::one;
    use super::super::{Completion, Features, Mode, RECEIVE_BYTES, is_out_of_buffers, is_undone};
    use super::*;

    /// A ring, one with `buffers` provided buffers if there are any, and both ends of a link.
    fn linked(buffers: Option<u16>) -> (Ring, Arc<Owned>, UnixStream) {
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        if let Some(buffers) = buffers {
            assert!(ring.enable(Features::ALL, buffers, 16).provided);
        }
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (ring, Arc::new(Owned::from(near)), far)
    }

    fn heard(ring: &mut Ring) -> Vec<u8> {
        let (7, Completion::Received(Ok(received), false)) = one(ring) else { panic!() };
        let bytes = ring.bytes(&received).to_vec();
        ring.recycle(received);
        bytes
    }

    #[test]
    fn a_link_that_does_not_block_is_received_from_when_something_comes_and_at_its_end() {
        for (buffers, brings) in [(Some(1), false), (Some(1), true), (None, false)] {
            let (mut ring, near, mut far) = linked(buffers);
            ring.receive_on(&near, brings, 7);
            let mut completions = Vec::new();
            ring.wait(&mut completions, 10).unwrap();
            assert!(completions.is_empty(), "nothing has come: {completions:?}");
            far.write_all(b"answer").unwrap();
            assert_eq!(heard(&mut ring), b"answer");
            ring.receive_on(&near, brings, 7);
            drop(far);
            assert_eq!(heard(&mut ring), b"");
        }
    }

    #[test]
    fn a_buffer_that_is_not_given_back_is_missed() {
        let (mut ring, near, mut far) = linked(Some(1));
        far.write_all(&[b'x'; RECEIVE_BYTES + 5]).unwrap();
        ring.receive_on(&near, false, 7);
        let (7, Completion::Received(Ok(first), false)) = one(&mut ring) else { panic!() };
        assert_eq!(ring.bytes(&first).len(), RECEIVE_BYTES);
        ring.receive_on(&near, false, 7);
        let (7, Completion::Received(Err(error), false)) = one(&mut ring) else { panic!() };
        assert!(is_out_of_buffers(&error), "{error}");
        ring.receive_on(&near, true, 7);
        assert_eq!(heard(&mut ring), b"xxxxx");
        ring.recycle(first);
        ring.receive_on(&near, false, 7);
        far.write_all(b"y").unwrap();
        assert_eq!(heard(&mut ring), b"y");
    }

    #[test]
    fn an_operation_holds_its_link_until_it_is_complete_or_cancelled() {
        let (mut ring, near, mut far) = linked(Some(1));
        far.set_read_timeout(Some(std::time::Duration::from_millis(10))).unwrap();
        ring.receive_on(&near, false, 7);
        ring.submit().unwrap();
        drop(near);
        assert!(far.read(&mut [0]).is_err(), "it is open");
        ring.cancel(7);
        let (7, Completion::Received(Err(error), false)) = one(&mut ring) else { panic!() };
        assert!(is_undone(&error), "{error}");
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn what_there_is_no_room_for_is_sent_when_there_is_some() {
        let (mut ring, near, mut far) = linked(None);
        // Elsewhere a wait for room ends with that.
        far.shutdown(std::net::Shutdown::Write).unwrap();
        let long = bytes::Bytes::from(vec![b'x'; 16 << 20]);
        let mut outgoing = ring.outgoing();
        outgoing.copy(b"ask");
        outgoing.share(&long);
        ring.send_on(&near, outgoing, 8);
        let (8, Completion::Sent(outgoing, Ok(sent), false)) = one(&mut ring) else { panic!() };
        assert!(sent < outgoing.len(), "both ends hold so much");
        ring.keep_outgoing(outgoing);
        let mut next = ring.outgoing();
        next.copy(b"?");
        ring.send_on(&near, next, 8);
        let mut completions = Vec::new();
        ring.wait(&mut completions, 10).unwrap();
        assert!(completions.is_empty(), "there is no room: {completions:?}");
        far.read_exact(&mut vec![0; sent]).unwrap();
        let (8, Completion::Sent(_, Ok(1), false)) = one(&mut ring) else { panic!() };
    }
}
