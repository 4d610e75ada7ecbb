//! A request to a program that is started for it (RFC 3875). Nothing here touches a pipe: who
//! drives the connection has the program.

use std::io;

use bytes::BytesMut;
use flyball_http::OwnedRequest;

use super::errors::ErrorOutput;
use super::request::{StartRequest, Told, name_of};
use super::start::told_len;
use super::wire::{Received, Wire};
use super::{Failure, Flow, Link};

/// A program, and what is known of it beside the bytes of its input and of its output.
#[derive(Debug)]
pub struct Program {
    request: StartRequest,
    has_body: bool,
    said: ErrorOutput,
    input: Input,
    ending: Ending,
}

/// How far its input has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// More of the request body may come.
    Open,
    /// All of it has come.
    Whole,
    /// It has ended.
    Shut,
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// That is not known yet.
    Unknown,
    Told(Told),
    /// Who would tell is gone, and has ended all programs.
    Lost,
}

impl Program {
    /// What it is started for.
    pub fn request(&self) -> &StartRequest {
        &self.request
    }

    /// Whether a request body is its input.
    pub fn has_body(&self) -> bool {
        self.has_body
    }

    /// Whether its input is to end, once what waits for it is sent; `refused` says that it has
    /// closed that itself, and may answer all the same.
    pub(super) fn shuts(&self, refused: bool) -> bool {
        self.input == Input::Whole || refused && !self.is_shut()
    }

    pub(super) fn shut(&mut self) {
        self.input = Input::Shut;
    }

    pub(super) fn is_shut(&self) -> bool {
        self.input == Input::Shut
    }

    fn end_body(&mut self) {
        if self.input == Input::Open {
            self.input = Input::Whole;
        }
    }

    pub(super) fn said(&mut self, bytes: &[u8]) {
        match bytes {
            [] => self.said.flush(),
            bytes => self.said.take(bytes),
        }
    }

    pub(super) fn told(&mut self, told: Option<Told>) {
        self.ending = told.map_or(Ending::Lost, Ending::Told);
    }

    /// Whether it is known how it has ended.
    pub(super) fn is_told(&self) -> bool {
        self.ending != Ending::Unknown
    }

    /// Why it has not said anything.
    fn why_silent(&self) -> (Failure, String) {
        let gone = |how: String| (Failure::Gone, how);
        match self.ending {
            Ending::Told(Told::Busy) => (Failure::Busy, "as many programs run as may".into()),
            Ending::Told(Told::Missing) => (Failure::Missing, "there is no such program".into()),
            Ending::Told(Told::Forbidden) => {
                (Failure::Forbidden, "the program may not be run".into())
            }
            Ending::Told(Told::Failed(error)) => {
                let error = io::Error::from_raw_os_error(error);
                (Failure::Down, format!("the program cannot be started: {error}"))
            }
            Ending::Told(Told::Unrunnable) => {
                gone("the program has no interpreter that runs it".into())
            }
            Ending::Told(Told::Exited(code)) => {
                gone(format!("the program ended with code {code} and has said nothing"))
            }
            Ending::Told(Told::Killed(signal)) => {
                gone(format!("signal {signal} ended the program before it said anything"))
            }
            Ending::Unknown | Ending::Lost => gone("the program ended and has said nothing".into()),
        }
    }

    /// Its output has ended: whether the program has ended it, or was ended within it.
    fn how_it_ended(&self) -> Result<Flow, (Failure, String)> {
        match self.ending {
            Ending::Unknown => Ok(Flow::Untold),
            Ending::Told(Told::Killed(signal)) => {
                Err((Failure::Gone, format!("signal {signal} ended the program within its answer")))
            }
            Ending::Told(_) => Ok(Flow::End),
            Ending::Lost => Err((Failure::Gone, "the process that starts programs is gone".into())),
        }
    }
}

/// A request on its way.
#[derive(Debug)]
struct Cgi {
    wire: Wire,
}

/// Begins a request. Never blocks.
pub(super) fn begin(start: StartRequest, request: &OwnedRequest, id: &str) -> Box<dyn Link> {
    let wire = Wire::to_program(Program {
        request: start,
        has_body: told_len(request) != Some(0),
        said: ErrorOutput::new(name_of("cgi", request, id)),
        input: Input::Open,
        ending: Ending::Unknown,
    });
    Box::new(Cgi { wire })
}

impl Link for Cgi {
    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn wire_mut(&mut self) -> Option<&mut Wire> {
        Some(&mut self.wire)
    }

    fn room(&self) -> usize {
        self.wire.room()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.wire.add(|queue| queue.extend_from_slice(bytes));
    }

    fn end_body(&mut self) {
        if let Some(program) = self.wire.program_mut() {
            program.end_body();
        }
    }

    fn queued(&self) -> usize {
        self.wire.queued()
    }

    fn pull(&mut self, answer: &mut BytesMut) -> Result<Flow, (Failure, String)> {
        match self.wire.take(|bytes| answer.extend_from_slice(bytes))? {
            Received::Bytes(()) => return Ok(Flow::Came),
            Received::Nothing => return Ok(Flow::Wait),
            Received::End => {}
        }
        let has_begun = self.wire.has_heard();
        let Some(program) = self.wire.program_mut() else { return Ok(Flow::End) };
        program.said.flush();
        if has_begun { program.how_it_ended() } else { Err(program.why_silent()) }
    }

