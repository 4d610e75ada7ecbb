//! A simulated ring: operations complete late, in any order and in parts, and the memory that the
//! kernel uses is poisoned as soon as it is given back.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::{Done, Op};
use flyball_sys::file;
use flyball_sys::net::Address;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{Event, Interest};
use flyball_sys::uring as machine;
pub(crate) use flyball_sys::uring::{Features, Mode, Then, defers, is_out_of_buffers, is_undone};

use super::world::{Source, World, with};

/// What memory is filled with that was given back.
const POISON: u8 = 0xdb;

/// Bytes of a buffer for input.
pub(crate) const RECEIVE_BYTES: usize = 512;

/// Buffers that the kernel takes from when input comes.
const PROVIDED: usize = 2;

const ECANCELED: i32 = 125;
const ENOBUFS: i32 = 105;

/// A completed operation; see [`machine::Completion`].
#[derive(Debug)]
pub(crate) enum Completion {
    Connected(io::Result<Socket>, bool),
    Received(io::Result<Received>, bool),
    Sent(Box<Outgoing>, io::Result<usize>, bool),
    Unacknowledged(u64),
    Disk(Done),
    Piece(Lent, io::Result<usize>),
    Readable(bool),
    Installed(io::Result<Owned>),
    Writable(bool, bool),
    Shut,
    Ready(io::Result<Interest>, bool),
    Event(io::Result<Event>, bool),
}

/// A connection that a ring owns.
#[derive(Debug)]
pub(crate) struct Socket {
    near: Arc<OwnedFd>,
    direct: bool,
}

impl Socket {
    pub(crate) fn plain(&self) -> Option<BorrowedFd<'_>> {
        (!self.direct).then(|| self.near.as_fd())
    }
}

/// Memory of a ring, by its number.
#[derive(Debug)]
pub(crate) struct Lent {
    number: usize,
    len: usize,
}

/// Bytes that were received.
#[derive(Debug)]
pub(crate) struct Received {
    lent: Lent,
    is_provided: bool,
}

/// What one send carries.
#[derive(Debug, Default)]
pub(crate) struct Outgoing(Vec<Part>);

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    Piece(Lent, Range<usize>),
    Owned(Vec<u8>, Range<usize>),
}

impl Outgoing {
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.0.push(Part::Bytes(bytes.to_vec()));
    }

    pub(crate) fn share(&mut self, bytes: &impl AsRef<[u8]>) {
        self.copy(bytes.as_ref());
    }

    pub(crate) fn piece(&mut self, buffer: Lent, range: Range<usize>) {
        self.0.push(Part::Piece(buffer, range));
    }

    pub(crate) fn take_piece(&mut self) -> Option<(Lent, Range<usize>)> {
        match self.0.pop_if(|part| matches!(part, Part::Piece(..)))? {
            Part::Piece(buffer, range) => Some((buffer, range)),
            _ => None,
        }
    }

    pub(crate) fn own(&mut self, memory: Vec<u8>, range: Range<usize>) {
        self.0.push(Part::Owned(memory, range));
    }

    pub(crate) fn take_owned(&mut self) -> Option<Vec<u8>> {
        match self.0.pop_if(|part| matches!(part, Part::Owned(..)))? {
            Part::Owned(memory, _) => Some(memory),
            _ => None,
        }
    }

    /// Its bytes are given back.
    fn poison(&mut self) {
        for part in &mut self.0 {
            if let Part::Bytes(bytes) = part {
                bytes.fill(POISON);
            }
        }
    }

    /// The bytes of what is no piece.
    fn bytes(&self) -> Vec<u8> {
        let bytes = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.clone(),
            Part::Owned(memory, range) => memory[range.clone()].to_vec(),
            Part::Piece(..) => Vec::new(),
        };
        self.0.iter().flat_map(bytes).collect()
    }

    pub(crate) fn len(&self) -> usize {
        let len = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Piece(_, range) | Part::Owned(_, range) => range.len(),
        };
        self.0.iter().map(len).sum()
    }
}

