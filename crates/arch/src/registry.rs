//! The table of architectures, and what each makes of settings.

use std::sync::Arc;

use crate::architecture::Architecture;
use crate::architectures::{
    amped, knot_a, knot_c, mp, mt, n_copy, shared_symped, sped, symped, thread_per_connection, tux,
    uring, watpipe,
};
use crate::settings::Settings;

/// The architecture that serves unless another is named.
pub const DEFAULT: &str = "n-copy";

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
        "cache.lock" => architecture.locks_caches() && settings.caches.locks,
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

/// The settings by which its workers go: of what is tried, they try what it honours.
pub fn as_honoured(architecture: &dyn Architecture, settings: &Arc<Settings>) -> Arc<Settings> {
    let Some(experiment) = &settings.experiment else { return Arc::clone(settings) };
    let tried = experiment.as_honoured(|key| !is_unused(architecture, key));
    Arc::new(Settings { experiment: Some(Box::new(tried)), ..Settings::clone(settings) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::HelperKind;
    use flyball_sys::lock::Way;
    use flyball_sys::sandbox::Calls;

    #[test]
    fn an_architecture_tries_what_it_honours() {
        let tries = |name: &str| {
            let mut settings = Settings { arch: name.into(), ..Settings::default() };
            settings.try_out(|experiment| {
                experiment.reject_percent = 100;
                experiment.accept_lock = Some(Way::Flock);
            });
            let settings = as_honoured(find(name).unwrap(), &Arc::new(settings));
            let tried = settings.experiment.as_deref().unwrap();
            (tried.reject_percent == 100, tried.accept_lock == Some(Way::Flock))
        };
        assert_eq!(tries("symped"), (true, true));
        assert_eq!(tries("sped"), (true, false));
        assert_eq!(tries("mt"), (false, true));
    }

    #[test]
    fn the_default_is_one_of_them() {
        assert_eq!(find(DEFAULT).map(Architecture::name), Some(DEFAULT));
    }

    #[test]
    fn only_rings_make_rings_and_only_who_forks_may_fork() {
        let with = |group, settings: &Settings| {
            let calls = |other: &&dyn Architecture| other.calls(settings).contains(&group);
            ALL.iter().copied().filter(calls).map(Architecture::name).collect::<Vec<_>>()
        };
        let threads = Settings::default();
        assert_eq!(with(Calls::Ring, &threads), ["tux", "uring"]);
        assert_eq!(with(Calls::Processes, &threads), ["shared-symped"]);
        let processes = Settings { helper_kind: HelperKind::Process, ..Settings::default() };
        let forking = ["shared-symped", "amped", "knot-c", "knot-a"];
        assert_eq!(with(Calls::Processes, &processes), forking);
        for group in [
            Calls::Agent,
            Calls::Append,
            Calls::Connect,
            Calls::ConnectUnix,
            Calls::Listen,
            Calls::Locks,
            Calls::Timers,
        ] {
            assert!(with(group, &processes).is_empty(), "{group:?}");
        }
    }
}
