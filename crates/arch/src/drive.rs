//! One turn of one connection, for all architectures that call and wait. It goes as far as it can
//! without waiting and says what is waited for then. *Which* connection has a turn, *when*, and
//! *how* to wait stays with the architecture, as does what one of its threads may do: its [`Port`].

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use flyball_conn::{Connection, LinkNeed, Needs, SocketNeed, Watch};
use flyball_http::CloseReason;
use flyball_observe::counters::Counter;
use flyball_site::{Ask, Plan};
use flyball_sys::readiness::Interest;

use crate::awaited::{Awaited, Client};
use crate::desk::Desk;
use crate::kernel::net;
use crate::limits::READS_PER_TURN;
use crate::links::{Held, Moved, Pool, link};
use crate::transmit::{Sent, transmit};

/// What is known of a client's socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    /// Reading may find something.
    pub(crate) read: bool,
    /// There may be room.
    pub(crate) write: bool,
    /// It was hung up: there is still the end of the stream to be read.
    pub(crate) hangup: bool,
}

/// Why a turn ended.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It waits for these events of its client's socket, for a backend if one is named, and for
    /// work that is under way.
    Wait(Interest, Option<Awaited>),
    /// It could go on: others come first.
    Again,
    /// It could go on, where requests are parsed.
    Elsewhere,
    /// It is over.
    Over(CloseReason),
}

/// What a thread of an architecture may do for a connection, and how. Nothing here parks.
pub(crate) trait Port {
    /// Whether it receives. If not, a turn ends where input is wanted.
    const RECEIVES: bool = true;
    /// Whether it gives the machine input that was received.
    const PARSES: bool = true;
    /// Whether it sends. If not, a turn ends where output is there.
    const SENDS: bool = true;

    /// The client's socket.
    fn socket(&self) -> BorrowedFd<'_>;

    /// What is known of it.
    fn ready(&mut self) -> &mut Ready;

    /// Its link to a server, if it has one, and who has those that are at rest.
    fn link(&mut self) -> (&mut Held, impl Pool);

    /// Receives once. Does not wait.
    fn receive(&mut self, space: &mut [u8], _desk: &Desk) -> io::Result<usize> {
        net::recv(self.socket(), space)
    }

    /// Whether it receives until a call would wait (M54); else one that does not fill the space has
    /// emptied the socket.
    fn receives_all(&self, _desk: &Desk) -> bool {
        false
    }

    /// Whether output may be sent now; `reads` says that input is wanted as well.
    fn may_send(&mut self, _reads: bool, _desk: &Desk) -> bool {
        Self::SENDS
    }

    /// Sends what is queued: all that is in memory, or one piece of a large body.
    fn send(&mut self, connection: &mut Connection, desk: &mut Desk) -> Sent {
        transmit(self.socket(), connection, desk)
    }

    /// Performs a plan and gives it back finished, or takes it: it comes back to [`resume`].
    fn perform(
        &mut self,
        plan: Box<Plan>,
        connection: &mut Connection,
        desk: &mut Desk,
    ) -> Option<Box<Plan>>;
}

/// Drives a connection until it has to wait. Who receives keeps the time as well: a deadline that
/// has passed counts once all was seen that had come before it, from the client and from a backend.
pub(crate) fn drive<P: Port>(port: &mut P, connection: &mut Connection, desk: &mut Desk) -> Turn {
    let turn = drive_untimed(port, connection, desk);
    if !P::RECEIVES || !is_late(&turn, connection, desk) {
        return turn;
    }
    port.ready().read = true;
    if let (Some(link), _) = port.link() {
        link.read = true;
    }
    let turn = drive_untimed(port, connection, desk);
    if !is_late(&turn, connection, desk) {
        return turn;
    }
    connection.expired(|| net::unacknowledged(port.socket()), desk);
    // What it says now may leave, although no room was reported.
    port.ready().write = true;
    drive_untimed(port, connection, desk)
}

/// Whether a connection waits past its deadline.
fn is_late(turn: &Turn, connection: &Connection, desk: &Desk) -> bool {
    matches!(turn, Turn::Wait(..)) && desk.now.ms() >= connection.deadline()
}

/// Drives a connection until it has to wait. While its client has no room it takes what its backend
/// says.
fn drive_untimed<P: Port>(port: &mut P, connection: &mut Connection, desk: &mut Desk) -> Turn {
    connection.woke();
    if let (Some(link), mut pool) = port.link() {
        pool.woke(link);
    }
    let interest = match go_on(port, connection, desk) {
        Turn::Wait(interest, None) if P::SENDS && interest.write => interest,
        turn => return turn,
    };
    let (mut reads, mut needs) = (0, Needs::default());
    loop {
        connection.held_back(desk);
        connection.needs(&mut needs);
        if let Some(need) = needs.link {
            manage_link(port, need, connection, desk);
            continue;
        }
        if let Some(ask) = needs.asks.first()
            && ask_for(port, connection, ask, desk)
        {
            return Turn::Again;
        }
        match use_link(port, connection, &needs, &mut reads, desk) {
            Moved::Nothing => break,
            Moved::Later => return Turn::Again,
            Moved::Sent | Moved::Received => {}
        }
    }
    Turn::Wait(interest, awaited(port, needs.watch))
}

