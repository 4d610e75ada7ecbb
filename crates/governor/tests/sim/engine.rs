//! Clients and the kernel's queues, event by event.

use std::collections::VecDeque;

use fastrand::Rng;
use flyball_governor::{Age, Gate, Loop, Move, Ns, Orders, Turn};

use crate::clients::{MS, S, again_after, exponential};
use crate::cpu::{Agenda, Cpu, Task};
use crate::policy::Policy;
use crate::report::{Report, count};
use crate::workload::{Family, Sockets, Workload};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A client may come.
    Arrival,
    /// The bursts of the load begin or end.
    Burst,
    /// A SYN, or data that is deferred, comes.
    Syn(u32),
    /// A client's patience is over with a request.
    Patience(u32, u32),
    /// A client tries again.
    Again(u32),
    /// A client sends its next request.
    Request(u32),
    /// The processors are done with something, unless that was foreseen before a change.
    Cpu(u32),
    /// A disk arm is done for a helper.
    Disk(usize),
    /// The processors' capacity changes.
    Capacity,
}

/// What a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cached,
    Work,
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conn {
    client: u64,
    pub(crate) kind: Kind,
    pub(crate) service: Ns,
    /// When it was established, or the request sent on it.
    pub(crate) ready: Ns,
    pub(crate) tries: u8,
    attempt: u8,
    pub(crate) left: u32,
    serial: u32,
    pub(crate) gone: bool,
    pub(crate) half: bool,
    answered: bool,
    pub(crate) queue: u16,
}

/// An accept queue of the kernel.
#[derive(Debug, Default)]
pub(crate) struct AcceptQueue {
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) limit: u32,
    pub(crate) drops: u32,
}

/// An event loop, or what accepts for threads.
#[derive(Debug)]
pub(crate) struct Looped {
    pub(crate) governor: Loop,
    pub(crate) orders: Orders,
    pub(crate) phase: Phase,
    pub(crate) due: VecDeque<u32>,
    /// How many of those that are due belong to this turn.
    pub(crate) batch: usize,
    /// What is worked on came too late, and is refused.
    pub(crate) late: bool,
    pub(crate) turn: Turn,
    pub(crate) began: Ns,
    pub(crate) phase_began: Ns,
    pub(crate) starved: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Wait,
    Accept(u32),
    Work(u32),
}

/// A thread that blocks, a long thread or a helper, and what it is at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worker {
    pub(crate) at: Option<u32>,
    pub(crate) since: Ns,
    /// Its connection waits for the client's next request.
    pub(crate) thinks: bool,
}

#[derive(Debug)]
pub(crate) struct Sim<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) policy: &'a Policy,
    pub(crate) now: Ns,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) rng: Rng,
    /// What comes by chance is the same under all policies.
    arrivals: Rng,
    stalls: Rng,
    pub(crate) cpu: Cpu,
    pub(crate) conns: Vec<Conn>,
    pub(crate) queues: Vec<AcceptQueue>,
    pub(crate) loops: Vec<Looped>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) gate: Gate,
    /// What waits at the gate, and since when.
    pub(crate) gated: VecDeque<(u32, Ns)>,
    pub(crate) arms: Vec<Ns>,
    pub(crate) report: Report,
    can: f64,
    came: u64,
    bursting: bool,
    stall: Stall,
    foreseen: Option<(u32, Ns)>,
}

/// Whether the processors stand still by their quota, or are stolen.
#[derive(Clone, Copy, Debug, Default)]
struct Stall {
    stolen_until: Ns,
    stolen_next: Ns,
}

impl<'a> Sim<'a> {
    pub(crate) fn run(workload: &'a Workload, policy: &'a Policy) -> Report {
        let mut sim = Sim::new(workload, policy);
        let end = (workload.seconds * 1e9) as Ns;
        sim.begin();
        while let Some((at, event)) = sim.agenda.next() {
            if at > end {
                break;
            }
            sim.now = at;
            sim.happens(event);
            sim.foresee();
        }
        sim.report.counted_s = workload.seconds - workload.warm;
        sim.report.used = sim.cpu.used / end as f64;
        sim.report
    }

