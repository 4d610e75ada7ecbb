//! Helpers: threads that do the work which may wait on the disk, for a loop that must not (S2,
//! section 5.1).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use flyball_site::Plan;
use flyball_sys::wake::Wake;

use crate::phases::DiskWork;
use crate::slots::Token;

/// The helper pool and its two queues.
pub(crate) struct Helpers {
    queues: Arc<Queues>,
    threads: Vec<JoinHandle<()>>,
}

struct Queues {
    asked: Mutex<Asked>,
    work: Condvar,
    done: Mutex<VecDeque<(Token, Box<Plan>)>>,
    completion: Wake,
}

#[derive(Default)]
struct Asked {
    plans: VecDeque<(Token, Box<Plan>)>,
    stopping: bool,
}

impl Helpers {
    pub(crate) fn start(count: usize) -> io::Result<Helpers> {
        let queues = Arc::new(Queues {
            asked: Mutex::default(),
            work: Condvar::new(),
            done: Mutex::default(),
            completion: Wake::new()?,
        });
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let queues = Arc::clone(&queues);
            let name = format!("helper-{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || help(&queues))?);
        }
        Ok(Helpers { queues, threads })
    }
}

/// A helper's life: one plan at a time, whole.
fn help(queues: &Queues) {
    loop {
        let mut asked = lock(&queues.asked);
        let (token, mut plan) = loop {
            if let Some(next) = asked.plans.pop_front() {
                break next;
            }
            if asked.stopping {
                return;
            }
            asked = queues.work.wait(asked).unwrap_or_else(PoisonError::into_inner);
        };
        drop(asked);
        plan.run();
        lock(&queues.done).push_back((token, plan));
        queues.completion.notify();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiskWork for Helpers {
    fn submit(&mut self, token: Token, plan: Box<Plan>) -> Option<Box<Plan>> {
        lock(&self.queues.asked).plans.push_back((token, plan));
        self.queues.work.notify_one();
        None
    }

    fn reads_large_bodies(&self) -> bool {
        true
    }

    fn completions(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queues.completion.as_fd())
    }

    fn acknowledge(&mut self) {
        self.queues.completion.clear();
    }

    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        lock(&self.queues.done).pop_front()
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        lock(&self.queues.asked).stopping = true;
        self.queues.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
