//! The server: loops, threads that block, threads beside a loop, helpers of a disk.

use flyball_governor::{
    Ask, Bounds, Entry, GateBounds, Head, Mode, Move, Next, Notes, Ns, Orders, Queue, Turn,
};

use crate::cpu::Task;
use crate::engine::{Event, Kind, Phase, Sim};
use crate::policy::Layers;
use crate::workload::Family;

/// Keeps moves.
struct Kept(Vec<(Ns, Move)>);

impl Notes for Kept {
    fn note(&mut self, at: Ns, made: Move) {
        self.0.push((at, made));
    }
}

impl Sim<'_> {
    fn is_threads(&self) -> bool {
        matches!(self.workload.family, Family::Threads(..))
    }

    /// Something waits in an accept queue.
    pub(crate) fn queued(&mut self, queue: usize) {
        if self.is_threads() {
            return self.thread_takes();
        }
        if self.queues.len() == self.loops.len() {
            return self.wake(queue);
        }
        // One that is idle takes it.
        if let Some(idle) = self.loops.iter().position(|of| of.phase == Phase::Idle) {
            self.wake(idle);
        }
    }

    /// A connection that is open has a request.
    pub(crate) fn readable(&mut self, conn: u32) {
        if self.is_threads() {
            let held = self.workers.iter().position(|of| of.thinks && of.at == Some(conn));
            if let Some(at) = held {
                self.workers[at].thinks = false;
                let work = self.cost(conn, false) + self.workload.costs.switch;
                self.workers[at].since = self.now;
                self.cpu.begin(self.now, Task::Thread(at), work);
            }
            return;
        }
        let at = usize::from(self.conns[conn as usize].queue) % self.loops.len();
        self.loops[at].due.push_back(conn);
        self.wake(at);
    }

    fn wake(&mut self, at: usize) {
        if self.loops[at].phase == Phase::Idle {
            self.begin_turn(at);
        }
    }

    fn queue_of(&self, at: usize) -> usize {
        at % self.queues.len()
    }

    fn begin_turn(&mut self, at: usize) {
        let costs = self.workload.costs;
        let of = &mut self.loops[at];
        of.began = self.now;
        of.turn = Turn::default();
        of.batch = of.due.len();
        of.phase = Phase::Wait;
        // What is ready and was not worked on is told again.
        let told = of.batch.min(512).min(of.orders.work_on as usize);
        let mut cost = costs.wait + costs.event * told as Ns;
        cost += costs.watched * of.due.len() as Ns;
        self.cpu.begin(self.now, Task::Loop(at), cost);
    }

    /// A loop is done with a part of its turn.
    pub(crate) fn loop_goes_on(&mut self, at: usize) {
        match self.loops[at].phase {
            Phase::Idle => {}
            Phase::Wait => {
                self.loops[at].phase_began = self.now;
                self.accepts(at);
            }
            Phase::Accept(n) => {
                self.accepted(at, n);
                let of = &self.loops[at];
                let orders = of.orders;
                let is_over =
                    orders.accept_for.is_some_and(|time| self.now - of.phase_began >= time);
                if is_over { self.begin_work(at) } else { self.accepts(at) }
            }
            Phase::Work(conn) => {
                self.worked(at, conn);
                self.works(at);
            }
        }
    }

    /// Takes the next part of an accept phase, if it has one.
    fn accepts(&mut self, at: usize) {
        let queue = self.queue_of(at);
        let waiting = self.queues[queue].waiting.len();
        let cost = self.workload.costs.accept;
        let of = &mut self.loops[at];
        let governed = self.policy.layers.is_some_and(|layers| layers.phases);
        let allowed = if governed {
            of.orders.accepts(of.batch - of.turn.accepted.min(of.batch as u32) as usize)
        } else {
            self.policy.accept.unwrap_or(u32::MAX)
        };
        let mut n = (allowed.saturating_sub(of.turn.accepted)).min(waiting as u32);
        if let Some(time) = of.orders.accept_for {
            n = n.min((time / cost).max(1) as u32);
        }
        if n == 0 {
            if waiting == 0 && of.turn.accepted == 0 {
                of.turn.head = Head::Empty;
            }
            of.starved = match waiting > 0 && of.turn.accepted == 0 {
                true => of.starved + 1,
                false => 0,
            };
            self.report.starved = self.report.starved.max(of.starved);
            return self.begin_work(at);
        }
        let of = &mut self.loops[at];
        of.starved = 0;
        of.phase = Phase::Accept(n);
        let sample =
            if of.orders.sample && of.turn.accepted == 0 { self.workload.costs.age } else { 0 };
        let head = self.queues[queue].waiting.front().map(|head| self.age(*head));
        let of = &mut self.loops[at];
        let asks = head.is_some_and(|head| of.orders.arrive.asks(head));
        let each = if asks { self.workload.costs.age } else { 0 };
        self.cpu.begin(self.now, Task::Loop(at), sample + (cost + each) * Ns::from(n));
    }

    /// So many were accepted.
    fn accepted(&mut self, at: usize, n: u32) {
        let queue = self.queue_of(at);
        for _ in 0..n {
            let Some(conn) = self.queues[queue].waiting.pop_front() else { break };
            let age = self.age(conn);
            let of = &mut self.loops[at];
            if of.turn.accepted == 0 && of.orders.sample {
                of.turn.head = Head::Accepted(age);
            }
            of.turn.accepted += 1;
            let orders = of.orders;
            if self.conns[conn as usize].kind == Kind::Silent {
                continue;
            }
            if self.is_dropped(conn, &orders) {
                self.loops[at].turn.shed += 1;
                self.cpu.interrupt(self.workload.costs.close);
                self.discards(conn);
                continue;
            }
            let of = &mut self.loops[at];
            of.due.push_back(conn);
            of.batch += 1;
        }
    }

    fn is_dropped(&self, conn: u32, orders: &Orders) -> bool {
        orders.arrive.closes(self.age(conn))
    }

    fn begin_work(&mut self, at: usize) {
        let of = &mut self.loops[at];
        of.turn.accept_took = self.now - of.phase_began;
        of.phase_began = self.now;
        self.works(at);
    }

    /// Takes the next connection of a work phase, or ends the turn.
    fn works(&mut self, at: usize) {
        if self.workload.family == Family::Tux {
            let of = &mut self.loops[at];
            of.batch = of.due.len();
        }
        let of = &mut self.loops[at];
        let worked = of.turn.worked_on;
        let read = worked > 0 && worked.is_multiple_of(of.orders.unread());
        let is_over =
            read && of.orders.work_for.is_some_and(|time| self.now - of.phase_began >= time);
        let is_newest_first = self.workload.family == Family::Tux;
        let next = match of.batch > 0 && !is_over {
            true if is_newest_first => of.due.pop_back(),
            true => of.due.pop_front(),
            false => None,
        };
        let Some(conn) = next else { return self.end_turn(at) };
        of.batch -= 1;
        of.turn.worked_on += 1;
        of.phase = Phase::Work(conn);
        let cost = self.begins(at, conn);
        self.cpu.begin(self.now, Task::Loop(at), cost);
    }

    /// What work on a connection costs the loop; asks for the resource that it needs.
    fn begins(&mut self, at: usize, conn: u32) -> Ns {
        let costs = self.workload.costs;
        let is_work = self.conns[conn as usize].kind == Kind::Work;
        if !is_work {
            let level = self.loops[at].orders.level;
            let coding = if level.number() < 1 { self.workload.coding } else { 0 };
            return self.cost(conn, false) + coding;
        }
        match self.workload.family {
            Family::Beside | Family::Disk(_) => costs.read,
            _ => {
                let orders = self.loops[at].orders;
                self.loops[at].late = self.is_late(conn, &orders);
                if self.loops[at].late { costs.read } else { self.cost(conn, false) }
            }
        }
    }

    /// Whether work comes too late to begin, where nothing else bounds the queue.
    fn is_late(&self, conn: u32, orders: &Orders) -> bool {
        let late = orders.arrive.late_after;
        late.is_some_and(|after| self.age(conn).queued > after)
    }

    fn cost(&self, conn: u32, accepts: bool) -> Ns {
        let costs = self.workload.costs;
        let of = self.conns[conn as usize];
        let inline = !matches!(self.workload.family, Family::Beside | Family::Disk(_));
        let work = if of.kind == Kind::Work && inline { of.service } else { 0 };
        let ends = if of.left == 0 { costs.close } else { 0 };
        let accept = if accepts { costs.accept } else { 0 };
        accept + costs.read + costs.send + ends + work
    }

    /// A loop has worked on a connection.
    fn worked(&mut self, at: usize, conn: u32) {
        let is_work = self.conns[conn as usize].kind == Kind::Work;
        let beside = matches!(self.workload.family, Family::Beside | Family::Disk(_));
        if !is_work || !beside {
            let orders = self.loops[at].orders;
            if is_work && !beside && self.loops[at].late {
                self.loops[at].turn.shed += 1;
                return self.refuse_late(conn, &orders);
            }
            self.answers(conn);
            return;
        }
        let ask = Ask { first: false, queued: self.age(conn).queued };
        let (orders, bounds) = (self.loops[at].orders, self.gate_bounds());
        let mut notes = Kept(Vec::new());
        let entry = self.gate.ask(self.now, ask, &orders, &bounds, &mut notes);
        self.noted(notes.0);
        match entry {
            Entry::Now => self.employs(conn),
            Entry::Wait => self.gated.push_back((conn, self.now)),
            Entry::Refuse { .. } | Entry::Cut { .. } => self.turns_away(conn, entry),
        }
    }

    /// Refuses work that came too late, within the gate's budget.
    fn refuse_late(&mut self, conn: u32, orders: &Orders) {
        let bounds = GateBounds { places: u32::MAX, places_least: u32::MAX, ..self.policy.gate };
        let ask = Ask { first: false, queued: self.age(conn).queued };
        let entry = self.gate.ask(self.now, ask, orders, &bounds, &mut |_: Ns, _: Move| {});
        if let Entry::Now = entry {
            self.gate.ended(0, true, false);
        }
        self.turns_away(conn, entry);
    }

    fn turns_away(&mut self, conn: u32, entry: Entry) {
        let costs = self.workload.costs;
        if let Entry::Refuse { retry_after_s, .. } = entry {
            let cost = costs.send + costs.close;
            self.cpu.interrupt(cost);
            self.gate.refused(cost + costs.read + costs.accept);
            self.refuses(conn, Some(retry_after_s));
        } else {
            self.cpu.interrupt(costs.close);
            self.refuses(conn, None);
        }
    }

    fn gate_bounds(&self) -> GateBounds {
        let places = self.policy.places;
        // Helpers of a disk take no processor.
        let is_disk = matches!(self.workload.family, Family::Disk(_));
        let cpus = (self.workload.cpus as u32).saturating_sub(1).max(1);
        let places_least = if is_disk { places } else { cpus };
        let bounds = GateBounds { places, places_least, ..self.policy.gate };
        match self.policy.layers {
            Some(Layers { newest: false, .. }) => {
                GateBounds { newest_above: u32::MAX, newest_after: Ns::MAX, ..bounds }
            }
            _ => bounds,
        }
    }

    /// A thread beside the loop, or a helper, begins.
    fn employs(&mut self, conn: u32) {
        let Some(at) = self.workers.iter().position(|of| of.at.is_none()) else { return };
        (self.workers[at].at, self.workers[at].since) = (Some(conn), self.now);
        let service = self.conns[conn as usize].service;
        if let Family::Disk(_) = self.workload.family {
            let arm = self.arms.iter_mut().min().expect("a disk has an arm");
            *arm = (*arm).max(self.now) + service;
            let at_ns = *arm;
            self.agenda.put(at_ns, Event::Disk(at));
        } else {
            let costs = self.workload.costs;
            let cost = service + costs.send + costs.close + costs.switch;
            self.cpu.begin(self.now, Task::Thread(at), cost);
        }
    }

    fn end_turn(&mut self, at: usize) {
        let queue = self.queue_of(at);
        let of = &mut self.loops[at];
        of.turn.now = self.now;
        of.turn.took = self.now - of.began;
        self.report.carried = self.report.carried.max(of.due.len());
        let turn = of.turn;
        self.governs(at, queue, turn);
        if self.loops[at].due.is_empty() && self.queues[queue].waiting.is_empty() {
            self.loops[at].phase = Phase::Idle;
        } else {
            self.begin_turn(at);
        }
    }

    /// Tells the governor what a turn was like, and takes its orders.
    fn governs(&mut self, at: usize, queue: usize, mut turn: Turn) {
        let Some(layers) = self.policy.layers else { return };
        let of = &mut self.loops[at];
        let kernel = &mut self.queues[queue];
        if of.orders.look {
            let length = kernel.waiting.len() as u32;
            let is_full = length >= kernel.limit;
            turn.queue = Some(Queue { length, drops: kernel.drops, is_full });
        }
        let mut bounds = self.policy.bounds;
        bounds.queue.backlog = self.policy.backlog;
        bounds.queue.owned = match self.workload.family {
            Family::Loops(_, crate::workload::Sockets::Shared) => false,
            Family::Threads(_, owned) => owned,
            _ => true,
        };
        let mut notes = Kept(Vec::new());
        let orders = *of.governor.turn(&turn, &bounds, &mut notes);
        of.orders = without(orders, layers);
        if bounds.queue.owned && bounds.mode == Mode::On {
            kernel.limit = of.orders.backlog.unwrap_or(self.policy.backlog);
        }
        self.report.orders = hash(self.report.orders, &orders, &bounds);
        self.noted(notes.0);
    }

    /// Idle threads take what waits in the accept queue.
    fn thread_takes(&mut self) {
        while let Some(at) = self.workers.iter().position(|of| of.at.is_none()) {
            let Some(conn) = self.queues[0].waiting.pop_front() else { return };
            let costs = self.workload.costs;
            let orders = self.loops[0].orders;
            let age = self.age(conn);
            let mut turn = Turn { now: self.now, accepted: 1, ..Turn::default() };
            turn.head = if orders.sample { Head::Accepted(age) } else { Head::Unseen };
            if self.conns[conn as usize].kind == Kind::Silent {
                continue;
            }
            let late = self.conns[conn as usize].kind == Kind::Work && self.is_late(conn, &orders);
            let dropped = self.is_dropped(conn, &orders);
            turn.shed = u32::from(late || dropped);
            self.governs(0, 0, turn);
            if dropped {
                self.cpu.interrupt(costs.accept + costs.close + costs.age);
                self.discards(conn);
            } else if late {
                self.cpu.interrupt(costs.accept + costs.read);
                self.refuse_late(conn, &orders);
            } else {
                (self.workers[at].at, self.workers[at].since) = (Some(conn), self.now);
                let work = self.cost(conn, true) + costs.switch;
                self.cpu.begin(self.now, Task::Thread(at), work);
            }
        }
    }

    /// A thread is done with its connection's request.
    pub(crate) fn thread_ends(&mut self, at: usize) {
        let Some(conn) = self.workers[at].at else { return };
        let took = self.now - self.workers[at].since;
        let ended = self.answers(conn);
        if self.is_threads() {
            if !ended {
                self.workers[at].thinks = true;
            } else {
                self.workers[at].at = None;
            }
            let at_work = self.workers.iter().filter(|of| of.at.is_some() && !of.thinks).count();
            // Of the time on the wall this thread had its share.
            let took = took / (at_work as Ns + 1);
            let waits = !self.queues[0].waiting.is_empty();
            let head = if waits { Head::Unseen } else { Head::Empty };
            let turn = Turn { now: self.now, took, worked_on: 1, head, ..Turn::default() };
            self.governs(0, 0, turn);
            return self.thread_takes();
        }
        self.workers[at].at = None;
        self.gate.ended(took, false, false);
        self.gate_opens();
    }

    /// Who waits at the gate begins, as far as there are places.
    fn gate_opens(&mut self) {
        let bounds = self.gate_bounds();
        while self.gate.has_place(&bounds) && !self.gated.is_empty() {
            let oldest = self.now - self.gated.front().map_or(self.now, |(_, since)| *since);
            let next = match self.gate.next(oldest, &bounds) {
                Next::Oldest => self.gated.pop_front(),
                Next::Newest => self.gated.pop_back(),
            };
            let Some((conn, since)) = next else { return };
            let orders = self.loops[0].orders;
            match self.gate.begin(self.now, self.now - since, &orders, &bounds) {
                Entry::Now => self.employs(conn),
                entry => self.turns_away(conn, entry),
            }
        }
    }
}

/// Orders of which only those of some layers hold.
fn without(orders: Orders, layers: Layers) -> Orders {
    let mut left = orders;
    if !layers.phases {
        let Orders { work_on, accept_least, accept_for, work_for, .. } = Orders::FREE;
        left = Orders { work_on, accept_least, accept_for, work_for, ..left };
    }
    if !layers.backlog {
        left.backlog = None;
    }
    if !layers.discard {
        left.arrive = Orders::FREE.arrive;
    }
    if !layers.ladder {
        left.level = Orders::FREE.level;
    }
    left
}

/// Adds orders to a hash (FNV-1a).
fn hash(before: u64, orders: &Orders, bounds: &Bounds) -> u64 {
    let facts = [
        u64::from(orders.work_on),
        u64::from(orders.backlog.unwrap_or(bounds.queue.backlog)),
        u64::from(orders.level.number()),
        u64::from(orders.overloaded),
    ];
    facts.iter().fold(before ^ 0xcbf2_9ce4_8422_2325, |hash, fact| {
        (hash ^ fact).wrapping_mul(0x0100_0000_01b3)
    })
}
