//! `mt`: a pool of threads that block, one connection each.
//!
//! **Paper**: V. Pai, P. Druschel, W. Zwaenepoel: Flash: An Efficient and Portable Web Server,
//! USENIX 1999 (MT, section 3.2); J. Hu, S. Mungee, D. Schmidt: Techniques for Developing and
//! Measuring High-Performance Web Servers over ATM Networks, INFOCOM 1998 (section 3.1).
//!
//! **Idea**: Each thread of a fixed pool accepts a connection, serves it to its end with blocking
//! calls, and accepts the next. The threads of a process share its caches.
//!
//! **Differs from the paper**:
//! * The caches have a lock for each bucket of their tables.
//! * No more threads run than connections fit: each that waits in accept holds a descriptor.
//! * The kernel's socket time-outs, which accepted sockets inherit, are the watchdog: a call
//!   that is overdue returns, and its thread looks at the time.
//!
//! **Reads with**: section 3.2, figure 3 of the Flash paper: [`serve_connection`].
//!
//! **Settings**: `mt.threads`, `workers`, `pin`, `send.mode`, `send.piece`.
//!
//! **Kernel needs**: nothing beyond blocking sockets.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use flyball_http::CloseReason;
use flyball_sys::net;
use flyball_sys::readiness::{self, Interest};

use crate::counters::Counter;
use crate::desk::Desk;
use crate::exchange::{Exchange, Step};
use crate::registry::{Architecture, Sockets};
use crate::settings::Settings;
use crate::transmit::{Sent, transmit};
use crate::worker::{BLOCKING_TICK_MS, Order, Report, Worker};

/// How long a thread that found no descriptor for a connection rests.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(250);

/// Multi-threaded.
#[derive(Debug)]
pub struct Mt;

impl Architecture for Mt {
    fn name(&self) -> &'static str {
        "mt"
    }

    fn about(&self) -> &'static str {
        "threads that block, one connection each"
    }

    fn paper(&self) -> &'static str {
        "Pai et al., USENIX 1999; Hu et al., INFOCOM 1998"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["mt.threads", "workers", "pin", "send.mode", "send.piece"]
    }

    fn needs(&self) -> &'static str {
        "nothing beyond blocking sockets"
    }

    fn sockets(&self) -> Sockets {
        Sockets::Shared
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or(1)
    }

    fn threads(&self, settings: &Settings) -> usize {
        settings.threads
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let threads = worker.settings.threads;
        let running = threads.min(worker.connections_max);
        if running < threads {
            worker.say(&format!("{running} of {threads} threads run: no more connections fit"));
        }
        let caches = worker.shared_caches();
        let stopping = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut pool = Vec::with_capacity(running);
            for number in 0..running {
                let mut desk = worker.desk_with(worker.service_sharing(&caches), number);
                let listener = Arc::clone(&worker.listeners[number % worker.listeners.len()]);
                let stopping = &stopping;
                let name = format!("server-{number}");
                let body = move || serve(&listener, &mut desk, stopping);
                match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(thread) => pool.push(thread),
                    // The scope waits for those that run, which must not wait for a stop.
                    Err(error) => {
                        stopping.store(true, Relaxed);
                        return Err(error);
                    }
                }
            }
            let stopped = wait_for_orders(&worker, &stopping);
            let unfinished = pool.into_iter().map(|thread| thread.join().unwrap_or(1)).sum();
            stopped.map(|()| Report { unfinished })
        })
    }
}

/// Blocks until the worker is told to end, and until the last thread is out of accept.
fn wait_for_orders(worker: &Worker, stopping: &AtomicBool) -> io::Result<()> {
    let mut mechanism = readiness::open("poll")?;
    mechanism.add(worker.signals.as_fd(), 0, Interest::READ)?;
    loop {
        mechanism.wait(&mut Vec::new(), -1)?;
        if let Some(order) = worker.order() {
            stopping.store(true, Relaxed);
            // Also wakes those that wait in accept, when the server stops.
            worker.leave_listeners(order);
            return Ok(());
        }
    }
}

