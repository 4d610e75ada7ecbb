//! `amped`: one event loop, and helpers for whatever may wait on the disk.
//!
//! **Paper**: V. Pai, P. Druschel, W. Zwaenepoel: Flash: An Efficient and Portable Web Server,
//! USENIX 1999 (AMPED, sections 3.4 and 5.1).
//!
//! **Idea**: The event loop of `sped`, but it never waits on the disk: it hands pathname
//! translation and reading to a helper and goes on with other connections. The helper's completion
//! arrives as one more event.
//!
//! **Differs from the paper**:
//! * Helpers are threads of one fixed pool, and a helper brings the file's bytes with it; the
//!   paper's are processes, spawned on demand, that only touch the pages.
//! * The pieces of a large body are read by the loop itself when they are in memory
//!   (RWF_NOWAIT tells), and by a helper first when they are not. With `send.mode = "sendfile"`
//!   nothing tells, and the loop may wait.
//!
//! **Reads with**: section 3.4, figure 5: the loop is [`Phases`], the helpers are [`Helpers`];
//! section 5.1: a translation and a load are the two kinds of plan.
//!
//! **Settings**: `amped.helpers`, and those of `sped`.
//!
//! **Kernel needs**: eventfd, preadv2 with RWF_NOWAIT (4.14), and the chosen event mechanism.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use flyball_site::Plan;
use flyball_sys::wake::Wake;

use crate::phases::{DiskWork, Phases};
use crate::registry::{Architecture, Sockets};
use crate::slots::Token;
use crate::supervise::{Report, Worker};

/// Asymmetric multi-process event-driven.
#[derive(Debug)]
pub struct Amped;

impl Architecture for Amped {
    fn name(&self) -> &'static str {
        "amped"
    }

    fn about(&self) -> &'static str {
        "an event loop that hands disk work to helpers"
    }

    fn paper(&self) -> &'static str {
        "Pai et al., USENIX 1999"
    }

    fn settings(&self) -> &'static [&'static str] {
        &[
            "amped.helpers",
            "workers",
            "pin",
            "events",
            "accept.limit",
            "accept.eager-read",
            "send.mode",
            "send.piece",
        ]
    }

    fn needs(&self) -> &'static str {
        "eventfd, preadv2 with RWF_NOWAIT (Linux 4.14) and the chosen event mechanism"
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let helpers = Helpers::start(worker.settings.helpers)?;
        let mut process = Phases::new(worker, helpers)?;
        while !process.is_done() {
            process.getevents()?;
            process.accept();
            process.work();
        }
        Ok(process.report())
    }
}

/// The helper pool and its two queues.
struct Helpers {
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
    fn start(count: usize) -> io::Result<Helpers> {
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
