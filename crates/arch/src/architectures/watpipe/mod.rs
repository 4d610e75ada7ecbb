//! `watpipe`: a pipeline of five stages, each with threads of its own.
//!
//! **Paper**: A. Harji, P. Buhr, T. Brecht: Comparing High-Performance Multi-core Web-Server
//! Architectures, SYSTOR 2012 (WatPipe, section 4; its sendfile modes, section 5).
//!
//! **Idea**: A connection goes from Accept to ReadPoll, Read, WritePoll and Write; queues stand
//! between them. Read and Write are partitioned: queues, threads and CPU of a partition are its
//! own, and a connection stays in its partition. Two threads poll, whatever the number of CPUs.
//!
//! **Differs from the paper**:
//! * A partition is a listening socket of its own on the same port (SO_REUSEPORT) instead of a
//!   subnet; its acceptor takes up to the accept-limit at once, and floats like the pollers.
//! * A new connection skips ReadPoll unless `accept.eager-read` is off, and an answer is sent
//!   before WritePoll is asked.
//! * Lookups that may wait on the disk are made by Write's threads, as its sendfile is: a slow disk
//!   delays nobody else as long as a partition has writers left. Each writer that waits serves
//!   nobody; in the paper too.
//! * With epoll the threads of other stages arm a connection themselves for one event, whether
//!   edge-triggered or not, so that no poll thread is woken to watch.
//! * Deadlines are looked at where connections wait, in the two poll stages and in blocking writes;
//!   one that is in a queue or with a thread is under work.
//! * Blocking writes are bounded by the send time-out that sockets inherit: the writer then looks
//!   at the deadlines, and at whether input that it must not delay is wanted.
//!
//! **Reads with**: section 4, the WatPipe paragraphs: [`accept`], [`poll`], [`read`], [`write`];
//! blocking and non-blocking sendfile of section 5: [`send`].
//!
//! **Settings**: `watpipe.partitions`, `watpipe.readers`, `watpipe.writers`, `workers`, `pin`,
//! `events`, `accept.limit`, `accept.eager-read`, `send.blocking`, `send.mode`, `send.piece`,
//! `experiment.cork`, `experiment.entry-locks`.
//!
//! **Kernel needs**: the chosen event mechanism, SO_REUSEPORT.

pub(crate) mod stages;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use flyball_observe::histogram::Timing;
use flyball_sys::readiness::Interest;

use self::stages::{
    Acceptor, Found, Line, Pipeline, PollStage, Poller, ReadPort, Thread, WritePort, conduct, spawn,
};
use crate::architecture::{Architecture, Auto, Sockets};
use crate::drive::{Port, Turn, drive, resume};
use crate::kernel::clock;
use crate::settings::Settings;
use crate::share::cpu_of_worker;
use crate::worker::{Order, Report, Worker};

/// Threads that poll: ReadPoll's and WritePoll's.
const POLLERS: usize = 2;

/// A pipeline of stages.
#[derive(Debug)]
pub struct WatPipe;

impl Architecture for WatPipe {
    fn name(&self) -> &'static str {
        "watpipe"
    }

    fn about(&self) -> &'static str {
        "a pipeline of five stages with threads of their own"
    }

    fn paper(&self) -> &'static str {
        "Harji et al., SYSTOR 2012"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[&[
            "watpipe.partitions",
            "watpipe.readers",
            "watpipe.writers",
            "workers",
            "pin",
            "events",
            "accept.limit",
            "accept.eager-read",
            "send.blocking",
            "send.mode",
            "send.piece",
            "experiment.cork",
            "experiment.entry-locks",
        ]]
    }

    fn needs(&self) -> &'static str {
        "the chosen event mechanism, SO_REUSEPORT"
    }

    fn auto(&self, settings: &Settings) -> Option<Auto> {
        let is_auto = settings.stages.partitions.is_none();
        is_auto.then(|| Auto::ByCpus("watpipe.partitions", partitions(settings)))
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn sockets_per_worker(&self, settings: &Settings) -> usize {
        partitions(settings)
    }

    /// Its sockets inherit the time-outs that bound blocking writes.
    fn is_blocking(&self) -> bool {
        true
    }

    fn listener_blocks(&self) -> bool {
        false
    }

    fn pins_workers(&self) -> bool {
        false
    }

    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or(1)
    }

    fn threads(&self, settings: &Settings) -> usize {
        let of_partition = 1 + settings.stages.readers + settings.stages.writers;
        POLLERS + partitions(settings) * of_partition
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        worker.make_room_for_descriptors();
        let (pipeline, pollers) =
            Pipeline::new(&worker, partitions(&worker.settings), clock::monotonic_ms())?;
        let pipeline = Arc::new(pipeline);
        conduct(&worker, &pipeline, || start(&worker, &pipeline, pollers))
    }
}

