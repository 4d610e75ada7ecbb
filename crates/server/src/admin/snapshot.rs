//! Everything that is told, gathered at one moment: `/status` and `/metrics` say the same.

use flyball_arch::registry;
use flyball_observe::counters::{Counter, Owner, Totals};
use flyball_observe::histogram::Powers;
use flyball_observe::hosts::CLASSES;
use std::os::fd::OwnedFd;

use flyball_sys::net::{self, Address};
use flyball_sys::netstat::Drops;
use flyball_sys::usage::{self, Usage};
use flyball_sys::{clock, process};

use super::Admin;

/// What there is to tell.
pub(super) struct Snapshot<'a> {
    pub(super) admin: &'a Admin,
    pub(super) totals: Totals,
    pub(super) architecture: &'static str,
    pub(super) generation: u64,
    /// How many workers there shall be.
    pub(super) workers: usize,
    pub(super) uptime_ms: u64,
    pub(super) started_unix_ms: u64,
    pub(super) queues: Vec<Queue>,
    pub(super) drops: Drops,
    pub(super) hosts: Vec<(String, [u64; CLASSES])>,
    /// How long their requests took, in the same order.
    pub(super) host_times: Vec<(String, Powers)>,
    pub(super) modules: Vec<(String, [u64; CLASSES])>,
    /// Nanoseconds of their calls, by the same names.
    pub(super) module_times_ns: Vec<(String, u64)>,
    pub(super) processes: Vec<Process>,
}

/// The accept queue of one listening socket.
pub(super) struct Queue {
    pub(super) listen: Option<Address>,
    /// Its number among the sockets of all addresses.
    pub(super) socket: usize,
    pub(super) length: u32,
    pub(super) limit: u32,
    /// Packets of clients that the socket has dropped, if the kernel tells that: where it defers
    /// the end of each handshake is one, and the number says nothing.
    pub(super) drops: Option<u32>,
    /// How long its head has waited, if that is known.
    pub(super) head_age_ms: Option<u64>,
}

/// A process of the server.
pub(super) struct Process {
    pub(super) role: &'static str,
    pub(super) id: i32,
    pub(super) usage: Usage,
    /// What it counted, if it serves.
    pub(super) worker: Option<Worker>,
}

/// A process that serves.
pub(super) struct Worker {
    pub(super) index: usize,
    pub(super) generation: u64,
    pub(super) requests: u64,
    pub(super) accepted: u64,
    pub(super) connections: u64,
    pub(super) bytes_sent: u64,
}

impl Snapshot<'_> {
    pub(super) fn take(admin: &Admin) -> Snapshot<'_> {
        let blocks = &admin.shared.blocks;
        let (generation, architecture, workers) = blocks.generation();
        let uptime_ms = clock::monotonic_ms().saturating_sub(admin.started_ms).max(1);
        Snapshot {
            admin,
            totals: blocks.totals(),
            architecture: registry::ALL.get(architecture).map_or("", |found| found.name()),
            generation,
            workers,
            uptime_ms,
            started_unix_ms: clock::unix_ms().saturating_sub(uptime_ms),
            queues: queues(admin),
            drops: Drops::read(),
            hosts: blocks.hosts().totals(in_use(admin)),
            host_times: blocks.hosts().times(in_use(admin)),
            modules: blocks.modules().totals(in_use(admin)),
            module_times_ns: blocks.modules().times_ns(in_use(admin)),
            processes: processes(admin),
        }
    }

    /// The workers of the present generation.
    fn serving(&self) -> impl Iterator<Item = &Worker> {
        let workers = self.processes.iter().filter_map(|process| process.worker.as_ref());
        workers.filter(|worker| worker.generation == self.generation)
    }

    /// What the busiest worker of this generation has answered, as a multiple of the mean; 1 when
    /// all are alike, or nothing was answered.
    pub(super) fn imbalance(&self) -> f64 {
        let (mut most, mut sum, mut count) = (0, 0, 0);
        for worker in self.serving() {
            most = worker.requests.max(most);
            sum += worker.requests;
            count += 1;
        }
        if sum == 0 { 1.0 } else { most as f64 * f64::from(count) / sum as f64 }
    }
}

fn in_use(admin: &Admin) -> impl Iterator<Item = usize> + Clone {
    // The last is that of the dead.
    (0..=admin.shared.blocks.len()).filter(|index| admin.shared.blocks.owner(*index).is_some())
}

/// Workers look how long heads wait from now on for a while.
fn queues(admin: &Admin) -> Vec<Queue> {
    let (heads, now_ms) = (admin.shared.queues(), clock::monotonic_ms());
    heads.ask(now_ms);
    let queue = |(socket, listener): (usize, &OwnedFd)| {
        // Of those in the file system the kernel tells neither.
        if net::is_unix(listener) {
            return None;
        }
        let (length, limit) = net::accept_queue(listener).ok()?;
        let listen = net::local_address(listener).ok();
        let drops = net::defers(listener).is_ok_and(|defers| !defers);
        let drops = drops.then(|| net::listener_drops(listener).ok()).flatten();
        let head_age_ms = heads.head_age_ms(socket, length, now_ms);
        Some(Queue { listen, socket, length, limit, drops, head_age_ms })
    };
    admin.listeners.iter().map(|listener| &**listener).enumerate().filter_map(queue).collect()
}

/// The master, the process that tells this, and those who count.
fn processes(admin: &Admin) -> Vec<Process> {
    let process =
        |role, id, worker| usage::of_process(id).map(|usage| Process { role, id, usage, worker });
    let mut all = Vec::from_iter(process("master", admin.master, None));
    all.extend(process("admin", process::own_id(), None));
    let mut owners: Vec<Owner> = in_use(admin)
        .filter_map(|index| admin.shared.blocks.owner(index))
        .filter(|owner| owner.process > 0)
        .collect();
    owners.sort_by_key(|owner| (owner.worker.is_some(), owner.generation, owner.worker));
    owners.dedup();
    for owner in owners {
        let role = if owner.worker.is_some() { "worker" } else { "log" };
        let worker = owner.worker.map(|index| worker(admin, owner, index));
        all.extend(process(role, owner.process, worker));
    }
    all
}

fn worker(admin: &Admin, owner: Owner, index: usize) -> Worker {
    let totals = admin.shared.blocks.totals_of(|other| *other == owner);
    Worker {
        index,
        generation: owner.generation,
        requests: totals.counter(Counter::Requests),
        accepted: totals.counter(Counter::Accepted),
        connections: totals.open(),
        bytes_sent: totals.counter(Counter::BytesOut),
    }
}
