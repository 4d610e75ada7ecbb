//! Requests that modules answer.

use std::io::Write;

use bytes::Bytes;
use flyball_http::head::Content;
use flyball_http::{Method, Now, OwnedRequest, Request, Segment, Status, h1};
use flyball_module::Turn;

use super::{Answer, Asker, File, Lookup, Service, Sites, carried, takes_path};
use crate::modules::{BodyQueue, Called, Caller, Draft, FileWish, Place, Running};
use crate::plan::Plan;

/// Content up to this long leaves in the buffer of its head: longer ones are allocated.
const INLINE_CONTENT_MAX: usize = 8 * 1024;

/// What there is of a file that a module wants sent.
pub(crate) enum FilePart {
    /// The range.
    Ready(Segment<File>),
    /// The file is not in the caches.
    Wait(Box<Plan>),
    /// There is no such range of such a file.
    Missing,
}

/// What a module writes into, and the canonical path that it sees: used again for each request.
#[derive(Debug, Default)]
pub(super) struct ModuleScratch {
    draft: Draft,
    path: Vec<u8>,
    id: String,
}

impl Sites {
    /// Whether modules answer anything.
    pub fn has_modules(&self) -> bool {
        !self.modules.is_empty()
    }
}

impl Service {
    /// Tells how long calls of modules took in this process since somebody was told last: the
    /// number of a module among those of all sites, and nanoseconds.
    pub fn take_module_times(&self, mut tell: impl FnMut(usize, u64)) {
        for mounted in &self.sites.modules {
            let spent_ns = mounted.take_spent_ns();
            if spent_ns > 0 {
                tell(mounted.number, spent_ns);
            }
        }
    }

    /// The module of a request, if one answers it.
    pub(super) fn module_of(&mut self, site: usize, request: &Request<'_>) -> Option<Place> {
        if !takes_path(request) {
            return None;
        }
        self.sites.sites[site].modules.find(request, &mut self.scratch_of_modules.path)
    }