fn manage_link<P: Port>(port: &mut P, need: LinkNeed, connection: &mut Connection, desk: &Desk) {
    let (held, mut pool) = port.link();
    link::manage(&mut pool, held, need, connection, (&desk.upstreams, desk));
}

/// What is waited for, with its descriptor.
fn awaited<P: Port>(port: &mut P, watch: Option<Watch>) -> Option<Awaited> {
    link::awaited(port.link().0, watch)
}

/// Moves bytes between a connection and its link, as far as it needs that.
fn use_link<P: Port>(
    port: &mut P,
    connection: &mut Connection,
    needs: &Needs,
    reads: &mut u32,
    desk: &Desk,
) -> Moved {
    let Some(Watch { interest, .. }) = &needs.watch else { return Moved::Nothing };
    let (held, mut pool) = port.link();
    let may_receive = *reads < READS_PER_TURN;
    let moved =
        link::moves(&mut pool, held, *interest, connection, may_receive, (&desk.upstreams, desk));
    *reads += u32::from(moved == Moved::Received);
    moved
}

/// Drives a connection on whose work is done.
pub(crate) fn resume<P: Port>(
    port: &mut P,
    connection: &mut Connection,
    done: Box<Plan>,
    desk: &mut Desk,
) -> Turn {
    let ask = done.asked_by();
    connection.done(*done, desk);
    perform(port, connection, ask, desk);
    drive(port, connection, desk)
}

fn go_on<P: Port>(port: &mut P, connection: &mut Connection, desk: &mut Desk) -> Turn {
    let (mut reads, mut needs) = (0, Needs::default());
    loop {
        if !P::PARSES && connection.has_input() {
            // What is answered leaves first, as far as it can.
            return match send(port, connection, false, desk) {
                Some(Turn::Again) => Turn::Again,
                _ => Turn::Elsewhere,
            };
        }
        match connection.goes_on() {
            true => connection.go_on(&mut needs, desk),
            false => connection.needs(&mut needs),
        }
        if let Some(reason) = needs.over {
            // Others can use a link that it has left.
            if let Some(need) = needs.link {
                manage_link(port, need, connection, desk);
            }
            return Turn::Over(reason);
        }
        if needs.again {
            return Turn::Again;
        }
        match at_once(port, connection, &needs, &mut reads, desk) {
            Next::Client => {}
            Next::Round => continue,
            Next::Others => return Turn::Again,
        }
        let readable = P::RECEIVES && port.ready().read;
        let may_read = reads < READS_PER_TURN;
        if !needs.read && may_read && hear(port, connection, &mut reads, desk) {
            continue;
        }
        match (needs.read, needs.write, needs.watch.take()) {
            (true, _, _) | (_, false, Some(_)) if readable && !may_read => return Turn::Again,
            (true, false, _) if readable => {
                reads += 1;
                receive(port, connection, desk);
            }
            (true, true, _) => {
                if readable {
                    reads += 1;
                    receive(port, connection, desk);
                }
                let readable = P::RECEIVES && port.ready().read;
                match send(port, connection, true, desk) {
                    Some(Turn::Wait(..)) if !readable => return Turn::Wait(Interest::BOTH, None),
                    Some(Turn::Again) => return Turn::Again,
                    _ => {}
                }
            }
            (false, true, _) => {
                if let Some(turn) = send(port, connection, false, desk) {
                    return turn;
                }
            }
            (true, false, watch) => {
                return Turn::Wait(Interest::READ, awaited(port, watch));
            }
            (false, false, None) => return Turn::Wait(Interest::NONE, None),
            (false, false, watch) => match look_at_client(port) {
                Some(interest) => {
                    return Turn::Wait(interest, awaited(port, watch));
                }
                None => connection.client_left(desk),
            },
        }
    }
}

/// What comes after what can be done at once.
enum Next {
    /// Nothing of that was wanted: the client's socket.
    Client,
    /// Another look at what is wanted.
    Round,
    /// The turn of others.
    Others,
}

