//! Requests that backends answer, and what becomes of what these say.

use std::sync::Arc;

use flyball_http::{Method, Name, Now, Request, Status};
use flyball_sys::sandbox::Rights;

use super::modules::{frame_without_content, has_no_content};
use super::{Answer, Body, Lookup, Service, Site, Sites, carried};
use crate::backend::{Failure, Outcome, Relay, Reply, Spool, Upstream};

/// How often one request may be sent elsewhere by programs.
const REDIRECTS_MAX: u8 = 10;

/// When a client may try again that found no backend, in seconds.
const RETRY_AFTER_S: u32 = 5;

impl Site {
    /// Who has logged in for a request that was let pass.
    pub(super) fn user(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        self.access.as_ref()?.user(request)
    }
}

impl Sites {
    /// The servers that answer for any of the sites, in the order of their numbers.
    pub fn upstreams(&self) -> Vec<&Arc<Upstream>> {
        let mut all: Vec<_> = self.sites.iter().flat_map(|site| site.gates.upstreams()).collect();
        all.sort_by_key(|upstream| upstream.number());
        all
    }

    /// Has long bodies wait in this place. To be called before the first fork.
    pub fn set_spool(&mut self, spool: Spool) {
        self.spool = Some(Arc::new(spool));
    }

    /// Where long bodies wait, if there is such a place.
    pub fn spool(&self) -> Option<&Spool> {
        self.spool.as_deref()
    }

    /// Whether backends answer for any of the sites.
    pub fn have_backends(&self) -> bool {
        self.sites.iter().any(|site| !site.gates.is_empty())
    }

    /// What is not there yet and may come later, for workers of these rights, and what is shown
    /// where it may not be meant to. Blocks on the disk.
    pub fn warnings(&self, rights: &Rights) -> Vec<String> {
        let mut warnings = self.kept_from_clients();
        warnings.extend(self.overlaps());
        warnings.extend(self.shown_elsewhere());
        for (_, site) in self.written() {
            warnings.extend(closed_directories(site.routes.closed_users()));
            warnings.extend(weak_passwords(site));
            for (table, responder) in site.settings.responders() {
                let missing = responder.missing(rights);
                warnings.extend(missing.map(|what| format!("site.{table}.socket: {what}")));
            }
        }
        warnings
    }
}

/// How many passwords of a site are hashed by a scheme that does not protect them.
fn weak_passwords(site: &Site) -> Option<String> {
    let weak = site.access.as_ref()?.users()?.weak();
    let file = site.settings.access.auth.file.as_deref()?.display();
    let whose = if weak == 1 { "that of one user is" } else { "those of {} users are" };
    let whose = whose.replace("{}", &weak.to_string());
    (weak > 0).then(|| {
        format!(
            "site.auth.file: of the passwords in {file}, {whose} hashed by MD5 (apr1), which is \
             tried out in hours by who gets the file; run: htpasswd -B {file} USER"
        )
    })
}

/// Users of a site that are named in one warning.
const USERS_TOLD: usize = 5;

/// Whose directories are not shown.
fn closed_directories(users: &[String]) -> Option<String> {
    let told = users.get(..USERS_TOLD).unwrap_or(users).join(", ");
    let more = match users.len().saturating_sub(USERS_TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = "cannot be entered by the workers' user and are not shown";
    (!users.is_empty()).then(|| format!("site.user-directories: those of {told}{more} {why}"))
}

impl Service {
    /// Where bodies go that memory does not hold.
    pub(crate) fn spool(&self) -> Option<&Arc<Spool>> {
        self.sites.spool.as_ref()
    }

    /// The answer of a backend, once [`Relay::advance`] has told of its head: that head, a refusal
    /// in the place of one that is none, or another lookup where the program named another path of
    /// this server. A body that is a stream comes by [`Relay::advance`], any other is whole.
    pub fn backend_answer(&mut self, relay: &mut Relay, now: &Now) -> Lookup<'_> {
        // Others may have been answered since it was asked.
        self.answers_for(Some(relay.site()), None);
        match relay.take_outcome() {
            Outcome::Failed(failure) => self.backend_failed(relay, failure),
            Outcome::Reply(mut reply) => {
                let file = reply.file.take().filter(|_| !has_no_content(reply.status));
                match (reply.redirect.take(), file) {
                    (_, Some(file)) => self.send_file(relay, reply, &file),
                    (Some(path), None) => self.backend_redirects(relay, &path, now),
                    (None, None) => self.backend_replies(relay, reply, now),
                }
            }
        }
    }

    fn backend_replies(&mut self, relay: &mut Relay, reply: Box<Reply>, now: &Now) -> Lookup<'_> {
        let status = reply.status;
        self.fields.clear();
        self.fields.append(reply.fields.lines());
        let (site, request) = (&self.sites.sites[relay.site()], relay.request().request());
        let with_content = request.method() != Method::Head;
        site.amend(&request, &reply.media_type(), status.class() >= 4, &mut self.fields);
        // Whatever the program sends.
        let body = if has_no_content(status) {
            frame_without_content(status, &mut self.fields);
            relay.end();
            Body::Empty
        } else {
            if with_content {
                relay.promise(reply.len);
            }
            let whole = relay.whole_len(now);
            // Nothing of it has left yet. The head alone answers HEAD.
            if let Some(failure) = relay.broken().filter(|_| with_content) {
                return self.backend_failed(relay, failure);
            }
            // To HEAD a program may send nothing, which says nothing of the length for GET.
            let len = reply.len.or(whole.filter(|_| with_content));
            let is_coded = self.code_answer(relay, &reply, len);
            Body::Stream { len: len.filter(|_| !is_coded) }
        };
        self.replied = Some(reply);
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }

    pub(super) fn backend_failed(&mut self, relay: &mut Relay, failure: Failure) -> Lookup<'_> {
        relay.failed = Some(failure);
        let request = relay.request().request();
        self.fields.clear();
        if failure.status() == Status::SERVICE_UNAVAILABLE {
            self.fields.add_shown(Name::RetryAfter, RETRY_AFTER_S);
        }
        let body = self.sites.sites[relay.site()].add_refusal(
            &request,
            failure.status(),
            &mut self.fields,
        );
        let status = failure.status();
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }

    /// As if the client had asked for that path (RFC 3875, section 6.2.2).
    fn backend_redirects(&mut self, relay: &mut Relay, path: &[u8], now: &Now) -> Lookup<'_> {
        relay.end();
        let redirects = relay.redirects() + 1;
        let request = relay.request().request().redirected(path);
        let Some(request) = request.filter(|_| redirects <= REDIRECTS_MAX) else {
            return self.backend_failed(relay, Failure::Malformed);
        };
        relay.leads(self.restricts(&request.request()));
        match carried(self.lookup(request.request(), now), redirects) {
            Lookup::Respond(mut next) => {
                // The body was for the first.
                next.end_body(now);
                Lookup::Respond(next)
            }
            other => other,
        }
    }
}
