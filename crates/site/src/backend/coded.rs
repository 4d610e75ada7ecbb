//! The answer of a program that is coded while it is sent. What comes without a pause is coded
//! together, a piece at most; when the program pauses, what came until then is flushed, so that a
//! client can read all of it.

use std::sync::Arc;

use flyball_http::{Now, Segment};

use super::{Relay, Spool, Went};
use crate::coded_source::CodedSource;
use crate::plan::Plan;
use crate::source::{Piece, Source};

/// The content of an answer on its way through an encoder.
#[derive(Debug)]
pub(crate) struct CodedAnswer {
    source: CodedSource,
    /// The encoder is at work elsewhere.
    pub(crate) is_away: bool,
    /// What came of it, until it is wanted.
    piece: Option<Piece>,
}

impl CodedAnswer {
    pub(crate) fn new(source: CodedSource) -> CodedAnswer {
        CodedAnswer { source, is_away: false, piece: None }
    }

    /// Goes on without waiting, as [`Relay::advance`] does.
    pub(crate) fn advance(
        &mut self,
        relay: &mut Relay,
        wants_piece: bool,
        spool: Option<&Arc<Spool>>,
        now: &Now,
    ) -> Went {
        // One plan at a time: what a second brought would be taken for what the first asked for.
        if self.is_away || relay.is_working() {
            return Went::Working;
        }
        if !wants_piece {
            return relay.advance(false, spool, now);
        }
        if let Some(piece) = self.piece.take() {
            return Went::Piece(piece);
        }
        while self.source.takes_more() {
            match relay.advance(true, spool, now) {
                Went::Piece(Piece::More(Segment::Bytes(bytes))) => self.source.feed(bytes, false),
                Went::Piece(Piece::Last(Segment::Bytes(bytes))) => self.source.feed(bytes, true),
                Went::Wait if relay.flows() => return Went::Wait,
                Went::Wait => break,
                // What came before it broke off is passed on first.
                Went::Piece(Piece::Failed) if self.source.owes() => break,
                other => return other,
            }
        }
        if !self.source.owes() {
            return Went::Wait;
        }
        // Whatever time that takes is not the program's.
        relay.rests();
        self.is_away = true;
        Went::Work(self.source.next())
    }

    /// The encoder has done its work.
    pub(crate) fn worked(&mut self, plan: Plan) {
        self.is_away = false;
        self.piece = Some(self.source.produced(plan));
    }
}
