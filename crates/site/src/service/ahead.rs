//! Files that are brought in before anybody asks for them: the objects of a page (policy
//! `structured`) and what is pinned by its name (policy `hinted`). They wait in a bounded queue
//! until a connection has nothing else to do; who asks for one meanwhile does not wait for it.

use std::collections::VecDeque;

use flyball_http::request::Draft;
use flyball_http::{Name, Now, OwnedRequest, Request};

use super::{Asker, Lookup, Service};
use crate::path;
use crate::pattern;
use crate::plan::Plan;
use crate::policy::CachePolicy;
use crate::references::{self, Language};

/// Most files that wait; what does not fit is brought in when somebody asks for it.
pub(crate) const QUEUE_MAX: usize = 64;

/// How far references are followed: from a page to its objects, and from these to theirs.
const DEPTH_MAX: u8 = 2;

/// The requests that would bring the files in, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    queue: VecDeque<(OwnedRequest, u8)>,
    /// How far from a client's request the file is that is being brought in; 0 is its own.
    depth: u8,
}

impl Ahead {
    /// Adds a file, by its name relative to the root of the site that this host names where a
    /// listener serves the hosts of that number; `fields` are those of a request that say what its
    /// client accepts.
    fn push(&mut self, (listener, host): (u16, &[u8]), name: &[u8], fields: &[Field<'_>]) {
        if self.queue.len() < QUEUE_MAX && self.depth < DEPTH_MAX {
            let request = request((listener, host), name, fields);
            self.queue.extend(request.map(|request| (request, self.depth + 1)));
        }
    }

    fn pop(&mut self) -> Option<(OwnedRequest, u8)> {
        self.queue.pop_front()
    }
}

impl Service {
    /// True when a file waits to be brought in before anybody asks for it.
    pub fn has_ahead(&self) -> bool {
        !self.ahead.queue.is_empty()
    }

    /// The work that brings the next such file in; it goes to [`Service::resume_ahead`]. Never
    /// blocks.
    pub fn fetch_ahead(&mut self, now: &Now) -> Option<Box<Plan>> {
        while let Some((request, depth)) = self.ahead.pop() {
            let counts = self.caches.counts();
            let plan = match self.lookup_for(Asker::Files, request.request(), now) {
                Lookup::Wait(plan) => Some(plan),
                Lookup::Answer(_) | Lookup::Stream(..) | Lookup::Respond(_) => None,
            };
            self.caches.forget_requests(&counts);
            if let Some(mut plan) = plan {
                plan.ahead = depth;
                return Some(plan);
            }
        }
        None
    }

    /// Takes what a plan has found into the caches, although what asked for it is gone.
    pub fn learn(&mut self, plan: Plan, now: &Now) {
        if plan.request().is_some() {
            self.resume(plan, now);
        }
    }

    /// Takes a finished plan of [`Service::fetch_ahead`] into the caches, and says what has to be
    /// waited for next. Never blocks.
    pub fn resume_ahead(&mut self, plan: Plan, now: &Now) -> Option<Box<Plan>> {
        let (counts, depth) = (self.caches.counts(), plan.ahead);
        self.ahead.depth = depth;
        let next = match self.resume_for(Asker::Files, plan, now) {
            Lookup::Wait(plan) => Some(plan),
            Lookup::Answer(_) | Lookup::Stream(..) | Lookup::Respond(_) => None,
        };
        self.ahead.depth = 0;
        self.caches.forget_requests(&counts);
        self.rest();
        next.map(|mut plan| {
            plan.ahead = depth;
            plan
        })
    }

    /// The names of what a page refers to that has just been brought in.
    pub(super) fn objects_of(
        &self,
        page: &Request<'_>,
        media_type: &str,
        body: &[u8],
    ) -> Vec<Vec<u8>> {
        match Language::of_media_type(media_type) {
            Some(language) if self.caches.keeps_groups() => {
                references::references(language, body, page.path())
            }
            _ => Vec::new(),
        }
    }

    /// Has the objects of a page brought in, when there is time.
    pub(super) fn fetch_objects(&mut self, page: &Request<'_>, names: &[Vec<u8>]) {
        let fields = fields_of(page);
        for name in names {
            self.ahead.push((page.listener(), page.host()), name, &fields);
        }
    }

