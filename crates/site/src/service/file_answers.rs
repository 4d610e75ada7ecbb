//! Answers with files, of what the caches hold of them.

use std::sync::Arc;

use flyball_http::conditional::CONDITIONAL;
use flyball_http::range::ByteRange;
use flyball_http::{AnswerFields, Method, Now, Request, Status};

use super::partial::conditional_answer;
use super::produced::Produced;
use super::{Answer, Body, Lookup, Service};
use crate::backend::Reply;
use crate::caches::Place;
use crate::entry::{Content, FileEntry};
use crate::held::HeldCaches;

/// An answer with a file.
pub(super) struct FileAnswer<'a> {
    pub(super) status: Status,
    pub(super) fields: AnswerFields<'a>,
    pub(super) body: Body<'static>,
    /// What produces the body where that is coded while it is sent.
    pub(super) produced: Option<Box<dyn crate::source::Source>>,
}

/// Where the entry of an answer is.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Cached(Place),
    Transient,
}

impl Source {
    pub(super) fn entry<'a>(
        self,
        caches: &'a HeldCaches,
        transient: Option<&'a FileEntry>,
    ) -> Option<&'a FileEntry> {
        match self {
            Source::Cached(handle) => caches.entry(handle),
            Source::Transient => transient,
        }
    }
}

impl Service {
    /// Answers with a file, which may be one that a backend named in its reply.
    pub(super) fn answer_file(
        &mut self,
        source: Source,
        site: usize,
        request: &Request<'_>,
        reply: Option<&Reply>,
        now: &Now,
    ) -> Lookup<'_> {
        let FileAnswer { status, fields, body, produced } = match reply {
            Some(reply) => self.sent_file(source, site, request, reply, now),
            None => self.file_answer(source, site, request, None, now),
        };
        let answer = Answer { status, fields, body };
        match produced {
            Some(produced) => Lookup::Stream(answer, Produced::of(produced)),
            None => Lookup::Answer(answer),
        }
    }

    /// A 200, 206, 304, 412 or 416, by RFC 9110, section 13.2.2.
    pub(super) fn file_answer(
        &mut self,
        source: Source,
        site: usize,
        request: &Request<'_>,
        reply: Option<&Reply>,
        now: &Now,
    ) -> FileAnswer<'_> {
        let Some(entry) = source.entry(&self.caches, self.transient.as_deref()) else {
            let status = Status::INTERNAL_SERVER_ERROR;
            self.fields.clear();
            let body = self.sites.sites[site].add_refusal(request, status, &mut self.fields);
            return FileAnswer { status, fields: (&self.fields).into(), body, produced: None };
        };
        let with_body = request.method() != Method::Head;
        if request.has_any(CONDITIONAL) && reply.is_none_or(|reply| reply.is_of_file(request)) {
            let served = &self.sites.sites[site];
            let kind = reply.and_then(Reply::content_type).unwrap_or(entry.media_type().as_bytes());
            let fields = &mut self.fields;
            let conditional = conditional_answer(entry, served, request, kind, fields, now);
            if let Some((status, body)) = conditional {
                return FileAnswer { status, fields: (&self.fields).into(), body, produced: None };
            }
        }
        if with_body && entry.is_decoded() {
            return self.sites.decoded_answer(site, entry, request, &mut self.fields);
        }
        if with_body && let Some(coding) = entry.coded_on_the_way() {
            return match self.sites.begin_coding(site, entry, coding) {
                Ok(source) => {
                    let (status, body) = (Status::OK, Body::Stream { len: None });
                    let fields = entry.head().into();
                    FileAnswer { status, fields, body, produced: Some(Box::new(source)) }
                }
                Err(shed) => {
                    self.compress_counts.shed += u64::from(shed);
                    self.fields.clear();
                    entry.add_plain_fields(&mut self.fields);
                    let (status, body) = (Status::OK, whole_body(entry));
                    FileAnswer { status, fields: (&self.fields).into(), body, produced: None }
                }
            };
        }
        let body = if with_body { whole_body(entry) } else { Body::Empty };
        let fields = if self.caches.settings().heads {
            entry.head().into()
        } else {
            self.fields.clear();
            entry.add_fields(&mut self.fields);
            (&self.fields).into()
        };
        FileAnswer { status: Status::OK, fields, body, produced: None }
    }
}

fn whole_body(entry: &FileEntry) -> Body<'static> {
    part_of_body(entry, ByteRange { start: 0, end: entry.len() })
}

pub(super) fn part_of_body(entry: &FileEntry, range: ByteRange) -> Body<'static> {
    let len = range.end - range.start;
    match &entry.content {
        Content::Memory(body) => Body::Bytes(body.slice(range.start as usize..range.end as usize)),
        Content::Open(file) => Body::File { file: Arc::clone(file), offset: range.start, len },
    }
}
