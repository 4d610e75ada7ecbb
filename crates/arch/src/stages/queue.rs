//! The queue in front of a stage.
//!
//! It never holds more than there are connections, which `connections.max` bounds: a connection is
//! in one place at a time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue that any thread adds to and the threads of one stage take from.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    added: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Threads that sleep, and how many of them were woken but do not run yet: waking is a system
    /// call, and one is enough for each item.
    sleeping: usize,
    woken: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        let state = State { items: VecDeque::new(), sleeping: 0, woken: 0, closed: false };
        Queue { state: Mutex::new(state), added: Condvar::new() }
    }

    /// Adds an item at the end, and wakes a thread of the stage if one sleeps. How many were there
    /// before it.
    pub(crate) fn push(&self, item: T) -> usize {
        let mut state = self.lock();
        let before = state.items.len();
        state.items.push_back(item);
        let wakes = state.woken < state.sleeping;
        if wakes {
            state.woken += 1;
        }
        drop(state);
        if wakes {
            self.added.notify_one();
        }
        before
    }

    /// The first item, if there is one. Never sleeps.
    pub(crate) fn take_now(&self) -> Option<T> {
        self.lock().items.pop_front()
    }

    /// The first item; sleeps until there is one. `None` once the queue is closed.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            state.sleeping += 1;
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
            state.woken = state.woken.saturating_sub(1);
        }
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Ends the threads of the stage as soon as they come for more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.added.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_comes_out_once_and_in_order() {
        let queue = Queue::new();
        assert_eq!((queue.push(1), queue.push(2), queue.take_now()), (0, 1, Some(1)));
        assert_eq!((queue.take(), queue.is_empty(), queue.take_now()), (Some(2), true, None));
    }

    #[test]
    fn sleeping_threads_share_the_items_and_end_when_it_is_closed() {
        const ITEMS: u64 = 10_000;
        let queue = Queue::new();
        let sums = std::thread::scope(|scope| {
            let sum = || std::iter::from_fn(|| queue.take()).sum::<u64>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(sum)).collect();
            for item in 0..ITEMS {
                queue.push(item);
            }
            while !queue.is_empty() {
                std::thread::yield_now();
            }
            queue.close();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<u64>>()
        });
        assert_eq!(sums.iter().sum::<u64>(), (0..ITEMS).sum::<u64>());
    }
}
