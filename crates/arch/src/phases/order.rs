//! The order in which a work phase takes the connections that are ready (M49).

use std::os::fd::AsRawFd;

use super::connection::Slot;
use crate::settings::WorkOrder;
use crate::slots::{Slots, Token};

/// Arranges the list of turns of a work phase.
#[derive(Debug)]
pub(super) struct Arranger {
    order: WorkOrder,
    /// Turns and accepts so far, for the least recently worked on.
    turns: u64,
    /// So many at the head of the next list had no turn in the last phase, whose time was over.
    left: usize,
    /// Scratch: what connections are sorted by, and their tokens.
    keyed: Vec<((u64, u64), Token)>,
}

impl Arranger {
    pub(super) fn new(order: WorkOrder) -> Arranger {
        Arranger { order, turns: 0, left: 0, keyed: Vec::new() }
    }

    /// The connection is worked on now, or was accepted.
    pub(super) fn worked_on(&mut self, slot: &mut Slot) {
        if self.order == WorkOrder::Lru {
            self.turns += 1;
            slot.worked = self.turns;
        }
    }

    /// The next list begins with so many that had no turn in this phase. They stay there: newcomers
    /// could come before them for ever.
    pub(super) fn leaves(&mut self, left: usize) {
        self.left = left;
    }

    /// Brings a list that is in the order of reports into the order that is asked for, behind those
    /// that were left. Connections that are over drop out where the order needs to look at them.
    pub(super) fn arrange(&mut self, list: &mut Vec<Token>, slots: &mut Slots<Slot>) {
        let left = std::mem::take(&mut self.left).min(list.len());
        match self.order {
            WorkOrder::Fifo => return,
            WorkOrder::Lifo => return list[left..].reverse(),
            _ => {}
        }
        for &token in &list[left..] {
            if let Some(slot) = slots.find(token) {
                self.keyed.push((key(self.order, slot), token));
            }
        }
        // No two keys are equal: descriptors and turns are unique.
        self.keyed.sort_unstable_by_key(|(key, _)| *key);
        list.truncate(left);
        list.extend(self.keyed.drain(..).map(|(_, token)| token));
    }
}

fn key(order: WorkOrder, slot: &Slot) -> (u64, u64) {
    let up = u64::from(slot.socket.as_raw_fd().unsigned_abs());
    let reads = u64::from(!slot.connection.has_output());
    match order {
        WorkOrder::Fifo | WorkOrder::Lifo => (0, 0),
        WorkOrder::Up => (0, up),
        WorkOrder::Down => (0, u64::MAX - up),
        WorkOrder::WritesFirstUp => (reads, up),
        WorkOrder::WritesFirstDown => (reads, u64::MAX - up),
        WorkOrder::Lru => (0, slot.worked),
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::open_slot;
    use super::*;
    use crate::desk::Desk;
    use crate::timers::Timers;
    use std::net::SocketAddr;
    use std::os::unix::net::UnixStream;

    const REQUEST: &[u8] = b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Gives a connection output to send.
    fn answer(slot: &mut Slot, desk: &mut Desk) {
        let space = slot.connection.space(desk);
        space[..REQUEST.len()].copy_from_slice(REQUEST);
        slot.connection.received(REQUEST.len(), desk);
        let mut needs = flyball_conn::Needs::default();
        slot.connection.go_on(&mut needs, desk);
        while let Some(mut plan) = needs.asks.first().and_then(|ask| slot.connection.take_plan(ask))
        {
            plan.run();
            slot.connection.done(*plan, desk);
            slot.connection.needs(&mut needs);
        }
        assert!(slot.connection.out().is_some());
    }

    /// Arranges connections 0 to 3, named by their place in the order of descriptors, which were
    /// reported as 2, 0, 3, 1; 0 and 3 have output to send, and they were worked on as 1, 3, 2, 0.
    /// So many were left by the phase before.
    fn arranged_behind(left: usize, order: WorkOrder) -> Vec<usize> {
        let (mut desk, mut slots, mut timers) =
            (Desk::for_tests(), Slots::default(), Timers::new(0));
        let mut sockets: Vec<UnixStream> = (0..2)
            .flat_map(|_| {
                let (one, other) = UnixStream::pair().unwrap();
                [one, other]
            })
            .collect();
        sockets.sort_by_key(AsRawFd::as_raw_fd);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let tokens: Vec<Token> = sockets
            .into_iter()
            .map(|socket| open_slot(socket.into(), peer.into(), &mut desk, &mut slots, &mut timers))
            .collect();
        let mut arranger = Arranger::new(order);
        for at in [0, 3] {
            answer(slots.find(tokens[at]).unwrap(), &mut desk);
        }
        for at in [1, 3, 2, 0] {
            arranger.worked_on(slots.find(tokens[at]).unwrap());
        }
        let mut list: Vec<Token> = [2, 0, 3, 1].map(|at| tokens[at]).to_vec();
        arranger.leaves(left);
        arranger.arrange(&mut list, &mut slots);
        list.iter().map(|token| tokens.iter().position(|other| other == token).unwrap()).collect()
    }

    fn arranged(order: WorkOrder) -> Vec<usize> {
        arranged_behind(0, order)
    }

    #[test]
    fn those_that_had_no_turn_come_before_those_that_are_reported() {
        assert_eq!(arranged_behind(2, WorkOrder::Fifo), [2, 0, 3, 1]);
        assert_eq!(arranged_behind(2, WorkOrder::Lifo), [2, 0, 1, 3]);
        assert_eq!(arranged_behind(2, WorkOrder::Up), [2, 0, 1, 3]);
        assert_eq!(arranged_behind(1, WorkOrder::WritesFirstDown), [2, 3, 0, 1]);
        assert_eq!(arranged_behind(9, WorkOrder::Down), [2, 0, 3, 1]);
    }

    #[test]
    fn each_order_is_what_it_says() {
        assert_eq!(arranged(WorkOrder::Fifo), [2, 0, 3, 1]);
        assert_eq!(arranged(WorkOrder::Lifo), [1, 3, 0, 2]);
        assert_eq!(arranged(WorkOrder::Up), [0, 1, 2, 3]);
        assert_eq!(arranged(WorkOrder::Down), [3, 2, 1, 0]);
        assert_eq!(arranged(WorkOrder::WritesFirstUp), [0, 3, 1, 2]);
        assert_eq!(arranged(WorkOrder::WritesFirstDown), [3, 0, 2, 1]);
        assert_eq!(arranged(WorkOrder::Lru), [1, 3, 2, 0]);
    }
}
