//! Why the settings that hold are what they are: what was derived from the machine, what was cut
//! and by what, and what has no meaning for the architecture that was chosen.
//!
//! Nothing is bound and nothing is started; the limit of descriptors of this process is raised as a
//! server would raise it, since so much depends on that.

mod machine;

use std::fmt::Display;

use flyball_arch::descriptors::{DESCRIPTORS_RESERVED, FILES_SHARE, connections_that_fit};
use flyball_arch::settings::{AdminPlace, SandboxMode, Settings};
use flyball_arch::{ALL, AcceptLimit, Architecture, Auto, Cut, registry};
use flyball_sys::{cgroup, machine as kernel, process};

use crate::admin;
use crate::sandbox;
use crate::words::counted;
use crate::{spool, warnings};

pub use machine::{Fact, facts};

/// Why a setting is not just what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The machine, or another setting, said what `auto` is here.
    Derived,
    /// Less than was asked for.
    Cut,
    /// It has no meaning for the architecture.
    Ignored,
    /// What holds is what was asked for, and there is something to know about it.
    Note,
}

/// What became of one setting. There may be several for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Its key.
    pub key: &'static str,
    /// What kind of effect it is.
    pub kind: Kind,
    /// The value that holds; `None` leaves it as it was.
    pub value: Option<String>,
    /// Why, in words.
    pub why: String,
}

/// The effects of these settings under their architecture, on this machine. Blocks on the kernel's
/// file systems, and raises this process's limit of descriptors.
pub fn effects(architecture: &dyn Architecture, settings: &Settings) -> Vec<Effect> {
    let soft = kernel::descriptors().soft;
    let descriptors = process::raise_descriptor_limit();
    let mut settings = settings.clone();
    settings.cpus.get_or_insert_with(process::cpu_allowance);
    let mut effects = Effects { list: Vec::new(), architecture, settings: &settings };
    effects.architecture();
    effects.own_defaults();
    effects.processors();
    effects.caches(descriptors);
    let mut cut = settings.clone();
    cut.caches.files_max = cut.caches.files_max.min(descriptors / FILES_SHARE);
    effects.connections(&cut, soft, descriptors);
    effects.sockets();
    effects.sandbox();
    effects.spool();
    effects.admin();
    effects.list
}

struct Effects<'a> {
    list: Vec<Effect>,
    architecture: &'a dyn Architecture,
    settings: &'a Settings,
}

