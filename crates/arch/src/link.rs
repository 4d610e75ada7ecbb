//! A link to a server that answers, as the thread has it that drives its connection.

use std::io;
use std::sync::Arc;

use flyball_conn::{Connection, LinkNeed, Needs, Watch};
use flyball_site::{BackendFailure, Place, Upstream};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use crate::awaited::Awaited;
use crate::kernel::net;

/// The link of one connection, and what is known of its socket.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Arc<Owned>,
    upstream: Arc<Upstream>,
    /// Its place among the links that are in use: another's when the link is left.
    _place: Option<Place>,
    /// Reading may find something.
    read: bool,
    /// There may be room.
    write: bool,
}

/// Where a connection has its link, if it has one: few do.
pub(crate) type Held = Option<Box<Link>>;

impl Link {
    fn open(
        (upstream, place): (Arc<Upstream>, Option<Place>),
    ) -> Result<(Link, bool), (BackendFailure, String)> {
        let idle = upstream.take_idle();
        let was_idle = idle.is_some();
        let socket = idle.map_or_else(|| upstream.connect(), Ok)?;
        Ok((Link { socket, upstream, _place: place, read: false, write: true }, was_idle))
    }

    /// Sends what waits.
    fn send(&mut self, connection: &mut Connection) {
        let sent = net::send(&*self.socket, connection.link_outgoing(), false);
        match &sent {
            // An answer cannot be there yet.
            Ok(_) => self.read = false,
            Err(error) if is_transient(error) => self.write = false,
            // It may have answered all the same, which receiving will show.
            Err(_) => self.read = true,
        }
        connection.link_sent(sent);
    }

    /// Receives once. A read that does not fill the space has emptied the socket, but for the end.
    fn receive(&mut self, connection: &mut Connection) {
        let received = net::recv(&*self.socket, connection.link_space());
        if received.as_ref().is_err_and(is_transient) {
            self.read = false;
        }
        connection.link_received(received);
    }
}

/// Does with a link what a connection needs.
pub(crate) fn manage(held: &mut Held, need: LinkNeed, connection: &mut Connection) {
    match need {
        LinkNeed::Open => open(held, connection),
        LinkNeed::Leave { keeps } => leave(held, keeps, connection),
    }
}

/// Opens the link that a connection wants.
fn open(held: &mut Held, connection: &mut Connection) {
    let Some((upstream, place)) = connection.link_to() else { return };
    if let Some(link) = held {
        let fresh = upstream.connect().map(|socket| (link.socket, link.write) = (socket, true));
        return connection.linked(fresh.map(|()| false));
    }
    let opened = Link::open((upstream, place));
    connection.linked(opened.map(|(link, was_idle)| {
        *held = Some(Box::new(link));
        was_idle
    }));
}

/// Closes the link that a connection has left, or keeps it for another.
fn leave(held: &mut Held, keeps: bool, connection: &mut Connection) {
    if let Some(link) = held.take()
        && keeps
    {
        // Who waits for the place finds the link.
        link.upstream.keep(Arc::clone(&link.socket));
    }
    connection.link_left();
}

/// A turn begins: what is waited for may have come.
pub(crate) fn woke(held: &mut Held) {
    if let Some(link) = held {
        (link.read, link.write) = (true, true);
    }
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

/// Does what a connection needs of its link, as far as that goes at once; false when that is
/// nothing.
pub(crate) fn serve(held: &mut Held, needs: &Needs, connection: &mut Connection) -> bool {
    match (needs.link, &needs.watch) {
        (Some(need), _) => {
            manage(held, need, connection);
            true
        }
        (None, Some(Watch { descriptor: None, interest, .. })) => {
            moves(held, *interest, connection, true) != Moved::Nothing
        }
        _ => false,
    }
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

/// What is waited for, with its descriptor.
pub(crate) fn awaited(held: &Held, watch: Option<Watch>) -> Option<Awaited> {
    let Watch { descriptor, interest, reads } = watch?;
    let of_link = || held.as_ref().map(|link| Arc::clone(&link.socket));
    Some(Awaited { descriptor: descriptor.or_else(of_link)?, interest, reads })
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
