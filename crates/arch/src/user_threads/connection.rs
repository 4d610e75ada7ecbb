//! The life of a connection in a user-level thread: straight-line code that parks where a blocking
//! thread would block.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use flyball_conn::{Connection, Peer};
use flyball_http::CloseReason;
use flyball_site::Plan;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::commons::{Commons, Errands};
use super::scheduler::{Here, Stand, Wake, Why};
use crate::desk::Desk;
use crate::drive::{Port, Ready, Turn, drive, resume};
use crate::kernel::net;
use crate::links::{Held, Links, LinksOf, Pool};
use crate::room::Yields;
use crate::slots::Token;
use crate::worker::Order;

/// A connection, owned by the thread that serves it.
struct Line {
    socket: Owned,
    connection: Connection,
    /// What the event mechanism watches the socket for.
    watched: Interest,
    ready: Ready,
    /// Its link to a server.
    link: Held,
    /// Whether anything was received yet.
    begun: bool,
    /// Whether it may stay open between two requests.
    may_idle: bool,
    /// The last order that the machine knows of.
    obeyed: Option<Order>,
}

/// Serves one connection to its end, which comes between two requests unless it `may_idle` there.
pub(crate) fn serve_connection(here: &mut Here<'_>, socket: Owned, peer: Peer, may_idle: bool) {
    let mut line = Line {
        connection: Connection::new(peer, &here.desk),
        socket,
        watched: Interest::NONE,
        ready: Ready { read: here.desk.settings.eager_read, ..Ready::default() },
        link: None,
        begun: false,
        may_idle,
        obeyed: None,
    };
    line.hear(here);
    let reason = line.serve(here);
    line.close(here, reason);
}

/// A user-level thread's way to work on its connection. It never parks: the thread does.
struct ThreadPort<'a> {
    socket: &'a Owned,
    ready: &'a mut Ready,
    link: &'a mut Held,
    links: &'a mut Links,
    begun: &'a mut bool,
    me: Token,
    errands: &'a mut Errands,
    /// The work that a helper does for it.
    errand: Option<Token>,
}

impl Port for ThreadPort<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ready(&mut self) -> &mut Ready {
        self.ready
    }

    fn link(&mut self) -> (&mut Held, impl Pool) {
        (self.link, LinksOf { links: self.links, connection: self.me })
    }

    fn receive(&mut self, space: &mut [u8], _: &Desk) -> io::Result<usize> {
        let received = net::recv(self.socket, space);
        *self.begun |= received.as_ref().is_ok_and(|n| *n > 0);
        received
    }

    /// Not while a helper works: the thread waits for that alone.
    fn may_send(&mut self, _reads: bool, _: &Desk) -> bool {
        self.errand.is_none()
    }

    fn perform(&mut self, plan: Box<Plan>, _: &mut Connection, _: &mut Desk) -> Option<Box<Plan>> {
        match self.errands.send(self.me, plan) {
            Ok(done) => Some(done),
            Err(errand) => {
                self.errand = Some(errand);
                None
            }
        }
    }
}

impl Line {
    fn serve(&mut self, here: &mut Here<'_>) -> CloseReason {
        let mut done = None;
        loop {
            if here.ends() {
                self.connection.cut_off();
                return CloseReason::Draining;
            }
            let (turn, errand) = self.turn(done.take(), here);
            let awaited = if let Turn::Wait(_, awaited) = &turn { awaited.as_ref() } else { None };
            here.watch_link(&mut self.link, awaited);
            match (turn, errand) {
                (Turn::Over(reason), _) => return reason,
                (_, Some(errand)) => {
                    done = self.wait_for_disk(here);
                    if done.is_none() {
                        // What it finds is for the caches alone.
                        here.errands.forget(errand);
                    }
                }
                (Turn::Wait(interest, _), None) => self.wait(here, interest),
                (Turn::Again | Turn::Elsewhere, None) => self.park_for_turn(here),
            }
        }
    }

