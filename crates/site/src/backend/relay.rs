//! One request and the backend that answers it: what is known of the answer, and how long it may
//! take.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use flyball_http::{Now, OwnedRequest, Segment};
use flyball_sys::error_log::Level;
use flyball_sys::{process, say};

use super::body::{Body, Refused};
use super::coded::CodedAnswer;
use super::content::Content;
use super::request::name_of;
use super::spool::Spool;
use super::start::{Start, told_len};
use super::upstream::NoLink;
use super::wire::Wire;
use super::{Failure, Flow, Link, Stage};
use crate::backend_settings::BackendLimits;
use crate::plan::Plan;
use crate::reply::{HEAD_BYTES_MAX, Reply, head_len};
use crate::source::Piece;

/// Longest wait for how a program ended whose output has, in milliseconds: one that has closed its
/// output may go on by itself.
const TOLD_MS_MAX: u64 = 5_000;

/// Room for an id, as long as most are.
const ID_LEN: usize = 24;

/// Requests of this process that went to backends.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// An id for a request, which no other of this server's has: for logs, and for the program.
pub(super) fn new_id() -> String {
    // Whoever answers requests forks nobody who does.
    static PROCESS: OnceLock<i32> = OnceLock::new();
    let process = PROCESS.get_or_init(process::own_id);
    let mut id = String::with_capacity(ID_LEN);
    // Writing to a string cannot fail.
    let _ = write!(id, "{process:x}-{:x}", REQUESTS.fetch_add(1, Relaxed));
    id
}

/// How far a relay went.
#[derive(Debug)]
pub enum Went {
    /// Nothing can be done but wait.
    Wait,
    /// The head of the answer is there, or what stands in its place: to be had from
    /// [`Service::backend_answer`](crate::Service::backend_answer).
    Head,
    /// The next piece of the answer's content.
    Piece(Piece),
    /// Work that may wait; then [`Responder::worked`](crate::Responder::worked).
    Work(Box<Plan>),
    /// That work is under way.
    Working,
}

/// How far an answer was taken while its client was slow.
#[derive(Debug)]
pub enum Fill {
    /// As far as it goes now: the next move is the client's.
    Done,
    /// More can come from its link.
    Wait,
    /// Work that may wait; then [`Responder::worked`](crate::Responder::worked).
    Work(Box<Plan>),
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A head, after which the content follows.
    Reply(Box<Reply>),
    /// None.
    Failed(Failure),
}

#[derive(Debug)]
enum Phase {
    /// The head is awaited.
    Head,
    /// It is there, or will not be.
    Told(Outcome),
    /// The content follows.
    Body,
    /// All is said.
    Over,
}

/// The second end of a slot: a request on its way to a backend, and its answer on its way back.
#[derive(Debug)]
pub struct Relay {
    link: Option<Box<dyn Link>>,
    /// What makes its link, once the request body is whole.
    start: Option<Box<Start>>,
    body: Body,
    request: OwnedRequest,
    site: usize,
    id: String,
    limits: Arc<BackendLimits>,
    phase: Phase,
    /// Bytes of the answer that are not passed on.
    content: Content,
    /// The link has given all.
    at_end: bool,
    /// Why that is not all of the answer, if it is not.
    broken: Option<Failure>,
    /// Since when all has come but how its program ended.
    untold_ms: Option<u64>,
    /// Bytes of content that the head promised and that have not come; `None` when it did not say,
    /// or is not there.
    left: Option<u64>,
    output: u64,
    began_ms: u64,
    /// Since when it has had, or has waited for, its link.
    link_ms: u64,
    /// Since when nothing has moved while the backend was waited for.
    since_ms: u64,
    waits: bool,
    /// How often the request was sent elsewhere by a program.
    pub(crate) redirects: u8,
    /// The link that it has left may be kept.
    keeps_link: bool,
    /// Its program led to a path that is not open to everybody.
    pub(crate) led_to_closed: bool,
    /// Directories of which files may be sent.
    sendfile_roots: Arc<[PathBuf]>,
    /// Its content is coded on the way.
    pub(crate) coded: Option<Box<CodedAnswer>>,
    /// Why the answer is not its program's, if it is not.
    pub(crate) failed: Option<Failure>,
}

