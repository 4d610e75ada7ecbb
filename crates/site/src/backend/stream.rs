//! The bytes between a worker and a responder, whatever they mean: what is sent, what is received,
//! and the one repetition of a request that a link which was kept for too long may cost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flyball_sys::net;
use flyball_sys::readiness::Interest;

use super::responder::{Responder, not_connected};
use super::{BODY_QUEUED_MAX, Failure, PIECE_BYTES};

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

/// A link to a responder.
#[derive(Debug)]
pub(super) struct Stream {
    responder: Arc<Responder>,
    socket: Arc<OwnedFd>,
    /// What is sent, the first `at` bytes of which are.
    queue: Vec<u8>,
    at: usize,
    /// The link was used before, and the responder may have closed it.
    was_idle: bool,
    /// The request may be made twice, and all of it is in the queue.
    repeats: bool,
    /// Why no more can be sent.
    broken: Option<io::Error>,
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
        let idle = responder.take_idle();
        let was_idle = idle.is_some();
        let socket = match idle {
            Some(socket) => socket,
            None => responder.connect()?,
        };
        Ok(Stream {
            responder: Arc::clone(responder),
            socket,
            queue,
            at: 0,
            was_idle,
            repeats,
            broken: None,
            heard: false,
            asked: true,
        })
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
        while self.queued() > 0 {
            match net::send(&*self.socket, &self.queue[self.at..], false) {
                Ok(n) => {
                    self.at += n;
                    moved = true;
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
        match net::recv(&*self.socket, buffer) {
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
        self.socket = self.responder.connect()?;
        (self.was_idle, self.at, self.broken) = (false, 0, None);
        self.push();
        Ok(true)
    }

    /// What is waited for.
    pub(super) fn awaited(&self, pulls: bool) -> (Arc<OwnedFd>, Interest) {
        let interest = Interest { read: pulls, write: self.queued() > 0 };
        (Arc::clone(&self.socket), interest)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The answer has ended: if it `keeps` the link the responder awaits another request. What was
    /// to be sent is given back.
    pub(super) fn end(self, keeps: bool) -> (Arc<Responder>, Vec<u8>) {
        if keeps && self.queued() == 0 && self.broken.is_none() {
            self.responder.keep(self.socket);
        }
        (self.responder, self.queue)
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
