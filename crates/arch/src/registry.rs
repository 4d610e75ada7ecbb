//! The table of architectures: what each is called, where it comes from, and whether it can run.

use std::fmt;
use std::io;

use crate::architectures::{
    amped, knot_a, knot_c, mp, mt, n_copy, shared_symped, sped, symped, thread_per_connection, tux,
    uring, watpipe,
};
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

    /// Whether all workers read all listening sockets.
    fn sockets_are_shared(&self) -> bool {
        self.sockets() == Sockets::Shared
    }

    /// How many worker processes it runs.
    fn workers(&self, settings: &Settings) -> usize {
        settings.workers.unwrap_or_else(|| settings.cpus())
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

/// Every architecture, in the order of `flyball arch`.
pub static ALL: &[&dyn Architecture] = &[
    &sped::Sped,
    &symped::Symped,
    &shared_symped::SharedSymped,
    &n_copy::NCopy,
    &amped::Amped,
    &mp::Mp,
    &mt::Mt,
    &thread_per_connection::ThreadPerConnection,
    &knot_c::KnotC,
    &knot_a::KnotA,
    &watpipe::WatPipe,
    &tux::Tux,
    &uring::Uring,
];

/// The architecture of this name.
pub fn find(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|architecture| architecture.name() == name)
}

/// The accept-limit that a server begins with: what was written, or the default.
pub fn accept_limit(architecture: &dyn Architecture, settings: &Settings) -> AcceptLimit {
    let own = architecture.defaults().iter().find(|(key, _)| *key == "accept.limit");
    let own = own.filter(|(key, _)| !settings.given.contains_key(key));
    own.and_then(|(_, value)| AcceptLimit::parse(value)).unwrap_or(settings.accept_limit)
}

/// Whether this architecture makes nothing of a setting, while another does.
pub fn is_unused(architecture: &dyn Architecture, key: &str) -> bool {
    let is_of_others = || ALL.iter().any(|other| other.honours(key));
    architecture.ignores().contains(&key) || !architecture.honours(key) && is_of_others()
}

/// The keys that this architecture makes nothing of, written or not.
pub fn unused_keys(architecture: &dyn Architecture, settings: &Settings) -> Vec<&'static str> {
    let of_all = ALL.iter().flat_map(|other| other.settings()).copied().flatten();
    let of_all = of_all.chain(ALL.iter().flat_map(|other| other.ignores()));
    let mut keys: Vec<&'static str> = of_all
        .copied()
        .filter(|key| is_unused(architecture, key))
        // How many workers there are is told in any case.
        .filter(|key| *key != "workers" || settings.workers.is_some())
        .filter(|key| !says_what_is_so(architecture, settings, key))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Who asks a single process for one worker gets what was asked for, and so does who wants bodies
/// locked where all are.
fn says_what_is_so(architecture: &dyn Architecture, settings: &Settings, key: &str) -> bool {
    match key {
        "workers" => settings.workers == Some(architecture.workers(settings)),
        "cache.lock" => architecture.name() == "tux" && settings.caches.locks,
        _ => false,
    }
}

/// What is said about settings that the user wrote and that this architecture does not use.
pub fn unused_settings(architecture: &dyn Architecture, settings: &Settings) -> Vec<String> {
    let unused =
        |key: &&&str| is_unused(architecture, key) && !says_what_is_so(architecture, settings, key);
    let (name, unused) = (architecture.name(), settings.given.keys().filter(unused));
    unused.map(|key| format!("`{key}` has no meaning for {name} and is ignored")).collect()
}
