//! The link to a program that is started for one request (RFC 3875): three pipes and a leash.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::BytesMut;
use flyball_http::OwnedRequest;
use flyball_sys::bundle::Bundle;
use flyball_sys::channel::Channel;
use flyball_sys::owned::Owned;
use flyball_sys::program::{self, End};
use flyball_sys::readiness::Interest;

use super::environment::Environment;
use super::errors::ErrorOutput;
use super::request::{StartRequest, Told, name_of};
use super::spawner::{Spawner, end, leave};
use super::{BODY_QUEUED_MAX, Failure, Flow, Link, PIECE_BYTES};

/// Bytes of error output that are read at a time.
const ERROR_BYTES: usize = 4096;

/// An end of a pipe, and what it is watched for.
#[derive(Debug)]
struct Watched {
    end: Option<Owned>,
    interest: Interest,
}

impl Watched {
    fn new(end: Owned) -> Watched {
        Watched { end: Some(end), interest: Interest::NONE }
    }

    fn watch(&mut self, bundle: &Bundle, wanted: Interest) {
        if let Some(end) = &self.end
            && bundle.watch(end.as_fd(), self.interest, wanted).is_ok()
        {
            self.interest = wanted;
        }
    }

    /// Closing it takes it out of the bundle, since nobody else has a copy.
    fn close(&mut self) {
        (self.end, self.interest) = (None, Interest::NONE);
    }
}

/// A program that runs.
#[derive(Debug)]
struct Cgi {
    bundle: Bundle,
    leash: Channel,
    input: Watched,
    output: Watched,
    errors: Watched,
    said: ErrorOutput,
    /// Bytes of the request body, the first `at` of which are written.
    queue: Vec<u8>,
    at: usize,
    body_ended: bool,
    /// Whether it has said anything.
    began: bool,
    /// What the leash is watched for.
    leash_watched: Interest,
    /// How the program ended, once that is known.
    ended: Option<Told>,
}

/// Has a program started for a request. Never blocks.
pub(super) fn begin(
    spawner: &Spawner,
    rule: u32,
    below: Vec<u8>,
    environment: Environment,
    request: &OwnedRequest,
    id: &str,
) -> Result<Box<dyn Link>, (Failure, String)> {
    let request_to_start = StartRequest { rule, below, environment };
    let begun = (|| -> io::Result<Box<dyn Link>> {
        let bundle = Bundle::new()?;
        let (their_input, input) = program::pipe(End::Writing)?;
        let (output, their_output) = program::pipe(End::Reading)?;
        let (errors, their_errors) = program::pipe(End::Reading)?;
        let theirs = [their_input.as_fd(), their_output.as_fd(), their_errors.as_fd()];
        let leash = spawner.start(&request_to_start, theirs)?;
        let [input, output, errors] = [input, output, errors].map(Watched::new);
        let said = ErrorOutput::new(name_of("cgi", request, id));
        Ok(Box::new(Cgi {
            bundle,
            leash,
            input,
            output,
            errors,
            said,
            queue: Vec::new(),
            at: 0,
            body_ended: false,
            began: false,
            leash_watched: Interest::NONE,
            ended: None,
        }))
    })();
    begun.map_err(|error| {
        let failure = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Failure::Down,
            _ => Failure::Busy,
        };
        (failure, format!("a program cannot be asked for: {error}"))
    })
}

impl Cgi {
    fn hear_errors(&mut self) {
        let mut buffer = [0; ERROR_BYTES];
        // What floods it is thrown away a buffer at a time, between other work.
        let Some(end) = &self.errors.end else { return };
        match program::read(end, &mut buffer) {
            Ok(0) => {
                self.said.flush();
                self.errors.close();
            }
            Ok(n) => self.said.take(&buffer[..n]),
            Err(error) if is_transient(&error) => {}
            Err(_) => self.errors.close(),
        }
    }

    /// Why it has not said anything.
    fn why(&mut self) -> (Failure, String) {
        self.hear_errors();
        self.said.flush();
        let mut record = [0; 8];
        let told = self.leash.receive(&mut record).ok();
        let gone = |how: String| (Failure::Gone, how);
        match told.and_then(|(n, _)| Told::decode(&record[..n])) {
            Some(Told::Busy) => (Failure::Busy, "as many programs run as may".into()),
            Some(Told::Missing) => (Failure::Missing, "there is no such program".into()),
            Some(Told::Forbidden) => (Failure::Forbidden, "the program may not be run".into()),
            Some(Told::Failed(error)) => {
                let error = io::Error::from_raw_os_error(error);
                (Failure::Down, format!("the program cannot be started: {error}"))
            }
            Some(Told::Unrunnable) => gone("the program has no interpreter that runs it".into()),
            Some(Told::Exited(code)) => {
                gone(format!("the program ended with code {code} and has said nothing"))
            }
            Some(Told::Killed(signal)) => {
                gone(format!("signal {signal} ended the program before it said anything"))
            }
            None => gone("the program ended and has said nothing".into()),
        }
    }

