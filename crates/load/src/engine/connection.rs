//! One connection and the session on it: what is due, what is awaited, and what replies mean.
//!
//! Nothing here touches a socket: bytes and the time are arguments.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use flyball_http::Limits;
use flyball_http::h1::{AnswerHead, Client, Event};

use super::pace::Pace;
use super::retries::retry_after_ns;
use super::secure::Secured;
use crate::observe::{End, Kind, SYN_RETRY_NS, Tally};
use crate::workload::{Catalog, Content, Follow, PageSeen, RequestId, Step};

/// Bytes from which on a body is seen to have begun as it should.
const BEGINNING: usize = 64;

/// What a place in the table of connections does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing: the place is free.
    Free,
    /// Waits for the connection.
    Connecting,
    /// Waits until both sides have the keys of TLS.
    Handshaking,
    /// Waits for replies.
    Active,
    /// Waits until it is time for the next burst.
    Thinking,
    /// Was refused or failed, and waits before it tries again.
    Retrying,
    /// Failed, or has a line that is not free yet, and waits before the next session.
    Pausing,
}

/// A request whose reply has not come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) request: RequestId,
    /// When it was due.
    pub(super) intended_ns: u64,
    /// When its present try was due: from then on a reply is good or late.
    pub(super) due_ns: u64,
    /// When the client began with that.
    pub(super) actual_ns: u64,
    /// Tries before that.
    pub(super) tries: u32,
    /// Whether it was handed to a socket, on this connection or one before it.
    pub(super) sent: bool,
    /// Whether any of its reply has come.
    pub(super) begun: bool,
}

/// What replies are judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) catalog: &'a Catalog,
    /// Whether bodies are compared.
    pub(super) verify: bool,
    /// Latency up to which a reply is good, in nanoseconds.
    pub(super) deadline_ns: u64,
    /// Tries of a request beyond its first.
    pub(super) retries: u32,
    /// From when on no further try follows, on the monotonic clock.
    pub(super) retries_end_ns: u64,
}

impl Judge<'_> {
    /// How many tries a request has now beyond its first.
    pub(super) fn retries_at(&self, now_ns: u64) -> u32 {
        if now_ns < self.retries_end_ns { self.retries } else { 0 }
    }
}

/// A place in the table of connections; it is used again with what it has allocated.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Option<OwnedFd>,
    /// What its bytes are sealed by; none in the clear.
    pub(super) secured: Option<Box<Secured>>,
    /// Tells events of this socket from late ones of those before it.
    pub(super) generation: u32,
    pub(super) phase: Phase,
    /// Whether its session was due within the window, so that everything of it counts.
    pub(super) counts: bool,
    pub(super) steps: Vec<Step>,
    pub(super) next_step: usize,
    /// When the next step that begins a burst is due, or was.
    pub(super) due_ns: u64,
    /// Whether the first reply of the present burst has come.
    burst_replied: bool,
    pub(super) waiting: VecDeque<Outstanding>,
    /// How many of those that wait were sent on this connection.
    pub(super) written: usize,
    /// What the socket did not take of them.
    pub(super) unsent: Vec<u8>,
    pub(super) unsent_from: usize,
    /// Bytes received that are not a whole head yet.
    pub(super) partial: Vec<u8>,
    client: Client,
    pub(super) connect_ns: u64,
    /// Whether connecting took as long as a packet that was lost.
    was_slow: bool,
    pub(super) requests_here: u32,
    pub(super) replies_here: u32,
    /// The server has said that this connection ends.
    pub(super) closing: bool,
    status: u16,
    /// How long the reply asks to wait, if it is a refusal.
    retry_after_ns: u64,
    /// Whether the request that is next was refused, and is to be tried again.
    refused: bool,
    body_bytes: u64,
    /// What is wrong with the reply so far.
    wrong: Option<Kind>,
    /// What was seen of a dynamic reply; there when one was asked for.
    page: Option<Box<PageSeen>>,
    in_body: bool,
    /// Bytes are there that the pace did not allow to read.
    pub(super) readable: bool,
    pub(super) reading: Pace,
    pub(super) writing: Pace,
    /// When the first request was begun whose reply the client's line still carries, and bytes of
    /// bodies since.
    asked_ns: Option<u64>,
    carried: u64,
}