    fn new(workload: &'a Workload, policy: &'a Policy) -> Sim<'a> {
        let loops = workload.loops();
        let sockets = match workload.family {
            Family::Loops(loops, Sockets::Own) => loops,
            _ => 1,
        };
        let workers = match workload.family {
            Family::Threads(threads, _) => threads,
            Family::Beside | Family::Disk(_) => policy.places as usize,
            _ => 0,
        };
        let arms = if let Family::Disk(arms) = workload.family { arms } else { 0 };
        let looped = || Looped {
            governor: Loop::from(0),
            orders: Orders::FREE,
            phase: Phase::Idle,
            due: VecDeque::new(),
            batch: 0,
            late: false,
            turn: Turn::default(),
            began: 0,
            phase_began: 0,
            starved: 0,
        };
        let queue = || AcceptQueue { limit: policy.backlog, ..AcceptQueue::default() };
        Sim {
            workload,
            policy,
            now: 0,
            agenda: Agenda::new(),
            rng: Rng::with_seed(workload.seed),
            arrivals: Rng::with_seed(!workload.seed),
            stalls: Rng::with_seed(workload.seed ^ 0x57a1),
            cpu: Cpu::new(workload.cpus),
            conns: Vec::new(),
            queues: (0..sockets).map(|_| queue()).collect(),
            loops: (0..loops).map(|_| looped()).collect(),
            workers: vec![Worker::default(); workers],
            gate: Gate::with_seed(workload.seed as u32),
            gated: VecDeque::new(),
            arms: vec![0; arms],
            report: Report::default(),
            can: workload.can(),
            came: 0,
            bursting: false,
            stall: Stall::default(),
            foreseen: None,
        }
    }

    fn begin(&mut self) {
        if let crate::clients::Load::Closed(clients, _) = self.workload.load {
            for _ in 0..clients {
                let at = self.rng.u64(..S);
                self.agenda.put(at, Event::Arrival);
            }
        } else {
            self.agenda.put(0, Event::Arrival);
        }
        if let crate::clients::Load::Bursts(..) = self.workload.load {
            self.agenda.put(0, Event::Burst);
        }
        self.agenda.put(0, Event::Capacity);
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival => self.arrival(),
            Event::Burst => {
                self.bursting = !self.bursting;
                if let crate::clients::Load::Bursts(_, _, each) = self.workload.load {
                    let after = exponential(each * 1e9, &mut self.arrivals) as Ns;
                    self.agenda.put(self.now + after, Event::Burst);
                }
            }
            Event::Syn(conn) => self.syn(conn),
            Event::Patience(conn, serial) => self.patience_ends(conn, serial),
            Event::Again(conn) => self.again(conn),
            Event::Request(conn) => self.request(conn),
            Event::Cpu(epoch) => {
                if epoch == self.cpu.epoch {
                    match self.cpu.end(self.now) {
                        Some(Task::Loop(at)) => self.loop_goes_on(at),
                        Some(Task::Thread(at)) => self.thread_ends(at),
                        None => self.foreseen = None,
                    }
                }
            }
            Event::Disk(at) => self.thread_ends(at),
            Event::Capacity => self.capacity_changes(),
        }
    }

    /// Puts the end of the next task onto the agenda, if that has changed.
    fn foresee(&mut self) {
        let Some(at) = self.cpu.next_end() else { return };
        if self.foreseen != Some((self.cpu.epoch, at)) {
            self.foreseen = Some((self.cpu.epoch, at));
            self.agenda.put(at, Event::Cpu(self.cpu.epoch));
        }
    }

    fn arrival(&mut self) {
        let load = &self.workload.load;
        if let crate::clients::Load::Closed(..) = load {
            return self.comes();
        }
        let per_s = self.can / self.workload.clients.requests;
        let most = load.most() * per_s;
        let comes = self.arrivals.f64() * load.most() < load.at(self.now, self.bursting);
        let after = exponential(1e9 / most, &mut self.arrivals) as Ns;
        self.agenda.put(self.now + after, Event::Arrival);
        if comes {
            self.comes();
        }
        let silent = self.workload.clients.silent;
        if silent > 0.0 && self.arrivals.f64() < silent {
            self.connects((Kind::Silent, 0), 0, 0, 0);
        }
    }

    fn comes(&mut self) {
        self.came += 1;
        let requests = self.workload.clients.requests;
        let mut rng = self.fate(self.came, 0);
        // Geometric, with this mean.
        let left = match requests > 1.0 {
            true => exponential(requests - 1.0, &mut rng).round() as u32,
            false => 0,
        };
        self.connects(self.draw(self.came, 1), self.came, left, 0);
    }

    /// What happens to a client by chance, which is the same under all policies.
    fn fate(&self, client: u64, part: u64) -> Rng {
        let seed = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part.wrapping_mul(0xbf58_476d);
        Rng::with_seed(seed ^ self.workload.seed)
    }

    fn draw(&self, client: u64, part: u64) -> (Kind, Ns) {
        let Workload { dynamic, mean, spread, .. } = *self.workload;
        let mut rng = self.fate(client, part);
        if rng.f64() < dynamic {
            (Kind::Work, spread.draw(mean, &mut rng).max(1))
        } else {
            (Kind::Cached, 0)
        }
    }

    fn connects(&mut self, (kind, service): (Kind, Ns), client: u64, left: u32, attempt: u8) {
        let mut rng = self.fate(client, 2);
        let half = rng.f64() < self.workload.clients.half_closers;
        let queue = rng.u16(..self.queues.len() as u16);
        let conn = self.conns.len() as u32;
        self.conns.push(Conn {
            client,
            kind,
            service,
            ready: self.now,
            tries: 0,
            attempt,
            left,
            serial: 0,
            gone: false,
            half,
            answered: false,
            queue,
        });
        if attempt == 0 {
            self.offers(kind);
        }
        self.waits(conn);
        self.syn(conn);
    }

    fn offers(&mut self, kind: Kind) {
        count(&mut self.report.came, self.now);
        if self.is_counted() && kind != Kind::Silent {
            self.report.offered[usize::from(kind == Kind::Work)] += 1;
        }
    }

    fn waits(&mut self, conn: u32) {
        let Conn { kind, serial, .. } = self.conns[conn as usize];
        if kind != Kind::Silent {
            let until = self.now + self.workload.clients.patience;
            self.agenda.put(until, Event::Patience(conn, serial));
        }
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.now as f64 >= self.workload.warm * 1e9
    }

    fn syn(&mut self, conn: u32) {
        let of = &mut self.conns[conn as usize];
        if of.gone || of.kind == Kind::Silent && self.workload.deferred {
            return;
        }
        self.cpu.interrupt(self.workload.costs.syn);
        let at = usize::from(of.queue);
        let queue = &mut self.queues[at];
        // The kernel lets in one more than it was told.
        if queue.waiting.len() > queue.limit as usize {
            queue.drops = queue.drops.wrapping_add(1);
            self.report.drops += u64::from(self.now as f64 >= self.workload.warm * 1e9);
            if let Some(after) = again_after(self.workload.deferred, of.tries) {
                of.tries += 1;
                self.agenda.put(self.now + after, Event::Syn(conn));
            }
            return;
        }
        of.ready = self.now;
        queue.waiting.push_back(conn);
        self.queued(at);
    }

    fn patience_ends(&mut self, conn: u32, serial: u32) {
        let of = &mut self.conns[conn as usize];
        if of.answered || of.gone || of.serial != serial {
            return;
        }
        of.gone = true;
        self.fails(conn, None);
    }

    /// An attempt has failed; the next may begin then, at the earliest.
    fn fails(&mut self, conn: u32, retry_after: Option<Ns>) {
        let clients = &self.workload.clients;
        let Conn { attempt, .. } = self.conns[conn as usize];
        if attempt < clients.retries {
            let backoff = if clients.backs_off { (S / 4) << attempt } else { 0 };
            let jitter = if clients.backs_off { self.rng.u64(..=backoff) } else { 0 };
            let asked = retry_after.filter(|_| clients.honours).unwrap_or(0);
            let after = (backoff / 2 + jitter).max(asked);
            self.agenda.put(self.now + after, Event::Again(conn));
        } else {
            self.leaves();
        }
    }

    /// A client is done; one of a closed loop comes again.
    fn leaves(&mut self) {
        if let crate::clients::Load::Closed(_, thinks_ms) = self.workload.load {
            let after = exponential(thinks_ms * MS as f64, &mut self.rng) as Ns;
            self.agenda.put(self.now + after, Event::Arrival);
        }
    }

    fn again(&mut self, conn: u32) {
        let Conn { client, kind, service, left, attempt, .. } = self.conns[conn as usize];
        self.connects((kind, service), client, left, attempt + 1);
    }

    /// The client's next request on a connection.
    fn request(&mut self, conn: u32) {
        let Conn { client, left, .. } = self.conns[conn as usize];
        let (kind, service) = self.draw(client, 3 + u64::from(left));
        let now = self.now;
        let of = &mut self.conns[conn as usize];
        (of.kind, of.service, of.ready) = (kind, service, now);
        (of.answered, of.attempt, of.tries) = (false, 0, 0);
        of.serial += 1;
        self.offers(kind);
        self.waits(conn);
        self.readable(conn);
    }

    /// A connection's request is answered; whether its connection ends.
    pub(crate) fn answers(&mut self, conn: u32) -> bool {
        let of = &mut self.conns[conn as usize];
        let Conn { kind, ready, tries, .. } = *of;
        if of.gone {
            self.report.wasted += 1;
            return true;
        }
        of.answered = true;
        let work = usize::from(kind == Kind::Work);
        count(&mut self.report.by_second, self.now);
        if self.is_counted() {
            self.report.good[work] += 1;
            if tries == 0 {
                self.report.latencies[work].push(((self.now - ready) / 1_000) as u32);
            }
        }
        self.next_request(conn)
    }

    /// Whether a connection ends after an answer.
    fn next_request(&mut self, conn: u32) -> bool {
        let Conn { client, left, .. } = self.conns[conn as usize];
        let of = &mut self.conns[conn as usize];
        if of.left == 0 || of.half {
            self.leaves();
            return true;
        }
        of.left -= 1;
        let mut rng = self.fate(client, !u64::from(left));
        let after = exponential(self.workload.clients.thinks as f64, &mut rng) as Ns;
        self.agenda.put(self.now + after, Event::Request(conn));
        false
    }

    /// A request is answered with 503, or its connection reset.
    pub(crate) fn refuses(&mut self, conn: u32, retry_after_s: Option<u32>) {
        let of = &mut self.conns[conn as usize];
        match retry_after_s {
            Some(_) => self.report.refused += 1,
            None => self.report.cut += 1,
        }
        if !of.gone {
            (of.answered, of.left) = (true, 0);
            self.fails(conn, retry_after_s.map(|s| Ns::from(s) * S));
        }
    }

    /// A connection is closed unread.
    pub(crate) fn discards(&mut self, conn: u32) {
        let of = &mut self.conns[conn as usize];
        self.report.discarded += 1;
        if !of.gone {
            self.report.discarded_alive += 1;
            of.answered = true;
            self.fails(conn, None);
        }
    }

    pub(crate) fn age(&self, conn: u32) -> Age {
        let Conn { ready, gone, half, .. } = self.conns[conn as usize];
        // The kernel's clock of ages has steps of 4 ms.
        let age = (self.now - ready) / (4 * MS) * (4 * MS);
        Age { queued: age, silent: age, half_closed: gone || half }
    }

    pub(crate) fn noted(&mut self, moves: Vec<(Ns, Move)>) {
        self.report.moves.extend(moves);
    }

    /// The capacity now, by steps, quota and steal; and when it changes next.
    fn capacity_changes(&mut self) {
        let machine = &self.workload.machine;
        let s = self.now as f64 / 1e9;
        let step = machine.steps.iter().rev().find(|(from, _)| *from <= s);
        let mut capacity = step.map_or(self.workload.cpus, |(_, cpus)| *cpus);
        let mut next = machine.steps.iter().map(|(from, _)| (from * 1e9) as Ns);
        let mut then = next.find(|at| *at > self.now).unwrap_or(Ns::MAX);
        if let Some((period, runs)) = machine.quota {
            let into = self.now % period;
            if into >= runs {
                capacity = 0.0;
            }
            then = then.min(self.now - into + if into < runs { runs } else { period });
        }
        if let Some((on, off)) = machine.steal {
            if self.now >= self.stall.stolen_next {
                let lasts = exponential(on as f64, &mut self.stalls) as Ns + 1;
                self.stall.stolen_until = self.now + lasts;
                let apart = exponential(off as f64, &mut self.stalls) as Ns + 1;
                self.stall.stolen_next = self.stall.stolen_until + apart;
            }
            if self.now < self.stall.stolen_until {
                capacity = 0.0;
                then = then.min(self.stall.stolen_until);
            }
            then = then.min(self.stall.stolen_next);
        }
        self.cpu.set_capacity(self.now, capacity);
        if then < Ns::MAX {
            self.agenda.put(then, Event::Capacity);
        }
    }
}