/// An operation that is under way.
#[derive(Debug)]
enum Doing {
    Accept {
        again: bool,
    },
    Receive {
        near: Arc<OwnedFd>,
        again: bool,
        own: bool,
    },
    Send {
        near: Option<Arc<OwnedFd>>,
        outgoing: Box<Outgoing>,
        sent: usize,
        closes: bool,
    },
    /// The same on a link, which it holds.
    LinkReceive {
        link: Arc<Owned>,
        own: bool,
    },
    LinkSend {
        link: Arc<Owned>,
        outgoing: Box<Outgoing>,
    },
    Disk(Op),
    Read {
        file: Arc<Descriptor>,
        lent: Lent,
        start: u64,
    },
    /// A descriptor, and how often it had woken when it was told last.
    Watch(RawFd, Option<u64>),
    /// One that completes again and again does so when its socket wakes.
    Poll {
        socket: Arc<Owned>,
        interest: Interest,
        again: bool,
        told: Option<u64>,
    },
    Events {
        socket: Arc<Owned>,
        token: u64,
        interest: Interest,
        told: Option<u64>,
    },
    Room {
        near: Arc<OwnedFd>,
        again: bool,
        told: Option<u64>,
    },
    Tell(Completion),
}

#[derive(Debug)]
struct Flight {
    token: u64,
    doing: Doing,
    is_cancelled: bool,
}

/// A ring.
#[derive(Debug)]
pub(crate) struct Ring {
    features: Features,
    flights: Vec<Flight>,
    /// All memory that was ever lent.
    memory: Vec<Vec<u8>>,
    free: Vec<usize>,
    /// Buffers that the kernel may take when input comes.
    provided: usize,
    /// Descriptors of sockets, by their numbers, until they are closed.
    open: HashMap<RawFd, Arc<OwnedFd>>,
}

impl Ring {
    pub(crate) fn probe() -> io::Result<()> {
        machine::Ring::probe()
    }

    pub(crate) fn new(_: u32, _: Mode) -> io::Result<Ring> {
        Ok(Ring {
            features: Features::NONE,
            flights: Vec::new(),
            memory: Vec::new(),
            free: Vec::new(),
            provided: PROVIDED,
            open: HashMap::new(),
        })
    }

    pub(crate) fn restricted(entries: u32, mode: Mode) -> io::Result<Ring> {
        Ring::new(entries, mode)
    }

    pub(crate) fn enable(&mut self, wanted: Features, _: u16, _: u32) -> Features {
        let one = |wanted| wanted && with(|world| world.random.one_in(2)) == Some(true);
        let provided = one(wanted.provided);
        self.features = Features {
            provided,
            multishot: provided && one(wanted.multishot),
            direct: one(wanted.direct),
            linked: one(wanted.linked),
            installs: one(wanted.installs),
            registered: false,
        };
        self.features
    }

    pub(crate) fn register_chunks(&mut self, _: u16, _: usize) {}

    fn start(&mut self, token: u64, doing: Doing) {
        with(World::called);
        self.flights.push(Flight { token, doing, is_cancelled: false });
    }