    /// Goes as far as it can, first with work that is done; and what a helper does for it then.
    fn turn(&mut self, done: Option<Box<Plan>>, here: &mut Here<'_>) -> (Turn, Option<Token>) {
        let me = here.me();
        let Commons { desk, errands, links, .. } = &mut **here;
        let Line { socket, connection, ready, link, begun, .. } = self;
        let mut port = ThreadPort { socket, ready, link, links, begun, me, errands, errand: None };
        let turn = match done {
            Some(done) => resume(&mut port, connection, done, desk),
            None => drive(&mut port, connection, desk),
        };
        (turn, port.errand)
    }

    /// Parks until the work is done, or until nobody waits for it any more.
    fn wait_for_disk(&mut self, here: &mut Here<'_>) -> Option<Box<Plan>> {
        let asked = self.connection.is_asked();
        loop {
            // Nobody takes what the socket reports meanwhile, and it would be told again and again.
            // It is rare that input comes, so an interest in that is left in place until then.
            if self.ready.read || self.watched != Interest::READ {
                self.watch(here, Interest::NONE);
            }
            let woken = self.park(here, Why::Disk);
            self.obey(here);
            if let Wake::Done(plan) = woken {
                return Some(plan);
            }
            if here.ends() {
                return None;
            }
            let socket = &self.socket;
            self.connection.expired(|| net::unacknowledged(socket), &mut here.desk);
            if self.connection.is_over() || asked && !self.connection.is_asked() {
                return None;
            }
        }
    }

    /// Parks until the socket is ready or the deadline passes, unless there is an order to obey.
    fn wait(&mut self, here: &mut Here<'_>, interest: Interest) {
        if self.obey(here) {
            return;
        }
        let idles = self.connection.is_idle() && interest == Interest::READ;
        if idles && self.begun && !self.may_idle && self.connection.end_if_idle() {
            return;
        }
        self.connection.rest(&mut here.desk);
        self.watch(here, interest);
        let woken = self.park(here, Why::Ready);
        let is_slow = self.connection.lags_since().is_some();
        if matches!(woken, Wake::MakeRoom) && (is_slow || !self.ready.read) {
            self.connection.make_room();
        }
    }

    /// Lets the others have their turn.
    fn park_for_turn(&mut self, here: &mut Here<'_>) {
        self.obey(here);
        self.park(here, Why::Turn);
    }

    fn park(&mut self, here: &mut Here<'_>, why: Why) -> Wake {
        if here.ends() {
            return Wake::End;
        }
        let deadline = self.connection.deadline();
        let (standing, yields) = (self.connection.standing(), Yields::of(&self.connection, true));
        let stand = Stand { standing, yields };
        let woken = here.park(why, deadline, Some(stand));
        let reported = here.reported();
        self.ready.hangup |= reported.hangup;
        self.ready.read |= reported.read;
        self.hear(here);
        woken
    }

    /// From an order on, each answer is the last, and what has arrived is read before the order is
    /// obeyed: it is under way, although nobody has seen it.
    fn hear(&mut self, here: &mut Here<'_>) {
        if here.order != self.obeyed {
            self.connection.drain(Order::Retire);
            self.ready.read = true;
        }
    }

    /// Tells the machine of an order that it does not know; true when there is one.
    fn obey(&mut self, here: &mut Here<'_>) -> bool {
        match here.order {
            Some(order) if self.obeyed != Some(order) => {
                self.obeyed = Some(order);
                self.connection.drain(order);
                true
            }
            _ => false,
        }
    }

    fn watch(&mut self, here: &mut Here<'_>, interest: Interest) {
        let me = here.me();
        self.watched = here.watch(self.socket.as_fd(), me, self.watched, interest);
    }

    fn close(mut self, here: &mut Here<'_>, reason: CloseReason) {
        here.close_link(self.link.take());
        if self.watched != Interest::NONE {
            here.forget(self.socket.as_fd());
        }
        here.close(self.connection, self.socket, reason);
    }
}
