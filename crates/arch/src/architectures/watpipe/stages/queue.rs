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
    /// Threads that sleep, and how many of them were woken but do not run yet. One is enough,
    /// which wakes the next where it leaves something: threads that share a CPU would else be
    /// woken for each item, and find nothing.
    sleeping: usize,
    woken: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        let state = State { items: VecDeque::new(), sleeping: 0, woken: 0, closed: false };
        Queue { state: Mutex::new(state), added: Condvar::new() }
    }

    /// Adds an item at the end, and wakes a thread of the stage if all that do not work sleep. How
    /// many were there before it.
    pub(crate) fn push(&self, item: T) -> usize {
        let mut state = self.lock();
        let before = state.items.len();
        state.items.push_back(item);
        self.wake_one(state);
        before
    }

    /// Wakes a sleeping thread if something is there to take and none was woken for it yet.
    fn wake_one(&self, mut state: MutexGuard<'_, State<T>>) {
        let wakes = !state.items.is_empty() && state.woken == 0 && state.sleeping > 0;
        if wakes {
            state.woken = 1;
        }
        drop(state);
        if wakes {
            self.added.notify_one();
        }
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
                self.wake_one(state);
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
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_is_added_comes_out_once_and_in_order() {
        let queue = Queue::new();
        assert_eq!((queue.push(1), queue.push(2), queue.take_now()), (0, 1, Some(1)));
        assert_eq!((queue.take(), queue.is_empty(), queue.take_now()), (Some(2), true, None));
    }

    #[test]
    fn a_thread_that_blocks_does_not_keep_what_it_left_from_those_that_sleep() {
        const THREADS: usize = 4;
        let (queue, taken) = (Queue::new(), AtomicUsize::new(0));
        let deadline = Instant::now() + Duration::from_secs(30);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while queue.take().is_some() {
                        // Until each of the others has one too.
                        let all = taken.fetch_add(1, SeqCst) / THREADS * THREADS + THREADS;
                        while taken.load(SeqCst) < all && Instant::now() < deadline {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..100 {
                while queue.lock().sleeping < THREADS && Instant::now() < deadline {
                    std::thread::yield_now();
                }
                (0..THREADS).for_each(|item| _ = queue.push(item));
            }
            while !queue.is_empty() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            queue.close();
        });
        assert!(queue.is_empty() && Instant::now() < deadline);
    }

    #[test]
    fn a_burst_wakes_one_of_those_that_sleep() {
        let queue = Queue::new();
        queue.lock().sleeping = 3;
        (0..3).for_each(|item| _ = queue.push(item));
        assert_eq!(queue.lock().woken, 1);
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
