//! What an architecture says of itself: what it is called, where it comes from, whether it can run,
//! and how it serves.

use std::fmt;
use std::io;

use flyball_governor::Mode;
use flyball_sys::sandbox::Calls;

use crate::settings::{AcceptLimit, Settings};
use crate::worker::{Report, Worker};

/// Whose listening sockets a worker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// All workers read the same.
    Shared,
    /// Each worker has its own, on the same port.
    PerWorker,
}

/// Less than a setting asks for is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The key of the setting.
    pub key: &'static str,
    /// What there is.
    pub most: usize,
    /// By what it is cut, in words.
    pub by: String,
}

/// What the machine says of a setting of an architecture's own that is left to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auto {
    /// The key, and its value, which the CPUs say that the server may use.
    ByCpus(&'static str, usize),
    /// The key, and what to know about it.
    Told(&'static str, String),
}

/// A concurrency architecture: a way to wait.
pub trait Architecture: Sync + fmt::Debug {
    /// Its name in the settings.
    fn name(&self) -> &'static str;

    /// One line about it.
    fn about(&self) -> &'static str;

    /// The paper that describes it.
    fn paper(&self) -> &'static str;

    /// The settings that it honours, of those that some architecture does not: its own, and those
    /// of what it shares with others.
    fn settings(&self) -> &'static [&'static [&'static str]];

    /// Whether it honours this setting, of those that some architecture does not.
    fn honours(&self, key: &str) -> bool {
        self.settings().iter().any(|keys| keys.contains(&key))
    }

    /// The settings that it has no use for, of those that all others honour.
    fn ignores(&self) -> &'static [&'static str] {
        &[]
    }

    /// Defaults of its own, as they would be written: the key, and the value.
    fn defaults(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The accept-limit that a server begins with: what was written, or the default. It is only
    /// left to a governor that there is.
    fn accept_limit(&self, settings: &Settings) -> AcceptLimit {
        let own = self.defaults().iter().find(|(key, _)| *key == "accept.limit");
        let own = own.and_then(|(_, value)| AcceptLimit::parse(value));
        let default = own.unwrap_or(Settings::default().accept_limit);
        let is_governed = settings.governor.mode == Mode::On && self.honours("governor.mode");
        match settings.accept_limit {
            AcceptLimit::Auto if !is_governed => default,
            _ if !settings.given.contains_key("accept.limit") => {
                own.unwrap_or(settings.accept_limit)
            }
            written => written,
        }
    }

    /// What the machine says of a setting of its own, explained whichever architecture runs.
    fn auto(&self, _settings: &Settings) -> Option<Auto> {
        None
    }

    /// What it cuts where a worker has room for so many connections.
    fn cut(&self, _settings: &Settings, _connections: usize) -> Option<Cut> {
        None
    }

    /// What is written of its own and would not be so, by its key, and why: refused whichever
    /// architecture runs.
    fn contradiction(&self, _settings: &Settings) -> Option<(&'static str, String)> {
        None
    }

    /// Whether it may serve a site that `flyball tune` asks about.
    fn is_tuned(&self) -> bool {
        true
    }

    /// What it takes otherwise than the settings say, for the operator.
    fn warnings(&self, _settings: &Settings) -> Vec<String> {
        Vec::new()
    }

    /// What it needs of the kernel.
    fn needs(&self) -> &'static str;

    /// Whether it can run here.
    ///
    /// # Errors
    /// Why it cannot.
    fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    /// What it found of the kernel's optional features: pairs of a feature and what stands for it
    /// here, which is the fallback where the feature is missing. Asks the kernel at each call.
    fn found(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The groups of system calls that its workers make beside serving: to wait, and to start what
    /// waits for them. docs/security.md tells them.
    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        &[Calls::Readiness, Calls::Threads]
    }

    /// Whether it locks what it caches in memory, wanted or not.
    fn locks_caches(&self) -> bool {
        false
    }

    /// Whether all that serve share one cache.
    fn shares_cache(&self) -> bool {
        false
    }

    /// Whose listening sockets its workers read.
    fn sockets(&self) -> Sockets;

    /// Whether its sockets block.
    fn is_blocking(&self) -> bool {
        false
    }

    /// Whether accepting waits.
    fn listener_blocks(&self) -> bool {
        self.is_blocking()
    }

    /// How many listening sockets each address needs, at most one for each group of workers.
    fn sockets_wanted(&self, settings: &Settings) -> usize {
        match self.sockets() {
            Sockets::Shared => 1,
            Sockets::PerWorker => self.workers(settings) * self.sockets_per_worker(settings),
        }
    }

    /// How many listening sockets each worker has per address, where they are its own.
    fn sockets_per_worker(&self, _settings: &Settings) -> usize {
        1
    }

    /// Whether `pin` binds the whole worker to one CPU; else the architecture binds its threads.
    fn pins_workers(&self) -> bool {
        true
    }

    /// Whether its workers change the length of their accept queues when they are overloaded: not
    /// of those that others read too.
    fn bounds_its_queues(&self, settings: &Settings) -> bool {
        settings.governor.mode == Mode::On
            && self.honours("governor.queue")
            && (!self.sockets_are_shared() || self.workers(settings) == 1)
    }

    /// Whether all workers read all listening sockets.
    fn sockets_are_shared(&self) -> bool {
        self.sockets() == Sockets::Shared
    }

    /// How many worker processes it runs.
    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or_else(|| settings.cpus())
    }

    /// How many processes serve, which the setting `workers` says where it has a meaning.
    fn processes(&self, settings: &Settings) -> usize {
        self.workers(settings)
    }

    /// How many threads of each worker count.
    fn threads(&self, _settings: &Settings) -> usize {
        1
    }

    /// Serves until the worker is told to stop, then drains. Blocks.
    ///
    /// # Errors
    /// When the kernel refuses what the architecture cannot do without.
    fn run(&self, worker: Worker) -> io::Result<Report>;
}
