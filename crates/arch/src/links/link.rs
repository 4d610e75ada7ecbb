//! A link to what answers, as the thread has it that drives its connection.

use std::io::{self, IoSlice};
use std::sync::Arc;

use flyball_conn::{Connection, Context, LinkNeed, Needs, Watch};
use flyball_site::{NoLink, Target, Upstream};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;
use flyball_sys::timer::Timer;

use super::places::{Entry, Place, Waiting};
use super::program::Program;
use super::shared::Upstreams;
use crate::awaited::Awaited;
use crate::kernel::net;
use crate::slots::Token;

/// A link, and what is known of its descriptor.
#[derive(Debug)]
pub(crate) struct Link {
    /// Its socket, what stands for the descriptors of a program, or a timer.
    pub(crate) socket: Arc<Owned>,
    end: End,
    /// Reading may find something.
    pub(crate) read: bool,
    /// There may be room.
    pub(crate) write: bool,
    /// It was hung up: there is still the end of the stream to be read.
    pub(crate) hangup: bool,
    /// Where the loop watches it, which tells of each change then.
    pub(crate) watched: Option<Token>,
    /// Where a ring knows it that moves its bytes by operations.
    pub(crate) operated: Option<Token>,
    /// A stage's event mechanism knows it, and tells of it each time that it is armed.
    pub(crate) armed: bool,
    /// A thread may wait in the receive: what it is told next is told as long as that is there.
    pub(crate) blocks: bool,
}

/// What is at its other end.
#[derive(Debug)]
enum End {
    /// A server.
    Server(Arc<Upstream>, At),
    /// A program.
    Program(Box<Program>),
    /// A time that passes.
    Timer(Timer),
}

/// Its place among the links that are in use, which is another's when that is dropped.
#[derive(Debug)]
enum At {
    /// It is at rest.
    None,
    /// It is in use.
    Place(Place),
    /// It is none yet: its socket tells when there is a place for it.
    Queue(Waiting),
}

/// Where a connection has its link, if it has one: few do.
pub(crate) type Held = Option<Box<Link>>;

impl Link {
    /// A link to a server by this socket.
    fn to_server(socket: Arc<Owned>, upstream: Arc<Upstream>, at: At) -> Box<Link> {
        Link::new(socket, End::Server(upstream, at))
    }

    fn new(socket: Arc<Owned>, end: End) -> Box<Link> {
        let (read, write, hangup, watched) = (false, true, false, None);
        let (operated, armed, blocks) = (None, false, false);
        Box::new(Link { socket, end, read, write, hangup, watched, operated, armed, blocks })
    }

    /// The server that it leads to.
    pub(crate) fn upstream(&self) -> Option<&Arc<Upstream>> {
        match &self.end {
            End::Server(upstream, _) => Some(upstream),
            End::Program(_) | End::Timer(_) => None,
        }
    }

    /// Whether all that the socket is known to hold was read.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.read && !self.hangup
    }

    /// Its place, which is another's when that is dropped.
    pub(crate) fn take_place(&mut self) -> impl Sized + use<> {
        self.take_at()
    }

    fn take_at(&mut self) -> At {
        match &mut self.end {
            End::Server(_, at) => std::mem::replace(at, At::None),
            End::Program(_) | End::Timer(_) => At::None,
        }
    }

    fn set_at(&mut self, now: At) {
        if let End::Server(_, at) = &mut self.end {
            *at = now;
        }
    }

    /// Moves bytes between a connection and its server, or its program: whether it could.
    fn moves(&mut self, used: Interest, connection: &mut Connection, may_receive: bool) -> Moved {
        match &mut self.end {
            End::Program(program) => {
                if std::mem::take(&mut self.read) {
                    program.woke();
                }
                return program.moves(used, connection, may_receive);
            }
            End::Timer(timer) => {
                if !std::mem::take(&mut self.read) || !timer.has_fired() {
                    return Moved::Nothing;
                }
                connection.link_received(Ok(0));
                return Moved::Received;
            }
            End::Server(..) => {}
        }
        match used {
            Interest { write: true, .. } if self.write => {
                self.send(connection);
                Moved::Sent
            }
            Interest { read: true, .. } if self.read && may_receive => {
                self.receive(connection);
                Moved::Received
            }
            Interest { read: true, .. } if self.read => Moved::Later,
            _ => Moved::Nothing,
        }
    }

    /// What is watched while it is used so.
    fn watch(&mut self, used: Interest) -> Interest {
        let End::Program(program) = &mut self.end else { return used };
        program.watch(used);
        Interest::READ
    }

    /// Sends what waits. Never blocks.
    fn send(&mut self, connection: &mut Connection) {
        let slices = [IoSlice::new(connection.link_outgoing())];
        let sent = net::send_gather_now(&*self.socket, &slices, false);
        match &sent {
            // An answer cannot be there yet, unless input was told of: that is told once.
            Ok(_) => self.read = self.hangup || self.read && self.watched.is_some(),
            Err(error) if is_transient(error) => self.write = false,
            // It may have answered all the same, which receiving will show.
            Err(_) => self.read = true,
        }
        connection.link_sent(sent);
    }

    /// Receives once. A read that does not fill the space has emptied the socket; where the end of
    /// the stream is not told apart, that may be there still. Never blocks.
    fn receive(&mut self, connection: &mut Connection) {
        let space = connection.link_space();
        let room = space.len();
        let received = net::recv_now(&*self.socket, space);
        let is_told = self.watched.is_some() || self.armed || self.blocks;
        self.read = match &received {
            Ok(n) => *n == room || self.hangup || !is_told,
            Err(error) => !is_transient(error),
        };
        connection.link_received(received);
    }
}