impl Effects<'_> {
    fn derived(&mut self, key: &'static str, value: impl Display, why: String) {
        self.list.push(Effect { key, kind: Kind::Derived, value: Some(value.to_string()), why });
    }

    fn cut(&mut self, key: &'static str, value: impl Display, why: String) {
        self.list.push(Effect { key, kind: Kind::Cut, value: Some(value.to_string()), why });
    }

    fn note(&mut self, key: &'static str, why: String) {
        self.list.push(Effect { key, kind: Kind::Note, value: None, why });
    }

    fn is_given(&self, key: &str) -> bool {
        self.settings.given.contains_key(key)
    }

    /// The spool directory, where the settings name none.
    fn spool(&mut self) {
        let (directory, by) = spool::directory(self.settings);
        if let Some(by) = by {
            self.derived("spool.directory", directory.display(), by.into());
        }
    }

    /// The server's own socket, whose place follows from the machine.
    fn admin(&mut self) {
        let Some(directory) = self.settings.admin_directory() else { return };
        if let Some(directory) = directory {
            let places = self.settings.admin.iter().map(|place| match place {
                AdminPlace::Own(_) => format!("unix:{}", admin::shown(directory)),
                AdminPlace::At(endpoint) => endpoint.to_string(),
            });
            let value = places.collect::<Vec<_>>().join(", ");
            let why = "a socket of its own in the runtime directory, named after its process";
            self.derived("admin", value, why.to_owned());
        }
        if let Some(why) = admin::lack(self.settings) {
            self.note("admin", format!("there will be no such socket: {why}"));
        }
    }

    /// Whether the architecture can run, and which settings it ignores.
    fn architecture(&mut self) {
        if let Err(why) = self.architecture.probe() {
            self.note("arch", format!("cannot run here: {why}"));
        }
        let why = format!("no meaning for {}", self.architecture.name());
        for key in registry::unused_keys(self.architecture, self.settings) {
            let (kind, why) = (Kind::Ignored, why.clone());
            self.list.push(Effect { key, kind, value: None, why });
        }
    }

    /// Defaults that are this architecture's own.
    fn own_defaults(&mut self) {
        let name = self.architecture.name();
        for (key, value) in self.architecture.defaults() {
            if !self.is_given(key) {
                self.derived(key, value, format!("the default of {name}"));
            }
        }
        let (asked, limit) =
            (self.settings.accept_limit, self.architecture.accept_limit(self.settings));
        if asked == AcceptLimit::Auto && limit != asked {
            let why = format!("the default of {name}, without a governor that is on");
            self.derived("accept.limit", limit, why);
        }
    }

    /// How many of what there is one of for each CPU, and what else is left to the machine.
    fn processors(&mut self) {
        let (settings, architecture) = (self.settings, self.architecture);
        let (cpus, processes) = (settings.cpus(), architecture.processes(settings));
        let allowed = process::allowed_cpus();
        let mask = format!("{} in the affinity mask", counted(allowed.len() as u64, "CPU"));
        let why = match cgroup::cpu_quota() {
            Some(quota) if (quota.most.ceil() as usize) < allowed.len() => {
                format!("a quota of {} CPUs in {}; {mask}", quota.most, quota.file)
            }
            Some(quota) => format!("{mask}; a quota of {} CPUs in {}", quota.most, quota.file),
            None => format!("{mask}; no quota of a cgroup"),
        };
        let name = architecture.name();
        match settings.workers {
            None if processes == cpus && architecture.honours("workers") => {
                self.derived("workers", processes, why.clone());
            }
            None => self.derived("workers", processes, format!("what {name} runs")),
            Some(asked) if asked > cpus => {
                self.note("workers", format!("more than the CPUs that it may use: {why}"));
            }
            Some(_) => {}
        }
        for auto in ALL.iter().filter_map(|other| other.auto(settings)) {
            match auto {
                Auto::ByCpus(key, value) => self.derived(key, value, why.clone()),
                Auto::Told(key, what) => self.note(key, what),
            }
        }
    }

    /// What the caches may hold, all of them together.
    fn caches(&mut self, descriptors: usize) {
        let caches = &self.settings.caches;
        let share = descriptors / FILES_SHARE;
        if caches.files_max > share {
            let why = format!("a quarter of {}", counted(descriptors as u64, "descriptor"));
            self.cut("cache.files", share, format!("{why}: connections need the others"));
        }
        let workers = self.architecture.workers(self.settings) as u64;
        let mut own = self.architecture.defaults().iter();
        let own = own.any(|(key, _)| *key == "cache.content" && !self.is_given(key));
        if own || self.architecture.shares_cache() {
            return;
        }
        let all = workers.saturating_mul(caches.content_bytes_max);
        if workers > 1 {
            let all = bytes(all);
            self.note("cache.content", format!("each of {workers} workers has its own: {all}"));
        }
        let memory = kernel::memory_bytes().map(|most| (most, "the machine".to_owned()));
        let limit = cgroup::memory_limit().map(|limit| (limit.most, limit.file));
        if let Some((most, by)) = memory.into_iter().chain(limit).min()
            && all > most
        {
            let (all, most) = (bytes(all), bytes(most));
            self.note("cache.content", format!("{all} in all is more than the {most} of {by}"));
        }
    }

    /// How many connections there is room for, and the threads that serve them. `cut` are the
    /// settings as a server would run by them.
    fn connections(&mut self, cut: &Settings, soft: Option<u64>, descriptors: usize) {
        if registry::is_unused(self.architecture, "connections.max") {
            return;
        }
        let room = connections_that_fit(cut);
        let limit = match soft {
            Some(soft) if soft < descriptors as u64 => {
                format!("{descriptors} descriptors (the soft limit of {soft} raised to the hard)")
            }
            _ => counted(descriptors as u64, "descriptor"),
        };
        let files = cut.caches.files_max;
        let others = format!("{files} of cache.files and {DESCRIPTORS_RESERVED}");
        let why = format!("per worker: {limit} less {others}");
        match cut.max_connections {
            None => self.derived("connections.max", room, why),
            Some(asked) if asked > room => self.cut("connections.max", room, why),
            Some(_) => {}
        }
        let connections = cut.max_connections.map_or(room, |most| most.min(room));
        if let Some(Cut { key, most, by }) = self.architecture.cut(cut, connections) {
            self.cut(key, most, by);
        }
    }

    /// What the kernel makes of the sockets' options.
    fn sockets(&mut self) {
        let settings = self.settings;
        for warnings::Cut { key, most, limit, unit, .. } in warnings::cuts(settings) {
            self.cut(key, format!("{most}{unit}"), format!("by {limit}"));
        }
        let available = kernel::sysctl("net/ipv4/tcp_available_congestion_control");
        match &settings.congestion {
            None => {
                if let Some(name) = kernel::sysctl("net/ipv4/tcp_congestion_control") {
                    let why = "net.ipv4.tcp_congestion_control".to_owned();
                    self.derived("tcp.congestion", name, why);
                }
            }
            Some(name) => {
                let is_known = |all: &String| all.split_whitespace().any(|known| known == name);
                if let Some(all) = available.filter(|all| !is_known(all)) {
                    self.note("tcp.congestion", format!("the kernel has loaded only: {all}"));
                }
            }
        }
        if settings.running.port_tries > 0 {
            let (tries, first) = (settings.running.port_tries, settings.listen.first());
            let why = format!("or the next free port of the {tries} above it");
            self.derived("listen", first.map(ToString::to_string).unwrap_or_default(), why);
        }
    }

    /// What a server here would do without.
    fn sandbox(&mut self) {
        for what in sandbox::missing(self.architecture, self.settings) {
            let then = match self.settings.sandbox.mode {
                SandboxMode::Required => "the server does not start",
                SandboxMode::On | SandboxMode::Off => "done without",
            };
            self.note("sandbox", format!("this kernel lacks {what}: {then}"));
        }
    }
}

