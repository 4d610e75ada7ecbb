//! Sending over TLS: what is sealed leaves, and the next batch is sealed then. A file's bytes are
//! read for that, by the same rules as where they are copied: references and mappings would have
//! the cryptography wait for the disk, or fault.

use std::io::{ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;

use flyball_conn::{Connection, Unsealed};
use flyball_http::CloseReason;

use super::{Call, GATHER_MAX, Only, Part, Sent, gather};
use crate::desk::Desk;

/// Sends what is sealed, or seals a batch and sends that: others may have their turn before the
/// next one.
pub(super) fn transmit_sealed(
    socket: BorrowedFd<'_>,
    connection: &mut Connection,
    desk: &mut Desk,
) -> Sent {
    loop {
        if let Err(sent) = seal(connection, desk) {
            // What is sealed before a piece that is not there leaves first.
            if connection.out().is_none() {
                return sent;
            }
        }
        connection.sends();
        let Some(out) = connection.out() else { return Sent::All };
        let is_all = connection.is_all_sealed();
        let mut slices = [IoSlice::new(&[]); GATHER_MAX];
        let (count, _) = out.gather(&mut slices);
        let slices = &slices[..count];
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let more = !is_all || connection.ends_with_output();
        let waits = !desk.sender.only_sendfile_waits && !connection.is_relayed();
        let called = gather(socket, slices, more, waits);
        connection.has_sent();
        match called {
            Ok(sent) => {
                connection.sent(sent as u64, desk);
                if sent < offered {
                    return Sent::Full;
                }
                if connection.produces_more() || connection.has_output() {
                    return Sent::Piece;
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Sent::Full,
                ErrorKind::Interrupted => {}
                _ => return Sent::Failed(CloseReason::ClientGone),
            },
        }
    }
}

/// Seals the next batch, unless one is on its way; in what order output stands there.
fn seal(connection: &mut Connection, desk: &mut Desk) -> Result<(), Sent> {
    if let Unsealed::Memory = connection.unsealed() {
        connection.seal();
    }
    let resident_only = desk.sender.resident_only;
    let Unsealed::File { file, offset, len, room, window } = connection.unsealed() else {
        return Ok(());
    };
    let only = match (resident_only, window) {
        (false, _) => Only::Any,
        (true, Some(window)) => Only::in_memory(window.warm_bytes(), window, desk),
        (true, None) => Only::InMemory { warmed: 0, seen: 0, residency: desk.sender.residency },
    };
    let part = Part { file, offset, len };
    let piece = desk.piece();
    let most = room.min(piece.len());
    match part.read_piece(&mut piece[..most], only) {
        Ok(read) => connection.seal_piece(&desk.piece()[..read]),
        Err(Call::Spoilt(reason)) => return Err(Sent::Failed(reason)),
        Err(_) => return Err(Sent::Absent),
    };
    Ok(())
}
