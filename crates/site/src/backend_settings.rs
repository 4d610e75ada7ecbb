//! What a site says about its backends.

use std::path::{Path, PathBuf};

use flyball_sys::executable::Executable;
use flyball_sys::file;
use flyball_sys::net::{self, Endpoint};
use flyball_sys::program;
use flyball_sys::responder::check_place;
use flyball_sys::sandbox::Rights;

use crate::routes::closed;

/// Programs that are started for each request (RFC 3875).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgiSettings {
    /// The path; it and all beneath it are meant.
    pub path: String,
    /// The program that answers for all of them.
    pub program: Option<PathBuf>,
    /// Or the directory in which programs are looked for by the path.
    pub root: Option<PathBuf>,
    /// Variables of its environment beside those of RFC 3875.
    pub environment: Vec<(String, String)>,
    /// Directories of which it may have files sent (`X-Sendfile`).
    pub sendfile_roots: Vec<PathBuf>,
    /// What it may use.
    pub limits: BackendLimits,
}

impl CgiSettings {
    /// Whether what it names is there: else the key of the setting that is wrong, and why. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// The last part of the key, and a sentence.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match (&self.program, &self.root) {
            (Some(program), None) => check_program(program),
            (None, Some(root)) => match program::find(root) {
                Ok(program::Found::Directory) => Ok(()),
                Ok(program::Found::File) => {
                    Err(("root", format!("{} is not a directory", root.display())))
                }
                Err(error) => Err(("root", format!("{} cannot be found: {error}", root.display()))),
            },
            (Some(_), Some(_)) => {
                Err(("root", "is given beside `program`: one of them counts".into()))
            }
            (None, None) => Err(("program", "is missing: give `program` or `root`".into())),
        }
    }
}

fn check_program(path: &Path) -> Result<(), (&'static str, String)> {
    let checked = Executable::find(path).and_then(|file| file.check());
    checked.map_err(|error| ("program", format!("{} cannot be run: {error}", path.display())))
}

/// A server that answers requests: one that speaks FastCGI, or SCGI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponderSettings {
    /// The path; it and all beneath it are meant, as far as `extensions` says.
    pub path: String,
    /// Extensions of files, without the dot, one of which the path must have; empty is any path.
    pub extensions: Vec<String>,
    /// Where it listens.
    pub server: Option<Endpoint>,
    /// The directory in which it looks for scripts by the path; `None` is the root of the site.
    pub root: Option<PathBuf>,
    /// The script that answers for all paths.
    pub script: Option<PathBuf>,
    /// Whether a script must be a regular file of the site before the server is asked for it;
    /// `None` where the server can be expected to see the same files.
    pub require_script: Option<bool>,
    /// Parameters beside those of RFC 3875.
    pub params: Vec<(String, String)>,
    /// Directories of which it may have files sent (`X-Sendfile`).
    pub sendfile_roots: Vec<PathBuf>,
    /// Links to it that are kept for the next request, per worker.
    pub idle_links: usize,
    /// Links to it that are in use at the same time, per worker; `None` is no limit.
    pub links_max: Option<usize>,
    /// Requests that wait for a link, per worker.
    pub queue_max: usize,
    /// What it may use.
    pub limits: BackendLimits,
    /// The processes that this server starts for it, if there is a program for that.
    pub pool: PoolSettings,
}

/// Bytes of a request body that are held in memory, if the configuration does not say.
const HELD_BYTES_MAX: u64 = 1024 * 1024;

impl Default for ResponderSettings {
    fn default() -> ResponderSettings {
        ResponderSettings {
            path: "/".into(),
            extensions: Vec::new(),
            server: None,
            root: None,
            script: None,
            require_script: None,
            params: Vec::new(),
            sendfile_roots: Vec::new(),
            idle_links: 0,
            links_max: None,
            queue_max: 128,
            limits: BackendLimits::default(),
            pool: PoolSettings::default(),
        }
    }
}

