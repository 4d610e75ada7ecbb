//! `mt`: a pool of threads that block, one connection each.
//!
//! **Paper**: V. Pai, P. Druschel, W. Zwaenepoel: Flash: An Efficient and Portable Web Server,
//! USENIX 1999 (MT, section 3.2); J. Hu, S. Mungee, D. Schmidt: Techniques for Developing and
//! Measuring High-Performance Web Servers over ATM Networks, INFOCOM 1998 (section 3.1).
//!
//! **Idea**: Each thread of a fixed pool accepts a connection, serves it to its end with blocking
//! calls, and accepts the next. The threads of a process share its caches.
//!
//! **Differs from the paper**:
//! * The caches have a lock for each bucket of their tables: section 3.2.4 of the INFOCOM paper
//!   has one for each hash entry.
//! * No more threads run than connections fit: each that waits in accept holds a descriptor.
//! * The kernel's socket time-outs, which accepted sockets inherit, are the watchdog: a call
//!   that is overdue returns, and its thread looks at the time.
//!
//! **Reads with**: section 3.2, figure 3 of the Flash paper: a thread's life is [`Thread::run`].
//!
//! **Settings**: `mt.threads`, `thread.stack`, `workers`, `pin`, `send.mode`, `send.piece`,
//! `experiment.cork`, `experiment.entry-locks`, `experiment.accept-lock`.
//!
//! **Kernel needs**: nothing beyond blocking sockets.

use std::io;
use std::sync::{Mutex, PoisonError};

use flyball_sys::sandbox::Calls;

use crate::architecture::{Architecture, Cut, Sockets};
use crate::blocking::{Crew, Thread};
use crate::settings::Settings;
use crate::worker::{Order, Report, Worker};

/// Multi-threaded.
#[derive(Debug)]
pub struct Mt;

impl Architecture for Mt {
    fn name(&self) -> &'static str {
        "mt"
    }

    fn about(&self) -> &'static str {
        "threads that block, one connection each"
    }

    fn paper(&self) -> &'static str {
        "Pai et al., USENIX 1999; Hu et al., INFOCOM 1998"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[&[
            "mt.threads",
            "thread.stack",
            "workers",
            "pin",
            "send.mode",
            "send.piece",
            "experiment.cork",
            "experiment.entry-locks",
            "experiment.accept-lock",
        ]]
    }

    fn needs(&self) -> &'static str {
        "nothing beyond blocking sockets"
    }

    fn cut(&self, settings: &Settings, connections: usize) -> Option<Cut> {
        let is_cut = settings.threads > connections;
        let by = || "by connections.max".into();
        is_cut.then(|| Cut { key: "mt.threads", most: connections, by: by() })
    }

    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        &[Calls::Threads]
    }

    fn sockets(&self) -> Sockets {
        Sockets::Shared
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or(1)
    }

    fn threads(&self, settings: &Settings) -> usize {
        settings.threads
    }

    fn run(&self, mut worker: Worker) -> io::Result<Report> {
        let threads = worker.settings.threads;
        let running = threads.min(worker.connections_max);
        if running < threads {
            worker.say(&format!("{running} of {threads} threads run: no more connections fit"));
        }
        worker.connections_max = running;
        worker.make_room_for_descriptors();
        let caches = worker.shared_caches();
        let crew = Crew::new(&worker)?;
        let gate = Mutex::new(());
        std::thread::scope(|scope| {
            // The worker accepts only once all threads have started.
            let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
            let pass = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
            for number in 0..running {
                let desk = worker.desk_with(worker.service_sharing(&caches), number);
                let thread = Thread::new(&crew, desk);
                let builder = std::thread::Builder::new().name(format!("server-{number}"));
                let builder = builder.stack_size(worker.settings.stack_bytes);
                let life = move || {
                    pass();
                    thread.run(number, running)
                };
                if let Err(error) = builder.spawn_scoped(scope, life) {
                    // The scope waits for those that run, which must not wait for a stop.
                    crew.tell(Order::Stop);
                    return Err(error);
                }
            }
            worker.enter_loop();
            drop(closed);
            crew.attend()
        })?;
        Ok(Report { unfinished: crew.unfinished() })
    }
}