    pub(crate) fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.start(token, Doing::Watch(fd.as_raw_fd(), None));
        Ok(())
    }

    pub(crate) fn poll(&mut self, socket: Arc<Owned>, token: u64, interest: Interest) {
        self.start_poll(socket, token, interest, false);
    }

    pub(crate) fn poll_room(&mut self, socket: Arc<Owned>, token: u64) {
        self.start_poll(socket, token, Interest::WRITE, true);
    }

    pub(crate) fn poll_events(&mut self, socket: Arc<Owned>, token: u64, interest: Interest) {
        self.start(token, Doing::Events { socket, token, interest, told: None });
    }

    pub(crate) fn stop_events(&mut self, token: u64) {
        self.cancel_all(|flight| {
            flight.token == token && matches!(flight.doing, Doing::Events { .. })
        });
    }

    fn start_poll(&mut self, socket: Arc<Owned>, token: u64, interest: Interest, again: bool) {
        self.start(token, Doing::Poll { socket, interest, again, told: None });
    }

    pub(crate) fn cancel(&mut self, token: u64) {
        self.cancel_all(|flight| {
            let is_held = match &flight.doing {
                Doing::Receive { own, .. } => *own,
                doing => !matches!(doing, Doing::Room { .. } | Doing::Tell(_)),
            };
            is_held && flight.token == token
        });
    }

    fn cancel_all(&mut self, which: impl Fn(&Flight) -> bool) {
        for flight in self.flights.iter_mut().filter(|flight| which(flight)) {
            flight.is_cancelled = true;
        }
    }

    pub(crate) fn accept_socket(&mut self, _: &Arc<OwnedFd>, token: u64, again: bool) {
        self.start(token, Doing::Accept { again });
    }

    pub(crate) fn peer_address(&self, _: &Socket) -> io::Result<Address> {
        Ok(flyball_sys::net::no_address())
    }

    pub(crate) fn receive(&mut self, socket: &Socket, token: u64, again: bool, own: bool) -> bool {
        let own = own || !self.features.provided;
        let again = again && !own && self.features.multishot;
        self.start(token, Doing::Receive { near: Arc::clone(&socket.near), again, own });
        again
    }

    pub(crate) fn stop_receiving(&mut self, token: u64) {
        self.cancel_all(|flight| {
            let is_receive = matches!(flight.doing, Doing::Receive { own: false, .. });
            is_receive && flight.token == token
        });
    }

    pub(crate) fn bytes(&self, received: &Received) -> &[u8] {
        &self.memory[received.lent.number][..received.lent.len]
    }

    pub(crate) fn lent<'a>(&'a self, lent: &'a Lent) -> &'a [u8] {
        &self.memory[lent.number][..lent.len]
    }

    pub(crate) fn recycle(&mut self, received: Received) {
        self.provided += usize::from(received.is_provided);
        self.take_back(received.lent);
    }

    pub(crate) fn outgoing(&mut self) -> Box<Outgoing> {
        Box::default()
    }

    pub(crate) fn keep_outgoing(&mut self, _: Box<Outgoing>) {}

    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        outgoing: Box<Outgoing>,
        token: u64,
        then: Then,
    ) -> bool {
        let closes = then == Then::Close && self.features.linked;
        let is_early = with(|world| world.fault.gives_back_early(&mut world.random)) == Some(true);
        if let Some(Part::Piece(lent, _)) = outgoing.0.last().filter(|_| is_early) {
            self.give_back(lent.number);
        }
        let near = Some(Arc::clone(&socket.near));
        self.start(token, Doing::Send { near, outgoing, sent: 0, closes });
        closes
    }

    pub(crate) fn receive_on(&mut self, link: &Arc<Owned>, brings: bool, token: u64) {
        let own = brings || !self.features.provided;
        self.start(token, Doing::LinkReceive { link: Arc::clone(link), own });
    }

    pub(crate) fn send_on(&mut self, link: &Arc<Owned>, mut outgoing: Box<Outgoing>, token: u64) {
        if with(|world| world.fault.gives_link_back_early(&mut world.random)) == Some(true) {
            outgoing.poison();
        }
        self.start(token, Doing::LinkSend { link: Arc::clone(link), outgoing });
    }

    pub(crate) fn shut_write(&mut self, socket: &Socket, token: u64) -> bool {
        drop(super::kernel::net::shutdown_write(&*socket.near));
        if socket.direct {
            self.start(token, Doing::Tell(Completion::Shut));
        }
        socket.direct
    }

    pub(crate) fn acknowledge(&mut self, socket: &Socket) {
        drop(super::kernel::net::acknowledge(&*socket.near));
    }

    pub(crate) fn set_pacing(&mut self, socket: &Socket, bytes_per_s: u64) {
        drop(super::kernel::net::set_pacing(&*socket.near, bytes_per_s));
    }

    pub(crate) fn set_unsent(&mut self, socket: &Socket, bytes: u32) {
        drop(super::kernel::net::set_unsent(&*socket.near, bytes));
    }

    pub(crate) fn stop(&mut self, token: u64) {
        self.stop_receiving(token);
        self.stop_waiting_for_room(token);
        self.cancel(token);
    }

    pub(crate) fn stop_waiting_for_room(&mut self, token: u64) {
        self.cancel_all(|flight| {
            flight.token == token && matches!(flight.doing, Doing::Room { .. })
        });
    }

    pub(crate) fn interrupt(&mut self, socket: &Socket) {
        if !socket.direct {
            drop(super::kernel::net::shutdown_write(&*socket.near));
        }
        self.cancel_all(|flight| flight.doing.is_on(&socket.near));
    }

    pub(crate) fn unacknowledged(&mut self, socket: &Socket, token: u64) -> Option<u64> {
        let queued = super::kernel::net::unacknowledged(&*socket.near);
        if !socket.direct {
            return Some(queued);
        }
        self.start(token, Doing::Tell(Completion::Unacknowledged(queued)));
        None
    }

    pub(crate) fn install(&mut self, socket: &Socket, token: u64) -> bool {
        if self.features.installs {
            // A descriptor of its own has its own number, which the world does not know.
            let refused = Err(io::Error::from_raw_os_error(24));
            let _ = socket;
            self.start(token, Doing::Tell(Completion::Installed(refused)));
        }
        self.features.installs
    }

    pub(crate) fn wait_for_room(&mut self, socket: &Socket, token: u64, again: bool) {
        self.start(token, Doing::Room { near: Arc::clone(&socket.near), again, told: None });
    }

    pub(crate) fn reset_on_close(&mut self, socket: &Socket) {
        drop(super::kernel::net::reset_on_close(&*socket.near));
    }

    pub(crate) fn close(&mut self, socket: Socket) {
        self.open.remove(&socket.near.as_raw_fd());
    }

    pub(crate) fn lend(&mut self, len: usize) -> Lent {
        let number = self.free.pop().unwrap_or_else(|| {
            self.memory.push(Vec::new());
            self.memory.len() - 1
        });
        let longest = self.memory[number].len().max(len);
        self.memory[number].resize(longest, POISON);
        Lent { number, len }
    }

    pub(crate) fn take_back(&mut self, lent: Lent) {
        self.give_back(lent.number);
    }

    fn give_back(&mut self, number: usize) {
        self.memory[number].fill(POISON);
        self.free.push(number);
    }

    pub(crate) fn read_piece(
        &mut self,
        file: &Arc<Descriptor>,
        lent: Lent,
        start: u64,
        token: u64,
    ) {
        self.start(token, Doing::Read { file: Arc::clone(file), lent, start });
    }

    pub(crate) fn disk(&mut self, op: Op, token: u64) -> Option<Op> {
        self.start(token, Doing::Disk(op));
        None
    }

    pub(crate) fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn gather(&mut self, found: &mut Vec<(u64, Completion)>) -> io::Result<()> {
        self.wait(found, 0)
    }

    pub(crate) fn peek(&mut self, found: &mut Vec<(u64, Completion)>) {
        with(|world| self.complete(world, found, world.schedule.late));
    }

    pub(crate) fn wait(
        &mut self,
        found: &mut Vec<(u64, Completion)>,
        timeout_ms: u64,
    ) -> io::Result<()> {
        with(|world| {
            world.called();
            world.look();
            let until_ms = world.now_ms() + timeout_ms;
            loop {
                self.complete(world, found, world.schedule.late);
                if found.is_empty() {
                    self.complete(world, found, false);
                }
                if !found.is_empty() || timeout_ms == 0 || !world.pass(until_ms) {
                    return;
                }
            }
        });
        Ok(())
    }
}

