//! `knot-c`: a fixed pool of user-level threads, one connection each.
//!
//! **Paper**: T. Brecht, D. Pariag, L. Gammo: accept()able Strategies for Improving Web Server
//! Performance, USENIX 2004 (Knot-C on Capriccio, section 4.2).
//!
//! **Idea**: All threads are made before the first connection comes. Each accepts one, serves it to
//! its end in straight-line code, and accepts the next; where it would block, another runs. With an
//! accept-limit above 1 a thread that found a connection takes more of them as long as it need not
//! wait, and works all of these off before it accepts again.
//!
//! **Differs from the paper**:
//! * The scheduler is ours: each thread runs until it would block, in the order of `knot.order`.
//!   What `resource` knows of is connections alone, and stacks do not grow as Capriccio's do.
//! * Stacks have one size and a guard page. Requests use 8 KiB of one, in debug and in release
//!   builds alike; the rest of the default is address space, for what a panic would need. A thread
//!   that waits in accept has touched 4 KiB: 1,000 of them cost 4 MiB.
//! * Work that may wait on the disk parks its thread while a helper does it; Capriccio hands such
//!   calls to kernel threads of its own.
//! * Unless `accept.limit` is written it is 1, the original Knot, because a connection in a batch
//!   waits for those before it. While others of its batch wait, a connection is kept for the
//!   requests that are there already and closed when it is idle.
//! * `workers` processes may run, on one listening socket; the paper has one.
//!
//! **Reads with**: section 4.2: [`serve`] is the life of a thread, [`accept_batch`] the modified
//! accept call.
//!
//! **Settings**: `knot.threads`, `knot.stack`, `knot.order`, `amped.helpers`, `amped.helper-kind`,
//! `amped.reserve`, `amped.idle`, `amped.residency`, `workers`, `pin`, `events`, `accept.limit`,
//! `accept.eager-read`, `accept.exclusive`, `send.mode`, `send.piece`, `experiment.cork`.
//!
//! **Kernel needs**: eventfd, preadv2 with RWF_NOWAIT (4.14), and the chosen event mechanism.

use std::io;
use std::sync::Arc;

use flyball_conn::Peer;
use flyball_sys::owned::Owned;
use flyball_sys::sandbox::Calls;
use flyball_sys::user_thread::stacks_max;

use crate::accept::AcceptPolicy;
use crate::architecture::{Architecture, Cut, Sockets};
use crate::helpers;
use crate::settings::Settings;
use crate::user_threads::{self, Commons, Here, Scheduler, Wake, Why, serve_connection};
use crate::worker::{Report, Worker};

/// A pool of user-level threads.
#[derive(Debug)]
pub struct KnotC;

impl Architecture for KnotC {
    fn name(&self) -> &'static str {
        "knot-c"
    }

    fn about(&self) -> &'static str {
        "a pool of user-level threads, one connection each"
    }

    fn paper(&self) -> &'static str {
        "Brecht et al., USENIX 2004"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[&["knot.threads"], user_threads::SETTINGS, super::HELPER_SETTINGS]
    }

    fn defaults(&self) -> &'static [(&'static str, &'static str)] {
        &[("accept.limit", "1")]
    }

    fn needs(&self) -> &'static str {
        "eventfd, preadv2 with RWF_NOWAIT (Linux 4.14) and the chosen event mechanism"
    }

    fn cut(&self, settings: &Settings, connections: usize) -> Option<Cut> {
        let stacks = stacks_max();
        let most = connections.min(stacks);
        let by = if stacks < connections { "by vm.max_map_count" } else { "by connections.max" };
        let is_cut = settings.user_threads.threads > most;
        is_cut.then(|| Cut { key: "knot.threads", most, by: by.into() })
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

    fn run(&self, mut worker: Worker) -> io::Result<Report> {
        let settings = Arc::clone(&worker.settings);
        let threads = settings.user_threads.threads;
        let running = threads.min(worker.connections_max).min(stacks_max());
        if running < threads && settings.given.contains_key("knot.threads") {
            worker.say(&format!("{running} of {threads} threads run: no more connections fit"));
        }
        let accept = AcceptPolicy::shared(worker.shared.live());
        let mut scheduler = Scheduler::new(&settings, |_, _, _| ());
        for _ in 0..running {
            scheduler.spawn(serve)?;
        }
        let connections_max = std::mem::replace(&mut worker.connections_max, running);
        scheduler.run(Commons::new(worker, accept, connections_max)?)
    }
}

/// A thread's life: accept, serve each connection of the batch to its end, again.
fn serve(here: &mut Here<'_>) {
    let mut batch = Vec::new();
    while accept_batch(here, &mut batch) {
        let mut waiting = batch.len();
        for (socket, peer) in batch.drain(..) {
            waiting -= 1;
            serve_connection(here, socket, peer, waiting == 0);
        }
    }
}

/// Parks until a connection can be accepted, then takes more while that need not wait and the
/// accept-limit allows. False when the worker accepts nothing any more.
fn accept_batch(here: &mut Here<'_>, batch: &mut Vec<(Owned, Peer)>) -> bool {
    while batch.is_empty() {
        if here.order.is_some() {
            return false;
        }
        if let Wake::Listener(listener) = here.park(Why::Accept, u64::MAX, None) {
            here.accept(listener, batch);
        }
    }
    true
}
