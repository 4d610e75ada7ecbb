//! The thread that accepts for one partition.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use flyball_conn::Peer;
use flyball_observe::histogram::Timing;
use flyball_sys::error_log::Level;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{self, Event, Interest, Readiness};
use flyball_sys::{net, say};

use super::pipeline::{Pipeline, Thread};
use crate::accept::{self, AcceptPolicy, Ended};
use crate::limits::ACCEPT_PAUSE_MS;
use crate::listener::Listener;
use crate::settings::AcceptLimit;
use crate::worker::{Order, Worker};

/// The token of the acceptor's wake-up, beyond those of its listening sockets.
const WAKE: u64 = u64::MAX;

/// What only the acceptor of a partition uses.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    partition: usize,
    mechanism: Box<dyn Readiness>,
    policy: AcceptPolicy,
    events: Vec<Event>,
    paused: bool,
}

impl Acceptor {
    /// One that waits for its share of the worker's listening sockets, by poll(2): they are few.
    ///
    /// # Errors
    /// Never, in practice.
    pub(crate) fn new(
        pipeline: &Pipeline,
        partition: usize,
        worker: &Worker,
    ) -> io::Result<Acceptor> {
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(pipeline.acceptors[partition].as_fd(), WAKE, Interest::READ)?;
        let mut acceptor = Acceptor {
            listeners: share(&worker.listeners, partition, pipeline.partitions.len()),
            partition,
            mechanism,
            policy: AcceptPolicy::shared(worker.shared.live()),
            events: Vec::new(),
            paused: false,
        };
        acceptor.watch()?;
        Ok(acceptor)
    }

    /// Waits, and accepts up to the limit from each socket that is ready; sockets that block if
    /// writes shall. False when there is nothing more to accept. Blocks.
    ///
    /// # Errors
    /// When the kernel refuses the wait.
    pub(crate) fn turn(
        &mut self,
        thread: &mut Thread,
        take: impl Fn(&mut Thread, Owned, Peer),
    ) -> io::Result<bool> {
        let pipeline = Arc::clone(&thread.pipeline);
        self.mechanism
            .wait(&mut self.events, if self.paused { ACCEPT_PAUSE_MS as i32 } else { -1 })?;
        thread.desk.begin_turn();
        if self.events.iter().any(|event| event.token == WAKE) {
            pipeline.acceptors[self.partition].clear();
        }
        if std::mem::take(&mut self.paused) {
            pipeline.paused.fetch_sub(1, SeqCst);
            self.watch()?;
        }
        let order = pipeline.order();
        if pipeline.is_ending() || order == Some(Order::Retire) {
            return Ok(false);
        }
        if order == Some(Order::Stop) {
            // What is already queued is taken in.
            self.policy = AcceptPolicy::new(AcceptLimit::Infinite);
        }
        let mut stopped = None;
        for at in 0..self.listeners.len() {
            if order.is_some() || self.events.iter().any(|event| event.token == at as u64) {
                let ended = self.phase(at, thread, &take);
                if matches!(ended, Ended::Full | Ended::OutOfDescriptors | Ended::Closed) {
                    stopped = Some(ended);
                }
            }
        }
        thread.turned(Timing::Accept);
        thread.publish();
        if let Some(ended) = stopped.filter(|_| order.is_none()) {
            self.pause(thread, ended);
            if thread.desk.settings.close_idle_when_full {
                let waiting = self.waiting();
                pipeline.read_poll.make_room(waiting);
                pipeline.write_poll.make_room(waiting);
            }
        }
        Ok(order.is_none())
    }

    fn phase(
        &mut self,
        listener: usize,
        thread: &mut Thread,
        take: impl Fn(&mut Thread, Owned, Peer),
    ) -> Ended {
        let pipeline = Arc::clone(&thread.pipeline);
        let nonblocking = !thread.desk.settings.send_blocking;
        let mut tally = std::mem::take(&mut thread.desk.tally);
        let ended = self.policy.phase_within(
            &self.listeners[listener],
            &*pipeline,
            nonblocking,
            &mut tally,
            |socket, peer| take(thread, socket, peer),
        );
        tally.absorb(&std::mem::take(&mut thread.desk.tally));
        thread.desk.tally = tally;
        ended
    }

    fn watch(&mut self) -> io::Result<()> {
        for (at, listener) in self.listeners.iter().enumerate() {
            self.mechanism.add(listener.as_fd(), at as u64, Interest::READ)?;
        }
        Ok(())
    }

    /// How many connections wait at its sockets.
    fn waiting(&self) -> usize {
        let queue = |listener: &Listener| net::accept_queue(listener).map_or(0, |(n, _)| n);
        self.listeners.iter().map(|listener| queue(listener) as usize).sum()
    }

    /// Leaves new connections in the accept queue until there is room.
    fn pause(&mut self, thread: &mut Thread, ended: Ended) {
        for listener in &self.listeners {
            self.mechanism.remove(listener.as_fd());
        }
        self.paused = true;
        thread.pipeline.paused.fetch_add(1, SeqCst);
        if let Some(why) = ended.why_paused()
            && !thread.pipeline.warned.swap(true, SeqCst)
        {
            let paused = accept::paused(why, thread.pipeline.open());
            say!(Level::Warn, "worker {}: {paused}", thread.pipeline.worker);
        }
    }
}

/// The listening sockets of a partition. None is left alone, whatever their number, since the
/// kernel goes on filling its queue; where there are too few, partitions have them in common.
fn share<T: Clone>(all: &[T], partition: usize, partitions: usize) -> Vec<T> {
    let shares = partitions.min(all.len()).max(1);
    all.iter().skip(partition % shares).step_by(shares).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listening_socket_has_an_acceptor_and_every_acceptor_a_socket() {
        for partitions in 1..=7 {
            for sockets in 1..=15 {
                let all: Vec<usize> = (0..sockets).collect();
                let shares: Vec<Vec<usize>> =
                    (0..partitions).map(|partition| share(&all, partition, partitions)).collect();
                assert!(shares.iter().all(|own| !own.is_empty()), "{sockets}: {shares:?}");
                let mut taken = shares.concat();
                taken.sort_unstable();
                if sockets >= partitions {
                    assert_eq!(taken, all, "each socket has one acceptor: {shares:?}");
                } else {
                    taken.dedup();
                    assert_eq!(taken, all, "{shares:?}");
                }
            }
        }
    }
}
