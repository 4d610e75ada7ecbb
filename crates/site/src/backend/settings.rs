//! What a site says about its backends.

use std::path::PathBuf;

use flyball_sys::net::{self, Server};
use flyball_sys::program;
use flyball_sys::responder::check_place;
use flyball_sys::sandbox::Rights;

use super::PoolSettings;

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
        super::spawner::check(self)
    }
}

/// A server that answers requests: one that speaks FastCGI, or SCGI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponderSettings {
    /// The path; it and all beneath it are meant, as far as `extensions` says.
    pub path: String,
    /// Extensions of files, without the dot, one of which the path must have; empty is any path.
    pub extensions: Vec<String>,
    /// Where it listens.
    pub server: Option<Server>,
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
        super::spawner::check_pool(&self.pool)?;
        match &self.server {
            Some(Server::Tcp(_)) if self.pool.program.is_some() => {
                return Err(("socket", "must be a path, or none, beside `program`".into()));
            }
            None if self.pool.program.is_some() => {}
            None => return Err(("socket", "is missing: say where the server listens".into())),
            Some(Server::Unix(path)) => {
                if net::is_socket_at(path) == Some(false) {
                    return Err(("socket", format!("{} is no socket", path.display())));
                }
            }
            Some(Server::Tcp(_)) => {}
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
    pub(super) fn check_place(&self, rights: &Rights) -> Result<(), (&'static str, String)> {
        match &self.server {
            Some(Server::Unix(path)) if self.pool.program.is_some() => {
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
            Some(Server::Unix(_)) => true,
            Some(Server::Tcp(address)) => address.ip().is_loopback(),
            None => self.pool.program.is_some(),
        };
        self.require_script.unwrap_or(sees_our_files && is_here)
    }

    /// What is not there yet and may be later: its socket. Blocks on the disk.
    pub fn missing(&self) -> Option<String> {
        match &self.server {
            Some(Server::Unix(path))
                if self.pool.program.is_none() && net::is_socket_at(path).is_none() =>
            {
                Some(format!("the socket {} is not there yet", path.display()))
            }
            _ => None,
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
