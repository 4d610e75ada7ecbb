//! One connection as every architecture drives it: the machine, its buffers while it has any, and
//! its request body's taker. Nothing here waits, and nothing here touches a socket.

mod allowance;
mod apart;
mod exchange;
mod heard;
mod lines;
mod link;
mod responder;
mod secure;
mod timeline;

use std::sync::Arc;

use flyball_http::h1::state::State;
use flyball_http::h1::{Conn, Wants};
use flyball_http::out::Front;
use flyball_http::proxy_protocol::{self, ProxyError};
use flyball_http::{CloseReason, Remote, Scheme};
use flyball_observe::counters::Counter;
use flyball_observe::histogram::Timing;
use flyball_observe::standing::Standing;
use flyball_observe::trace::{Trace, Wait};
use flyball_site::{Ask, Lookup, OpenFile, Out, Plan};

use self::allowance::Allowance;
use self::exchange::traced;
use self::link::Link;
use self::responder::begin_to_respond;
use crate::buffers::Buffers;
use crate::clients::{ClientAddress, Seat};
use crate::context::Context;
use crate::exchange::Exchange;
use crate::in_clear;
use crate::logged::{Asked, Began, Told};
use crate::needs::{Needs, SocketNeed, Watch};
use crate::order::Order;
use crate::peer::{Origin, Peer};
use crate::transport::Secure;
use crate::window::{Mapped, SendWindow};

pub use self::secure::{FileBody, Unsealed};

/// One connection.
#[derive(Debug)]
pub struct Connection {
    conn: Conn,
    origin: Origin,
    /// What it takes of what its client may have.
    allowance: Allowance,
    /// A header of the PROXY protocol may stand before the first request.
    awaits_proxy: bool,
    /// What timelines call it.
    number: u64,
    /// Requests so far.
    requests: u32,
    /// Plans that were asked for, for an answer or a responder.
    asks: u32,
    /// The request that is not answered at once, or of whose answer there is more to come or to
    /// tell.
    exchange: Option<Box<Exchange>>,
    buffers: Option<Box<Buffers>>,
    /// Its link to a server.
    link: Link,
    /// True while a piece of the output is being brought into memory.
    warming: bool,
    /// Files that no request has asked for yet.
    ahead: Ahead,
    /// False once `recv` has seen all of the input and needs more.
    unseen: bool,
    /// It can go on by itself.
    again: bool,
    /// Its TLS, if it speaks that.
    tls: Option<Box<Secure>>,
}

/// Files that are brought in before a request asks for them.
#[derive(Debug, Default)]
struct Ahead {
    /// True while one is brought in.
    is_fetching: bool,
    /// True after an answer: the connection may bring some in while it has nothing to do.
    is_allowed: bool,
}

impl Connection {
    /// A connection that was accepted now.
    pub fn new(peer: Peer, cx: &Context) -> Connection {
        let (client, told_by) = (peer.remote.to_canonical(), cx.clients.address);
        // A proxy's connections are those of many clients.
        let is_proxy = told_by != ClientAddress::Peer && cx.clients.trusts(client);
        cx.account.opened();
        let number = cx.tracer.next_connection();
        let trace = cx.tracer.accepted(number, client);
        let mut connection = Connection {
            conn: Conn::new(Arc::clone(&cx.limits), &cx.now),
            origin: Origin { client, listener: peer.listener, arrival: peer.arrival },
            allowance: Allowance::new(match is_proxy {
                true => Seat::Free,
                false => cx.account.seat(client),
            }),
            awaits_proxy: told_by == ClientAddress::ProxyProtocol,
            number,
            requests: 0,
            asks: 0,
            exchange: trace.map(Exchange::traced),
            buffers: None,
            link: Link::None,
            warming: false,
            ahead: Ahead::default(),
            unseen: false,
            again: true,
            tls: None,
        };
        if let Some(config) = &peer.tls {
            connection.secure(config);
        }
        connection
    }

    /// Whether it waits for its next request. The first one belongs to the handshake before it.
    pub fn is_idle(&self) -> bool {
        let is_greeting = self.tls.is_some() && self.requests == 0;
        self.conn.state() == State::Idle && !is_greeting
    }

