//! Least privilege: what each child of the master keeps, and how it loses the rest.
//!
//! Workers open files beneath the roots of their sites and nothing else, and make the system calls
//! that their architecture needs ([`Architecture::calls`]). The process behind `--admin` opens what
//! tells of the machine; the log process writes beside its log. A child gives all of it up before
//! it does any work of its own, so that each generation begins with its own rules.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use flyball_arch::Architecture;
use flyball_arch::rings::Rings;
use flyball_arch::settings::{SandboxMode, SandboxSettings, Settings};
use flyball_site::{Sites, Upstream};
use flyball_sys::net::Endpoint;
use flyball_sys::place::{Place, open_by_own_links};
use flyball_sys::residency::Probe;
use flyball_sys::sandbox::{
    Access, Calls, Capability, Grant, Identity, Kernel, Rights, Sandbox, Violation,
    keep_capabilities, keeps,
};
use flyball_sys::user_thread::stacks_max;
use flyball_sys::{log_file, process};

/// Users that workers become where none is named, the first that there is.
pub const USERS: [&str; 3] = ["flyball", "www-data", "nobody"];

/// The user and group that hold no rights and own no files: that of the admin process.
const NOBODY: u32 = 65_534;

/// What every worker calls.
const SERVING: [Calls; 3] = [Calls::Common, Calls::Connections, Calls::Files];

/// Bytes beside the cache that may be locked in memory.
const LOCKED_BESIDE: u64 = 1 << 20;

/// What the master keeps: it binds addresses, opens roots, makes children that become other users,
/// tells them to end, and raises their limits.
const OF_MASTER: &[Capability] = &[
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Fowner,
    Capability::IpcLock,
    Capability::Kill,
    Capability::NetAdmin,
    Capability::NetBindService,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::Setuid,
    Capability::SysResource,
];

/// What tells of the machine and of processes.
const STATISTICS: [&str; 2] = ["/proc", "/sys/fs/cgroup"];

/// What a call leads to that is not allowed. In a build for development it is our own mistake, and
/// ends the process so that a test sees it.
fn violation(settings: &SandboxSettings) -> Violation {
    let default = if cfg!(debug_assertions) { Violation::Kill } else { Violation::Refuse };
    settings.forbidden_call.unwrap_or(default)
}

/// Who workers become; `None` when they stay who they are.
///
/// # Errors
/// Which name has no user, or that only the superuser can become another.
fn identity(settings: &SandboxSettings) -> Result<Option<Identity>, String> {
    let group = settings.group.as_deref();
    let found = match &settings.user {
        Some(user) => Identity::find(user, group)?,
        None if group.is_some() => {
            let own = Identity::own();
            Identity { name: own.name, ..Identity::find(&own.user.to_string(), group)? }
        }
        None if !settings.by_file || !process::is_root() => return Ok(None),
        None => match USERS.iter().find_map(|user| Identity::find(user, None).ok()) {
            Some(found) => found,
            None => Identity { user: NOBODY, group: NOBODY, name: NOBODY.to_string() },
        },
    };
    let own = Identity::own();
    if (found.user, found.group) == (own.user, own.group) {
        return Ok(None);
    }
    if !keeps(Capability::Setuid) || !keeps(Capability::Setgid) {
        return Err(format!("only the superuser can become {}", found.name));
    }
    Ok(Some(found))
}

/// Which child it is that gives its rights up.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// A worker of this architecture.
    Worker(&'static dyn Architecture),
    /// Serves `--admin`.
    Admin,
    /// Writes the access log, to this file.
    Log(&'a [&'a Path]),
    /// Starts programs, as the user that workers are.
    Spawner,
    /// Becomes the agent that gets certificates, which gives up the rest itself.
    Agent,
}

/// What was found out before the first fork.
#[derive(Clone, Debug)]
pub(crate) struct Confinement {
    mode: SandboxMode,
    identity: Option<Identity>,
    kernel: Kernel,
    violation: Violation,
    /// Its memory, and that of its children, holds private keys.
    hides_memory: bool,
}

