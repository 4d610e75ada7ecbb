//! The programs that this server starts, as values: which there are, how one is asked for, and what
//! is told of it. A process of the server's starts them, which no worker does itself; it goes by
//! what was read here before the first fork.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flyball_sys::file::Links;
use flyball_sys::responder::Mark;

use crate::backend_settings::{BackendLimits, CgiSettings, PoolSettings};
use crate::path::{ENCODED_SLASH, has_hidden_segment, write_slashes};
use crate::settings::SiteSettings;

pub use super::environment::{Environment, PATH};
pub use super::errors::ErrorOutput;
pub use super::request::{CUT, LEAVE, RECORD_BYTES_MAX, StartRequest, Told, WHOLE};

/// The programs of all sites.
#[derive(Debug)]
pub struct Programs {
    /// Those that are started for one request each, which names its rule by its number.
    pub rules: Vec<Rule>,
    /// Those that answer one request after the other.
    pub pools: Vec<PoolRule>,
    /// Where sockets of those are that have no name in the settings.
    pub directory: PathBuf,
}

/// How a program is found.
#[derive(Debug)]
pub struct Rule {
    path: String,
    /// Where it is.
    pub place: Place,
    /// Whether names that begin with a dot are run.
    hidden: bool,
    /// Which links are followed.
    pub links: Links,
    /// Variables beside those of RFC 3875.
    variables: Vec<(String, String)>,
    document_root: PathBuf,
    /// What it may use.
    pub limits: BackendLimits,
}

/// Where a program is.
#[derive(Debug)]
pub enum Place {
    /// Always there.
    Program(PathBuf),
    /// Beneath this directory, by the path.
    Beneath(PathBuf),
}

/// A kind of programs that answer one request after the other.
#[derive(Clone, Debug)]
pub struct PoolRule {
    /// What they are called in the log.
    pub name: String,
    /// Where they are reached.
    pub socket: PathBuf,
    /// What workers know it by.
    pub mark: Mark,
    /// The program.
    pub program: PathBuf,
    /// How many there are, and what they are given.
    pub settings: PoolSettings,
}

impl Rule {
    pub(super) fn new(cgi: &CgiSettings, site: &SiteSettings) -> Rule {
        let place = match (&cgi.program, &cgi.root) {
            (Some(program), _) => Place::Program(program.clone()),
            (None, root) => Place::Beneath(root.clone().unwrap_or_default()),
        };
        Rule {
            path: cgi.path.trim_end_matches('/').to_owned(),
            place,
            variables: cgi.environment.clone(),
            hidden: site.hidden,
            links: site.symlinks.links(),
            document_root: site.root.clone().unwrap_or_default(),
            limits: cgi.limits.clone(),
        }
    }

    /// Whether this may be run, beneath its directory, if all that the name begins with may be.
    /// Only names go down: a path that came here is normalised, but a worker may lie. The rules of
    /// the site's files hold for its programs too.
    pub fn lets_run(&self, name: &[u8]) -> bool {
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let is_safe = !matches!(last, b"" | b"." | b"..") && !last.contains(&ENCODED_SLASH);
        is_safe && (self.hidden || !has_hidden_segment(name))
    }

    /// Adds the variables of the configuration, and those that depend on where the program was
    /// found (RFC 3875, sections 4.1.5, 4.1.6 and 4.1.13); `named` bytes of the path name the
    /// program. No worker has a say in them.
    pub fn complete(
        &self,
        environment: &mut Environment,
        program: &Path,
        below: &[u8],
        named: usize,
    ) {
        let (script, info) = below.split_at(named.min(below.len()));
        let root = self.document_root.as_os_str().as_bytes();
        environment.add("PATH", PATH);
        environment.add("DOCUMENT_ROOT", root);
        for (name, value) in &self.variables {
            environment.set(name, value.as_bytes());
        }
        environment.add_parts("SCRIPT_NAME", &[self.path.as_bytes(), script]);
        environment.add("SCRIPT_FILENAME", program.as_os_str().as_bytes());
        if !info.is_empty() {
            let info = write_slashes(info);
            environment.add("PATH_INFO", &info);
            environment.add_parts("PATH_TRANSLATED", &[root, &info]);
        }
    }
}