    /// Whether a request waits for its answer, or for the rest of that.
    pub fn is_asked(&self) -> bool {
        self.conn.awaits_answer() || self.conn.awaits_piece()
    }

    /// Whether the end of what is sent is its own, in order.
    pub fn closes(&self) -> bool {
        self.conn.state() == State::Closing && !self.is_cut_short() && self.is_all_sealed()
    }

    /// Whether nothing more is sent or received.
    pub fn is_over(&self) -> bool {
        self.conn.state() == State::Closed
    }

    /// Where it stands, as it is told: who still sends is not idle.
    pub fn standing(&self) -> Standing {
        Standing::new(self.conn.state(), self.conn.wants().write || self.has_wire())
    }

    /// The connection's client. A request's may differ: [`Request::client`] has it.
    ///
    /// [`Request::client`]: flyball_http::Request::client
    pub fn client(&self) -> Remote {
        self.origin.client
    }

    /// When [`Connection::expired`] is due.
    pub fn deadline(&self) -> u64 {
        let responder = self.responder().map_or(u64::MAX, |one| one.deadline());
        self.conn.deadline().min(responder)
    }

    /// Since when it waits for a request, in monotonic milliseconds, if it does.
    pub fn idle_since(&self) -> Option<u64> {
        self.conn.idle_since().filter(|_| !self.has_output())
    }

    /// Since when it waits for its client to close it, whatever that still sends, if it does.
    pub fn lingers_since(&self) -> Option<u64> {
        self.conn.lingers_since()
    }

    /// Since when it waits for the rest of a head, or for the first byte, if it does.
    pub fn stalled_since(&self) -> Option<u64> {
        self.conn.stalled_since().filter(|_| !self.has_output())
    }

    /// Since when its client takes its answer slower than the least rate, if it does.
    pub fn lags_since(&self) -> Option<u64> {
        self.conn.lags_since()
    }

    /// Where the next bytes of its socket go; an idle connection gets buffers here. Then
    /// [`Connection::received`]: the one door through which bytes come in.
    pub fn space(&mut self, cx: &mut Context) -> &mut [u8] {
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        match self.tls {
            None => buffers.input.space(),
            Some(_) => buffers.secured().1.cipher.space(),
        }
    }

    /// What is to be sent as it is, while there is any: the output, or what it was sealed into.
    pub fn out(&self) -> Option<&Out> {
        let buffers = self.buffers.as_deref()?;
        let out = match (&self.tls, &buffers.secure) {
            (None, _) => &buffers.out,
            (Some(_), Some(secure)) => &secure.wire,
            (Some(_), None) => return None,
        };
        Some(out).filter(|out| !out.is_empty())
    }

