//! What settings need of the machine and may not find there: directories of logs and sockets, a
//! group, CPUs, a congestion control. Each would be an error of the kernel's, which names neither
//! the setting nor what to do, and some of them only much later.

use std::io;
use std::path::Path;

use flyball_arch::settings::{AccessLog, Settings};
use flyball_sys::file_kind::{FileKind, kind_at};
use flyball_sys::net::Endpoint;
use flyball_sys::sandbox::Identity;
use flyball_sys::{log_file, machine, net, process};

/// Where a service manager makes directories when it starts a server: `RuntimeDirectory` and
/// `LogsDirectory` in systemd.exec(5). Those below the first are gone while none runs.
const MADE_AT_START: [&str; 3] = ["/run", "/var/run", "/var/log"];

/// Something that a setting needs and that is not so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The setting.
    pub key: &'static str,
    /// Which of the addresses that are listened on it is about, if any: one key has many.
    pub listener: Option<usize>,
    /// What is wrong, and what to do.
    pub why: String,
    /// Whether it may be otherwise when the server is started: then it is no error before.
    pub may_come: bool,
}

/// Everything that is lacking. Blocks on the disk.
pub fn lacks(settings: &Settings) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let logs = settings.log_files();
    lacks.extend(logs.iter().filter_map(|(key, path)| lack_of_file(key, path)));
    if let Some(path) = &settings.running.pid_file {
        lacks.extend(place("pid-file", path, is_plain));
    }
    let of_admin = settings.admin_endpoints().filter_map(Endpoint::unix);
    lacks.extend(of_admin.filter_map(|path| place("admin", path, is_socket)));
    for (at, listen) in settings.listen.iter().enumerate() {
        let socket = listen.address.unix().and_then(|path| place("listen", path, is_socket));
        let group = listen.group.as_ref().and_then(|name| group("listener.group", name));
        let both = socket.into_iter().chain(group);
        lacks.extend(both.map(|lack| Lack { listener: Some(at), ..lack }));
    }
    let of_admin = settings.running.admin_group.as_ref();
    lacks.extend(of_admin.and_then(|name| group("admin-group", name)));
    lacks.extend(cpu(settings));
    lacks.extend(congestion(settings));
    lacks
}

/// What is lacking for a log that is the value of this setting. Blocks on the disk.
pub fn lack_of_log(key: &'static str, log: &AccessLog) -> Option<Lack> {
    lack_of_file(key, log.path()?)
}

fn lack_of_file(key: &'static str, path: &Path) -> Option<Lack> {
    if log_file::is_link(path) {
        let why = "is a symbolic link, which no log follows; name the file itself, or `-`";
        return Some(Lack::new(key, format!("{} {why}", path.display())));
    }
    place(key, path, is_log)
}

impl Lack {
    fn new(key: &'static str, why: String) -> Lack {
        Lack { key, listener: None, why, may_come: false }
    }

    /// What is wrong, with the place where the setting was written; of an address, with that.
    pub(crate) fn told(&self, settings: &Settings) -> String {
        match self.listener.and_then(|at| settings.listen.get(at)) {
            Some(listen) => format!("{listen}: {}", self.why),
            None => settings.blame(self.key, &self.why),
        }
    }
}

/// What is wrong with where a file is to be made, or with what is there already.
fn place(
    key: &'static str,
    path: &Path,
    fits: fn(FileKind) -> Result<(), &'static str>,
) -> Option<Lack> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let shown = parent.display();
    match kind_at(parent) {
        Ok(kind) if kind != FileKind::Directory => {
            return Some(Lack::new(key, format!("{shown} is not a directory")));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = format!(
                "{}: there is no directory {shown}; make it, or name another place",
                path.display()
            );
            let may_come = MADE_AT_START.iter().any(|place| parent.starts_with(place));
            return Some(Lack { may_come, ..Lack::new(key, why) });
        }
        // A user who may not look there does not start the server.
        _ => {}
    }
    let wrong = kind_at(path).ok().and_then(|kind| fits(kind).err())?;
    Some(Lack::new(key, format!("{} {wrong}", path.display())))
}

fn is_log(kind: FileKind) -> Result<(), &'static str> {
    match kind {
        FileKind::Directory => Err("is a directory; name a file in it"),
        FileKind::Socket => Err("is a socket; a log is a file or a named pipe"),
        FileKind::File | FileKind::Other => Ok(()),
    }
}

/// It is replaced by another file.
fn is_plain(kind: FileKind) -> Result<(), &'static str> {
    let why = "is there and is no file; name another place";
    if kind == FileKind::File { Ok(()) } else { Err(why) }
}

/// One that is left over is removed, and nothing else.
fn is_socket(kind: FileKind) -> Result<(), &'static str> {
    let why = "is there and is no socket; remove it, or name another place";
    if kind == FileKind::Socket { Ok(()) } else { Err(why) }
}

/// A group of a socket that is not there.
fn group(key: &'static str, name: &str) -> Option<Lack> {
    Some(Lack::new(key, Identity::find("0", Some(name)).err()?))
}

/// Whether workers may be bound to the CPUs that are named.
fn cpu(settings: &Settings) -> Option<Lack> {
    let allowed = process::allowed_cpus();
    let cpu = settings.pin_cpus.iter().find(|cpu| settings.pin && !allowed.contains(cpu))?;
    let why = format!("CPU {cpu} is not one of those allowed: {allowed:?}");
    Some(Lack::new("pin-cpus", why))
}

/// The superuser may use those too that are a module, or that others may not.
fn congestion(settings: &Settings) -> Option<Lack> {
    let name = settings.congestion.as_ref()?;
    let why = match net::try_congestion(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let known = machine::sysctl("net/ipv4/tcp_available_congestion_control");
            let known = known.unwrap_or_default().replace(' ', ", ");
            format!("this kernel has no congestion control {name:?}; it has {known}")
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => format!(
            "only the superuser may use {name}, unless net.ipv4.tcp_allowed_congestion_control \
             lists it"
        ),
        _ => return None,
    };
    Some(Lack { may_come: !process::is_root(), ..Lack::new("tcp.congestion", why) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(settings: &Settings) -> Vec<(&'static str, bool)> {
        lacks(settings).iter().map(|lack| (lack.key, lack.may_come)).collect()
    }

    #[test]
    fn what_is_made_when_the_server_starts_may_come_and_nothing_else() {
        let log = |path: &str| Settings {
            access_log: AccessLog::File(path.into()),
            ..Settings::default()
        };
        assert_eq!(told(&Settings::default()), []);
        assert_eq!(told(&log("access.log")), []);
        assert_eq!(told(&log("/dev/null")), []);
        assert_eq!(told(&log("/no-such/access.log")), [("access-log", false)]);
        assert_eq!(told(&log("/run/no-such/access.log")), [("access-log", true)]);
        assert_eq!(told(&log("/var/log/no-such/access.log")), [("access-log", true)]);
        assert_eq!(told(&log("/running/access.log")), [("access-log", false)]);
    }
}
