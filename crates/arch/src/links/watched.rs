//! The links of an event loop. One that is in use belongs to its connection, and what is told of it
//! is that connection's turn; one at rest stays watched, for input and hang-up alone, and either
//! ends it: a server says nothing that it was not asked for.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use flyball_site::Upstream;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{Event, Interest, Readiness};

use super::link::{Held, Link, Pool};
use super::shared::Upstreams;
use super::users::{Resting, Used, User};
use crate::awaited::Awaited;
use crate::kernel::net;
use crate::kernel::uring::{self, Ring};
use crate::slots::{Slots, Token};

/// Marks, in the bits of a token, events of a link; slots never have so high a number.
pub(crate) const LINK: u64 = 1 << 29;

/// What tells of links.
pub(crate) trait Teller {
    /// Tells of one from now on, under these bits.
    fn add(&mut self, socket: &Arc<Owned>, bits: u64, interest: Interest) -> io::Result<()>;

    /// Tells of something else.
    fn change(&mut self, socket: &Arc<Owned>, bits: u64, interest: Interest) -> io::Result<()>;

    /// Tells nothing more.
    fn remove(&mut self, socket: &Owned, bits: u64);

    /// Likewise, of one that is closed right after that.
    fn forget(&mut self, socket: &Owned, bits: u64);

    /// Whether an event comes once for each change.
    fn is_edge_triggered(&self) -> bool;

    /// Whether what it tells may be true no more.
    fn is_late(&self) -> bool;
}

impl Teller for dyn Readiness {
    fn add(&mut self, socket: &Arc<Owned>, bits: u64, interest: Interest) -> io::Result<()> {
        self.add_link(socket.as_fd(), bits, interest)
    }

    fn change(&mut self, socket: &Arc<Owned>, bits: u64, interest: Interest) -> io::Result<()> {
        self.change_link(socket.as_fd(), bits, interest)
    }

    fn remove(&mut self, socket: &Owned, _: u64) {
        Readiness::remove(self, socket.as_fd());
    }

    fn forget(&mut self, socket: &Owned, _: u64) {
        Readiness::forget(self, socket.as_fd());
    }

    fn is_edge_triggered(&self) -> bool {
        Readiness::is_edge_triggered(self)
    }

    fn is_late(&self) -> bool {
        false
    }
}

/// A ring holds the socket of an operation until that has completed.
impl Teller for Ring {
    fn add(&mut self, socket: &Arc<Owned>, bits: u64, interest: Interest) -> io::Result<()> {
        self.poll_events(Arc::clone(socket), bits, interest);
        Ok(())
    }

    fn change(&mut self, socket: &Arc<Owned>, bits: u64, interest: Interest) -> io::Result<()> {
        self.stop_events(bits);
        Teller::add(self, socket, bits, interest)
    }

    fn remove(&mut self, _: &Owned, bits: u64) {
        self.stop_events(bits);
    }

    fn forget(&mut self, _: &Owned, bits: u64) {
        self.stop_events(bits);
    }

    fn is_edge_triggered(&self) -> bool {
        true
    }

    fn is_late(&self) -> bool {
        true
    }
}

/// A link that the event mechanism knows.
#[derive(Debug)]
struct Watched {
    /// What it is watched for.
    interest: Interest,
    user: User,
    /// What was told since its connection last had a turn.
    told: Event,
}

/// What the event mechanism is to be told at the end of a turn.
#[derive(Debug)]
enum News {
    /// This one is at rest, and was never watched.
    Rests(Box<Link>),
    /// This one is at rest, and was watched for something else.
    Waits(Token),
    /// This one is closed.
    Closed(Arc<Owned>, Token),
}

/// All of a loop.
#[derive(Debug, Default)]
pub(crate) struct Links {
    table: Slots<Watched>,
    resting: Resting,
    news: Vec<News>,
    /// None is kept any more.
    is_closing: bool,
}

