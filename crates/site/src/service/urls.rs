//! Which rules hold for what a site has found: the one place where that is decided.
//!
//! Every file and directory has a URL, by which a client could ask for it. A request may reach it
//! by another path: a rewrite, an index, a fallback, `.html` behind a name, a neighbour in another
//! language or format, the README of a listing. Whatever the path, the rules of the URL hold:
//! hidden names, networks, logins, returns, and the backends and modules that answer there. What
//! names a file without a URL, a backend's `X-Sendfile`, is decided by `sendfile-roots` alone.

use std::path::Path;

use flyball_http::head::TargetForm;
use flyball_http::{Method, Now, Request, Status};

use super::{Lookup, Service, Site};
use crate::access::Refused;
use crate::backend::{Admitted, Passage};
use crate::caches::Target;
use crate::plan::{Found, Job, Origin, Plan};
use crate::routes::canonical;
use crate::translate::Translate;
use crate::variant::Scope;

/// On whose behalf a site is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client.
    #[default]
    Client,
    /// A module, which must not be led back to itself or to another.
    Module,
    /// No client waits for the answer itself: a file is brought in ahead, or is part of another
    /// answer. No program may be run for that.
    Files,
}

/// What the rules of a URL say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file or directory of that URL may answer.
    Open,
    /// It may not.
    Refused(Status),
    /// A backend answers there, and no file is read.
    Backend,
}

/// Why a directory does not answer at its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Clients such as this one may not come.
    To(Refused),
    /// This status answers for it.
    By(Status),
}

impl Service {
    /// The canonical URL of a request that a backend answers.
    pub(super) fn url_to_backend(&self, site: usize, request: &Request<'_>) -> Option<Vec<u8>> {
        let gates = &self.sites.sites[site].gates;
        if gates.is_empty() || !takes_path(request) {
            return None;
        }
        let path = request.path();
        let url = canonical(path, &mut Vec::with_capacity(path.len())).ok()?;
        gates.passage(&url).is_some().then_some(url)
    }

    /// The status that answers for the path of a request, whatever is there.
    pub(super) fn returned(&self, site: usize, request: &Request<'_>) -> Option<Status> {
        let returns = self.sites.sites[site].routes.returns();
        if returns.is_empty() || !takes_path(request) {
            return None;
        }
        let path = request.path();
        // A malformed path is refused later, when the file is looked for.
        let url = canonical(path, &mut Vec::with_capacity(path.len())).ok()?;
        returns.of(&url)
    }

    /// What may answer a request that was led to this URL.
    pub(super) fn verdict(&mut self, site: usize, request: &Request<'_>, url: &[u8]) -> Verdict {
        let served = &self.sites.sites[site];
        if !served.modules.is_empty() && self.is_anothers_module(site, request, url) {
            return Verdict::Refused(Status::FORBIDDEN);
        }
        let served = &self.sites.sites[site];
        let around = served
            .access
            .as_ref()
            .is_some_and(|access| access.is_got_around(request, url, &mut self.scratch));
        if around {
            return Verdict::Refused(Status::FORBIDDEN);
        }
        if let Some(status) = served.routes.returns().of(url) {
            return Verdict::Refused(status);
        }
        match served.gates.passage(url) {
            Some(_) if self.answering.asker == Asker::Files => Verdict::Refused(Status::FORBIDDEN),
            Some(_) => Verdict::Backend,
            None if served.routes.hides(url) => Verdict::Refused(Status::NOT_FOUND),
            None => Verdict::Open,
        }
    }

    /// Why the URL of a directory, which ends in a slash, is refused to a client that asks for it
    /// without one: a redirect would tell that it is there. Of all rules patterns alone tell the
    /// two apart.
    pub(super) fn directory_refused(
        &self,
        site: usize,
        request: &Request<'_>,
        url: &[u8],
    ) -> Option<Closed> {
        let Site { access, routes, .. } = &self.sites.sites[site];
        let client = request.client();
        if access.as_ref().is_some_and(|access| !access.patterns_admit(url, client)) {
            return Some(Closed::To(Refused::Network));
        }
        routes.returns().of(url).map(Closed::By)
    }

