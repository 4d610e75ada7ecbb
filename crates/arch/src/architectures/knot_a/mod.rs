//! `knot-a`: a user-level thread for each connection, and one that accepts.
//!
//! **Paper**: T. Brecht, D. Pariag, L. Gammo: accept()able Strategies for Improving Web Server
//! Performance, USENIX 2004 (Knot-A on Capriccio, section 4.2).
//!
//! **Idea**: One thread does nothing but accept, and makes a new thread for each connection, which
//! serves it to its end in straight-line code and is gone. Nothing but descriptors and memory
//! bounds their number, so that under overload a server accepts more than it can finish.
//!
//! **Differs from the paper**:
//! * The scheduler is ours: each thread runs until it would block, in the order of `knot.order`.
//!   What `resource` knows of is connections alone, and stacks do not grow as Capriccio's do.
//! * Stacks have one size and a guard page, and are reused. Requests use 8 KiB of one, in debug and
//!   in release builds alike, and that is what an idle connection costs; the rest of the default is
//!   address space, for what a panic would need.
//! * Work that may wait on the disk parks its thread while a helper does it; Capriccio hands such
//!   calls to kernel threads of its own.
//! * The acceptor lets others run after accept-limit connections; the paper's stops only when it
//!   would block, which is the limit `inf`.
//! * `connections.max` bounds the threads, and so does the number of mappings that the kernel
//!   allows. `workers` processes may run, on one listening socket; the paper has one.
//!
//! **Reads with**: section 4.2: [`accept_all`] is the thread that accepts, [`serve_connection`] the
//! life of each other.
//!
//! **Settings**: `knot.stack`, `knot.order`, `amped.helpers`, `amped.helper-kind`, `amped.reserve`,
//! `amped.idle`, `amped.residency`, `workers`, `pin`, `events`, `accept.limit`,
//! `accept.eager-read`, `accept.exclusive`, `send.mode`, `send.piece`, `experiment.cork`.
//!
//! **Kernel needs**: eventfd, preadv2 with RWF_NOWAIT (4.14), and the chosen event mechanism.

use std::io;

use flyball_sys::sandbox::Calls;
use flyball_sys::user_thread::stacks_max;

use crate::accept::AcceptPolicy;
use crate::architecture::{Architecture, Cut, Sockets};
use crate::helpers;
use crate::settings::Settings;
use crate::user_threads::{self, Commons, Here, Scheduler, Wake, Why, serve_connection};
use crate::worker::{Report, Worker};

/// A user-level thread per connection.
#[derive(Debug)]
pub struct KnotA;

impl Architecture for KnotA {
    fn name(&self) -> &'static str {
        "knot-a"
    }

    fn about(&self) -> &'static str {
        "a user-level thread for each connection"
    }

    fn paper(&self) -> &'static str {
        "Brecht et al., USENIX 2004"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[user_threads::SETTINGS, super::HELPER_SETTINGS]
    }

    fn needs(&self) -> &'static str {
        "eventfd, preadv2 with RWF_NOWAIT (Linux 4.14) and the chosen event mechanism"
    }

    fn cut(&self, _settings: &Settings, connections: usize) -> Option<Cut> {
        let most = stacks_max();
        let by = || format!("by vm.max_map_count: each stack is two mappings; {connections} else");
        (most < connections).then(|| Cut { key: "connections.max", most, by: by() })
    }

    fn calls(&self, settings: &Settings) -> &'static [Calls] {
        helpers::calls(settings)
    }

    fn sockets(&self) -> Sockets {
        Sockets::Shared
    }

    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or(1)
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let settings = &worker.settings;
        let allowed = worker.connections_max;
        let fit = allowed.min(stacks_max());
        if fit < allowed {
            worker.say(&format!("at most {fit} connections: vm.max_map_count allows no more"));
        }
        let mut scheduler = Scheduler::new(settings, |here, socket, peer| {
            serve_connection(here, socket, peer, true);
        });
        scheduler.spawn(accept_all)?;
        let accept = AcceptPolicy::shared(worker.shared.live());
        scheduler.run(Commons::new(worker, accept, fit)?)
    }
}

/// The acceptor's life: take what has come, at most accept-limit, give each connection a thread,
/// let them run.
fn accept_all(here: &mut Here<'_>) {
    let mut accepted = Vec::new();
    while here.order.is_none() {
        if let Wake::Listener(listener) = here.park(Why::Accept, u64::MAX, None) {
            here.accept(listener, &mut accepted);
            here.spawn(&mut accepted);
        }
    }
}
