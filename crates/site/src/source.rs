//! What produces the body of an answer while it is sent, piece by piece: a listing that is longer
//! than one page of memory, a file that is coded on the way, the output of a program.

use std::fmt::Debug;

use bytes::Bytes;
use flyball_http::{Now, Segment};

use crate::backend::Went;
use crate::plan::Plan;
use crate::responder::{Responder, Role, Wants};
use crate::service::{File, Service};

/// A body that is being produced for one connection. It is asked for a piece only when the
/// connection has room, which is all there is of back-pressure, and is dropped when the body has
/// ended or the client is gone.
pub(crate) trait Source: Debug + Send {
    /// A piece that is there already and need not be waited for. Asked for before
    /// [`Source::next`], again and again, for as long as the connection has room.
    fn ready(&mut self) -> Option<Piece> {
        None
    }

    /// The work that makes the next piece and may wait; made by [`Plan::steps`].
    fn next(&mut self) -> Box<Plan>;

    /// That work is done: the piece that came of it. Never blocks.
    fn produced(&mut self, plan: Plan) -> Piece;
}

/// One piece of a body.
#[derive(Debug)]
pub enum Piece {
    /// More follows. It may be empty: then nothing is sent, and the next is asked for.
    More(Segment<File>),
    /// The end of the body, which may be empty.
    Last(Segment<File>),
    /// There is no more, although the body has not ended: the connection is broken off.
    Failed,
}

impl Piece {
    /// Bytes in memory, after which more follows unless they are the `last`.
    pub fn bytes(bytes: impl Into<Bytes>, last: bool) -> Piece {
        let content = Segment::Bytes(bytes.into());
        if last { Piece::Last(content) } else { Piece::More(content) }
    }
}

/// A source as what answers: the head was given, and nothing is taken of the request.
#[derive(Debug)]
pub(crate) struct Produced {
    source: Box<dyn Source>,
    /// The work that makes its next piece is under way.
    is_asked: bool,
    /// What came of that, until it is taken.
    piece: Option<Piece>,
}

impl Produced {
    pub(crate) fn of(source: Box<dyn Source>) -> Box<Produced> {
        Box::new(Produced { source, is_asked: false, piece: None })
    }
}

impl Responder for Produced {
    fn role(&self) -> Role {
        Role::Producer
    }

    fn advance(&mut self, wants: Wants, _: &mut Service, _: &Now) -> Went {
        if self.is_asked {
            return Went::Working;
        }
        if let Some(piece) = self.piece.take() {
            return Went::Piece(piece);
        }
        if !wants.piece {
            return Went::Wait;
        }
        match self.source.ready() {
            Some(piece) => Went::Piece(piece),
            // What is there leaves before the next piece is waited for.
            None if wants.write => Went::Wait,
            None => {
                self.is_asked = true;
                Went::Work(self.source.next())
            }
        }
    }

    fn worked(&mut self, plan: Plan, _: &mut Service, _: &Now) -> Option<Box<Plan>> {
        self.is_asked = false;
        self.piece = Some(self.source.produced(plan));
        None
    }
}
