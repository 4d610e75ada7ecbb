//! What produces the body of an answer while it is sent, piece by piece: a listing that is longer
//! than one page of memory, a file that is coded on the way, the output of a program.

use std::fmt::Debug;

use bytes::Bytes;
use flyball_http::Segment;

use crate::entry::File;
use crate::plan::Plan;

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
