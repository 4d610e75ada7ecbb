//! What a connection takes of what its client may have: a place among the connections of the
//! server, and while it is answered one among those of a path, whose pace it has then.

use flyball_http::{CloseReason, Now, Refusal, Remote, Request, Status};
use flyball_observe::counters::{Counter, Tally};
use flyball_site::{Limit, Lookup, Service};
use flyball_sys::clients::unsent_at;

use super::{Connection, lent};
use crate::clients::{ClientLimits, Seat};
use crate::context::{Account, Context};
use crate::needs::SocketNeed;

/// The bytes in a second of a socket that goes as fast as it can.
const UNPACED: u64 = u64::MAX;

/// How many bytes may wait to be sent in a socket without a pace whose connection has a place at a
/// path, in bytes: enough for any speed that a place is worth counting at.
const UNSENT_UNPACED: u32 = 128 * 1024;

/// When to ask again where connections have to end first, in seconds.
const BUSY_S: u64 = 1;

/// What a connection takes.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Its place at the server.
    pub(super) seat: Seat,
    /// What it takes of paths; nothing before a request that is limited.
    of_paths: Option<Box<OfPaths>>,
}

#[derive(Debug)]
struct OfPaths {
    /// Its places, until its answers have left.
    places: Vec<Place>,
    /// Answers may not have left yet: what is asked for behind them does not make them faster.
    is_answering: bool,
    /// Bytes in a second that its socket sends.
    paced: u64,
    /// The same as it shall be.
    pace: u64,
    /// The most bytes that wait in its socket to be sent; 0 is no bound.
    bounded: u32,
    /// The same as it shall be.
    bound: u32,
}

impl OfPaths {
    /// What a connection has at a server that paces all of them like this.
    fn new(of_server: u64) -> OfPaths {
        let bound = bound(of_server, false);
        OfPaths {
            places: Vec::new(),
            is_answering: false,
            paced: of_server,
            pace: of_server,
            bounded: bound,
            bound,
        }
    }
}

/// The bytes that may wait to be sent at this pace: an answer has left when its socket has taken
/// all of it, and where that matters to others it is not to be long before its client has it.
fn bound(pace: u64, has_place: bool) -> u32 {
    match pace {
        UNPACED if has_place => UNSENT_UNPACED,
        UNPACED => 0,
        _ => unsent_at(pace),
    }
}

/// A place among the connections of a path.
#[derive(Debug)]
struct Place {
    /// The number of the limit.
    number: u64,
    seats: [Seat; 2],
}

/// Why a request is not answered: the seconds after which it may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeds {
    /// Its client asks too fast.
    Rate(u64),
    /// Its client has as many connections there as it may.
    OfClient,
    /// All clients together have.
    OfAll,
}

impl Exceeds {
    /// The answer to the request.
    pub(super) fn answer<'a>(
        self,
        request: &Request<'_>,
        service: &'a mut Service,
        tally: &mut Tally,
    ) -> Lookup<'a> {
        let (counter, status, wait_s) = match self {
            Exceeds::Rate(wait_s) => (Counter::Throttled, Status::TOO_MANY_REQUESTS, wait_s),
            Exceeds::OfClient => (Counter::Crowded, Status::TOO_MANY_REQUESTS, BUSY_S),
            Exceeds::OfAll => (Counter::Crowded, Status::SERVICE_UNAVAILABLE, BUSY_S),
        };
        tally.add(counter, 1);
        service.throttle(request, (status, wait_s))
    }
}

impl Allowance {
    /// That of a connection with this place.
    pub(super) fn new(seat: Seat) -> Allowance {
        Allowance { seat, of_paths: None }
    }

    /// Takes what a request needs, if its client may have that.
    #[inline]
    pub(super) fn admit(
        &mut self,
        request: &Request<'_>,
        service: &Service,
        account: &Account,
        now: &Now,
    ) -> Result<(), Exceeds> {
        let limits = &account.clients;
        let asked = limits.ask(&limits.of_server, request.client(), now.ms());
        asked.map_err(Exceeds::Rate)?;
        let limit = service.limit_of(request);
        if limit.is_none() && self.of_paths.is_none() {
            return Ok(());
        }
        self.take(limit.as_ref(), request.client(), account, now)
    }

