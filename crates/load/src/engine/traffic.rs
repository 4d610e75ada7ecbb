//! What a thread does with one connection: connect, send, receive, give up, go on.

use std::io;

use flyball_sys::connect::{self, ConnectOptions};
use flyball_sys::net;
use flyball_sys::readiness::{Event, Interest};

use super::Mode;
use super::connection::Phase;
use super::generator::Generator;
use super::pace::Pace;
use super::secure::Received;
use crate::observe::{Kind, SYN_RETRY_NS};
use flyball_sys::clock::monotonic_ns;

/// What a closed loop waits after a failure, in nanoseconds: a server that refuses is asked a
/// hundred times a second by each connection, and no more.
const PAUSE_NS: u64 = 10_000_000;

/// Think times and pauses end at whole milliseconds, as timers do.
pub(super) const TICK_NS: u64 = 1_000_000;

/// Most receives for one event, so that a fast sender does not keep the others waiting.
const RECEIVES_MAX: usize = 16;

impl Generator<'_> {
    /// Begins to connect for the session in this place, and sends at once if it can.
    pub(super) fn connect(&mut self, slot: u32, now_ns: u64) {
        let sources = &self.behaviour.sources;
        let source = (!sources.is_empty()).then(|| sources[self.turn % sources.len()]);
        let addresses = &self.plan.addresses;
        let address = addresses[self.turn % addresses.len()];
        // Threads begin at different places and go round in steps of their number.
        self.turn += self.place.threads;
        // What cannot be connected for has been tried, too.
        self.admit(slot, now_ns);
        let options = ConnectOptions { source, ..self.options };
        let connection = &mut self.table[slot as usize];
        connection.connect_ns = now_ns;
        connection.phase = Phase::Connecting;
        if connection.counts {
            self.tally.connections += 1;
        }
        match connect::start(address, &options) {
            Ok(socket) => {
                connection.socket = Some(socket);
                self.open += 1;
                self.tally.open_max = self.tally.open_max.max(self.open);
                self.first_send(slot, now_ns);
            }
            Err(error) => self.fail(slot, Kind::of(&error), now_ns),
        }
    }

    /// Tries to send before the connection is known to be there: on the loopback it is.
    fn first_send(&mut self, slot: u32, now_ns: u64) {
        let sent = if self.plan.secure.is_some() {
            self.greet(slot)
        } else if self.behaviour.write_rate.is_some() {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            self.send_waiting(slot)
        };
        let interest = match sent {
            Ok(()) => {
                self.connected(slot, monotonic_ns());
                // What follows a handshake may be more than the socket takes at once.
                let all = self.table[slot as usize].unsent.is_empty();
                if all && self.plan.secure.is_none() { Interest::READ } else { Interest::BOTH }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Interest::BOTH,
            Err(error) => return self.fail(slot, Kind::of(&error), now_ns),
        };
        let connection = &self.table[slot as usize];
        let Some(socket) = &connection.socket else { return };
        let token = u64::from(connection.generation) << 32 | u64::from(slot);
        if let Err(error) = self.epoll.add_edge(socket, token, interest) {
            return self.fail(slot, Kind::of(&error), now_ns);
        }
        self.set_timer(slot);
    }

    fn connected(&mut self, slot: u32, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        connection.phase = match &mut connection.secured {
            Some(secured) => secured.connected(now_ns),
            None => Phase::Active,
        };
        connection.reading = Pace::begin(now_ns);
        connection.writing = Pace::begin(now_ns);
        let took_ns = now_ns.saturating_sub(connection.connect_ns);
        let was_slow = connection.connected_after(took_ns);
        if connection.counts {
            self.tally.connect.record(took_ns);
            self.tally.tries.syn_retries += u64::from(was_slow);
        }
    }

    /// Something happened to a socket.
    pub(super) fn ready(&mut self, event: Event) {
        let slot = event.token as u32;
        let connection = &mut self.table[slot as usize];
        if u64::from(connection.generation) != event.token >> 32 {
            return;
        }
        let now_ns = monotonic_ns();
        if connection.phase == Phase::Connecting {
            let Some(socket) = &connection.socket else { return };
            if let Err(error) = connect::outcome(socket) {
                return self.fail(slot, Kind::of(&error), now_ns);
            }
            if !event.write {
                return;
            }
            self.connected(slot, now_ns);
        }
        if event.write {
            self.send(slot, now_ns);
        }
        let connection = &self.table[slot as usize];
        let is_same = u64::from(connection.generation) == event.token >> 32;
        if event.read && is_same {
            self.receive(slot, event.hangup, now_ns);
        }
    }

    /// Lets as many steps as may be sent wait for their replies.
    fn admit(&mut self, slot: u32, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        let depth = self.behaviour.pipeline as usize;
        let limit = self.plan.requests_per_connection.unwrap_or(u32::MAX);
        while connection.admit(now_ns, depth, limit) {}
    }

    /// Sends what is due, or what is left of it.
    pub(super) fn send(&mut self, slot: u32, now_ns: u64) {
        self.admit(slot, now_ns);
        let sent = match self.flush(slot, now_ns) {
            Ok(true) => self.send_waiting(slot),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A server may answer and close before it has read everything: its answer counts.
            Err(_) => return self.receive(slot, true, now_ns),
            Ok(()) => {}
        }
        self.set_timer(slot);
    }

    /// Sends the rest of what was begun; whether nothing is left of it.
    pub(super) fn flush(&mut self, slot: u32, now_ns: u64) -> io::Result<bool> {
        let connection = &mut self.table[slot as usize];
        let Some(socket) = &connection.socket else { return Ok(false) };
        while connection.unsent_from < connection.unsent.len() {
            let mut upto = connection.unsent.len();
            if let Some(rate) = self.behaviour.write_rate {
                let allowed = connection.writing.allowance(rate, now_ns) as usize;
                upto = upto.min(connection.unsent_from + allowed);
                if upto == connection.unsent_from {
                    self.wheel.set_no_later(slot, connection.writing.next_ns(rate, now_ns));
                    return Ok(false);
                }
            }
            let sent = net::send(socket, &connection.unsent[connection.unsent_from..upto], false)?;
            connection.unsent_from += sent;
            connection.writing.moved(sent);
            self.tally.bytes_out += sent as u64;
        }
        connection.unsent.clear();
        connection.unsent_from = 0;
        Ok(true)
    }

    /// Sends the requests that wait and were not sent on this connection.
    ///
    /// # Errors
    /// When nothing could be sent, `WouldBlock` included. What was sent in part is no error.
    pub(super) fn send_waiting(&mut self, slot: u32) -> io::Result<()> {
        let connection = &mut self.table[slot as usize];
        let Some(socket) = &connection.socket else { return Ok(()) };
        if connection.phase == Phase::Handshaking {
            return Ok(());
        }
        let count = connection.waiting.len() - connection.written;
        let catalog = self.judge.catalog;
        let bytes: &[u8] = match count {
            0 => return Ok(()),
            1 => &catalog.request(connection.waiting[connection.written].request).bytes,
            _ => {
                self.output.clear();
                for one in connection.waiting.range(connection.written..) {
                    self.output.extend_from_slice(&catalog.request(one.request).bytes);
                }
                &self.output
            }
        };
        let is_direct = self.behaviour.write_rate.is_none() && connection.secured.is_none();
        let sent = if is_direct { net::send(socket, bytes, false)? } else { 0 };
        self.tally.bytes_out += sent as u64;
        match &mut connection.secured {
            Some(secured) => secured.seal(bytes, &mut connection.unsent),
            None => connection.unsent.extend_from_slice(&bytes[sent..]),
        }
        let first = connection.wrote(count, catalog);
        if connection.counts {
            self.tally.sent += first;
        }
        if let Some(series) = &mut self.tally.series {
            series.sent(monotonic_ns(), first);
        }
        if !is_direct {
            self.flush(slot, monotonic_ns())?;
        }
        Ok(())
    }

    /// Receives what is there. `to_end` says that the end of the stream may be behind it.
    pub(super) fn receive(&mut self, slot: u32, to_end: bool, now_ns: u64) {
        for _ in 0..RECEIVES_MAX {
            let connection = &mut self.table[slot as usize];
            let held = connection.partial.len();
            let mut room = self.input.len().saturating_sub(held);
            if let Some(rate) = self.behaviour.read_rate {
                room = room.min(connection.reading.allowance(rate, now_ns) as usize);
                connection.readable = room == 0;
                if room == 0 {
                    self.wheel.set_no_later(slot, connection.reading.next_ns(rate, now_ns));
                    return;
                }
            }
            self.input[..held].copy_from_slice(&connection.partial);
            let received = self.receive_some(slot, held, room);
            // What came may have been asked for since the event that was looked at.
            let now_ns = monotonic_ns();
            let Received { received, plain, has_more } = match received {
                Ok(Some(Ok(received))) => received,
                Ok(Some(Err(kind))) => return self.fail(slot, kind, now_ns),
                Ok(None) => return self.ended(slot, None, now_ns),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.set_timer(slot);
                }
                Err(error) => return self.ended(slot, Some(&error), now_ns),
            };
            let connection = &mut self.table[slot as usize];
            connection.reading.moved(received);
            if self.tally.window.holds(now_ns) {
                self.tally.bytes_in += received as u64;
            }
            if plain == 0 {
                if has_more || to_end {
                    continue;
                }
                return self.set_timer(slot);
            }
            let input = &self.input[..held + plain];
            match connection.take(input, now_ns, self.judge, &mut self.tally) {
                Err(kind) => return self.fail(slot, kind, now_ns),
                Ok(taken) => {
                    connection.partial.clear();
                    connection.partial.extend_from_slice(&input[taken..]);
                }
            }
            let is_drained = !has_more && !to_end;
            if self.go_on(slot, now_ns) || is_drained {
                return;
            }
        }
        // More is there: the timer comes back for it.
        self.table[slot as usize].readable = true;
        self.wheel.set_no_later(slot, now_ns + 1);
    }

    /// After replies: ends the session, sends what is due next or waits for it. True when the
    /// connection is another one now.
    fn go_on(&mut self, slot: u32, now_ns: u64) -> bool {
        let connection = &mut self.table[slot as usize];
        let generation = connection.generation;
        if let Some(asked_ns) = connection.take_refusal() {
            self.wait_to_try(slot, asked_ns, now_ns);
        } else if connection.is_session_over() {
            if connection.counts {
                self.tally.sessions_complete += 1;
            }
            self.session_over(slot, now_ns);
        } else if connection.waiting.is_empty() {
            let think_ns = connection.think_ns(|| self.pauses.think_ns());
            if let Some(think_ns) = think_ns {
                let free_ns = self.line_free_ns(slot, now_ns);
                if free_ns > now_ns && !self.may_begin(free_ns) {
                    self.cut_short(slot);
                    return true;
                }
                let connection = &mut self.table[slot as usize];
                connection.due_ns = now_ns;
                let due_ns = (now_ns + think_ns).max(free_ns);
                if due_ns > now_ns {
                    connection.due_ns = due_ns.next_multiple_of(TICK_NS);
                    connection.phase = Phase::Thinking;
                    if connection.closing {
                        self.disconnect(slot);
                    }
                    self.set_timer(slot);
                    return self.table[slot as usize].generation != generation;
                }
            }
            self.proceed(slot, now_ns);
        } else if connection.closing && connection.written == 0 {
            self.reconnect(slot, now_ns);
        } else if !connection.closing {
            let before = connection.waiting.len();
            self.admit(slot, now_ns);
            if self.table[slot as usize].waiting.len() > before {
                self.send(slot, now_ns);
            }
        }
        self.table[slot as usize].generation != generation
    }

    /// When the client's line is free for the next replies: at once where it is no limit.
    fn line_free_ns(&mut self, slot: u32, now_ns: u64) -> u64 {
        let rate = self.behaviour.line_rate;
        rate.map_or(now_ns, |rate| self.table[slot as usize].line_free_ns(rate).max(now_ns))
    }

    /// The line is not free before the time is over: what is left of the session counts as not
    /// intended. All clients would send theirs at the end otherwise, and at once.
    fn cut_short(&mut self, slot: u32) {
        let connection = &self.table[slot as usize];
        if connection.counts {
            self.tally.intended -= connection.unanswered();
        }
        self.disconnect(slot);
        self.release(slot);
    }

    /// Sends the next step, on a new connection where this one cannot carry it.
    pub(super) fn proceed(&mut self, slot: u32, now_ns: u64) {
        let limit = self.plan.requests_per_connection.unwrap_or(u32::MAX);
        let connection = &mut self.table[slot as usize];
        connection.phase = Phase::Active;
        if connection.socket.is_none() {
            self.connect(slot, now_ns);
        } else if connection.closing || connection.requests_here >= limit {
            self.disconnect(slot);
            self.connect(slot, now_ns);
        } else {
            self.send(slot, now_ns);
        }
    }

    fn session_over(&mut self, slot: u32, now_ns: u64) {
        let goes_on = matches!(self.plan.mode, Mode::Closed(_)) && self.may_begin(now_ns);
        // A session with a connection of its own is another client, who comes when there is room.
        let think_ns = match self.plan.connection_per_session {
            false if goes_on => self.pauses.think_ns(),
            _ => 0,
        };
        let free_ns = self.line_free_ns(slot, now_ns).max(now_ns.saturating_add(think_ns));
        if goes_on && free_ns > now_ns {
            if self.plan.connection_per_session || self.table[slot as usize].closing {
                self.disconnect(slot);
            }
            self.pause(slot, free_ns);
        } else if goes_on && self.next_session(slot, now_ns, now_ns) {
            if self.plan.connection_per_session {
                self.disconnect(slot);
            }
            self.proceed(slot, now_ns);
        } else {
            let is_kept = matches!(self.plan.mode, Mode::Kept(..));
            if !is_kept || self.table[slot as usize].closing {
                self.disconnect(slot);
            }
            self.release(slot);
        }
    }

    /// The connection has ended, by itself or by an error.
    fn ended(&mut self, slot: u32, error: Option<&io::Error>, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        let is_told = error.is_none() && connection.is_end_told();
        if is_told && connection.take_end(now_ns, self.judge, &mut self.tally) {
            self.go_on(slot, now_ns);
            return;
        }
        if connection.waiting.is_empty() || connection.phase == Phase::Retrying {
            // Between requests: the next one opens another.
            self.disconnect(slot);
            return self.set_timer(slot);
        }
        let is_begun = connection.waiting[0].begun && connection.written > 0;
        // httperf: what fails before any reply fails the session, what fails later is tried again.
        if connection.replies_here > 0 && !is_begun {
            return self.reconnect(slot, now_ns);
        }
        let kind = match error.map_or(Kind::Closed, Kind::of) {
            Kind::Closed | Kind::Reset if connection.is_within_body() => Kind::ShortBody,
            kind => kind,
        };
        self.fail(slot, kind, now_ns);
    }

    /// Lets the next session wait: until `free_ns`, or the end of the run if that is sooner.
    fn pause(&mut self, slot: u32, free_ns: u64) {
        let free_ns = free_ns.min(self.place.window.to_ns).next_multiple_of(TICK_NS);
        let connection = &mut self.table[slot as usize];
        connection.phase = Phase::Pausing;
        connection.due_ns = free_ns;
        self.set_timer(slot);
    }

    fn reconnect(&mut self, slot: u32, now_ns: u64) {
        self.tally.reconnects += 1;
        self.disconnect(slot);
        self.connect(slot, now_ns);
    }

    pub(super) fn disconnect(&mut self, slot: u32) {
        self.take_leave(slot);
        if let Some(socket) = self.table[slot as usize].disconnect() {
            self.open -= 1;
            drop(socket);
        }
    }

    /// The session has failed, and what it has not asked for yet is never sent.
    pub(super) fn fail(&mut self, slot: u32, kind: Kind, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        // One that is kept, and free for the next session.
        let is_idle = connection.phase == Phase::Free;
        let (counts, tally) = (connection.counts, &mut self.tally);
        if connection.phase == Phase::Handshaking && counts {
            tally.handshakes.failed += 1;
        }
        let waited_ns = now_ns.saturating_sub(connection.connect_ns);
        let is_slow = connection.phase == Phase::Connecting && waited_ns >= SYN_RETRY_NS;
        tally.tries.syn_retries += u64::from(is_slow && counts);
        if self.tries_after(slot, kind, now_ns) {
            return;
        }
        let connection = &mut self.table[slot as usize];
        let tally = &mut self.tally;
        tally.error(kind, counts);
        if let Some(series) = &mut tally.series {
            let given_up = connection.waiting.iter().filter(|_| kind.is_timeout());
            series.failed(now_ns, given_up.map(|one| now_ns.saturating_sub(one.intended_ns)));
        }
        if counts {
            tally.unanswered += connection.unanswered();
        }
        if kind.is_timeout() && counts {
            // Censored: each took at least that long.
            for one in &connection.waiting {
                tally.latency.record(now_ns.saturating_sub(one.intended_ns));
                tally.latency_actual.record(now_ns.saturating_sub(one.actual_ns));
                // S4's rule does not hold what was never accepted against a class.
                let class = usize::from(self.judge.catalog.request(one.request).class);
                let was_sent = kind != Kind::ConnectTimeout;
                if let Some(class) = tally.classes.get_mut(class).filter(|_| was_sent) {
                    class.timeouts += 1;
                }
            }
        }
        connection.waiting.clear();
        self.disconnect(slot);
        if matches!(self.plan.mode, Mode::Closed(_)) && self.may_begin(now_ns) {
            self.pause(slot, now_ns + PAUSE_NS);
        } else if !is_idle {
            self.release(slot);
        }
    }

    /// Sets the timer of a connection to what it waits for.
    pub(super) fn set_timer(&mut self, slot: u32) {
        let connection = &self.table[slot as usize];
        let at_ns = match connection.phase {
            Phase::Free => return,
            Phase::Thinking | Phase::Pausing | Phase::Retrying => connection.due_ns,
            Phase::Connecting | Phase::Handshaking | Phase::Active => match self.limit(slot) {
                Some((at_ns, _)) => at_ns,
                None => return,
            },
        };
        self.wheel.set_no_later(slot, at_ns);
    }

    /// When what the connection waits for is given up, and as what.
    fn limit(&self, slot: u32) -> Option<(u64, Kind)> {
        let connection = &self.table[slot as usize];
        let timeouts = &self.plan.timeouts;
        let after = |from_ns: u64, limit: std::time::Duration| {
            from_ns.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
        };
        let front = connection.waiting.front()?;
        let reply_ns = after(front.actual_ns, timeouts.reply);
        if matches!(connection.phase, Phase::Connecting | Phase::Handshaking) {
            let connect_ns = after(connection.connect_ns, timeouts.connect);
            return Some((connect_ns.min(reply_ns), Kind::ConnectTimeout));
        }
        if front.begun {
            return Some((reply_ns, Kind::ReplyTimeout));
        }
        let first_ns = after(front.actual_ns, timeouts.first_byte);
        Some((first_ns.min(reply_ns), Kind::FirstByteTimeout))
    }

    /// The timer of a connection has fired.
    pub(super) fn timer(&mut self, slot: u32, now_ns: u64) {
        let connection = &mut self.table[slot as usize];
        match connection.phase {
            Phase::Free => {}
            Phase::Thinking | Phase::Pausing | Phase::Retrying if now_ns < connection.due_ns => {
                self.set_timer(slot);
            }
            Phase::Retrying => self.try_again(slot, now_ns),
            Phase::Thinking => {
                if connection.counts {
                    self.tally.late_by(now_ns.saturating_sub(connection.due_ns));
                }
                self.proceed(slot, now_ns);
            }
            Phase::Pausing => {
                let due_ns = connection.due_ns;
                if self.may_begin(now_ns) && self.next_session(slot, due_ns, now_ns) {
                    self.proceed(slot, now_ns);
                } else {
                    self.disconnect(slot);
                    self.release(slot);
                }
            }
            Phase::Connecting | Phase::Handshaking | Phase::Active => match self.limit(slot) {
                Some((at_ns, kind)) if at_ns <= now_ns => self.fail(slot, kind, now_ns),
                _ => self.move_more(slot, now_ns),
            },
        }
    }

    /// Goes on with bytes that were held back by a pace, and sets the timer anew.
    fn move_more(&mut self, slot: u32, now_ns: u64) {
        self.set_timer(slot);
        let connection = &mut self.table[slot as usize];
        if !matches!(connection.phase, Phase::Handshaking | Phase::Active) {
            return;
        }
        let generation = connection.generation;
        let is_readable = std::mem::take(&mut connection.readable);
        if !connection.unsent.is_empty() {
            self.send(slot, now_ns);
        }
        if is_readable && self.table[slot as usize].generation == generation {
            self.receive(slot, false, now_ns);
        }
    }
}
