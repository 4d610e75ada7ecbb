//! Timelines of requests: what happened to one and when, and what it waited for.
//!
//! An exchange keeps a [`Timeline`] in its [`Trace`] only for requests that are asked about:
//! `flyball ctl trace`, for as long as it runs, or the log of slow requests. Otherwise a request
//! costs one test of a flag that its thread keeps, which it reads again once in a turn of its loop
//! ([`Tracer::refresh`]), and a connection two numbers.
//!
//! Timelines that are over go to a ring in the shared mapping ([`Ring`]), from where the process of
//! `--admin` hands them out, and to the log process as a line.

mod record;
mod ring;
mod serve;
mod slow;
mod timeline;

use std::cell::Cell;

use flyball_http::{CloseReason, Remote, Request, Status};
use flyball_sys::clock;

use ring::Filter;
pub use ring::Ring;
pub use serve::answer;
pub use slow::SlowSender;
use timeline::{Point, Timeline};
pub use timeline::{Wait, Work};

use crate::counters::{Counter, Tally};
use crate::waited::Waited;

/// What one thread of control knows about who asks for timelines.
#[derive(Debug)]
pub struct Tracer {
    /// What `flyball ctl trace` asks for, while it does.
    filter: Option<Filter>,
    slow: Option<SlowSender>,
    worker: u32,
    /// What the numbers of this thread's connections begin with.
    base: u64,
    connections: Cell<u64>,
}

/// Numbers of connections that one thread of control has to itself.
const CONNECTIONS_MAX: u64 = 1 << 40;

impl Tracer {
    /// Of the thread that counts in this block.
    pub fn new(block: usize) -> Tracer {
        let base = block as u64 * CONNECTIONS_MAX;
        Tracer { filter: None, slow: None, worker: 0, base, connections: Cell::new(0) }
    }

    /// It is in the worker of this number, with this log of slow requests.
    pub fn set_worker(&mut self, worker: usize, slow: Option<SlowSender>) {
        (self.worker, self.slow) = (worker as u32, slow);
    }

    /// Looks whether somebody asks; once in a turn of a loop. One relaxed load while nobody does.
    pub fn refresh(&mut self, ring: &Ring, now_ms: u64) {
        self.filter = ring.filter(now_ms);
    }

    /// The number of a connection that was accepted now: no other has it.
    pub fn next_connection(&self) -> u64 {
        let count = self.connections.get() + 1;
        self.connections.set(count);
        self.base + count % CONNECTIONS_MAX
    }

    fn is_on(&self) -> bool {
        self.filter.is_some() || self.slow.is_some()
    }

    /// The timeline of the first request of a connection that was accepted now, if it is kept.
    pub fn accepted(&self, connection: u64, client: Remote) -> Option<Trace> {
        if self.is_on() { self.start(connection, 1, client, Point::Accept) } else { None }
    }

    /// The timeline of a request of a connection, if it is kept: no byte of it was looked at yet.
    #[inline]
    pub fn begun(&self, connection: u64, request: u32, client: Remote) -> Option<Trace> {
        if self.is_on() { self.start(connection, request, client, Point::Begin) } else { None }
    }

    fn start(&self, connection: u64, request: u32, client: Remote, first: Point) -> Option<Trace> {
        let is_sampled = self.wants(connection, request)?;
        let mut timeline = Timeline::new(clock::monotonic_ns(), first, is_sampled);
        let record = &mut timeline.record;
        (record.worker, record.connection) = (self.worker, connection);
        (record.request, record.client) = (request, client);
        Some(Trace { timeline: Some(Box::new(timeline)) })
    }

    /// Whether a timeline is kept of this request, and whether it is of the sample.
    fn wants(&self, connection: u64, request: u32) -> Option<bool> {
        let sampled = self.filter.as_ref().is_some_and(|f| f.samples(connection, request));
        (sampled || self.slow.is_some()).then_some(sampled)
    }

    /// Gives a timeline that is over to those who asked.
    fn give_out(&self, timeline: &Timeline, ring: &Ring, tally: &mut Tally) {
        let record = &timeline.record;
        if let Some(filter) = &self.filter
            && timeline.is_sampled
            && filter.takes(record)
        {
            ring.publish(record);
        }
        if let Some(slow) = &self.slow
            && slow.takes(record)
        {
            tally.add(Counter::SlowRequests, 1);
            tally.add(Counter::SlowLogLost, u64::from(!slow.send(record)));
        }
    }
}

/// The timeline of a request, if one is kept.
#[derive(Debug, Default)]
pub struct Trace {
    timeline: Option<Box<Timeline>>,
}

impl Trace {
    /// No byte of the next request was looked at yet.
    pub fn begin(&mut self) {
        self.mark(Point::Begin);
    }

    /// Bytes came from the client.
    pub fn received(&mut self) {
        if let Some(timeline) = &mut self.timeline {
            timeline.mark(Point::Begin);
            timeline.turn(Wait::Server);
        }
    }

    /// A whole head is there, of a request that had waited so long.
    pub fn head(&mut self, request: &Request<'_>, waited: Waited) {
        if let Some(timeline) = &mut self.timeline {
            timeline.head(request);
            timeline.record.waited = waited;
        }
    }

    /// The caches have answered, or have not.
    pub fn looked_up(&mut self) {
        self.mark(Point::Lookup);
    }

    /// From now on the request waits for this; its connection goes on where that is the server.
    pub fn turn(&mut self, wait: Wait) {
        if let Some(timeline) = &mut self.timeline {
            timeline.turn(wait);
        }
    }

    /// It waits for the work that was asked for last.
    pub fn waits_on(&mut self) {
        if let Some(timeline) = &mut self.timeline {
            timeline.turn(timeline.asked_of);
        }
    }

    /// This work is to be done.
    pub fn ask(&mut self, work: Work) {
        if let Some(timeline) = &mut self.timeline {
            timeline.ask(work);
        }
    }

    /// Work was done.
    pub fn resumed(&mut self, work: Work) {
        if let Some(timeline) = &mut self.timeline
            && work != Work::Ahead
        {
            timeline.turn(Wait::Server);
            timeline.mark_again(Point::Asked);
        }
    }

    /// Whether a timeline is kept.
    pub fn is_kept(&self) -> bool {
        self.timeline.is_some()
    }

    /// An answer of this status goes behind so many bytes of output.
    pub fn answers(&mut self, status: Status, ahead: u64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.answers(status, ahead);
        }
    }

    /// The socket took so many bytes.
    pub fn sent(&mut self, n: u64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.sent(n);
        }
    }

    /// True while an answer is on its way whose end is to be told.
    pub fn is_answered(&self) -> bool {
        self.timeline.as_ref().is_some_and(|timeline| timeline.is_answered())
    }

    /// The answer is sent. Unless the connection `closes` now, which is told too, that is all.
    pub fn done(&mut self, closes: bool, tracer: &Tracer, ring: &Ring, tally: &mut Tally) {
        self.mark(Point::Done);
        if !closes && let Some(timeline) = self.timeline.take() {
            tracer.give_out(&timeline, ring, tally);
        }
    }

    /// The connection is closed.
    pub fn closed(&mut self, reason: CloseReason, tracer: &Tracer, ring: &Ring, tally: &mut Tally) {
        if let Some(mut timeline) = self.timeline.take() {
            timeline.turn(Wait::Server);
            timeline.mark(Point::Close);
            timeline.record.close = Some(reason);
            tracer.give_out(&timeline, ring, tally);
        }
    }

    fn mark(&mut self, point: Point) {
        if let Some(timeline) = &mut self.timeline {
            timeline.mark(point);
        }
    }
}
