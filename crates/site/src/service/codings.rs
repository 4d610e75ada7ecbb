//! Which coding the body of a file leaves in, and how it comes by it.

use std::sync::Arc;

use bytes::Bytes;
use flyball_http::coding::{Class, Coding};
use flyball_http::{Now, Request, Segment, Status};
use flyball_sys::file::Stamp;

use super::{Lookup, Service, Site, Sites, Source};
use crate::caches::Target;
use crate::coded::Beside;
use crate::coded_source::{CodedSource, OneSegment};
use crate::compress::{Body, CompressCounts, Compression, Way};
use crate::entry::{Content, FileEntry, OpenFile};
use crate::filter::FilterKind;
use crate::plan::{Found, Job, Plan, Served};
use crate::routes::GZIP_SUFFIX;
use crate::source;
use crate::variant::Variant;

impl Service {
    /// What compression has come to in this service since the start. What is coded while it is sent
    /// counts when that has ended, for the first service of the process that is asked.
    pub fn compress_counts(&mut self) -> CompressCounts {
        let (bodies, bytes) = self.sites.load.take_sent();
        self.compress_counts.compressions += bodies;
        self.compress_counts.saved_bytes += bytes;
        self.compress_counts
    }

    /// What a request would rather have of the codings of its site.
    pub(super) fn class(&mut self, site: usize, request: &Request<'_>) -> Class {
        self.sites.sites[site].policy.class(request, &mut self.classes)
    }