    /// Has what is pinned by its name brought in, when there is time.
    pub(super) fn fetch_pinned(&mut self) {
        let settings = self.caches.settings();
        if settings.policy != CachePolicy::Hinted {
            return;
        }
        let names = settings.hints.pin.iter().filter(|pattern| pattern::is_exact(pattern));
        let names: Vec<_> = names.cloned().collect();
        self.fetch_of_every_site(&names);
    }

    /// Brings the files in that are named to be there before the first request (M58). Blocks on
    /// the disk. What is there already, by another thread or process, costs a look at the caches.
    pub fn warm(&mut self, now: &Now) {
        let names = std::mem::take(&mut self.caches.settings_mut().warm);
        for name in names {
            self.fetch_of_every_site(&[name]);
            while let Some(plan) = self.fetch_ahead(now) {
                let mut next = Some(plan);
                while let Some(mut plan) = next {
                    plan.run();
                    next = self.resume_ahead(*plan, now);
                }
            }
        }
    }

    /// Has files of these names brought in, of each site that has them.
    fn fetch_of_every_site(&mut self, names: &[String]) {
        let names: Vec<_> = names.iter().map(|name| name.trim_start_matches('/')).collect();
        for (index, site) in self.sites.sites.iter().enumerate() {
            // A host that leads to the site.
            let host = site.settings.hosts.first().map_or("", String::as_str);
            let host =
                host.strip_prefix("*.").map_or(host.replace('*', ""), |name| format!("a.{name}"));
            if self.sites.hosts.choose(host.as_bytes()) == Some(index) {
                names
                    .iter()
                    .for_each(|name| self.ahead.push((0, host.as_bytes()), name.as_bytes(), &[]));
            }
        }
    }
}

/// What a client sends with each request of what it accepts: files may have answers of their own
/// for it.
const ACCEPTS: [(Name, &str); 2] =
    [(Name::AcceptEncoding, "Accept-Encoding"), (Name::AcceptLanguage, "Accept-Language")];

/// These fields of a request.
fn fields_of<'a>(page: &Request<'a>) -> Vec<Field<'a>> {
    let of = |(name, text): (Name, &'static str)| {
        page.values(name).map(move |value| (text.as_bytes(), value))
    };
    ACCEPTS.into_iter().flat_map(of).collect()
}

/// A field's name and value.
type Field<'a> = (&'a [u8], &'a [u8]);

/// What a client would send for a file.
fn request(
    (listener, host): (u16, &[u8]),
    name: &[u8],
    fields: &[Field<'_>],
) -> Option<OwnedRequest> {
    let mut target = Vec::new();
    path::encode_path(name, &mut target);
    let mut draft = Draft::new(b"GET", &target).at(listener);
    if !host.is_empty() {
        draft = draft.field(b"Host", host);
    }
    fields.iter().fold(draft, |draft, (name, value)| draft.field(name, value)).done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_asked_for_as_a_client_would() {
        let mut ahead = Ahead::default();
        ahead.push((1, b"example.org"), b"a b/c.png", &[(b"Accept-Encoding", b"br")]);
        ahead.push((0, b""), b"d", &[]);
        ahead.push((0, b"bad host"), b"e", &[]);
        let (first, depth) = ahead.pop().unwrap();
        assert_eq!(depth, 1);
        assert_eq!(first.request().path(), b"/a%20b/c.png");
        assert_eq!((first.request().listener(), first.request().host()), (1, &b"example.org"[..]));
        assert_eq!(first.request().value(Name::AcceptEncoding), Some(&b"br"[..]));
        assert_eq!(fields_of(&first.request()), [(&b"Accept-Encoding"[..], &b"br"[..])]);
        assert_eq!(ahead.pop().unwrap().0.request().path(), b"/d");
        assert!(ahead.pop().is_none());
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut ahead = Ahead::default();
        for n in 0..2 * QUEUE_MAX {
            ahead.push((0, b"a"), format!("{n}").as_bytes(), &[]);
        }
        let mut deep = Ahead { depth: DEPTH_MAX, ..Ahead::default() };
        deep.push((0, b"a"), b"b", &[]);
        assert!(deep.pop().is_none());
        let waiting = std::iter::from_fn(|| ahead.pop()).count();
        assert_eq!(waiting, QUEUE_MAX);
    }
}
