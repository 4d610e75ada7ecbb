//! A module whose answer takes more than one call, or calls where blocking is allowed: a
//! responder of its connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flyball_http::head::Content;
use flyball_http::{Body, Now, OwnedRequest, Segment, Status};
use flyball_module::abi::WAIT_MS_MAX;
use flyball_module::{Pending, Turn, Wake};
use flyball_sys::disk::{Compute, Done, Op};

use super::responder::{Responder, Role, Wants};
use super::{FilePart, Lookup, Service};
use crate::backend::{BODY_QUEUED_MAX, NoLink, Went, Wire};
use crate::entry::File;
use crate::modules::{BodyQueue, Called, Caller, Draft, FileWish, Mounted};
use crate::plan::Plan;
use crate::source::Piece;
use crate::steps::Steps;

/// All that a call of the module needs. A thread that calls it has it meanwhile.
#[derive(Debug)]
struct Task {
    mounted: Arc<Mounted>,
    request: Arc<OwnedRequest>,
    path: Vec<u8>,
    at: usize,
    body: BodyQueue,
    draft: Draft,
    id: String,
    pending: Option<Box<dyn Pending>>,
    /// How the last call ended.
    turn: Option<Ended>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    Failed,
    Wait(Wake),
}

impl Task {
    /// Calls the module. May block as it does.
    fn call(&mut self) {
        let Task { mounted, request, path, at, body, draft, id, pending, turn } = self;
        let Some(module) = mounted.instance() else { return *turn = Some(Ended::Failed) };
        let caller = Caller { request: request.request(), path, at: *at, name: mounted.name() };
        let mut exchange = Called { caller, body, draft, id };
        let ended = mounted.timed(|| match pending.take() {
            Some(rest) => rest.go_on(&mut exchange),
            None => module.answer(&mut exchange),
        });
        *turn = Some(match ended {
            Turn::Done => Ended::Done,
            Turn::Failed => Ended::Failed,
            Turn::Wait(wake, rest) => {
                *pending = Some(rest);
                Ended::Wait(wake)
            }
        });
    }
}

/// A call that another thread makes.
#[derive(Debug)]
struct Call(Mutex<Option<Box<Task>>>);

impl Compute for Call {
    fn compute(&self) {
        // Nobody waits for the lock: whoever asked takes the task back when this is done.
        let mut task = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A call is never made twice, whatever became of the thread that made it.
        if let Some(task) = task.as_mut().filter(|task| task.turn.is_none()) {
            task.call();
        }
    }
}

#[derive(Debug)]
struct CallSteps {
    call: Arc<Call>,
    given: bool,
}

impl Steps for CallSteps {
    fn next_op(&mut self) -> Option<Op> {
        if std::mem::replace(&mut self.given, true) {
            return None;
        }
        let work: Arc<Call> = Arc::clone(&self.call);
        Some(Op::Compute { work })
    }

    fn done(&mut self, _: Done) {}

    fn lost(&mut self) {
        self.given = false;
    }
}

/// What is done next.
#[derive(Debug)]
enum Next {
    /// The module is called at once.
    Call,
    /// It is called when more of the request body is there, or its end.
    Body,
    /// It is called when there is room.
    Room,
    /// It is called at this time, in monotonic milliseconds.
    Time(u64, Option<Box<Wire>>),
    /// It has said all.
    Nothing,
    /// There is no more, although it has not said all.
    Broken(Status),
}

/// What another has meanwhile.
#[derive(Debug, PartialEq, Eq)]
enum Away {
    Nothing,
    Call,
    /// A plan for the first of the files in the queue.
    File,
}

#[derive(Debug)]
enum Part {
    Ready(Segment<File>),
    Wish(FileWish),
}

/// A module that is answering.
#[derive(Debug)]
pub(crate) struct Running {
    request: Arc<OwnedRequest>,
    mounted: Arc<Mounted>,
    site: usize,
    task: Option<Box<Task>>,
    /// What came of the body while the task was away.
    arrived: Vec<u8>,
    body_ended: bool,
    /// There is something about the body that the module has not been called with.
    news: bool,
    next: Next,
    away: Away,
    queue: VecDeque<Part>,
    head_left: bool,
    /// How often programs sent the request elsewhere.
    redirects: u8,
}