    /// A file was found: whether it leaves coded may depend on what is beside it.
    pub(super) fn choose(&mut self, job: Job, found: Found, now: &Now) -> Lookup<'_> {
        if found.served == Served::Alone {
            return self.choose_alone(job, found, now);
        }
        let class = self.class(job.site, &job.request.request());
        let served = &self.sites.sites[job.site];
        if class == Class::NONE || !served.varies(&found, &served.kind_of(&found).0) {
            return self.represent(job, found, now);
        }
        if served.policy.takes_neighbours() && self.are_coded_neighbours_open(&job, &found, class) {
            let served = &self.sites.sites[job.site];
            let root = served.routes.root(found.root);
            let beside = Beside::new(root, served.links, found, class);
            return Lookup::Wait(Plan::beside(job, beside));
        }
        self.chosen(job, found, now)
    }

    /// Whether the rules let the files answer that were coded beforehand: `page.html.br` may be
    /// closed where `page.html` is not.
    fn are_coded_neighbours_open(&mut self, job: &Job, found: &Found, class: Class) -> bool {
        let request = job.request.request();
        class.codings().all(|coding| {
            let name = [&found.name, FilterKind::of(coding).suffix.as_bytes()].concat();
            self.is_open(job.site, &request, found.root, &name)
        })
    }

    /// Nothing is beside it any more that was not looked at.
    pub(super) fn chosen(&mut self, job: Job, mut found: Found, now: &Now) -> Lookup<'_> {
        if found.served == Served::Plain {
            let class = self.class(job.site, &job.request.request());
            found.served = self.sites.sites[job.site].policy.served(class, found.stamp.size);
        }
        self.represent(job, found, now)
    }

    /// There is only the file that was coded by gzip: for a client that does not take that, it is
    /// decoded.
    fn choose_alone(&mut self, job: Job, mut found: Found, now: &Now) -> Lookup<'_> {
        let request = job.request.request();
        let name = [&found.name, GZIP_SUFFIX].concat();
        if !self.is_open(job.site, &request, found.root, &name) {
            return self.missing(&job, Status::NOT_FOUND, now);
        }
        let class = self.class(job.site, &request);
        let gzip =
            class.codings().find(|coding| FilterKind::of(*coding).suffix.as_bytes() == GZIP_SUFFIX);
        found.served = gzip.map_or(Served::Decoded, Served::Beforehand);
        self.represent(job, found, now)
    }

    /// It is decided how the body leaves: answers, or says what has to be waited for.
    fn represent(&mut self, job: Job, found: Found, now: &Now) -> Lookup<'_> {
        if self.is_secret(job.site, &found) {
            return self.missing(&job, Status::NOT_FOUND, now);
        }
        let variant = self.variant(job.site, &job.request.request(), &found, now);
        let name = variant.name(&found.name);
        if let Some(file) = self.caches.file(variant.scope(job.site), &name, &found.stamp) {
            self.remember(&job, Target::File(file), now);
            let (request, reply) = (job.request.request(), job.origin.reply());
            return self.answer_file(Source::Cached(file), job.site, &request, reply, now);
        }
        match found.served {
            Served::Here(coding) => return self.code(job, found, coding, now),
            Served::OnTheWay(coding) if !self.codes(job.site, &found, coding, Way::Sent) => {
                return self.represent(job, found.plain(), now);
            }
            Served::OnTheWay(_) | Served::Decoded => {
                return Lookup::Wait(Plan::settle(job, found));
            }
            Served::Plain | Served::Alone | Served::Beforehand(_) => {}
        }
        if self.is_small(found.stamp.size) {
            return Lookup::Wait(Plan::load(job, found));
        }
        Lookup::Wait(Plan::settle(job, found))
    }

    /// Whether a body of this size is held in memory.
    fn is_small(&self, size: u64) -> bool {
        let settings = self.caches.settings();
        settings.content_bytes_max > 0 && size <= settings.small_bytes_max
    }

    pub(super) fn open_file(&mut self, job: &Job, found: &Found, now: &Now) -> Lookup<'_> {
        let class = self.caches.class_of(&found.name, found.stamp.size);
        let promise = self.caches.settings().promise;
        let open = OpenFile::new(Arc::clone(&found.file), found.stamp);
        let open = open.of_class(class).promising(promise);
        self.brought_in(job, found, Content::Open(Arc::new(open)), now)
    }

    /// Whether a body is coded, which is not worth it for some, and too much at times.
    fn codes(&mut self, site: usize, found: &Found, coding: Coding, way: Way) -> bool {
        let (load, body) = (&self.sites.load, body_of(&found.stamp, coding));
        if load.is_stubborn(&body) || way == Way::AtOnce && load.is_in_flight(&body) {
            return false;
        }
        let is_full = load.is_full(&self.sites.sites[site].policy, way);
        self.compress_counts.shed += u64::from(is_full);
        !is_full
    }

    /// A body has to be coded: begins with having it in memory.
    pub(super) fn code(&mut self, job: Job, found: Found, coding: Coding, now: &Now) -> Lookup<'_> {
        if !self.codes(job.site, &found, coding, Way::AtOnce) {
            return self.represent(job, found.plain(), now);
        }
        let variant = self.variant(job.site, &job.request.request(), &found, now);
        let plain = Variant { coding: 0, ..variant };
        let held = self.caches.file(plain.scope(job.site), &plain.name(&found.name), &found.stamp);
        let entry = held.and_then(|place| self.caches.entry(place));
        if let Some(Content::Memory(body)) = entry.map(|entry| &entry.content) {
            let body = body.clone();
            return self.compress(job, found, body, now);
        }
        Lookup::Wait(Plan::load(job, found))
    }

    /// The body is in memory: codes it, or sends it as it is when there is enough to do.
    pub(super) fn compress(
        &mut self,
        job: Job,
        found: Found,
        body: Bytes,
        now: &Now,
    ) -> Lookup<'_> {
        let policy = &self.sites.sites[job.site].policy;
        let coding = found.served.coding();
        let body_of = |coding| body_of(&found.stamp, coding);
        let permit = coding.and_then(|c| self.sites.load.permit(policy, Way::AtOnce, &body_of(c)));
        match coding.zip(permit) {
            Some((coding, permit)) => {
                let work = Compression::new(body, coding, policy.level(coding), permit);
                Lookup::Wait(Plan::compress(job, found, work))
            }
            None => {
                let in_flight = coding.is_some_and(|c| self.sites.load.is_in_flight(&body_of(c)));
                self.compress_counts.shed += u64::from(!in_flight);
                self.send_plain(job, found, body, now)
            }
        }
    }

    /// The body was coded, or is not worth it.
    pub(super) fn compressed(
        &mut self,
        job: Job,
        found: Found,
        work: &Compression,
        now: &Now,
    ) -> Lookup<'_> {
        let Some(coded) = work.take() else {
            self.sites.load.set_stubborn(&body_of(&found.stamp, work.coding()));
            return self.send_plain(job, found, work.body().clone(), now);
        };
        self.compress_counts.compressions += 1;
        self.compress_counts.saved_bytes += (work.body().len() - coded.len()) as u64;
        if self.caches.keeps_as_file(coded.len() as u64) {
            return Lookup::Wait(Plan::keep(job, found, coded.into()));
        }
        let content = Content::Memory(self.caches.body(coded));
        self.brought_in(&job, &found, content, now)
    }

    /// Sends a body as it is that was to be coded.
    fn send_plain(&mut self, job: Job, found: Found, body: Bytes, now: &Now) -> Lookup<'_> {
        let found = found.plain();
        if !self.is_small(found.stamp.size) {
            return Lookup::Wait(Plan::settle(job, found));
        }
        let content = Content::Memory(self.caches.body(body.into()));
        self.brought_in(&job, &found, content, now)
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
        let kind = FilterKind::of(coding);
        let mut tag = kind.tag.to_owned();
        if !matches!(found.served, Served::Beforehand(_)) {
            tag += &self.policy.level(coding).to_string();
        }
        (kind.name, tag)
    }
}