/// Does what is wanted beside the client's input and room.
fn at_once<P: Port>(
    port: &mut P,
    connection: &mut Connection,
    needs: &Needs,
    reads: &mut u32,
    desk: &mut Desk,
) -> Next {
    if let Some(need) = needs.socket {
        // Both fail only when the peer has gone, which reading will show.
        match need {
            SocketNeed::Shut => {
                let _ = net::shutdown_write(port.socket());
                port.ready().read = true;
                connection.shut(desk);
            }
            SocketNeed::Acknowledge => {
                let _ = net::acknowledge(port.socket());
                connection.acknowledged();
            }
            // One of another kind than TCP has no pace, and holds what it holds.
            SocketNeed::Pace(bytes_per_s) => {
                let _ = net::set_pacing(port.socket(), bytes_per_s);
                connection.paced(bytes_per_s);
            }
            SocketNeed::Unsent(bytes) => {
                let _ = net::set_unsent(port.socket(), bytes);
                connection.bounded(bytes);
            }
        }
        debug_assert!(has_ended(connection, |needs| needs.socket == Some(need)));
        return Next::Round;
    }
    if let Some(need) = needs.link {
        manage_link(port, need, connection, desk);
        debug_assert!(has_ended(connection, |needs| needs.link == Some(need)));
        return Next::Round;
    }
    if let Some(ask) = needs.asks.first() {
        // A body that is produced here may be long: others have their turn.
        let is_done = ask_for(port, connection, ask, desk);
        return if is_done && connection.is_producing() { Next::Others } else { Next::Round };
    }
    match use_link(port, connection, needs, reads, desk) {
        Moved::Nothing => Next::Client,
        Moved::Later => Next::Others,
        Moved::Sent | Moved::Received => Next::Round,
    }
}

/// Whether a wish is gone after the call that ends it; else a turn would never end.
fn has_ended(connection: &Connection, wish: impl FnOnce(&Needs) -> bool) -> bool {
    let mut needs = Needs::default();
    connection.needs(&mut needs);
    !wish(&needs)
}

/// Receives what is heard of a client that nothing is wanted from; false when that is nothing.
fn hear<P: Port>(
    port: &mut P,
    connection: &mut Connection,
    reads: &mut u32,
    desk: &mut Desk,
) -> bool {
    let hears = P::RECEIVES && port.ready().read && connection.hears();
    if hears {
        *reads += 1;
        receive(port, connection, desk);
    }
    hears
}

/// While a backend works, and nothing is wanted from the client: what it is watched for. `None`
/// when it has left.
fn look_at_client<P: Port>(port: &mut P) -> Option<Interest> {
    if !P::RECEIVES || !port.ready().read {
        return Some(Interest::READ);
    }
    match Client::look(port.socket()) {
        Client::Left => None,
        Client::Sends => Some(Interest::NONE),
        Client::Waits => {
            port.ready().read = false;
            Some(Interest::READ)
        }
    }
}

/// Receives once. A read that does not fill the space has emptied the socket; after a hang-up there
/// is still the end of the stream to be read.
pub(crate) fn receive<P: Port>(port: &mut P, connection: &mut Connection, desk: &mut Desk) {
    let space = connection.space(desk);
    let room = space.len();
    match port.receive(space, desk) {
        Ok(0) => connection.eof(desk),
        Ok(n) => {
            let receives_all = port.receives_all(desk);
            let ready = port.ready();
            ready.read = n == room || ready.hangup || receives_all;
            connection.received(n, desk);
            if desk.ends_read() {
                connection.abort(CloseReason::LabStage);
            }
        }
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock => port.ready().read = false,
            ErrorKind::Interrupted => {}
            _ => connection.client_left(desk),
        },
    }
}

/// Sends; `None` when the connection goes on at once.
fn send<P: Port>(
    port: &mut P,
    connection: &mut Connection,
    reads: bool,
    desk: &mut Desk,
) -> Option<Turn> {
    let full = |connection: &Connection| {
        let interest = if connection.hears() { Interest::BOTH } else { Interest::WRITE };
        Some(Turn::Wait(interest, None))
    };
    if !port.may_send(reads, desk) {
        return full(connection);
    }
    match port.send(connection, desk) {
        Sent::All => None,
        Sent::Full => full(connection),
        Sent::Piece if !port.may_send(reads, desk) => full(connection),
        Sent::Piece => Some(Turn::Again),
        Sent::Absent => {
            connection.absent(desk);
            None
        }
        Sent::Failed(reason) => {
            connection.send_failed(reason, desk);
            None
        }
    }
}

/// Performs a plan that is asked for, and those that follow from it; false while one is under way
/// elsewhere.
fn ask_for<P: Port>(port: &mut P, connection: &mut Connection, ask: Ask, desk: &mut Desk) -> bool {
    desk.tally.add(Counter::DiskWaits, 1);
    perform(port, connection, ask, desk)
}

/// The same for one that follows from another.
fn perform<P: Port>(port: &mut P, connection: &mut Connection, ask: Ask, desk: &mut Desk) -> bool {
    while let Some(plan) = connection.take_plan(ask) {
        debug_assert!(has_ended(connection, |needs| needs.asks.first() == Some(ask)));
        match port.perform(plan, connection, desk) {
            Some(done) => connection.done(*done, desk),
            None => return false,
        }
    }
    true
}
