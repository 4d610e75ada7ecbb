//! Which backend a path leads to.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_http::head::Framing;
use flyball_http::{Method, OwnedRequest, Request};
use flyball_sys::net::Server;
use flyball_sys::random;

use super::environment::Environment;
use super::manager::PoolRule;
use super::places::Places;
use super::relay::Relay;
use super::request::name_of;
use super::responder::Responder;
use super::settings::{BackendLimits, CgiSettings, ResponderSettings};
use super::spawner::{Rule, Spawner, check};
use super::{Failure, Link, cgi, fastcgi, scgi};
use crate::routes::canonical;
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
    limits: BackendLimits,
    sendfile_roots: Arc<[PathBuf]>,
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
    responder: Arc<Responder>,
    is_scgi: bool,
    /// Variables beside those of RFC 3875.
    variables: Vec<(String, String)>,
    document_root: PathBuf,
    /// The directory of scripts, if it is not that of the site.
    root: Option<PathBuf>,
    /// The script that answers for all paths.
    script: Option<PathBuf>,
    /// Bytes of a body of unknown length that are held.
    held_max: Option<usize>,
}

/// A request that was let pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted<'a, 'b> {
    pub(crate) request: &'a Request<'b>,
    /// Who has logged in for it.
    pub(crate) user: Option<&'a [u8]>,
}

/// A path as a gate sees it.
struct Below<'a> {
    /// What is beneath the path of the gate: empty, or with a slash at its start.
    path: &'a str,
    /// How much of that names the script.
    named: usize,
}

impl Gates {
    /// The backends of all sites, and the process that starts their programs, if there are any.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn open(sites: &[SiteSettings]) -> io::Result<(Vec<Gates>, Option<Arc<Spawner>>)> {
        let (mut rules, mut pools) = (Vec::new(), Vec::new());
        let directory = private_directory()?;
        let mut all = Vec::new();
        for site in sites {
            let mut gates = Vec::new();
            for cgi in &site.cgi {
                check(cgi)
                    .map_err(|(key, why)| io::Error::other(format!("site.cgi.{key}: {why}")))?;
                gates.push(Gate::of_program(cgi, rules.len() as u32));
                rules.push(Rule::new(cgi, &site.root));
            }
            for (table, responder) in site.responders() {
                let wrong = |(key, why)| io::Error::other(format!("site.{table}.{key}: {why}"));
                responder.check().map_err(wrong)?;
                let mut responder = responder.clone();
                pools.extend(pool_of(&mut responder, &directory, pools.len()));
                gates.extend(Gate::of_server(&responder, table == "scgi", &site.root));
            }
            gates.sort_by_key(|gate: &Gate| {
                (std::cmp::Reverse(gate.path.len()), gate.extensions.is_empty())
            });
            all.push(Gates { gates });
        }
        let spawner = match rules.is_empty() && pools.is_empty() {
            true => None,
            false => Some(Arc::new(Spawner::new(rules, pools, directory)?)),
        };
        Ok((all, spawner))
    }

    /// Whether there are none, so that no path has to be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Where the servers listen that workers connect to.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.gates.iter().filter_map(|gate| match &gate.way {
            Way::Program(_) => None,
            Way::Server(reached) => Some(reached.responder.server()),
        })
    }

    /// Whether a backend answers a request.
    pub(crate) fn are_for(&self, request: &Request<'_>) -> bool {
        !self.is_empty()
            && canonical(request.path(), &mut Vec::new())
                .is_ok_and(|path| self.of_path(&path).is_some())
    }

    /// Whether a file may be a script of any of them.
    pub(crate) fn have_scripts(&self) -> bool {
        self.gates.iter().any(|gate| !gate.extensions.is_empty())
    }

    /// The backend of a canonical path, and the path as that sees it.
    fn of_path<'a>(&self, path: &'a str) -> Option<(&Gate, Below<'a>)> {
        self.gates.iter().find_map(|gate| {
            let below = path.strip_prefix(&gate.path)?;
            let is_beneath = below.is_empty() || below.starts_with('/');
            if is_beneath { gate.below(below).map(|below| (gate, below)) } else { None }
        })
    }

    /// What answers a request, begun; `None` when no backend does.
    pub(crate) fn begin(
        &self,
        admitted: &Admitted<'_, '_>,
        spawner: Option<&Spawner>,
        site: usize,
        now_ms: u64,
    ) -> Option<Box<Relay>> {
        let path = admitted.request.path();
        let path = canonical(path, &mut Vec::with_capacity(path.len())).ok()?;
        let (gate, below) = self.of_path(&path)?;
        gate.begin(&below, admitted, spawner, site, now_ms)
    }

    /// What answers a request for which the file of this name was found, if that is a script: it is
    /// never sent as it is.
    pub(crate) fn begin_script(
        &self,
        name: &[u8],
        admitted: &Admitted<'_, '_>,
        site: usize,
        now_ms: u64,
    ) -> Option<Box<Relay>> {
        let path = format!("/{}", std::str::from_utf8(name).ok()?);
        let (gate, below) = self.of_path(&path).filter(|(_, below)| below.named > 0)?;
        gate.begin(&below, admitted, None, site, now_ms)
    }
}