impl Sites {
    /// Begins to code the body of an entry that is coded while it is sent.
    ///
    /// # Errors
    /// It leaves as it is; true when that is since there is enough to do.
    pub(super) fn begin_coding(
        &self,
        site: usize,
        entry: &FileEntry,
        coding: Coding,
    ) -> Result<CodedSource, bool> {
        let policy = &self.sites[site].policy;
        let Content::Open(file) = &entry.content else { return Err(false) };
        let body = body_of(&file.stamp, coding);
        if self.load.is_stubborn(&body) {
            return Err(false);
        }
        let permit = self.load.permit(policy, Way::Sent, &body).ok_or(true)?;
        let segment = Segment::File { file: Arc::clone(file), offset: 0, len: file.stamp.size };
        let level = policy.level(coding);
        let body = Box::new(OneSegment::new(segment));
        CodedSource::new(body, Some(file.stamp.size), (coding, level), permit).map_err(|_| true)
    }

    /// Begins to code a body that comes from elsewhere; `None` when it leaves as it is.
    pub(super) fn code_fed(&self, site: usize, coding: Coding) -> Option<CodedSource> {
        let policy = &self.sites[site].policy;
        let permit = self.load.permit(policy, Way::Sent, &Body { stamp: None, coding })?;
        CodedSource::fed((coding, policy.level(coding)), permit)
    }

    /// Begins to code a body that is being produced; gives it back when it leaves as it is.
    pub(super) fn code_produced(
        &self,
        site: usize,
        coding: Coding,
        body: Box<dyn source::Source>,
    ) -> Result<CodedSource, Box<dyn source::Source>> {
        let policy = &self.sites[site].policy;
        let of = Body { stamp: None, coding };
        match self.load.permit(policy, Way::Sent, &of) {
            Some(permit) => CodedSource::new(body, None, (coding, policy.level(coding)), permit),
            None => Err(body),
        }
    }
}

