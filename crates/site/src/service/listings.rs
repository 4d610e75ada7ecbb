//! Directories without an index.

use std::sync::Arc;

use flyball_http::{Method, Name, Request, Segment, Status};
use flyball_sys::descriptors::Descriptor;
use flyball_sys::file::Whereabouts;

use super::produced::Produced;
use super::{Answer, Body, Lookup, Service};
use crate::coded_source::OneSegment;
use crate::filter::FilterKind;
use crate::listing::{self, ENTRIES_WHOLE_MAX, Gather, Unlisted, Wish};
use crate::listing_source::Listing;
use crate::path;
use crate::plan::{Job, Plan};
use crate::routes::Place;
use crate::source::Source;

impl Service {
    /// A directory without an index.
    pub(super) fn directory(
        &mut self,
        job: Job,
        directory: Arc<Descriptor>,
        place: Place,
    ) -> Lookup<'_> {
        self.forget(&job);
        let (site, request) = (job.site, job.request.request());
        if !matches!(request.method(), Method::Get | Method::Head) {
            return self.not_taken(&request);
        }
        if !self.sites.sites[site].settings.listing {
            return self.refuse(&request, Status::FORBIDDEN);
        }
        let within = beneath(&place.path);
        let readmes = listing::READMES
            .map(|name| self.is_open(site, &request, place.root, &[&within, name].concat()));
        let served = &self.sites.sites[site];
        // What is asked for, which is not what is looked for beneath an alias.
        let _ = path::map(request.path(), true, &mut self.relative);
        let asked = [b"/", &*beneath(&self.relative)].concat();
        let unlisted = Unlisted {
            returns: served.routes.returns().clone(),
            secrets: self.sites.secrets.clone(),
            site,
            root: place.root,
            urls: served.routes.url_of(place.root, &within).into_iter().chain([asked]).collect(),
            within,
        };
        let (root, path) = (served.routes.root(place.root), place.path);
        let place = Whereabouts { root, path, links: served.links };
        let (wish, hidden) = (Wish::of(&request), served.settings.hidden);
        let gather = Gather::new(directory, place, hidden, wish, ENTRIES_WHOLE_MAX)
            .shown_as(&self.relative)
            .with_readmes(readmes)
            .without(unlisted);
        Lookup::Wait(Plan::list(job, gather))
    }

    /// The answer, when all names were read, or the first of many.
    pub(super) fn listing(
        &mut self,
        request: &Request<'_>,
        site: usize,
        mut gather: Box<Gather>,
    ) -> Lookup<'_> {
        let (class, with_body) = (self.class(site, request), request.method() == Method::Get);
        let content = gather.is_at_end().then(|| listing::whole(&mut gather));
        let (served, format) = (&self.sites.sites[site], gather.wish().format);
        let media_type = format.media_type();
        let len = content.as_ref().map(|content| content.len() as u64);
        let coding = served.policy.of_stream(class, media_type, len);
        self.fields.clear();
        listing::add_fields(format, served.policy.streams(media_type, len), &mut self.fields);
        served.amend(request, media_type, false, &mut self.fields);
        let source: Box<dyn Source> = match &content {
            Some(content) => Box::new(OneSegment::new(Segment::Bytes(content.clone()))),
            None => Box::new(Listing::new(gather)),
        };
        let source = match coding.filter(|_| with_body) {
            Some(coding) => self.sites.code_produced(site, coding, source),
            None => Err(source),
        };
        let shed = with_body && coding.is_some() && source.is_err();
        self.compress_counts.shed += u64::from(shed);
        match (coding.filter(|_| !shed), len) {
            (Some(coding), _) => {
                self.fields.add(Name::ContentEncoding, FilterKind::of(coding).name);
            }
            (None, Some(len)) => self.fields.add_shown(Name::ContentLength, len),
            (None, None) => {}
        }
        let (status, fields) = (Status::OK, (&self.fields).into());
        let answer = |body| Answer { status, fields, body };
        match (source, content) {
            _ if !with_body => Lookup::Answer(answer(Body::Empty)),
            (Ok(coded), _) => {
                Lookup::Stream(answer(Body::Stream { len: None }), Produced::of(Box::new(coded)))
            }
            (Err(_), Some(content)) => Lookup::Answer(answer(Body::Bytes(content))),
            (Err(plain), None) => {
                Lookup::Stream(answer(Body::Stream { len: None }), Produced::of(plain))
            }
        }
    }
}

/// What stands before the names of a directory: its own, with a slash, unless it is `.`.
fn beneath(directory: &[u8]) -> Vec<u8> {
    match directory {
        b"." | b"" => Vec::new(),
        directory => [directory, b"/"].concat(),
    }
}
