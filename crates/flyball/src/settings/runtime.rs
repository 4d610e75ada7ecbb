//! Where a server that runs is found: the runtime directory.

use std::env;
use std::path::PathBuf;

use flyball_arch::{AdminPlace, Settings};
use flyball_sys::process;
use flyball_sys::sandbox::Identity;

/// What systemd says that `RuntimeDirectory` has made (systemd.exec(5)); several are divided by
/// colons.
const OF_SYSTEMD: &str = "RUNTIME_DIRECTORY";

/// The same for the unit of the packages: it goes with all that is in it when that service stops.
const OF_SERVICE: &str = "/run/flyball";

/// That of a server which the superuser starts without a service manager.
const OF_SUPERUSER: &str = "/run/flyball-root";

/// Of any other user, below what this says (XDG Base Directory Specification).
const OF_USER: &str = "XDG_RUNTIME_DIR";

/// Below which systemd makes that, by the numbers of users (pam_systemd(8)).
const OF_USERS: &str = "/run/user";

/// The runtime directory of a server that is started here. It need not be there; `None` where there
/// is no place for one.
fn runtime_directory() -> Option<PathBuf> {
    of_systemd().or_else(|| match process::is_root() {
        true => Some(OF_SUPERUSER.into()),
        false => of_user(),
    })
}

/// The runtime directories of servers that who runs this process may want to talk to: first those
/// that it would start itself.
pub fn runtime_directories() -> Vec<PathBuf> {
    if let Some(directory) = of_systemd() {
        return vec![directory];
    }
    let own = runtime_directory().filter(|own| own.as_os_str() != OF_SUPERUSER);
    own.into_iter().chain([OF_SERVICE, OF_SUPERUSER].map(PathBuf::from)).collect()
}

fn of_systemd() -> Option<PathBuf> {
    env::split_paths(&env::var_os(OF_SYSTEMD)?).next().filter(|path| path.is_absolute())
}

fn of_user() -> Option<PathBuf> {
    let named = env::var_os(OF_USER).map(PathBuf::from).filter(|path| path.is_absolute());
    // A shell of `su` or a job of cron is not told of it.
    let made = || Some(PathBuf::from(OF_USERS).join(Identity::own().user.to_string()));
    Some(named.or_else(|| made().filter(|path| path.is_dir()))?.join("flyball"))
}

/// Says where the server's own socket is to be.
pub(super) fn place(settings: &mut Settings) {
    for place in &mut settings.admin {
        if let AdminPlace::Own(directory) = place {
            *directory = runtime_directory();
        }
    }
}
