//! Requests that modules answer.

use bytes::Bytes;
use flyball_http::head::Content;
use flyball_http::{Fields, Method, Name, Now, OwnedRequest, Request, Segment, Status};
use flyball_module::Turn;

use super::running::Running;
use super::{Answer, Asker, Body, File, Lookup, Service, Sites, carried, takes_path};
use crate::modules::{BodyQueue, Called, Caller, Draft, FileWish, Place};
use crate::plan::Plan;

/// Content up to this long leaves in the buffer of its head: longer ones are allocated.
const COPIED_CONTENT_MAX: usize = 8 * 1024;

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
                self.answering.module = Some(mounted.number);
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
        let is_head = request.method() == Method::Head;
        if !is_head && !self.scratch_of_modules.draft.is_as_long_as_told() {
            return self.module_failed(request, Status::INTERNAL_SERVER_ERROR);
        }
        let draft = &self.scratch_of_modules.draft;
        let (status, len) = (draft.status, draft.content.len());
        self.fields.clear();
        self.fields.append(draft.fields.lines());
        self.sites.sites[site].amend(
            request,
            draft.media_type(),
            status.class() >= 4,
            &mut self.fields,
        );
        let len = draft.len.unwrap_or(len as u64);
        let body = if has_no_content(status) {
            frame_without_content(status, &mut self.fields);
            Body::Empty
        } else {
            self.fields.add_shown(Name::ContentLength, len);
            match draft.content.len() {
                _ if is_head => Body::Empty,
                0..=COPIED_CONTENT_MAX => Body::Copied(&draft.content),
                _ => Body::Bytes(Bytes::copy_from_slice(&draft.content)),
            }
        };
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }

    /// The answer of a module that needed several calls: whole if it is in parts, or to be
    /// continued.
    pub(crate) fn module_answer(
        &mut self,
        site: usize,
        request: &Request<'_>,
        draft: Draft,
        body: Body<'static>,
    ) -> Lookup<'_> {
        let status = draft.status;
        let is_head = request.method() == Method::Head;
        let whole = match &body {
            Body::Parts(parts) => Some(parts.iter().map(Segment::content_len).sum()),
            _ => None,
        };
        if !is_head && whole.is_some() && draft.len.is_some_and(|said| Some(said) != whole) {
            return self.module_failed(request, Status::INTERNAL_SERVER_ERROR);
        }
        self.fields.clear();
        self.fields.append(draft.fields.lines());
        let is_error = status.class() >= 4;
        self.sites.sites[site].amend(request, draft.media_type(), is_error, &mut self.fields);
        let body = match whole {
            _ if has_no_content(status) => {
                frame_without_content(status, &mut self.fields);
                Body::Empty
            }
            Some(whole) => {
                self.fields.add_shown(Name::ContentLength, draft.len.unwrap_or(whole));
                if is_head { Body::Empty } else { body }
            }
            None => body,
        };
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
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
                self.answering.asker = Asker::Module;
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
                self.answering.asker = Asker::Files;
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
        Body::Empty => 0,
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::File { len, .. } => *len,
        _ => return FilePart::Missing,
    };
    let len = wish.len.unwrap_or(all.saturating_sub(wish.offset));
    let Some(end) = wish.offset.checked_add(len).filter(|end| *end <= all) else {
        return FilePart::Missing;
    };
    FilePart::Ready(match answer.body {
        Body::Bytes(bytes) => Segment::Bytes(bytes.slice(wish.offset as usize..end as usize)),
        Body::File { file, offset, .. } => {
            Segment::File { file, offset: offset + wish.offset, len }
        }
        _ => Segment::Bytes(Bytes::new()),
    })
}

/// Whether a status allows no content.
pub(super) fn has_no_content(status: Status) -> bool {
    matches!(status, Status::NO_CONTENT | Status::RESET_CONTENT | Status::NOT_MODIFIED)
}

/// Adds what frames such an answer: 204 and 304 need nothing, 205 says that its length is zero (RFC
/// 9110, sections 15.3.5, 15.3.6 and 15.4.5).
pub(super) fn frame_without_content(status: Status, fields: &mut Fields) {
    if status == Status::RESET_CONTENT {
        fields.add(Name::ContentLength, "0");
    }
}
