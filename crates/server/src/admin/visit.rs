//! One connection to the admin address, from its first byte to its close. It never waits: it says
//! for what it would.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use flyball_http::h1::Conn;
use flyball_http::{Head, Limits, Now, Out};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;
use flyball_sys::{clock, net};

use super::{Admin, Asked, answer};

/// Longest time for a request, from the connection on: a part of one holds no other up.
const REQUEST_MS_MAX: u64 = 10_000;

/// Longest time in which nothing of an answer is taken, or which the client takes to close.
const STALL_MS_MAX: u64 = 5_000;

/// Longest time for an answer to be taken: that of many hosts may be long, and a link slow.
const ANSWER_MS_MAX: u64 = 60_000;

/// A connection.
pub(super) struct Visit {
    socket: Owned,
    /// The number of the door that it has come by.
    door: usize,
    conn: Conn,
    head: Head,
    out: Out<()>,
    input: Vec<u8>,
    /// How much of the input was looked at, and how much there is.
    start: usize,
    end: usize,
    patience: Patience,
}

/// How long a client may take.
#[derive(Debug)]
struct Patience {
    /// When the next step is to be done.
    until_ms: u64,
    /// When all is.
    most_ms: u64,
}

impl Patience {
    /// With one that is to ask.
    fn new(now_ms: u64) -> Patience {
        let until_ms = now_ms + REQUEST_MS_MAX;
        Patience { until_ms, most_ms: until_ms }
    }

    /// With one that is to take an answer.
    fn begin(&mut self, now_ms: u64) {
        self.most_ms = now_ms + ANSWER_MS_MAX;
        self.go_on(now_ms);
    }

    /// With one that has taken a part of it.
    fn go_on(&mut self, now_ms: u64) {
        self.until_ms = self.most_ms.min(now_ms + STALL_MS_MAX);
    }
}

impl Visit {
    /// One that was accepted, and does not block.
    pub(super) fn new(socket: Owned, door: usize) -> Visit {
        let (now, limits) = (now(), Limits::default());
        let input = vec![0; limits.head_bytes_max + 1];
        let conn = Conn::new(Arc::new(limits), &now);
        let (head, out) = (Head::default(), Out::new());
        let patience = Patience::new(now.ms());
        Visit { socket, door, conn, head, out, input, start: 0, end: 0, patience }
    }

    pub(super) fn socket(&self) -> &Owned {
        &self.socket
    }

    /// When it is closed, in monotonic milliseconds.
    pub(super) fn until_ms(&self) -> u64 {
        self.patience.until_ms
    }

    /// Goes on as far as it can without waiting, and answers the request once it is whole: what it
    /// waits for then; `None` at its end.
    ///
    /// # Errors
    /// When the client has gone.
    pub(super) fn go_on(&mut self, admin: &Admin) -> io::Result<Option<Interest>> {
        loop {
            let (now, wants) = (now(), self.conn.wants());
            let done = if wants.close.is_some() {
                return Ok(None);
            } else if wants.shut {
                net::shutdown_write(&self.socket).map(|()| self.conn.shut(&now))
            } else if wants.write {
                self.send(&now)
            } else if wants.read {
                self.receive(admin, &now)
            } else {
                return Ok(None);
            };
            match done {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Some(if wants.write { Interest::WRITE } else { Interest::READ }));
                }
                done => done?,
            }
        }
    }

    fn send(&mut self, now: &Now) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); 8];
        let (count, _) = self.out.gather(&mut slices);
        let sent = net::send_gather_now(&self.socket, &slices[..count], false)? as u64;
        self.out.sent(sent);
        self.conn.sent(sent, &self.out, now);
        self.patience.go_on(now.ms());
        Ok(())
    }

    fn receive(&mut self, admin: &Admin, now: &Now) -> io::Result<()> {
        let received = net::recv_now(&self.socket, &mut self.input[self.end..])?;
        self.end += received;
        if received == 0 {
            self.conn.eof(now);
            return Ok(());
        }
        let Visit { conn, head, out, input, start, end, .. } = self;
        let at = *start;
        *start += conn.recv(&input[at..*end], head, out, now);
        if conn.wants().ask {
            let peer = net::peer(&self.socket).ok();
            let asked = Asked { admin, door: &admin.doors[self.door], peer };
            answer(&asked, &head.request(&input[at..]), conn, out, now);
        }
        if conn.wants().write {
            // The master may have taken its time.
            self.patience.begin(clock::monotonic_ms());
        }
        Ok(())
    }
}

fn now() -> Now {
    Now::new(clock::monotonic_ms(), clock::unix_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_taken_piece_by_piece_is_waited_for_and_not_for_ever() {
        let mut patience = Patience::new(100);
        assert_eq!(patience.until_ms, 100 + REQUEST_MS_MAX);
        patience.begin(1_000);
        assert_eq!(patience.until_ms, 1_000 + STALL_MS_MAX);
        let mut now_ms = 1_000;
        while now_ms < 1_000 + ANSWER_MS_MAX {
            assert!(now_ms < patience.until_ms);
            patience.go_on(now_ms);
            now_ms += STALL_MS_MAX - 1;
        }
        assert_eq!(patience.until_ms, 1_000 + ANSWER_MS_MAX);
    }
}
