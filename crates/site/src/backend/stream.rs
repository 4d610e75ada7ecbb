//! The bytes between a worker and a responder, whatever they mean: what is sent, what is received,
//! and the one repetition of a request that a link which was kept for too long may cost.

use std::io;
use std::sync::Arc;

use flyball_sys::net;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::places::{Entry, Place, Waiting};
use super::responder::{Responder, not_connected};
use super::{BODY_QUEUED_MAX, Failure, PIECE_BYTES, Stage};

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received<T> {
    /// Bytes.
    Bytes(T),
    /// The responder has closed the link.
    End,
    /// Nothing yet.
    Nothing,
}

/// How far a link has got.
#[derive(Debug)]
enum Reach {
    /// As many are in use as may be.
    Queued(Waiting),
    /// It is there, and has a place among those in use.
    Linked(Arc<Owned>, Place),
}

/// A link to a responder.
#[derive(Debug)]
pub(super) struct Stream {
    responder: Arc<Responder>,
    reach: Reach,
    /// What is sent, the first `at` bytes of which are.
    queue: Vec<u8>,
    at: usize,
    /// The link was used before, and the responder may have closed it.
    was_idle: bool,
    /// The request may be made twice, and all of it is in the queue.
    repeats: bool,
    /// Why no more can be sent.
    broken: Option<io::Error>,
    /// Something was sent, so that it is connected.
    reached: bool,
    /// Something of the answer came.
    heard: bool,
    /// The request has just been sent whole: an answer cannot be there yet.
    asked: bool,
}

impl Stream {
    /// A link with what shall be sent first. `repeats` says that the request may be made twice.
    pub(super) fn open(
        responder: &Arc<Responder>,
        queue: Vec<u8>,
        repeats: bool,
    ) -> Result<Stream, (Failure, String)> {
        let (reach, was_idle) = match responder.enter()? {
            Entry::Now(place) => responder.link(place)?,
            Entry::Later(waiting) => (Reach::Queued(waiting), false),
            Entry::Full => {
                let why = "as many links to its server are in use as may be, and as many wait";
                return Err((Failure::Busy, why.into()));
            }
        };
        Ok(Stream {
            responder: Arc::clone(responder),
            reach,
            queue,
            at: 0,
            was_idle,
            repeats,
            broken: None,
            reached: false,
            heard: false,
            asked: true,
        })
    }

    /// How far it has got.
    pub(super) fn stage(&self) -> Stage {
        match self.reach {
            Reach::Queued(_) => Stage::Queued,
            Reach::Linked(..) if self.reached || self.queued() == 0 => Stage::Linked,
            Reach::Linked(..) => Stage::Connecting,
        }
    }

    /// Takes the link that it waited for, if it is its turn; whether it is.
    pub(super) fn link_up(&mut self) -> Result<bool, (Failure, String)> {
        let Reach::Queued(waiting) = &self.reach else { return Ok(false) };
        let Some(place) = waiting.turn() else { return Ok(false) };
        (self.reach, self.was_idle) = self.responder.link(place)?;
        Ok(true)
    }

    /// Bytes that wait to be sent.
    pub(super) fn queued(&self) -> usize {
        if self.broken.is_some() { 0 } else { self.queue.len() - self.at }
    }

    /// Bytes that may be added. What nobody reads any more goes nowhere.
    pub(super) fn room(&self) -> usize {
        BODY_QUEUED_MAX.saturating_sub(self.queued())
    }

