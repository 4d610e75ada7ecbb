//! The timeline of a request while it is under way.

use flyball_http::{Request, Status};
use flyball_sys::clock;

use super::record::{NEVER, Record};

macro_rules! labelled {
    ($(#[$doc:meta])* $kind:ident { $($name:ident $label:literal $help:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $(#[doc = $help] $name),* }

        impl $kind {
            /// All of them, in the order of a record.
            pub(crate) const ALL: &[$kind] = &[$($kind::$name),*];

            /// Its name.
            pub(crate) fn label(self) -> &'static str {
                match self { $($kind::$name => $label),* }
            }
        }
    };
}

labelled! {
    /// What happens to a request.
    Point {
        Accept "accept" "Its connection was accepted: of the first request of one.",
        Begin "begin" "Its first bytes were received.",
        Head "head" "Its head is whole.",
        Lookup "lookup" "The caches have answered, or have not.",
        Ask "ask" "Work was asked for that may have to be waited for: the first time.",
        Asked "asked" "Such work was done: the last time.",
        Answer "answer" "The answer is known.",
        First "first-byte" "The socket took the first byte of the answer.",
        Done "done" "The socket took the last.",
        Close "close" "The connection was closed.",
    }
}

labelled! {
    /// What a request waits for.
    Wait {
        Client "client" "Bytes from the client.",
        Disk "disk" "Work on the disk, in place or by a helper or thread.",
        Compute "compute" "A password verified, a body compressed.",
        File "file" "Calls that send from a file, and read it where it is not in memory.",
        Socket "socket" "Room in the socket: the network, or a client that reads slowly.",
        Server "server" "The server's own turns.",
    }
}

/// Kinds of work that may have to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// For requests that may come: none waits for it.
    Ahead,
    /// On the disk.
    Disk,
    /// A password verified, a body compressed.
    Compute,
}

/// What is known of a request so far.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) record: Record,
    pub(super) is_sampled: bool,
    /// What the work is that was asked for last.
    pub(super) asked_of: Wait,
    started_ns: u64,
    /// What it waits for, and since when.
    waits: Wait,
    since_ns: u64,
    /// Output in front of the answer, in bytes.
    ahead: u64,
}

/// As docs/operations/logs-and-metrics.md says.
const _: () = assert!(size_of::<Timeline>() < 500);

impl Timeline {
    pub(super) fn new(now_ns: u64, first: Point, is_sampled: bool) -> Timeline {
        let mut record = Record::new(clock::unix_ms());
        record.points[first as usize] = 0;
        Timeline {
            record,
            is_sampled,
            asked_of: Wait::Disk,
            started_ns: now_ns,
            waits: Wait::Client,
            since_ns: now_ns,
            ahead: 0,
        }
    }

    /// This happened now, for the first time.
    pub(super) fn mark(&mut self, point: Point) {
        if self.record.points[point as usize] == NEVER {
            self.mark_again(point);
        }
    }

    /// This happened now, and counts although it may have happened before.
    pub(super) fn mark_again(&mut self, point: Point) {
        let offset = clock::monotonic_ns().saturating_sub(self.started_ns);
        self.record.points[point as usize] = as_us(offset);
    }

    /// From now on it waits for something else.
    pub(super) fn turn(&mut self, wait: Wait) {
        let now_ns = clock::monotonic_ns();
        self.record.waits_ns[self.waits as usize] += now_ns.saturating_sub(self.since_ns);
        (self.waits, self.since_ns) = (wait, now_ns);
    }

    pub(super) fn head(&mut self, request: &Request<'_>) {
        self.mark(Point::Head);
        self.record.client = request.client();
        self.record.method.set(request.method_token());
        self.record.host.set(request.host());
        self.record.path.set(request.path());
    }

    pub(super) fn ask(&mut self, work: Work) {
        self.asked_of = match work {
            Work::Ahead => return self.turn(Wait::Client),
            Work::Compute => Wait::Compute,
            Work::Disk => Wait::Disk,
        };
        self.turn(self.asked_of);
        self.mark(Point::Ask);
        self.record.asks = self.record.asks.saturating_add(1);
    }

    pub(super) fn answers(&mut self, status: Status, ahead: u64) {
        self.record.status = status.code();
        self.ahead = ahead;
        self.mark(Point::Answer);
    }

    pub(super) fn sent(&mut self, n: u64) {
        self.turn(Wait::Socket);
        if self.is_answered() {
            let of_answer = n.saturating_sub(self.ahead);
            self.ahead = self.ahead.saturating_sub(n);
            if of_answer > 0 {
                self.record.bytes += of_answer;
                self.mark(Point::First);
            }
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        self.record.points[Point::Answer as usize] != NEVER
    }
}

/// Microseconds, of at most an hour and a bit.
fn as_us(ns: u64) -> u32 {
    u32::try_from(ns / 1_000).unwrap_or(NEVER).min(NEVER - 1)
}