/// Who has the links that are at rest.
pub(crate) trait Pool {
    /// One at rest that leads there.
    fn take(&mut self, upstream: &Arc<Upstream>, shared: &Upstreams) -> Held {
        let socket = shared.take_idle(upstream)?;
        Some(Link::to_server(socket, Arc::clone(upstream), At::None))
    }

    /// A link that is not used any more. Who waits for its place finds it, if it is kept.
    fn leave(&mut self, held: &mut Held, keeps: bool, shared: &Upstreams) {
        if let Some(link) = held.take()
            && let Some(upstream) = link.upstream().filter(|_| keeps)
        {
            shared.keep(upstream, &link.socket);
        }
    }

    /// Moves bytes between a connection and the server of its link, where no calls do that: whether
    /// it could.
    fn moves(&mut self, _: &mut Link, _: Interest, _: &mut Connection) -> Option<Moved> {
        None
    }

    /// A turn begins: what is known of the link that is waited for.
    fn woke(&mut self, link: &mut Link) {
        (link.read, link.write) = (true, true);
    }
}

/// The pool of a process, in which no link is watched: one is looked at before it is used again.
pub(crate) struct Unwatched;

impl Pool for Unwatched {}

/// Does with a link what a connection needs.
pub(crate) fn manage(
    pool: &mut dyn Pool,
    held: &mut Held,
    need: LinkNeed,
    connection: &mut Connection,
    (upstreams, cx): (&Upstreams, &Context),
) {
    match need {
        LinkNeed::Open => open(pool, held, connection, (upstreams, cx)),
        LinkNeed::Shut => {
            if let Some(End::Program(program)) = held.as_mut().map(|link| &mut link.end) {
                program.shut();
            }
            connection.link_shut();
        }
        LinkNeed::Leave { keeps } => {
            if let Some(End::Program(program)) = held.as_ref().map(|link| &link.end)
                && keeps
            {
                program.leave();
            }
            pool.leave(held, keeps, upstreams);
            connection.link_left();
        }
    }
}

/// Opens the link that a connection wants, once there is a place for it.
fn open(
    pool: &mut dyn Pool,
    held: &mut Held,
    connection: &mut Connection,
    (upstreams, cx): (&Upstreams, &Context),
) {
    // What it has is to be replaced, at the same place.
    let place = held.as_mut().map_or(At::None, |link| link.take_at());
    pool.leave(held, false, upstreams);
    let upstream = match connection.link_to() {
        Some(Target::Server(upstream)) => Arc::clone(upstream),
        Some(Target::Program(program)) => {
            let door = upstreams.door().map(|door| &**door);
            let started = Program::start(program, door)
                .map(|program| (Arc::clone(program.descriptor()), End::Program(Box::new(program))));
            return begun(held, started.map_err(NoLink::Unasked), connection, cx);
        }
        Some(Target::Timer(ms)) => {
            let timer = Timer::after_ms(*ms)
                .map(|timer| (Arc::clone(timer.descriptor()), End::Timer(timer)));
            return begun(held, timer.map_err(NoLink::Refused), connection, cx);
        }
        None => return,
    };
    let entry = match place {
        At::Place(place) => return connect(held, place, connection, upstream, cx),
        At::None | At::Queue(_) => upstreams.places(&upstream).enter(),
    };
    match entry {
        Ok(Entry::Now(place)) => {
            *held = pool.take(&upstream, upstreams);
            use_or_connect(held, place, connection, upstream, cx);
        }
        Ok(Entry::Later(waiting)) => {
            let descriptor = Arc::clone(waiting.descriptor());
            *held = Some(Link::to_server(descriptor, upstream, At::Queue(waiting)));
            connection.link_queued();
        }
        Ok(Entry::Full) => connection.linked(Err(NoLink::Full), cx),
        Err(error) => connection.linked(Err(NoLink::Refused(error)), cx),
    }
}