    /// Adds what `write` appends.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.broken.is_none() {
            write(&mut self.queue);
        } else {
            // As when it was let go of: not all of the request is in the queue.
            self.was_idle = false;
        }
    }

    /// Sends what waits; true when anything was.
    pub(super) fn push(&mut self) -> bool {
        let mut moved = false;
        let Reach::Linked(socket, _) = &self.reach else { return false };
        while self.queued() > 0 {
            match net::send(&**socket, &self.queue[self.at..], false) {
                Ok(n) => {
                    self.at += n;
                    (moved, self.reached) = (true, true);
                }
                Err(error) if is_transient(&error) => {
                    self.asked = false;
                    break;
                }
                // It may have answered all the same, which receiving will show.
                Err(error) => {
                    self.broken = Some(error);
                    self.asked = false;
                    break;
                }
            }
        }
        self.forget_sent();
        moved
    }

    /// Lets go of what need not be sent again.
    fn forget_sent(&mut self) {
        if self.may_repeat() && self.queue.len() <= BODY_QUEUED_MAX {
            return;
        }
        if self.at == self.queue.len() || self.at >= BODY_QUEUED_MAX / 2 {
            // What is not in the queue cannot be sent again, and its rest is no request.
            self.was_idle &= self.at == 0;
            self.queue.drain(..self.at);
            self.at = 0;
        }
    }

    fn may_repeat(&self) -> bool {
        self.was_idle && self.repeats && !self.heard
    }

    /// Receives, and has `take` look at what came, if anything did. Never blocks.
    pub(super) fn receive<T>(
        &mut self,
        take: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<Received<T>, (Failure, String)> {
        let responder = Arc::clone(&self.responder);
        let mut buffer = responder.buffers.take().unwrap_or_else(|| vec![0; PIECE_BYTES]);
        let received = self.receive_into(&mut buffer);
        let received = received.map(|received| match received {
            Received::Bytes(len) => Received::Bytes(take(&mut buffer[..len])),
            Received::End => Received::End,
            Received::Nothing => Received::Nothing,
        });
        responder.buffers.keep(buffer);
        received
    }

    fn receive_into(&mut self, buffer: &mut [u8]) -> Result<Received<usize>, (Failure, String)> {
        if std::mem::take(&mut self.asked) {
            return Ok(Received::Nothing);
        }
        let Reach::Linked(socket, _) = &self.reach else { return Ok(Received::Nothing) };
        match net::recv(&**socket, buffer) {
            Ok(n) if n > 0 => {
                self.heard = true;
                Ok(Received::Bytes(n))
            }
            Err(error) if is_transient(&error) => Ok(Received::Nothing),
            ended if self.repeat()? => {
                drop(ended);
                Ok(Received::Nothing)
            }
            ended => match (self.broken.take(), ended) {
                (Some(error), _) if !self.heard && is_of_connecting(&error) => {
                    Err(not_connected(&error))
                }
                // Sending has met a reset, which receiving does not tell again.
                (Some(error), Ok(_)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    Err((Failure::Gone, format!("the link to its server broke: {error}")))
                }
                (_, Ok(_)) => Ok(Received::End),
                (Some(error), Err(_)) | (None, Err(error)) => {
                    Err((Failure::Gone, format!("the link to its server broke: {error}")))
                }
            },
        }
    }

    /// A link that was kept has ended before anything came back: the request is made again on a new
    /// one, if it may be. Whether it is.
    fn repeat(&mut self) -> Result<bool, (Failure, String)> {
        // What was not sent at all can be sent again, whatever it does.
        let untouched = self.was_idle && self.at == 0 && !self.heard && !self.queue.is_empty();
        if !self.may_repeat() && !untouched {
            return Ok(false);
        }
        if let Reach::Linked(socket, _) = &mut self.reach {
            *socket = self.responder.connect()?;
        }
        (self.was_idle, self.at, self.broken) = (false, 0, None);
        self.push();
        Ok(true)
    }

    /// What is waited for.
    pub(super) fn awaited(&self, pulls: bool) -> (Arc<Owned>, Interest) {
        match &self.reach {
            Reach::Queued(waiting) => (Arc::clone(waiting.descriptor()), Interest::READ),
            Reach::Linked(socket, _) => {
                let interest = Interest { read: pulls, write: self.queued() > 0 };
                (Arc::clone(socket), interest)
            }
        }
    }

    /// The answer has ended: if it `keeps` the link the responder awaits another request. What was
    /// to be sent is given back.
    pub(super) fn end(self, keeps: bool) -> (Arc<Responder>, Vec<u8>) {
        let keeps = keeps && self.queued() == 0 && self.broken.is_none();
        if let Reach::Linked(socket, place) = self.reach
            && keeps
        {
            self.responder.keep(socket);
            // Whoever has waited for it finds the link.
            drop(place);
        }
        (self.responder, self.queue)
    }
}

impl Responder {
    /// Asks for a place among the links.
    fn enter(&self) -> Result<Entry, (Failure, String)> {
        self.places.enter().map_err(|error| not_connected(&error))
    }

    /// A link at a place, and whether it was used before.
    fn link(&self, place: Place) -> Result<(Reach, bool), (Failure, String)> {
        Ok(match self.take_idle() {
            Some(socket) => (Reach::Linked(socket, place), true),
            None => (Reach::Linked(self.connect()?, place), false),
        })
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether it says that there was no connection at all.
fn is_of_connecting(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NotConnected
    )
}