impl Relay {
    pub(super) fn new(
        start: Start,
        request: OwnedRequest,
        site: usize,
        limits: &Arc<BackendLimits>,
        id: String,
        now_ms: u64,
    ) -> Relay {
        let mut relay = Relay {
            link: None,
            start: None,
            body: Body::default(),
            request,
            site,
            id,
            limits: Arc::clone(limits),
            phase: Phase::Head,
            content: Content::default(),
            at_end: false,
            broken: None,
            untold_ms: None,
            left: None,
            output: 0,
            began_ms: now_ms,
            link_ms: now_ms,
            since_ms: now_ms,
            waits: false,
            redirects: 0,
            keeps_link: false,
            led_to_closed: false,
            sendfile_roots: [].into(),
            coded: None,
            failed: None,
        };
        match relay.holds(&start) {
            Some(body) => (relay.start, relay.body) = (Some(Box::new(start)), body),
            None => relay.begin(start),
        }
        if told_len(&relay.request) == Some(0) {
            // Whatever the connection still reads is not of this request.
            relay.body.end();
            relay.feed();
        }
        relay
    }

    /// The request body that is gathered before its program is asked for; `None` when that is asked
    /// for at once.
    fn holds(&self, start: &Start) -> Option<Body> {
        match (self.limits.held_bytes_max, told_len(&self.request)) {
            (_, Some(0)) => None,
            (Some(most), _) => {
                Some(Body::gathered(usize::try_from(most).unwrap_or(usize::MAX), true))
            }
            (None, None) if start.needs_length() => Some(Body::gathered(0, false)),
            (None, _) => None,
        }
    }

    /// Asks for the program.
    fn begin(&mut self, start: Start) {
        self.link = Some(start.link(&self.request, &self.id));
    }

    /// The request.
    pub fn request(&self) -> &OwnedRequest {
        &self.request
    }

    /// Lets it have files of these directories sent.
    pub(super) fn sending(mut self, roots: &Arc<[PathBuf]>) -> Relay {
        self.sendfile_roots = Arc::clone(roots);
        self
    }

    pub(crate) fn sendfile_roots(&self) -> &[PathBuf] {
        &self.sendfile_roots
    }

    pub(crate) fn site(&self) -> usize {
        self.site
    }

    /// Bytes of the request body that can be taken now.
    pub fn room(&self) -> usize {
        match (&self.start, &self.link) {
            _ if self.body.has_ended() => usize::MAX,
            (Some(_), _) => self.body.room(),
            // What was held goes first.
            (None, Some(_)) if self.body.len() > 0 => 0,
            (None, Some(link)) => link.room(),
            (None, None) => usize::MAX,
        }
    }

    /// Takes bytes of the request body, at most as many as there is room for. What comes behind its
    /// end was for a program that has sent the request elsewhere, and is dropped.
    pub fn take(&mut self, bytes: &[u8], now: &Now) {
        if self.body.has_ended() {
            return;
        }
        if self.start.is_some() {
            self.body.take(bytes);
        } else if let Some(link) = &mut self.link {
            link.take(bytes);
        }
        self.moved(now);
    }

    /// The request body has ended, or there was none. May be told again.
    pub fn end_body(&mut self, now: &Now) {
        if !self.body.has_ended() {
            self.body.end();
            self.feed();
            self.moved(now);
        }
    }

    /// Asks for its program, once the request body is whole.
    pub(crate) fn start_when_gathered(&mut self, now: &Now) {
        if self.link.is_some() || !self.body.is_gathered() {
            return;
        }
        if let Some(mut start) = self.start.take() {
            if told_len(&self.request).is_none() {
                start.measured(self.body.len());
            }
            self.begin(*start);
            (self.began_ms, self.link_ms, self.since_ms) = (now.ms(), now.ms(), now.ms());
        }
    }

