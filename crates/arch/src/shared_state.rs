//! What all processes of a server share, in memory that is mapped before the first fork.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flyball_conn::ClientLimits;
use flyball_observe::counters::Blocks;
use flyball_observe::hosts::OTHER;
use flyball_observe::queues::Queues;
use flyball_observe::trace::Ring;
use flyball_site::SiteSettings;
use flyball_site::modules::ModuleSettings;
use flyball_sys::shared::SharedCounters;

use crate::live::Live;

/// The counters, and beside them what clients use, limits that change while the server runs,
/// timelines of requests, how long heads of accept queues wait, and how full the spool is.
#[derive(Debug)]
pub struct SharedState {
    /// What is counted.
    pub blocks: Arc<Blocks>,
    clients: Arc<ClientLimits>,
    live: Arc<Live>,
    traces: Arc<Ring>,
    queues: Arc<Queues>,
    /// Bytes in the spool, by the first block of each process.
    spooled: Arc<SharedCounters>,
}

impl SharedState {
    /// Maps it with `blocks` blocks of counters, to be called before the first fork. The
    /// accept-limit is infinite until it is set, and clients have no limits.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(blocks: usize) -> io::Result<SharedState> {
        let (clients, live) = (Arc::default(), Arc::new(Live::new()?));
        let spooled = Arc::new(SharedCounters::new(blocks)?);
        let (traces, queues) = (Arc::new(Ring::new()?), Arc::new(Queues::new()?));
        let blocks = Arc::new(Blocks::new(blocks)?);
        Ok(SharedState { blocks, clients, live, traces, queues, spooled })
    }

    /// The same with what clients use, which has these limits.
    pub fn with_clients(self, clients: ClientLimits) -> SharedState {
        SharedState { clients: Arc::new(clients), ..self }
    }

    /// The same with counts of answers by host and by module; to be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn with_names(self, sites: &[SiteSettings]) -> io::Result<SharedState> {
        let blocks = self.blocks.with_names(&labels(sites), &modules(sites))?;
        Ok(SharedState { blocks: Arc::new(blocks), ..self })
    }

    /// The same state, beside other limits of clients and for other sites.
    pub fn beside(&self, clients: Arc<ClientLimits>, sites: &[SiteSettings]) -> SharedState {
        let blocks = Arc::new(self.blocks.of_names(&labels(sites), &modules(sites)));
        let (live, traces) = (Arc::clone(&self.live), Arc::clone(&self.traces));
        let (queues, spooled) = (Arc::clone(&self.queues), Arc::clone(&self.spooled));
        SharedState { blocks, clients, live, traces, queues, spooled }
    }

    /// The limits that changed while the server ran.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// What clients use.
    pub fn clients(&self) -> &Arc<ClientLimits> {
        &self.clients
    }

    /// Timelines of requests.
    pub fn traces(&self) -> &Arc<Ring> {
        &self.traces
    }

    /// How long the heads of accept queues wait.
    pub fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Bytes that processes have in the spool, a word for each block.
    pub(crate) fn spooled(&self) -> &Arc<SharedCounters> {
        &self.spooled
    }

    /// Lets go of what a dead worker held, and moves what it counted to the block of the dead.
    pub fn fold(&self, index: usize, abruptly: bool) {
        self.clients.release(index);
        if let Some(word) = self.spooled.all().get(index) {
            word.store(0, Relaxed);
        }
        self.blocks.fold(index, abruptly);
    }
}

/// The labels of sites: the first host of each.
fn labels(sites: &[SiteSettings]) -> Vec<String> {
    let label = |site: &SiteSettings| site.hosts.first().cloned().unwrap_or_else(|| OTHER.into());
    sites.iter().map(label).collect()
}

/// The labels of modules, in the order of their numbers.
fn modules(sites: &[SiteSettings]) -> Vec<String> {
    sites.iter().flat_map(|site| &site.modules).map(ModuleSettings::shown).collect()
}
