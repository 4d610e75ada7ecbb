//! A connection that moves from stage to stage. Whoever has it owns it: there is no lock.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use flyball_conn::{Connection, Peer};
use flyball_observe::standing::{Standing, StateChanges};
use flyball_site::Plan;
use flyball_sys::owned::Owned;

use crate::awaited::Awaited;
use crate::desk::Desk;
use crate::drive::Ready;
use crate::links::Held;
use crate::worker::Order;

/// A connection and what the stages know about it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) socket: Owned,
    pub(crate) connection: Connection,
    /// The partition that it belongs to for life.
    pub(crate) partition: usize,
    /// Work that may wait on the disk, for the next stage.
    pub(crate) plan: Option<Box<Plan>>,
    /// What of its backend is waited for in a poll stage.
    pub(crate) awaited: Option<Box<Awaited>>,
    /// What is known of the socket.
    pub(crate) ready: Ready,
    /// Its link to a server.
    pub(crate) link: Held,
    /// By which of the two poll stages it has been watched.
    pub(super) watched: [bool; 2],
    /// The last order that it was told.
    pub(crate) told: Told,
    counted: Option<Standing>,
}

/// A connection may go to any thread.
const _: () = {
    const fn may_move<T: Send>() {}
    may_move::<Line>();
    may_move::<Connection>();
};

impl Line {
    /// One that was accepted now.
    pub(crate) fn new(socket: Owned, peer: Peer, partition: usize, desk: &Desk) -> Line {
        Line {
            socket,
            connection: Connection::new(peer, desk),
            partition,
            plan: None,
            awaited: None,
            ready: Ready::default(),
            link: None,
            watched: [false; 2],
            told: Told::default(),
            counted: None,
        }
    }

    /// Passes an order on to the machine, once. True when it was news.
    pub(crate) fn tell(&mut self, order: Option<Order>) -> bool {
        self.told.tell(order, &mut self.connection)
    }

    /// Counts the state that a stage leaves it in.
    pub(crate) fn count(&mut self, changes: &mut StateChanges) {
        let state = Some(self.connection.standing());
        if state != self.counted {
            changes.count(self.counted, state);
            self.counted = state;
        }
    }

    /// Counts that it is over.
    pub(crate) fn count_out(&mut self, changes: &mut StateChanges) {
        changes.count(self.counted.take(), None);
    }
}

/// The last order that a connection was told, as its rank.
#[derive(Debug, Default)]
pub(crate) struct Told(pub(super) u8);

impl Told {
    /// Passes an order on to the machine, once. True when it was news.
    pub(crate) fn tell(&mut self, order: Option<Order>, connection: &mut Connection) -> bool {
        let Some(order) = order.filter(|order| rank(Some(*order)) > self.0) else {
            return false;
        };
        self.0 = rank(Some(order));
        connection.drain(order);
        true
    }
}

/// A stop may follow a retirement, never the reverse.
pub(super) fn rank(order: Option<Order>) -> u8 {
    match order {
        None => 0,
        Some(Order::Retire) => 1,
        Some(Order::Stop) => 2,
    }
}

/// The last order that reached the pipeline, for all of its threads.
#[derive(Debug, Default)]
pub(crate) struct Reached(AtomicU8);

impl Reached {
    pub(crate) fn set(&self, order: Order) {
        self.0.fetch_max(rank(Some(order)), SeqCst);
    }

    pub(crate) fn order(&self) -> Option<Order> {
        match self.0.load(SeqCst) {
            0 => None,
            1 => Some(Order::Retire),
            _ => Some(Order::Stop),
        }
    }
}
