//! The life of a connection in a user-level thread: straight-line code that parks where a blocking
//! thread would block.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use flyball_http::CloseReason;
use flyball_http::h1::state::State;
use flyball_site::Plan;
use flyball_sys::net;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::scheduler::{Here, Stand, Wake, Why};
use crate::awaited::{Awaited, BackendWatch, Client};
use crate::exchange::{Beside, Exchange, Step};
use crate::limits::READS_PER_TURN;
use crate::room::Yields;
use crate::transmit::{Sent, transmit};
use crate::worker::Order;

/// A connection, owned by the thread that serves it.
struct Connection {
    socket: Owned,
    exchange: Exchange,
    /// What the event mechanism watches the socket for.
    watched: Interest,
    /// Whether a read need not wait.
    readable: bool,
    /// After a hang-up there is still the end of the stream to be read.
    hangup: bool,
    reads: u32,
    /// Whether anything was received yet.
    begun: bool,
    /// Whether it may stay open between two requests.
    may_idle: bool,
    /// What the event mechanism knows of the backend that works for it.
    backend: BackendWatch,
    /// The last order that the machine knows of.
    obeyed: Option<Order>,
}

/// Serves one connection to its end, which comes between two requests unless it `may_idle` there.
pub(crate) fn serve_connection(
    here: &mut Here<'_>,
    socket: Owned,
    peer: SocketAddr,
    may_idle: bool,
) {
    let mut connection = Connection {
        exchange: Exchange::new(peer, &here.desk),
        socket,
        watched: Interest::NONE,
        readable: here.desk.settings.eager_read,
        hangup: false,
        reads: 0,
        begun: false,
        may_idle,
        backend: BackendWatch::default(),
        obeyed: None,
    };
    connection.hear(here);
    let reason = connection.serve(here);
    connection.close(here, reason);
}

impl Connection {
    fn serve(&mut self, here: &mut Here<'_>) -> CloseReason {
        loop {
            if here.ends() {
                return CloseReason::Draining;
            }
            if here.desk.now.ms() >= self.exchange.deadline() {
                let socket = &self.socket;
                self.exchange.expired(|| net::unacknowledged(socket), &mut here.desk);
            }
            let step = self.exchange.advance(&mut here.desk);
            let may_await = matches!(step, Step::Await(_) | Step::Write | Step::ReadWrite);
            if self.backend.is_set() && !may_await {
                here.watch_backend(&mut self.backend, None);
            }
            match step {
                Step::Read => self.receive(here),
                Step::Write => self.send(here, Interest::WRITE),
                Step::ReadWrite => {
                    if self.readable {
                        self.receive(here);
                    }
                    self.send(here, Interest::BOTH);
                }
                Step::Disk(plan) => self.disk(here, plan),
                Step::Await(awaited) => self.await_backend(here, &awaited),
                Step::Waiting => self.wait(here, Interest::NONE),
                Step::Shut => {
                    // It fails only when the peer has gone, which reading will show.
                    let _ = net::shutdown_write(&self.socket);
                    self.readable = true;
                    self.exchange.shut(&here.desk);
                }
                Step::Close(reason) => return reason,
            }
        }
    }

    /// Reads once, and parks before when nothing is there. A read that does not fill the buffer
    /// has emptied the socket.
    fn receive(&mut self, here: &mut Here<'_>) {
        if !self.readable {
            return self.wait(here, Interest::READ);
        }
        self.reads += 1;
        if self.reads > READS_PER_TURN {
            self.park(here, Why::Turn);
        }
        let space = self.exchange.space(&mut here.desk);
        let room = space.len();
        match net::recv(&self.socket, space) {
            Ok(0) => self.exchange.eof(&here.desk),
            Ok(n) => {
                self.begun = true;
                self.readable = n == room || self.hangup;
                self.exchange.received(n, &mut here.desk);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => self.readable = false,
                ErrorKind::Interrupted => {}
                _ => self.exchange.abort(CloseReason::ClientGone),
            },
        }
    }

    /// Sends all, or one piece of a large body; parks for `interest` when the socket is full.
    fn send(&mut self, here: &mut Here<'_>, interest: Interest) {
        match transmit(&self.socket, &mut self.exchange, &mut here.desk) {
            Sent::All => {}
            Sent::Full if self.readable && interest.read => self.park_for_turn(here),
            Sent::Full => self.wait_for_room(here, interest),
            Sent::Piece => self.park_for_turn(here),
            Sent::Absent => {
                if let Some(plan) = self.exchange.warm(&here.desk) {
                    self.disk(here, plan);
                }
            }
            Sent::Failed(reason) => self.exchange.send_failed(reason, &here.desk),
        }
    }

