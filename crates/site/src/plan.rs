//! The work behind an answer that the caches do not hold: operations that may wait, in sequence.
//!
//! Flash names the two kinds (S2, section 5.1): pathname translation, and bringing a file in. A
//! plan is stepped in place by an event loop, run whole by a helper thread, or submitted step by
//! step to a ring; what comes of it goes back to [`crate::Service::resume`].

use std::any::Any;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use flyball_http::{OwnedRequest, Request, Status};
use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::{Compute, Done, Nowait, Op};
use flyball_sys::file::Stamp;
use flyball_sys::mapping::Mapping;

use crate::access::Verification;
use crate::coded::{Beside, Keep};
use crate::compress::Compression;
use crate::configure::Configure;
use crate::entry::OpenFile;
use crate::listing::Gather;
use crate::outcome::status_of;
use crate::reply::Reply;
use crate::steps::Steps;
use crate::translate::Translate;

pub(crate) use crate::found::Found;
pub(crate) use crate::outcome::Outcome;
pub(crate) use crate::served::Served;

/// The work behind one answer.
#[derive(Debug)]
pub struct Plan {
    job: Option<Job>,
    work: Work,
    /// An operation that was given back.
    pending: Option<Op>,
    outcome: Option<Outcome>,
    /// How far from a client's request the file is that it brings in; 0 is that of the request.
    pub(crate) ahead: u8,
    asked_by: Ask,
    /// When it was given out, by the clock of whoever times it.
    asked_ns: u64,
}

/// What of a connection a plan comes back to. A connection never uses a number again while a plan
/// is out, so that none comes back to what stands in the place of what has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The answer to its request.
    Answer(u32),
    /// The responder that answers it.
    Responder(u32),
    /// The front of its output, which shall be in memory.
    Output,
    /// The handshake that is in front of its requests.
    Handshake,
    /// Nothing of it: the caches, ahead of requests that may come.
    Ahead,
}

/// The request that a plan works for.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: OwnedRequest,
    /// The number of its site.
    pub(crate) site: usize,
    pub(crate) origin: Origin,
    /// How often programs have sent the request elsewhere.
    pub(crate) redirects: u8,
}

/// What named the file that a plan looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The path of the request: the outcome may be remembered under that path.
    Path,
    /// A backend, in this reply. The outcome holds for this one answer: another request for the
    /// same path may get another file, or none.
    Backend(Box<Reply>),
    /// The URL of a script, which is only looked for: a backend runs it if it is there.
    Script(Vec<u8>),
}

impl Origin {
    /// The reply of the backend that named the file.
    pub(crate) fn reply(&self) -> Option<&Reply> {
        match self {
            Origin::Backend(reply) => Some(reply),
            Origin::Path | Origin::Script(_) => None,
        }
    }
}

impl Job {
    /// A request whose own path is looked for.
    pub(crate) fn of_path(request: &Request<'_>, site: usize) -> Job {
        Job { request: request.to_owned(), site, origin: Origin::Path, redirects: 0 }
    }
}

#[derive(Debug)]
enum Work {
    Translate(Translate),
    Load(Load),
    List(Option<Box<Gather>>),
    Configure(Configure),
    Warm { file: Arc<Descriptor>, mapping: Option<Arc<Mapping>>, start: u64, len: usize },
    Verify(Arc<Verification>),
    Compute(Arc<dyn Compute>),
    Steps(Box<dyn Steps>),
    Beside(Beside),
    Compress { found: Found, work: Arc<Compression> },
    Keep(Keep),
}

