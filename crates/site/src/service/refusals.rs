//! Answers in the place of the one that was asked for.

use bytes::Bytes;
use flyball_http::{Method, Name, Request, Status};

use super::transport::Passage;
use super::{Answer, Body, Lookup, Service, page_body};
use crate::access::Refused;
use crate::pages;

impl Service {
    /// A page that says what is wrong, and nothing about why; the site's own, if it has one.
    pub(super) fn refuse(&mut self, request: &Request<'_>, status: Status) -> Lookup<'_> {
        self.fields.clear();
        self.refuse_with(request, status)
    }

    /// The same, behind fields that are there already.
    fn refuse_with(&mut self, request: &Request<'_>, status: Status) -> Lookup<'_> {
        let Some(site) = self.sites.site_of(request) else {
            return self.refuse_without_site(request, status);
        };
        let body = self.sites.sites[site].add_refusal(request, status, &mut self.fields);
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }

    fn refuse_without_site(&mut self, request: &Request<'_>, status: Status) -> Lookup<'_> {
        self.refuse_by(request, status, pages::page(status))
    }

    /// The answer to a request that came by a way which does not lead to its site: nothing of that
    /// is told but this page.
    pub(super) fn misdirect(&mut self, request: &Request<'_>, page: &'static [u8]) -> Lookup<'_> {
        self.fields.clear();
        self.refuse_by(request, Status::MISDIRECTED_REQUEST, page)
    }

    fn refuse_by(
        &mut self,
        request: &Request<'_>,
        status: Status,
        page: &'static [u8],
    ) -> Lookup<'_> {
        pages::add_fields(page.len(), &mut self.fields);
        let body = page_body(request, Bytes::from_static(page));
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }

    pub(super) fn refuse_without_request(&mut self, status: Status) -> Lookup<'_> {
        let page = pages::page(status);
        self.fields.clear();
        pages::add_fields(page.len(), &mut self.fields);
        let body = Body::Bytes(Bytes::from_static(page));
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }

    /// The answer to a client that may take no more now, and may ask again after so many seconds.
    pub fn throttle(
        &mut self,
        request: &Request<'_>,
        (status, wait_s): (Status, u64),
    ) -> Lookup<'_> {
        self.fields.clear();
        self.fields.add_shown(Name::RetryAfter, wait_s);
        self.refuse_unseen(request, status)
    }

    /// The answer to a request whose body is longer than any may be.
    pub fn refuse_body(&mut self, request: &Request<'_>) -> Lookup<'_> {
        self.fields.clear();
        self.refuse_unseen(request, Status::CONTENT_TOO_LARGE)
    }

    /// The answer to a request of which nothing was asked yet, behind fields that are there
    /// already: its site says nothing to one that came by a way which does not lead to it.
    fn refuse_unseen(&mut self, request: &Request<'_>, status: Status) -> Lookup<'_> {
        let Service { sites, .. } = self;
        let site = sites.site_of(request);
        let passage = site.map(|site| sites.transports.passage(site, request, &sites.hosts));
        self.answers_for(site, None);
        match passage {
            Some(Passage::Free) => self.refuse_with(request, status),
            _ => self.refuse_without_site(request, status),
        }
    }

    /// The answer to a request that may not be answered.
    pub(super) fn turn_away(
        &mut self,
        site: usize,
        request: &Request<'_>,
        refused: Refused,
    ) -> Lookup<'_> {
        self.access_counts.refused(refused);
        self.fields.clear();
        if let Some(access) = &self.sites.sites[site].access {
            access.add_fields(refused, &mut self.fields);
        }
        self.refuse_with(request, refused.status())
    }

    /// The answer to a method that no file takes.
    pub(super) fn not_taken(&mut self, request: &Request<'_>) -> Lookup<'_> {
        match request.method() {
            Method::Options => self.allow(request, Status::NO_CONTENT),
            Method::Other => self.refuse(request, Status::NOT_IMPLEMENTED),
            _ => self.allow(request, Status::METHOD_NOT_ALLOWED),
        }
    }

    /// `Allow` tells what there is to do with any path here (RFC 9110, sections 9.3.7 and 15.5.6).
    fn allow(&mut self, request: &Request<'_>, status: Status) -> Lookup<'_> {
        self.fields.clear();
        self.fields.add(Name::Allow, "GET, HEAD, OPTIONS");
        if status != Status::NO_CONTENT {
            return self.refuse_with(request, status);
        }
        if let Some(site) = self.sites.site_of(request) {
            self.sites.sites[site].amend(request, "", true, &mut self.fields);
        }
        let body = Body::Empty;
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }
}
