//! Which backend a path leads to.

use std::io;
use std::sync::Arc;

use flyball_http::{OwnedRequest, Request};

use super::cgi;
use super::environment::Environment;
use super::relay::Relay;
use super::settings::CgiSettings;
use super::spawner::{Rule, Spawner, check};
use crate::routes::canonical;
use crate::settings::SiteSettings;

/// The backends of a site.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// The longest path first.
    gates: Vec<Gate>,
}

/// One backend.
#[derive(Debug)]
pub(super) struct Gate {
    /// Its path without a closing slash.
    path: String,
    /// The number of its rule in the process that starts programs.
    rule: u32,
    pub(super) cgi: CgiSettings,
    document_root: String,
}

impl Gates {
    /// The backends of all sites, and the process that starts their programs, if there are any.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn open(sites: &[SiteSettings]) -> io::Result<(Vec<Gates>, Option<Arc<Spawner>>)> {
        let mut rules = Vec::new();
        let mut all = Vec::new();
        for site in sites {
            let mut gates = Vec::new();
            for cgi in &site.cgi {
                check(cgi)
                    .map_err(|(key, why)| io::Error::other(format!("site.cgi.{key}: {why}")))?;
                gates.push(Gate {
                    path: cgi.path.trim_end_matches('/').to_owned(),
                    rule: rules.len() as u32,
                    cgi: cgi.clone(),
                    document_root: site.root.to_string_lossy().into_owned(),
                });
                rules.push(Rule::new(cgi, &site.root));
            }
            gates.sort_by_key(|gate| std::cmp::Reverse(gate.path.len()));
            all.push(Gates { gates });
        }
        let spawner = if rules.is_empty() { None } else { Some(Arc::new(Spawner::new(rules)?)) };
        Ok((all, spawner))
    }

    /// Whether there are none, so that no path has to be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Whether a backend answers a request.
    pub(crate) fn are_for(&self, request: &Request<'_>) -> bool {
        !self.is_empty() && self.of(request).is_some()
    }

    /// The backend of a request, and the path beneath that of the backend.
    fn of(&self, request: &Request<'_>) -> Option<(&Gate, Vec<u8>)> {
        let path = canonical(request.path(), &mut Vec::new()).ok()?;
        self.gates.iter().find_map(|gate| {
            let below = path.strip_prefix(&gate.path)?;
            let is_beneath = below.is_empty() || below.starts_with('/');
            is_beneath.then(|| (gate, below.as_bytes().to_vec()))
        })
    }

    /// What answers a request, begun; `None` when no backend does.
    pub(crate) fn begin(
        &self,
        request: &Request<'_>,
        spawner: Option<&Spawner>,
        site: usize,
        now_ms: u64,
    ) -> Option<Box<Relay>> {
        let (gate, below) = self.of(request)?;
        let id = super::relay::new_id();
        let owned: OwnedRequest = request.to_owned();
        let mut environment = Environment::of(request, &id);
        environment.set("DOCUMENT_ROOT", gate.document_root.as_bytes());
        for (name, value) in &gate.cgi.environment {
            environment.set(name, value.as_bytes());
        }
        let link = cgi::begin(spawner?, gate.rule, below, environment.into_pairs(), &owned, &id);
        Some(Box::new(Relay::new(link, owned, site, &gate.cgi.limits, &id, now_ms)))
    }
}
