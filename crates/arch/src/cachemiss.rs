//! Threads for the operations that a ring has none for: letting writes settle, listing a directory,
//! adding up a checksum. TUX calls such threads "cachemiss".

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use flyball_sys::disk::{Done, Op};
use flyball_sys::wake::Wake;

/// Threads at most: so many operations may wait on a disk at once. The queue in front of them is
/// bounded by the connections, each of which waits for one operation.
const THREADS_MAX: usize = 8;

/// The threads, spawned when they are needed, and their two queues.
pub(crate) struct CacheMisses {
    queues: Arc<Queues>,
}

struct Queues {
    asked: Mutex<Asked>,
    work: Condvar,
    done: Mutex<VecDeque<(u64, Done)>>,
    completion: Wake,
}

#[derive(Default)]
struct Asked {
    ops: VecDeque<(u64, Op)>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl CacheMisses {
    /// No thread yet.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn new() -> io::Result<CacheMisses> {
        let (asked, work, done) = (Mutex::default(), Condvar::new(), Mutex::default());
        let completion = Wake::new()?;
        Ok(CacheMisses { queues: Arc::new(Queues { asked, work, done, completion }) })
    }

    /// Readable when an operation was performed.
    pub(crate) fn completion(&self) -> BorrowedFd<'_> {
        self.queues.completion.as_fd()
    }

    /// Has an operation performed. Never blocks, unless no thread at all can be spawned: then the
    /// operation is performed here.
    pub(crate) fn submit(&self, token: u64, op: Op) {
        let mut asked = lock(&self.queues.asked);
        asked.ops.push_back((token, op));
        if asked.ops.len() > asked.idle && asked.threads < THREADS_MAX {
            let queues = Arc::clone(&self.queues);
            let name = format!("cachemiss-{}", asked.threads);
            match std::thread::Builder::new().name(name).spawn(move || serve(&queues)) {
                Ok(_) => asked.threads += 1,
                Err(_) if asked.threads > 0 => {}
                Err(_) => {
                    if let Some((token, op)) = asked.ops.pop_back() {
                        finish(&self.queues, token, op);
                    }
                }
            }
        }
        drop(asked);
        self.queues.work.notify_one();
    }

    /// What was performed since. Never blocks.
    pub(crate) fn collect(&self) -> VecDeque<(u64, Done)> {
        self.queues.completion.clear();
        std::mem::take(&mut *lock(&self.queues.done))
    }
}

impl Drop for CacheMisses {
    /// Nobody waits for the threads: one may be held up by its disk for ever.
    fn drop(&mut self) {
        lock(&self.queues.asked).stopping = true;
        self.queues.work.notify_all();
    }
}

fn serve(queues: &Queues) {
    loop {
        let mut asked = lock(&queues.asked);
        let (token, op) = loop {
            if let Some(next) = asked.ops.pop_front() {
                break next;
            }
            if asked.stopping {
                return;
            }
            asked.idle += 1;
            asked = queues.work.wait(asked).unwrap_or_else(PoisonError::into_inner);
            asked.idle -= 1;
        };
        drop(asked);
        finish(queues, token, op);
    }
}

fn finish(queues: &Queues, token: u64, op: Op) {
    let done = op.perform();
    lock(&queues.done).push_back((token, done));
    queues.completion.notify();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::readiness::{self, Interest};

    #[test]
    fn every_operation_is_performed_once_and_told() {
        let misses = CacheMisses::new().unwrap();
        let mut mechanism = readiness::open("poll").unwrap();
        mechanism.add(misses.completion(), 0, Interest::READ).unwrap();
        for token in 0..100 {
            misses.submit(token, Op::Digest { bytes: Arc::new(vec![token as u8; 9]), crc: 0 });
        }
        let (mut done, mut events) = (Vec::new(), Vec::new());
        while done.len() < 100 {
            mechanism.wait(&mut events, 10_000).unwrap();
            assert_eq!(events.len(), 1, "{} of 100 are done", done.len());
            done.extend(misses.collect());
        }
        let mut tokens: Vec<u64> = done.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..100).collect::<Vec<_>>());
        assert!(lock(&misses.queues.asked).threads <= THREADS_MAX);
    }
}
