//! Processors that tasks share alike.

use std::collections::BinaryHeap;

use flyball_governor::Ns;

/// Who runs on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// An event loop.
    Loop(usize),
    /// A thread that blocks, or one for long work.
    Thread(usize),
}

/// Processor sharing in virtual time: each of the tasks that run gets the same, at most one
/// processor.
#[derive(Debug)]
pub(crate) struct Cpu {
    at: Ns,
    /// What each task that ran all the time has got so far.
    got: f64,
    /// Processors that there are now.
    pub(crate) capacity: f64,
    running: Vec<(f64, Task)>,
    /// What interrupts took and the next piece of work pays for.
    owed: f64,
    /// Processor time that was used.
    pub(crate) used: f64,
    /// Changes with each task that comes or goes, so that what was foreseen before is stale.
    pub(crate) epoch: u32,
}

impl Cpu {
    pub(crate) fn new(capacity: f64) -> Cpu {
        let running = Vec::new();
        Cpu { at: 0, got: 0.0, capacity, running, owed: 0.0, used: 0.0, epoch: 0 }
    }

    fn rate(&self) -> f64 {
        (self.capacity / self.running.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: Ns) {
        let passed = (now - self.at) as f64;
        self.at = now;
        if !self.running.is_empty() {
            self.got += passed * self.rate();
            self.used += passed * self.capacity.min(self.running.len() as f64);
        }
    }

    /// Time that an interrupt takes.
    pub(crate) fn interrupt(&mut self, ns: Ns) {
        self.owed += ns as f64;
    }

    pub(crate) fn begin(&mut self, now: Ns, task: Task, work: Ns) {
        self.advance(now);
        // Interrupts beyond half of the time wait for a thread of the kernel, which has no more.
        let owed = std::mem::take(&mut self.owed).min(work as f64);
        let work = work as f64 + owed;
        self.running.push((self.got + work, task));
        self.epoch += 1;
    }

    pub(crate) fn set_capacity(&mut self, now: Ns, capacity: f64) {
        self.advance(now);
        self.capacity = capacity;
        self.epoch += 1;
    }

    /// When the next task ends, if nothing changes.
    pub(crate) fn next_end(&self) -> Option<Ns> {
        let least = self.running.iter().map(|(end, _)| *end).min_by(f64::total_cmp)?;
        let rate = self.rate();
        let left = (least - self.got).max(0.0);
        (rate > 0.0).then(|| self.at + (left / rate).ceil() as Ns)
    }

    /// The task that ends now.
    pub(crate) fn end(&mut self, now: Ns) -> Option<Task> {
        self.advance(now);
        let ended = self.running.iter().position(|(end, _)| *end <= self.got + 1.0)?;
        self.epoch += 1;
        Some(self.running.swap_remove(ended).1)
    }
}

/// What happens when, the earliest first; of the same time what was put in first.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    put: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Ns,
    put: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        (self.at, self.put) == (other.at, other.put)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Entry<E>) -> std::cmp::Ordering {
        (other.at, other.put).cmp(&(self.at, self.put))
    }
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Agenda<E> {
        Agenda { heap: BinaryHeap::new(), put: 0 }
    }

    pub(crate) fn put(&mut self, at: Ns, event: E) {
        self.put += 1;
        self.heap.push(Entry { at, put: self.put, event });
    }

    pub(crate) fn next(&mut self) -> Option<(Ns, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}
