//! Which backend a path leads to.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_http::{OwnedRequest, Request};
use flyball_sys::net::Endpoint;
use flyball_sys::random;
use flyball_sys::responder::Mark;
use flyball_sys::sandbox::Rights;

use super::environment::Environment;
use super::programs::{PoolRule, Programs, Rule};
use super::relay::Relay;
use super::start::{Start, To};
use super::upstream::{LinkBounds, Upstream};
use crate::backend_paths::{beneath, dotted, named};
use crate::backend_settings::{BackendLimits, CgiSettings, ResponderSettings};
use crate::path;
use crate::routes::SiteRoutes;
use crate::settings::SiteSettings;

/// The backends of a site.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// The longest path first, and of two with the same path the one that asks for an extension.
    gates: Vec<Gate>,
}

/// One backend.
#[derive(Debug)]
struct Gate {
    /// Its path without a closing slash.
    path: String,
    /// What a name of the path must end in, with the dot; empty is anything.
    extensions: Vec<String>,
    limits: Arc<BackendLimits>,
    sendfile_roots: Arc<[PathBuf]>,
    /// Whether a script must be a regular file of the site before it is asked for.
    requires_script: bool,
    /// Whether a program is looked for in a directory, by the path.
    searches: bool,
    way: Way,
}

/// How it is reached.
#[derive(Debug)]
enum Way {
    /// A program, by the number of its rule in the process that starts programs.
    Program(u32),
    /// A server.
    Server(Reached),
}

/// A server that answers, and what it is told of scripts.
#[derive(Debug)]
struct Reached {
    upstream: Arc<Upstream>,
    is_scgi: bool,
    /// Variables beside those of RFC 3875.
    variables: Vec<(String, String)>,
    document_root: PathBuf,
    /// The directory of scripts, if it is not that of the site.
    root: Option<PathBuf>,
    /// The script that answers for all paths.
    script: Option<PathBuf>,
}

/// A request that was let pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted<'a, 'b> {
    pub(crate) request: &'a Request<'b>,
    /// Who has logged in for it.
    pub(crate) user: Option<&'a [u8]>,
}

/// A canonical URL that leads to a backend.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    gate: &'a Gate,
    url: &'a [u8],
    /// What is beneath the path of the gate: empty, or with a slash at its start.
    below: &'a [u8],
    /// How much of that names the script.
    named: usize,
}

impl Passage<'_> {
    /// The URL of the script; `None` where all of the path is for the backend to read.
    pub(crate) fn script(&self) -> Option<&[u8]> {
        (self.named > 0).then(|| &self.url[..self.gate.path.len() + self.named])
    }

    /// The URLs of all scripts that may answer for it: the one that is named, or where programs are
    /// looked for in a directory, each beginning of the path.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &[u8]> {
        let is_searched = self.gate.searches;
        let from = self.gate.path.len() + 1;
        let ends = memchr::memchr_iter(b'/', self.url.get(from..).unwrap_or_default());
        let beginnings = ends.map(move |end| &self.url[..from + end]);
        self.script().into_iter().chain(beginnings.filter(move |_| is_searched))
    }

    /// The URL of a script that must be there before the backend is asked for it.
    pub(crate) fn required(&self) -> Option<&[u8]> {
        self.script().filter(|_| self.gate.requires_script)
    }
}

