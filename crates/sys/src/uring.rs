//! A completion ring (io_uring): operations are started, and their completions collected.
//!
//! Everything that the kernel reads or writes while an operation is under way (descriptors,
//! buffers, paths) is owned by the ring until the completion gives it back.

mod buffers;
mod completions;
mod features;
mod files;
mod links;
mod outgoing;
mod registered;
mod restrictions;
mod sockets;

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, OpenHow, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use rustix::fs::Statx;

use crate::descriptors::Descriptor;
use crate::owned::Owned;
use crate::readiness::Interest;

pub use buffers::RECEIVE_BYTES;
use buffers::{Buffers, Place};
pub use completions::Completion;
use completions::{Kind, complete, complete_unheld};
pub use features::{Features, defers};
pub use outgoing::{COPIED_BYTES_MAX, Outgoing};
use registered::Chunks;
pub use registered::{CHUNK_BYTES_MAX, Lent};
pub use sockets::{Socket, Then, is_out_of_buffers, is_undone};

/// When the kernel works on completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When this thread enters the kernel to wait for them: it is never interrupted, and many are
    /// worked on in one go.
    Deferred,
    /// As they come, by interrupting this thread: they can be [peeked](Ring::peek) at without a
    /// system call.
    Immediate,
}

/// Bytes that were received: [`Ring::bytes`] shows them, and [`Ring::recycle`] must take them back.
#[derive(Debug)]
pub struct Received {
    place: Place,
    len: usize,
}

/// What an operation under way needs to stay where it is.
enum Held {
    Connect { _listener: Arc<OwnedFd>, direct: bool },
    Receive { buffer: Vec<u8> },
    Send { outgoing: Box<Outgoing> },
    LinkReceive { _link: Arc<Owned>, buffer: Option<Vec<u8>> },
    LinkSend { _link: Arc<Owned>, outgoing: Box<Outgoing> },
    Open { _root: Arc<OwnedFd>, _path: CString, _how: Box<OpenHow> },
    Stat { _file: Arc<Descriptor>, statx: Box<MaybeUninit<Statx>> },
    Read { _file: Arc<Descriptor>, buffer: Vec<u8> },
    Piece { _file: Arc<Descriptor>, lent: Lent },
    Watch,
    Poll { _socket: Arc<Owned> },
    Events { _socket: Arc<Owned> },
}

struct Flight {
    token: u64,
    held: Held,
}

/// The mark of an entry whose completion nobody waits for: no flight has so high a number.
const NOBODY: u64 = u64::MAX;

/// Completions that one wait takes at least, if so many are there.
const HANDED_OVER_MIN: usize = 16;

/// Times that the kernel is asked for all that is complete: more may come meanwhile.
const GATHERINGS_MAX: usize = 4_096;

/// Times that the kernel is asked to take entries from a full queue before the ring gives up.
const SUBMITS_MAX: u32 = 1_000;

/// A ring for one thread.
pub struct Ring {
    ring: IoUring,
    /// Completions that had to be collected before anybody asked for them.
    early: Vec<(u64, Completion)>,
    /// The error code with which an operation could not be started: the ring is of no use then.
    failed: Option<i32>,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// Where those are among them that tell of events, by their tokens.
    polled: HashMap<u64, u32>,
    features: Features,
    buffers: Option<Buffers>,
    chunks: Option<Chunks>,
    spare_buffers: Vec<Vec<u8>>,
    spare_pieces: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "it is used where it is, and must not move")]
    spare_outgoing: Vec<Box<Outgoing>>,
    /// The paces that sockets were given, where the kernel reads them.
    paces: Vec<&'static u64>,
    /// The same, of bytes that may wait to be sent.
    unsent: Vec<&'static i32>,
}

