//! Directories without an index.

use std::io::Write;
use std::sync::Arc;

use flyball_http::{Method, Request, Segment, Status, h1};
use flyball_sys::descriptors::Descriptor;
use flyball_sys::file::Whereabouts;

use super::{Answer, Lookup, Service};
use crate::coded_source::OneSegment;
use crate::filter::FilterKind;
use crate::listing::{self, ENTRIES_WHOLE_MAX, Gather, Listing, Wish};
use crate::path;
use crate::plan::{Job, Plan};
use crate::routes::Place;
use crate::source::{Produced, Source};

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
        let readmes = listing::READMES.map(|name| {
            let within: &[u8] = if place.path == b"." { b"" } else { &place.path };
            let path = [within, if within.is_empty() { b"" } else { b"/" }, name].concat();
            self.is_open(site, &request, place.root, &path)
        });
        let served = &self.sites.sites[site];
        // What is asked for, which is not what is looked for beneath an alias.
        let _ = path::map(request.path(), true, &mut self.relative);
        let (root, path) = (served.routes.root(place.root), place.path);
        let place = Whereabouts { root, path, links: served.links };
        let (wish, hidden) = (Wish::of(&request), served.settings.hidden);
        let gather = Gather::new(directory, place, hidden, wish, ENTRIES_WHOLE_MAX)
            .shown_as(&self.relative)
            .with_readmes(readmes);
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
        listing::write_fields(format, served.policy.streams(media_type, len), &mut self.fields);
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
        // Writing to a vector cannot fail.
        let _ = match (coding.filter(|_| !shed), len) {
            (Some(coding), _) => {
                write!(self.fields, "Content-Encoding: {}\r\n", FilterKind::of(coding).name)
            }
            (None, Some(len)) => write!(self.fields, "Content-Length: {len}\r\n"),
            (None, None) => Ok(()),
        };
        self.fields.extend_from_slice(b"\r\n");
        let (status, fields, close) = (Status::OK, &*self.fields, false);
        let answer = |body| Answer { status, fields, body, close };
        match (source, content) {
            _ if !with_body => Lookup::Answer(answer(h1::Body::Empty)),
            (Ok(coded), _) => Lookup::Stream(
                answer(h1::Body::Stream { len: None }),
                Produced::of(Box::new(coded)),
            ),
            (Err(_), Some(content)) => Lookup::Answer(answer(h1::Body::Bytes(content))),
            (Err(plain), None) => {
                Lookup::Stream(answer(h1::Body::Stream { len: None }), Produced::of(plain))
            }
        }
    }
}