impl Gate {
    fn begin(
        &self,
        below: &Below<'_>,
        admitted: &Admitted<'_, '_>,
        spawner: Option<&Spawner>,
        site: usize,
        now_ms: u64,
    ) -> Option<Box<Relay>> {
        let Admitted { request, user } = *admitted;
        let id = super::relay::new_id();
        let owned: OwnedRequest = request.to_owned();
        let spare = match &self.way {
            Way::Program(_) => None,
            Way::Server(reached) => reached.responder.environments.take(),
        };
        let mut environment = match spare {
            Some(spare) => spare.renewed(request, &id, user),
            None => Environment::of(request, &id, user),
        };
        let link = match &self.way {
            // What is no part of the request is added by who starts the program.
            Way::Program(rule) => {
                let below = below.path.as_bytes().to_vec();
                cgi::begin(spawner?, *rule, below, environment, &owned, &id)
            }
            Way::Server(reached) => {
                reached.complete(&mut environment, &self.path, below);
                reached.begin(environment, &owned, &id)
            }
        };
        let relay = Relay::new(link, owned, site, &self.limits, id, now_ms);
        Some(Box::new(relay.sending(&self.sendfile_roots)))
    }

    fn of_program(cgi: &CgiSettings, rule: u32) -> Gate {
        Gate {
            path: cgi.path.trim_end_matches('/').to_owned(),
            extensions: Vec::new(),
            limits: cgi.limits.clone(),
            sendfile_roots: cgi.sendfile_roots.clone().into(),
            way: Way::Program(rule),
        }
    }

    /// `None` when nobody has said where the server is.
    fn of_server(settings: &ResponderSettings, is_scgi: bool, root: &Path) -> Option<Gate> {
        let idle_links = if is_scgi { 0 } else { settings.idle_links };
        let places = Places::new(settings.links_max, settings.queue_max);
        let responder = Responder::new(settings.server.clone()?, idle_links, places);
        let held = settings.held_bytes_max.and_then(|most| usize::try_from(most).ok());
        Some(Gate {
            path: settings.path.trim_end_matches('/').to_owned(),
            extensions: settings.extensions.iter().map(|name| format!(".{name}")).collect(),
            limits: settings.limits.clone(),
            sendfile_roots: settings.sendfile_roots.clone().into(),
            way: Way::Server(Reached {
                responder: Arc::new(responder),
                is_scgi,
                variables: settings.params.clone(),
                document_root: root.to_owned(),
                root: settings.root.clone(),
                script: settings.script.clone(),
                // SCGI cannot do without the length, and holds nothing only where nothing comes.
                held_max: held.or(is_scgi.then_some(0)),
            }),
        })
    }

    /// The part of a path beneath that of the gate, if it leads through.
    fn below<'a>(&self, below: &'a str) -> Option<Below<'a>> {
        if self.extensions.is_empty() {
            return Some(Below { path: below, named: 0 });
        }
        let mut end = 0;
        while end < below.len() {
            let next = below[end + 1..].find('/');
            let name = &below[end + 1..next.map_or(below.len(), |at| end + 1 + at)];
            end += 1 + name.len();
            if self.extensions.iter().any(|extension| name.ends_with(extension.as_str())) {
                return Some(Below { path: below, named: end });
            }
        }
        None
    }
}

impl Reached {
    /// The variables that depend on what the script is (RFC 3875, sections 4.1.5, 4.1.6 and
    /// 4.1.13), and those of the configuration. Nobody looks at the disk for that: the server may
    /// see another one.
    fn complete(&self, environment: &mut Environment, path: &str, below: &Below<'_>) {
        let (script, info) = below.path.split_at(below.named);
        let root = self.document_root.as_os_str().as_bytes();
        let script = [path.as_bytes(), script.as_bytes()];
        environment.add("DOCUMENT_ROOT", root);
        environment.add_parts("SCRIPT_NAME", &script);
        match (&self.script, &self.root) {
            (Some(file), _) => environment.add("SCRIPT_FILENAME", file.as_os_str().as_bytes()),
            (None, Some(root)) => {
                let parts = [root.as_os_str().as_bytes(), script[1]];
                environment.add_parts("SCRIPT_FILENAME", &parts);
            }
            (None, None) => environment.add_parts("SCRIPT_FILENAME", &[root, script[0], script[1]]),
        }
        if !info.is_empty() {
            environment.add("PATH_INFO", info.as_bytes());
            environment.add_parts("PATH_TRANSLATED", &[root, info.as_bytes()]);
        }
        for (name, value) in &self.variables {
            environment.set(name, value.as_bytes());
        }
    }

    fn begin(
        &self,
        environment: Environment,
        request: &OwnedRequest,
        id: &str,
    ) -> Result<Box<dyn Link>, (Failure, String)> {
        let head = request.request();
        let is_measured = head.head.framing != Framing::Chunked;
        let held_max = self.held_max.filter(|_| !is_measured);
        if self.is_scgi {
            return scgi::begin(&self.responder, environment, held_max);
        }
        // RFC 9110, section 9.2.2.
        let repeats = matches!(
            head.method(),
            Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete
        );
        let name = name_of("fastcgi", request, id);
        fastcgi::begin(&self.responder, environment, held_max, repeats, name)
    }
}

/// The processes that are started for a server, if they are; it has a socket then.
fn pool_of(responder: &mut ResponderSettings, directory: &Path, number: usize) -> Option<PoolRule> {
    let program = responder.pool.program.clone()?;
    let named = responder.server.take().and_then(|server| match server {
        Server::Unix(path) => Some(path),
        Server::Tcp(_) => None,
    });
    let socket = named.unwrap_or_else(|| directory.join(format!("{number}.sock")));
    responder.server = Some(Server::Unix(socket.clone()));
    let name = format!("fastcgi: {}", responder.path);
    Some(PoolRule { name, socket, program, settings: responder.pool.clone() })
}

/// A directory that nobody can have made before, for sockets that nobody has named. It is made when
/// it is needed.
fn private_directory() -> io::Result<PathBuf> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    let number = u64::from_ne_bytes(bytes);
    Ok(std::env::temp_dir().join(format!("flyball-{number:016x}")))
}