    /// Whether a module answers for a URL that does not answer for the path of the request.
    fn is_anothers_module(&mut self, site: usize, request: &Request<'_>, url: &[u8]) -> bool {
        let modules = &self.sites.sites[site].modules;
        let Some(there) = modules.answering(url) else { return false };
        self.module_of(site, request).is_none_or(|asked| asked.module != there)
    }

    /// Whether a file that was found may answer. The rules of the name that was looked for hold,
    /// and those of the neighbour that answers for it.
    pub(super) fn is_open_to(&mut self, job: &Job, found: &Found) -> bool {
        let request = job.request.request();
        self.is_open(job.site, &request, found.root, found.resource())
            && (found.resource.is_none()
                || self.is_open(job.site, &request, found.root, &found.name))
    }

    /// Whether the server itself reads a file that was found, so that no client gets it, whatever
    /// path, link or backend has led to it.
    pub(super) fn is_secret(&self, site: usize, found: &Found) -> bool {
        self.sites.secrets.have_found(site, found.root, &found.name, &found.stamp)
    }

    /// The answer in the place of a file that was found and may not answer.
    pub(super) fn by_rules_of(&mut self, job: &Job, found: &Found, now: &Now) -> Lookup<'_> {
        self.forget(job);
        let (site, request) = (job.site, job.request.request());
        let is_script = found.resource.is_none();
        for name in [found.resource(), &found.name] {
            let url = self.sites.sites[site].routes.url_of(found.root, name).unwrap_or_default();
            match self.verdict(site, &request, &url) {
                Verdict::Open => {}
                Verdict::Refused(status) => return self.refuse(&request, status),
                Verdict::Backend => {
                    let answer = self.ask_backend(site, &request, &url, is_script, now);
                    return carried(answer, job.redirects);
                }
            }
        }
        self.refuse(&request, Status::FORBIDDEN)
    }

    /// Whether a client may be shown a file of this name in place of the one that it asks for.
    pub(super) fn is_open(
        &mut self,
        site: usize,
        request: &Request<'_>,
        root: u16,
        name: &[u8],
    ) -> bool {
        match self.sites.sites[site].routes.url_of(root, name) {
            Some(url) => self.verdict(site, request, &url) == Verdict::Open,
            // Where no path leads, none can be closed.
            None => true,
        }
    }

    /// The answer of the backend that a URL leads to. A script that must be there is looked for
    /// first, unless it `is_there`.
    pub(super) fn ask_backend(
        &mut self,
        site: usize,
        request: &Request<'_>,
        url: &[u8],
        is_there: bool,
        now: &Now,
    ) -> Lookup<'_> {
        let sites = std::sync::Arc::clone(&self.sites);
        let served = &sites.sites[site];
        let Some(passage) = served.gates.passage(url) else {
            return self.refuse(request, Status::INTERNAL_SERVER_ERROR);
        };
        if passage.script().is_some_and(|script| served.routes.hides(script)) {
            return self.refuse(request, Status::NOT_FOUND);
        }
        if let Some(status) = self.script_refused(site, request, &passage) {
            return self.refuse(request, status);
        }
        if let Some(script) = passage.required().filter(|_| !is_there) {
            match self.caches.path(Scope::of_scripts(site), script, now.ms()) {
                Some(Target::Script) => {}
                Some(Target::Missing(status)) => return self.refuse(request, status),
                _ => return self.look_for_script(site, request, (url, script)),
            }
        }
        let user = served.user(request);
        let admitted = Admitted { request, user: user.as_deref() };
        Lookup::Respond(passage.begin(&admitted, &served.routes, site, now.ms()))
    }

    /// Why no script may answer that a passage leads to. Its URL ends where that of the request may
    /// go on (`/a.php/more`), and patterns are asked of it too.
    fn script_refused(
        &mut self,
        site: usize,
        request: &Request<'_>,
        passage: &Passage<'_>,
    ) -> Option<Status> {
        let Site { access, routes, .. } = &self.sites.sites[site];
        let scratch = &mut self.scratch;
        passage.scripts().find_map(|script| match access {
            Some(access) if access.closes_beside(request, script, scratch) => {
                Some(Status::FORBIDDEN)
            }
            _ => routes.returns().of(script),
        })
    }

    fn look_for_script(
        &mut self,
        site: usize,
        request: &Request<'_>,
        (url, script): (&[u8], &[u8]),
    ) -> Lookup<'_> {
        let served = &self.sites.sites[site];
        let place = served.routes.place_of(script);
        let exactly = served.exactly(place);
        let job = Job { origin: Origin::Script(url.to_vec()), ..Job::of_path(request, site) };
        Lookup::Wait(Plan::translate(job, Translate::new(exactly)))
    }

    /// A script was looked for: runs it, or says that it is not there. One that this process may
    /// not look at is left to the server that runs it.
    pub(super) fn looked_for_script(
        &mut self,
        job: &Job,
        url: &[u8],
        missing: Option<Status>,
        now: &Now,
    ) -> Lookup<'_> {
        let request = job.request.request();
        let missing = missing.filter(|status| *status != Status::FORBIDDEN);
        let passage = self.sites.sites[job.site].gates.passage(url);
        let script = passage.and_then(|passage| Some(passage.required()?.to_vec()));
        let target = missing.map_or(Target::Script, Target::Missing);
        let scope = Scope::of_scripts(job.site);
        match script {
            Some(script) if missing.is_none_or(|status| status == Status::NOT_FOUND) => {
                self.caches.set_path(scope, &script, target, now.ms());
            }
            Some(script) => self.caches.forget_path(scope, &script),
            None => {}
        }
        match missing {
            Some(status) => self.refuse(&request, status),
            None => carried(self.ask_backend(job.site, &request, url, true, now), job.redirects),
        }
    }
}