impl Connection {
    pub(super) fn new() -> Connection {
        Connection {
            socket: None,
            secured: None,
            generation: 0,
            phase: Phase::Free,
            counts: false,
            steps: Vec::new(),
            next_step: 0,
            due_ns: 0,
            burst_replied: false,
            waiting: VecDeque::new(),
            written: 0,
            unsent: Vec::new(),
            unsent_from: 0,
            partial: Vec::new(),
            client: Client::new(Limits::default()),
            connect_ns: 0,
            was_slow: false,
            requests_here: 0,
            replies_here: 0,
            closing: false,
            status: 0,
            retry_after_ns: 0,
            refused: false,
            body_bytes: 0,
            wrong: None,
            page: None,
            in_body: false,
            readable: false,
            reading: Pace::default(),
            writing: Pace::default(),
            asked_ns: None,
            carried: 0,
        }
    }

    /// Forgets the socket, which is closed, and everything that was true of it. Requests that wait
    /// are to be sent anew.
    pub(super) fn disconnect(&mut self) -> Option<OwnedFd> {
        self.generation = self.generation.wrapping_add(1);
        self.secured = None;
        self.written = 0;
        self.unsent.clear();
        self.unsent_from = 0;
        self.partial.clear();
        self.client = Client::new(Limits::default());
        self.requests_here = 0;
        self.replies_here = 0;
        self.closing = false;
        self.readable = false;
        self.body_bytes = 0;
        self.wrong = None;
        self.in_body = false;
        self.socket.take()
    }

    /// A session begins that was due at `due_ns`, and `counts` or not; its steps are in `steps`.
    pub(super) fn begin_session(&mut self, due_ns: u64, counts: bool) {
        self.counts = counts;
        self.next_step = 0;
        self.due_ns = due_ns;
        self.burst_replied = false;
        self.waiting.clear();
        self.written = 0;
        (self.asked_ns, self.carried) = (None, 0);
    }

    /// Whether every step got its reply.
    pub(super) fn is_session_over(&self) -> bool {
        self.next_step == self.steps.len() && self.waiting.is_empty()
    }

    /// Requests of the session that have no reply.
    pub(super) fn unanswered(&self) -> u64 {
        (self.steps.len() - self.next_step + self.waiting.len()) as u64
    }

    /// Lets the next step wait for its reply, if it may be sent now; whether it may. Of `limit`
    /// requests on a connection, none is left when it is used up.
    pub(super) fn admit(&mut self, now_ns: u64, depth: usize, limit: u32) -> bool {
        let Some(step) = self.steps.get(self.next_step).copied() else { return false };
        let first = self.next_step == 0;
        let has_room = self.waiting.len() < depth;
        let (may, due_ns) = match step.follow {
            _ if first => (true, self.due_ns),
            Follow::Think(_) | Follow::Pause => {
                (self.waiting.is_empty() && self.due_ns <= now_ns, self.due_ns)
            }
            Follow::AfterFirst => (self.burst_replied && has_room, now_ns),
            Follow::Together => (has_room, now_ns),
        };
        // Those that wait and are not sent yet will be on this connection, too.
        let here = self.requests_here as usize + self.waiting.len() - self.written;
        if !may || here >= limit as usize {
            return false;
        }
        if matches!(step.follow, Follow::Think(_) | Follow::Pause) {
            self.burst_replied = false;
        }
        let (request, intended_ns) = (step.request, due_ns);
        self.waiting.push_back(Outstanding {
            request,
            intended_ns,
            due_ns: intended_ns,
            actual_ns: now_ns,
            tries: 0,
            sent: false,
            begun: false,
        });
        self.next_step += 1;
        true
    }

    /// What is thought before the next step is sent, if it begins a burst: what it says, or what
    /// the client's `own` time is.
    pub(super) fn think_ns(&self, own: impl FnOnce() -> u64) -> Option<u64> {
        match self.steps.get(self.next_step)?.follow {
            Follow::Think(ns) => Some(ns),
            Follow::Pause => Some(own()),
            Follow::AfterFirst | Follow::Together => None,
        }
    }

    /// When a line of so many bytes in a second has carried the replies since this was asked last;
    /// 0 when there were none.
    pub(super) fn line_free_ns(&mut self, rate: u64) -> u64 {
        let carried = u128::from(std::mem::take(&mut self.carried));
        let took_ns = carried * 1_000_000_000 / u128::from(rate.max(1));
        let took_ns = u64::try_from(took_ns).unwrap_or(u64::MAX);
        self.asked_ns.take().map_or(0, |asked_ns| asked_ns.saturating_add(took_ns))
    }