/// A size as it is written in settings, in the largest unit that keeps it whole; beyond 10 GiB it
/// is rounded down.
fn bytes(n: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits =
        |(_, unit): &&(&str, u64)| n >= *unit && (n.is_multiple_of(*unit) || n / *unit >= 10);
    UNITS.iter().find(fits).map_or(format!("{n}B"), |(name, unit)| format!("{}{name}", n / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_arch::GovernorMode;

    fn of(name: &str, settings: &Settings) -> Vec<Effect> {
        effects(registry::find(name).unwrap(), settings)
    }

    fn find(effects: &[Effect], key: &str, kind: Kind) -> Option<Effect> {
        effects.iter().find(|effect| effect.key == key && effect.kind == kind).cloned()
    }

    #[test]
    fn sizes_are_written_as_in_settings() {
        assert_eq!(bytes(0), "0B");
        assert_eq!(bytes(1000), "1000B");
        assert_eq!(bytes(1024), "1KiB");
        assert_eq!(bytes(256 << 20), "256MiB");
        assert_eq!(bytes((16 << 30) + 1), "16GiB");
    }

    #[test]
    fn an_architecture_says_what_it_makes_nothing_of() {
        let sped = of("sped", &Settings::default());
        assert!(find(&sped, "amped.helpers", Kind::Ignored).is_some());
        assert!(find(&sped, "accept.limit", Kind::Ignored).is_none());
        let amped = of("amped", &Settings::default());
        assert!(find(&amped, "amped.helpers", Kind::Ignored).is_none());
    }

    #[test]
    fn defaults_of_an_architecture_give_way_to_what_is_written() {
        let settings = Settings::default();
        let own = find(&of("uring", &settings), "accept.limit", Kind::Derived).unwrap();
        assert_eq!((own.value.as_deref(), own.why.as_str()), (Some("inf"), "the default of uring"));
        let written = [("accept.limit", String::new())].into();
        let given = Settings { given: written, ..settings };
        assert_eq!(find(&of("uring", &given), "accept.limit", Kind::Derived), None);
    }

    #[test]
    fn an_accept_limit_is_left_to_a_governor_that_there_is() {
        let mut settings = Settings { accept_limit: AcceptLimit::Auto, ..Settings::default() };
        settings.given = [("accept.limit", String::new())].into();
        let found = |name, settings: &Settings| {
            let limit = find(&of(name, settings), "accept.limit", Kind::Derived);
            limit.and_then(|effect| effect.value)
        };
        assert_eq!(found("sped", &settings).as_deref(), Some("16"));
        settings.governor.mode = GovernorMode::On;
        assert_eq!(found("sped", &settings), None);
        assert_eq!(found("uring", &settings).as_deref(), Some("inf"));
        settings.governor.mode = GovernorMode::Watch;
        assert_eq!(found("knot-c", &settings).as_deref(), Some("1"));
    }

    #[test]
    fn caches_that_do_not_fit_into_memory_are_told() {
        let mut settings = Settings { workers: Some(4), ..Settings::default() };
        settings.caches.content_bytes_max = 1 << 60;
        let effects = of("n-copy", &settings);
        let notes: Vec<&str> = effects
            .iter()
            .filter(|effect| effect.key == "cache.content")
            .map(|effect| effect.why.as_str())
            .collect();
        assert_eq!(notes[0], "each of 4 workers has its own: 4294967296GiB");
        assert!(notes[1].starts_with("4294967296GiB in all is more than the "), "{notes:?}");
    }
}
