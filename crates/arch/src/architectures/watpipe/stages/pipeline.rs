//! What the threads of all stages share, and what each of them has at hand.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use flyball_conn::{RequestLog, SpareBuffers};
use flyball_http::{CloseReason, Now};
use flyball_observe::counters::Counter;
use flyball_observe::histogram::Timing;
use flyball_observe::standing::StateChanges;
use flyball_sys::readiness::Interest;
use flyball_sys::wake::Wake;

use super::connection::{Line, Reached};
use super::poll::{PollStage, Poller};
use super::queue::Queue;
use crate::accept::Room;
use crate::desk::Desk;
use crate::kernel::net;
use crate::transmit::{cut_off, take_leave};
use crate::worker::{Order, Worker};

/// How late a thread publishes what it counted when it never rests, in milliseconds.
const PUBLISH_MS: u64 = 500;

/// The stages, as every thread of them sees them.
pub(crate) struct Pipeline {
    /// The number of the worker.
    pub(crate) worker: usize,
    pub(crate) partitions: Vec<Partition>,
    /// Where connections wait for input.
    pub(crate) read_poll: PollStage,
    /// Where connections wait for room in their sockets.
    pub(crate) write_poll: PollStage,
    /// Wake the acceptors, one per partition.
    pub(crate) acceptors: Vec<Wake>,
    /// Acceptors that wait for room.
    pub(crate) paused: AtomicUsize,
    /// That accepting is paused was said.
    pub(crate) warned: AtomicBool,
    /// The drain deadline, once there is one.
    pub(crate) drain_until_ms: AtomicU64,
    /// Wakes the worker's main thread: the last connection has closed, or a thread has ended.
    pub(crate) changed: Wake,
    /// Threads that have not ended.
    pub(crate) running: AtomicUsize,
    connections_max: usize,
    open: AtomicUsize,
    order: Reached,
    ending: AtomicBool,
}

/// The queues of one partition.
pub(crate) struct Partition {
    pub(crate) read: Queue<Line>,
    pub(crate) write: Queue<Line>,
    /// Read takes buffers from here, and Write gives them back.
    pub(crate) spare: Arc<SpareBuffers>,
}

impl Pipeline {
    /// The stages of a worker, empty, and what the threads of the two poll stages need.
    ///
    /// # Errors
    /// When the kernel refuses the event mechanism.
    pub(crate) fn new(
        worker: &Worker,
        partitions: usize,
        now_ms: u64,
    ) -> io::Result<(Pipeline, [Poller; 2])> {
        let mechanism = worker.settings.events.name();
        let (read_poll, read_poller) = PollStage::new(0, mechanism, now_ms)?;
        let (write_poll, write_poller) = PollStage::new(1, mechanism, now_ms)?;
        let acceptors: io::Result<Vec<Wake>> = (0..partitions).map(|_| Wake::new()).collect();
        let partition = |_| Partition {
            read: Queue::new(),
            write: Queue::new(),
            spare: Arc::new(SpareBuffers::default()),
        };
        let pipeline = Pipeline {
            worker: worker.index,
            partitions: (0..partitions).map(partition).collect(),
            read_poll,
            write_poll,
            acceptors: acceptors?,
            paused: AtomicUsize::new(0),
            warned: AtomicBool::new(false),
            drain_until_ms: AtomicU64::new(u64::MAX),
            changed: Wake::new()?,
            running: AtomicUsize::new(0),
            connections_max: worker.connections_max,
            open: AtomicUsize::new(0),
            order: Reached::default(),
            ending: AtomicBool::new(false),
        };
        Ok((pipeline, [read_poller, write_poller]))
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(SeqCst)
    }

    /// The last order that the worker was given.
    pub(crate) fn order(&self) -> Option<Order> {
        self.order.order()
    }

    /// Lets every thread see an order: connections that wait learn it from the poll stages.
    pub(crate) fn give(&self, order: Order) {
        self.order.set(order);
        self.acceptors.iter().for_each(Wake::notify);
        self.read_poll.wake();
        self.write_poll.wake();
    }

    /// True when every thread shall end, whatever is still open.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(SeqCst)
    }

    /// Ends every thread.
    pub(crate) fn end(&self) {
        self.ending.store(true, SeqCst);
        for partition in &self.partitions {
            partition.read.close();
            partition.write.close();
        }
        self.acceptors.iter().for_each(Wake::notify);
        self.read_poll.wake();
        self.write_poll.wake();
    }
}

impl Pipeline {
    /// The process ends: so do the connections that no thread has, in the way that tells their
    /// clients whether an answer is whole.
    pub(crate) fn cut_off(&self, log: &mut RequestLog, now: &Now) {
        self.read_poll.cut_off(log, now);
        self.write_poll.cut_off(log, now);
        let queues = self.partitions.iter().flat_map(|one| [&one.read, &one.write]);
        for queue in queues {
            while let Some(mut line) = queue.take_now() {
                cut_off(&line.socket, &mut line.connection, (log, now));
            }
        }
    }
}

