//! A program that was started for one request: three pipes and a leash, which are waited for as
//! one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use flyball_conn::Connection;
use flyball_site as site;
use flyball_site::programs::{CUT, LEAVE, StartRequest, Told, WHOLE};
use flyball_sys::bundle::Bundle;
use flyball_sys::channel::Channel;
use flyball_sys::owned::Owned;
use flyball_sys::program::{self, End};
use flyball_sys::readiness::Interest;

use super::link::{Moved, is_transient};

/// Bytes of error output that are read at a time: what floods it is thrown away so, between other
/// work.
const ERROR_BYTES: usize = 4096;

/// Bytes of a record of the leash.
const TOLD_BYTES: usize = 8;

/// A descriptor of a program, and what it is watched for.
#[derive(Debug)]
struct Watched<T> {
    end: Option<T>,
    interest: Interest,
}

impl<T: AsFd> Watched<T> {
    fn new(end: T) -> Watched<T> {
        Watched { end: Some(end), interest: Interest::NONE }
    }

    fn watch(&mut self, bundle: &Bundle, wanted: Interest) {
        if let Some(end) = &self.end
            && bundle.watch(end.as_fd(), self.interest, wanted).is_ok()
        {
            self.interest = wanted;
        }
    }

    /// Closing it takes it out of the bundle, since no other process has a copy.
    fn close(&mut self) {
        (self.end, self.interest) = (None, Interest::NONE);
    }
}

/// A program that runs, or is about to.
#[derive(Debug)]
pub(crate) struct Program {
    bundle: Bundle,
    leash: Watched<Channel>,
    input: Watched<Owned>,
    output: Watched<Owned>,
    errors: Watched<Owned>,
    /// Its starter holds its input too, until it is told that the body is whole: if this process
    /// dies, the program ends before its input does.
    is_held: bool,
    /// What may be ready.
    ready: Ready,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    input: bool,
    /// Its output, or behind the end of that its leash.
    output: bool,
    errors: bool,
}

impl Program {
    /// Has one started by the process at this door. Never blocks.
    ///
    /// # Errors
    /// When descriptors are out, or it cannot be asked for.
    pub(crate) fn start(program: &site::Program, door: Option<&Channel>) -> io::Result<Program> {
        let bundle = Bundle::new()?;
        let (their_input, input) = program::pipe(End::Writing)?;
        let (output, their_output) = program::pipe(End::Reading)?;
        let (errors, their_errors) = program::pipe(End::Reading)?;
        let theirs = [their_input.as_fd(), their_output.as_fd(), their_errors.as_fd()];
        let is_held = program.has_body();
        let held = is_held.then_some(input.as_fd());
        let leash = Watched::new(ask(door, program.request(), theirs, held)?);
        let [input, output, errors] = [input, output, errors].map(Watched::new);
        // It has said nothing yet.
        let ready = Ready { input: true, output: false, errors: false };
        Ok(Program { bundle, leash, input, output, errors, is_held, ready })
    }

    /// What can be read while anything of it is ready that is watched.
    pub(crate) fn descriptor(&self) -> &Arc<Owned> {
        self.bundle.descriptor()
    }

    /// Something of it is ready: what that is, trying shows.
    pub(crate) fn woke(&mut self) {
        self.ready = Ready { input: true, output: true, errors: true };
    }

    /// Watches what is waited for.
    pub(crate) fn watch(&mut self, Interest { read, write }: Interest) {
        let Program { bundle, leash, input, output, errors, .. } = self;
        let has_output = output.end.is_some();
        let reads = |read| Interest { read, write: false };
        input.watch(bundle, Interest { read: false, write });
        output.watch(bundle, reads(read));
        errors.watch(bundle, Interest::READ);
        leash.watch(bundle, reads(read && !has_output));
    }

