//! What the threads of a worker share of its links: their places, those at rest that no loop
//! watches, and the way to the process that starts programs.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_site::{Sites, Upstream};
use flyball_sys::channel::Channel;
use flyball_sys::owned::Owned;

use super::places::Places;
use crate::kernel::net;

/// All that links lead to.
#[derive(Debug, Default)]
pub struct Upstreams {
    /// Servers, by their numbers.
    of: Vec<Shared>,
    /// Where programs are asked for.
    door: Option<Arc<Channel>>,
    /// No link is kept any more.
    is_closing: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    /// Places of links that are in use.
    places: Arc<Places>,
    /// The one that was used last at the end: the others grow old and are closed by the server.
    idle: Mutex<Vec<Arc<Owned>>>,
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Owned>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstreams {
    /// Those of the sites, whose programs are asked for at this door; to be made in each worker.
    pub fn of(sites: &Sites, door: Option<Arc<Channel>>) -> Arc<Upstreams> {
        let shared = |upstream: &Arc<Upstream>| {
            let bounds = upstream.bounds();
            let places = Places::new(bounds.links_max, bounds.queue_max);
            Shared { places, idle: Mutex::default() }
        };
        let of = sites.upstreams().into_iter().map(shared).collect();
        Arc::new(Upstreams { of, door, is_closing: AtomicBool::new(false) })
    }

    /// Where programs are asked for, if they are.
    pub(crate) fn door(&self) -> Option<&Arc<Channel>> {
        self.door.as_ref()
    }

    /// The places of its links.
    pub(super) fn places(&self, upstream: &Upstream) -> &Arc<Places> {
        &self.of[upstream.number()].places
    }

    fn idle(&self, upstream: &Upstream) -> MutexGuard<'_, Vec<Arc<Owned>>> {
        self.of[upstream.number()].idle()
    }

    /// Closes those at rest, and keeps none any more: each holds a process of its server.
    pub(crate) fn close(&self) {
        // Before they are closed: what is kept meanwhile is closed with them.
        self.is_closing.store(true, SeqCst);
        self.of.iter().for_each(|shared| shared.idle().clear());
    }

    /// A link that has been used before and that the server has not closed.
    pub(super) fn take_idle(&self, upstream: &Upstream) -> Option<Arc<Owned>> {
        if upstream.bounds().idle_max == 0 {
            return None;
        }
        loop {
            let socket = self.idle(upstream).pop()?;
            // Nothing was asked for, so that anything that came ends it.
            if net::has_input(&*socket).is_none() {
                return Some(socket);
            }
        }
    }

    /// Keeps a link for another request, if there is room.
    pub(super) fn keep(&self, upstream: &Upstream, socket: &Arc<Owned>) {
        let mut idle = self.idle(upstream);
        if idle.len() < upstream.bounds().idle_max && !self.is_closing.load(SeqCst) {
            idle.push(Arc::clone(socket));
        }
    }
}
