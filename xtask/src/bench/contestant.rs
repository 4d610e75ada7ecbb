//! The servers that are compared, and how each is started at its best.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flyball_testkit::wait;

use super::failure::Failure;
use super::files;
use super::process::{self, Running};
use super::rivals;
use super::work::{Connection, Work};

/// CPU of every server.
pub(crate) const SERVER_CPU: usize = 0;

/// Time a server gets to accept its first connection.
const READY_MAX: Duration = Duration::from_secs(60);
/// Last number of the first contestant's loopback address.
const FIRST_HOST: u8 = 11;

/// Connections from which on only event-driven architectures take part.
const POOLED_MAX: u32 = 64;

/// One contestant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// Flyball with one of its architectures.
    Flyball {
        /// Name of the architecture.
        arch: String,
        /// Which of two builds.
        build: Build,
    },
    /// nginx.
    Nginx {
        /// Whether it asks for connections that have data already (TCP_DEFER_ACCEPT).
        deferred: bool,
    },
    /// lighttpd.
    Lighttpd,
    /// The server that does nothing (lab/null).
    Null,
}

/// A build of Flyball.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// The one that is measured.
    Own,
    /// Another, that it is held against.
    Beside,
}

impl Contestant {
    /// Names of the servers, as the command line has them.
    pub(crate) const SERVERS: &[&str] = &["flyball", "nginx", "nginx-deferred", "lighttpd", "null"];

    /// The contestants of one server: Flyball is one for each architecture.
    pub(crate) fn of_server(server: &str, archs: &[String]) -> Vec<Contestant> {
        match server {
            "nginx" => vec![Contestant::Nginx { deferred: false }],
            "nginx-deferred" => vec![Contestant::Nginx { deferred: true }],
            "lighttpd" => vec![Contestant::Lighttpd],
            "null" => vec![Contestant::Null],
            _ => archs.iter().map(|arch| Contestant::flyball(arch)).collect(),
        }
    }

    /// The build that is measured, with one of its architectures.
    pub(crate) fn flyball(arch: &str) -> Contestant {
        Contestant::Flyball { arch: arch.to_owned(), build: Build::Own }
    }

    /// The other build with the same architecture; none of another server.
    pub(crate) fn beside(&self) -> Option<Contestant> {
        let Contestant::Flyball { arch, build: Build::Own } = self else { return None };
        Some(Contestant::Flyball { arch: arch.clone(), build: Build::Beside })
    }

    /// Name in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Contestant::Flyball { arch, build: Build::Own } => format!("flyball-{arch}"),
            Contestant::Flyball { arch, build: Build::Beside } => format!("beside-{arch}"),
            Contestant::Nginx { deferred: false } => "nginx".into(),
            Contestant::Nginx { deferred: true } => "nginx-deferred".into(),
            Contestant::Lighttpd => "lighttpd".into(),
            Contestant::Null => "null".into(),
        }
    }

    /// Whether it takes part in a work: deferred accept changes nothing once a connection is there,
    /// and who does nothing knows one answer and one way to end.
    pub(crate) fn takes_part(&self, work: &Work) -> bool {
        match self {
            Contestant::Nginx { deferred: true } => {
                work.targets.iter().any(|target| target.peer == self.name())
            }
            Contestant::Null => {
                work.connection != Connection::Pipelined && work.path == files::SMALL
            }
            // A pool of threads serves as many connections as it has threads, and no others.
            Contestant::Flyball { arch, .. } => {
                work.connections <= POOLED_MAX || rivals::EVENT_DRIVEN.contains(&arch.as_str())
            }
            _ => true,
        }
    }

    /// The program's own words on its version.
    pub(crate) fn version(&self, setup: &Setup) -> Result<String, Failure> {
        if *self == Contestant::Null {
            return Ok("answers every read, and parses nothing".into());
        }
        let flag = if matches!(self, Contestant::Flyball { .. }) { "--version" } else { "-v" };
        first_line(Command::new(self.program(setup)?).arg(flag))
    }

    fn program(&self, setup: &Setup) -> Result<PathBuf, Failure> {
        match self {
            Contestant::Flyball { build: Build::Own, .. } => Ok(setup.flyball.clone()),
            Contestant::Flyball { build: Build::Beside, .. } => Ok(setup.beside.clone()),
            Contestant::Nginx { .. } => process::find("nginx"),
            Contestant::Lighttpd => process::find("lighttpd"),
            Contestant::Null => Ok(setup.null.clone()),
        }
    }
}

