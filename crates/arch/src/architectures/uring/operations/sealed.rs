//! Sending over TLS on a ring: what is read of a file is sealed, and what is sealed leaves as
//! memory does.

use std::io::IoSlice;

use flyball_conn::Unsealed;

use super::super::slot::Slot;
use super::Operations;
use crate::desk::Desk;
use crate::kernel::net;
use crate::kernel::uring::Then;
use crate::slots::Token;

impl Operations {
    /// Output is wanted: true when the connection can go on at once, else it is on its way.
    pub(super) fn start_sealed(&mut self, slot: &mut Slot, token: Token, desk: &mut Desk) -> bool {
        if !slot.output.waits_for_room && !slot.output.sending {
            self.seal(slot);
            if slot.connection.out().is_some() {
                self.send_memory(slot, token);
            }
        }
        if slot.connection.body().is_some() {
            slot.output.pieces.get_or_insert_default();
            self.read_piece(slot, token, desk);
        }
        // It has given up where nothing could be sealed.
        slot.connection.goes_on()
    }

    /// Seals the next batch, unless one is on its way.
    fn seal(&mut self, slot: &mut Slot) {
        let Slot { connection, output, .. } = slot;
        if let Unsealed::Memory = connection.unsealed() {
            connection.seal();
        }
        if let Unsealed::File { .. } = connection.unsealed()
            && let Some(pieces) = &mut output.pieces
            && let Some((buffer, range)) = pieces.send_next()
        {
            let sealed = connection.seal_piece(&self.ring.lent(&buffer)[range.clone()]);
            pieces.sent(buffer, range, sealed, &mut self.ring);
        }
    }

    /// A connection is over: what TLS has to say of the end is said, and what is under way ends
    /// soon.
    pub(crate) fn take_leave(&mut self, slot: &mut Slot, token: Token) {
        self.say_last_words(slot, token);
        if slot.is_busy() {
            self.interrupt(slot, token);
        }
    }

    /// What TLS has to say of the end is said, as far as there is room for it.
    pub(super) fn say_last_words(&mut self, slot: &mut Slot, token: Token) {
        let is_open = !slot.output.sending && !slot.ending.closed;
        let words = if is_open { slot.connection.last_words() } else { Vec::new() };
        match slot.socket.plain() {
            _ if words.is_empty() => {}
            Some(plain) => {
                let _ = net::send_gather_now(plain, &[IoSlice::new(&words)], false);
            }
            None => {
                let mut outgoing = self.ring.outgoing();
                outgoing.copy(&words);
                (slot.output.sending, slot.ending.says_end) = (true, true);
                self.ring.send(&slot.socket, outgoing, token.bits(), Then::Nothing);
            }
        }
    }
}