    /// Calls a module, and gives its answer if it is complete at once.
    pub(super) fn call_module(
        &mut self,
        site: usize,
        place: Place,
        request: Request<'_>,
        now: &Now,
    ) -> Lookup<'_> {
        let ModuleScratch { draft, path, id } = &mut self.scratch_of_modules;
        let path = if place.as_sent { request.path() } else { &path[..] };
        let mounted = self.sites.sites[site].modules.get(place.module);
        let later = || Running::new(mounted, request.to_owned(), (path, place.at), site);
        let Some(module) = mounted.ready() else { return Lookup::Respond(later()) };
        draft.clear();
        id.clear();
        let mut body = BodyQueue { ended: request.content() == Content::None, ..BodyQueue::NONE };
        let caller = Caller { request, path, at: place.at, name: mounted.name() };
        let mut called = Called { caller, body: &mut body, draft, id };
        let turn = mounted.timed(|| module.answer(&mut called));
        match turn {
            Turn::Done if draft.serve.is_none() && draft.files.is_empty() => {
                self.answered_by = Some(mounted.number);
                self.answer_of_draft(site, &request)
            }
            Turn::Done if draft.serve.is_some() => {
                let path = draft.serve.take().unwrap_or_default();
                self.serve_instead(site, &request, (&path, 0), now)
            }
            turn => {
                let (draft, id) = (std::mem::take(draft), std::mem::take(id));
                Lookup::Respond(later().begun(turn, id, draft, now))
            }
        }
    }

    /// The answer that is in memory.
    fn answer_of_draft(&mut self, site: usize, request: &Request<'_>) -> Lookup<'_> {
        let draft = &self.scratch_of_modules.draft;
        let (status, len) = (draft.status, draft.content.len());
        let is_head = request.method() == Method::Head;
        if draft.len.is_some_and(|said| said != len as u64) && !is_head {
            return self.module_failed(request, Status::INTERNAL_SERVER_ERROR);
        }
        self.fields.clear();
        self.fields.extend_from_slice(&draft.fields);
        self.sites.sites[site].amend(
            request,
            draft.media_type(),
            status.class() >= 4,
            &mut self.fields,
        );
        let len = draft.len.unwrap_or(len as u64);
        let body = if let Some(framing) = framing_without_content(status) {
            self.fields.extend_from_slice(framing);
            self.fields.extend_from_slice(b"\r\n");
            h1::Body::Empty
        } else {
            write_length(len, &mut self.fields);
            match draft.content.len() {
                _ if is_head => h1::Body::Empty,
                inline @ 0..=INLINE_CONTENT_MAX => {
                    self.fields.extend_from_slice(&draft.content);
                    h1::Body::Inline(inline)
                }
                _ => h1::Body::Bytes(Bytes::copy_from_slice(&draft.content)),
            }
        };
        Lookup::Answer(Answer { status, fields: &self.fields, body, close: false })
    }

    /// The answer of a module that needed several calls: whole if it is in parts, or to be
    /// continued.
    pub(crate) fn module_answer(
        &mut self,
        site: usize,
        request: &Request<'_>,
        draft: Draft,
        body: h1::Body<File>,
    ) -> Lookup<'_> {
        let status = draft.status;
        let is_head = request.method() == Method::Head;
        let whole = match &body {
            h1::Body::Parts(parts) => Some(parts.iter().map(Segment::content_len).sum()),
            _ => None,
        };
        if !is_head && whole.is_some() && draft.len.is_some_and(|said| Some(said) != whole) {
            return self.module_failed(request, Status::INTERNAL_SERVER_ERROR);
        }
        self.fields.clear();
        self.fields.extend_from_slice(&draft.fields);
        let is_error = status.class() >= 4;
        self.sites.sites[site].amend(request, draft.media_type(), is_error, &mut self.fields);
        let body = match (whole, framing_without_content(status)) {
            (_, Some(framing)) => {
                self.fields.extend_from_slice(framing);
                h1::Body::Empty
            }
            (Some(whole), None) => {
                let len = draft.len.unwrap_or(whole);
                let line = format!("Content-Length: {len}\r\n");
                self.fields.extend_from_slice(line.as_bytes());
                if is_head { h1::Body::Empty } else { body }
            }
            (None, None) => body,
        };
        self.fields.extend_from_slice(b"\r\n");
        Lookup::Answer(Answer { status, fields: &self.fields, body, close: false })
    }

    /// The answer in the place of a module that has none.
    pub(crate) fn module_failed(&mut self, request: &Request<'_>, status: Status) -> Lookup<'_> {
        self.refuse(request, status)
    }

    /// The site's own answer for another path; programs have sent the request elsewhere so often.
    pub(crate) fn serve_instead(
        &mut self,
        site: usize,
        request: &Request<'_>,
        (path, redirects): (&[u8], u8),
        now: &Now,
    ) -> Lookup<'_> {
        match request.redirected(path) {
            Some(other) => {
                self.asker = Asker::Module;
                carried(self.look_up(site, other.request(), now), redirects)
            }
            None => self.refuse(request, Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// A range of a file, by the path of a request for it.
    pub(crate) fn part_of_file(
        &mut self,
        site: usize,
        request: &Request<'_>,
        wish: &FileWish,
        now: &Now,
    ) -> FilePart {
        match OwnedRequest::get(&wish.path, request.host()) {
            Some(file) => {
                self.asker = Asker::Files;
                part_of(self.look_up(site, file.request(), now), wish)
            }
            None => FilePart::Missing,
        }
    }

    /// The same, once the work behind it is done.
    pub(crate) fn opened_part(&mut self, plan: Plan, wish: &FileWish, now: &Now) -> FilePart {
        part_of(self.resume_for(Asker::Files, plan, now), wish)
    }
}

/// The range of an answer's body, if it is that of a file.
fn part_of(lookup: Lookup<'_>, wish: &FileWish) -> FilePart {
    let answer = match lookup {
        Lookup::Wait(plan) => return FilePart::Wait(plan),
        Lookup::Answer(answer) if answer.status == Status::OK => answer,
        _ => return FilePart::Missing,
    };
    let all = match &answer.body {
        h1::Body::Empty => 0,
        h1::Body::Bytes(bytes) => bytes.len() as u64,
        h1::Body::File { len, .. } => *len,
        _ => return FilePart::Missing,
    };
    let len = wish.len.unwrap_or(all.saturating_sub(wish.offset));
    let Some(end) = wish.offset.checked_add(len).filter(|end| *end <= all) else {
        return FilePart::Missing;
    };
    FilePart::Ready(match answer.body {
        h1::Body::Bytes(bytes) => Segment::Bytes(bytes.slice(wish.offset as usize..end as usize)),
        h1::Body::File { file, offset, .. } => {
            Segment::File { file, offset: offset + wish.offset, len }
        }
        _ => Segment::Bytes(Bytes::new()),
    })
}

/// The field that frames an answer whose status allows no content, or `None` if it allows some: 204
/// and 304 need none, 205 says that its length is zero (RFC 9110, sections 15.3.5, 15.3.6 and
/// 15.4.5).
pub(super) fn framing_without_content(status: Status) -> Option<&'static [u8]> {
    match status {
        Status::NO_CONTENT | Status::NOT_MODIFIED => Some(b""),
        Status::RESET_CONTENT => Some(b"Content-Length: 0\r\n"),
        _ => None,
    }
}

/// The last field and the blank line.
fn write_length(len: u64, fields: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(fields, "Content-Length: {len}\r\n\r\n");
}
