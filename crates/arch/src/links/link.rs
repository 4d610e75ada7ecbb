//! A link to a server that answers, as the thread has it that drives its connection.

use std::io;
use std::sync::Arc;

use flyball_conn::{Connection, Context, LinkNeed, Needs, Watch};
use flyball_site::{NoLink, Upstream};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::places::{Entry, Place, Waiting};
use super::shared::Upstreams;
use crate::awaited::Awaited;
use crate::kernel::net;
use crate::slots::Token;

/// A link, and what is known of its socket.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: Arc<Owned>,
    pub(crate) upstream: Arc<Upstream>,
    place: At,
    /// Reading may find something.
    pub(crate) read: bool,
    /// There may be room.
    pub(crate) write: bool,
    /// It was hung up: there is still the end of the stream to be read.
    pub(crate) hangup: bool,
    /// Where the loop watches it, which tells of each change then.
    pub(crate) watched: Option<Token>,
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
    /// A link by this socket.
    pub(crate) fn new(socket: Arc<Owned>, upstream: Arc<Upstream>) -> Box<Link> {
        let (place, read, hangup) = (At::None, false, false);
        Box::new(Link { socket, upstream, place, read, write: true, hangup, watched: None })
    }

    /// Whether all that the socket is known to hold was read.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.read && !self.hangup
    }

    /// Its place, which is another's when that is dropped.
    pub(crate) fn take_place(&mut self) -> impl Sized + use<> {
        std::mem::replace(&mut self.place, At::None)
    }

    /// Sends what waits.
    fn send(&mut self, connection: &mut Connection) {
        let sent = net::send(&*self.socket, connection.link_outgoing(), false);
        match &sent {
            // An answer cannot be there yet.
            Ok(_) => self.read = self.hangup,
            Err(error) if is_transient(error) => self.write = false,
            // It may have answered all the same, which receiving will show.
            Err(_) => self.read = true,
        }
        connection.link_sent(sent);
    }

    /// Receives once. A read that does not fill the space has emptied the socket; where the end of
    /// the stream is not told apart, that may be there still.
    fn receive(&mut self, connection: &mut Connection) {
        let space = connection.link_space();
        let room = space.len();
        let received = net::recv(&*self.socket, space);
        self.read = match &received {
            Ok(n) => *n == room || self.hangup || self.watched.is_none(),
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
        Some(Link::new(socket, Arc::clone(upstream)))
    }

    /// A link that is not used any more. Who waits for its place finds it, if it is kept.
    fn leave(&mut self, held: &mut Held, keeps: bool, shared: &Upstreams) {
        if let Some(link) = held.take()
            && keeps
        {
            shared.keep(&link.upstream, &link.socket);
        }
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
        LinkNeed::Leave { keeps } => {
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
    let Some(upstream) = connection.link_to().map(Arc::clone) else { return };
    let places = upstreams.places(&upstream);
    let entry = match held {
        // What it has is to be replaced, at the same place.
        Some(link) => {
            let place = std::mem::replace(&mut link.place, At::None);
            pool.leave(held, false, upstreams);
            match place {
                At::Place(place) => {
                    return connect(held, place, connection, upstream, cx);
                }
                At::None | At::Queue(_) => places.enter(),
            }
        }
        None => places.enter(),
    };
    match entry {
        Ok(Entry::Now(place)) => {
            *held = pool.take(&upstream, upstreams);
            use_or_connect(held, place, connection, upstream, cx);
        }
        Ok(Entry::Later(waiting)) => {
            let mut link = Link::new(Arc::clone(waiting.descriptor()), upstream);
            link.place = At::Queue(waiting);
            *held = Some(link);
            connection.link_queued();
        }
        Ok(Entry::Full) => connection.linked(Err(NoLink::Full), cx),
        Err(error) => connection.linked(Err(NoLink::Refused(error)), cx),
    }
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
    link.place = At::Place(place);
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
        let mut link = Link::new(Arc::new(socket), Arc::clone(&upstream));
        link.place = At::Place(place);
        *held = Some(link);
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
    let Some(At::Queue(waiting)) = held.as_ref().map(|link| &link.place) else { return false };
    let Some(place) = waiting.turn() else {
        held.iter_mut().for_each(|link| link.read = false);
        return false;
    };
    let Some(link) = held else { return false };
    let upstream = Arc::clone(&link.upstream);
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
    match interest {
        _ if matches!(link.place, At::Queue(_)) => {
            match link.read && take_turn(pool, held, connection, (upstreams, cx)) {
                true => Moved::Received,
                false => Moved::Nothing,
            }
        }
        Interest { write: true, .. } if link.write => {
            link.send(connection);
            Moved::Sent
        }
        Interest { read: true, .. } if link.read && may_receive => {
            link.receive(connection);
            Moved::Received
        }
        Interest { read: true, .. } if link.read => Moved::Later,
        _ => Moved::Nothing,
    }
}

/// A turn of a ring's connection begins: what is waited for may have come.
pub(crate) fn woke(held: &mut Held) {
    if let Some(link) = held {
        Unwatched.woke(link);
    }
}

/// Does what a connection needs of its link, as far as that goes at once; false when that is
/// nothing.
pub(crate) fn serve(
    held: &mut Held,
    needs: &Needs,
    connection: &mut Connection,
    (upstreams, cx): (&Upstreams, &Context),
) -> bool {
    match (needs.link, &needs.watch) {
        (Some(need), _) => {
            manage(&mut Unwatched, held, need, connection, (upstreams, cx));
            true
        }
        (None, Some(Watch { descriptor: None, interest, .. })) => {
            let moved = moves(&mut Unwatched, held, *interest, connection, true, (upstreams, cx));
            moved != Moved::Nothing
        }
        _ => false,
    }
}

/// What is waited for, with its descriptor.
pub(crate) fn awaited(held: &Held, watch: Option<Watch>) -> Option<Awaited> {
    let Watch { descriptor, interest, reads } = watch?;
    let on_link = descriptor.is_none();
    let of_link = || held.as_ref().map(|link| Arc::clone(&link.socket));
    Some(Awaited { descriptor: descriptor.or_else(of_link)?, on_link, interest, reads })
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