/// `connections.max`, whichever acceptor takes the place.
impl Room for Pipeline {
    fn enter(&self) -> bool {
        let more = |open| (open < self.connections_max).then_some(open + 1);
        self.open.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    fn leave(&self) {
        self.open.fetch_sub(1, SeqCst);
    }
}

impl Pipeline {
    /// A connection is closed: acceptors that wait for room look again.
    fn closed(&self) {
        let was_last = self.open.fetch_sub(1, SeqCst) == 1;
        if self.paused.load(SeqCst) > 0 {
            self.acceptors.iter().for_each(Wake::notify);
        }
        if was_last && self.order().is_some() {
            self.changed.notify();
        }
    }
}

/// One thread of one stage.
pub(crate) struct Thread {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) desk: Desk,
    changes: StateChanges,
    published_ms: u64,
}

impl Thread {
    pub(crate) fn new(pipeline: &Arc<Pipeline>, desk: Desk) -> Thread {
        pipeline.running.fetch_add(1, SeqCst);
        let pipeline = Arc::clone(pipeline);
        Thread { pipeline, desk, changes: StateChanges::default(), published_ms: 0 }
    }

    /// The next connection of a queue of this thread's stage; sleeps until there is one. `None`
    /// when the thread shall end.
    pub(crate) fn next(
        &mut self,
        queue: impl Fn(&Partition) -> &Queue<Line>,
        partition: usize,
    ) -> Option<Line> {
        let pipeline = Arc::clone(&self.pipeline);
        let queue = queue(&pipeline.partitions[partition]);
        // What is left at the end is cut off in its own way.
        let line = if pipeline.is_ending() { None } else { queue.take_now() };
        if let Some(line) = line {
            self.desk.begin_turn();
            if self.desk.now.ms() >= self.published_ms + PUBLISH_MS {
                self.publish();
            }
            return Some(line);
        }
        // Others may sleep long: nothing stays with them.
        self.desk.service.rest();
        self.desk.log.lines.flush();
        self.publish();
        let line = queue.take();
        self.desk.begin_turn();
        line
    }

    /// The turn of a connection in this stage is over.
    pub(crate) fn turned(&mut self, stage: Timing) {
        let took_ns = self.desk.end_turn();
        self.desk.time(stage, took_ns);
    }

    /// Hands a connection to the Read stage of its partition.
    pub(crate) fn queue_for_read(&mut self, mut line: Line) {
        line.count(&mut self.changes);
        let before = self.pipeline.partitions[line.partition].read.push(line);
        self.count_handover(before);
    }

    /// Hands a connection to the Write stage of its partition.
    pub(crate) fn queue_for_write(&mut self, mut line: Line) {
        line.count(&mut self.changes);
        let before = self.pipeline.partitions[line.partition].write.push(line);
        self.count_handover(before);
    }

    fn count_handover(&mut self, before: usize) {
        self.desk.tally.add(Counter::Handovers, 1);
        self.desk.tally.add(Counter::QueuedBefore, before as u64);
    }

    /// Lets a connection wait for input.
    pub(crate) fn await_input(&mut self, mut line: Line) {
        line.connection.rest(&mut self.desk);
        line.count(&mut self.changes);
        if let Some(mut untold) = self.pipeline.read_poll.park(line, Interest::READ) {
            // A request that has arrived is read before the order is passed on.
            untold.ready.read = true;
            self.queue_for_read(untold);
        }
    }

    /// Lets a connection wait for its deadline.
    pub(crate) fn await_deadline(&mut self, mut line: Line) {
        line.connection.rest(&mut self.desk);
        line.count(&mut self.changes);
        if let Some(untold) = self.pipeline.write_poll.park(line, Interest::NONE) {
            self.queue_for_write(untold);
        }
    }

    /// Whether a connection whose socket is full waits in a poll stage: else it blocks in sending.
    pub(crate) fn may_await_room(&self, line: &Line) -> bool {
        !self.desk.settings.send_blocking || line.connection.is_relayed()
    }

    /// Lets a connection wait for room in its socket, or for input as well, and for its backend.
    pub(crate) fn await_room(&mut self, mut line: Line, interest: Interest) {
        line.count(&mut self.changes);
        if let Some(mut untold) = self.pipeline.write_poll.park(line, interest) {
            untold.awaited = None;
            self.queue_for_write(untold);
        }
    }

    /// Lets a connection wait for its backend, and for its client or that it leaves. It comes back
    /// when there was an order that it had not been told.
    pub(crate) fn await_backend(&mut self, mut line: Line, interest: Interest) -> Option<Line> {
        line.connection.rest(&mut self.desk);
        line.count(&mut self.changes);
        let mut untold = self.pipeline.read_poll.park(line, interest)?;
        untold.awaited = None;
        let order = self.pipeline.order();
        untold.tell(order);
        Some(untold)
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, mut line: Line, reason: CloseReason) {
        line.count_out(&mut self.changes);
        let Line { socket, mut connection, .. } = line;
        take_leave(&socket, &mut connection);
        connection.end(&mut self.desk, reason, || net::untaken(&socket));
        drop(socket);
        self.pipeline.closed();
    }

    /// Publishes what was counted.
    pub(crate) fn publish(&mut self) {
        self.published_ms = self.desk.now.ms();
        self.desk.publish();
        self.desk.publish_state_changes(&self.changes);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.publish();
        self.pipeline.running.fetch_sub(1, SeqCst);
        self.pipeline.changed.notify();
    }
}
