//! The links of a ring that moves the bytes of those to servers by operations. A receive is under
//! way on each, also on one at rest, where whatever completes it ends the link: a server says
//! nothing that it was not asked for. The ring holds the socket and the memory of an operation
//! until that is complete. Programs, timers and waits for a place are watched.

use std::io;
use std::sync::Arc;

use flyball_conn::Connection;
use flyball_site::Upstream;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::link::{Held, Link, Moved, Pool, is_transient};
use super::shared::Upstreams;
use super::users::{Resting, Used, User};
use super::watched::{Links, LinksOf};
use crate::kernel::net;
use crate::kernel::uring::{self, Completion, Received, Ring};
use crate::slots::{FIRST_RESERVED, Slots, Token};

/// Marks, in the bits of a token, operations of a link; slots never have so high a number.
const OPERATED: u64 = 1 << 28;

/// What came on a link, the first `at` bytes of which were taken.
#[derive(Debug)]
struct Came {
    received: io::Result<Received>,
    at: usize,
}

/// A link, and what is under way on it.
#[derive(Debug)]
struct Lead {
    socket: Arc<Owned>,
    user: User,
    is_receiving: bool,
    is_sending: bool,
    /// Something was sent, or could not be: it is no longer being connected.
    is_tried: bool,
    came: Option<Came>,
    sent: Option<io::Result<usize>>,
    /// No buffer was left: the next receive brings its own memory.
    brings: bool,
}

/// All of a loop.
#[derive(Debug, Default)]
pub(crate) struct Operated {
    table: Slots<Lead>,
    resting: Resting,
    /// None is kept any more.
    is_closing: bool,
    /// Those whose bytes are moved by calls.
    others: Links,
}

impl Lead {
    fn new(link: &Link, connection: Token) -> Lead {
        Lead {
            socket: Arc::clone(&link.socket),
            user: User::Connection(connection),
            is_receiving: false,
            is_sending: false,
            is_tried: false,
            came: None,
            sent: None,
            brings: false,
        }
    }

    fn receive(&mut self, token: Token, ring: &mut Ring) {
        // Who connects is told why it cannot by one operation alone.
        let may = self.is_tried || !self.is_sending;
        if may && !self.is_receiving && self.came.is_none() {
            let brings = std::mem::take(&mut self.brings);
            ring.receive_on(&self.socket, brings, token.bits() | OPERATED);
            self.is_receiving = true;
        }
    }

    fn send(&mut self, token: Token, bytes: &[u8], ring: &mut Ring) {
        if !self.is_sending {
            let mut outgoing = ring.outgoing();
            outgoing.copy(bytes);
            ring.send_on(&self.socket, outgoing, token.bits() | OPERATED);
            self.is_sending = true;
        }
    }

    /// A receive is complete: whether something is to be told of that. One that did nothing is
    /// started again.
    fn received(&mut self, token: Token, received: io::Result<Received>, ring: &mut Ring) -> bool {
        self.is_receiving = false;
        match received.map_err(failed) {
            Err(error) if uring::is_out_of_buffers(&error) => self.brings = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => {
                self.came = Some(Came { received, at: 0 });
                return true;
            }
        }
        self.receive(token, ring);
        false
    }

    /// A send is complete.
    fn sent(&mut self, sent: io::Result<usize>) {
        (self.is_sending, self.is_tried) = (false, true);
        self.sent = Some(sent.map_err(failed));
    }

    /// Gives a connection what came, as far as it has room. Behind a buffer that is full there is
    /// more, which a call receives: no operation is under way that could.
    fn give(&mut self, connection: &mut Connection, ring: &mut Ring) -> bool {
        let Some(Came { received, at }) = self.came.take() else { return false };
        let received = match received {
            Ok(received) => received,
            Err(error) => {
                connection.link_received(Err(error));
                return true;
            }
        };
        let rest = &ring.bytes(&received)[at..];
        let space = connection.link_space();
        let mut n = rest.len().min(space.len());
        space[..n].copy_from_slice(&rest[..n]);
        if n < rest.len() {
            self.came = Some(Came { received: Ok(received), at: at + n });
        } else {
            if at + n == uring::RECEIVE_BYTES && n < space.len() {
                match net::recv_now(&*self.socket, &mut space[n..]) {
                    Ok(more) => n += more,
                    Err(error) if is_transient(&error) => {}
                    Err(error) => self.came = Some(Came { received: Err(error), at: 0 }),
                }
            }
            ring.recycle(received);
        }
        connection.link_received(Ok(n));
        true
    }

    /// Whether nothing is to be told of it, and nothing is on its way to its server.
    fn is_quiet(&self) -> bool {
        self.came.is_none() && self.sent.is_none() && !self.is_sending
    }
}

impl Used for Lead {
    fn user(&mut self) -> &mut User {
        &mut self.user
    }
}

impl Operated {
    /// Whether what was started with this token moves bytes of a link.
    pub(crate) fn has(token: u64) -> bool {
        token < FIRST_RESERVED && token & OPERATED != 0
    }

    /// What these are in the turn of one connection.
    pub(crate) fn of<'a>(&'a mut self, connection: Token, ring: &'a mut Ring) -> OperatedOf<'a> {
        OperatedOf { links: self, ring, connection }
    }

