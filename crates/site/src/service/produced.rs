//! A body that is produced while it is sent, as what answers.

use flyball_http::Now;

use super::Service;
use super::responder::{Responder, Role, Wants};
use crate::backend::Went;
use crate::plan::Plan;
use crate::source::{Piece, Source};

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