/// First line that a program prints on either output.
pub(crate) fn first_line(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(Failure::io(format!("running {command:?}")))?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned())
}

/// What the contestants have in common.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Directory of the configuration templates.
    pub(crate) peers: PathBuf,
    /// The site that all serve.
    pub(crate) site: PathBuf,
    /// Where each has a directory for its configuration and logs.
    pub(crate) scratch: PathBuf,
    /// Flyball's binary.
    pub(crate) flyball: PathBuf,
    /// The binary of another build of it.
    pub(crate) beside: PathBuf,
    /// The binary of the server that does nothing.
    pub(crate) null: PathBuf,
    /// What it is told beside its address.
    pub(crate) null_arguments: Vec<OsString>,
    /// File to which a server writes its process id before it starts, to join a group.
    pub(crate) joins: Option<PathBuf>,
    /// Directory in which callgrind leaves its counts; else none counts instructions.
    pub(crate) counts: Option<PathBuf>,
    /// Configuration file of Flyball, which names the site; else it serves the site as it is.
    pub(crate) config: Option<PathBuf>,
    /// `KEY=VALUE` settings that Flyball gets.
    pub(crate) flyball_settings: Vec<String>,
}

/// A contestant that accepts connections. Ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// The contestant.
    pub(crate) contestant: Contestant,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its processes.
    pub(crate) running: Running,
}

impl Server {
    /// Starts a contestant and waits until it accepts. Each has a loopback address of its own, so
    /// that local ports in TIME-WAIT with one do not run out for the next.
    pub(crate) fn start(
        contestant: &Contestant,
        nth: usize,
        setup: &Setup,
    ) -> Result<Server, Failure> {
        let directory = setup.scratch.join(contestant.name());
        // What an earlier comparison left; it need not be there.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(Failure::io(directory.display()))?;
        let address = free_address(nth).map_err(Failure::io("looking for a free port"))?;
        let mut command = command(contestant, address, setup, &directory)?;
        let log = directory.join("output.log");
        let output = File::create(&log).map_err(Failure::io(log.display()))?;
        command.stderr(output.try_clone().map_err(Failure::io(log.display()))?).stdout(output);
        let running = Running::start(&mut command)?;
        let mut server = Server { contestant: contestant.clone(), address, running };
        wait_until_ready(&mut server.running, address, &contestant.name(), &log)?;
        Ok(server)
    }
}

/// Waits until a server of this name accepts, whose output is in `log`.
pub(crate) fn wait_until_ready(
    running: &mut Running,
    address: SocketAddr,
    name: &str,
    log: &Path,
) -> Result<(), Failure> {
    let ready = wait::until(READY_MAX, || {
        let accepts = TcpStream::connect(address).is_ok();
        (accepts || running.has_ended()).then_some(accepts)
    });
    if ready == Some(true) {
        return Ok(());
    }
    let what = if ready.is_none() { "accepts no connection" } else { "ended" };
    let said = fs::read_to_string(log).unwrap_or_default();
    Err(Failure::Broken(format!("{name} {what}: {}", said.trim())))
}

/// A port without a listener, at the nth contestant's address.
pub(crate) fn free_address(nth: usize) -> std::io::Result<SocketAddr> {
    let host = Ipv4Addr::new(127, 0, 0, FIRST_HOST + nth as u8);
    TcpListener::bind((host, 0))?.local_addr()
}

fn command(
    contestant: &Contestant,
    address: SocketAddr,
    setup: &Setup,
    directory: &Path,
) -> Result<Command, Failure> {
    let program = contestant.program(setup)?;
    let mut command = match (&setup.joins, &setup.counts) {
        (Some(group), _) => process::pinned_in(SERVER_CPU, group, &program)?,
        (None, Some(counts)) => {
            let mut command = process::pinned(SERVER_CPU, &process::find("valgrind")?)?;
            command.args(["--tool=callgrind", "--trace-children=yes", "--quiet"]);
            command.arg(format!("--callgrind-out-file={}/%p", counts.display())).arg(&program);
            command
        }
        (None, None) => process::pinned(SERVER_CPU, &program)?,
    };
    match contestant {
        Contestant::Flyball { arch, .. } => {
            command.arg("serve").args(["--listen", &address.to_string()]);
            match &setup.config {
                Some(file) => command.arg("--config").arg(file),
                None => command.arg(&setup.site),
            };
            command.args(["--arch", arch, "--workers", "1"]);
            if !setup.flyball_settings.iter().any(|set| set.starts_with("access-log=")) {
                command.args(["--access-log", "off"]);
            }
            command.args(setup.flyball_settings.iter().flat_map(|set| ["--set", set]));
        }
        Contestant::Nginx { deferred } => {
            let file = configure("nginx.conf", address, *deferred, setup, directory)?;
            command.arg("-p").arg(directory).arg("-c").arg(file);
            command.arg("-e").arg(directory.join("error.log"));
        }
        Contestant::Lighttpd => {
            let file = configure("lighttpd.conf", address, false, setup, directory)?;
            command.arg("-D").arg("-f").arg(file);
        }
        Contestant::Null => {
            command.arg(address.to_string()).args(&setup.null_arguments);
        }
    }
    Ok(command)
}

