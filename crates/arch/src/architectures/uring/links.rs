//! A connection of a ring and its link: what is waited for, and whose turn it is.

use flyball_conn::Needs;
use flyball_sys::readiness::Interest;

use super::operations::Operations;
use super::slot::{Receiving, Slot};
use crate::awaited::Awaited;
use crate::desk::Desk;
use crate::kernel::uring::Completion;
use crate::links::link;
use crate::slots::Token;

impl Operations {
    /// Waits for what a connection wants of its link, and that its client leaves, where its input
    /// is not wanted: true when it can go on at once.
    pub(super) fn await_link(
        &mut self,
        needs: &mut Needs,
        slot: &mut Slot,
        token: Token,
        desk: &mut Desk,
    ) -> bool {
        let Some(Awaited { interest, reads, .. }) =
            link::awaited(&mut slot.link, needs.watch.take())
        else {
            return false;
        };
        let ahead = slot.input.ahead.as_ref().filter(|_| !reads);
        if ahead.is_some_and(|ahead| ahead.end.is_some()) {
            slot.connection.client_left(desk);
            return true;
        }
        if slot.input.ahead.is_none() && slot.input.receiving == Receiving::No {
            // What comes is kept for later; its end is all that matters now.
            let own = std::mem::take(&mut slot.input.needs_own);
            self.ring.receive(&slot.socket, token.bits(), false, own);
            slot.input.receiving = Receiving::Once;
        }
        slot.link_wanted = interest;
        false
    }

    /// A turn of a connection begins.
    pub(super) fn woke(&mut self, slot: &mut Slot, token: Token) {
        slot.connection.woke();
        slot.link_wanted = Interest::NONE;
        link::woke(&mut self.links.of(token, &mut self.ring), &mut slot.link);
    }

    /// Its turn is over: its link is watched for what is waited for.
    pub(super) fn turned(&mut self, slot: &mut Slot, token: Token) {
        self.links.turned(&mut slot.link, token, slot.link_wanted, &mut self.ring);
    }

    /// Does what a connection needs of its link, as far as that goes at once; false when that is
    /// nothing.
    pub(super) fn serve_link(
        &mut self,
        needs: &Needs,
        slot: &mut Slot,
        token: Token,
        desk: &Desk,
    ) -> bool {
        let mut pool = self.links.of(token, &mut self.ring);
        let Slot { link, connection, .. } = slot;
        link::serve(&mut pool, link, needs, connection, (&desk.upstreams, desk))
    }

    /// Whose turn it is since something of a link is complete; gives back what is of no link.
    pub(super) fn link_completed(
        &mut self,
        bits: u64,
        completion: Completion,
    ) -> Result<Option<Token>, Completion> {
        self.links.completed(bits, completion, &mut self.ring)
    }

    /// No link is kept any more.
    pub(super) fn close_links(&mut self) {
        self.links.close(&mut self.ring);
    }

    /// Output is on its way: takes meanwhile what a backend says, and waits for more of that. True
    /// when there is work on the disk.
    pub(super) fn held_back(&mut self, slot: &mut Slot, token: Token, desk: &mut Desk) -> bool {
        let mut needs = Needs::default();
        loop {
            slot.connection.held_back(desk);
            slot.connection.needs(&mut needs);
            if !self.serve_link(&needs, slot, token, desk) {
                break;
            }
        }
        let awaited = link::awaited(&mut slot.link, needs.watch.take());
        slot.link_wanted = awaited.map_or(Interest::NONE, |awaited| awaited.interest);
        needs.asks.first().is_some()
    }
}