impl Site {
    /// Whether what has this URL is run, so that it must not be shown.
    pub(super) fn runs(&self, url: &[u8]) -> bool {
        self.gates.passage(url).is_some_and(|passage| passage.script().is_some())
    }

    /// The file of a URL that a rule closes: its root, and its name there.
    pub(super) fn file_of<'a>(&'a self, url: &'a [u8]) -> Option<(&'a Path, &'a [u8])> {
        let is_closed = self.routes.has_files() && self.closes(url);
        is_closed.then(|| self.routes.file_of(url))
    }

    /// Whether a rule keeps all clients, or some, from the file of this URL.
    pub(super) fn closes(&self, url: &[u8]) -> bool {
        self.gates.passage(url).is_some()
            || self.modules.answering(url).is_some()
            || self.routes.returns().of(url).is_some()
            || self.routes.hides(url)
            || self.access.as_ref().is_some_and(|access| access.closes(url))
    }
}

/// Whether a backend or a module could answer a request.
pub(super) fn takes_path(request: &Request<'_>) -> bool {
    matches!(request.head.form, TargetForm::Origin | TargetForm::Absolute)
        && !matches!(request.method(), Method::Connect | Method::Trace)
}

/// What follows counts as sent elsewhere by programs so often.
pub(super) fn carried(lookup: Lookup<'_>, redirects: u8) -> Lookup<'_> {
    match lookup {
        Lookup::Wait(mut plan) if redirects > 0 => {
            plan.set_redirects(redirects);
            Lookup::Wait(plan)
        }
        Lookup::Respond(mut next) if redirects > 0 => {
            next.set_redirects(redirects);
            Lookup::Respond(next)
        }
        other => other,
    }
}
