//! Architectures on the world below this thread: one for each way to wait.

use std::sync::Arc;

use flyball_tls::Config;

use super::disk::Helpers;
use super::random::Random;
use super::site::{settings, worker};
use super::world::with;
use crate::architecture::Architecture;
use crate::architectures::tux::Tux;
use crate::architectures::uring::Uring;
use crate::architectures::watpipe;
use crate::architectures::watpipe::stages::{Line, Pipeline, PollStage, Poller, Thread as Stage};
use crate::blocking::{Crew, Thread};
use crate::kernel::net;
use crate::phases::Phases;
use crate::settings::{Events, Settings};
use crate::worker::Worker;

/// How a server waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A loop that is told while a socket is ready, and does the disk's work itself.
    Level,
    /// One that is told when something came.
    Edge,
    /// Loops with helpers for the disk.
    LevelWithHelpers,
    EdgeWithHelpers,
    /// Stages that arm a socket to be told once.
    Once,
    /// Completions of a ring.
    Ring,
    /// Callbacks of a ring, and a queue of work.
    Callbacks,
    /// A thread that blocks, and looks at the time with each tick.
    Blocking,
}

impl Way {
    pub(super) const ALL: [Way; 8] = [
        Way::Level,
        Way::Edge,
        Way::LevelWithHelpers,
        Way::EdgeWithHelpers,
        Way::Once,
        Way::Ring,
        Way::Callbacks,
        Way::Blocking,
    ];

    /// Whether its plans are performed elsewhere.
    pub(super) fn has_helpers(self) -> bool {
        matches!(self, Way::LevelWithHelpers | Way::EdgeWithHelpers)
    }

    /// Whether it is told what is ready: neither by a tick nor by what is complete.
    pub(super) fn is_woken(self) -> bool {
        !matches!(self, Way::Ring | Way::Blocking)
    }

    /// Whether it watches links to servers that are at rest.
    pub(super) fn watches_links(self) -> bool {
        self != Way::Blocking
    }

    /// Whether it can be told to end here.
    pub(super) fn ends(self) -> bool {
        !matches!(self, Way::Once | Way::Blocking)
    }

    fn events(self) -> Events {
        match self {
            Way::Edge | Way::EdgeWithHelpers => Events::EpollEdge,
            _ => Events::Epoll,
        }
    }

    /// Serves until every client has left.
    pub(super) fn serve(self, random: &mut Random, fair: bool, tls: Option<Config>) {
        let settings = settings(random, self.events(), fair);
        let threads = if self == Way::Once { 3 } else { 1 };
        let worker = listening(settings, threads, tls);
        match self {
            Way::Level | Way::Edge => loops(worker, false),
            Way::LevelWithHelpers | Way::EdgeWithHelpers => loops(worker, true),
            Way::Once => stages(&worker, random),
            Way::Ring => runs(&Uring, worker),
            Way::Callbacks => runs(&Tux, worker),
            Way::Blocking => blocks(&worker),
        }
        // What was sent is taken also when the server has ended.
        with(|world| while world.act(true) {});
    }
}

/// A worker that listens in the world.
fn listening(settings: Settings, threads: usize, tls: Option<Config>) -> Worker {
    let (worker, listener) = worker(settings, threads, tls);
    with(|world| world.set_listener(&listener));
    worker
}

fn is_over() -> bool {
    with(|world| {
        world.has_ended = world.is_over() && world.disk.is_idle();
        world.has_ended
    })
    .unwrap_or(true)
}

/// Time passes while a server has nothing to do but to wait for so long.
fn pass(ms: u64) {
    with(|world| {
        let until_ms = world.now_ms() + ms;
        world.pass(until_ms);
    });
}

fn loops(worker: Worker, with_helpers: bool) {
    let mut process = Phases::new(worker, Box::new(Helpers::new(with_helpers))).expect("a loop");
    while !is_over() && !process.is_done() {
        process.getevents().expect("a wait");
        process.accept();
        process.work();
    }
    assert_eq!(process.report().unfinished, 0);
}

