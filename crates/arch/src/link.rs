//! A link to a server that answers, as the thread has it that drives its connection.

use std::io;
use std::sync::Arc;

use flyball_conn::{Connection, LinkNeed, Needs, Watch};
use flyball_site::{Place, Upstream};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use crate::awaited::Awaited;
use crate::kernel::net;
use crate::slots::Token;

/// A link, and what is known of its socket.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: Arc<Owned>,
    pub(crate) upstream: Arc<Upstream>,
    /// Its place among the links that are in use: another's when it is left.
    place: Option<Place>,
    /// Reading may find something.
    pub(crate) read: bool,
    /// There may be room.
    pub(crate) write: bool,
    /// It was hung up: there is still the end of the stream to be read.
    pub(crate) hangup: bool,
    /// Where the loop watches it, which tells of each change then.
    pub(crate) watched: Option<Token>,
}

/// Where a connection has its link, if it has one: few do.
pub(crate) type Held = Option<Box<Link>>;

impl Link {
    /// A link by this socket.
    pub(crate) fn new(socket: Arc<Owned>, upstream: Arc<Upstream>) -> Box<Link> {
        let (read, hangup) = (false, false);
        Box::new(Link { socket, upstream, place: None, read, write: true, hangup, watched: None })
    }

    /// Whether all that the socket is known to hold was read.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.read && !self.hangup
    }

    /// Its place, which is another's when that is dropped.
    pub(crate) fn take_place(&mut self) -> Option<Place> {
        self.place.take()
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
    fn take(&mut self, upstream: &Arc<Upstream>) -> Held {
        let socket = upstream.take_idle()?;
        Some(Link::new(socket, Arc::clone(upstream)))
    }

    /// A link that is not used any more. Who waits for its place finds it, if it is kept.
    fn leave(&mut self, link: Box<Link>, keeps: bool) {
        if keeps {
            link.upstream.keep(Arc::clone(&link.socket));
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
) {
    match need {
        LinkNeed::Open => open(pool, held, connection),
        LinkNeed::Leave { keeps } => {
            if let Some(link) = held.take() {
                pool.leave(link, keeps);
            }
            connection.link_left();
        }
    }
}

/// Opens the link that a connection wants.
fn open(pool: &mut dyn Pool, held: &mut Held, connection: &mut Connection) {
    let Some((upstream, place)) = connection.link_to() else { return };
    // What it has is to be replaced, at the same place.
    let (before, idle) = match held.take() {
        Some(mut link) => {
            let place = link.place.take();
            pool.leave(link, false);
            (place, None)
        }
        None => (None, pool.take(&upstream)),
    };
    let was_idle = idle.is_some();
    let link = match idle {
        Some(link) => Ok(link),
        None => upstream.connect().map(|socket| Link::new(socket, upstream)),
    };
    connection.linked(link.map(|mut link| {
        link.place = place.or(before);
        *held = Some(link);
        was_idle
    }));
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
    held: &mut Held,
    interest: Interest,
    connection: &mut Connection,
    may_receive: bool,
) -> Moved {
    let Some(link) = held else { return Moved::Nothing };
    match interest {
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
pub(crate) fn serve(held: &mut Held, needs: &Needs, connection: &mut Connection) -> bool {
    match (needs.link, &needs.watch) {
        (Some(need), _) => {
            manage(&mut Unwatched, held, need, connection);
            true
        }
        (None, Some(Watch { descriptor: None, interest, .. })) => {
            moves(held, *interest, connection, true) != Moved::Nothing
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