    /// Whose turn it is since something of a link is complete; gives back what is of no link.
    ///
    /// # Errors
    /// What is of no link.
    pub(crate) fn completed(
        &mut self,
        bits: u64,
        completion: Completion,
        ring: &mut Ring,
    ) -> Result<Option<Token>, Completion> {
        match completion {
            Completion::Event(event, more) => Ok(self.others.completed(bits, &event, more, ring)),
            completion if Operated::has(bits) => Ok(self.moved(bits, completion, ring)),
            completion => Err(completion),
        }
    }

    /// The turn of a connection is over: its link is watched for what it waits for, if no operation
    /// is under way for that.
    pub(crate) fn turned(
        &mut self,
        held: &mut Held,
        connection: Token,
        wanted: Interest,
        ring: &mut Ring,
    ) {
        let is_operated = held.as_ref().is_some_and(|link| link.operated.is_some());
        let watched = if is_operated { Interest::NONE } else { wanted };
        self.others.turned(held, connection, watched, ring);
    }

    /// A connection is over, and with it its link.
    pub(crate) fn abandon(&mut self, held: Held, connection: Token, ring: &mut Ring) {
        match held.as_ref().and_then(|link| link.operated) {
            Some(token) => self.remove(token, ring),
            None => self.others.abandon(held, connection, ring),
        }
    }

    /// An operation of a link is complete: whose turn that is. One at rest has ended.
    fn moved(&mut self, bits: u64, completion: Completion, ring: &mut Ring) -> Option<Token> {
        let token = Token::from_bits(bits & !OPERATED);
        let lead = self.table.find(token);
        let is_told = match completion {
            Completion::Received(Ok(received), _) if lead.is_none() => {
                ring.recycle(received);
                false
            }
            Completion::Received(received, _) => lead?.received(token, received, ring),
            Completion::Sent(outgoing, sent, _) => {
                ring.keep_outgoing(outgoing);
                lead?.sent(sent);
                true
            }
            _ => {
                debug_assert!(false, "this was not asked for");
                false
            }
        };
        match self.table.find(token).filter(|_| is_told)?.user {
            User::Connection(connection) => Some(connection),
            User::None(_) => {
                self.remove(token, ring);
                None
            }
        }
    }

    /// Ends what is under way on a link, which is closed then.
    fn remove(&mut self, token: Token, ring: &mut Ring) {
        let Some(lead) = self.table.remove(token) else { return };
        if lead.is_receiving || lead.is_sending {
            ring.cancel(token.bits() | OPERATED);
        }
        if let Some(Came { received: Ok(received), .. }) = lead.came {
            ring.recycle(received);
        }
    }

    /// Closes those at rest, and keeps none any more: each holds a process of its server.
    pub(crate) fn close(&mut self, ring: &mut Ring) {
        self.others.close(ring);
        self.is_closing = true;
        for token in self.resting.take_all() {
            if self.table.find(token).is_some_and(|one| matches!(one.user, User::None(_))) {
                self.remove(token, ring);
            }
        }
    }
}

/// Why an operation has failed. What was undone can be done again. An operation waits as long as it
/// takes, so that one that did not wait is not started again.
fn failed(error: io::Error) -> io::Error {
    match error.kind() {
        _ if uring::is_undone(&error) => io::ErrorKind::Interrupted.into(),
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// The links of a loop, in the turn of one connection.
pub(crate) struct OperatedOf<'a> {
    links: &'a mut Operated,
    ring: &'a mut Ring,
    connection: Token,
}

impl OperatedOf<'_> {
    fn others(&mut self) -> LinksOf<'_> {
        LinksOf { links: &mut self.links.others, connection: self.connection }
    }
}

impl Pool for OperatedOf<'_> {
    fn take(&mut self, upstream: &Arc<Upstream>, _: &Upstreams) -> Held {
        let Operated { table, resting, .. } = &mut *self.links;
        resting.take(table, upstream, self.connection).map(|(_, link)| link)
    }

    fn leave(&mut self, held: &mut Held, keeps: bool, upstreams: &Upstreams) {
        let Some(token) = held.as_ref().and_then(|link| link.operated) else {
            return self.others().leave(held, keeps, upstreams);
        };
        let Some(mut link) = held.take() else { return };
        let Operated { table, resting, is_closing, .. } = &mut *self.links;
        let keeps = keeps && !*is_closing && table.find(token).is_some_and(|one| one.is_quiet());
        let has_room = |one: &Arc<Upstream>| resting.count(table, one) < one.bounds().idle_max;
        let keeps = keeps && link.upstream().is_some_and(has_room);
        let Some(lead) = table.find(token).filter(|_| keeps) else {
            return self.links.remove(token, self.ring);
        };
        // Who waits for the place finds the link.
        let place = link.take_place();
        lead.user = User::None(link);
        lead.receive(token, self.ring);
        resting.push(token);
        drop(place);
    }

    fn moves(
        &mut self,
        link: &mut Link,
        used: Interest,
        connection: &mut Connection,
    ) -> Option<Moved> {
        let OperatedOf { links, ring, connection: user } = self;
        let token = match link.operated {
            Some(token) => token,
            None => links.table.insert(Lead::new(link, *user)),
        };
        link.operated = Some(token);
        let lead = links.table.find(token)?;
        if let Some(sent) = lead.sent.take() {
            connection.link_sent(sent);
            return Some(Moved::Sent);
        }
        if used.read && lead.give(connection, ring) {
            return Some(Moved::Received);
        }
        if used.write {
            lead.send(token, connection.link_outgoing(), ring);
        }
        lead.receive(token, ring);
        Some(Moved::Nothing)
    }

    fn woke(&mut self, link: &mut Link) {
        if link.operated.is_none() {
            self.others().woke(link);
        }
    }
}