    /// It has its link, which was used before if that `was_idle`; or there is none for it.
    pub(crate) fn linked(&mut self, was_idle: Result<bool, NoLink>, now: &Now) {
        match was_idle {
            Ok(was_idle) => {
                (self.link_ms, self.since_ms) = (now.ms(), now.ms());
                if let Some(wire) = self.wire_mut() {
                    wire.linked(was_idle);
                }
            }
            Err(error) => {
                let upstream = self.wire().and_then(Wire::upstream);
                let (failure, why) = error.why(upstream.map(|upstream| &**upstream));
                self.fail(failure, &why);
            }
        }
    }

    /// Its end of its link.
    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.link.as_ref()?.wire()
    }

    /// The same, to be told what was done.
    pub(crate) fn wire_mut(&mut self) -> Option<&mut Wire> {
        self.link.as_mut()?.wire_mut()
    }

    /// Whether the link that it has left may be kept.
    pub(crate) fn keeps_link(&self) -> bool {
        self.keeps_link
    }

    /// Passes on what was held of the request body; true when that was anything.
    fn feed(&mut self) -> bool {
        self.link.as_mut().is_some_and(|link| self.body.feed(&mut **link))
    }

    /// Goes on without waiting: passes the request on, and takes of the answer what is wanted: its
    /// head, or once that was given a piece if `wants_piece`.
    pub fn advance(&mut self, wants_piece: bool, spool: Option<&Arc<Spool>>, now: &Now) -> Went {
        if self.is_working() {
            return Went::Working;
        }
        while self.feed() | self.push() {
            self.moved(now);
        }
        if let Some(plan) = self.body_work(spool) {
            return Went::Work(plan);
        }
        if self.start.is_some() {
            return Went::Wait;
        }
        match self.phase {
            Phase::Head => self.advance_head(now),
            Phase::Told(_) => self.told_head(),
            Phase::Body if wants_piece => self.next_piece(now),
            Phase::Body => Went::Wait,
            Phase::Over if wants_piece => Went::Piece(Piece::Failed),
            Phase::Over => Went::Wait,
        }
    }

    /// The work with the request body that is to be done now.
    fn body_work(&mut self, spool: Option<&Arc<Spool>>) -> Option<Box<Plan>> {
        if self.start.is_none() {
            let room = self.link.as_ref().map_or(0, |link| link.room());
            return if room > 0 { self.body.fetch() } else { None };
        }
        let told = told_len(&self.request).unwrap_or(0);
        match self.body.store(told, spool) {
            Ok(plan) => return plan,
            Err(Refused::Full) => {
                self.fail(Failure::SpoolFull, "the place for request bodies is full");
            }
            Err(Refused::TooLong) => self.refuse_body(),
        }
        None
    }

    /// There is no place for more of the request body than memory holds.
    fn refuse_body(&mut self) {
        match told_len(&self.request) {
            Some(_) => self.fail(Failure::TooLong, "its body is longer than may be held"),
            None => {
                let why = "its body came in chunks, and is longer than may be held";
                self.fail(Failure::Unmeasured, why);
            }
        }
    }

    /// Whether work with the request body or the answer is under way.
    pub(crate) fn is_working(&self) -> bool {
        self.body.is_working() || self.content.is_working()
    }

    /// That work is done.
    pub(crate) fn worked(&mut self, plan: Plan, now: &Now) {
        self.moved(now);
        if self.content.is_working() {
            if let Err(error) = self.content.worked(plan) {
                self.content.forget();
                // Bytes that came are lost.
                self.left = None;
                self.fail(Failure::Down, &format!("its answer cannot be held: {error}"));
            }
            return;
        }
        let Err(error) = self.body.worked(plan) else { return };
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                self.fail(Failure::SpoolFull, &format!("the place for request bodies: {error}"));
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                self.refuse_body();
            }
            _ => self.fail(Failure::Down, &format!("its body cannot be held: {error}")),
        }
    }

    fn push(&mut self) -> bool {
        self.link.as_mut().is_some_and(|link| link.push())
    }

    fn advance_head(&mut self, now: &Now) -> Went {
        while let Phase::Head = self.phase {
            let answer = self.content.memory();
            if let Some(len) = head_len(answer) {
                let head = answer.split_to(len);
                match Reply::parse(&head) {
                    Ok(reply) => self.phase = Phase::Told(Outcome::Reply(Box::new(reply))),
                    Err(why) => self.fail(Failure::Malformed, &format!("its head has {why}")),
                }
            } else if answer.len() > HEAD_BYTES_MAX {
                self.fail(Failure::Malformed, "its head is too long");
            } else if self.at_end {
                self.fail(Failure::Gone, "it ended within its head");
            } else {
                match self.pull(now) {
                    Ok(Flow::Wait | Flow::Untold) => return Went::Wait,
                    Ok(_) => {}
                    Err((failure, why)) => self.fail(failure, &why),
                }
            }
        }
        self.told_head()
    }

    /// The head is there, or will not be. Often the end is there by then, so that the head can tell
    /// how long the content is.
    fn told_head(&mut self) -> Went {
        let is_reply = matches!(self.phase, Phase::Told(Outcome::Reply(_)));
        if is_reply && self.gathers() { Went::Wait } else { Went::Head }
    }

    fn next_piece(&mut self, now: &Now) -> Went {
        loop {
            if let Some(content) = self.content.next() {
                return Went::Piece(Piece::More(Segment::Bytes(content)));
            }
            if let Some(plan) = self.content.fetch() {
                return Went::Work(plan);
            }
            if self.has_ended() {
                self.end();
                return Went::Piece(match self.broken {
                    Some(_) => Piece::Failed,
                    None => Piece::bytes("", true),
                });
            }
            match self.pull(now) {
                Ok(Flow::Wait | Flow::Untold) if !self.at_end => return Went::Wait,
                Ok(_) => {}
                Err((failure, why)) => self.fail(failure, &why),
            }
        }
    }

    /// Takes of the answer what its program has for a client that has no room for it now, so that
    /// the program need not wait. Never blocks.
    pub fn fill(&mut self, spool: Option<&Arc<Spool>>, now: &Now) -> Fill {
        let BackendLimits { buffer_bytes, spooled_bytes_max, .. } = *self.limits;
        while matches!(self.phase, Phase::Body) && !self.at_end && !self.is_working() {
            if let Some(plan) = self.content.store(spool) {
                return Fill::Work(plan);
            }
            if !self.content.has_room(buffer_bytes, spooled_bytes_max, spool.is_some()) {
                return Fill::Done;
            }
            match self.pull(now) {
                Ok(Flow::Wait | Flow::Untold) if !self.at_end => {
                    self.waits(now);
                    return Fill::Wait;
                }
                Ok(_) => {}
                Err((failure, why)) => self.fail(failure, &why),
            }
        }
        if self.at_end && matches!(self.phase, Phase::Body) {
            // It has said all, and is free, however slow the client is.
            self.leave();
        }
        Fill::Done
    }

    fn pull(&mut self, now: &Now) -> Result<Flow, (Failure, String)> {
        let Some(link) = &mut self.link else { return Ok(Flow::End) };
        let tail = self.content.tail(self.limits.buffer_bytes);
        let before = tail.len();
        let flow = link.pull(tail);
        let came = tail.len() - before;
        let surplus = surplus(&mut self.left, came);
        tail.truncate(tail.len() - surplus);
        self.output += came as u64;
        let flow = match flow {
            // It is whole: what befalls its program or its link afterwards means nothing.
            Err(_) if self.left == Some(0) => {
                self.link = None;
                Flow::End
            }
            flow => flow?,
        };
        self.at_end |= flow == Flow::End;
        if flow == Flow::Came {
            self.moved(now);
        }
        if surplus > 0 {
            self.drop_surplus();
        }
        if flow == Flow::Untold {
            self.untold_ms.get_or_insert(now.ms());
            // As long as its head says, it is whole, however its program ends.
            self.at_end |= self.left == Some(0);
        }
        match self.limits.output_max {
            Some(most) if self.output > most => {
                Err((Failure::Malformed, format!("its answer is longer than {most} bytes")))
            }
            _ => Ok(flow),
        }
    }

    /// The content is as long as the head says: what a program sends beyond that, such as a line
    /// feed at the end of a script, is dropped.
    pub(crate) fn promise(&mut self, len: Option<u64>) {
        self.left = len;
        let came = self.content.memory();
        let surplus = surplus(&mut self.left, came.len());
        came.truncate(came.len() - surplus);
        if surplus > 0 {
            self.drop_surplus();
        }
    }

    /// Where the next answer begins behind a surplus is not known: the link is not kept.
    fn drop_surplus(&mut self) {
        (self.link, self.at_end) = (None, true);
        let name = name_of("backend", &self.request, &self.id);
        say!(Level::Warn, "{name}: its content is longer than its head says, and was cut there");
    }

    /// What came of the request, once [`Went::Head`] was given.
    pub(crate) fn take_outcome(&mut self) -> Outcome {
        match std::mem::replace(&mut self.phase, Phase::Body) {
            Phase::Told(Outcome::Failed(failure)) => {
                self.phase = Phase::Over;
                Outcome::Failed(failure)
            }
            Phase::Told(outcome) => outcome,
            _ => Outcome::Failed(Failure::Gone),
        }
    }

    /// How long the content is, if all of it is here.
    pub(crate) fn whole_len(&mut self, now: &Now) -> Option<u64> {
        // Often the end is there already.
        while !self.at_end && self.content.memory().len() < HEAD_BYTES_MAX {
            match self.pull(now) {
                Ok(Flow::Wait | Flow::Untold) => break,
                Ok(_) => {}
                Err((failure, why)) => self.fail(failure, &why),
            }
        }
        let is_whole = self.has_ended() && self.broken.is_none();
        is_whole.then_some(self.content.memory().len() as u64)
    }

    /// Whether all has come that will. Content that is shorter than its head says is broken.
    fn has_ended(&mut self) -> bool {
        if self.at_end && self.broken.is_none() && self.left.is_some_and(|left| left > 0) {
            self.fail(Failure::Malformed, "its content is shorter than its head says");
        }
        self.at_end
    }

    /// Whether its body is refused for what it holds and comes in chunks: how much of it is still
    /// to come is not known, and the connection cannot go on behind it.
    pub(crate) fn has_long_body(&self, failure: Failure) -> bool {
        let refused =
            matches!(failure, Failure::SpoolFull | Failure::TooLong | Failure::Unmeasured);
        refused && told_len(&self.request).is_none()
    }

    /// Why the answer is not whole, once that is known.
    pub(crate) fn broken(&self) -> Option<Failure> {
        self.broken
    }

    /// Its link is waited for.
    pub fn waits(&mut self, now: &Now) {
        if !std::mem::replace(&mut self.waits, true) {
            self.since_ms = now.ms();
        }
    }

    /// Whether more of the answer may be there by now than its link has brought.
    pub(crate) fn flows(&self) -> bool {
        self.wire().is_some_and(Wire::flows)
    }

    /// Whether its link brings first what is there by now.
    fn gathers(&mut self) -> bool {
        let has_room = self.content.memory().len() < HEAD_BYTES_MAX;
        has_room && !self.at_end && self.wire_mut().is_some_and(Wire::gather)
    }

    /// It is not waited for: the next move is the client's.
    pub fn rests(&mut self) {
        self.waits = false;
        if let Some(wire) = self.wire_mut() {
            wire.rests();
        }
    }

    /// When [`Relay::expired`] is due, in monotonic milliseconds.
    pub fn deadline(&self) -> u64 {
        let Some(link) = &self.link else { return u64::MAX };
        if let Some(since_ms) = self.untold_ms.filter(|_| !self.at_end) {
            return since_ms + TOLD_MS_MAX;
        }
        let whole = self.limits.whole_ms.map_or(u64::MAX, |most| self.began_ms + most);
        let linked = match stage_of(&**link) {
            Stage::Queued => return whole.min(self.link_ms + self.limits.queue_ms),
            Stage::Connecting => self.link_ms + self.limits.connect_ms,
            Stage::Linked => u64::MAX,
        };
        let step = match self.phase {
            // It has nothing to do before it has more of the request.
            Phase::Head if !self.body.is_passed_on() && link.queued() == 0 => return whole,
            Phase::Head => self.limits.answer_ms,
            Phase::Body if self.waits => self.limits.idle_ms,
            Phase::Body => return whole,
            Phase::Told(_) | Phase::Over => return u64::MAX,
        };
        whole.min(linked).min(self.since_ms + step)
    }

    /// Some time passed.
    pub fn expired(&mut self, now: &Now) {
        if now.ms() < self.deadline() {
            return;
        }
        if self.untold_ms.is_some() && !self.at_end {
            self.at_end = true;
            return;
        }
        let stage = self.link.as_ref().map_or(Stage::Linked, |link| stage_of(&**link));
        let linking = now.ms().saturating_sub(self.link_ms);
        let waited = now.ms().saturating_sub(self.since_ms);
        match stage {
            Stage::Queued => {
                self.fail(Failure::Busy, &format!("no link was free for {linking} ms"));
            }
            Stage::Connecting if linking >= self.limits.connect_ms => {
                self.fail(Failure::Down, &format!("its server was not reached in {linking} ms"));
            }
            _ => self.fail(Failure::Late, &format!("it has said nothing for {waited} ms")),
        }
    }

    /// Whether all is said.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The client wants no more, or has all there is: the program may end by itself.
    pub fn end(&mut self) {
        self.leave();
        self.phase = Phase::Over;
    }

    /// Of its program nothing more is wanted.
    fn leave(&mut self) {
        if let Some(link) = self.link.take() {
            self.keeps_link = link.leave();
        }
    }

    /// Ends it, whatever it does, and says why in the log.
    pub(crate) fn fail(&mut self, failure: Failure, why: &str) {
        (self.link, self.start) = (None, None);
        self.body.forget();
        if matches!(self.phase, Phase::Body) && self.left == Some(0) {
            // As long as its head says, it is whole.
            self.at_end = true;
            return;
        }
        if failure != Failure::Missing {
            let name = name_of("backend", &self.request, &self.id);
            let code = failure.status().code();
            say!(Level::Warn, "{name}: {code}: {why}");
        }
        match self.phase {
            Phase::Head | Phase::Told(_) => self.phase = Phase::Told(Outcome::Failed(failure)),
            // What has come is passed on before it is broken off.
            Phase::Body => (self.at_end, self.broken) = (true, Some(failure)),
            Phase::Over => {}
        }
    }

    fn moved(&mut self, now: &Now) {
        self.since_ms = now.ms();
    }
}

fn stage_of(link: &dyn Link) -> Stage {
    link.wire().map_or(Stage::Linked, Wire::stage)
}

/// So many bytes came where so many are `left` to come: how many of them are too many.
fn surplus(left: &mut Option<u64>, came: usize) -> usize {
    let Some(left) = left else { return 0 };
    let surplus = (came as u64).saturating_sub(*left);
    *left = left.saturating_sub(came as u64);
    surplus as usize
}
