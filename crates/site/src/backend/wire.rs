//! The bytes between a worker and what answers, whatever they mean: what is to be sent, what came,
//! and the one repetition of a request that a link which was kept for too long may cost. Nothing
//! here touches a socket or a pipe: who drives the connection has the link, moves the bytes, and is
//! told what is wanted of it by [`Wire::wish`].

use std::io;
use std::sync::Arc;

use flyball_sys::readiness::Interest;

use super::cgi::Program;
use super::request::Told;
use super::spares::Spares;
use super::upstream::{Upstream, not_connected};
use super::{BODY_QUEUED_MAX, Failure, PIECE_BYTES, Stage};

/// Where a link leads.
#[derive(Debug)]
pub enum Target {
    /// To a server, which may take other requests on it.
    Server(Arc<Upstream>),
    /// To a program that is started for this request.
    Program(Box<Program>),
    /// Nowhere: it ends after this many milliseconds, which is what is waited for.
    Timer(u64),
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received<T> {
    /// Bytes.
    Bytes(T),
    /// The server has closed the link.
    End,
    /// Nothing yet.
    Nothing,
}

/// What a request wants of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A link, or where it has one a fresh one in its place: [`Wire::linked`].
    Open,
    /// That the program's input ends: [`Wire::shut`].
    Shut,
    /// That bytes are moved.
    Use(Interest),
}

/// How far a request has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It wants a link.
    Wanted,
    /// As many are in use as may be: it waits for one.
    Queued,
    /// It has one.
    Linked,
}

/// What is wanted of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// Nothing at the moment.
    Nothing,
    /// More of it, when nothing is there.
    More,
    /// All of it that is there by now.
    All,
}

/// A request's end of its link.
#[derive(Debug)]
pub struct Wire {
    target: Target,
    reach: Reach,
    /// What is sent, the first `at` bytes of which are.
    queue: Vec<u8>,
    at: usize,
    /// What came and was not looked at: the first `came` bytes.
    inbox: Vec<u8>,
    came: usize,
    /// How the other side has ended it, once what came before that was looked at.
    ended: Option<io::Result<()>>,
    reads: Reads,
    /// More may be there by now.
    flows: bool,
    /// Bytes were sent since that was last asked.
    has_moved: bool,
    /// The link was used before, and the server may have closed it.
    was_idle: bool,
    /// The request may be made twice, and all of it is in the queue.
    repeats: bool,
    /// Why no more can be sent.
    broken: Option<io::Error>,
    /// Something was sent, so that it is connected.
    reached: bool,
    /// Something of the answer came.
    heard: bool,
}

impl Wire {
    /// One that wants a link to a server, with what shall be sent first. `repeats` says that the
    /// request may be made twice.
    pub(super) fn to_server(upstream: &Arc<Upstream>, queue: Vec<u8>, repeats: bool) -> Wire {
        Wire::new(Target::Server(Arc::clone(upstream)), queue, repeats)
    }

    /// One that wants a program to be started.
    pub(super) fn to_program(program: Program) -> Wire {
        Wire::new(Target::Program(Box::new(program)), Vec::new(), false)
    }

    /// One that waits for a time to be over, in milliseconds.
    pub(crate) fn to_timer(ms: u64) -> Wire {
        Wire::new(Target::Timer(ms), Vec::new(), false)
    }

    fn new(target: Target, queue: Vec<u8>, repeats: bool) -> Wire {
        Wire {
            target,
            reach: Reach::Wanted,
            queue,
            at: 0,
            inbox: Vec::new(),
            came: 0,
            ended: None,
            reads: Reads::Nothing,
            flows: false,
            has_moved: false,
            was_idle: false,
            repeats,
            broken: None,
            reached: false,
            heard: false,
        }
    }

    /// What it wants of its link. Pure: a wish stays until a call ends it.
    pub fn wish(&self) -> Option<Wish> {
        match self.reach {
            Reach::Wanted => Some(Wish::Open),
            Reach::Queued => Some(Wish::Use(Interest::READ)),
            Reach::Linked if self.shuts() => Some(Wish::Shut),
            Reach::Linked => {
                let read = match self.reads {
                    Reads::Nothing => false,
                    Reads::More => self.came == 0 && !self.has_ended(),
                    Reads::All => self.gathers(),
                };
                Some(Wish::Use(Interest { read, write: self.queued() > 0 }))
            }
        }
    }