impl Confinement {
    /// Asks the kernel, and finds the user.
    ///
    /// # Errors
    /// What the kernel lacks, when all is required; a user who does not exist.
    pub(crate) fn new(
        architecture: &dyn Architecture,
        settings: &Settings,
    ) -> Result<Confinement, String> {
        let sandbox = &settings.sandbox;
        let kernel = match sandbox.mode {
            SandboxMode::Off => Kernel::NOTHING,
            SandboxMode::On | SandboxMode::Required => Kernel::probe(),
        };
        let missing = kernel.missing(uses_ring(architecture, settings));
        if sandbox.mode == SandboxMode::Required && !missing.is_empty() {
            let missing = missing.join(", ");
            let why = format!("it is required, but this kernel lacks {missing}");
            return Err(settings.blame("sandbox", why));
        }
        let identity = identity(sandbox).map_err(|why| settings.blame("user", why))?;
        // Found out from files that workers may not open, and kept for them.
        let _ = (Probe::here(), stacks_max());
        let (mode, violation) = (sandbox.mode, violation(sandbox));
        let hides_memory = settings.speaks_tls();
        Ok(Confinement { mode, identity, kernel, violation, hides_memory })
    }

    /// What is left undone, for the operator.
    pub(crate) fn warnings(&self, uses_ring: bool, settings: &Settings) -> Vec<String> {
        if self.mode == SandboxMode::Off {
            return Vec::new();
        }
        let missing = self.kernel.missing(uses_ring);
        let missing = missing.into_iter().map(|what| format!("sandbox: this kernel lacks {what}"));
        let closed = beside(settings).filter_map(Result::err);
        missing.chain(closed.map(|why| settings.blame("sandbox-read", why))).collect()
    }