fn partitions(settings: &Settings) -> usize {
    settings.stages.partitions.unwrap_or_else(|| settings.cpus())
}

/// Starts every thread; gives those of the acceptors.
fn start(
    worker: &Worker,
    pipeline: &Arc<Pipeline>,
    [read_poller, write_poller]: [Poller; POLLERS],
) -> io::Result<Vec<JoinHandle<()>>> {
    let settings = &worker.settings;
    let caches = worker.shared_caches();
    let mut block = 0;
    let mut thread = || {
        let desk = worker.desk_with(worker.service_sharing(&caches), block);
        block += 1;
        Thread::new(pipeline, desk)
    };
    let member = thread();
    spawn("read-poll", None, move || poll(member, read_poller, |all| &all.read_poll))?;
    let member = thread();
    spawn("write-poll", None, move || poll(member, write_poller, |all| &all.write_poll))?;
    let partitions = pipeline.partitions.len();
    let mut acceptors = Vec::new();
    for (number, partition) in pipeline.partitions.iter().enumerate() {
        let pin = cpu_of_worker(settings, worker.index * partitions + number);
        let mut member = || {
            let mut member = thread();
            member.desk.share_buffers(&partition.spare);
            member
        };
        for at in 0..settings.stages.readers {
            let member = member();
            spawn(&format!("read-{number}-{at}"), pin, move || read_stage(member, number))?;
        }
        for at in 0..settings.stages.writers {
            let member = member();
            spawn(&format!("write-{number}-{at}"), pin, move || write_stage(member, number))?;
        }
        acceptors.push((member(), Acceptor::new(pipeline, number, worker)?));
    }
    // The last: nothing is accepted before all stages stand.
    let spawn_acceptor = |(number, (member, acceptor))| {
        spawn(&format!("accept-{number}"), None, move || accept(member, acceptor, number))
    };
    acceptors.into_iter().enumerate().map(spawn_acceptor).collect()
}

/// The Accept stage of a partition: connections go to ReadPoll, or straight to Read, in which case
/// their first bytes are expected to be there.
fn accept(mut thread: Thread, mut acceptor: Acceptor, partition: usize) -> io::Result<()> {
    let eager = thread.desk.settings.eager_read;
    let take = |thread: &mut Thread, socket, peer| {
        let mut line = Line::new(socket, peer, partition, &thread.desk);
        line.ready.read = eager;
        match eager {
            true => thread.queue_for_read(line),
            false => thread.await_input(line),
        }
    };
    while acceptor.turn(&mut thread, take)? {}
    Ok(())
}

/// A poll stage, ReadPoll or WritePoll: hands on those that have input or room.
fn poll(
    mut thread: Thread,
    mut poller: Poller,
    own: fn(&Pipeline) -> &PollStage,
) -> io::Result<()> {
    let pipeline = Arc::clone(&thread.pipeline);
    let stage = own(&pipeline);
    let mut found = Vec::new();
    while !pipeline.is_ending() {
        poller.wait(stage, thread.desk.now.ms())?;
        thread.desk.woke();
        poller.take_out(stage, thread.desk.asked_ms(), pipeline.order(), &mut found);
        found.drain(..).for_each(|(line, why)| hand_on(&mut thread, line, why));
        thread.publish();
        thread.desk.end_turn();
    }
    Ok(())
}