    /// Whether all is known that can be heard of it.
    pub(crate) fn has_ended(&self) -> bool {
        let is_told = match &self.target {
            Target::Program(program) => program.is_told(),
            Target::Server(_) | Target::Timer(_) => true,
        };
        self.ended.is_some() && is_told
    }

    /// Whether the input of its program ends now: all is there, or the program takes no more.
    fn shuts(&self) -> bool {
        let Target::Program(program) = &self.target else { return false };
        program.shuts(self.broken.is_some()) && self.outgoing().is_empty()
    }

    /// Where its link leads.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What its link leads to is a program.
    pub(super) fn program_mut(&mut self) -> Option<&mut Program> {
        match &mut self.target {
            Target::Program(program) => Some(program),
            Target::Server(_) | Target::Timer(_) => None,
        }
    }

    /// The program's input has ended: what was not sent goes nowhere.
    pub fn shut(&mut self) {
        if let Some(program) = self.program_mut() {
            program.shut();
            (self.queue, self.at) = (Vec::new(), 0);
        }
    }

    /// The program has written this to its error output; nothing is the end of that.
    pub fn said(&mut self, bytes: &[u8]) {
        if let Some(program) = self.program_mut() {
            program.said(bytes);
        }
    }

    /// How the program has ended; nothing when that will not be told. To be called before the end
    /// of its output is, if it is known by then.
    pub fn told(&mut self, told: Option<Told>) {
        if let Some(program) = self.program_mut() {
            program.told(told);
        }
    }

    /// It waits for a link until one is free.
    pub fn queued_up(&mut self) {
        self.reach = Reach::Queued;
    }

    /// It has a link, which was used before if it `was_idle`.
    pub(crate) fn linked(&mut self, was_idle: bool) {
        (self.reach, self.was_idle) = (Reach::Linked, was_idle);
    }

    /// Where bytes of the answer go.
    pub fn space(&mut self) -> &mut [u8] {
        if self.inbox.is_empty() {
            let buffer = self.spares().and_then(Spares::take);
            self.inbox = buffer.unwrap_or_else(|| vec![0; PIECE_BYTES]);
        }
        &mut self.inbox[self.came..]
    }

    /// So many came there; none is the end, and an error that of the link.
    pub fn received(&mut self, received: io::Result<usize>) {
        self.flows = false;
        match received {
            Ok(n) if n > 0 => {
                (self.came, self.heard) = (self.came + n, true);
                // What a program has written comes by as many reads as it liked to make of it.
                self.flows = matches!(self.target, Target::Program(_));
            }
            Err(error) if is_transient(&error) => {}
            ended => self.ended = Some(ended.map(|_| ())),
        }
    }

    /// What is to be sent.
    pub fn outgoing(&self) -> &[u8] {
        if self.broken.is_some() { &[] } else { &self.queue[self.at..] }
    }

    /// So many of these bytes were sent; with an error no more can be.
    pub fn sent(&mut self, sent: io::Result<usize>) {
        match sent {
            Ok(n) => {
                self.at += n;
                (self.has_moved, self.reached) = (true, true);
            }
            Err(error) if is_transient(&error) => {}
            // It may have answered all the same, which receiving will show.
            Err(error) => self.broken = Some(error),
        }
        self.forget_sent();
    }

