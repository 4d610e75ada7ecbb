//! Answers that send a client elsewhere.

use bytes::Bytes;
use flyball_http::{Name, Now, Request, Status};

use super::urls::Closed;
use super::{Answer, Lookup, Service, page_body};
use crate::caches::Target;
use crate::plan::{Job, Origin};
use crate::{pages, path};

impl Service {
    /// A directory was asked for without its slash.
    pub(super) fn without_slash(&mut self, job: &Job, now: &Now) -> Lookup<'_> {
        if job.origin != Origin::Path {
            // A directory is neither a script nor a file that a backend may have sent.
            return self.missing(job, Status::NOT_FOUND, now);
        }
        self.remember(job, Target::NeedsSlash, now);
        self.redirect_to_slash(job.site, &job.request.request())
    }

    pub(super) fn redirect(&mut self, site: usize, rule: u32, request: &Request<'_>) -> Lookup<'_> {
        self.fields.clear();
        let routes = &self.sites.sites[site].routes;
        let write = |text: &mut Vec<u8>| routes.location(rule, request, text);
        let status = self.fields.add_with(Name::Location, write);
        match status {
            Some(status) => self.moved(site, status, request),
            // It names the host that was asked for, and that is none.
            None => self.refuse(request, Status::BAD_REQUEST),
        }
    }

    pub(super) fn redirect_to_slash(&mut self, site: usize, request: &Request<'_>) -> Lookup<'_> {
        if path::map(request.path(), true, &mut self.relative).is_err() {
            return self.refuse(request, Status::BAD_REQUEST);
        }
        let url = [b"/", &self.relative[..], b"/"].concat();
        match self.directory_refused(site, request, &url) {
            Some(Closed::To(refused)) => return self.turn_away(site, request, refused),
            Some(Closed::By(status)) => return self.refuse(request, status),
            None => {}
        }
        // Built from the normalised path, so that `//host` in a request never becomes a Location.
        self.fields.clear();
        self.fields.add_with(Name::Location, |text| {
            path::encode_path(&self.relative, text);
            text.push(b'/');
            if !request.sent_query().is_empty() {
                text.push(b'?');
                path::encode_query(request.sent_query(), text);
            }
        });
        self.moved(site, Status::MOVED_PERMANENTLY, request)
    }

    /// The rest of an answer whose fields have begun with `Location`.
    fn moved(&mut self, site: usize, status: Status, request: &Request<'_>) -> Lookup<'_> {
        let page = pages::page(status);
        self.sites.sites[site].amend(request, pages::TYPE, false, &mut self.fields);
        pages::add_fields(page.len(), &mut self.fields);
        let body = page_body(request, Bytes::from_static(page));
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }
}
