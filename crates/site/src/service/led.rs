//! Where a path has led: what is looked for there, and in its place where no file is.

use flyball_http::{Now, OwnedRequest, Request, Status};

use super::urls::{Asker, Verdict, carried};
use super::{Lookup, Service};
use crate::path::Mapped;
use crate::plan::{Job, Plan};
use crate::routes::Led;
use crate::translate::Translate;

impl Service {
    /// Looks for the file of a request where its path has led, if the rules of that URL let it.
    pub(super) fn look_for(
        &mut self,
        site: usize,
        request: Request<'_>,
        led: Led,
        now: &Now,
    ) -> Lookup<'_> {
        let rewritten = led.query.as_deref().map(|query| request.with_query(query));
        let request = rewritten.as_ref().map_or(request, OwnedRequest::request);
        let served = &self.sites.sites[site];
        let (is_plain, job) = (served.routes.is_plain(), Job::of_path(&request, site));
        let place = &led.place;
        let slash: &[u8] = if place.mapped == Mapped::Directory { b"/" } else { b"" };
        let url = served.routes.url_of(place.root, &place.path).unwrap_or_default();
        let url = [url.strip_suffix(b"/").unwrap_or(&url), slash].concat();
        let work = Translate::new(served.asked(&request, led));
        // Without rewrites the rules of its own path have been asked.
        let verdict = match is_plain && self.answering.asker == Asker::Client {
            true => Verdict::Open,
            false => self.verdict(site, &request, &url),
        };
        match verdict {
            Verdict::Open => Lookup::Wait(Plan::translate(job, work)),
            Verdict::Refused(status) => self.refuse(&request, status),
            Verdict::Backend => self.ask_backend(site, &request, &url, false, now),
        }
    }

    /// The path names nothing, and a rule leads on then: to a URL whose own rules hold.
    pub(super) fn led_on(&mut self, job: &Job, now: &Now) -> Lookup<'_> {
        self.forget(job);
        let request = job.request.request();
        match self.sites.sites[job.site].routes.otherwise(request.path()) {
            Some(led) => carried(self.look_for(job.site, request, led, now), job.redirects),
            None => self.refuse(&request, Status::INTERNAL_SERVER_ERROR),
        }
    }
}
