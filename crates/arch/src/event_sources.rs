//! What an event loop hears of, by the tokens of its event mechanism: connections and links by
//! their own, and beside them signals, finished disk work and the listening sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use flyball_sys::readiness::{Event, Interest, Readiness};

use crate::kernel::readiness;
use crate::links::LINK;
use crate::slots::{FIRST_RESERVED, Token};
use crate::worker::Worker;

/// The token of the worker's signals.
const SIGNALS: u64 = FIRST_RESERVED;

/// The token of whatever completes disk work.
const COMPLETIONS: u64 = FIRST_RESERVED + 1;

/// The token of the first listening socket; the others follow.
const LISTENERS: u64 = FIRST_RESERVED + 16;

/// What an event is about.
pub(crate) enum Source {
    /// There may be an order.
    Signals,
    /// Disk work is done.
    Completions,
    /// This listening socket has a connection.
    Listener(usize),
    /// A link.
    Link,
    /// A connection.
    Connection(Token),
}

impl Source {
    /// That of an event.
    pub(crate) fn of(event: &Event) -> Source {
        match event.token {
            SIGNALS => Source::Signals,
            COMPLETIONS => Source::Completions,
            token if token >= LISTENERS => Source::Listener((token - LISTENERS) as usize),
            bits if bits & LINK != 0 => Source::Link,
            bits => Source::Connection(Token::from_bits(bits)),
        }
    }
}

/// Opens the event mechanism of a loop, which watches the signals of the worker and what tells of
/// finished disk work.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn open(
    worker: &Worker,
    completions: Option<BorrowedFd<'_>>,
) -> io::Result<Box<dyn Readiness>> {
    let mut mechanism = readiness::open(worker.settings.events.name())?;
    mechanism.add(worker.signals.as_fd(), SIGNALS, Interest::READ)?;
    if let Some(completions) = completions {
        mechanism.add(completions, COMPLETIONS, Interest::READ)?;
    }
    Ok(mechanism)
}

/// Watches the listening sockets of the worker.
///
/// # Errors
/// When memory is out.
pub(crate) fn watch_listeners(mechanism: &mut dyn Readiness, worker: &Worker) -> io::Result<()> {
    for (listener, token) in worker.listeners.iter().zip(LISTENERS..) {
        if is_exclusive(worker) {
            mechanism.add_shared(listener.as_fd(), token)?;
        } else {
            mechanism.add(listener.as_fd(), token, Interest::READ)?;
        }
    }
    Ok(())
}

/// Whether one worker alone is woken for a connection that several could accept.
pub(crate) fn is_exclusive(worker: &Worker) -> bool {
    worker.shares_listeners && worker.settings.exclusive
}

/// Changes what the listening sockets are watched for; false when that is refused.
pub(crate) fn change_listeners(
    mechanism: &mut dyn Readiness,
    worker: &Worker,
    interest: Interest,
) -> bool {
    let listeners = worker.listeners.iter().zip(LISTENERS..);
    listeners.fold(true, |all, (listener, token)| {
        all & mechanism.change(listener.as_fd(), token, interest).is_ok()
    })
}

/// Does not watch the listening sockets any more.
pub(crate) fn unwatch_listeners(mechanism: &mut dyn Readiness, worker: &Worker) {
    for listener in &worker.listeners {
        mechanism.remove(listener.as_fd());
    }
}

/// Tells the event mechanism what is waited for on a socket, if it does not know. `now` is what it
/// watches for; the new value is given back.
pub(crate) fn watch(
    mechanism: &mut dyn Readiness,
    socket: BorrowedFd<'_>,
    token: Token,
    now: Interest,
    wanted: Interest,
) -> Interest {
    if now == wanted {
        return now;
    }
    let watched = match (now, wanted) {
        (Interest::NONE, _) => mechanism.add(socket, token.bits(), wanted),
        // Registered once for everything.
        _ if mechanism.is_edge_triggered() => return now,
        (_, Interest::NONE) => {
            mechanism.remove(socket);
            Ok(())
        }
        _ => mechanism.change(socket, token.bits(), wanted),
    };
    // Without events the connection's deadline is what ends it.
    watched.map_or(Interest::NONE, |()| wanted)
}
