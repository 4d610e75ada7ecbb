//! One request and the backend that answers it: what goes from one to the other, and how long that
//! may take.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use flyball_http::{Now, OwnedRequest, Segment};
use flyball_sys::error_log::Level;
use flyball_sys::{process, say};

use super::answering::{Answering, Outcome, Phase, Pulled};
use super::asked::Asked;
use super::coded::CodedAnswer;
use super::own_link::OwnLink;
use super::spool::Spool;
use super::start::Start;
use super::upstream::NoLink;
use super::wire::Wire;
use super::{Failure, Flow, Stage};
use crate::backend_settings::BackendLimits;
use crate::plan::Plan;
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

/// The second end of a slot: a request on its way to a backend, and its answer on its way back.
#[derive(Debug)]
pub struct Relay {
    asked: Asked,
    link: OwnLink,
    answering: Answering,
    limits: Arc<BackendLimits>,
    began_ms: u64,
    /// Since when nothing has moved while the backend was waited for.
    since_ms: u64,
    waits: bool,
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
        let mut asked = Asked::new(request, site, id);
        let link = asked.begin(start, limits.held_bytes_max);
        let mut relay = Relay {
            asked,
            link: OwnLink::new(link, now_ms),
            answering: Answering::default(),
            limits: Arc::clone(limits),
            began_ms: now_ms,
            since_ms: now_ms,
            waits: false,
            coded: None,
            failed: None,
        };
        if relay.asked.told_len() == Some(0) {
            // Whatever the connection still reads is not of this request.
            relay.asked.body.end();
            relay.feed();
        }
        relay
    }

    /// The request.
    pub fn request(&self) -> &OwnedRequest {
        self.asked.request()
    }

    /// Lets it have files of these directories sent.
    pub(super) fn sending(mut self, roots: &Arc<[PathBuf]>) -> Relay {
        self.asked.sendfile_roots = Arc::clone(roots);
        self
    }

    pub(crate) fn sendfile_roots(&self) -> &[PathBuf] {
        &self.asked.sendfile_roots
    }

    pub(crate) fn site(&self) -> usize {
        self.asked.site
    }

    /// How often the request was sent elsewhere by a program.
    pub(crate) fn redirects(&self) -> u8 {
        self.asked.redirects
    }

    /// The same, as it was before.
    pub(crate) fn set_redirects(&mut self, redirects: u8) {
        self.asked.redirects = redirects;
    }

    /// Whether its program led to a path that is not open to everybody.
    pub(crate) fn is_led_to_closed(&self) -> bool {
        self.asked.led_to_closed
    }

    /// Its program leads to another path, which is not open to everybody if `closed`.
    pub(crate) fn leads(&mut self, closed: bool) {
        self.asked.led_to_closed = closed;
    }

    /// Bytes of the request body that can be taken now.
    pub fn room(&self) -> usize {
        let body = &self.asked.body;
        match self.link.room() {
            _ if body.has_ended() => usize::MAX,
            _ if self.asked.is_gathered_first() => body.room(),
            // What was held goes first.
            Some(_) if body.len() > 0 => 0,
            Some(room) => room,
            None => usize::MAX,
        }
    }

    /// Takes bytes of the request body, at most as many as there is room for. What comes behind its
    /// end was for a program that has sent the request elsewhere, and is dropped.
    pub fn take(&mut self, bytes: &[u8], now: &Now) {
        if self.asked.body.has_ended() {
            return;
        }
        if self.asked.is_gathered_first() {
            self.asked.body.take(bytes);
        } else {
            self.link.take(bytes);
        }
        self.moved(now);
    }

    /// The request body has ended, or there was none. May be told again.
    pub fn end_body(&mut self, now: &Now) {
        if !self.asked.body.has_ended() {
            self.asked.body.end();
            self.feed();
            self.moved(now);
        }
    }

    /// Asks for its program, once the request body is whole.
    pub(crate) fn start_when_gathered(&mut self, now: &Now) {
        if let Some(link) = self.asked.begin_when_gathered() {
            self.link = OwnLink::new(Some(link), now.ms());
            (self.began_ms, self.since_ms) = (now.ms(), now.ms());
        }
    }

    /// It has its link, which was used before if that `was_idle`; or there is none for it.
    pub(crate) fn linked(&mut self, was_idle: Result<bool, NoLink>, now: &Now) {
        match was_idle {
            Ok(was_idle) => {
                self.moved(now);
                self.link.linked(was_idle, now.ms());
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
        self.link.wire()
    }

    /// The same, to be told what was done.
    pub(crate) fn wire_mut(&mut self) -> Option<&mut Wire> {
        self.link.wire_mut()
    }

    /// Whether the link that it has left may be kept.
    pub(crate) fn keeps_link(&self) -> bool {
        self.link.keeps()
    }

    /// Passes on what was held of the request body; true when that was anything.
    fn feed(&mut self) -> bool {
        self.link.feed(&mut self.asked.body)
    }

    /// Goes on without waiting: passes the request on, and takes of the answer what is wanted: its
    /// head, or once that was given a piece if `wants_piece`.
    pub fn advance(&mut self, wants_piece: bool, spool: Option<&Arc<Spool>>, now: &Now) -> Went {
        if self.is_working() {
            return Went::Working;
        }
        while self.feed() | self.link.push() {
            self.moved(now);
        }
        if let Some(plan) = self.body_work(spool) {
            return Went::Work(plan);
        }
        if self.asked.is_gathered_first() {
            return Went::Wait;
        }
        match self.answering.phase {
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
        if !self.asked.is_gathered_first() {
            let has_room = self.link.room().is_some_and(|room| room > 0);
            return if has_room { self.asked.body.fetch() } else { None };
        }
        match self.asked.store(spool) {
            Ok(plan) => plan,
            Err((failure, why)) => {
                self.fail(failure, &why);
                None
            }
        }
    }

    /// Whether work with the request body or the answer is under way.
    pub(crate) fn is_working(&self) -> bool {
        self.asked.body.is_working() || self.answering.content.is_working()
    }

    /// That work is done.
    pub(crate) fn worked(&mut self, plan: Plan, now: &Now) {
        self.moved(now);
        let done = match self.answering.content.is_working() {
            true => self.answering.worked(plan),
            false => self.asked.worked(plan),
        };
        if let Err((failure, why)) = done {
            self.fail(failure, &why);
        }
    }

    fn advance_head(&mut self, now: &Now) -> Went {
        loop {
            match self.answering.read_head() {
                Ok(true) => return self.told_head(),
                Ok(false) if self.pull(now) => {}
                Ok(false) => return Went::Wait,
                Err((failure, why)) => self.fail(failure, &why),
            }
        }
    }

    /// The head is there, or will not be. Often the end is there by then, so that the head can tell
    /// how long the content is.
    fn told_head(&mut self) -> Went {
        let may_gather = self.answering.may_gather();
        let gathers = may_gather && self.wire_mut().is_some_and(Wire::gather);
        if gathers { Went::Wait } else { Went::Head }
    }

    fn next_piece(&mut self, now: &Now) -> Went {
        loop {
            if let Some(content) = self.answering.content.next() {
                return Went::Piece(Piece::More(Segment::Bytes(content)));
            }
            if let Some(plan) = self.answering.content.fetch() {
                return Went::Work(plan);
            }
            if self.has_ended() {
                self.end();
                return Went::Piece(match self.answering.broken {
                    Some(_) => Piece::Failed,
                    None => Piece::bytes("", true),
                });
            }
            if !self.pull(now) {
                return Went::Wait;
            }
        }
    }

    /// Takes of the answer what its program has for a client that has no room for it now, so that
    /// the program need not wait. Never blocks.
    pub fn fill(&mut self, spool: Option<&Arc<Spool>>, now: &Now) -> Fill {
        let BackendLimits { buffer_bytes, spooled_bytes_max, .. } = *self.limits;
        while self.answering.is_in_content() && !self.answering.at_end && !self.is_working() {
            let content = &mut self.answering.content;
            if let Some(plan) = content.store(spool) {
                return Fill::Work(plan);
            }
            if !content.has_room(buffer_bytes, spooled_bytes_max, spool.is_some()) {
                return Fill::Done;
            }
            if !self.pull(now) {
                self.waits(now);
                return Fill::Wait;
            }
        }
        if self.answering.is_in_content() && self.answering.at_end {
            // It has said all, and is free, however slow the client is.
            self.link.leave();
        }
        Fill::Done
    }

    /// Takes more of the answer, or learns that there is none; false when its link must be waited
    /// for.
    fn pull(&mut self, now: &Now) -> bool {
        match self.answering.pull(&mut self.link, &self.limits, now) {
            Ok(Pulled { flow, has_surplus }) => {
                if flow == Flow::Came {
                    self.moved(now);
                }
                if has_surplus {
                    self.drop_surplus();
                }
                self.answering.at_end || !matches!(flow, Flow::Wait | Flow::Untold)
            }
            Err((failure, why)) => {
                self.fail(failure, &why);
                true
            }
        }
    }

    /// The content is as long as the head says: what a program sends beyond that, such as a line
    /// feed at the end of a script, is dropped.
    pub(crate) fn promise(&mut self, len: Option<u64>) {
        if self.answering.promise(len) {
            self.drop_surplus();
        }
    }

    /// Where the next answer begins behind a surplus is not known: the link is not kept.
    fn drop_surplus(&mut self) {
        self.link.cut();
        let name = self.asked.name();
        say!(Level::Warn, "{name}: its content is longer than its head says, and was cut there");
    }

    /// What came of the request, once [`Went::Head`] was given.
    pub(crate) fn take_outcome(&mut self) -> Outcome {
        self.answering.take_outcome()
    }

    /// How long the content is, if all of it is here.
    pub(crate) fn whole_len(&mut self, now: &Now) -> Option<u64> {
        // Often the end is there already.
        while !self.answering.at_end && self.answering.has_room_for_head() && self.pull(now) {}
        let is_whole = self.has_ended() && self.answering.broken.is_none();
        is_whole.then_some(self.answering.content.memory().len() as u64)
    }

    /// Whether all has come that will. Content that is shorter than its head says is broken.
    fn has_ended(&mut self) -> bool {
        if self.answering.is_short() {
            self.fail(Failure::Malformed, "its content is shorter than its head says");
        }
        self.answering.at_end
    }

    /// Whether its body is refused for what it holds and comes in chunks: how much of it is still
    /// to come is not known, and the connection cannot go on behind it.
    pub(crate) fn has_long_body(&self, failure: Failure) -> bool {
        let refused =
            matches!(failure, Failure::SpoolFull | Failure::TooLong | Failure::Unmeasured);
        refused && self.asked.told_len().is_none()
    }

    /// Why the answer is not whole, once that is known.
    pub(crate) fn broken(&self) -> Option<Failure> {
        self.answering.broken
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

    /// It is not waited for: the next move is the client's.
    pub fn rests(&mut self) {
        self.waits = false;
        if let Some(wire) = self.wire_mut() {
            wire.rests();
        }
    }

    /// When [`Relay::expired`] is due, in monotonic milliseconds.
    pub fn deadline(&self) -> u64 {
        let (limits, link) = (&self.limits, &self.link);
        if !link.is_held() {
            return u64::MAX;
        }
        if let Some(since_ms) = self.answering.untold_ms() {
            return since_ms + TOLD_MS_MAX;
        }
        let whole = limits.whole_ms.map_or(u64::MAX, |most| self.began_ms + most);
        let linked = match link.stage() {
            Stage::Queued => return whole.min(link.since_ms + limits.queue_ms),
            Stage::Connecting => link.since_ms + limits.connect_ms,
            Stage::Linked => u64::MAX,
        };
        let step = match self.answering.phase {
            // It has nothing to do before it has more of the request.
            Phase::Head if !self.asked.body.is_passed_on() && link.has_sent_all() => return whole,
            Phase::Head => limits.answer_ms,
            Phase::Body if self.waits => limits.idle_ms,
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
        if self.answering.untold_ms().is_some() {
            self.answering.at_end = true;
            return;
        }
        let linking = now.ms().saturating_sub(self.link.since_ms);
        let waited = now.ms().saturating_sub(self.since_ms);
        match self.link.stage() {
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
        matches!(self.answering.phase, Phase::Over)
    }

    /// The client wants no more, or has all there is: the program may end by itself.
    pub fn end(&mut self) {
        self.link.leave();
        self.answering.phase = Phase::Over;
    }

    /// Ends it, whatever it does, and says why in the log.
    pub(crate) fn fail(&mut self, failure: Failure, why: &str) {
        self.link.cut();
        self.asked.forget();
        if self.answering.fail(failure) && failure != Failure::Missing {
            let (name, code) = (self.asked.name(), failure.status().code());
            say!(Level::Warn, "{name}: {code}: {why}");
        }
    }

    fn moved(&mut self, now: &Now) {
        self.since_ms = now.ms();
    }
}