impl Links {
    /// Something happened to a link: whose turn that is. One at rest is closed.
    pub(crate) fn event(
        &mut self,
        event: &Event,
        teller: &mut (impl Teller + ?Sized),
    ) -> Option<Token> {
        let token = Token::from_bits(event.token & !LINK);
        let watched = self.table.find(token)?;
        watched.told.read |= event.read;
        watched.told.write |= event.write;
        watched.told.hangup |= event.hangup;
        match &watched.user {
            User::Connection(connection) => Some(*connection),
            // Room says nothing.
            User::None(_) if !event.read && !event.hangup => None,
            User::None(link) if teller.is_late() && net::has_input(&*link.socket).is_none() => None,
            User::None(link) => {
                teller.forget(&link.socket, token.bits() | LINK);
                self.table.remove(token);
                None
            }
        }
    }

    /// A ring tells of a link, and tells more of it or not: whose turn that is.
    pub(crate) fn completed(
        &mut self,
        bits: u64,
        found: &io::Result<Event>,
        more: bool,
        ring: &mut Ring,
    ) -> Option<Token> {
        let lost = Event { token: bits, read: true, write: true, hangup: true };
        let event = match found {
            Ok(event) => event,
            // That was asked for.
            Err(error) if uring::is_undone(error) => return None,
            Err(_) => &lost,
        };
        let turn = self.event(event, ring);
        if !more {
            // Who uses it has it watched again; one at rest is closed.
            ring.stop_events(bits);
            self.table.remove(Token::from_bits(bits & !LINK));
        }
        turn
    }

    fn watch(
        &mut self,
        held: &mut Held,
        connection: Token,
        wanted: Interest,
        teller: &mut (impl Teller + ?Sized),
    ) {
        let Some(link) = held else { return };
        let Some((token, watched)) =
            link.watched.and_then(|token| Some((token, self.table.find(token)?)))
        else {
            if wanted != Interest::NONE {
                let (user, interest) =
                    (User::Connection(connection), Interest { read: true, ..wanted });
                link.watched = self.add(&link.socket, user, interest, teller);
            }
            return;
        };
        // Input stays watched until it comes and is not wanted: a level is told again and again. An
        // edge is told once.
        let is_edge = teller.is_edge_triggered();
        let is_silent = watched.interest.read && !link.read;
        let interest = Interest {
            read: wanted.read || is_silent || is_edge,
            write: wanted.write || watched.interest.write && is_edge,
        };
        if interest == Interest::NONE && link.hangup {
            // It is told whatever is asked for, again and again while a client is slow.
            teller.remove(&link.socket, token.bits() | LINK);
            self.table.remove(token);
            link.watched = None;
            return;
        }
        let bits = token.bits() | LINK;
        if watched.interest != interest && teller.change(&link.socket, bits, interest).is_ok() {
            watched.interest = interest;
        }
    }

    /// The turn of a connection is over: its link is watched for what it waits for, and what tells
    /// of links learns of what became of others.
    pub(crate) fn end_turn(
        &mut self,
        held: &mut Held,
        connection: Token,
        awaited: Option<&Awaited>,
        teller: &mut (impl Teller + ?Sized),
    ) {
        let wanted = awaited.map(|one| one.interest);
        self.turned(held, connection, wanted.unwrap_or_default(), teller);
    }

    /// Likewise, where it is known what is wanted of its link.
    pub(crate) fn turned(
        &mut self,
        held: &mut Held,
        connection: Token,
        wanted: Interest,
        teller: &mut (impl Teller + ?Sized),
    ) {
        if held.is_some() {
            self.watch(held, connection, wanted, teller);
        }
        self.settle(teller);
    }

    /// A connection is over, and with it its link.
    pub(crate) fn abandon(
        &mut self,
        held: Held,
        connection: Token,
        teller: &mut (impl Teller + ?Sized),
    ) {
        if let Some(link) = held {
            LinksOf { links: self, connection }.let_go(link, false);
        }
        self.settle(teller);
    }

    fn add(
        &mut self,
        socket: &Arc<Owned>,
        user: User,
        interest: Interest,
        teller: &mut (impl Teller + ?Sized),
    ) -> Option<Token> {
        let told = Event { token: 0, read: false, write: false, hangup: false };
        let token = self.table.insert(Watched { interest, user, told });
        let added = teller.add(socket, token.bits() | LINK, interest);
        if added.is_err() {
            // Without events its deadline is what ends the wait.
            self.table.remove(token);
            return None;
        }
        Some(token)
    }