impl Gates {
    /// The backends of all sites, and the programs that are started for them, if there are any.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn open(
        sites: &[SiteSettings],
        rights: &Rights,
    ) -> io::Result<(Vec<Gates>, Option<Arc<Programs>>)> {
        let (mut rules, mut pools) = (Vec::new(), Vec::new());
        let mut upstreams = 0..;
        let directory = private_directory()?;
        let mut all = Vec::new();
        for site in sites {
            let mut gates = Vec::new();
            if site.is_many() {
                all.push(Gates::default());
                continue;
            }
            for cgi in &site.cgi {
                cgi.check()
                    .map_err(|(key, why)| io::Error::other(format!("site.cgi.{key}: {why}")))?;
                gates.push(Gate::of_program(cgi, rules.len() as u32));
                rules.push(Rule::new(cgi, site));
            }
            for (table, responder) in site.responders() {
                let wrong = |(key, why)| io::Error::other(format!("site.{table}.{key}: {why}"));
                responder.check().map_err(wrong)?;
                responder.check_place(rights).map_err(wrong)?;
                let mut responder = responder.clone();
                let pool = pool_of(&mut responder, (site, table), &directory, pools.len());
                let mark = pool.as_ref().map(|pool| pool.mark.clone());
                pools.extend(pool);
                let root = site.root.as_deref().unwrap_or(Path::new(""));
                let upstream = |server, bounds| {
                    let number = upstreams.next().unwrap_or(0);
                    Upstream::new(number, server, rights.user(), mark, bounds)
                };
                gates.extend(Gate::of_server(&responder, upstream, table == "scgi", root));
            }
            gates.sort_by_key(|gate: &Gate| {
                (std::cmp::Reverse(gate.path.len()), gate.extensions.is_empty())
            });
            all.push(Gates { gates });
        }
        let is_empty = rules.is_empty() && pools.is_empty();
        let programs = || Arc::new(Programs { rules, pools, directory });
        Ok((all, (!is_empty).then(programs)))
    }

    /// Whether there are none, so that no path has to be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// The servers that workers connect to.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.gates.iter().filter_map(|gate| match &gate.way {
            Way::Program(_) => None,
            Way::Server(reached) => Some(&reached.upstream),
        })
    }

    /// The backend of a canonical URL.
    pub(crate) fn passage<'a>(&'a self, url: &'a [u8]) -> Option<Passage<'a>> {
        self.gates.iter().find_map(|gate| {
            let below = beneath(&gate.path, url)?;
            let named = named(&gate.extensions, below)?;
            Some(Passage { gate, url, below, named })
        })
    }
}

impl Passage<'_> {
    /// What answers a request, begun.
    pub(crate) fn begin(
        &self,
        admitted: &Admitted<'_, '_>,
        routes: &SiteRoutes,
        site: usize,
        now_ms: u64,
    ) -> Box<Relay> {
        let Admitted { request, user } = *admitted;
        let gate = self.gate;
        let id = super::relay::new_id();
        let owned: OwnedRequest = request.to_owned();
        let spare = match &gate.way {
            Way::Program(_) => None,
            Way::Server(reached) => reached.upstream.environments.take(),
        };
        let mut environment = match spare {
            Some(spare) => spare.renewed(request, &id, user),
            None => Environment::of(request, &id, user),
        };
        let to = match &gate.way {
            Way::Program(rule) => To::Program { rule: *rule, below: self.below.to_vec() },
            Way::Server(reached) => {
                reached.complete(&mut environment, self, routes);
                let upstream = Arc::clone(&reached.upstream);
                To::Server { upstream, is_scgi: reached.is_scgi }
            }
        };
        let start = Start { environment, to };
        let relay = Relay::new(start, owned, site, &gate.limits, id, now_ms);
        Box::new(relay.sending(&gate.sendfile_roots))
    }
}

impl Gate {
    fn of_program(cgi: &CgiSettings, rule: u32) -> Gate {
        Gate {
            path: cgi.path.trim_end_matches('/').to_owned(),
            extensions: Vec::new(),
            limits: Arc::new(cgi.limits.clone()),
            sendfile_roots: cgi.sendfile_roots.clone().into(),
            requires_script: false,
            searches: cgi.program.is_none(),
            way: Way::Program(rule),
        }
    }