impl Doing {
    fn is_on(&self, socket: &Arc<OwnedFd>) -> bool {
        match self {
            Doing::Receive { near, .. } => Arc::ptr_eq(near, socket),
            // It ends by its token.
            Doing::Room { near, again, .. } => !again && Arc::ptr_eq(near, socket),
            Doing::Send { near, .. } => near.as_ref().is_some_and(|near| Arc::ptr_eq(near, socket)),
            _ => false,
        }
    }
}

/// Completing.
impl Ring {
    /// Completes some of the operations that can be, in any order; where they are late, not all.
    fn complete(&mut self, world: &mut World, found: &mut Vec<(u64, Completion)>, late: bool) {
        let mut order: Vec<usize> = (0..self.flights.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, world.random.below(at + 1));
        }
        let mut over = Vec::new();
        for at in order {
            // Some come later.
            if late && world.random.one_in(3) {
                continue;
            }
            let mut doing =
                std::mem::replace(&mut self.flights[at].doing, Doing::Accept { again: false });
            let Flight { token, is_cancelled, .. } = self.flights[at];
            let completed = match is_cancelled {
                true => self.cancelled(&mut doing),
                false => self.go_on(&mut doing, world),
            };
            let is_poll = matches!(doing, Doing::Poll { .. } | Doing::Events { .. });
            self.flights[at].doing = doing;
            if let Some((completion, more)) = completed {
                if !is_poll || !world.fault.loses(&mut world.random) {
                    found.push((token, completion));
                }
                if !more {
                    over.push(at);
                }
            }
        }
        over.sort_unstable();
        for at in over.into_iter().rev() {
            self.flights.remove(at);
        }
        // What was closed with its last operation is closed now.
        world.look();
    }

    fn cancelled(&mut self, doing: &mut Doing) -> Option<(Completion, bool)> {
        let error = || io::Error::from_raw_os_error(ECANCELED);
        let completion = match std::mem::replace(doing, Doing::Accept { again: false }) {
            Doing::Accept { .. } => Completion::Connected(Err(error()), false),
            Doing::Receive { .. } | Doing::LinkReceive { .. } => {
                Completion::Received(Err(error()), false)
            }
            Doing::LinkSend { outgoing, .. } => Completion::Sent(outgoing, Err(error()), false),
            Doing::Send { outgoing, sent, .. } => {
                let sent = if sent > 0 { Ok(sent) } else { Err(error()) };
                Completion::Sent(outgoing, sent, false)
            }
            Doing::Disk(op) => Completion::Disk(op.perform()),
            Doing::Read { lent, .. } => Completion::Piece(lent, Err(error())),
            Doing::Watch(..) => Completion::Readable(false),
            Doing::Poll { .. } => Completion::Ready(Err(error()), false),
            Doing::Events { .. } => Completion::Event(Err(error()), false),
            Doing::Room { .. } => Completion::Writable(true, false),
            Doing::Tell(completion) => completion,
        };
        Some((completion, false))
    }

    /// Goes on with an operation: what is to be told of it, and whether it goes on then.
    fn go_on(&mut self, doing: &mut Doing, world: &mut World) -> Option<(Completion, bool)> {
        match doing {
            Doing::Accept { again } => {
                if world.queued() == 0 {
                    return None;
                }
                let direct = self.features.direct;
                let near = Arc::new(world.accept(true)?.ok()?.0);
                self.open.insert(near.as_raw_fd(), Arc::clone(&near));
                Some((Completion::Connected(Ok(Socket { near, direct }), *again), *again))
            }
            Doing::Receive { near, again, own } => {
                let at = line(world, near)?;
                let (received, more) = self.receive_now(world, at, *own)?;
                let more = more && *again;
                Some((Completion::Received(received, more), more))
            }
            Doing::Send { .. } => self.send_now(doing, world),
            Doing::LinkReceive { link, own } => self.receive_on_link(link, *own, world),
            Doing::LinkSend { link, outgoing } => send_on_link(link, outgoing, world),
            Doing::Disk(_) => {
                let Doing::Disk(op) = std::mem::replace(doing, Doing::Accept { again: false })
                else {
                    return None;
                };
                Some((Completion::Disk(world.disk.perform_op(op, world.schedule.fails)), false))
            }
            Doing::Read { file, lent, start } => {
                let read =
                    file::read_at(&**file, &mut self.memory[lent.number][..lent.len], *start);
                let lent = Lent { number: lent.number, len: lent.len };
                Some((Completion::Piece(lent, read), false))
            }
            Doing::Watch(fd, told) => {
                let (state, wakes) = world.state(world.source(*fd)?)?;
                let is_ready = state.read && *told != Some(wakes);
                *told = if state.read { Some(wakes) } else { *told };
                is_ready.then_some((Completion::Readable(true), true))
            }
            Doing::Poll { socket, interest, again, told } => {
                let (state, wakes) = world.state(world.source(socket.as_raw_fd())?)?;
                let (read, write) = (state.read || state.hangup, state.write || state.hangup);
                let ready = Interest { read, write };
                let is_ready = read && interest.read || write && interest.write || state.ended;
                let is_news = is_ready && wakes_again(told, wakes, *again);
                is_news.then_some((Completion::Ready(Ok(ready), *again), *again))
            }
            Doing::Events { socket, token, interest, told } => {
                let event = event(world, socket, *token, *interest, told)?;
                Some((Completion::Event(Ok(event), true), true))
            }
            Doing::Room { near, again, told } => {
                let (state, wakes) = world.state(Source::Line(line(world, near)?))?;
                let is_news = (state.write || state.ended) && wakes_again(told, wakes, *again);
                is_news.then_some((Completion::Writable(state.write, *again), *again))
            }
            Doing::Tell(_) => {
                let Doing::Tell(completion) =
                    std::mem::replace(doing, Doing::Accept { again: false })
                else {
                    return None;
                };
                Some((completion, false))
            }
        }
    }

    fn receive_on_link(
        &mut self,
        link: &Owned,
        own: bool,
        world: &mut World,
    ) -> Option<(Completion, bool)> {
        let Source::Line(at) = world.source(link.as_raw_fd())? else { return None };
        let (received, _) = self.receive_now(world, at, own)?;
        if let Ok(Received { lent, .. }) = &received
            && world.fault.gives_link_back_early(&mut world.random)
        {
            self.memory[lent.number].fill(POISON);
        }
        Some((Completion::Received(received, false), false))
    }

    fn receive_now(
        &mut self,
        world: &mut World,
        at: usize,
        own: bool,
    ) -> Option<(io::Result<Received>, bool)> {
        if !own && self.provided == 0 && world.lines[at].state().read {
            return Some((Err(io::Error::from_raw_os_error(ENOBUFS)), false));
        }
        let mut lent = self.lend(RECEIVE_BYTES);
        let received = world.lines[at].receive(&mut self.memory[lent.number][..RECEIVE_BYTES]);
        match received {
            Some(Ok(n)) => {
                lent.len = n;
                self.provided -= usize::from(!own);
                Some((Ok(Received { lent, is_provided: !own }), n > 0))
            }
            none => {
                self.take_back(lent);
                Some((Err(none?.err()?), false))
            }
        }
    }

    /// The kernel reads what is sent as it leaves, and not before.
    fn send_now(&mut self, doing: &mut Doing, world: &mut World) -> Option<(Completion, bool)> {
        let Doing::Send { near, outgoing, sent, closes } = doing else { return None };
        let (at, len) = (line(world, near.as_ref()?)?, outgoing.len());
        let mut before = *sent;
        let mut slices = Vec::new();
        for part in &outgoing.0 {
            let bytes = match part {
                Part::Bytes(bytes) => &bytes[..],
                Part::Owned(memory, range) => &memory[range.clone()],
                Part::Piece(lent, range) => &self.memory[lent.number][range.clone()],
            };
            let skipped = before.min(bytes.len());
            before -= skipped;
            slices.push(IoSlice::new(&bytes[skipped..]));
        }
        let result = match world.lines[at].send(&slices) {
            Some(Ok(n)) => {
                *sent += n;
                // One that closes goes on until all is sent.
                if *sent < len && *closes {
                    return None;
                }
                Ok(*sent)
            }
            Some(Err(_)) if *sent > 0 => Ok(*sent),
            Some(Err(error)) => Err(error),
            None => return None,
        };
        let closed = *closes && result.as_ref().is_ok_and(|n| *n == len);
        if closed && let Some(near) = near.take() {
            self.open.remove(&near.as_raw_fd());
        }
        Some((Completion::Sent(std::mem::take(outgoing), result, closed), false))
    }
}