    /// The program may go on by itself.
    fn leave(self: Box<Self>) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wire::Wish;
    use flyball_sys::readiness::Interest;

    const READS: Option<Wish> = Some(Wish::Use(Interest::READ));
    const WRITES: Option<Wish> = Some(Wish::Use(Interest { read: false, write: true }));
    const RESTS: Option<Wish> = Some(Wish::Use(Interest::NONE));

    /// A request whose program was started.
    fn started() -> Cgi {
        let mut wire = Wire::to_program(Program {
            request: StartRequest::default(),
            has_body: true,
            said: ErrorOutput::default(),
            input: Input::Open,
            ending: Ending::Unknown,
        });
        assert_eq!(wire.wish(), Some(Wish::Open));
        wire.linked(false);
        Cgi { wire }
    }

    impl Cgi {
        fn receives(&mut self, bytes: &[u8]) {
            self.wire.space()[..bytes.len()].copy_from_slice(bytes);
            self.wire.received(Ok(bytes.len()));
        }
    }

    #[test]
    fn its_input_ends_once_all_of_the_body_is_sent() {
        let mut cgi = started();
        assert_eq!(cgi.wire.wish(), RESTS);
        cgi.take(b"body");
        cgi.end_body();
        assert_eq!((cgi.wire.wish(), cgi.wire.outgoing()), (WRITES, &b"body"[..]));
        cgi.wire.sent(Ok(3));
        assert_eq!((cgi.wire.wish(), cgi.queued()), (WRITES, 1));
        cgi.wire.sent(Ok(1));
        assert_eq!(cgi.wire.wish(), Some(Wish::Shut));
        cgi.wire.shut();
        assert_eq!(cgi.wire.wish(), RESTS);
    }

    #[test]
    fn a_program_that_takes_no_more_input_may_answer_all_the_same() {
        let (mut cgi, mut answer) = (started(), BytesMut::new());
        cgi.take(b"body");
        cgi.wire.sent(Err(io::ErrorKind::BrokenPipe.into()));
        assert_eq!(cgi.wire.wish(), Some(Wish::Shut));
        cgi.wire.shut();
        cgi.take(b"the rest");
        cgi.end_body();
        assert_eq!((cgi.wire.wish(), cgi.queued()), (RESTS, 0));
        assert_eq!(cgi.pull(&mut answer), Ok(Flow::Wait));
        assert_eq!(cgi.wire.wish(), READS);
        cgi.receives(b"answer");
        assert_eq!((cgi.pull(&mut answer), &answer[..]), (Ok(Flow::Came), &b"answer"[..]));
    }

    #[test]
    fn the_end_of_a_program_is_awaited_behind_that_of_its_output() {
        let ends =
            [(Some(Told::Exited(1)), Some(Flow::End)), (Some(Told::Killed(9)), None), (None, None)];
        for (told, flow) in ends {
            let (mut cgi, mut answer) = (started(), BytesMut::new());
            cgi.receives(b"answer");
            cgi.wire.received(Ok(0));
            assert_eq!(cgi.pull(&mut answer), Ok(Flow::Came));
            assert_eq!(cgi.pull(&mut answer), Ok(Flow::Untold));
            assert_eq!(cgi.wire.wish(), READS);
            cgi.wire.told(told);
            assert_eq!(cgi.pull(&mut answer).ok(), flow, "{told:?}");
            assert_eq!(cgi.wire.wish(), RESTS);
        }
    }

    #[test]
    fn of_a_silent_program_it_is_told_why() {
        let why = |told: Option<Option<Told>>| {
            let mut cgi = started();
            told.into_iter().for_each(|told| cgi.wire.told(told));
            cgi.wire.received(Ok(0));
            cgi.pull(&mut BytesMut::new()).unwrap_err().0
        };
        assert_eq!(why(Some(Some(Told::Busy))), Failure::Busy);
        assert_eq!(why(Some(Some(Told::Missing))), Failure::Missing);
        assert_eq!(why(Some(Some(Told::Forbidden))), Failure::Forbidden);
        assert_eq!(why(Some(Some(Told::Failed(12)))), Failure::Down);
        for told in [None, Some(None), Some(Some(Told::Unrunnable)), Some(Some(Told::Exited(0)))] {
            assert_eq!(why(told), Failure::Gone, "{told:?}");
        }
    }

    #[test]
    fn what_is_there_by_now_is_gathered_before_the_head_leaves() {
        let (mut cgi, mut answer) = (started(), BytesMut::new());
        assert!(!cgi.wire.gather());
        cgi.receives(b"head");
        assert_eq!(cgi.pull(&mut answer), Ok(Flow::Came));
        assert!(cgi.wire.gather());
        assert_eq!(cgi.wire.wish(), READS);
        cgi.receives(b" and body");
        assert!(cgi.wire.gather());
        cgi.wire.received(Err(io::ErrorKind::WouldBlock.into()));
        assert!(!cgi.wire.gather());
        assert_eq!(cgi.pull(&mut answer), Ok(Flow::Came));
        assert_eq!(&answer[..], b"head and body");
    }
}