    /// Parks until there is room, or until the backend has more that can be taken meanwhile.
    fn wait_for_room(&mut self, here: &mut Here<'_>, interest: Interest) {
        match self.exchange.beside(&mut here.desk) {
            Beside::Nothing => here.watch_backend(&mut self.backend, None),
            Beside::Await(awaited) => here.watch_backend(&mut self.backend, Some(&awaited)),
            Beside::Disk(plan) => {
                here.watch_backend(&mut self.backend, None);
                return self.disk(here, plan);
            }
        }
        self.wait(here, interest);
    }

    /// A backend works: parks until it can go on, until there is input that is wanted, or until the
    /// client has left.
    fn await_backend(&mut self, here: &mut Here<'_>, awaited: &Awaited) {
        let mut interest = Interest::READ;
        if self.readable {
            if awaited.reads {
                return self.receive(here);
            }
            match Client::look(&self.socket) {
                Client::Left => return self.exchange.client_left(&mut here.desk),
                Client::Sends => interest = Interest::NONE,
                Client::Waits => self.readable = false,
            }
        }
        if self.obey(here) {
            return;
        }
        self.exchange.rest(&mut here.desk);
        self.watch(here, interest);
        here.watch_backend(&mut self.backend, Some(awaited));
        self.park(here, Why::Ready);
    }

    /// Has the work done by a helper, and parks until it is.
    fn disk(&mut self, here: &mut Here<'_>, plan: Box<Plan>) {
        let mut next = Some(plan);
        while let Some(plan) = next {
            let me = here.me();
            let done = match here.submit(me, plan) {
                Ok(done) => done,
                Err(errand) => {
                    let Some(done) = self.wait_for_disk(here) else {
                        // What it finds is for the caches alone.
                        here.errands.remove(errand);
                        return;
                    };
                    done
                }
            };
            next = self.exchange.resume(*done, &mut here.desk);
        }
    }

    /// Parks until the work is done, or until nobody waits for it any more.
    fn wait_for_disk(&mut self, here: &mut Here<'_>) -> Option<Box<Plan>> {
        let asked = self.is_asked();
        loop {
            // Nobody takes what the socket reports meanwhile, and it would be told again and again.
            // It is rare that input comes, so an interest in that is left in place until then.
            if self.readable || self.watched != Interest::READ {
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
            self.exchange.expired(|| net::unacknowledged(socket), &mut here.desk);
            if self.exchange.state() == State::Closed || asked && !self.is_asked() {
                return None;
            }
        }
    }

    fn is_asked(&self) -> bool {
        use State::{Asked, AskedBody, Exchanging, Streaming};
        matches!(self.exchange.state(), Asked | AskedBody | Exchanging | Streaming)
    }

    /// Parks until the socket is ready or the deadline passes, unless there is an order to obey.
    fn wait(&mut self, here: &mut Here<'_>, interest: Interest) {
        if self.obey(here) {
            return;
        }
        let idles = self.exchange.state() == State::Idle && interest == Interest::READ;
        if idles && self.begun && !self.may_idle {
            return self.exchange.end_if_idle();
        }
        self.exchange.rest(&mut here.desk);
        self.watch(here, interest);
        let woken = self.park(here, Why::Ready);
        let is_slow = self.exchange.lags_since().is_some();
        if matches!(woken, Wake::MakeRoom) && (is_slow || !self.readable) {
            self.exchange.abort(CloseReason::MadeRoom);
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
        let deadline = self.exchange.deadline();
        let (standing, yields) = (self.exchange.standing(), Yields::of(&self.exchange, true));
        let stand = Stand { standing, yields };
        let woken = here.park(why, deadline, Some(stand));
        let reported = here.reported();
        self.hangup |= reported.hangup;
        self.readable |= reported.read;
        self.reads = 0;
        self.hear(here);
        woken
    }

    /// From an order on, each answer is the last, and what has arrived is read before the order is
    /// obeyed: it is under way, although nobody has seen it.
    fn hear(&mut self, here: &mut Here<'_>) {
        if here.order != self.obeyed {
            self.exchange.drain(Order::Retire);
            self.readable = true;
        }
    }

    /// Tells the machine of an order that it does not know; true when there is one.
    fn obey(&mut self, here: &mut Here<'_>) -> bool {
        match here.order {
            Some(order) if self.obeyed != Some(order) => {
                self.obeyed = Some(order);
                self.exchange.drain(order);
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
        here.watch_backend(&mut self.backend, None);
        if self.watched != Interest::NONE {
            here.forget(self.socket.as_fd());
        }
        here.close(self.exchange, self.socket, reason);
    }
}