fn send_on_link(
    link: &Owned,
    outgoing: &mut Box<Outgoing>,
    world: &mut World,
) -> Option<(Completion, bool)> {
    let Source::Line(at) = world.source(link.as_raw_fd())? else { return None };
    let bytes = outgoing.bytes();
    let sent = world.lines[at].send(&[IoSlice::new(&bytes)])?;
    Some((Completion::Sent(std::mem::take(outgoing), sent, false), false))
}

/// What happened to a socket, if that is news.
fn event(
    world: &World,
    socket: &Owned,
    token: u64,
    interest: Interest,
    told: &mut Option<u64>,
) -> Option<Event> {
    let source = world.source(socket.as_raw_fd())?;
    let (state, wakes) = world.state(source)?;
    let hangup = state.ended || state.hangup;
    let read = interest.read && state.read || hangup;
    let write = interest.write && state.write || state.hangup;
    let is_false = world.fault.ends_rest() && world.is_at_rest(source);
    let is_news = is_false || (read || write) && wakes_again(told, wakes, true);
    is_news.then_some(Event { token, read: read || is_false, write, hangup })
}

/// Whether what is ready is told: where it is told again and again, once each time that it wakes.
fn wakes_again(told: &mut Option<u64>, wakes: u64, again: bool) -> bool {
    told.replace(wakes) != Some(wakes) || !again
}

fn line(world: &World, near: &OwnedFd) -> Option<usize> {
    match world.source(near.as_raw_fd())? {
        Source::Line(at) => Some(at),
        _ => None,
    }
}
