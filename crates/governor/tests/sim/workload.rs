//! A workload: clients, what they ask for, the server's family, the machine.

use flyball_governor::Ns;

use crate::clients::{Clients, Load, MS, S, Spread};

/// What the parts of serving cost, in nanoseconds of a processor.
///
/// Those of a connection are medians of 2,500 over loopback: accept, receive, send and close 12.15
/// us, with an answer of 503 12.02 us, accept and close alone 6.95 us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) syn: Ns,
    pub(crate) wait: Ns,
    pub(crate) event: Ns,
    /// For each connection that is watched, in each wait (select).
    pub(crate) watched: Ns,
    pub(crate) accept: Ns,
    pub(crate) read: Ns,
    pub(crate) send: Ns,
    pub(crate) close: Ns,
    pub(crate) age: Ns,
    pub(crate) switch: Ns,
}

impl Costs {
    pub(crate) const REAL: Costs = Costs {
        syn: 1_500,
        wait: 1_500,
        event: 200,
        watched: 0,
        accept: 3_500,
        read: 3_000,
        send: 3_500,
        close: 3_000,
        age: 380,
        switch: 2_000,
    };

    pub(crate) fn times(self, k: Ns) -> Costs {
        Costs {
            syn: self.syn * k,
            wait: self.wait * k,
            event: self.event * k,
            watched: self.watched * k,
            accept: self.accept * k,
            read: self.read * k,
            send: self.send * k,
            close: self.close * k,
            age: self.age * k,
            switch: self.switch * k,
        }
    }

    /// Of a cached answer on a connection of its own.
    pub(crate) fn cached(&self) -> Ns {
        self.accept + self.read + self.send + self.close
    }
}

/// How a server waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Event loops, each with its socket or all with one; work is done in their turns.
    Loops(usize, Sockets),
    /// One loop; work is done by threads beside it, which share its processors.
    Beside,
    /// One loop; work is read from a disk with so many arms, by helpers.
    Disk(usize),
    /// So many threads that block. Whether their process may change the accept queue.
    Threads(usize, bool),
    /// One loop whose work phase lasts until nothing is due, the newest first (TUX).
    Tux,
}

/// Whose listening sockets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Each loop has one.
    Own,
    /// All read one.
    Shared,
}

/// How the processors come and go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// From then on, in seconds, so many.
    pub(crate) steps: Vec<(f64, f64)>,
    /// A quota: of each period so much, then a stall.
    pub(crate) quota: Option<(Ns, Ns)>,
    /// Stolen for so long in the mean, each so long in the mean.
    pub(crate) steal: Option<(Ns, Ns)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// What is before then is not counted.
    pub(crate) warm: f64,
    pub(crate) load: Load,
    pub(crate) clients: Clients,
    /// The share of requests that are work; the others are cached.
    pub(crate) dynamic: f64,
    pub(crate) mean: Ns,
    pub(crate) spread: Spread,
    /// What coding the body adds to a cached answer while that is done.
    pub(crate) coding: Ns,
    pub(crate) family: Family,
    pub(crate) costs: Costs,
    pub(crate) cpus: f64,
    pub(crate) machine: Machine,
    /// Whether connections are accepted only with their data.
    pub(crate) deferred: bool,
    pub(crate) seed: u64,
}

impl Workload {
    pub(crate) fn new(name: impl Into<String>) -> Workload {
        Workload {
            name: name.into(),
            seconds: 20.0,
            warm: 5.0,
            load: Load::Steady(1.0),
            clients: Clients::default(),
            dynamic: 1.0,
            mean: 5 * MS,
            spread: Spread::Exponential,
            coding: 0,
            family: Family::Loops(1, Sockets::Own),
            costs: Costs::REAL,
            cpus: 1.0,
            machine: Machine::default(),
            deferred: false,
            seed: 1,
        }
    }

    /// What one request takes in the mean when all goes well.
    pub(crate) fn cost(&self) -> f64 {
        let Costs { syn, accept, read, send, close, .. } = self.costs;
        let connection = (syn + accept + close) as f64 / self.clients.requests;
        let work = if let Family::Disk(_) = self.family { 0.0 } else { self.mean as f64 };
        let plain = connection + (read + send) as f64 + self.coding as f64 * (1.0 - self.dynamic);
        plain + self.dynamic * work
    }

    /// Requests that it can serve in a second.
    pub(crate) fn can(&self) -> f64 {
        let by_cpu = self.cpus * S as f64 / self.cost();
        match self.family {
            Family::Disk(arms) if self.dynamic > 0.0 => {
                by_cpu.min(arms as f64 * S as f64 / self.mean as f64 / self.dynamic)
            }
            _ => by_cpu,
        }
    }

    pub(crate) fn loops(&self) -> usize {
        if let Family::Loops(loops, _) = self.family { loops } else { 1 }
    }

    pub(crate) fn at(self, x: f64) -> Workload {
        Workload { load: Load::Steady(x), ..self }
    }
}