    /// `count` requests that wait were handed to the socket, or to `unsent`; how many of them for
    /// the first time.
    pub(super) fn wrote(&mut self, count: usize, catalog: &Catalog) -> u64 {
        if self.written == 0 && count > 0 {
            self.await_front(catalog);
        }
        let these = self.waiting.range_mut(self.written..self.written + count);
        let first = these.map(|one| u64::from(!std::mem::replace(&mut one.sent, true))).sum();
        self.written += count;
        self.requests_here += count as u32;
        first
    }

    fn await_front(&mut self, catalog: &Catalog) {
        if let Some(front) = self.waiting.front() {
            self.client.requested(catalog.request(front.request).is_head);
            self.body_bytes = 0;
            self.wrong = None;
        }
    }

    /// Takes input: how much of it; the rest is the beginning of a head and comes again with more.
    ///
    /// # Errors
    /// When it is no reply, or one that nobody asked for.
    pub(super) fn take(
        &mut self,
        input: &[u8],
        now_ns: u64,
        judge: Judge<'_>,
        tally: &mut Tally,
    ) -> Result<usize, Kind> {
        let mut at = 0;
        if let Some(front) = self.waiting.front_mut().filter(|front| !front.begun) {
            front.begun = true;
            if self.counts {
                tally.first_byte.record(now_ns.saturating_sub(front.actual_ns));
            }
        }
        while self.written > 0 {
            let (consumed, event) = self.client.recv(&input[at..]);
            at += consumed;
            match event {
                Event::Head(head) => self.take_head(head, &input[at - consumed..at], judge),
                Event::Body(ready) => {
                    self.take_body(&input[at..at + ready], judge);
                    self.client.taken(ready);
                    at += ready;
                }
                Event::End => self.replied(now_ns, judge, tally),
                Event::More => return Ok(at),
                Event::Idle | Event::Broken(_) => return Err(Kind::Malformed),
            }
        }
        if at == input.len() { Ok(at) } else { Err(Kind::Malformed) }
    }

    fn take_head(&mut self, head: AnswerHead, bytes: &[u8], judge: Judge<'_>) {
        self.status = head.status;
        self.in_body = true;
        self.closing |= !head.keep_alive;
        self.retry_after_ns = match End::of_status(head.status) {
            End::Admitted => 0,
            _ => retry_after_ns(bytes),
        };
        let Some(front) = self.waiting.front() else { return };
        let expected = &judge.catalog.request(front.request).expected;
        if let Some(page) = &expected.page {
            self.page.get_or_insert_default().begin(page, head, bytes);
        }
        let is_other = expected.status.is_some_and(|status| status != head.status);
        if judge.verify && is_other && !expected.is_not_modified(head.status) {
            self.wrong = Some(Kind::WrongBody);
        }
    }

    fn take_body(&mut self, bytes: &[u8], judge: Judge<'_>) {
        let at = self.body_bytes;
        self.body_bytes += bytes.len() as u64;
        let Some(front) = self.waiting.front() else { return };
        let expected = &judge.catalog.request(front.request).expected;
        if let (Some(page), Some(seen)) = (&expected.page, &mut self.page) {
            seen.take(page, bytes, judge.verify);
        }
        let content = expected.content.as_ref().filter(|_| judge.verify && self.wrong.is_none());
        if content.is_some_and(|content| !content.matches(at, bytes)) {
            let begins = |content: &dyn Content| {
                let first = bytes.get(..BEGINNING);
                at > 0 || first.is_some_and(|first| content.matches(0, first))
            };
            let is_torn = content.is_some_and(|content| begins(content.as_ref()));
            self.wrong = Some(if is_torn { Kind::TornBody } else { Kind::WrongBody });
        }
    }