impl Running {
    /// An answer that is to begin.
    pub(crate) fn new(
        mounted: &Arc<Mounted>,
        request: OwnedRequest,
        (path, at): (&[u8], usize),
        site: usize,
    ) -> Box<Running> {
        // Whatever the connection still reads is not of a request without a body.
        let body_ended = request.request().content() == Content::None;
        let request = Arc::new(request);
        let task = Task {
            mounted: Arc::clone(mounted),
            request: Arc::clone(&request),
            path: path.to_vec(),
            at,
            body: BodyQueue::default(),
            draft: Draft::default(),
            id: String::new(),
            pending: None,
            turn: None,
        };
        Box::new(Running {
            request,
            mounted: Arc::clone(mounted),
            site,
            task: Some(Box::new(task)),
            arrived: Vec::new(),
            body_ended,
            news: false,
            next: Next::Call,
            away: Away::Nothing,
            queue: VecDeque::new(),
            head_left: false,
            redirects: 0,
        })
    }

    /// The same after the first call, which was made in place and wrote this.
    pub(crate) fn begun(
        mut self: Box<Self>,
        turn: Turn,
        id: String,
        draft: Draft,
        now: &Now,
    ) -> Box<Self> {
        if let Some(task) = &mut self.task {
            (task.draft, task.id) = (draft, id);
            task.body.ended = self.body_ended;
            task.turn = Some(match turn {
                Turn::Done => Ended::Done,
                Turn::Failed => Ended::Failed,
                Turn::Wait(wake, rest) => {
                    task.pending = Some(rest);
                    Ended::Wait(wake)
                }
            });
        }
        self.called(now);
        self
    }

    /// The call is over: what it wrote, and what it waits for.
    fn called(&mut self, now: &Now) {
        let Some(task) = &mut self.task else { return };
        let Some(turn) = task.turn.take() else {
            self.next = Next::Broken(Status::INTERNAL_SERVER_ERROR);
            return;
        };
        let wrote = !task.draft.content.is_empty() || !task.draft.files.is_empty();
        take_parts(&mut task.draft, &mut self.queue);
        let full = task.body.queued() + self.arrived.len() >= BODY_QUEUED_MAX;
        let all_seen = task.body.ended && !self.news;
        self.next = match turn {
            Ended::Done => Next::Nothing,
            Ended::Failed => Next::Broken(Status::INTERNAL_SERVER_ERROR),
            // It would never be called again.
            Ended::Wait(Wake::Body) if full || all_seen => {
                Next::Broken(Status::INTERNAL_SERVER_ERROR)
            }
            Ended::Wait(Wake::Body) => Next::Body,
            Ended::Wait(Wake::Room) if wrote => Next::Room,
            // Others have their turn, even if nothing is to be waited for.
            Ended::Wait(Wake::Room) => Next::Time(now.ms() + 1, None),
            Ended::Wait(Wake::After(ms)) => Next::Time(now.ms() + ms.clamp(1, WAIT_MS_MAX), None),
        };
    }

    /// Whether the module is to be called now.
    fn is_due(&mut self, wants: Wants, now: &Now) -> bool {
        match &self.next {
            Next::Call => true,
            Next::Body => self.news,
            Next::Room => wants.piece,
            Next::Time(at, timer) => {
                let due = now.ms() >= *at || timer.as_ref().is_some_and(|one| one.has_ended());
                if due {
                    self.next = Next::Call;
                }
                due
            }
            Next::Nothing | Next::Broken(_) => false,
        }
    }

    fn set_timer(&mut self, now: &Now) {
        if let Next::Time(at, timer @ None) = &mut self.next {
            let ms = at.saturating_sub(now.ms());
            *timer = Some(Box::new(Wire::to_timer(ms)));
        }
    }

