//! Threads for the disk operations that a ring has none for (S2, section 5.1): waiting for a write
//! to settle, and listing a directory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use flyball_sys::disk::{Done, Op};
use flyball_sys::wake::Wake;

use crate::slots::Token;

/// Threads per worker: so many operations may wait for a slow disk before those of a fast one wait
/// behind them.
const THREADS_MAX: usize = 8;

/// The threads, spawned when they are needed, and their queues. A connection has at most one
/// operation under way, which bounds both.
pub(crate) struct Offload {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    asked: Mutex<Asked>,
    work: Condvar,
    done: Mutex<VecDeque<(Token, Done)>>,
    completion: Wake,
}

#[derive(Default)]
struct Asked {
    ops: VecDeque<(Token, Op)>,
    /// Threads that wait for an operation.
    idle: usize,
    stopping: bool,
}

impl Offload {
    pub(crate) fn new() -> io::Result<Offload> {
        let shared = Shared {
            asked: Mutex::default(),
            work: Condvar::new(),
            done: Mutex::default(),
            completion: Wake::new()?,
        };
        Ok(Offload { shared: Arc::new(shared), threads: 0 })
    }

    /// Has an operation performed; gives it back when there is nobody to do that.
    pub(crate) fn submit(&mut self, token: Token, op: Op) -> Option<Op> {
        let mut asked = lock(&self.shared.asked);
        let spawns = asked.idle <= asked.ops.len() && self.threads < THREADS_MAX;
        if spawns {
            let shared = Arc::clone(&self.shared);
            let name = format!("offload-{}", self.threads);
            match std::thread::Builder::new().name(name).spawn(move || perform(&shared)) {
                Ok(_) => self.threads += 1,
                Err(_) if self.threads == 0 => return Some(op),
                Err(_) => {}
            }
        }
        asked.ops.push_back((token, op));
        self.shared.work.notify_one();
        None
    }

    /// Readable when something is done.
    pub(crate) fn completion(&self) -> BorrowedFd<'_> {
        self.shared.completion.as_fd()
    }

    /// What was done since.
    pub(crate) fn collect(&self) -> VecDeque<(Token, Done)> {
        self.shared.completion.clear();
        std::mem::take(&mut *lock(&self.shared.done))
    }
}

fn perform(shared: &Shared) {
    let mut asked = lock(&shared.asked);
    while !asked.stopping {
        let Some((token, op)) = asked.ops.pop_front() else {
            asked.idle += 1;
            asked = shared.work.wait(asked).unwrap_or_else(PoisonError::into_inner);
            asked.idle -= 1;
            continue;
        };
        drop(asked);
        let done = op.perform();
        lock(&shared.done).push_back((token, done));
        shared.completion.notify();
        asked = lock(&shared.asked);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Offload {
    /// A thread that waits for a slow disk is not waited for: it ends by itself, or with the
    /// process.
    fn drop(&mut self) {
        lock(&self.shared.asked).stopping = true;
        self.shared.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    #[test]
    fn operations_are_performed_elsewhere_and_collected() {
        let mut slots = Slots::default();
        let mut offload = Offload::new().unwrap();
        let tokens: Vec<Token> = (0..3 * THREADS_MAX).map(|n| slots.insert(n)).collect();
        for &token in &tokens {
            let op = Op::Digest { bytes: Arc::new(vec![token.index() as u8]), crc: 0 };
            assert!(offload.submit(token, op).is_none());
        }
        let mut seen = Vec::new();
        while seen.len() < tokens.len() {
            flyball_sys::net::wait_either(offload.completion(), 10_000).unwrap();
            seen.extend(offload.collect().into_iter().map(|(token, done)| {
                assert!(matches!(done, Done::Digested(_)));
                token
            }));
        }
        seen.sort_by_key(|token| token.index());
        assert_eq!(seen, tokens);
        assert!(offload.threads <= THREADS_MAX);
    }
}