impl Plan {
    pub(crate) fn translate(job: Job, work: Translate) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Translate(work))
    }

    pub(crate) fn load(job: Job, found: Found) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Load(Load::new(found, true)))
    }

    pub(crate) fn settle(job: Job, found: Found) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Load(Load::new(found, false)))
    }

    pub(crate) fn list(job: Job, gather: Gather) -> Box<Plan> {
        Plan::boxed(Some(job), Work::List(Some(Box::new(gather))))
    }

    pub(crate) fn beside(job: Job, beside: Beside) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Beside(beside))
    }

    pub(crate) fn compress(job: Job, found: Found, work: Compression) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Compress { found, work: Arc::new(work) })
    }

    pub(crate) fn keep(job: Job, found: Found, bytes: Bytes) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Keep(Keep::new(found, bytes)))
    }

    pub(crate) fn configure(job: Job, work: Configure) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Configure(work))
    }

    pub(crate) fn verify(job: Job, verification: Arc<Verification>) -> Box<Plan> {
        Plan::boxed(Some(job), Work::Verify(verification))
    }

    /// Reads a range of a file only to bring it into memory.
    pub fn warm(file: &OpenFile, start: u64, len: usize) -> Box<Plan> {
        let file = Arc::clone(&file.file);
        Plan::boxed(None, Work::Warm { file, mapping: None, start, len })
    }

    /// The same for a range that is mapped, as far as it is: it is also brought into the mapping.
    pub fn populate(file: &OpenFile, mapping: &Arc<Mapping>, start: u64, len: usize) -> Box<Plan> {
        let len = len.min(mapping.rest_from(start).unwrap_or(0));
        let (file, mapping) = (Arc::clone(&file.file), Some(Arc::clone(mapping)));
        Plan::boxed(None, Work::Warm { file, mapping, start, len })
    }

    /// The steps that make a piece of a body; [`Plan::into_steps`] gives them back when they are
    /// done.
    pub fn steps(steps: impl Steps) -> Box<Plan> {
        Plan::boxed(None, Work::Steps(Box::new(steps)))
    }

    /// Work for a processor, whose result stays with what it is.
    pub fn compute(work: Arc<dyn Compute>) -> Box<Plan> {
        Plan::boxed(None, Work::Compute(work))
    }

    /// A plan without any work, which has failed.
    pub(crate) fn failed() -> Box<Plan> {
        let mut plan = Plan::boxed(None, Work::List(None));
        plan.fail();
        plan
    }

    /// The steps that the plan was made of, finished; `None` when they could not be done, or when
    /// they are of another type.
    pub fn into_steps<S: Steps>(self) -> Option<Box<S>> {
        match self.work {
            Work::Steps(steps) if self.outcome.is_none() => {
                let steps: Box<dyn Any> = steps;
                steps.downcast().ok()
            }
            _ => None,
        }
    }

    fn boxed(job: Option<Job>, work: Work) -> Box<Plan> {
        let (asked_by, asked_ns) = (Ask::Ahead, 0);
        Box::new(Plan { job, work, pending: None, outcome: None, ahead: 0, asked_by, asked_ns })
    }

    /// Notes what asks for it and when, in nanoseconds of any clock.
    pub fn set_asked(&mut self, by: Ask, now_ns: u64) {
        (self.asked_by, self.asked_ns) = (by, now_ns);
    }

    /// What asked for it.
    pub fn asked_by(&self) -> Ask {
        self.asked_by
    }

    /// When it was given out; zero when nobody noted it.
    pub fn asked_ns(&self) -> u64 {
        self.asked_ns
    }

    /// The request that waits for the answer; `None` for a window of its body and for a piece of
    /// the answer's.
    pub fn request(&self) -> Option<&OwnedRequest> {
        self.job.as_ref().map(|job| &job.request)
    }

    /// True when it is work for a processor and not for the disk.
    pub fn computes(&self) -> bool {
        matches!(self.work, Work::Verify(_) | Work::Compute(_) | Work::Compress { .. })
    }

    /// True when it may take far longer than a path or a file does, and when nobody but its own
    /// client needs what comes of it: a listing, a password, a handshake, a body to be coded or
    /// produced.
    pub fn is_long(&self) -> bool {
        self.computes() || matches!(self.work, Work::List(_) | Work::Steps(_))
    }

    /// How many bytes the plan was to bring into memory, if it was made for nothing else.
    pub fn warmed(&self) -> Option<usize> {
        match &self.work {
            Work::Warm { len, .. } => Some(*len),
            _ => None,
        }
    }

    /// The next operation; `None` once the plan is finished. Its result must come back with
    /// [`Plan::done`] before this is called again.
    pub fn next_op(&mut self) -> Option<Op> {
        if self.outcome.is_some() {
            return None;
        }
        if let Some(op) = self.pending.take() {
            return Some(op);
        }
        Some(match &mut self.work {
            Work::Steps(steps) => return steps.next_op(),
            Work::Translate(translate) => translate.next_op(),
            Work::Load(load) => load.next_op(),
            Work::List(gather) => return gather.as_mut()?.next_op(),
            Work::Configure(configure) => configure.next_op(),
            Work::Verify(verification) => Op::Compute { work: Arc::clone(verification) as _ },
            Work::Compute(work) => Op::Compute { work: Arc::clone(work) },
            Work::Warm { file, mapping: Some(mapping), start, len } => Op::Populate {
                mapping: Arc::clone(mapping),
                file: Arc::clone(file),
                start: *start,
                len: *len,
            },
            Work::Warm { file, mapping: None, start, len } => {
                Op::Read { file: Arc::clone(file), buffer: vec![0; *len], filled: 0, start: *start }
            }
            Work::Beside(beside) => beside.next_op(),
            Work::Compress { work, .. } => Op::Compute { work: Arc::<Compression>::clone(work) },
            Work::Keep(keep) => keep.next_op(),
        })
    }

    /// Takes the result of the operation that [`Plan::next_op`] gave out.
    pub fn done(&mut self, done: Done) {
        self.outcome = match (&mut self.work, done) {
            (Work::Translate(translate), Done::Opened(opened)) => translate.opened(opened),
            (Work::Translate(translate), Done::Stamped(stamp)) => translate.stamped(stamp),
            (Work::Load(load), Done::Settled) => load.settled(),
            (Work::Load(load), Done::Read(buffer, read)) => load.read(buffer, read),
            (Work::Load(load), Done::Stamped(stamp)) => load.stamped(stamp),
            (Work::List(work), done) => match work.take() {
                Some(mut gather) => {
                    gather.done(done);
                    match gather.error().map(status_of) {
                        Some(status) => Some(Outcome::Missing(status)),
                        None if gather.is_done() => Some(Outcome::Listed(gather)),
                        None => {
                            *work = Some(gather);
                            None
                        }
                    }
                }
                None => Some(Outcome::Missing(Status::INTERNAL_SERVER_ERROR)),
            },
            (Work::Configure(configure), Done::Opened(_)) => configure.looked(),
            (Work::Steps(steps), done) => {
                steps.done(done);
                None
            }
            // A read that failed will fail again when the piece is sent, and is told there.
            (Work::Warm { .. }, Done::Read(..) | Done::Populated) => Some(Outcome::Warm),
            (Work::Verify(verification), Done::Computed) => {
                Some(Outcome::Verified(Arc::clone(verification)))
            }
            (Work::Compute(_), Done::Computed) => Some(Outcome::Computed),
            (Work::Beside(beside), Done::Opened(opened)) => beside.opened(opened),
            (Work::Beside(beside), Done::Stamped(stamp)) => beside.stamped(stamp),
            (Work::Compress { found, work }, Done::Computed) => {
                Some(Outcome::Compressed(found.clone(), Arc::clone(work)))
            }
            (Work::Keep(keep), Done::Opened(opened)) => keep.opened(opened),
            (Work::Keep(keep), Done::Stamped(stamp)) => keep.stamped(stamp),
            _ => {
                debug_assert!(false, "a result that was not asked for");
                Some(Outcome::Missing(Status::INTERNAL_SERVER_ERROR))
            }
        };
    }

    /// Takes back an operation that [`Plan::next_op`] gave out and that was not performed: it is
    /// the next one again.
    pub fn put_back(&mut self, op: Op) {
        self.pending = Some(op);
    }

    /// Takes notice that an operation that was given out is lost, with whatever it held: it is the
    /// next one again.
    pub fn lost(&mut self) {
        match &mut self.work {
            Work::Load(load) => load.begin_again(),
            Work::Steps(steps) => steps.lost(),
            _ => {}
        }
    }

    /// Gives up: the answer is 500.
    pub fn fail(&mut self) {
        self.outcome = Some(Outcome::Missing(Status::INTERNAL_SERVER_ERROR));
    }

    /// Performs every operation that need not wait on the disk, up to the first that must; true
    /// when the plan is finished.
    pub fn run_nowait(&mut self, nowait: &mut Nowait) -> bool {
        while let Some(op) = self.next_op() {
            match nowait.perform(op) {
                Ok(done) => self.done(done),
                Err((op, _)) => {
                    self.put_back(op);
                    return false;
                }
            }
        }
        true
    }

    /// Performs the next operation here and now. Blocks on the disk.
    pub fn step(&mut self) {
        if let Some(op) = self.next_op() {
            self.done(op.perform());
        }
    }

    /// Performs every operation here and now. Blocks on the disk.
    pub fn run(&mut self) {
        while let Some(op) = self.next_op() {
            self.done(op.perform());
        }
    }

    /// The request counts as sent elsewhere by programs so often.
    pub(crate) fn set_redirects(&mut self, redirects: u8) {
        if let Some(job) = &mut self.job {
            job.redirects = redirects;
        }
    }

    pub(crate) fn into_parts(self) -> (Option<Job>, Outcome) {
        let failed = Outcome::Missing(Status::INTERNAL_SERVER_ERROR);
        (self.job, self.outcome.unwrap_or(failed))
    }
}