    /// The reply to the oldest request is complete.
    fn replied(&mut self, now_ns: u64, judge: Judge<'_>, tally: &mut Tally) {
        let Some(done) = self.waiting.pop_front() else { return };
        self.written -= 1;
        self.replies_here += 1;
        self.in_body = false;
        self.asked_ns.get_or_insert(done.actual_ns);
        self.carried += self.body_bytes;
        self.count_reply(now_ns, tally);
        let end = End::of_status(self.status);
        let is_last = end == End::Admitted || done.tries >= judge.retries_at(now_ns);
        self.count_try(done, (end, is_last), now_ns, tally);
        if !is_last {
            let again = Outstanding { tries: done.tries + 1, ..done };
            self.waiting.push_front(again);
            self.refused = true;
            return;
        }
        self.burst_replied = true;
        let request = judge.catalog.request(done.request);
        let has_body = !request.is_head && !request.expected.is_not_modified(self.status);
        if judge.verify && has_body {
            // What there is of it was compared.
            match request.expected.length {
                Some(length) if self.body_bytes < length => {
                    self.wrong.get_or_insert(Kind::ShortBody);
                }
                Some(length) if self.body_bytes > length => {
                    self.wrong.get_or_insert(Kind::WrongBody);
                }
                _ => {}
            }
        }
        let page = request.expected.page.as_ref().zip(self.page.as_mut());
        let broken = page.and_then(|(page, seen)| {
            tally.posts += u64::from(page.is_posted());
            seen.end()
        });
        let latency_ns = now_ns.saturating_sub(done.intended_ns);
        if self.counts {
            tally.latency.record(latency_ns);
            tally.latency_actual.record(now_ns.saturating_sub(done.actual_ns));
            if !done.begun {
                tally.first_byte.record(now_ns.saturating_sub(done.actual_ns));
            }
            if let Some(class) = tally.classes.get_mut(usize::from(request.class)) {
                class.replies += 1;
                class.bytes += self.body_bytes;
            }
        }
        let is_in_time = now_ns.saturating_sub(done.due_ns) <= judge.deadline_ns;
        let is_right = self.wrong.is_none() && broken.is_none();
        let is_good = self.status < 400 && is_right && is_in_time;
        tally.good += u64::from(is_good && self.counts);
        tally.tries.good_again += u64::from(is_good && self.counts && done.tries > 0);
        if let Some(series) = &mut tally.series {
            series.replied(now_ns, latency_ns, is_good);
        }
        tally.good_in_window += u64::from(is_good && tally.window.holds(now_ns));
        if let Some(kind) = self.wrong {
            tally.error(kind, self.counts);
        }
        if let Some(rule) = broken {
            tally.error(Kind::WrongDynamic, self.counts);
            tally.broken_rules[rule as usize] += u64::from(self.counts);
        }
        if self.written > 0 {
            self.await_front(judge.catalog);
        }
    }

    /// Counts a reply, of the last try of its request or of one before that.
    fn count_reply(&self, now_ns: u64, tally: &mut Tally) {
        tally.replies_total += 1;
        tally.replies_in_window += u64::from(tally.window.holds(now_ns));
        if self.counts {
            tally.replies += 1;
            tally.status[usize::from(self.status).min(999)] += 1;
            tally.body_bytes += self.body_bytes;
        }
    }

    /// Counts a try that a reply has ended.
    fn count_try(
        &self,
        done: Outstanding,
        (end, is_last): (End, bool),
        now_ns: u64,
        tally: &mut Tally,
    ) {
        if !self.counts {
            return;
        }
        tally.tries.ended(end, done.tries, is_last);
        if end == End::Admitted {
            let took_ns = now_ns.saturating_sub(done.due_ns);
            tally.tries.admitted.record(took_ns);
            // Those that follow on the connection have nothing to do with how it began.
            if !(self.was_slow && self.replies_here == 1) {
                tally.tries.admitted_at_once.record(took_ns);
            }
        }
    }

    /// Whether the request that is next was refused: how long the server asks to wait, in
    /// nanoseconds. It is told once.
    pub(super) fn take_refusal(&mut self) -> Option<u64> {
        std::mem::take(&mut self.refused).then_some(self.retry_after_ns)
    }

    /// The connection is there: whether it took as long as one whose first packet was lost.
    pub(super) fn connected_after(&mut self, took_ns: u64) -> bool {
        self.was_slow = took_ns >= SYN_RETRY_NS;
        self.was_slow
    }

    /// The server closed its side: whether that completed a reply.
    pub(super) fn take_end(&mut self, now_ns: u64, judge: Judge<'_>, tally: &mut Tally) -> bool {
        self.closing = true;
        // A head that is cut off is no end of anything.
        if self.written == 0 || !self.partial.is_empty() || self.client.eof() != Event::End {
            return false;
        }
        self.replied(now_ns, judge, tally);
        true
    }

    /// Whether the end of the stream is one that the server has told: anybody between may end a
    /// connection, but not say so by TLS (RFC 8446, section 6.1).
    pub(super) fn is_end_told(&self) -> bool {
        self.secured.as_ref().is_none_or(|secured| secured.is_over())
    }

    /// Whether a head has come, and its body has not.
    pub(super) fn is_within_body(&self) -> bool {
        self.in_body
    }
}
