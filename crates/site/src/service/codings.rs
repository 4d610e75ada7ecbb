//! Which coding the body of a file leaves in, and how it comes by it.

use std::sync::Arc;

use bytes::Bytes;
use flyball_http::coding::{Class, Coding};
use flyball_http::{Now, OwnedRequest, Request};

use super::{Lookup, Service, Site, Source};
use crate::caches::Target;
use crate::coded::Beside;
use crate::compress::{Body, CompressCounts, Compression};
use crate::entry::{Content, OpenFile};
use crate::filter::FilterKind;
use crate::plan::{Found, Plan, Served};
use crate::variant::Variant;

impl Service {
    /// What compression has come to in this service since the start.
    pub fn compress_counts(&self) -> CompressCounts {
        self.compress_counts
    }

    /// What a request would rather have of the codings of its site.
    pub(super) fn class(&mut self, site: usize, request: &Request<'_>) -> Class {
        self.sites.sites[site].policy.class(request, &mut self.classes)
    }

    /// A file was found: whether it leaves coded may depend on what is beside it.
    pub(super) fn choose(
        &mut self,
        request: OwnedRequest,
        site: usize,
        found: Found,
        now: &Now,
    ) -> Lookup<'_> {
        let class = self.class(site, &request.request());
        let served = &self.sites.sites[site];
        if class == Class::NONE || !served.varies(&found, &served.kind_of(&found).0) {
            return self.represent(request, site, found, now);
        }
        if served.policy.takes_neighbours() {
            let root = served.routes.root(found.root);
            let beside = Beside::new(root, served.links, found, class);
            return Lookup::Wait(Plan::beside(request, site, beside));
        }
        self.chosen(request, site, found, now)
    }

    /// Nothing is beside it any more that was not looked at.
    pub(super) fn chosen(
        &mut self,
        request: OwnedRequest,
        site: usize,
        mut found: Found,
        now: &Now,
    ) -> Lookup<'_> {
        if found.served == Served::Plain {
            let class = self.class(site, &request.request());
            let policy = &self.sites.sites[site].policy;
            if let Some(coding) = policy.coding(class, found.stamp.size) {
                found.served = Served::Here(coding);
            }
        }
        self.represent(request, site, found, now)
    }

    /// It is decided how the body leaves: answers, or says what has to be waited for.
    pub(super) fn represent(
        &mut self,
        request: OwnedRequest,
        site: usize,
        found: Found,
        now: &Now,
    ) -> Lookup<'_> {
        let variant = self.variant(site, &request.request(), &found);
        let name = variant.name(&found.name);
        if let Some(file) = self.caches.file(variant.scope(site), &name, &found.stamp) {
            self.set_path(site, &request.request(), Target::File(file), now);
            return self.answer_file(Source::Cached(file), site, &request.request(), now);
        }
        if let Served::Here(coding) = found.served {
            return self.code(request, site, found, coding, now);
        }
        if self.is_small(found.stamp.size) {
            return Lookup::Wait(Plan::load(request, site, found));
        }
        Lookup::Wait(Plan::settle(request, site, found))
    }

    /// Whether a body of this size is held in memory.
    fn is_small(&self, size: u64) -> bool {
        let settings = self.caches.settings();
        settings.content_bytes_max > 0 && size <= settings.small_bytes_max
    }

    pub(super) fn open_file(
        &mut self,
        request: &OwnedRequest,
        site: usize,
        found: &Found,
        now: &Now,
    ) -> Lookup<'_> {
        let open = OpenFile::new(Arc::clone(&found.file), found.stamp);
        self.brought_in(request, site, found, Content::Open(Arc::new(open)), now)
    }

    /// A body has to be coded: begins with having it in memory.
    pub(super) fn code(
        &mut self,
        request: OwnedRequest,
        site: usize,
        found: Found,
        coding: Coding,
        now: &Now,
    ) -> Lookup<'_> {
        let load = &self.sites.load;
        if load.is_stubborn(&body_of(site, &found, coding)) {
            return self.represent(request, site, found.plain(), now);
        }
        if load.is_full(&self.sites.sites[site].policy) {
            self.compress_counts.shed += 1;
            return self.represent(request, site, found.plain(), now);
        }
        let plain = Variant { coding: 0, ..self.variant(site, &request.request(), &found) };
        let held = self.caches.file(plain.scope(site), &plain.name(&found.name), &found.stamp);
        let entry = held.and_then(|place| self.caches.entry(place));
        if let Some(Content::Memory(body)) = entry.map(|entry| &entry.content) {
            let body = body.clone();
            return self.compress(request, site, found, body, now);
        }
        Lookup::Wait(Plan::load(request, site, found))
    }

    /// The body is in memory: codes it, or sends it as it is when there is enough to do.
    pub(super) fn compress(
        &mut self,
        request: OwnedRequest,
        site: usize,
        found: Found,
        body: Bytes,
        now: &Now,
    ) -> Lookup<'_> {
        let policy = &self.sites.sites[site].policy;
        let permit = || self.sites.load.permit(policy);
        match found.served.coding().and_then(|coding| Some((coding, permit()?))) {
            Some((coding, permit)) => {
                let work = Compression::new(body, coding, policy.level(coding), permit);
                Lookup::Wait(Plan::compress(request, site, found, work))
            }
            None => {
                self.compress_counts.shed += 1;
                self.send_plain(request, site, found, body, now)
            }
        }
    }

    /// The body was coded, or is not worth it.
    pub(super) fn compressed(
        &mut self,
        request: OwnedRequest,
        site: usize,
        found: Found,
        work: &Compression,
        now: &Now,
    ) -> Lookup<'_> {
        let Some(coded) = work.take() else {
            self.sites.load.set_stubborn(&body_of(site, &found, work.coding()));
            return self.send_plain(request, site, found, work.body().clone(), now);
        };
        self.compress_counts.compressions += 1;
        self.compress_counts.saved_bytes += (work.body().len() - coded.len()) as u64;
        if self.caches.holds_only_files() {
            return Lookup::Wait(Plan::keep(request, site, found, coded.into()));
        }
        let content = Content::Memory(self.caches.body(coded));
        self.brought_in(&request, site, &found, content, now)
    }

    /// Sends a body as it is that was to be coded.
    fn send_plain(
        &mut self,
        request: OwnedRequest,
        site: usize,
        found: Found,
        body: Bytes,
        now: &Now,
    ) -> Lookup<'_> {
        let found = found.plain();
        if !self.is_small(found.stamp.size) {
            return Lookup::Wait(Plan::settle(request, site, found));
        }
        let content = Content::Memory(self.caches.body(body.into()));
        self.brought_in(&request, site, &found, content, now)
    }
}

impl Site {
    /// Whether the answers of a file depend on what a client accepts.
    pub(super) fn varies(&self, found: &Found, media_type: &str) -> bool {
        found.served != Served::Plain || self.policy.varies(media_type, found.stamp.size)
    }

    /// The name of the coding of a body, and what its entity tag ends with: with the level, since
    /// another one makes other bytes.
    pub(super) fn coding_of(&self, found: &Found) -> (&'static str, String) {
        let Some(coding) = found.served.coding() else { return ("", String::new()) };
        let mut tag = FilterKind::of(coding).tag.to_owned();
        if found.is_coded_here() {
            tag += &self.policy.level(coding).to_string();
        }
        (coding.name(), tag)
    }
}

fn body_of(site: usize, found: &Found, coding: Coding) -> Body<'_> {
    Body { site, name: &found.name, stamp: &found.stamp, coding }
}