    /// The name of the user that workers become, if it is another.
    pub(crate) fn user(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.name.as_str())
    }

    /// Who the agent becomes, if it is another: the user that workers are, who keeps the group of
    /// the master. By that it alone of all processes of that user enters its storage, and none of
    /// them can trace it, which takes the same groups.
    pub(crate) fn identity_of_agent(&self) -> Option<Identity> {
        let group = Identity::own().group;
        self.identity.clone().map(|identity| Identity { group, ..identity })
    }

    /// Tries in a process of its own whether workers can become who they shall be.
    ///
    /// # Errors
    /// Who that is, when they cannot.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.lets_workers(|| true) {
            true => Ok(()),
            false => Err(format!("workers cannot become {}", self.rights().user())),
        }
    }

    /// By which rights everything is opened that sites name: those of workers.
    pub(crate) fn rights(&self) -> Rights {
        match self.changes_rights() {
            true => Rights::of(self.identity.clone()),
            false => Rights::OWN,
        }
    }

    /// Whether workers can do something that only their rights decide.
    pub(crate) fn lets_workers(&self, what: impl FnOnce() -> bool) -> bool {
        if !self.changes_rights() {
            return what();
        }
        self.ask_as_worker(|| u32::from(what())).is_ok_and(|answer| answer == 1)
    }

    /// Whether the agent can do something that only who it is decides.
    pub(crate) fn lets_agent(&self, what: impl FnOnce() -> bool) -> bool {
        match self.identity_of_agent() {
            None => what(),
            identity => {
                self.ask_as(identity.as_ref(), || u32::from(what())).is_ok_and(|it| it == 1)
            }
        }
    }

    /// Whether workers have other rights than this process.
    fn changes_rights(&self) -> bool {
        self.identity.is_some() || (self.mode != SandboxMode::Off && process::is_root())
    }

    /// Asks a process that becomes what workers are; `u32::MAX` when it cannot.
    fn ask_as_worker(&self, question: impl FnOnce() -> u32) -> io::Result<u32> {
        self.ask_as(self.identity.as_ref(), question)
    }

    /// Asks a process that becomes this user.
    fn ask_as(
        &self,
        identity: Option<&Identity>,
        question: impl FnOnce() -> u32,
    ) -> io::Result<u32> {
        process::ask_child(|| {
            let sandbox = Sandbox { identity, grants: None, calls: None, ..self.sandbox(None) };
            match sandbox.apply() {
                Ok(()) => question(),
                Err(_) => u32::MAX,
            }
        })
    }

    /// In the master, before it reads private keys: keeps other processes of its user, as programs
    /// are where there is one user for all, from its memory.
    ///
    /// # Errors
    /// Never on Linux, in practice.
    pub(crate) fn hide_keys(&self) -> Result<(), String> {
        let hidden = if self.hides_memory { process::hide_memory() } else { Ok(()) };
        hidden.map_err(|error| format!("the memory of private keys cannot be hidden: {error}"))
    }

    /// In the master: gives up what neither it nor a child ever needs.
    pub(crate) fn confine_master(&self) -> io::Result<()> {
        match self.mode {
            SandboxMode::Off => Ok(()),
            SandboxMode::On | SandboxMode::Required => keep_capabilities(OF_MASTER),
        }
    }

    /// In a child of one thread: gives up all that its part does not need, for good. `parent` is
    /// the process that it shall end with, if it shall.
    ///
    /// # Errors
    /// Which step failed; the process must end then.
    pub(crate) fn confine(
        &self,
        part: Part<'_>,
        settings: &Settings,
        sites: &Sites,
        parent: Option<i32>,
    ) -> io::Result<()> {
        let base = self.sandbox(parent);
        if self.mode == SandboxMode::Off && base.identity.is_none() && !matches!(part, Part::Admin)
        {
            return if self.hides_memory { process::hide_memory() } else { Ok(()) };
        }
        match part {
            Part::Worker(architecture) => {
                let beside: Vec<OwnedFd> = beside(settings).filter_map(Result::ok).collect();
                let grants = grants_of_worker(settings, sites, &beside);
                let calls = calls_of_worker(architecture, settings, sites);
                let locked_bytes = if calls.contains(&Calls::Ring) {
                    // Rings count, those of all processes of a user together (Linux 6.14).
                    Some(u64::MAX)
                } else {
                    let locks = architecture.locks_caches() || settings.caches.locks;
                    locks.then_some(settings.caches.content_bytes_max.saturating_add(LOCKED_BESIDE))
                };
                let (grants, calls) = (Some(grants.as_slice()), Some(calls.as_slice()));
                Sandbox { grants, calls, locked_bytes, connects: &ports_of(sites), ..base }.apply()
            }
            Part::Admin => {
                let nobody = Identity { user: NOBODY, group: NOBODY, name: NOBODY.to_string() };
                let identity = process::is_root().then_some(&nobody);
                let grants = STATISTICS.map(|path| Grant::At(Path::new(path), Access::Read));
                let calls =
                    [Calls::Common, Calls::Connections, Calls::Files, Calls::Readiness].as_slice();
                Sandbox { identity, grants: Some(&grants), calls: Some(calls), ..base }.apply()
            }
            // What programs do is theirs to say, but for whom they do it as.
            Part::Spawner => base.apply(),
            Part::Agent => Sandbox { identity: self.identity_of_agent().as_ref(), ..base }.apply(),
            Part::Log(paths) => {
                let places: Vec<(&Path, Option<Place>)> =
                    paths.iter().map(|path| (*path, Place::of(path).ok())).collect();
                let grants: Vec<Grant<'_>> = places.iter().filter_map(grant_of_log).collect();
                let calls = [
                    Calls::Common,
                    Calls::Connections,
                    Calls::Files,
                    Calls::Readiness,
                    Calls::Append,
                    Calls::Locks,
                ];
                // Its files belong to the user who started the server, and may lie in a directory
                // of another.
                let capabilities = [Capability::DacOverride].as_slice();
                let (identity, umask) = (None, false);
                let (grants, calls) = (Some(grants.as_slice()), Some(calls.as_slice()));
                Sandbox { identity, umask, capabilities, grants, calls, ..base }.apply()
            }
        }
    }

    /// What a worker's rings are made by.
    pub(crate) fn rings(&self) -> Rings {
        Rings { restricted: self.kernel.rings == Some(true), sealed: self.kernel.seccomp }
    }

    fn sandbox(&self, parent: Option<i32>) -> Sandbox<'_> {
        Sandbox {
            identity: self.identity.as_ref(),
            capabilities: &[],
            umask: true,
            locked_bytes: None,
            grants: None,
            connects: &[],
            calls: None,
            violation: self.violation,
            kernel: self.kernel,
            hides_memory: self.hides_memory,
            parent,
        }
    }
}

/// Whether the workers of an architecture have rings.
pub(crate) fn uses_ring(architecture: &dyn Architecture, settings: &Settings) -> bool {
    architecture.calls(settings).contains(&Calls::Ring)
}

/// What a server of this architecture misses of what the kernel could take rights away with.
pub(crate) fn missing(architecture: &dyn Architecture, settings: &Settings) -> Vec<&'static str> {
    match settings.sandbox.mode {
        SandboxMode::Off => Vec::new(),
        SandboxMode::On | SandboxMode::Required => {
            Kernel::probe().missing(uses_ring(architecture, settings))
        }
    }
}