/// What a search over the settings of nginx and lighttpd begins with: their documentation's choice.
pub(crate) const UNTUNED: &[(&str, &str)] = &[
    ("@multi_accept@", "off"),
    ("@accept_mutex@", "off"),
    ("@sendfile@", "on"),
    ("@tcp_nopush@", "on"),
    ("@aio@", "off"),
    ("@open_file_cache@", "max=10000 inactive=1h"),
    ("@reuseport@", ""),
    ("@network-backend@", "sendfile"),
    ("@stat-cache-engine@", "simple"),
    ("@max-worker@", "0"),
];

/// Fills in a template and writes it into the contestant's directory.
fn configure(
    name: &str,
    address: SocketAddr,
    deferred: bool,
    setup: &Setup,
    directory: &Path,
) -> Result<PathBuf, Failure> {
    let template = setup.peers.join(format!("{name}.in"));
    let text = fs::read_to_string(&template).map_err(Failure::io(template.display()))?;
    let values = [
        ("@host@", address.ip().to_string()),
        ("@port@", address.port().to_string()),
        ("@site@", setup.site.display().to_string()),
        ("@dir@", directory.display().to_string()),
        ("@backlog@", "4096".to_owned()),
        ("@workers@", "1".to_owned()),
        ("@deferred@", if deferred { " deferred" } else { "" }.to_owned()),
        ("@user@", if is_root() { "user root;" } else { "" }.to_owned()),
    ];
    let text = values.iter().fold(text, |text, (key, value)| text.replace(key, value));
    let text = UNTUNED.iter().fold(text, |text, (key, value)| text.replace(key, value));
    let file = directory.join(name);
    fs::write(&file, text).map_err(Failure::io(file.display()))?;
    Ok(file)
}

/// Whether this process belongs to root. nginx would then hand its worker to an account that may
/// not be able to read the site; without root it warns when told a user.
pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flyball_is_a_contestant_for_each_architecture() {
        let archs = ["sped".to_owned(), "n-copy".to_owned()];
        let names: Vec<_> =
            Contestant::of_server("flyball", &archs).iter().map(Contestant::name).collect();
        assert_eq!(names, ["flyball-sped", "flyball-n-copy"]);
    }

    #[test]
    fn deferred_accept_takes_part_only_where_connections_are_new() {
        let deferred = Contestant::Nginx { deferred: true };
        assert!(deferred.takes_part(Work::named("new")));
        assert!(!deferred.takes_part(Work::named("keep")));
        assert!(Contestant::Lighttpd.takes_part(Work::named("keep")));
    }

    #[test]
    fn every_name_of_a_template_is_filled_in() {
        let scratch = std::env::temp_dir().join(format!("bench-conf-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/peers");
        let setup = Setup {
            peers,
            site: "/site".into(),
            scratch: scratch.clone(),
            flyball: PathBuf::new(),
            beside: PathBuf::new(),
            null: PathBuf::new(),
            null_arguments: Vec::new(),
            joins: None,
            counts: None,
            config: None,
            flyball_settings: Vec::new(),
        };
        let address = "127.0.0.11:81".parse().unwrap();
        for name in ["nginx.conf", "lighttpd.conf"] {
            let file = configure(name, address, true, &setup, &scratch).unwrap();
            let text = fs::read_to_string(file).unwrap();
            let settings = text.lines().filter(|line| !line.starts_with('#'));
            assert!(settings.clone().all(|line| !line.contains('@')), "{text}");
            assert!(settings.clone().any(|line| line.contains("127.0.0.11")), "{text}");
        }
        fs::remove_dir_all(scratch).unwrap();
    }
}