/// A connection leaves a poll stage.
pub(crate) fn hand_on(thread: &mut Thread, mut line: Line, why: Found) {
    match why {
        Found::Ready { read, write } => {
            line.ready.read |= read;
            match write {
                true => thread.queue_for_write(line),
                false => thread.queue_for_read(line),
            }
        }
        // The Read stage keeps the time.
        Found::Expired => thread.queue_for_read(line),
        // A request that has arrived is read before the order is passed on.
        Found::Ordered if !line.connection.has_output() => {
            line.ready.read = true;
            thread.queue_for_read(line);
        }
        Found::Ordered => thread.queue_for_write(line),
        Found::MakeRoom => {
            line.connection.make_room();
            thread.queue_for_read(line);
        }
    }
}

/// A thread of a partition's Read stage.
fn read_stage(mut thread: Thread, partition: usize) -> io::Result<()> {
    while let Some(line) = thread.next(|own| &own.read, partition) {
        read(&mut thread, line);
        thread.turned(Timing::Read);
    }
    Ok(())
}

/// Receives, parses and looks up, until there is something to write or nothing more to read.
pub(crate) fn read(thread: &mut Thread, mut line: Line) {
    let order = thread.pipeline.order();
    if order == Some(Order::Retire) {
        line.tell(order);
    }
    loop {
        let Line { socket, connection, ready, link, plan, .. } = &mut line;
        let read_poll = &thread.pipeline.read_poll;
        let mut port = ReadPort { socket, ready, link, plan, read_poll };
        let turn = drive(&mut port, connection, &mut thread.desk);
        match turn {
            Turn::Over(reason) => return thread.close(line, reason),
            Turn::Wait(interest, Some(awaited)) => {
                line.awaited = Some(Box::new(awaited));
                match thread.await_backend(line, interest) {
                    Some(back) => line = back,
                    None => return,
                }
            }
            _ if line.plan.is_some() => return thread.queue_for_write(line),
            Turn::Wait(interest, _) if interest.write => return thread.queue_for_write(line),
            Turn::Again if line.connection.has_output() => {
                return thread.queue_for_write(line);
            }
            Turn::Again | Turn::Elsewhere => return thread.queue_for_read(line),
            // Not before: a request that had arrived is under way.
            Turn::Wait(Interest::READ, _) if line.tell(order) => {}
            Turn::Wait(Interest::READ, _) => return thread.await_input(line),
            Turn::Wait(..) => return thread.await_deadline(line),
        }
    }
}

/// A thread of a partition's Write stage.
fn write_stage(mut thread: Thread, partition: usize) -> io::Result<()> {
    while let Some(line) = thread.next(|own| &own.write, partition) {
        write(&mut thread, line);
        thread.turned(Timing::Write);
    }
    Ok(())
}

/// Does what may wait on the disk, and sends, until there is something to read or no more room.
pub(crate) fn write(thread: &mut Thread, mut line: Line) {
    let pipeline = Arc::clone(&thread.pipeline);
    loop {
        line.tell(pipeline.order());
        let plan = line.plan.take();
        let Line { socket, connection, ready, link, told, partition, .. } = &mut line;
        let others = &pipeline.partitions[*partition].write;
        let mut port = WritePort { socket, ready, link, told, pipeline: &pipeline, others };
        let turn = match plan.and_then(|plan| port.perform(plan, connection, &mut thread.desk)) {
            Some(done) => resume(&mut port, connection, done, &mut thread.desk),
            None => drive(&mut port, connection, &mut thread.desk),
        };
        let readable = line.ready.read;
        match turn {
            Turn::Over(reason) => return thread.close(line, reason),
            Turn::Again if others.is_empty() => thread.desk.tick(),
            Turn::Again => return thread.queue_for_write(line),
            Turn::Elsewhere => return thread.queue_for_read(line),
            Turn::Wait(interest, _) if interest.read && readable => {
                return thread.queue_for_read(line);
            }
            // Whoever sends what this thread does not take may not read what it sends.
            Turn::Wait(interest, awaited) if interest.write => {
                if interest.read || thread.may_await_room(&line) {
                    line.awaited = awaited.map(Box::new);
                    return thread.await_room(line, interest);
                }
            }
            // The Read stage asks a backend.
            Turn::Wait(_, Some(_)) => return thread.queue_for_read(line),
            Turn::Wait(Interest::READ, None) => return thread.await_input(line),
            Turn::Wait(..) => return thread.await_deadline(line),
        }
    }
}