    /// Its output has ended: whether the program has ended it, or was ended within it.
    fn how_it_ended(&mut self) -> Result<Flow, (Failure, String)> {
        let mut record = [0; 8];
        // The word comes once, and may be asked for again.
        if self.ended.is_none() {
            self.ended = match self.leash.receive(&mut record) {
                Ok((n, _)) => Told::decode(&record[..n]),
                Err(error) if is_transient(&error) => return Ok(Flow::Untold),
                Err(_) => None,
            };
        }
        match self.ended {
            Some(Told::Killed(signal)) => {
                Err((Failure::Gone, format!("signal {signal} ended the program within its answer")))
            }
            Some(_) => Ok(Flow::End),
            // It has ended all of them.
            None => Err((Failure::Gone, "the process that starts programs is gone".into())),
        }
    }

    fn close_input_when_done(&mut self) {
        if self.body_ended && self.queued() == 0 {
            self.input.close();
        }
    }
}

impl Link for Cgi {
    fn room(&self) -> usize {
        match self.input.end {
            Some(_) => BODY_QUEUED_MAX.saturating_sub(self.queued()),
            // It does not read any more: the rest goes nowhere.
            None => BODY_QUEUED_MAX,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.input.end.is_some() {
            self.queue.extend_from_slice(bytes);
        }
    }

    fn end_body(&mut self) {
        self.body_ended = true;
        self.close_input_when_done();
    }

    fn queued(&self) -> usize {
        self.queue.len() - self.at
    }

    fn push(&mut self) -> bool {
        self.hear_errors();
        let Some(end) = &self.input.end else { return false };
        let mut moved = false;
        while self.at < self.queue.len() {
            match program::write(end, &self.queue[self.at..]) {
                Ok(n) => self.at += n,
                Err(error) if is_transient(&error) => break,
                Err(_) => {
                    // It has closed its input, and may answer all the same.
                    self.at = self.queue.len();
                    self.input.close();
                    break;
                }
            }
            moved = true;
        }
        if self.at == self.queue.len() || self.at >= BODY_QUEUED_MAX / 2 {
            self.queue.drain(..self.at);
            self.at = 0;
        }
        self.close_input_when_done();
        moved
    }

    fn pull(&mut self, answer: &mut BytesMut) -> Result<Flow, (Failure, String)> {
        let Some(end) = &self.output.end else { return self.how_it_ended() };
        let before = answer.len();
        answer.resize(before + PIECE_BYTES, 0);
        let read = program::read(end, &mut answer[before..]);
        answer.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) if self.began => {
                self.hear_errors();
                self.said.flush();
                self.output.close();
                self.how_it_ended()
            }
            Ok(0) => Err(self.why()),
            Ok(_) => {
                self.began = true;
                Ok(Flow::Came)
            }
            Err(error) if is_transient(&error) => Ok(Flow::Wait),
            Err(error) => Err((Failure::Gone, error.to_string())),
        }
    }

    fn awaited(&mut self, pulls: bool) -> Option<(Arc<Owned>, Interest)> {
        let writes = self.queued() > 0;
        self.input.watch(&self.bundle, Interest { read: false, write: writes });
        self.output.watch(&self.bundle, Interest { read: pulls, write: false });
        self.errors.watch(&self.bundle, Interest::READ);
        let told = if self.output.end.is_none() { Interest::READ } else { Interest::NONE };
        if self.bundle.watch(self.leash.as_fd(), self.leash_watched, told).is_ok() {
            self.leash_watched = told;
        }
        Some((Arc::clone(self.bundle.descriptor()), Interest::READ))
    }

    fn leave(self: Box<Self>) -> bool {
        leave(&self.leash);
        false
    }
}

/// A program that has not got the whole body must not take its end for that of the body: its input
/// ends after the program.
impl Drop for Cgi {
    fn drop(&mut self) {
        if let Some(input) = self.input.end.take() {
            end(&self.leash, input);
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