    /// Moves bytes between a connection and its program: whether it could.
    pub(crate) fn moves(
        &mut self,
        Interest { read, write }: Interest,
        connection: &mut Connection,
        may_receive: bool,
    ) -> Moved {
        if write && self.ready.input {
            self.send(connection);
            return Moved::Sent;
        }
        if self.ready.errors && !may_receive {
            return Moved::Later;
        }
        if self.ready.errors && self.hear(connection) {
            return Moved::Received;
        }
        match self.ready.output && read {
            true if !may_receive => Moved::Later,
            true => {
                self.receive(connection);
                Moved::Received
            }
            false => Moved::Nothing,
        }
    }

    /// Sends what waits.
    fn send(&mut self, connection: &mut Connection) {
        let Some(input) = &self.input.end else { return };
        let sent = program::write(input, connection.link_outgoing());
        self.ready.input = sent.is_ok();
        connection.link_sent(sent);
    }

    /// Nothing more is sent: its input ends.
    pub(crate) fn shut(&mut self) {
        if let Some(leash) = self.leash.end.as_ref().filter(|_| self.is_held) {
            // It fails when the program has ended.
            let _ = leash.send(WHOLE, None);
        }
        self.input.close();
    }

    /// Receives once.
    fn receive(&mut self, connection: &mut Connection) {
        let Some(output) = &self.output.end else { return self.hear_of_end(connection) };
        let received = program::read(output, connection.link_space());
        match &received {
            Ok(1..) => {}
            Err(error) if is_transient(error) => self.ready.output = false,
            _ => {
                // What it has said, and how it has ended, is told before that its output has ended.
                self.hear(connection);
                self.output.close();
                self.hear_of_end(connection);
            }
        }
        connection.link_received(received);
    }

    /// Reads error output once: whether there was any.
    fn hear(&mut self, connection: &mut Connection) -> bool {
        let mut buffer = [0; ERROR_BYTES];
        let Some(errors) = &self.errors.end else { return false };
        let heard = program::read(errors, &mut buffer);
        self.ready.errors = matches!(heard, Ok(ERROR_BYTES));
        match heard {
            Ok(n) => {
                connection.link_said(&buffer[..n]);
                if n == 0 {
                    self.errors.close();
                }
                n > 0
            }
            Err(error) if is_transient(&error) => false,
            Err(_) => {
                self.errors.close();
                false
            }
        }
    }

    /// Its output has ended: how it has ended itself, if that is told by now.
    fn hear_of_end(&mut self, connection: &mut Connection) {
        let Some(leash) = &self.leash.end else { return };
        let mut record = [0; TOLD_BYTES];
        match leash.receive(&mut record) {
            Ok((n, _)) => connection.link_told(Told::decode(&record[..n])),
            Err(error) if is_transient(&error) => self.ready.output = false,
            Err(_) => connection.link_told(None),
        }
    }

    /// The answer has ended: it may go on by itself for a while.
    pub(crate) fn leave(&self) {
        if let Some(leash) = &self.leash.end {
            // It fails when the program has ended.
            let _ = leash.send(LEAVE, None);
        }
    }
}

/// Asks for a program with these pipe ends, of which the starter holds the last itself, and gives
/// its leash, which tells how it has ended. The program is ended when the leash is dropped before
/// [`LEAVE`] is sent over it.
fn ask(
    door: Option<&Channel>,
    request: &StartRequest,
    standard: [BorrowedFd<'_>; 3],
    held: Option<BorrowedFd<'_>>,
) -> io::Result<Channel> {
    let door = door.ok_or(io::ErrorKind::NotConnected)?;
    let record = request.encode().ok_or(io::ErrorKind::InvalidInput)?;
    let (ours, theirs) = Channel::pair()?;
    ours.set_nonblocking()?;
    let [input, output, error] = standard;
    let all = [input, output, error, theirs.as_fd()].into_iter().chain(held);
    door.send_with(&record, &all.collect::<Vec<_>>())?;
    Ok(ours)
}

/// A program that has not got the whole body must not take its end for that of the body: its input
/// ends after the program.
impl Drop for Program {
    fn drop(&mut self) {
        if let (Some(leash), Some(input)) = (&self.leash.end, &self.input.end) {
            // It fails when the program has ended, or has left before.
            let _ = leash.send(CUT, Some(input.as_fd()));
        }
    }
}
