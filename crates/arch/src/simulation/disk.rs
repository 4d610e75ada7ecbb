//! A simulated disk: it performs what it is asked for at once, or late and in any order, and it
//! fails when the schedule says so.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use flyball_site::Plan;
use flyball_sys::disk::{Done, Op};

use super::random::Random;
use super::schedule::Schedule;
use super::world::with;
use crate::phases::DiskWork;
use crate::slots::Token;

/// Work that a loop waits for.
#[derive(Debug)]
pub(super) struct Disk {
    random: Random,
    under_way: Vec<(Token, Box<Plan>)>,
    done: Vec<(Token, Box<Plan>)>,
    /// Who asked last from each slot: for a fault that is planted.
    last: HashMap<usize, Token>,
    /// Something is done that was not told.
    pub(super) is_signalled: bool,
    /// How often something was.
    pub(super) signals: u64,
    /// The number of what is readable then.
    number: RawFd,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        Disk {
            random: Random::of(seed),
            under_way: Vec::new(),
            done: Vec::new(),
            last: HashMap::new(),
            is_signalled: false,
            signals: 0,
            number: -1,
        }
    }

    pub(super) fn number(&self) -> RawFd {
        self.number
    }

    /// Whether work is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether nothing is under way, and nothing waits to be collected.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.done.is_empty()
    }

    /// Performs an operation, which fails once in so many.
    pub(super) fn perform_op(&mut self, op: Op, fails: usize) -> Done {
        if self.random.one_in(fails) { refused(op) } else { op.perform() }
    }

    /// Goes on with one of those that are under way.
    pub(super) fn finish_one(&mut self, schedule: &Schedule) {
        let at = if schedule.late { self.random.below(self.under_way.len()) } else { 0 };
        let plan = &mut self.under_way[at].1;
        let is_done = match schedule.late {
            true => perform_one(plan, schedule.fails, &mut self.random),
            false => {
                perform(plan, schedule.fails, &mut self.random);
                true
            }
        };
        if is_done {
            let done = self.under_way.remove(at);
            self.done.push(done);
            self.is_signalled = true;
            self.signals += 1;
        }
    }
}

/// Performs the next operation of a plan; true when there was none left.
fn perform_one(plan: &mut Plan, fails: usize, random: &mut Random) -> bool {
    let Some(op) = plan.next_op() else { return true };
    match random.below(20) {
        // It was given to a helper that died.
        0 => plan.put_back(op),
        _ if random.one_in(fails) => plan.done(refused(op)),
        _ => plan.done(op.perform()),
    }
    false
}

fn perform(plan: &mut Plan, fails: usize, random: &mut Random) {
    while !perform_one(plan, fails, random) {}
}

/// The result of an operation that failed.
fn refused(op: Op) -> Done {
    let error = || io::Error::from_raw_os_error(5);
    match op {
        Op::Open { .. } | Op::Keep { .. } | Op::Nameless { .. } => Done::Opened(Err(error())),
        Op::Stat { .. } => Done::Stamped(Err(error())),
        Op::Read { buffer, .. } => Done::Read(buffer, Err(error())),
        Op::List { .. } => Done::Listed(Err(error())),
        Op::Write { .. } => Done::Written(Err(error())),
        op @ (Op::Settle { .. } | Op::Populate { .. } | Op::Compute { .. }) => op.perform(),
    }
}

/// A loop's way to that disk.
#[derive(Debug)]
pub(super) struct Helpers {
    /// Whether all work is done elsewhere, or only what takes long.
    all: bool,
    completions: OwnedFd,
    _other: UnixStream,
}

impl Helpers {
    pub(super) fn new(all: bool) -> Helpers {
        let (near, other) = UnixStream::pair().expect("descriptors are left");
        with(|world| world.disk.number = near.as_raw_fd());
        Helpers { all, completions: near.into(), _other: other }
    }
}

impl DiskWork for Helpers {
    fn submit(&mut self, token: Token, mut plan: Box<Plan>) -> Option<Box<Plan>> {
        let is_late = self.all || plan.is_long();
        with(|world| {
            world.called();
            if world.fault.forgets_connection() {
                world.disk.last.insert(token.index(), token);
            }
            let (fails, disk) = (world.schedule.fails, &mut world.disk);
            if is_late {
                disk.under_way.push((token, plan));
                return None;
            }
            perform(&mut plan, fails, &mut disk.random);
            Some(plan)
        })
        .flatten()
    }

    fn reads_large_bodies(&self) -> bool {
        self.all
    }

    fn completions(&self) -> Option<BorrowedFd<'_>> {
        Some(self.completions.as_fd())
    }

    fn acknowledge(&mut self) {
        with(|world| world.disk.is_signalled = false);
    }

    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        with(|world| {
            let (fault, random, disk) = (world.fault, &mut world.random, &mut world.disk);
            let (mut token, plan) = disk.done.pop()?;
            if fault.forgets_connection() {
                token = disk.last.get(&token.index()).copied().unwrap_or(token);
            }
            let others = disk.done.iter_mut().chain(&mut disk.under_way);
            if fault.misleads(random)
                && let Some((other, _)) = others.into_iter().find(|(other, _)| *other != token)
            {
                std::mem::swap(&mut token, other);
            }
            Some((token, plan))
        })
        .flatten()
    }
}