/// Bringing a file in that has just been looked at. First whatever was being written then is let
/// finish; only what is read after that can be held against the stamp. A small file is then read
/// whole and looked at again; a large one is sent from its descriptor and looked at before its end.
#[derive(Debug)]
struct Load {
    found: Found,
    buffer: Vec<u8>,
    filled: usize,
    whole: bool,
    settled: bool,
    short: bool,
}

impl Load {
    fn new(found: Found, whole: bool) -> Load {
        let buffer = if whole { vec![0; found.stamp.size as usize] } else { Vec::new() };
        Load { found, buffer, filled: 0, whole, settled: false, short: false }
    }

    fn next_op(&mut self) -> Op {
        let file = Arc::clone(&self.found.file);
        if !self.settled {
            let Stamp { changed_ns, size, .. } = self.found.stamp;
            return Op::Settle { file, changed_ns, size };
        }
        if self.short || self.filled == self.buffer.len() {
            return Op::Stat { file };
        }
        Op::Read { file, buffer: std::mem::take(&mut self.buffer), filled: self.filled, start: 0 }
    }

    fn begin_again(&mut self) {
        *self = Load::new(self.found.clone(), self.whole);
    }

    fn settled(&mut self) -> Option<Outcome> {
        self.settled = true;
        (!self.whole).then(|| Outcome::Settled(self.found.clone()))
    }

