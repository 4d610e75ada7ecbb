//! What a site is: validated once, frozen before the first fork.

use std::path::PathBuf;

use flyball_sys::file::Links;
use flyball_sys::log_file::AccessLog;

use crate::access::{AccessSettings, Admission};
use crate::backend_paths::{beneath, dotted, named};
use crate::backend_settings::{CgiSettings, ResponderSettings};
use crate::compress::CompressSettings;
use crate::limits::LimitSettings;
use crate::modules::{ModuleSettings, Takes};
use crate::routes::{Asked, RouteSettings};
use crate::secrets::Secret;
use crate::spread::Spread;
use crate::tls_settings::TlsSettings;

/// One site: which hosts it answers to and where its files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// Host names in lower case: exact, `*.example.org`, or `*` for the default site.
    pub hosts: Vec<String>,
    /// The directory that is served; `None` where all that is said is where clients are sent.
    pub root: Option<PathBuf>,
    /// Names tried, in order, when a directory is asked for.
    pub index: Vec<String>,
    /// Whether a directory without an index is listed.
    pub listing: bool,
    /// Whether names that begin with a dot are served (`/.well-known` always is).
    pub hidden: bool,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Media types by extension (without dot, lower case), before the built-in table.
    pub types: Vec<(String, String)>,
    /// Charset added to textual media types; empty adds none.
    pub charset: String,
    /// A path whose POST or PUT bodies are consumed and answered with their length and CRC-32.
    pub digest_path: Option<String>,
    /// Who may come, and what for.
    pub access: AccessSettings,
    /// What clients may take of its paths.
    pub limits: Vec<LimitSettings>,
    /// Redirects, rewrites, fields, error pages and the like.
    pub routes: RouteSettings,
    /// Which bodies leave coded.
    pub compress: CompressSettings,
    /// Programs that answer.
    pub cgi: Vec<CgiSettings>,
    /// Modules that answer.
    pub modules: Vec<ModuleSettings>,
    /// Servers that answer and speak FastCGI.
    pub fastcgi: Vec<ResponderSettings>,
    /// Servers that answer and speak SCGI.
    pub scgi: Vec<ResponderSettings>,
    /// How it is served by TLS.
    pub tls: TlsSettings,
    /// Where lines about its answers go.
    pub access_log: AccessLog,
    /// Whether it stands for many.
    pub spread: Spread,
}

impl SiteSettings {
    /// Whether programs or servers answer for any of its paths.
    pub fn has_backends(&self) -> bool {
        !self.cgi.is_empty() || !self.fastcgi.is_empty() || !self.scgi.is_empty()
    }

    /// Whether modules that may ask anything answer for any of its paths.
    pub fn has_modules(&self) -> bool {
        self.modules.iter().any(|module| module.takes == Takes::All)
    }

    /// Whether it sends clients elsewhere or refuses them, and nothing of it needs a file.
    pub fn needs_no_root(&self) -> bool {
        let routes = &self.routes;
        let says_something = !routes.redirects.is_empty() || !routes.returns.is_empty();
        let has_files = self.listing
            || self.has_backends()
            || self.has_modules()
            || !routes.rewrites.is_empty()
            || !routes.aliases.is_empty()
            || routes.fallback.is_some()
            || routes.user_directories.is_some();
        says_something && !has_files
    }

    /// Whether a backend answers for a canonical path.
    pub fn answers_by_backend(&self, path: &str) -> bool {
        let url = path.as_bytes();
        let by_server = |responder: &ResponderSettings| {
            let extensions: Vec<String> = dotted(&responder.extensions);
            beneath(responder.path.trim_end_matches('/'), url)
                .is_some_and(|below| named(&extensions, below).is_some())
        };
        self.cgi.iter().any(|cgi| beneath(cgi.path.trim_end_matches('/'), url).is_some())
            || self.responders().any(|(_, responder)| by_server(responder))
    }

    /// Directories of which backends may have files sent, each once.
    pub fn sendfile_roots(&self) -> Vec<&PathBuf> {
        let of_programs = self.cgi.iter().flat_map(|cgi| &cgi.sendfile_roots);
        let of_servers = self.responders().flat_map(|(_, responder)| &responder.sendfile_roots);
        let mut roots: Vec<&PathBuf> = of_programs.chain(of_servers).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// What of it concerns its routes.
    pub(crate) fn routes(&self) -> Asked<'_> {
        let base = match &self.spread {
            Spread::Each(roots) => Some(&*roots.base),
            Spread::One | Spread::Of(_) => None,
        };
        Asked {
            root: base.or(self.root.as_deref()),
            needs_root: !self.needs_no_root(),
            sendfile_roots: self.sendfile_roots(),
            hidden: self.hidden,
            routes: &self.routes,
        }
    }

    /// Whether it stands for many, and answers to no host itself.
    pub fn is_many(&self) -> bool {
        matches!(self.spread, Spread::Each(_))
    }

    /// The files that the server reads for it and that no client may have.
    pub fn secrets(&self) -> impl Iterator<Item = Secret<'_>> {
        let users = self.access.auth.file.as_deref().map(|file| ("site.auth.file", file));
        let routes = &self.routes;
        let table =
            routes.user_directories.as_ref().map(|_| ("site.user-table", &*routes.user_table));
        let told = users.into_iter().chain(table);
        let told = told.map(|(key, path)| Secret { key, path, is_apart: false });
        // The certificates of many are those of each.
        told.chain(self.tls.secrets().filter(|_| !self.is_many()))
    }

    /// Paths of which rules may say that they are closed, with the keys of these rules.
    pub(crate) fn closed_paths(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let auth = &self.access.auth;
        let logins = auth.paths.iter().filter(|_| auth.file.is_some());
        let rules = self.access.rules.iter().filter_map(|rule| rule.path.as_deref());
        let returns = self.routes.returns.iter().filter_map(|rule| rule.path.as_deref());
        logins
            .map(|path| ("auth.paths", path.as_str()))
            .chain(rules.map(|path| ("access", path)))
            .chain(returns.map(|path| ("return", path)))
            .chain((self.access.admission != Admission::default()).then_some(("allow", "/")))
    }

    /// The servers that answer for it, with the names of their tables.
    pub fn responders(&self) -> impl Iterator<Item = (&'static str, &ResponderSettings)> {
        let fastcgi = self.fastcgi.iter().map(|responder| ("fastcgi", responder));
        fastcgi.chain(self.scgi.iter().map(|responder| ("scgi", responder)))
    }
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// None at all.
    Deny,
    /// Those that stay beneath the root.
    Beneath,
    /// All of them.
    Follow,
}

impl Symlinks {
    pub(crate) fn links(self) -> Links {
        match self {
            Symlinks::Deny => Links::Deny,
            Symlinks::Beneath => Links::Beneath,
            Symlinks::Follow => Links::Follow,
        }
    }
}

impl Default for SiteSettings {
    fn default() -> SiteSettings {
        SiteSettings {
            hosts: vec!["*".into()],
            root: None,
            index: vec!["index.html".into()],
            listing: false,
            hidden: false,
            symlinks: Symlinks::Beneath,
            types: Vec::new(),
            charset: "utf-8".into(),
            digest_path: None,
            access: AccessSettings::default(),
            limits: Vec::new(),
            routes: RouteSettings::default(),
            compress: CompressSettings::default(),
            cgi: Vec::new(),
            fastcgi: Vec::new(),
            scgi: Vec::new(),
            tls: TlsSettings::default(),
            modules: Vec::new(),
            access_log: AccessLog::Off,
            spread: Spread::One,
        }
    }
}