    /// Whether bytes were sent since this was last asked.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// How far it has got.
    pub(super) fn stage(&self) -> Stage {
        match self.reach {
            Reach::Queued => Stage::Queued,
            Reach::Linked if matches!(self.target, Target::Program(_)) => Stage::Linked,
            Reach::Linked if self.reached || self.queued() == 0 => Stage::Linked,
            Reach::Linked | Reach::Wanted => Stage::Connecting,
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn queued(&self) -> usize {
        self.outgoing().len()
    }

    /// Bytes that may be added. What is not read any more goes nowhere.
    pub(super) fn room(&self) -> usize {
        BODY_QUEUED_MAX.saturating_sub(self.queued())
    }

    /// Adds what `write` appends.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let is_shut = self.program_mut().is_some_and(|program| program.is_shut());
        if self.broken.is_none() && !is_shut {
            write(&mut self.queue);
        } else {
            // As when it was let go of: not all of the request is in the queue.
            self.was_idle = false;
        }
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

    /// More of the answer is wanted.
    pub(crate) fn waits(&mut self) {
        self.reads = Reads::More;
    }

    /// No more of the answer is wanted at the moment.
    pub(crate) fn rests(&mut self) {
        self.reads = Reads::Nothing;
    }

    /// Whether more may be there by now than has come.
    pub(super) fn flows(&self) -> bool {
        self.flows
    }

    fn gathers(&self) -> bool {
        self.flows && self.ended.is_none() && self.came < PIECE_BYTES
    }

    /// Wants all that is there by now, as far as there is room; whether that is to be waited for.
    pub(super) fn gather(&mut self) -> bool {
        if self.gathers() {
            self.reads = Reads::All;
        }
        self.gathers()
    }

    /// Something came of the answer.
    pub(super) fn has_heard(&self) -> bool {
        self.heard
    }

    /// The server that it leads to, if it leads to one.
    pub(super) fn upstream(&self) -> Option<&Arc<Upstream>> {
        match &self.target {
            Target::Server(upstream) => Some(upstream),
            Target::Program(_) | Target::Timer(_) => None,
        }
    }

    fn spares(&self) -> Option<&Spares<Vec<u8>>> {
        self.upstream().map(|upstream| &upstream.buffers)
    }

    /// Has `take` look at what came, if anything did.
    pub(super) fn take<T>(
        &mut self,
        take: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<Received<T>, (Failure, String)> {
        if self.came > 0 {
            let mut inbox = std::mem::take(&mut self.inbox);
            let taken = take(&mut inbox[..std::mem::take(&mut self.came)]);
            match self.spares() {
                Some(spares) => spares.keep(inbox),
                None => self.inbox = inbox,
            }
            return Ok(Received::Bytes(taken));
        }
        // What is left to be heard after the end is how a program has ended.
        self.waits();
        let Some(ended) = self.ended.take() else { return Ok(Received::Nothing) };
        if self.repeat() {
            return Ok(Received::Nothing);
        }
        match (self.broken.take(), ended) {
            (Some(error), _) if !self.heard && is_of_connecting(&error) => {
                Err(not_connected(self.upstream().map(|upstream| &**upstream), &error))
            }
            // Sending has met a reset, which receiving does not tell again.
            (Some(error), Ok(())) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(self.broke(&error))
            }
            (_, Ok(())) => {
                // Who asks again is told again.
                self.ended = Some(Ok(()));
                Ok(Received::End)
            }
            (Some(error), Err(_)) | (None, Err(error)) => Err(self.broke(&error)),
        }
    }

    fn broke(&self, error: &io::Error) -> (Failure, String) {
        let why = match self.target {
            Target::Server(_) => format!("the link to its server broke: {error}"),
            Target::Program(_) | Target::Timer(_) => error.to_string(),
        };
        (Failure::Gone, why)
    }

    /// A link that was kept has ended before anything came back: the request is made again on a new
    /// one, if it may be. Whether it is.
    fn repeat(&mut self) -> bool {
        // What was not sent at all can be sent again, whatever it does.
        let untouched = self.was_idle && self.at == 0 && !self.heard && !self.queue.is_empty();
        if !self.may_repeat() && !untouched {
            return false;
        }
        self.reach = Reach::Wanted;
        (self.was_idle, self.at, self.broken) = (false, 0, None);
        true
    }

    /// The answer has ended: what was to be sent is given back, and where the link led if that was
    /// to a server; `keeps` it if the server awaits another request.
    pub(super) fn end(mut self, keeps: bool) -> (Option<Arc<Upstream>>, Vec<u8>, bool) {
        let is_clean = self.queued() == 0 && self.broken.is_none() && self.came == 0;
        let keeps = keeps && is_clean && self.ended.is_none();
        let upstream = self.upstream().cloned();
        (upstream, std::mem::take(&mut self.queue), keeps)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let inbox = std::mem::take(&mut self.inbox);
        if let Some(spares) = self.spares()
            && !inbox.is_empty()
        {
            spares.keep(inbox);
        }
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