/// An architecture as it is; it is told to stop in the end.
fn runs(architecture: &dyn Architecture, worker: Worker) {
    with(|world| world.stops = true);
    let report = architecture.run(worker).expect("it runs");
    assert_eq!(report.unfinished, 0);
}

fn blocks(worker: &Worker) {
    let crew = Crew::new(worker).expect("a crew");
    let mut thread = Thread::new(&crew, worker.desk());
    while !is_over() {
        match net::accept(&worker.listeners[0], false) {
            Ok((socket, peer)) => thread.serve(&socket, worker.listeners[0].peer(peer, None)),
            Err(_) => pass(crate::worker::BLOCKING_TICK_MS),
        }
    }
}

/// The stages of one partition, each a turn at a time and in any order.
fn stages(worker: &Worker, random: &mut Random) {
    let eager = worker.settings.eager_read;
    with(|world| world.is_shared = true);
    let now_ms = crate::kernel::clock::monotonic_ms();
    let (pipeline, [read_poller, write_poller]) =
        Pipeline::new(worker, 1, now_ms).expect("a pipeline");
    let pipeline = Arc::new(pipeline);
    let caches = worker.shared_caches();
    let stage = |block| {
        let mut desk = worker.desk_with(worker.service_sharing(&caches), block);
        desk.share_buffers(&pipeline.partitions[0].spare);
        Stage::new(&pipeline, desk)
    };
    let (mut reader, mut writer, mut poller) = (stage(0), stage(1), stage(2));
    let mut pollers = [(read_poller, &pipeline.read_poll), (write_poller, &pipeline.write_poll)];
    while !is_over() {
        let partition = &pipeline.partitions[0];
        let is_idle = partition.read.is_empty() && partition.write.is_empty();
        match random.below(5) {
            0 => {
                if let Ok((socket, peer)) = net::accept(&worker.listeners[0], true) {
                    let peer = worker.listeners[0].peer(peer, None);
                    let mut line = Line::new(socket, peer, 0, &poller.desk);
                    line.ready.read = eager;
                    match eager {
                        true => poller.queue_for_read(line),
                        false => poller.await_input(line),
                    }
                }
            }
            1 if !partition.read.is_empty() => {
                if let Some(line) = reader.next(|own| &own.read, 0) {
                    watpipe::read(&mut reader, line);
                }
            }
            2 if !partition.write.is_empty() => {
                if let Some(line) = writer.next(|own| &own.write, 0) {
                    watpipe::write(&mut writer, line);
                }
            }
            3 => {
                let (one, stage) = &mut pollers[random.below(2)];
                let was_found = poll(&mut poller, one, stage);
                if is_idle && !was_found {
                    pass_idle(&mut poller, &mut pollers);
                }
            }
            _ => {}
        }
    }
}

/// A turn of a poll stage; true when it found something.
fn poll(thread: &mut Stage, poller: &mut Poller, stage: &PollStage) -> bool {
    let mut found = Vec::new();
    poller.wait(stage, thread.desk.now.ms()).expect("a wait");
    thread.desk.woke();
    poller.take_out(stage, thread.desk.asked_ms(), None, &mut found);
    let is_any = !found.is_empty();
    found.drain(..).for_each(|(line, why)| watpipe::hand_on(thread, line, why));
    thread.desk.end_turn();
    is_any
}

/// No stage has anything to do, as far as one look at each tells: time passes.
fn pass_idle(thread: &mut Stage, pollers: &mut [(Poller, &PollStage); 2]) {
    let is_any = pollers.iter_mut().any(|(poller, stage)| poll(thread, poller, stage));
    let is_queued = with(|world| world.queued() > 0) == Some(true);
    if !is_any && !is_queued {
        pass(crate::limits::WAIT_MS_MAX);
    }
}