    /// Calls the module here, or gives out the work of calling it.
    fn call(&mut self, wants: Wants, now: &Now) -> Option<Went> {
        // What was written leaves before a call that may take long.
        if self.mounted.needs_thread() && wants.write {
            return Some(Went::Wait);
        }
        let mut task = self.task.take()?;
        self.news = false;
        task.body.push(&std::mem::take(&mut self.arrived));
        task.body.ended = self.body_ended;
        task.draft.head_left = self.head_left;
        if self.mounted.needs_thread() {
            self.away = Away::Call;
            let call = Arc::new(Call(Mutex::new(Some(task))));
            return Some(Went::Work(Plan::steps(CallSteps { call, given: false })));
        }
        task.call();
        self.task = Some(task);
        self.called(now);
        None
    }

    /// Has the first file of the queue opened that is not.
    fn open_files(&mut self, wants: Wants, service: &mut Service, now: &Now) -> Option<Went> {
        while let Some(at) = self.queue.iter().position(|part| matches!(part, Part::Wish(_))) {
            let Part::Wish(wish) = &self.queue[at] else { break };
            if wants.write {
                // What is there leaves before a file is waited for.
                return Some(Went::Wait);
            }
            match service.part_of_file(self.site, &self.request.request(), wish, now) {
                FilePart::Ready(segment) => self.queue[at] = Part::Ready(segment),
                FilePart::Wait(plan) => {
                    self.away = Away::File;
                    return Some(Went::Work(plan));
                }
                FilePart::Missing => self.lacks_file(),
            }
        }
        None
    }

    fn lacks_file(&mut self) {
        self.queue.clear();
        self.next = Next::Broken(Status::NOT_FOUND);
    }

    fn next_part(&mut self) -> Option<Segment<File>> {
        match self.queue.pop_front()? {
            Part::Ready(segment) => Some(segment),
            Part::Wish(_) => None,
        }
    }

    /// What there is to be sent, in pieces; `None` when that is nothing yet.
    fn piece(&mut self, wants: Wants) -> Option<Went> {
        let over = matches!(self.next, Next::Nothing) && self.queue.len() <= 1;
        // What it wrote before is the client's.
        if matches!(self.next, Next::Broken(_)) && self.queue.is_empty() {
            return Some(if wants.piece { Went::Piece(Piece::Failed) } else { Went::Wait });
        }
        if self.queue.is_empty() && !over {
            return None;
        }
        if !wants.piece {
            return Some(Went::Wait);
        }
        let segment = self.next_part().unwrap_or(Segment::Bytes(Bytes::new()));
        Some(Went::Piece(if over { Piece::Last(segment) } else { Piece::More(segment) }))
    }

    /// Whether the head can leave.
    fn has_head(&self) -> bool {
        match self.next {
            Next::Nothing | Next::Broken(_) | Next::Room => true,
            _ => !self.queue.is_empty(),
        }
    }
}

/// Moves what was written to the queue.
fn take_parts(draft: &mut Draft, queue: &mut VecDeque<Part>) {
    let content = Bytes::copy_from_slice(&draft.content);
    let mut from = 0;
    for wish in draft.files.drain(..) {
        if wish.at > from {
            queue.push_back(Part::Ready(Segment::Bytes(content.slice(from..wish.at))));
            from = wish.at;
        }
        queue.push_back(Part::Wish(wish));
    }
    if content.len() > from {
        queue.push_back(Part::Ready(Segment::Bytes(content.slice(from..))));
    }
    draft.clear_content();
}

impl Responder for Running {
    fn role(&self) -> Role {
        Role::Module
    }

    fn request(&self) -> Option<&OwnedRequest> {
        Some(&self.request)
    }

    fn room(&self) -> usize {
        let queued = self.task.as_ref().map_or(0, |task| task.body.queued());
        BODY_QUEUED_MAX.saturating_sub(queued + self.arrived.len())
    }

    fn take(&mut self, bytes: &[u8], _: &Now) {
        if self.body_ended {
            return;
        }
        self.arrived.extend_from_slice(bytes);
        self.news = true;
    }

    fn end_body(&mut self, _: &Now) {
        self.news |= !std::mem::replace(&mut self.body_ended, true);
    }