    fn read(&mut self, buffer: Vec<u8>, read: io::Result<usize>) -> Option<Outcome> {
        self.buffer = buffer;
        match read {
            Ok(0) => self.short = true,
            Ok(n) => self.filled += n,
            Err(error) => return Some(Outcome::Missing(status_of(&error))),
        }
        None
    }

    fn stamped(&mut self, stamp: io::Result<Stamp>) -> Option<Outcome> {
        let found = self.found.clone();
        Some(match stamp {
            Ok(stamp) if found.stamp.same_body(&stamp) && !self.short => {
                Outcome::Loaded(found, std::mem::take(&mut self.buffer))
            }
            Ok(stamp) => Outcome::Unstable(Found { stamp, ..found }),
            Err(error) => Outcome::Missing(status_of(&error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Depends;
    use flyball_sys::file;

    #[test]
    fn an_operation_that_was_lost_is_asked_for_again_whole() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("page"), "some bytes").unwrap();
        let page = std::fs::File::open(dir.path().join("page")).unwrap();
        let file = Arc::new(Descriptor::from(page));
        let stamp = file::stamp(&*file).unwrap();
        let found = Found {
            file,
            stamp,
            name: b"page".to_vec(),
            resource: None,
            root: 0,
            depends: Depends::default(),
            served: Served::Plain,
            body: Bytes::new(),
        };
        let mut plan = Plan::boxed(None, Work::Load(Load::new(found, true)));
        loop {
            match plan.next_op() {
                // The buffer goes with it.
                Some(Op::Read { .. }) => break,
                Some(op) => plan.done(op.perform()),
                None => panic!("nothing was read"),
            }
        }
        plan.lost();
        // Given back unperformed, it is the next one again.
        let op = plan.next_op().unwrap();
        assert!(matches!(op, Op::Settle { .. }));
        plan.put_back(op);
        plan.run();
        let (_, outcome) = plan.into_parts();
        assert!(matches!(outcome, Outcome::Loaded(_, body) if body == b"some bytes"));
    }
}