    fn settle(&mut self, teller: &mut (impl Teller + ?Sized)) {
        if self.news.is_empty() {
            return;
        }
        for news in std::mem::take(&mut self.news) {
            match news {
                News::Closed(socket, token) => teller.forget(&socket, token.bits() | LINK),
                News::Waits(token) => self.watch_resting(token, teller),
                News::Rests(link) => {
                    let socket = Arc::clone(&link.socket);
                    let user = User::None(link);
                    let token = self.add(&socket, user, Interest::READ, teller);
                    token.into_iter().for_each(|token| self.resting.push(token));
                }
            }
        }
    }

    /// Of one at rest input and hang-up alone are told. One that cannot be watched is closed.
    fn watch_resting(&mut self, token: Token, teller: &mut (impl Teller + ?Sized)) {
        let Some(watched) = self.table.find(token) else { return };
        let User::None(link) = &watched.user else { return };
        let bits = token.bits() | LINK;
        match teller.change(&link.socket, bits, Interest::READ) {
            Ok(()) => watched.interest = Interest::READ,
            Err(_) => {
                teller.forget(&link.socket, bits);
                self.table.remove(token);
            }
        }
    }

    /// Closes those at rest, and keeps none any more: each holds a process of its server.
    pub(crate) fn close(&mut self, teller: &mut (impl Teller + ?Sized)) {
        self.is_closing = true;
        for token in self.resting.take_all() {
            if let Some(Watched { user: User::None(link), .. }) = self.table.remove(token) {
                teller.forget(&link.socket, token.bits() | LINK);
            }
        }
    }
}

impl Watched {
    /// Whether nothing was told that its connection has not seen.
    fn may_rest(&self) -> bool {
        !self.told.read && !self.told.hangup
    }
}

impl Used for Watched {
    fn user(&mut self) -> &mut User {
        &mut self.user
    }
}

/// The links of a loop, in the turn of one connection.
pub(crate) struct LinksOf<'a> {
    pub(crate) links: &'a mut Links,
    pub(crate) connection: Token,
}

impl LinksOf<'_> {
    /// Keeps a link for another request, or closes it.
    fn let_go(&mut self, mut link: Box<Link>, keeps: bool) {
        let links = &mut *self.links;
        let token = link.watched.take();
        let watched = token.and_then(|token| links.table.find(token));
        // Of one that was never watched all that it holds is told once it is.
        let may_rest = !link.hangup && watched.is_none_or(|one| link.is_quiet() && one.may_rest());
        let keeps = keeps && may_rest && !links.is_closing;
        let Links { table, resting, .. } = links;
        let has_room = |one: &Arc<Upstream>| resting.count(table, one) < one.bounds().idle_max;
        if !keeps || !link.upstream().is_some_and(has_room) {
            if let Some(token) = token {
                links.table.remove(token);
                links.news.push(News::Closed(Arc::clone(&link.socket), token));
            }
            return;
        }
        // Who waits for the place finds the link.
        let place = link.take_place();
        match token.and_then(|token| Some((token, links.table.find(token)?))) {
            Some((token, watched)) => {
                watched.user = User::None(link);
                links.resting.push(token);
                // A client was slower, so that no input was wanted; or room was.
                if watched.interest != Interest::READ {
                    links.news.push(News::Waits(token));
                }
            }
            None => links.news.push(News::Rests(link)),
        }
        drop(place);
    }
}

impl Pool for LinksOf<'_> {
    fn take(&mut self, upstream: &Arc<Upstream>, _: &Upstreams) -> Held {
        let Links { table, resting, .. } = &mut *self.links;
        let (token, mut link) = resting.take(table, upstream, self.connection)?;
        (link.watched, link.write) = (Some(token), true);
        Some(link)
    }

    fn leave(&mut self, held: &mut Held, keeps: bool, _: &Upstreams) {
        if let Some(link) = held.take() {
            self.let_go(link, keeps);
        }
    }

    fn woke(&mut self, link: &mut Link) {
        let watched = link.watched.and_then(|token| self.links.table.find(token));
        let Some(watched) = watched else {
            (link.read, link.write) = (true, true);
            return;
        };
        link.read |= watched.told.read;
        link.write |= watched.told.write;
        link.hangup |= watched.told.hangup;
        watched.told = Event { token: 0, read: false, write: false, hangup: false };
    }
}