/// What is named beside the roots, open, or why it is not. A link of another user is not followed:
/// that user could have made it since the path was written down.
fn beside(settings: &Settings) -> impl Iterator<Item = Result<OwnedFd, String>> {
    settings.sandbox.read.iter().map(|path| {
        let opened = open_by_own_links(path);
        opened.map_err(|why| format!("workers may not read {}: {why}", path.display()))
    })
}

/// The roots, and what is named beside them. Links that lead anywhere are followed only where a
/// rule lets them.
fn grants_of_worker<'a>(
    settings: &'a Settings,
    sites: &'a Sites,
    beside: &'a [OwnedFd],
) -> Vec<Grant<'a>> {
    let roots = sites.roots().into_iter().map(|root| Grant::Open(root.as_fd(), Access::Read));
    let beside = beside.iter().map(|place| Grant::Open(place.as_fd(), Access::Read));
    // The leader of a group looks at its own descriptors.
    let own = Grant::At(Path::new("/proc/self/fd"), Access::Read);
    let spool = sites.spool().map(|spool| Grant::Open(spool.directory(), Access::Write));
    let mut grants: Vec<Grant<'_>> = roots.chain(beside).chain([own]).chain(spool).collect();
    if settings.sandbox.read.is_empty() && sites.follow_all_links() {
        grants.push(Grant::At(Path::new("/"), Access::Read));
    }
    grants
}

/// The ports of servers that answer. Landlock goes by ports, and not by addresses.
fn ports_of(sites: &Sites) -> Vec<u16> {
    let port = |upstream: &Upstream| match upstream.server() {
        Endpoint::Tcp(address) => Some(address.port()),
        Endpoint::Unix(_) => None,
    };
    sites.upstreams().into_iter().filter_map(|upstream| port(upstream)).collect()
}

/// The groups of system calls that a worker is left with.
fn calls_of_worker(
    architecture: &dyn Architecture,
    settings: &Settings,
    sites: &Sites,
) -> Vec<Calls> {
    let own = architecture.calls(settings);
    let mut calls = [&SERVING, own].concat();
    if settings.experiment.as_ref().is_some_and(|e| e.accept_lock.is_some()) {
        calls.push(Calls::Locks);
    }
    calls.extend(architecture.bounds_its_queues(settings).then_some(Calls::Listen));
    // Pipes for programs, which another process starts, and waiting for them.
    let for_programs = [Calls::Handover, Calls::Readiness];
    let missing = for_programs.into_iter().filter(|group| !own.contains(group));
    calls.extend(missing.filter(|_| sites.programs().is_some()));
    calls.extend(sites.spool().filter(|s| s.unlinks()).map(|_| Calls::Append));
    calls.extend(calls_of_servers(sites));
    calls.extend(sites.has_modules().then_some(Calls::Timers));
    calls
}

/// What connecting to servers that answer takes.
fn calls_of_servers(sites: &Sites) -> Option<Calls> {
    let upstreams = sites.upstreams();
    let is_unix = upstreams.iter().all(|one| matches!(one.server(), Endpoint::Unix(_)));
    (!upstreams.is_empty()).then_some(if is_unix { Calls::ConnectUnix } else { Calls::Connect })
}

/// The directory of the log, in which files are put aside; a device or a pipe only itself.
fn grant_of_log<'a>((path, place): &'a (&Path, Option<Place>)) -> Option<Grant<'a>> {
    let place = place.as_ref()?;
    Some(match log_file::is_special(path) {
        true => Grant::At(path, Access::Write),
        false => Grant::Open(place.directory(), Access::Write),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_found_only_for_the_superuser_with_a_file() {
        let none = SandboxSettings::default();
        assert_eq!(identity(&none), Ok(None));
        let by_file = SandboxSettings { by_file: true, ..SandboxSettings::default() };
        assert_eq!(identity(&by_file).unwrap().is_some(), process::is_root());
        let own = SandboxSettings { user: Some(Identity::own().user.to_string()), ..by_file };
        assert_eq!(identity(&own), Ok(None));
        let nobody = SandboxSettings { user: Some("no such user".into()), ..own };
        assert!(identity(&nobody).is_err());
    }
}