/// A thread's life: accept, serve to the end, again. Returns how many connections it left open.
fn serve(listener: &OwnedFd, desk: &mut Desk, stopping: &AtomicBool) -> usize {
    while !stopping.load(Relaxed) {
        match net::accept(listener, false) {
            Ok((socket, peer)) => {
                desk.tick();
                desk.tally.add(Counter::Accepted, 1);
                desk.tally.add(Counter::AcceptPhases, 1);
                if !serve_connection(&socket, peer, desk, stopping) {
                    return 1;
                }
            }
            Err(error) if net::is_out_of_descriptors(&error) => {
                desk.tally.add(Counter::OutOfDescriptors, 1);
                std::thread::park_timeout(DESCRIPTOR_PAUSE);
            }
            Err(error) if net::is_not_listening(&error) => {
                std::thread::park_timeout(DESCRIPTOR_PAUSE);
            }
            // The time-out that lets the thread look around, or a peer that has gone.
            Err(_) => {}
        }
        desk.tick();
        desk.publish();
        desk.publish_states(std::iter::empty());
    }
    desk.log.flush();
    0
}

/// One connection, to its end. False when the drain deadline ended it.
fn serve_connection(
    socket: &OwnedFd,
    peer: SocketAddr,
    desk: &mut Desk,
    stopping: &AtomicBool,
) -> bool {
    let mut exchange = Exchange::new(peer, desk);
    let mut drain_until_ms = None;
    loop {
        match exchange.advance(desk) {
            // A client that drips never lets a call time out, so that it is looked at here as well.
            Step::Read | Step::Write | Step::ReadWrite if desk.now.ms() >= exchange.deadline() => {
                exchange.expired(|| net::unacknowledged(socket), desk);
            }
            Step::Read => receive(socket, &mut exchange, desk),
            Step::Write => send(socket, &mut exchange, desk),
            Step::ReadWrite => either(socket, &mut exchange, desk),
            Step::Disk(mut plan) => {
                desk.tally.add(Counter::DiskWaits, 1);
                plan.run();
                let mut next = exchange.resume(*plan, desk);
                while let Some(mut plan) = next {
                    plan.run();
                    next = exchange.resume(*plan, desk);
                }
                continue;
            }
            Step::Waiting => {
                debug_assert!(false, "nothing is ever under way in a blocking thread");
                exchange.abort(CloseReason::SocketError);
            }
            Step::Shut => {
                let _ = net::shutdown_write(socket);
                exchange.shut(desk);
            }
            Step::Close(reason) => {
                exchange.end(desk, reason);
                return true;
            }
        }
        if stopping.load(Relaxed) {
            let until_ms = *drain_until_ms.get_or_insert(desk.now.ms() + desk.settings.drain_ms);
            exchange.drain(Order::Stop, desk);
            if desk.now.ms() >= until_ms {
                exchange.end(desk, CloseReason::Draining);
                return false;
            }
        }
    }
}

/// Blocks in the call while reading is all that is wanted (rule 3 of the contract).
fn receive(socket: &OwnedFd, exchange: &mut Exchange, desk: &mut Desk) {
    exchange.rest(desk);
    desk.service.rest();
    desk.publish();
    desk.publish_states(std::iter::once(exchange.state()));
    let received = net::recv(socket, exchange.buffers(desk).input.space());
    desk.tick();
    match received {
        Ok(0) => exchange.eof(desk),
        Ok(n) => exchange.received(n, desk),
        Err(error) if is_timeout(&error) => {
            exchange.expired(|| net::unacknowledged(socket), desk);
        }
        Err(_) => exchange.abort(CloseReason::ClientGone),
    }
}

fn send(socket: &OwnedFd, exchange: &mut Exchange, desk: &mut Desk) {
    match transmit(socket, exchange, desk) {
        Sent::All | Sent::Absent => {}
        // However fast the client takes it, the drain deadline must be seen.
        Sent::Piece => desk.tick(),
        Sent::Full => {
            desk.tick();
            exchange.expired(|| net::unacknowledged(socket), desk);
        }
        Sent::Failed(reason) => exchange.abort(reason),
    }
}

/// Reads and writes are both wanted: waits for either, and then does what will not block.
fn either(socket: &OwnedFd, exchange: &mut Exchange, desk: &mut Desk) {
    let ready = net::wait_either(socket, BLOCKING_TICK_MS);
    desk.tick();
    match ready {
        Ok((false, false)) => exchange.expired(|| net::unacknowledged(socket), desk),
        Ok((_, true)) => send(socket, exchange, desk),
        Ok((true, false)) => receive(socket, exchange, desk),
        Err(_) => exchange.abort(CloseReason::SocketError),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