    /// Whether anything is left to be sent, sealed or not.
    pub fn has_output(&self) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| !buffers.out.is_empty()) || self.has_wire()
    }

    /// True when input was received that the machine has not seen and would take now.
    pub fn has_input(&self) -> bool {
        (self.unseen || self.can_open()) && self.conn.wants().recv
    }

    /// True when the end of the stream follows the output at once: held back until then, the last
    /// bytes share a segment with it.
    pub fn ends_with_output(&self) -> bool {
        self.conn.ends_with_output()
    }

    /// Whether it can go on by itself: [`Connection::go_on`].
    pub fn goes_on(&self) -> bool {
        self.again
    }

    /// A turn of it begins: what it watches may be ready.
    pub fn woke(&mut self) {
        self.again |= self.exchange.is_some();
        if let Some(tls) = &mut self.tls {
            self.again |= std::mem::take(&mut tls.waits_for_turn);
        }
    }

    /// Goes as far as it can without waiting, and says what it wants then.
    pub fn go_on(&mut self, needs: &mut Needs, cx: &mut Context) {
        self.trace(|trace| trace.turn(Wait::Server));
        let mut wants = self.advance(cx);
        if self.has_heard_the_end() {
            self.client_left(cx);
            wants = self.conn.wants();
        }
        self.again = false;
        self.fill(needs, &wants);
        self.trace(|trace| timeline::needs(trace, needs));
    }

    fn advance(&mut self, cx: &mut Context) -> Wants {
        if self.allowance.seat == Seat::Refused {
            self.turn_away(cx);
        }
        loop {
            let wants = self.conn.wants();
            if wants.shut {
                self.says_end(cx);
            }
            let is_over = wants.close.is_some() || wants.shut;
            if is_over || self.warming || self.ahead.is_fetching || self.is_stopped() {
                return wants;
            }
            if !(wants.recv && self.unseen) && self.open(cx) {
                continue;
            }
            if self.responder().is_some() {
                match self.respond(&wants, cx) {
                    true => continue,
                    false => return self.conn.wants(),
                }
            }
            if wants.recv && self.unseen {
                if self.conn.state() == State::Idle {
                    self.begin_trace(cx);
                }
                match self.recv(cx) {
                    Some(plan) => self.ask(plan, Ask::Answer, cx),
                    None => continue,
                }
                return self.conn.wants();
            }
            if wants.read && !wants.write {
                self.fetch_ahead(cx);
            }
            return wants;
        }
    }

    /// What it wants. Pure: a wish stays until the call that ends it.
    pub fn needs(&self, needs: &mut Needs) {
        self.fill(needs, &self.conn.wants());
    }

    fn fill(&self, needs: &mut Needs, wants: &Wants) {
        needs.clear();
        needs.again = self.again || self.waits_for_turn();
        needs.over = wants.close;
        needs.socket = wants.shut.then_some(SocketNeed::Shut);
        if wants.close.is_none() && self.has_wire() && (wants.shut || self.is_failing()) {
            // Its last words leave first.
            (needs.socket, needs.write) = (None, true);
            return;
        }
        if wants.close.is_some() || wants.shut {
            needs.link = self.link_left_over();
            return;
        }
        let output = self.buffers.as_ref().filter(|_| self.warming);
        if output.is_some_and(|buffers| buffers.window.warming.is_some()) {
            needs.asks.push(Ask::Output);
        }
        if let Some(exchange) = &self.exchange {
            if let Some(plan) = &exchange.plan {
                needs.asks.push(plan.asked_by());
            }
            let reads = wants.read && !wants.write && self.takes_cipher();
            needs.watch = self.link_watched().map(|interest| Watch { interest, reads });
        }
        if self.link != Link::None || self.exchange.is_some() {
            needs.link = self.link_need();
        }
        if !self.waits() {
            (needs.read, needs.write) = (wants.read, wants.write);
            self.fill_secure(needs);
            needs.socket = self.allowance.need().filter(|_| needs.write).or(needs.socket);
        }
    }

    /// `n` bytes were put into the input's space.
    pub fn received(&mut self, n: usize, cx: &mut Context) {
        self.again = true;
        self.origin.arrival.receives();
        cx.tally.add(Counter::BytesIn, n as u64);
        self.trace(Trace::received);
        match (&mut self.buffers, &mut self.tls) {
            (Some(buffers), None) => {
                buffers.input.filled(n);
                self.unseen = true;
            }
            (Some(buffers), Some(tls)) => {
                buffers.secured().1.cipher.filled(n);
                tls.is_unopened = true;
            }
            (None, _) => {}
        }
        if self.awaits_proxy {
            self.take_proxy_header(cx);
        }
        self.handshake_begins(cx);
    }

    /// `n` bytes were sent.
    pub fn sent(&mut self, n: u64, cx: &mut Context) {
        self.again = true;
        cx.tally.add(Counter::BytesOut, n);
        let n = self.wire_sent(n);
        if n == 0 && self.tls.is_some() {
            return;
        }
        let is_producing = self.is_producing();
        if let Some(buffers) = &mut self.buffers {
            buffers.out.sent(n);
            self.conn.sent(n, &buffers.out, &cx.now);
            buffers.window.sent(n, &buffers.out);
            let has_more = !buffers.out.is_empty() || is_producing;
            if !self.conn.awaits_answer() {
                cx.answer_sent(&mut buffers.times, !has_more);
            }
            if !buffers.lines.is_empty() {
                cx.log.lines.sent(&mut buffers.lines, self.conn.handed_over(), &cx.now);
            }
        }
        self.trace(|trace| trace.sent(n));
        self.leave_paths(cx);
        let is_traced = self.exchange.as_ref().is_some_and(|one| one.trace.is_answered());
        if is_traced && !self.has_output() && !is_producing {
            let Context { tracer, account, tally, .. } = cx;
            let closes = self.ends_with_output()
                || matches!(self.conn.state(), State::Lingering | State::Closed);
            self.trace(|trace| trace.done(closes, tracer, &account.traces, tally));
            cx.buffers.end_exchange(&mut self.exchange);
        }
    }

    /// The front of the output is about to be sent. Where that is a file, the call may read it
    /// from the disk.
    pub fn sends(&mut self) {
        if let Some(buffers) = &self.buffers {
            let is_file = matches!(buffers.out.front(), Front::File { .. });
            self.trace(|trace| trace.turn(if is_file { Wait::File } else { Wait::Socket }));
        }
    }

    /// The call that sends has returned.
    pub fn has_sent(&mut self) {
        self.trace(|trace| trace.turn(Wait::Socket));
    }

    /// The write side is shut down.
    pub fn shut(&mut self, cx: &Context) {
        self.again = true;
        self.conn.shut(&cx.now);
        // Input that was not taken makes room for what is thrown away from now on.
        self.unseen = self.buffers.as_ref().is_some_and(|buffers| !buffers.input.is_empty());
    }

    /// The connection cannot go on: nothing more is sent.
    pub fn abort(&mut self, reason: CloseReason) {
        self.again = true;
        self.conn.abort(reason);
        if let Some(responder) = self.exchange.as_mut().and_then(|one| one.take_responder()) {
            self.unlink(&*responder);
        }
    }

    /// Another needs its place. It is over, or [`Connection::expired`] is due, which decides.
    pub fn make_room(&mut self) {
        self.again = true;
        self.conn.make_room();
    }

    /// What is being sent cannot be sent to its end. Where the client has gone this is
    /// [`Connection::abort`]; else it gets what the socket holds, and learns that it is not all. A
    /// file that changed meanwhile is looked at again by the next request.
    pub fn send_failed(&mut self, reason: CloseReason, cx: &mut Context) {
        if !matches!(reason, CloseReason::FileChanged | CloseReason::FileFailed) {
            return self.abort(reason);
        }
        if let Some(buffers) = &mut self.buffers {
            if let Some((_, file, ..)) = buffers.out.first_file()
                && reason == CloseReason::FileChanged
            {
                file.set_changed();
            }
            buffers.out.clear();
            if let Some(tls) = &mut self.tls {
                buffers.secured().1.wire.clear();
                tls.leaving.forget();
            }
            buffers.window = SendWindow::default();
            self.unseen = !buffers.input.is_empty();
        }
        self.again = true;
        self.conn.break_off(reason, &cx.now);
        self.let_go_of_responder(cx);
    }

    /// Asks for a plan, which has a number: none before it is waited for any more.
    fn ask(&mut self, mut plan: Box<Plan>, of: fn(u32) -> Ask, cx: &mut Context) {
        // A number comes again after four thousand million others, long after its plan has.
        self.asks = self.asks.checked_add(1).unwrap_or(1);
        plan.set_asked(of(self.asks), cx.now_ns());
        self.trace(|trace| trace.ask(timeline::work(&plan)));
        let exchange = cx.buffers.exchange(&mut self.exchange);
        exchange.asked = self.asks;
        exchange.plan = Some(plan);
    }

    /// A plan that it has asked for, to be performed; then [`Connection::done`].
    pub fn take_plan(&mut self, ask: Ask) -> Option<Box<Plan>> {
        if ask == Ask::Output {
            return self.buffers.as_mut()?.window.warming.take();
        }
        self.exchange.as_mut()?.plan.take_if(|plan| plan.asked_by() == ask)
    }

    /// The worker shall end: the next answer is the last, and when the server stops it is not
    /// waited for.
    pub fn drain(&mut self, order: Order) {
        match order {
            Order::Stop => self.conn.drain(),
            Order::Retire => self.conn.retire(),
        }
    }

    /// Another needs what it holds while it has nothing to do. Whether that is news to it.
    pub fn end_if_idle(&mut self) -> bool {
        self.conn.end_if_idle()
    }

    /// Whether it matters to [`Connection::expired`] how much the socket still holds.
    pub fn is_judged_by_socket(&self) -> bool {
        self.conn.is_judged_by_socket()
    }

    /// Some time passed; `in_socket` asks how many bytes the socket still holds, if that matters.
    pub fn expired(&mut self, in_socket: impl FnOnce() -> u64, cx: &mut Context) {
        self.again = true;
        if let Some(responder) = self.responder_mut() {
            responder.expired(&cx.now);
        }
        if cx.now.ms() < self.conn.deadline() {
            return;
        }
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        let in_socket = if self.conn.is_judged_by_socket() { in_socket() } else { 0 };
        let in_socket = self.tls.as_ref().map_or(in_socket, |tls| tls.leaving.plain_in(in_socket));
        self.conn.expired(in_socket, &mut buffers.out, &cx.now);
        self.count_refusal(cx);
        self.let_go_of_responder(cx);
    }

    /// Gives the buffers back when they hold nothing that is still needed.
    pub fn rest(&mut self, cx: &mut Context) {
        let may_rest = |buffers: &Buffers| {
            // A line of the log needs a place to wait for its end.
            buffers.are_empty() && (buffers.lines.is_empty() || self.exchange.is_some())
        };
        if self.buffers.as_deref().is_some_and(may_rest)
            && let Some(mut buffers) = self.buffers.take()
        {
            if let Some(exchange) = &mut self.exchange {
                buffers.leave_to(exchange);
            }
            cx.buffers.take_back(buffers);
        }
    }

    /// True when an orderly end of the connection would pass for the end of a body that was cut
    /// short.
    pub fn is_cut_short(&self) -> bool {
        self.conn.is_cut_short()
    }

    /// Ends it: the buffers go back whatever they hold. `untaken` asks how many bytes the socket
    /// was given that its peer has never acknowledged, if that matters.
    pub fn end(mut self, cx: &mut Context, reason: CloseReason, untaken: impl FnOnce() -> u64) {
        self.cut_lines(&mut cx.log, reason, untaken, &cx.now);
        if reason == CloseReason::HeadTimeout && self.shakes_hands() {
            cx.tally.add(Counter::TlsLate, 1);
        }
        let Context { tracer, account, tally, .. } = cx;
        self.trace(|trace| trace.closed(reason, tracer, &account.traces, tally));
        self.allowance.end(&cx.account.clients);
        cx.account.closed();
        cx.tally.closed(reason);
        if reason == CloseReason::TlsInClear {
            in_clear::tell(self.origin.client, cx.now.ms());
        }
        if let Some(buffers) = self.buffers {
            cx.buffers.take_back(buffers);
        }
    }

    /// Gives input to the machine, and its request to the site.
    fn recv(&mut self, cx: &mut Context) -> Option<Box<Plan>> {
        let Context { head, now, .. } = cx;
        self.unseen &= self.buffers.is_some();
        let Buffers { input, out, times, lines, .. } = self.buffers.as_deref_mut()?;
        let at = input.position();
        let consumed = self.conn.recv(input.bytes(), head, out, now);
        input.consume(consumed);
        let wants = self.conn.wants();
        self.unseen = !input.is_empty() && consumed > 0;
        if !wants.ask {
            self.count_refusal(cx);
            return None;
        }
        if cx.tried.ends_parsed {
            self.conn.abort(CloseReason::LabStage);
            return None;
        }
        let arrival = std::mem::take(&mut self.origin.arrival);
        cx.request_seen(arrival.came_ns(), times);
        let waited = arrival.waited(|| cx.now_ns());
        self.requests = self.requests.wrapping_add(1);
        let _masked = cx.tried.masks.map(|mask| mask());
        let Context { clients, service, head, now, tally, log, account, buffers: lender, .. } = cx;
        head.scheme = if self.tls.is_some() { Scheme::Https } else { Scheme::Http };
        head.secured = self.tls.as_ref().and_then(|tls| tls.secured.clone());
        head.listener = self.origin.listener;
        let asked = head.request(input.since(at));
        let came_by_https = self.tls.is_none() && clients.says_https(&asked, self.origin.client);
        (head.client, head.came_by_https) = (clients.of(&asked, self.origin.client), came_by_https);
        let began = Began { ns: log.lines.clock_ns(), waited };
        let request = head.request(input.since(at));
        traced(&mut self.exchange, |trace| trace.head(&request, waited));
        if service.has_restrictions() {
            self.conn.set_private(service.restricts(&request));
            log.expect_login(service, &request);
        }
        let lookup = match self.allowance.admit(&request, service, account, now) {
            Ok(()) if self.conn.body_is_too_long() => service.refuse_body(&request),
            Ok(()) => service.lookup(request, now),
            Err(exceeds) => exceeds.answer(&request, service, tally),
        };
        traced(&mut self.exchange, Trace::looked_up);
        self.conn.asked();
        let (answer, producer) = match lookup {
            Lookup::Answer(answer) => (answer, None),
            Lookup::Stream(answer, producer) => (answer, Some(producer)),
            Lookup::Wait(plan) => {
                lender.exchange(&mut self.exchange).began = began;
                return Some(plan);
            }
            Lookup::Respond(responder) => {
                begin_to_respond(&*responder, &mut self.conn, out, tally, now);
                let exchange = lender.exchange(&mut self.exchange);
                exchange.began = began;
                exchange.asks(&*responder, began.ns);
                exchange.set_responder(responder);
                return None;
            }
        };
        let status = answer.status;
        traced(&mut self.exchange, |trace| timeline::answers(trace, status, Some(out)));
        let told = Told::of(&answer);
        self.conn.answered(answer, out, now);
        let asked = Asked { request: &request, began, backend_ns: 0 };
        log.answered(&asked, (told, service.answered_for()), &self.conn, (out, lines), now);
        self.ahead.is_allowed = service.has_ahead();
        cx.answered(status, times);
        self.produce(producer, cx);
        None
    }

    /// Takes what a proxy says in front of all else that its connection carries. A client that is
    /// trusted must say it, and one that is not must not (The PROXY protocol, section 2).
    fn take_proxy_header(&mut self, cx: &Context) {
        let Some(buffers) = &mut self.buffers else { return };
        let (input, unseen) = match &mut self.tls {
            None => (&mut buffers.input, &mut self.unseen),
            Some(tls) => (&mut buffers.secured().1.cipher, &mut tls.is_unopened),
        };
        let is_trusted = cx.clients.trusts(self.origin.client);
        match proxy_protocol::read_header(input.bytes(), cx.limits.head_bytes_max) {
            Ok(None) => *unseen = false,
            Ok(Some(header)) if is_trusted => {
                input.consume(header.len);
                self.awaits_proxy = false;
                *unseen = !input.is_empty();
                if let Some(source) = header.source {
                    self.origin.client = Remote::Ip(source.ip().to_canonical());
                    self.allowance.seat = cx.account.seat(self.origin.client);
                }
            }
            Err(ProxyError::Absent) if !is_trusted => self.awaits_proxy = false,
            Ok(Some(_)) | Err(_) => self.conn.abort(CloseReason::ProxyRefused),
        }
    }

    /// The output and what is known of its front, while there is anything in it that is sent as it
    /// is.
    pub fn front(&self) -> Option<(&Out, &SendWindow)> {
        let buffers = self.buffers.as_deref().filter(|buffers| !buffers.out.is_empty())?;
        self.tls.is_none().then_some((&buffers.out, &buffers.window))
    }

    /// The next `n` bytes of the body at the front of the output are in memory.
    pub fn saw(&mut self, n: usize, cx: &Context) {
        if let Some(buffers) = &mut self.buffers {
            buffers.window.saw(n, cx.now.ms());
        }
    }

    /// Has the front of the output mapped.
    pub fn map_front(&mut self, map: impl FnOnce(&OpenFile, u64) -> Option<Box<dyn Mapped>>) {
        if let Some(buffers) = &mut self.buffers {
            buffers.window.map(&buffers.out, map);
        }
    }

    /// The front of its output is not in memory: it asks for that.
    pub fn absent(&mut self, cx: &Context) {
        let Some(buffers) = &mut self.buffers else { return };
        let Some(mut plan) = buffers.window.warm(&buffers.out, cx.piece_bytes) else { return };
        plan.set_asked(Ask::Output, cx.now_ns());
        traced(&mut self.exchange, |trace| trace.ask(timeline::work(&plan)));
        buffers.window.warming = Some(plan);
        self.warming = true;
    }

    /// A plan is done: what asked for it goes on, and may ask for the next.
    pub fn done(&mut self, plan: Plan, cx: &mut Context) {
        self.again = true;
        self.trace(|trace| trace.resumed(timeline::work(&plan)));
        let now_ns = cx.now_ns();
        cx.time(Timing::DiskWait, now_ns.saturating_sub(plan.asked_ns()));
        let ask = plan.asked_by();
        let next = match ask {
            Ask::Ahead => self.fetched(plan, cx),
            Ask::Handshake => {
                self.rejoin(cx);
                None
            }
            Ask::Output => {
                self.warming = false;
                if let (Some(buffers), Some(len)) = (&mut self.buffers, plan.warmed()) {
                    buffers.window.warmed(len);
                }
                None
            }
            Ask::Answer(number) if self.awaits(number) => self.looked_up(plan, cx),
            Ask::Responder(number) if self.awaits(number) => match self.responder_mut() {
                Some(responder) => responder.worked(plan, &mut cx.service, &cx.now),
                None => None,
            },
            // What asked for it is gone.
            Ask::Answer(_) | Ask::Responder(_) => {
                cx.learn(plan);
                None
            }
        };
        let Some(mut next) = next else { return self.end_ask(ask, cx) };
        next.set_asked(ask, now_ns);
        self.trace(|trace| trace.ask(timeline::work(&next)));
        cx.buffers.exchange(&mut self.exchange).plan = Some(next);
    }

    /// A file is there that no request has asked for yet.
    fn fetched(&mut self, plan: Plan, cx: &mut Context) -> Option<Box<Plan>> {
        let next = cx.service.resume_ahead(plan, &cx.now);
        self.ahead.is_fetching = next.is_some();
        next
    }

    fn looked_up(&mut self, plan: Plan, cx: &mut Context) -> Option<Box<Plan>> {
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        let exchange = cx.buffers.exchange(&mut self.exchange);
        let Context { service, now, tally, log, .. } = cx;
        let logged = if log.lines.is_on() { plan.request().cloned() } else { None };
        if let Some(request) = &logged {
            log.expect_login(service, &request.request());
        }
        let (answer, producer) = match service.resume(plan, now) {
            Lookup::Wait(plan) => return Some(plan),
            // The connection was refused meanwhile, which is counted already.
            _ if !self.conn.awaits_answer() => return None,
            Lookup::Answer(answer) => (answer, None),
            Lookup::Stream(answer, producer) => (answer, Some(producer)),
            Lookup::Respond(responder) => {
                begin_to_respond(&*responder, &mut self.conn, &mut buffers.out, tally, now);
                self.unseen = !buffers.input.is_empty();
                exchange.asks(&*responder, log.lines.clock_ns());
                exchange.set_responder(responder);
                return None;
            }
        };
        let status = answer.status;
        timeline::answers(&mut exchange.trace, status, Some(&buffers.out));
        let told = Told::of(&answer);
        self.conn.answered(answer, &mut buffers.out, now);
        if let Some(request) = logged {
            let (request, told) = (request.request(), (told, service.answered_for()));
            let into = (&buffers.out, &mut buffers.lines);
            log.answered(&exchange.asked_for(&request), told, &self.conn, into, now);
        }
        self.unseen = !buffers.input.is_empty();
        self.ahead.is_allowed = service.has_ahead();
        cx.answered(status, &mut buffers.times);
        self.produce(producer, cx);
        None
    }

    /// After an answer, and before it waits for the next request, a connection brings in what the
    /// caches should hold: no answer is delayed by that but its own next one.
    fn fetch_ahead(&mut self, cx: &mut Context) {
        if !std::mem::take(&mut self.ahead.is_allowed) {
            return;
        }
        let Some(mut plan) = cx.service.fetch_ahead(&cx.now) else { return };
        self.ahead = Ahead { is_fetching: true, is_allowed: true };
        plan.set_asked(Ask::Ahead, cx.now_ns());
        self.trace(|trace| trace.ask(timeline::work(&plan)));
        cx.buffers.exchange(&mut self.exchange).plan = Some(plan);
    }
}

/// The buffers of a connection that has something to do.
fn lent<'a>(
    buffers: &'a mut Option<Box<Buffers>>,
    exchange: &mut Option<Box<Exchange>>,
    cx: &mut Context,
) -> &'a mut Buffers {
    buffers.get_or_insert_with(|| {
        let mut buffers = cx.lend();
        if let Some(exchange) = exchange {
            buffers.take_over(exchange);
        }
        buffers
    })
}