/// What is no connection has begun, if it could.
fn begun(
    held: &mut Held,
    begun: Result<(Arc<Owned>, End), NoLink>,
    connection: &mut Connection,
    cx: &Context,
) {
    let begun = begun.map(|(descriptor, end)| {
        *held = Some(Link::new(descriptor, end));
        false
    });
    connection.linked(begun, cx);
}

/// Uses the link that was at rest, if there was one, or begins to connect.
fn use_or_connect(
    held: &mut Held,
    place: Place,
    connection: &mut Connection,
    upstream: Arc<Upstream>,
    cx: &Context,
) {
    let Some(link) = held else { return connect(held, place, connection, upstream, cx) };
    link.set_at(At::Place(place));
    connection.linked(Ok(true), cx);
}

/// Begins to connect, at a place. Never blocks: what comes of it is seen by the first send.
fn connect(
    held: &mut Held,
    place: Place,
    connection: &mut Connection,
    upstream: Arc<Upstream>,
    cx: &Context,
) {
    let socket = net::begin_to_connect(upstream.server()).map_err(NoLink::Refused);
    let marked = |socket: Owned| match upstream.mark().map_or(Ok(()), |mark| mark.check(&socket)) {
        Ok(()) => Ok(socket),
        Err(why) => Err(NoLink::Foreign(why)),
    };
    let connected = socket.and_then(marked).map(|socket| {
        let at = At::Place(place);
        *held = Some(Link::to_server(Arc::new(socket), Arc::clone(&upstream), at));
        false
    });
    connection.linked(connected, cx);
}

/// A link is waited for: has it, if it is its turn. Whether it is.
fn take_turn(
    pool: &mut dyn Pool,
    held: &mut Held,
    connection: &mut Connection,
    (upstreams, cx): (&Upstreams, &Context),
) -> bool {
    let Some(link) = held else { return false };
    let End::Server(upstream, At::Queue(waiting)) = &link.end else { return false };
    let Some(place) = waiting.turn() else {
        link.read = false;
        return false;
    };
    let upstream = Arc::clone(upstream);
    pool.leave(held, false, upstreams);
    *held = pool.take(&upstream, upstreams);
    use_or_connect(held, place, connection, upstream, cx);
    true
}

/// What came of an attempt to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Bytes were sent, or it is known that they cannot be.
    Sent,
    /// Likewise of receiving.
    Received,
    /// More could be received: others come first.
    Later,
    /// It must be waited for.
    Nothing,
}

/// Moves bytes between a connection and its link: whether it could.
pub(crate) fn moves(
    pool: &mut dyn Pool,
    held: &mut Held,
    interest: Interest,
    connection: &mut Connection,
    may_receive: bool,
    (upstreams, cx): (&Upstreams, &Context),
) -> Moved {
    let Some(link) = held else { return Moved::Nothing };
    match &link.end {
        End::Server(_, At::Queue(_)) => {}
        End::Server(..) => {
            let moved = pool.moves(link, interest, connection);
            return moved.unwrap_or_else(|| link.moves(interest, connection, may_receive));
        }
        End::Program(_) | End::Timer(_) => return link.moves(interest, connection, may_receive),
    }
    match link.read && take_turn(pool, held, connection, (upstreams, cx)) {
        true => Moved::Received,
        false => Moved::Nothing,
    }
}

/// A turn of a ring's connection begins: what is waited for may have come.
pub(crate) fn woke(pool: &mut dyn Pool, held: &mut Held) {
    if let Some(link) = held {
        pool.woke(link);
    }
}

/// Does what a connection needs of its link, as far as that goes at once; false when that is
/// nothing.
pub(crate) fn serve(
    pool: &mut dyn Pool,
    held: &mut Held,
    needs: &Needs,
    connection: &mut Connection,
    (upstreams, cx): (&Upstreams, &Context),
) -> bool {
    match (needs.link, &needs.watch) {
        (Some(need), _) => {
            manage(pool, held, need, connection, (upstreams, cx));
            true
        }
        (None, Some(Watch { interest, .. })) => {
            let moved = moves(pool, held, *interest, connection, true, (upstreams, cx));
            moved != Moved::Nothing
        }
        _ => false,
    }
}

/// What is waited for, with its descriptor.
pub(crate) fn awaited(held: &mut Held, watch: Option<Watch>) -> Option<Awaited> {
    let Watch { interest, reads } = watch?;
    let link = held.as_mut()?;
    let (descriptor, interest) = (Arc::clone(&link.socket), link.watch(interest));
    Some(Awaited { descriptor, interest, reads })
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