    fn advance(&mut self, wants: Wants, service: &mut Service, now: &Now) -> Went {
        if self.away != Away::Nothing {
            return Went::Working;
        }
        loop {
            if let Some(went) = self.open_files(wants, service, now) {
                return went;
            }
            if !self.head_left && self.has_head() {
                return Went::Head;
            }
            if self.head_left
                && let Some(went) = self.piece(wants)
            {
                return went;
            }
            if !self.is_due(wants, now) {
                self.set_timer(now);
                return Went::Wait;
            }
            if let Some(went) = self.call(wants, now) {
                return went;
            }
        }
    }

    fn worked(&mut self, plan: Plan, service: &mut Service, now: &Now) -> Option<Box<Plan>> {
        match std::mem::replace(&mut self.away, Away::Nothing) {
            Away::Call => {
                let steps = plan.into_steps::<CallSteps>();
                self.task = steps.and_then(|steps| {
                    steps.call.0.lock().unwrap_or_else(PoisonError::into_inner).take()
                });
                if self.task.is_none() {
                    self.next = Next::Broken(Status::INTERNAL_SERVER_ERROR);
                }
                self.called(now);
            }
            Away::File => {
                let at = self.queue.iter().position(|part| matches!(part, Part::Wish(_)))?;
                let Part::Wish(wish) = &self.queue[at] else { return None };
                match service.opened_part(plan, wish, now) {
                    FilePart::Ready(segment) => self.queue[at] = Part::Ready(segment),
                    FilePart::Wait(next) => {
                        self.away = Away::File;
                        return Some(next);
                    }
                    FilePart::Missing => self.lacks_file(),
                }
            }
            Away::Nothing => debug_assert!(false, "no work was given out"),
        }
        None
    }

    fn answer<'s>(&mut self, service: &'s mut Service, now: &Now) -> Option<Lookup<'s>> {
        self.head_left = true;
        service.answers_for(Some(self.site), Some(self.mounted.number));
        let draft = self.task.as_mut().map(|task| std::mem::take(&mut task.draft));
        let draft = draft.unwrap_or_default();
        if let Next::Broken(status) = self.next {
            return Some(service.module_failed(&self.request.request(), status));
        }
        if let Some(path) = &draft.serve {
            service.answers_for(Some(self.site), None);
            let path = (&path[..], self.redirects);
            return Some(service.serve_instead(self.site, &self.request.request(), path, now));
        }
        let body = match self.next {
            Next::Nothing => {
                let queue = std::mem::take(&mut self.queue);
                let ready = queue.into_iter().filter_map(|part| match part {
                    Part::Ready(segment) => Some(segment),
                    Part::Wish(_) => None,
                });
                Body::Parts(ready.collect())
            }
            _ => Body::Stream { len: draft.len },
        };
        Some(service.module_answer(self.site, &self.request.request(), draft, body))
    }

    fn waits(&mut self, _: &Now) {
        if let Some(timer) = self.wire_mut() {
            timer.waits();
        }
    }

    fn rests(&mut self) {
        if let Some(timer) = self.wire_mut() {
            timer.rests();
        }
    }

    fn wire(&self) -> Option<&Wire> {
        let Next::Time(_, timer) = &self.next else { return None };
        timer.as_deref()
    }

    fn wire_mut(&mut self) -> Option<&mut Wire> {
        let Next::Time(_, timer) = &mut self.next else { return None };
        timer.as_deref_mut()
    }

    /// Without a timer, because descriptors are out, its deadline ends the wait, a little later.
    fn linked(&mut self, _: Result<bool, NoLink>, _: &Now) {
        if let Some(timer) = self.wire_mut() {
            timer.linked(false);
        }
    }

    fn deadline(&self) -> u64 {
        match self.next {
            Next::Time(at, _) if self.away == Away::Nothing => at,
            _ => u64::MAX,
        }
    }

    fn end(&mut self) {
        self.task = None;
        self.queue.clear();
    }

    fn set_redirects(&mut self, redirects: u8) {
        self.redirects = redirects;
    }
}