    /// `None` when nobody has said where the server is.
    fn of_server(
        settings: &ResponderSettings,
        upstream: impl FnOnce(Endpoint, LinkBounds) -> Upstream,
        is_scgi: bool,
        root: &Path,
    ) -> Option<Gate> {
        let idle_max = if is_scgi { 0 } else { settings.idle_links };
        let (links_max, queue_max) = (settings.links_max, settings.queue_max);
        let bounds = LinkBounds { idle_max, links_max, queue_max };
        let upstream = upstream(settings.server.clone()?, bounds);
        Some(Gate {
            path: settings.path.trim_end_matches('/').to_owned(),
            extensions: dotted(&settings.extensions),
            limits: Arc::new(settings.limits.clone()),
            sendfile_roots: settings.sendfile_roots.clone().into(),
            requires_script: settings.requires_script(),
            searches: false,
            way: Way::Server(Reached {
                upstream: Arc::new(upstream),
                is_scgi,
                variables: settings.params.clone(),
                document_root: root.to_owned(),
                root: settings.root.clone(),
                script: settings.script.clone(),
            }),
        })
    }
}

impl Reached {
    /// The variables that depend on what the script is (RFC 3875, sections 4.1.5, 4.1.6 and
    /// 4.1.13), and those of the configuration. A server may see another disk than this one: its
    /// directory of scripts is taken as it was said.
    fn complete(&self, environment: &mut Environment, passage: &Passage<'_>, routes: &SiteRoutes) {
        let (script, info) = passage.below.split_at(passage.named);
        let root = self.document_root.as_os_str().as_bytes();
        let url = &passage.url[..passage.url.len() - info.len()];
        environment.add("DOCUMENT_ROOT", root);
        environment.add("SCRIPT_NAME", url);
        let (directory, name) = match (&self.script, &self.root) {
            (Some(file), _) => (file.as_path(), &b""[..]),
            (None, Some(root)) => (root.as_path(), script),
            (None, None) => routes.file_of(url),
        };
        environment.add_parts("SCRIPT_FILENAME", &[directory.as_os_str().as_bytes(), name]);
        if !info.is_empty() {
            let info = path::write_slashes(info);
            let (directory, name) = routes.file_of(&info);
            environment.add("PATH_INFO", &info);
            environment.add_parts("PATH_TRANSLATED", &[directory.as_os_str().as_bytes(), name]);
        }
        for (name, value) in &self.variables {
            environment.set(name, value.as_bytes());
        }
    }
}

/// The processes that are started for a server, if they are; it has a socket then.
fn pool_of(
    responder: &mut ResponderSettings,
    (site, table): (&SiteSettings, &str),
    directory: &Path,
    number: usize,
) -> Option<PoolRule> {
    let program = responder.pool.program.clone()?;
    let named = responder.server.take().and_then(|server| match server {
        Endpoint::Unix(path) => Some(path),
        Endpoint::Tcp(_) => None,
    });
    let socket = named.unwrap_or_else(|| directory.join(format!("{number}.sock")));
    responder.server = Some(Endpoint::Unix(socket.clone()));
    let mark = mark_of(&socket, &program, responder, (site, table));
    let name = format!("{table}: {}", responder.path);
    Some(PoolRule { name, socket, mark, program, settings: responder.pool.clone() })
}

/// A table that asks the same program for the same site is the same one after a reload, and its
/// socket may get the requests of before. No host is that of two sites.
fn mark_of(
    socket: &Path,
    program: &Path,
    responder: &ResponderSettings,
    (site, table): (&SiteSettings, &str),
) -> Mark {
    let host = site.hosts.iter().min().map_or("", String::as_str);
    let program = program.as_os_str().as_bytes();
    let parts = [host.as_bytes(), table.as_bytes(), responder.path.as_bytes(), program];
    Mark::of(socket, &parts)
}

/// A directory that nobody can have made before, for sockets that nobody has named. It is made when
/// it is needed.
fn private_directory() -> io::Result<PathBuf> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    let number = u64::from_ne_bytes(bytes);
    std::path::absolute(std::env::temp_dir().join(format!("flyball-{number:016x}")))
}