fn body_of(stamp: &Stamp, coding: Coding) -> Body<'_> {
    Body { stamp: Some(stamp), coding }
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::*;
    use crate::{CacheSettings, SharedCaches, SiteSettings};
    use flyball_http::{Head, Limits, scan};
    use flyball_sys::disk::Op;

    const REQUEST: &[u8] = b"GET /page.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";

    /// What becomes of a request, up to its answer or to work for the processor.
    #[derive(Debug)]
    enum Gone {
        Waits(Box<Plan>),
        Answered { coded: bool },
    }

    fn go_on(service: &mut Service, mut plan: Box<Plan>) -> Gone {
        loop {
            while let Some(op) = plan.next_op() {
                if matches!(op, Op::Compute { .. }) {
                    plan.put_back(op);
                    return Gone::Waits(plan);
                }
                plan.done(op.perform());
            }
            plan = match service.resume(*plan, &now()) {
                Lookup::Answer(answer) => return answered(&answer),
                Lookup::Wait(plan) => plan,
                other => panic!("{other:?}"),
            };
        }
    }

    fn answered(answer: &Answer<'_>) -> Gone {
        let fields = std::str::from_utf8(answer.fields.lines().h1()).unwrap();
        assert!(fields.contains("\r\nVary: Accept-Encoding\r\n"), "{fields}");
        Gone::Answered { coded: fields.contains("\r\nContent-Encoding: gzip\r\n") }
    }

    /// Late enough for new files to be cached.
    fn now() -> Now {
        Now::new(0, flyball_sys::clock::unix_ms() + 60_000)
    }

    fn ask(service: &mut Service) -> Gone {
        let mut head = Head::default();
        scan::parse_head(REQUEST, &Limits::default(), &mut head).unwrap();
        let plan = match service.lookup(head.request(REQUEST), &now()) {
            Lookup::Answer(answer) => return answered(&answer),
            Lookup::Wait(plan) => plan,
            other => panic!("{other:?}"),
        };
        go_on(service, plan)
    }

    #[test]
    fn a_young_file_has_another_tag_once_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.txt");
        std::fs::write(&path, "short").unwrap();
        let site = SiteSettings { root: Some(dir.path().to_owned()), ..SiteSettings::default() };
        let sites = Sites::open(&[site], &flyball_sys::sandbox::Rights::OWN).unwrap();
        let mut service = Service::new(Arc::new(sites), CacheSettings::default());
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let modified_ms = flyball_sys::clock::unix_ms() + 60_000;
        let modified = std::time::Duration::from_millis(modified_ms);
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + modified).unwrap();
        let mut tag = |ms: u64, unix_ms: u64| {
            let now = Now::new(ms, unix_ms);
            let mut head = Head::default();
            scan::parse_head(REQUEST, &Limits::default(), &mut head).unwrap();
            let mut lookup = service.lookup(head.request(REQUEST), &now);
            loop {
                let mut plan = match lookup {
                    Lookup::Answer(answer) => {
                        let etag = answer.fields.lines().value(flyball_http::Name::ETag).unwrap();
                        return String::from_utf8(etag.to_vec()).unwrap();
                    }
                    Lookup::Wait(plan) => plan,
                    other => panic!("{other:?}"),
                };
                plan.run();
                lookup = service.resume(*plan, &now);
            }
        };
        let young = [0, 1_999].map(|age| tag(age, modified_ms + age));
        let later = [2_999, 3_000, 9_000].map(|age| tag(age, modified_ms + age));
        assert_eq!(young[0], young[1]);
        assert_eq!(young[0].matches('-').count(), 2, "{}", young[0]);
        for tag in &later {
            assert_eq!(*tag, format!("\"5-{:x}\"", u128::from(modified_ms) * 1_000_000));
        }
    }

    #[test]
    fn a_body_that_many_ask_for_at_once_is_coded_once_and_others_get_it_plain_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("page.txt"), "again and ".repeat(5_000)).unwrap();
        let site = SiteSettings { root: Some(dir.path().to_owned()), ..SiteSettings::default() };
        let sites = Arc::new(Sites::open(&[site], &flyball_sys::sandbox::Rights::OWN).unwrap());
        let caches = SharedCaches::new(CacheSettings::default());
        let mut services: Vec<Service> =
            (0..3).map(|_| Service::sharing(Arc::clone(&sites), &caches)).collect();
        let Gone::Waits(mut first) = ask(&mut services[0]) else { panic!("it is not coded") };
        for n in 0..9 {
            let gone = ask(&mut services[n % 3]);
            assert!(matches!(gone, Gone::Answered { coded: false }), "{gone:?}");
        }
        first.run();
        let gone = go_on(&mut services[0], first);
        assert!(matches!(gone, Gone::Answered { coded: true }), "{gone:?}");
        for service in &mut services {
            let gone = ask(service);
            assert!(matches!(gone, Gone::Answered { coded: true }), "{gone:?}");
        }
        let counts: Vec<CompressCounts> =
            services.iter_mut().map(Service::compress_counts).collect();
        let sum = |of: fn(&CompressCounts) -> u64| counts.iter().map(of).sum::<u64>();
        assert_eq!((sum(|c| c.compressions), sum(|c| c.shed)), (1, 0));
        // Whoever gives up lets the next one do it.
        std::fs::write(dir.path().join("page.txt"), "and again ".repeat(5_000)).unwrap();
        let sites = Arc::new(
            Sites::open(
                &[SiteSettings { root: Some(dir.path().to_owned()), ..SiteSettings::default() }],
                &flyball_sys::sandbox::Rights::OWN,
            )
            .unwrap(),
        );
        let mut service = Service::new(sites, CacheSettings::default());
        drop(ask(&mut service));
        service.rest();
        assert!(matches!(ask(&mut service), Gone::Waits(_)));
    }
}