impl Ring {
    /// Whether a ring can be made here.
    ///
    /// # Errors
    /// Why it cannot: `ENOSYS` on old kernels, `EPERM` where it is forbidden, or a missing
    /// operation.
    pub fn probe() -> io::Result<()> {
        let ring = IoUring::new(8)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Accept::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::Read::CODE,
            opcode::OpenAt2::CODE,
            opcode::Statx::CODE,
            // Came with multishot accept, which has no code of its own.
            opcode::Socket::CODE,
        ];
        match needed.iter().all(|code| probe.is_supported(*code)) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "an operation is missing")),
        }
    }

    /// Makes a ring with room for `entries` submissions between two waits.
    ///
    /// # Errors
    /// As [`Ring::probe`].
    pub fn new(entries: u32, mode: Mode) -> io::Result<Ring> {
        Ring::build(entries, mode, false)
    }

    /// As [`Ring::new`]; the ring takes only the operations that this crate starts: the others fail
    /// with EACCES, whoever submits them.
    ///
    /// # Errors
    /// As [`Ring::probe_restrictions`].
    pub fn restricted(entries: u32, mode: Mode) -> io::Result<Ring> {
        Ring::build(entries, mode, true)
    }

    fn build(entries: u32, mode: Mode, restricted: bool) -> io::Result<Ring> {
        let plain = || {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(entries.saturating_mul(4));
            if restricted {
                builder.setup_r_disabled();
            }
            builder
        };
        let mut builder = plain();
        builder.setup_single_issuer();
        if mode == Mode::Deferred {
            builder.setup_defer_taskrun();
        }
        let ring = builder.build(entries).or_else(|_| plain().build(entries))?;
        if restricted {
            restrictions::apply(&ring)?;
        }
        Ok(Ring {
            ring,
            early: Vec::new(),
            failed: None,
            flights: Vec::new(),
            free: Vec::new(),
            polled: HashMap::new(),
            features: Features::NONE,
            buffers: None,
            chunks: None,
            spare_buffers: Vec::new(),
            spare_pieces: Vec::new(),
            spare_outgoing: Vec::new(),
            paces: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// Watches a descriptor: completes each time it becomes readable, until it says otherwise.
    ///
    /// # Errors
    /// When the ring cannot take the submission.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = libc::POLLIN as u32;
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), flags).multi(true).build();
        self.start(entry, token, Held::Watch);
        Ok(())
    }

    /// Waits once for a socket to be ready for what `interest` says.
    pub fn poll(&mut self, socket: Arc<Owned>, token: u64, interest: Interest) {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), flags(interest)).build();
        self.start(entry, token, Held::Poll { _socket: socket });
    }

    /// Waits for room in a socket whose client has closed its side: completes each time that there
    /// may be some, until it is cancelled. A poll that completes once does so at once there, room
    /// or not: the kernel adds that end to what every poll waits for (IO_POLL_UNMASK).
    pub fn poll_room(&mut self, socket: Arc<Owned>, token: u64) {
        let flags = libc::POLLOUT as u32;
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), flags).multi(true).build();
        self.start(entry, token, Held::Poll { _socket: socket });
    }

    /// Tells of each change of a socket, as an event mechanism by edges does, until that is stopped
    /// or says otherwise. What is told may be true no more when it is looked at.
    pub fn poll_events(&mut self, socket: Arc<Owned>, token: u64, interest: Interest) {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), flags(interest)).multi(true);
        let index = self.start(entry.build(), token, Held::Events { _socket: socket });
        self.polled.insert(token, index);
    }

    /// Tells no more of the socket of this token; that completes once more.
    pub fn stop_events(&mut self, token: u64) {
        let Some(index) = self.polled.remove(&token) else { return };
        let flight = self.flights[index as usize].as_ref();
        let is_same = |one: &Flight| matches!(one.held, Held::Events { .. }) && one.token == token;
        if flight.is_some_and(is_same) {
            let entry = opcode::AsyncCancel::new(u64::from(index)).build();
            self.push(&entry.user_data(NOBODY));
        }
    }

    /// Ends what was started with this token: each operation completes once more.
    pub fn cancel(&mut self, token: u64) {
        for index in 0..self.flights.len() {
            if self.flights[index].as_ref().is_some_and(|flight| flight.token == token) {
                let entry = opcode::AsyncCancel::new(index as u64).build();
                self.push(&entry.user_data(NOBODY));
            }
        }
    }

    fn start(&mut self, entry: Entry, token: u64, held: Held) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            (self.flights.len() - 1) as u32
        });
        self.flights[index as usize] = Some(Flight { token, held });
        self.push(&entry.user_data(u64::from(index)));
        index
    }

    /// Starts an operation that names no memory.
    fn start_unheld(&mut self, entry: Entry, kind: Kind, token: u64) {
        self.push(&entry.user_data(kind.with(token)));
    }

    /// Puts an entry into the queue. If the kernel takes none from a full one, the entry is not
    /// started, and the next [`Ring::submit`] or [`Ring::wait`] says why.
    fn push(&mut self, entry: &Entry) {
        for _ in 0..SUBMITS_MAX {
            // SAFETY: every pointer in `entry` leads into memory on the heap that a `Held` owns (or
            // to a static string), and that stays in `flights` until the last completion; the
            // descriptors are the ring's, or held there too, or kept open by the caller of `watch`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if is_transient(&error) => self.collect_early(),
                Err(error) => return self.fail(&error),
            }
        }
        self.fail(&io::Error::from_raw_os_error(libc::EBUSY));
    }

    /// Makes room among the completions, without which the kernel may take nothing.
    fn collect_early(&mut self) {
        let mut early = std::mem::take(&mut self.early);
        self.peek(&mut early);
        self.early = early;
        std::thread::yield_now();
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = Some(error.raw_os_error().unwrap_or(libc::EIO));
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    /// Sees to it that so many entries can be submitted together; false when they cannot.
    fn make_room(&mut self, entries: usize) -> bool {
        let has_room = |ring: &mut IoUring| {
            let queue = ring.submission();
            queue.capacity() - queue.len() >= entries
        };
        if self.ring.submission().capacity() < entries {
            return false;
        }
        // What it refuses now is started without a link.
        has_room(&mut self.ring) || self.ring.submit().is_ok() && has_room(&mut self.ring)
    }

    /// Submits what was started, waits at most `timeout_ms` for a completion, and appends all that
    /// are there to `completions`, with the tokens that they were started with. Blocks.
    ///
    /// # Errors
    /// When the kernel refuses, now or when something was started; a time-out or a signal is none.
    pub fn wait(
        &mut self,
        completions: &mut Vec<(u64, Completion)>,
        timeout_ms: u64,
    ) -> io::Result<()> {
        let limit =
            Timespec::new().sec(timeout_ms / 1000).nsec((timeout_ms % 1000 * 1_000_000) as u32);
        let args = SubmitArgs::new().timespec(&limit);
        self.check()?;
        let wanted = usize::from(self.early.is_empty());
        match self.ring.submitter().submit_with_args(wanted, &args) {
            Err(error) if !is_transient(&error) && error.raw_os_error() != Some(libc::ETIME) => {
                return Err(error);
            }
            _ => {}
        }
        self.peek(completions);
        Ok(())
    }

    /// Appends all that is complete by now, and does not wait: one [`Ring::wait`] takes a part.
    ///
    /// # Errors
    /// As [`Ring::wait`].
    pub fn gather(&mut self, completions: &mut Vec<(u64, Completion)>) -> io::Result<()> {
        for _ in 0..GATHERINGS_MAX {
            let before = completions.len();
            self.wait(completions, 0)?;
            // The kernel stops at 20 (Linux 6.13).
            if completions.len() < before + HANDED_OVER_MIN {
                break;
            }
        }
        Ok(())
    }

    /// Appends the completions that are in the ring to `completions`, without a system call. Those
    /// for which the ring had no room come after the next [`Ring::submit`] or [`Ring::wait`].
    pub fn peek(&mut self, completions: &mut Vec<(u64, Completion)>) {
        let Ring { ring, flights, free, buffers, early, .. } = self;
        completions.append(early);
        for entry in ring.completion() {
            match Kind::of(entry.user_data()) {
                None => complete(flights, free, buffers.as_mut(), &entry, completions),
                Some(kind) => complete_unheld(kind, buffers.as_mut(), &entry, completions),
            }
        }
    }

    /// Submits what was started; makes no system call when nothing was. Never waits.
    ///
    /// # Errors
    /// When the kernel refuses, now or when something was started; a signal or a full completion
    /// ring is no error: what is left is submitted the next time.
    pub fn submit(&mut self) -> io::Result<()> {
        self.check()?;
        let queue = self.ring.submission();
        if queue.is_empty() && !queue.cq_overflow() {
            return Ok(());
        }
        drop(queue);
        match self.ring.submit() {
            Err(error) if !is_transient(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn flags(interest: Interest) -> u32 {
    let flag = |wanted, flag: libc::c_short| if wanted { flag as u32 } else { 0 };
    flag(interest.read, libc::POLLIN) | flag(interest.write, libc::POLLOUT)
}

/// True when the kernel may take the same submission later.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

impl Drop for Ring {
    /// Closing the ring ends what is under way only some time later: the memory that the kernel may
    /// still write to is never given back.
    fn drop(&mut self) {
        for flight in self.flights.drain(..).flatten() {
            std::mem::forget(flight);
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let under_way = self.flights.iter().flatten().count();
        f.debug_struct("Ring").field("under_way", &under_way).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Done, Op};
    use crate::file;
    use crate::net::{self, ListenOptions};
    use bytes::Bytes;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::fd::AsFd;

    pub(super) fn one(ring: &mut Ring) -> (u64, Completion) {
        let mut completions = Vec::new();
        while completions.is_empty() {
            ring.wait(&mut completions, 1000).unwrap();
        }
        assert_eq!(completions.len(), 1, "{completions:?}");
        completions.remove(0)
    }

    #[test]
    fn connections_are_accepted_received_from_sent_to_and_closed() {
        Ring::probe().unwrap();
        serves_one(Features::ALL);
        serves_one(Features { direct: false, ..Features::ALL });
        serves_one(Features { multishot: false, ..Features::ALL });
        serves_one(Features::NONE);
    }

    /// A client, and the socket that the ring has accepted from it; the accept goes on.
    fn connected(ring: &mut Ring) -> (TcpStream, Socket) {
        let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        net::set_nonblocking(&listener, false).unwrap();
        net::listen(&listener, 8, &ListenOptions::default()).unwrap();
        let listener = Arc::new(listener);
        ring.accept_socket(&listener, 1, true);
        let client = TcpStream::connect(net::local_address(&listener).unwrap()).unwrap();
        let (1, Completion::Connected(Ok(socket), true)) = one(ring) else { panic!() };
        (client, socket)
    }

    #[test]
    fn a_socket_of_either_kind_is_reset_when_that_was_asked_for() {
        for wanted in [Features::ALL, Features::NONE] {
            let mut ring = Ring::new(8, Mode::Deferred).unwrap();
            ring.enable(wanted, 4, 16);
            let (mut client, socket) = connected(&mut ring);
            ring.reset_on_close(&socket);
            ring.close(socket);
            ring.submit().unwrap();
            let error = client.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{wanted:?}");
        }
    }

    fn serves_one(wanted: Features) {
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        let features = ring.enable(wanted, 4, 16);
        let (mut client, socket) = connected(&mut ring);
        client.write_all(b"ask").unwrap();
        assert_eq!(ring.receive(&socket, 2, true, false), features.multishot);
        let (2, Completion::Received(Ok(received), more)) = one(&mut ring) else { panic!() };
        assert_eq!((ring.bytes(&received), more), (&b"ask"[..], features.multishot));
        ring.recycle(received);
        if more {
            ring.stop_receiving(2);
            let (2, Completion::Received(Err(_), false)) = one(&mut ring) else { panic!() };
        }
        let asked = ring.unacknowledged(&socket, 3);
        assert_eq!(asked.is_none(), features.direct);
        if features.direct {
            let (3, Completion::Unacknowledged(0)) = one(&mut ring) else { panic!() };
        }
        let body = Bytes::from(vec![b'x'; COPIED_BYTES_MAX + 1]);
        let mut outgoing = ring.outgoing();
        outgoing.copy(b"answer");
        outgoing.share(&body);
        let len = outgoing.len();
        ring.send(&socket, outgoing, 4, Then::Close);
        let (4, Completion::Sent(outgoing, Ok(sent), closed)) = one(&mut ring) else { panic!() };
        assert_eq!((sent, closed), (len, features.linked));
        ring.keep_outgoing(outgoing);
        if !closed {
            ring.close(socket);
            ring.submit().unwrap();
        }
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [b"answer", &body[..]].concat());
        ring.cancel(1);
        let (1, Completion::Connected(Err(_), false)) = one(&mut ring) else { panic!() };
    }

    /// The socket cannot be named to cancel such a send: its number may be another connection's.
    #[test]
    fn a_send_that_closes_is_cancelled_by_itself_and_then_has_not_closed() {
        for wanted in [Features::ALL, Features { direct: false, ..Features::ALL }] {
            let mut ring = Ring::new(8, Mode::Deferred).unwrap();
            let features = ring.enable(wanted, 4, 16);
            let (mut client, socket) = connected(&mut ring);
            // More than both ends hold.
            let body = Bytes::from(vec![b'x'; 64 << 20]);
            let mut outgoing = ring.outgoing();
            outgoing.share(&body);
            assert_eq!(ring.send(&socket, outgoing, 4, Then::Close), features.linked);
            ring.submit().unwrap();
            ring.cancel(5);
            let mut completions = Vec::new();
            ring.wait(&mut completions, 10).unwrap();
            assert!(completions.is_empty(), "{wanted:?}: that was another: {completions:?}");
            ring.cancel(4);
            let (4, Completion::Sent(_, sent, false)) = one(&mut ring) else { panic!() };
            assert!(sent.is_err() || sent.is_ok_and(|sent| sent < body.len()), "{wanted:?}");
            ring.close(socket);
            ring.submit().unwrap();
            let _ = client.read_to_end(&mut Vec::new());
        }
    }

    #[test]
    fn a_ring_holds_more_operations_than_its_queue_has_entries() {
        let mut ring = Ring::new(2, Mode::Deferred).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = Arc::new(Descriptor::from(file::open_root(dir.path()).unwrap()));
        for token in 0..20 {
            ring.disk(Op::Stat { file: Arc::clone(&root) }, token);
        }
        let mut completions = Vec::new();
        while completions.len() < 20 {
            ring.wait(&mut completions, 1000).unwrap();
        }
    }

    #[test]
    fn a_ring_whose_submissions_the_kernel_refuses_ends_with_an_error_instead_of_a_loop() {
        let mut ring = Ring::new(2, Mode::Deferred).unwrap();
        let root = Arc::new(Descriptor::from(file::open_root(std::path::Path::new("/")).unwrap()));
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: both are open; the ring's number now means a file that is no ring.
        let changed = unsafe { libc::dup3(null.as_raw_fd(), ring.ring.as_raw_fd(), 0) };
        assert_eq!(changed, ring.ring.as_raw_fd());
        for token in 0..3 {
            ring.disk(Op::Stat { file: Arc::clone(&root) }, token);
        }
        let error = ring.submit().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(ring.wait(&mut Vec::new(), 10_000).is_err());
    }

    #[test]
    fn completions_that_were_collected_early_are_given_at_the_next_wait_without_waiting() {
        let mut ring = Ring::new(2, Mode::Immediate).unwrap();
        let root = Arc::new(Descriptor::from(file::open_root(std::path::Path::new("/")).unwrap()));
        ring.disk(Op::Stat { file: root }, 7);
        ring.ring.submit_and_wait(1).unwrap();
        ring.collect_early();
        let (mut completions, began) = (Vec::new(), std::time::Instant::now());
        ring.wait(&mut completions, 60_000).unwrap();
        assert!(began.elapsed() < std::time::Duration::from_secs(30));
        assert!(matches!(completions[..], [(7, Completion::Disk(Done::Stamped(Ok(_))))]));
    }

    #[test]
    fn a_queue_that_holds_no_link_leaves_closing_to_whoever_sends() {
        let mut ring = Ring::new(1, Mode::Deferred).unwrap();
        ring.enable(Features { direct: false, ..Features::ALL }, 4, 16);
        let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        net::listen(&listener, 8, &ListenOptions::default()).unwrap();
        let listener = Arc::new(listener);
        ring.accept_socket(&listener, 1, false);
        let mut client = TcpStream::connect(net::local_address(&listener).unwrap()).unwrap();
        let (1, Completion::Connected(Ok(socket), false)) = one(&mut ring) else { panic!() };
        let mut outgoing = ring.outgoing();
        outgoing.copy(b"answer");
        ring.send(&socket, outgoing, 2, Then::Close);
        let (2, Completion::Sent(_, Ok(6), false)) = one(&mut ring) else { panic!() };
        ring.close(socket);
        ring.submit().unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"answer");
    }

    #[test]
    fn a_watch_that_is_cancelled_completes_once_more() {
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        let (_client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        let server = OwnedFd::from(server);
        ring.watch(server.as_fd(), 1).unwrap();
        ring.watch(server.as_fd(), 2).unwrap();
        ring.submit().unwrap();
        ring.cancel(1);
        let (1, Completion::Readable(false)) = one(&mut ring) else { panic!() };
        ring.cancel(1);
        let mut completions = Vec::new();
        ring.wait(&mut completions, 10).unwrap();
        assert!(completions.is_empty(), "the other goes on: {completions:?}");
    }

    #[test]
    fn an_immediate_ring_shows_completions_without_being_waited_on() {
        let mut ring = Ring::new(8, Mode::Immediate).unwrap();
        let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        let server = Arc::new(Owned::from(server));
        ring.poll(Arc::clone(&server), 1, Interest::WRITE);
        ring.poll(Arc::clone(&server), 2, Interest::READ);
        ring.submit().unwrap();
        let mut completions = Vec::new();
        let peek_one = |ring: &mut Ring, completions: &mut Vec<_>| {
            let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while completions.is_empty() && std::time::Instant::now() < end {
                ring.peek(completions);
            }
            completions.pop()
        };
        let Some((1, Completion::Ready(Ok(Interest::WRITE), false))) =
            peek_one(&mut ring, &mut completions)
        else {
            panic!()
        };
        ring.peek(&mut completions);
        assert!(completions.is_empty(), "nothing was sent yet: {completions:?}");
        client.write_all(b"x").unwrap();
        let Some((2, Completion::Ready(Ok(Interest::READ), false))) =
            peek_one(&mut ring, &mut completions)
        else {
            panic!()
        };
    }
}