    fn take(
        &mut self,
        limit: Option<&Limit>,
        client: Remote,
        account: &Account,
        now: &Now,
    ) -> Result<(), Exceeds> {
        let limits = &account.clients;
        let of_server = limits.of_server.bandwidth.unwrap_or(UNPACED);
        let of_paths = self.of_paths.get_or_insert_with(|| Box::new(OfPaths::new(of_server)));
        let was_answering = std::mem::replace(&mut of_paths.is_answering, true);
        let most = if was_answering { of_paths.pace.min(of_server) } else { of_server };
        of_paths.pace = most;
        of_paths.bound = bound(most, !of_paths.places.is_empty());
        let Some(limit) = limit else { return Ok(()) };
        limits.ask(limit, client, now.ms()).map_err(Exceeds::Rate)?;
        if !of_paths.places.iter().any(|place| place.number == limit.number) {
            let place = Place::take(limit, client, account)?;
            of_paths.places.extend(place.is_counted().then_some(place));
        }
        of_paths.pace = limit.bandwidth.map_or(most, |here| here.min(most));
        of_paths.bound = bound(of_paths.pace, !of_paths.places.is_empty());
        Ok(())
    }

    /// What is to be done with the socket before it sends.
    pub(super) fn need(&self) -> Option<SocketNeed> {
        let of_paths = self.of_paths.as_deref()?;
        if of_paths.pace != of_paths.paced {
            return Some(SocketNeed::Pace(of_paths.pace));
        }
        (of_paths.bound != of_paths.bounded).then_some(SocketNeed::Unsent(of_paths.bound))
    }

    /// All that was asked for has left.
    fn answers_left(&mut self, limits: &ClientLimits) {
        let Some(of_paths) = &mut self.of_paths else { return };
        of_paths.is_answering = false;
        let seats = of_paths.places.drain(..).flat_map(|place| place.seats);
        seats.for_each(|seat| limits.get_up(seat));
    }

    /// The connection is over.
    pub(super) fn end(&mut self, limits: &ClientLimits) {
        limits.get_up(self.seat);
        self.answers_left(limits);
    }
}

impl Place {
    fn take(limit: &Limit, client: Remote, account: &Account) -> Result<Place, Exceeds> {
        let (limits, owner) = (&account.clients, account.owner);
        let of_client = limits.enter(limit, client, owner);
        if of_client == Seat::Refused {
            return Err(Exceeds::OfClient);
        }
        let among_all = limits.enter_among_all(limit, owner);
        if among_all == Seat::Refused {
            limits.get_up(of_client);
            return Err(Exceeds::OfAll);
        }
        Ok(Place { number: limit.number, seats: [of_client, among_all] })
    }

    fn is_counted(&self) -> bool {
        self.seats != [Seat::Free; 2]
    }
}

impl Connection {
    /// Its client has as many connections as it may: it is told so, whatever it asks for.
    pub(super) fn turn_away(&mut self, cx: &mut Context) {
        self.allowance.seat = Seat::Free;
        if self.tls.is_some() {
            // A handshake, only to say that, is what one that does harm would have.
            cx.tally.add(Counter::TurnedAway, 1);
            return self.conn.abort(CloseReason::TooManyConnections);
        }
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        self.conn.turn_away(Refusal::TooManyConnections, &mut buffers.out, &cx.now);
        self.count_refusal(cx);
    }

    /// Its places at paths are free when nothing of what was asked for is left to be sent.
    pub(super) fn leave_paths(&mut self, cx: &Context) {
        if self.allowance.of_paths.is_some()
            && !self.is_asked()
            && !self.is_producing()
            && !self.has_output()
        {
            self.allowance.answers_left(&cx.account.clients);
        }
    }

    /// Its socket sends so many bytes in a second from now on, or is one that cannot be told to.
    pub fn paced(&mut self, bytes_per_s: u64) {
        if let Some(of_paths) = &mut self.allowance.of_paths {
            of_paths.paced = bytes_per_s;
        }
    }

    /// So many bytes wait in its socket to be sent from now on, or it is one that cannot be told.
    pub fn bounded(&mut self, bytes: u32) {
        if let Some(of_paths) = &mut self.allowance.of_paths {
            of_paths.bounded = bytes;
        }
    }
}
