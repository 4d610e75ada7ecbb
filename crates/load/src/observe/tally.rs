//! What one thread counts, and how the counts of several become those of a run.

use super::handshakes::Handshakes;
use super::histogram::Times;
use super::kind::{KINDS, Kind};
use super::series::{Interval, Series};
use super::tries::Tries;
use crate::workload::RULES;

/// The part of a run that counts, in nanoseconds of the monotonic clock. Sessions that are due
/// within it count, however long they take; rates count what is complete within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its beginning: the start of the run and its warm-up.
    pub from_ns: u64,
    /// Its end: nothing is begun after it.
    pub to_ns: u64,
}

impl Window {
    /// Whether this time is within it.
    pub fn holds(&self, ns: u64) -> bool {
        self.from_ns <= ns && ns < self.to_ns
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Replies and time-outs of one class of requests, such as those of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTally {
    /// Replies.
    pub replies: u64,
    /// Requests that were given up after they were sent.
    pub timeouts: u64,
    /// Bytes of bodies.
    pub bytes: u64,
}

/// The counts of a run, or of one thread of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What counts.
    pub window: Window,
    /// Requests that the schedule intended; of a run that was broken off, without what was under
    /// way.
    pub intended: u64,
    /// Requests that were handed to a socket, each once.
    pub sent: u64,
    /// Replies of sessions that were due within the window.
    pub replies: u64,
    /// Of these, the good ones within the deadline.
    pub good: u64,
    /// Replies of all sessions, those of the warm-up too.
    pub replies_total: u64,
    /// Replies that were complete within the window.
    pub replies_in_window: u64,
    /// Of these, the good ones within the deadline.
    pub good_in_window: u64,
    /// Requests of failed sessions that got no reply, sent or not.
    pub unanswered: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Sessions that got all their replies.
    pub sessions_complete: u64,
    /// Connections begun.
    pub connections: u64,
    /// Connections that were opened anew because the server closed one between requests.
    pub reconnects: u64,
    /// Most connections open at once.
    pub open_max: u64,
    /// Most requests that waited at once for a connection that is kept.
    pub backlog_max: u64,
    /// Failures by [`Kind`], in the order of [`KINDS`].
    pub errors: [u64; KINDS.len()],
    /// Failures of sessions that were due within the warm-up: a wrong body is wrong there, too.
    pub warmup_errors: [u64; KINDS.len()],
    /// Replies by status, which is the index.
    pub status: Vec<u64>,
    /// Dynamic replies by the first rule that they broke, in the order of [`RULES`].
    pub broken_rules: [u64; RULES.len()],
    /// Answers to what was posted, within the window or not.
    pub posts: u64,
    /// Bytes of bodies, of those replies that count.
    pub body_bytes: u64,
    /// Bytes received within the window, heads and framing included.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// How each try of a request ended.
    pub tries: Tries,
    /// Latency from when a request was intended; time-outs are in it at the time they took.
    pub latency: Times,
    /// Latency from when the client began with it.
    pub latency_actual: Times,
    /// From the beginning of connecting to its end.
    pub connect: Times,
    /// Handshakes of TLS, which follow it.
    pub handshakes: Handshakes,
    /// From the client's beginning to the first byte of the reply.
    pub first_byte: Times,
    /// How late the client began with what was due.
    pub lateness: Times,
    /// Requests begun more than [`LATE_NS`] after they were due.
    pub late: u64,
    /// Counts by class of request, as many as the catalog has classes.
    pub classes: Vec<ClassTally>,
    /// The same of each client, of which a thread is one.
    pub clients: Vec<Vec<ClassTally>>,
    /// The run second by second, by each thread; empty unless that was asked for.
    pub intervals: Vec<Interval>,
    /// CPU time of the thread or threads, in nanoseconds.
    pub cpu_ns: u64,
    /// What becomes of them when the run is over.
    pub(crate) series: Option<Series>,
    /// The largest share of its time for which one thread used a CPU or waited for one.
    pub busy_max: f64,
}

/// Statuses have three digits.
const STATUSES: usize = 1000;

/// Lateness from which a request counts as late, unless the run says otherwise of its validity.
pub const LATE_NS: u64 = 1_000_000;

impl Tally {
    /// An empty one, with this many classes.
    pub fn new(window: Window, classes: usize) -> Tally {
        let classes = vec![ClassTally::default(); classes];
        Tally { window, classes, status: vec![0; STATUSES], ..Tally::default() }
    }

    /// Counts a failure of a session which `counts`, or else was due within the warm-up.
    pub fn error(&mut self, kind: Kind, counts: bool) {
        let errors = if counts { &mut self.errors } else { &mut self.warmup_errors };
        errors[kind as usize] += 1;
    }

    /// Something was begun this much after it was due.
    pub fn late_by(&mut self, ns: u64) {
        self.lateness.record(ns);
        self.late += u64::from(ns > LATE_NS);
    }

    /// How often this kind of failure was counted.
    pub fn errors_of(&self, kind: Kind) -> u64 {
        self.errors[kind as usize]
    }

    /// All failures.
    pub fn error_count(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Adds the counts of another thread or machine, which began at the same time.
    pub fn merge(&mut self, other: &Tally) {
        self.window.to_ns = self.window.to_ns.max(other.window.to_ns);
        self.intended += other.intended;
        self.sent += other.sent;
        self.replies += other.replies;
        self.good += other.good;
        self.replies_total += other.replies_total;
        self.replies_in_window += other.replies_in_window;
        self.good_in_window += other.good_in_window;
        self.unanswered += other.unanswered;
        self.sessions += other.sessions;
        self.sessions_complete += other.sessions_complete;
        self.connections += other.connections;
        self.reconnects += other.reconnects;
        self.open_max += other.open_max;
        self.backlog_max += other.backlog_max;
        self.errors.iter_mut().zip(other.errors).for_each(|(sum, n)| *sum += n);
        self.warmup_errors.iter_mut().zip(other.warmup_errors).for_each(|(sum, n)| *sum += n);
        self.status.iter_mut().zip(&other.status).for_each(|(sum, n)| *sum += n);
        self.broken_rules.iter_mut().zip(other.broken_rules).for_each(|(sum, n)| *sum += n);
        self.posts += other.posts;
        self.body_bytes += other.body_bytes;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.tries.merge(&other.tries);
        self.latency.merge(&other.latency);
        self.latency_actual.merge(&other.latency_actual);
        self.connect.merge(&other.connect);
        self.handshakes.merge(&other.handshakes);
        self.first_byte.merge(&other.first_byte);
        self.lateness.merge(&other.lateness);
        self.late += other.late;
        for (sum, class) in self.classes.iter_mut().zip(&other.classes) {
            sum.replies += class.replies;
            sum.timeouts += class.timeouts;
            sum.bytes += class.bytes;
        }
        self.clients.extend_from_slice(&other.clients);
        self.intervals.extend_from_slice(&other.intervals);
        self.cpu_ns += other.cpu_ns;
        self.busy_max = self.busy_max.max(other.busy_max);
    }
}