impl ResponderSettings {
    /// Whether what it names can be right: else the key of the setting that is wrong, and why.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// The last part of the key, and a sentence.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.pool.check()?;
        match &self.server {
            Some(Endpoint::Tcp(_)) if self.pool.program.is_some() => {
                return Err(("socket", "must be a path, or none, beside `program`".into()));
            }
            None if self.pool.program.is_some() => {}
            None => return Err(("socket", "is missing: say where the server listens".into())),
            Some(Endpoint::Unix(path)) => {
                if net::is_socket_at(path) == Some(false) {
                    return Err(("socket", format!("{} is no socket", path.display())));
                }
            }
            Some(Endpoint::Tcp(_)) => {}
        }
        for root in &self.sendfile_roots {
            if !matches!(program::find(root), Ok(program::Found::Directory)) {
                return Err(("sendfile-roots", format!("{} is no directory", root.display())));
            }
        }
        Ok(())
    }

    /// Whether the socket that the workers' user makes can be where it shall be. Blocks on the
    /// disk.
    pub(crate) fn check_place(&self, rights: &Rights) -> Result<(), (&'static str, String)> {
        match &self.server {
            Some(Endpoint::Unix(path)) if self.pool.program.is_some() => {
                check_place(path, rights.number())
                    .map_err(|why| ("socket", format!("{}: {why}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Whether a script must be a regular file of the site before the server is asked for it.
    pub(crate) fn requires_script(&self) -> bool {
        let sees_our_files = self.root.is_none() && self.script.is_none();
        let is_here = match &self.server {
            Some(Endpoint::Unix(_)) => true,
            Some(Endpoint::Tcp(address)) => address.ip().to_canonical().is_loopback(),
            None => self.pool.program.is_some(),
        };
        self.require_script.unwrap_or(sees_our_files && is_here)
    }

    /// What is not there yet and may be later: its socket, or the right to connect to it. Blocks on
    /// the disk.
    pub(crate) fn missing(&self, rights: &Rights) -> Option<String> {
        let Some(Endpoint::Unix(path)) =
            self.server.as_ref().filter(|_| self.pool.program.is_none())
        else {
            return None;
        };
        if net::is_socket_at(path).is_none() {
            return Some(format!("the socket {} is not there yet", path.display()));
        }
        let refused = rights.hold(|| net::may_connect(path)).err()?;
        let is_denied = file::failure(&refused) == file::Failure::Denied;
        is_denied.then(|| closed(path, "written to", &refused, rights).to_string())
    }
}

/// Programs that this server starts to answer one request after the other, on a listening socket
/// that they get as descriptor 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The program; `None` when somebody else starts what answers.
    pub program: Option<PathBuf>,
    /// What it is given after its own name.
    pub arguments: Vec<String>,
    /// Its environment, beside `PATH`.
    pub environment: Vec<(String, String)>,
    /// Fewest processes, which are started with the server.
    pub processes_min: usize,
    /// Most processes.
    pub processes_max: usize,
    /// Time without work after which a process beyond the fewest is ended, in milliseconds.
    pub idle_ms: u64,
    /// Address space of each process, in bytes; `None` is no limit.
    pub memory_bytes: Option<u64>,
    /// Processor time of each process, in seconds; `None` is no limit.
    pub cpu_s: Option<u64>,
}

impl Default for PoolSettings {
    fn default() -> PoolSettings {
        PoolSettings {
            program: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            processes_min: 1,
            processes_max: 4,
            idle_ms: 60_000,
            memory_bytes: None,
            cpu_s: None,
        }
    }
}

impl PoolSettings {
    /// Whether the program is there, and what is said of it makes sense, as
    /// [`CgiSettings::check`].
    fn check(&self) -> Result<(), (&'static str, String)> {
        let PoolSettings { processes_min, processes_max, .. } = self;
        match &self.program {
            None if *self != PoolSettings::default() => {
                Err(("program", "is missing: what is said of its processes means nothing".into()))
            }
            None => Ok(()),
            Some(_) if processes_min > processes_max => {
                let most = format!("`processes`, which is {processes_max}");
                Err(("processes-min", format!("{processes_min} is more than {most}")))
            }
            Some(program) => check_program(program),
        }
    }
}

/// What a backend may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendLimits {
    /// Bytes of a request body that are held in memory until it is whole, per connection; `None`
    /// passes it on as it comes.
    pub held_bytes_max: Option<u64>,
    /// Bytes of an answer that are taken into memory while the client has no room for them; zero
    /// takes none.
    pub buffer_bytes: u64,
    /// And further bytes of it in a file.
    pub spooled_bytes_max: u64,
    /// Time that a request waits for a link to its server, in milliseconds.
    pub queue_ms: u64,
    /// Time until the server is connected, in milliseconds.
    pub connect_ms: u64,
    /// Time until it has begun to answer once it has the request, in milliseconds.
    pub answer_ms: u64,
    /// Time between two pieces of its answer, in milliseconds.
    pub idle_ms: u64,
    /// Time for all of its answer, in milliseconds; `None` is no limit.
    pub whole_ms: Option<u64>,
    /// Longest answer, in bytes; `None` is no limit.
    pub output_max: Option<u64>,
    /// Programs of this rule that run at the same time, for all workers.
    pub processes_max: usize,
    /// Address space of each of its processes, in bytes; `None` is no limit.
    pub memory_bytes: Option<u64>,
    /// Processor time of each of its processes, in seconds; `None` is no limit.
    pub cpu_s: Option<u64>,
}

impl Default for BackendLimits {
    fn default() -> BackendLimits {
        BackendLimits {
            held_bytes_max: Some(HELD_BYTES_MAX),
            buffer_bytes: 1024 * 1024,
            spooled_bytes_max: 64 * 1024 * 1024,
            queue_ms: 10_000,
            connect_ms: 10_000,
            answer_ms: 60_000,
            idle_ms: 60_000,
            whole_ms: None,
            output_max: None,
            processes_max: 64,
            memory_bytes: None,
            cpu_s: None,
        }
    }
}
