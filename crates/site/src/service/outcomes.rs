//! What follows when a plan has found something, or nothing.

use flyball_http::{Method, Now, Status};

use super::{Lookup, Service, Verdict, carried};
use crate::access::Verification;
use crate::caches::Target;
use crate::plan::{Found, Job, Origin};

impl Service {
    /// A password was verified.
    pub(super) fn verified(&mut self, job: &Job, work: &Verification, now: &Now) -> Lookup<'_> {
        let (site, request) = (job.site, job.request.request());
        let access = self.sites.sites[site].access.as_ref();
        match access.map_or(Ok(()), |access| access.verified(work, now.ms())) {
            Ok(()) => carried(self.admitted(site, request, now), job.redirects),
            Err(refused) => {
                self.access_counts.failed += 1;
                self.turn_away(site, &request, refused)
            }
        }
    }

    pub(super) fn missing(&mut self, job: &Job, status: Status, now: &Now) -> Lookup<'_> {
        if let Origin::Script(url) = &job.origin {
            return self.looked_for_script(job, url, Some(status), now);
        }
        if matches!(status, Status::NOT_FOUND | Status::FORBIDDEN) {
            self.remember(job, Target::Missing(status), now);
        } else {
            self.forget(job);
        }
        let request = job.request.request();
        match request.method() {
            // Of a backend's any method may be answered with a file.
            _ if job.origin.reply().is_some() => self.refuse(&request, status),
            Method::Options | Method::Other => self.not_taken(&request),
            _ => self.refuse(&request, status),
        }
    }

    /// The path names nothing, and a backend answers for that.
    pub(super) fn falls_back(&mut self, job: &Job, now: &Now) -> Lookup<'_> {
        self.forget(job);
        let request = job.request.request();
        let Some(url) = self.sites.sites[job.site].settings.routes.fallback.clone() else {
            return self.refuse(&request, Status::INTERNAL_SERVER_ERROR);
        };
        match self.verdict(job.site, &request, url.as_bytes()) {
            Verdict::Refused(status) => self.refuse(&request, status),
            Verdict::Open | Verdict::Backend => {
                let answer = self.ask_backend(job.site, &request, url.as_bytes(), false, now);
                carried(answer, job.redirects)
            }
        }
    }

    pub(super) fn found(&mut self, job: Job, found: Found, now: &Now) -> Lookup<'_> {
        if let Origin::Script(url) = &job.origin {
            return self.looked_for_script(&job, url, None, now);
        }
        if job.origin.reply().is_some() {
            return self.choose(job, found, now);
        }
        let is_taken = matches!(job.request.request().method(), Method::Get | Method::Head);
        let is_open = self.is_open_to(&job, &found);
        match (is_open, is_taken) {
            (false, _) => self.by_rules_of(&job, &found, now),
            (true, false) => self.not_taken(&job.request.request()),
            (true, true) => self.choose(job, found, now),
        }
    }
}
