//! A request to its answer. [`Service::lookup`] answers from the caches and never blocks; what they
//! do not hold comes out as a [`Plan`], and what that finds goes back in by [`Service::resume`].

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use flyball_http::coding::{Class, Classes, Coding};
use flyball_http::head::TargetForm;
use flyball_http::{Fields, Method, Name, Now, Request, Status};
use flyball_sys::descriptors::Member;
use flyball_sys::file::Links;
use flyball_sys::node::Node;
use flyball_sys::sandbox::Rights;

use crate::access::{Access, AccessCounts, Check, Scratch};
use crate::backend::programs::Programs;
use crate::backend::{Gates, Reply, Spool};
use crate::cache_settings::CacheSettings;
use crate::caches::Target;
use crate::compress::{CodingPolicy, CompressCounts, Load, Overloaded};
use crate::configure::Configure;
use crate::counts::CacheCounts;
use crate::entry::{Content, File, FileEntry};
use crate::filter::FilterKind;
use crate::held::HeldCaches;
use crate::hosts::{Hosts, LastHost};
use crate::limits::Limit;
use crate::mime::Types;
use crate::modules::{Modules, Mounted};
use crate::pages;
use crate::plan::{Found, Job, Origin, Outcome, Plan, Served};
use crate::routes::{self, ErrorPages, Led, Neighbours, PathRules, Route, SiteRoutes};
use crate::secrets::Secrets;
use crate::settings::SiteSettings;
use crate::shared::SharedCaches;
use crate::shared_table::SharedTable;
use crate::translate::{Asked, Fallback};
use crate::variant::{Scope, Variant};

mod ahead;
mod backends;
mod challenges;
mod coded_answers;
mod codings;
mod decoded;
mod earlier;
mod error_files;
mod file_answers;
mod led;
mod limited;
mod lines;
mod listings;
mod modules;
mod moved_roots;
mod opening;
mod outcomes;
mod overlaps;
mod partial;
mod produced;
mod redirects;
mod refusals;
mod responder;
mod running;
mod says;
mod sent_files;
mod shown;
mod transport;
mod urls;

use ahead::Ahead;
use challenges::Challenges;
pub use earlier::Earlier;
use file_answers::Source;
pub(crate) use modules::FilePart;
use modules::ModuleScratch;
pub use moved_roots::MovedRoots;
pub use responder::{Responder, Role, Wants};
use transport::{Passage, Transports};
use urls::{Asker, Verdict, carried, takes_path};

/// Marks in the key of a file's entry, which are no numbers of rules.
const DEPENDS_ON_LANGUAGE: u16 = u16::MAX;
const DEPENDS_ON_IMAGE: u16 = u16::MAX - 1;
const YOUNG: u16 = u16::MAX - 2;
const DECODED: u16 = u16::MAX - 3;

/// An answer of a site.
pub type Answer<'a> = flyball_http::Answer<'a, File>;

/// The content of one.
pub type Body<'a> = flyball_http::Body<'a, File>;

/// The output queue of a connection that is served by a site.
pub type Out = flyball_http::Out<File>;

/// What becomes of a request.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// The answer.
    Answer(Answer<'a>),
    /// Work that may wait; the answer comes from [`Service::resume`].
    Wait(Box<Plan>),
    /// The answer, with a body that is produced while it is sent: the answer's is
    /// [`flyball_http::Body::Stream`].
    Stream(Answer<'a>, Box<dyn Responder>),
    /// A backend or a module answers, and takes the body; the answer comes from
    /// [`Responder::answer`].
    Respond(Box<dyn Responder>),
}

/// The sites, opened before the first fork and shared by all workers.
#[derive(Debug)]
pub struct Sites {
    hosts: Hosts,
    sites: Vec<Site>,
    /// How they are asked over TLS.
    transports: Transports,
    /// What authorities are answered.
    challenges: Challenges,
    /// The modules of all of them.
    modules: Vec<Arc<Mounted>>,
    /// Whether any of them is not for everybody.
    has_restrictions: bool,
    /// Whether clients may take only so much of any of them.
    has_limits: bool,
    /// How much is being compressed.
    load: Arc<Load>,
    /// The programs that are started for them, if there are any.
    programs: Option<Arc<Programs>>,
    /// Where long bodies wait that go to them.
    spool: Option<Arc<Spool>>,
    /// What they name is opened by these.
    rights: Rights,
    /// What none of them sends.
    secrets: Secrets,
    /// Why something stayed what it was before.
    kept: Vec<String>,
    /// Why hosts are not served whose directories are there.
    closed: Vec<String>,
}

/// A site. Those that are one of many share all but their roots and backends.
#[derive(Clone, Debug)]
struct Site {
    routes: SiteRoutes,
    error_pages: Arc<ErrorPages>,
    links: Links,
    index: Arc<[String]>,
    types: Arc<Types>,
    access: Option<Arc<Access>>,
    limits: PathRules<Limit>,
    gates: Arc<Gates>,
    modules: Arc<Modules>,
    policy: Arc<CodingPolicy>,
    settings: Arc<SiteSettings>,
    /// Where it is one of many.
    host: Option<Host>,
}

/// A site as one of many.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// The number of the site that says what all have.
    of: usize,
    /// By which it is known what its clients have taken, beside the number of a limit.
    number: u64,
}

impl Sites {
    /// Asks who is given back how busy the server is, before a body is coded. To be called in the
    /// process that serves; only the first call counts.
    pub fn watch(&self, overload: impl FnOnce() -> Box<dyn Overloaded>) {
        self.load.watch(overload);
    }

    /// The programs that are started for all sites; `None` when there are none.
    pub fn programs(&self) -> Option<&Arc<Programs>> {
        self.programs.as_ref()
    }

    /// These lists of hosts are what listeners serve, the first by number 1. To be called before
    /// the first request.
    pub fn serve_at(&mut self, lists: &[&[String]]) {
        self.hosts.serve_at(lists);
    }

    /// The site of a request, where it came in.
    fn site_of(&self, request: &Request<'_>) -> Option<usize> {
        self.hosts.choose_at(request.listener(), request.host())
    }

    /// Every directory beneath which files are opened, once: the first of each of many sites, and
    /// of what stands for them all but that.
    pub fn roots(&self) -> Vec<&OwnedFd> {
        let mut roots = Vec::new();
        for site in &self.sites {
            let (skip, take) = match (&site.host, site.settings.is_many()) {
                (Some(_), _) => (0, 1),
                (None, true) => (1, usize::MAX),
                (None, false) => (0, usize::MAX),
            };
            roots.extend(site.routes.roots().skip(skip).take(take));
        }
        roots
    }

    /// The sites that were written: those that are one of many say nothing that is not said there.
    fn written(&self) -> impl Iterator<Item = (usize, &Site)> {
        self.sites.iter().enumerate().filter(|(_, site)| site.host.is_none())
    }

    /// Why something stayed what it was before, because it cannot be read now.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// Files that the server reads and that lie where a site would show them: they are kept from
    /// all clients.
    pub fn kept_from_clients(&self) -> Vec<String> {
        self.secrets.shown(|site, root, name| {
            let routes = &self.sites[site].routes;
            routes.url_of(root, name).filter(|url| !routes.hides(url))
        })
    }

    /// Which files are kept from all clients now, as device and inode: what has taken the place of
    /// one is another. Blocks on the disk.
    ///
    /// # Errors
    /// Which directory cannot be read, and why.
    pub fn secrets_now(&self) -> io::Result<Vec<[u64; 2]>> {
        Ok(self.secrets.look()?.into_iter().map(<[u64; 2]>::from).collect())
    }

    /// Keeps these files from all clients, as another process has seen them, beside those that were
    /// known when the sites were opened.
    pub fn keep_from_clients(&self, files: &[[u64; 2]]) {
        self.secrets.are(files.iter().copied().map(Node::from).collect());
    }

    /// Whether there is a site that follows links to wherever they lead.
    pub fn follow_all_links(&self) -> bool {
        self.sites.iter().any(|site| site.links == Links::Follow)
    }
}

/// The roots of sites, each with the number of its site and its own. The root of what stands for
/// many is above all of theirs.
fn roots_of(sites: &[Site]) -> impl Iterator<Item = (usize, u16, &OwnedFd)> {
    let written = sites.iter().enumerate().filter(|(_, site)| site.host.is_none());
    written.flat_map(|(site, served)| {
        let roots = served.routes.roots().enumerate();
        roots.map(move |(number, root)| (site, number as u16, root))
    })
}

/// Who is answered, and what answered last.
#[derive(Debug)]
struct Answering {
    asker: Asker,
    /// The number of the site.
    site: Option<usize>,
    /// The number of its module, if one answered.
    module: Option<usize>,
}

/// The sites as one thread of control serves them, with its caches.
#[derive(Debug)]
pub struct Service {
    sites: Arc<Sites>,
    last_host: LastHost,
    caches: HeldCaches,
    /// The entry of an answer that did not enter the cache, alive while the answer is written.
    transient: Option<Arc<FileEntry>>,
    /// Files to be brought in when there is time.
    ahead: Ahead,
    /// Fields that are formatted for one answer.
    fields: Fields,
    relative: Vec<u8>,
    scratch: Scratch,
    scratch_of_modules: ModuleScratch,
    classes: Classes,
    compress_counts: CompressCounts,
    access_counts: AccessCounts,
    answering: Answering,
    /// A block of the size of a plan, never filled. It keeps the allocator's run of such blocks in
    /// use: an empty run goes back to the kernel, which would cost each plan two calls. If the
    /// allocator kept empty runs for a second instead (`dirty_decay_ms`), calls for each request
    /// would vary, and a full cache of `mt` would take 7 % more than its limit.
    _place: Box<MaybeUninit<Plan>>,
    /// What a program has answered last. It keeps runs of such blocks in use, likewise: freed each
    /// time, they cost a request to FastCGI 7 of 42 us.
    replied: Option<Box<Reply>>,
}

impl Service {
    /// A service with empty caches of its own.
    pub fn new(sites: Arc<Sites>, caches: CacheSettings) -> Service {
        Service::with(sites, HeldCaches::private(caches))
    }

    /// A service with caches that other threads of the process use too. Each of its operations
    /// waits for the locks that it needs, for no longer than another looks an entry up.
    pub fn sharing(sites: Arc<Sites>, caches: &Arc<SharedCaches>) -> Service {
        Service::with(sites, HeldCaches::shared(caches))
    }

    /// A service with a table of files that other processes use too. Its operations wait for the
    /// locks of that table, never long.
    pub fn in_table(sites: Arc<Sites>, table: &Arc<SharedTable>, member: &Arc<Member>) -> Service {
        Service::with(sites, HeldCaches::in_table(table, member))
    }

    fn with(sites: Arc<Sites>, caches: HeldCaches) -> Service {
        let mut service = Service {
            sites,
            last_host: LastHost::none(),
            caches,
            transient: None,
            ahead: Ahead::default(),
            fields: Fields::default(),
            relative: Vec::new(),
            scratch: Scratch::default(),
            scratch_of_modules: ModuleScratch::default(),
            classes: Classes::new(FilterKind::named),
            compress_counts: CompressCounts::default(),
            access_counts: AccessCounts::default(),
            answering: Answering { asker: Asker::Client, site: None, module: None },
            _place: Box::new_uninit(),
            replied: None,
        };
        service.fetch_pinned();
        service
    }

    /// What this service saw of its caches since the start.
    pub fn cache_counts(&self) -> CacheCounts {
        self.caches.counts()
    }

    /// What this service refused for want of a right since the start.
    pub fn access_counts(&self) -> AccessCounts {
        self.access_counts
    }

    /// The site of the last answer, by its number in the configuration, if any site gave it.
    pub fn answered_for(&self) -> Option<usize> {
        self.answering.site
    }

    /// The module that gave the last answer, by its number among those of all sites, if one did.
    pub fn answered_by(&self) -> Option<usize> {
        self.answering.module
    }

    /// The answer that is made now is that of a site, and of one of its modules if it says so.
    pub(crate) fn answers_for(&mut self, site: Option<usize>, module: Option<usize>) {
        (self.answering.site, self.answering.module) = (site, module);
    }

    /// Lets go of the entry that the last answer was made of: whoever will wait long for the next
    /// request must not keep a file in memory, or open, that the caches have pushed out.
    pub fn rest(&mut self) {
        self.transient = None;
        self.caches.rest();
    }

    /// Whether the answer to this request is not for everybody, so that a cache which others use
    /// must not keep it.
    pub fn restricts(&mut self, request: &Request<'_>) -> bool {
        let Some(site) = self.sites.site_of(request) else { return false };
        let access = self.sites.sites[site].access.as_ref();
        access.is_some_and(|access| access.restricts(request, &mut self.scratch))
    }

    /// Whether one has to log in for what this request asks for.
    pub fn asks_login(&mut self, request: &Request<'_>) -> bool {
        let Some(site) = self.sites.site_of(request) else { return false };
        let access = self.sites.sites[site].access.as_ref();
        access.is_some_and(|access| access.asks_login(request, &mut self.scratch))
    }

    /// Whether any site is not for everybody.
    pub fn has_restrictions(&self) -> bool {
        self.sites.has_restrictions
    }

    /// Answers from the caches, or says what has to be waited for. Never blocks.
    pub fn lookup(&mut self, request: Request<'_>, now: &Now) -> Lookup<'_> {
        self.lookup_for(Asker::Client, request, now)
    }

    fn lookup_for(&mut self, asker: Asker, request: Request<'_>, now: &Now) -> Lookup<'_> {
        self.answering.asker = asker;
        let site = self.last_host.choose(&self.sites.hosts, request.listener(), request.host());
        self.answers_for(site, None);
        if self.sites.challenges.may_answer(&request) {
            return self.answer_challenge(&request);
        }
        let Some(site) = site else {
            return self.refuse(&request, Status::MISDIRECTED_REQUEST);
        };
        match self.sites.transports.passage(site, &request, &self.sites.hosts) {
            Passage::Free => {}
            Passage::Redirect(port) => return self.redirect_to_https(&request, port),
            Passage::Misdirected(page) => return self.misdirect(&request, page),
        }
        if let Some(access) = &self.sites.sites[site].access {
            match access.check(&request, &mut self.scratch, now.ms()) {
                Check::Pass => {}
                Check::Refuse(refused) => return self.turn_away(site, &request, refused),
                Check::Verify(work) => {
                    return Lookup::Wait(Plan::verify(Job::of_path(&request, site), work));
                }
            }
        }
        self.admitted(site, request, now)
    }

    /// The answer to a request that may be answered.
    fn admitted(&mut self, site: usize, request: Request<'_>, now: &Now) -> Lookup<'_> {
        if let Some(status) = self.returned(site, &request) {
            return self.refuse(&request, status);
        }
        if !self.sites.sites[site].modules.is_empty()
            && let Some(place) = self.module_of(site, &request)
        {
            return match self.answering.asker {
                Asker::Files => self.refuse(&request, Status::FORBIDDEN),
                _ => self.call_module(site, place, request, now),
            };
        }
        if let Some(url) = self.url_to_backend(site, &request) {
            return match self.answering.asker {
                Asker::Files => self.refuse(&request, Status::FORBIDDEN),
                _ => self.ask_backend(site, &request, &url, false, now),
            };
        }
        match request.method() {
            Method::Get | Method::Head => {}
            // A backend may answer where the path leads to, and only a file takes no other method.
            _ if self.sites.sites[site].takes_all_methods() && takes_path(&request) => {
                return self.translate(site, request, now);
            }
            _ => return self.not_taken(&request),
        }
        if matches!(request.head.form, TargetForm::Asterisk | TargetForm::Authority) {
            return self.refuse(&request, Status::BAD_REQUEST);
        }
        if self.caches.settings().directory_config {
            return self.configure(site, request, now);
        }
        self.look_up(site, request, now)
    }

    fn look_up(&mut self, site: usize, request: Request<'_>, now: &Now) -> Lookup<'_> {
        let scope = self.scope(site, &request);
        match self.caches.path(scope, request.path(), now.ms()) {
            Some(Target::File(file)) => {
                self.answer_file(Source::Cached(file), site, &request, None, now)
            }
            Some(Target::Redirect(rule)) => self.redirect(site, rule, &request),
            Some(Target::NeedsSlash) => self.redirect_to_slash(site, &request),
            Some(Target::Missing(status)) => self.refuse(&request, status),
            Some(Target::Script) | None => self.translate(site, request, now),
        }
    }

    /// First looks for settings in every directory of the path.
    fn configure(&mut self, site: usize, request: Request<'_>, now: &Now) -> Lookup<'_> {
        let served = &self.sites.sites[site];
        let Route::File(Led { place, .. }) =
            served.routes.route(request.path(), &mut self.relative)
        else {
            return self.look_up(site, request, now);
        };
        let work = Configure::new(served.routes.root(place.root), served.links, place.path);
        Lookup::Wait(Plan::configure(Job::of_path(&request, site), work))
    }

    /// What the path of a request is looked up in: its site, and the class of what its client
    /// accepts.
    fn scope(&mut self, site: usize, request: &Request<'_>) -> Scope {
        let coding = u64::from(self.class(site, request).code());
        let routes = u64::from(self.sites.sites[site].routes.class(request));
        Scope::of_path(site, routes << Class::BITS | coding)
    }

    /// Which of the answers of a file this request gets.
    fn variant(&self, site: usize, request: &Request<'_>, found: &Found, now: &Now) -> Variant {
        let served = &self.sites.sites[site];
        let mut rules = served.routes.rules(request).numbers();
        // Its tag is another one when it is looked at again.
        rules.extend(served.finds_young(found, now).then_some(YOUNG));
        rules.extend((found.served == Served::Decoded).then_some(DECODED));
        rules.extend(found.depends.language.then_some(DEPENDS_ON_LANGUAGE));
        rules.extend(found.depends.image.then_some(DEPENDS_ON_IMAGE));
        let coding = found.served.coding().map_or(0, Coding::number);
        Variant { root: found.root, coding, rules }
    }

    fn set_path(&mut self, site: usize, request: &Request<'_>, target: Target, now: &Now) {
        let scope = self.scope(site, request);
        self.caches.set_path(scope, request.path(), target, now.ms());
    }

    /// Remembers what a plan has found under the path of its request, if that alone led there.
    fn remember(&mut self, job: &Job, target: Target, now: &Now) {
        if job.origin == Origin::Path {
            self.set_path(job.site, &job.request.request(), target, now);
        }
    }

    /// What was known of the path of a plan's request is not so any more. Whatever a plan has found
    /// is either remembered or forgotten: an entry that stays is believed for another while.
    fn forget(&mut self, job: &Job) {
        if job.origin == Origin::Path {
            let request = job.request.request();
            let scope = self.scope(job.site, &request);
            self.caches.forget_path(scope, request.path());
        }
    }

    fn translate(&mut self, site: usize, request: Request<'_>, now: &Now) -> Lookup<'_> {
        let served = &self.sites.sites[site];
        match served.routes.route(request.path(), &mut self.relative) {
            Route::Refuse(status) => self.refuse(&request, status),
            Route::Redirect(rule) => {
                self.set_path(site, &request, Target::Redirect(rule), now);
                self.redirect(site, rule, &request)
            }
            Route::File(led) => self.look_for(site, request, led, now),
        }
    }

    /// Takes a finished plan into the caches and answers its request, or says what has to be
    /// waited for next. Never blocks. To be called even when nobody waits for the answer any more.
    pub fn resume(&mut self, plan: Plan, now: &Now) -> Lookup<'_> {
        self.resume_for(Asker::Client, plan, now)
    }

    fn resume_for(&mut self, asker: Asker, plan: Plan, now: &Now) -> Lookup<'_> {
        self.answering.asker = asker;
        let (job, outcome) = plan.into_parts();
        let Some(job) = job else {
            debug_assert!(false, "what was brought into memory goes to nothing here");
            return self.refuse_without_request(Status::METHOD_NOT_ALLOWED);
        };
        self.answers_for(Some(job.site), None);
        match outcome {
            Outcome::File(found) => self.found(job, found, now),
            Outcome::Chosen(found) => self.chosen(job, found, now),
            Outcome::Loaded(found, body) if found.is_coded_at_once() => {
                self.compress(job, found, body.into(), now)
            }
            Outcome::Compressed(found, work) => self.compressed(job, found, &work, now),
            Outcome::Kept(found, content) => self.brought_in(&job, &found, content, now),
            Outcome::Loaded(found, body) => {
                let content = Content::Memory(self.caches.body(body));
                self.brought_in(&job, &found, content, now)
            }
            // It changes all the time: send it from its descriptor, which checks again at the end.
            Outcome::Unstable(found) => {
                let found = if found.is_coded_at_once() { found.plain() } else { found };
                Lookup::Wait(Plan::settle(job, found))
            }
            Outcome::Settled(found) => self.open_file(&job, &found, now),
            Outcome::NeedsSlash => self.without_slash(&job, now),
            Outcome::Missing(status) => self.missing(&job, status, now),
            Outcome::FallsBack => self.falls_back(&job, now),
            Outcome::LedOn => self.led_on(&job, now),
            Outcome::Directory(directory, place) => self.directory(job, directory, place),
            Outcome::Configured => {
                carried(self.look_up(job.site, job.request.request(), now), job.redirects)
            }
            Outcome::Listed(gather) => self.listing(&job.request.request(), job.site, gather),
            Outcome::Verified(work) => self.verified(&job, &work, now),
            Outcome::Warm | Outcome::Computed => {
                self.refuse(&job.request.request(), Status::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// A file's content is there: build its head, keep both if there is room, and answer.
    fn brought_in(&mut self, job: &Job, found: &Found, content: Content, now: &Now) -> Lookup<'_> {
        let (site, request) = (job.site, job.request.request());
        let variant = self.variant(site, &request, found, now);
        let (scope, name) = (variant.scope(site), variant.name(&found.name));
        let says = self.sites.sites[site].says(&request, found, now);
        let objects = match found.plain_body(&content) {
            Some(body) if job.origin == Origin::Path => {
                self.objects_of(&request, &says.media_type, body)
            }
            _ => Vec::new(),
        };
        let relations = self.caches.relations(site, &found.name, &objects);
        let entry = FileEntry::new(scope, &name, found.stamp, &says.head(), content);
        let source = match self.caches.admit_as(Arc::new(entry), &relations, now.unix_ms()) {
            Ok(file) => {
                self.fetch_objects(&request, &objects);
                self.remember(job, Target::File(file), now);
                Source::Cached(file)
            }
            Err(entry) => {
                self.forget(job);
                self.transient = Some(entry);
                Source::Transient
            }
        };
        self.answer_file(source, site, &request, job.origin.reply(), now)
    }
}

impl Site {
    /// Whether methods that no file takes may be answered otherwise than by saying so.
    fn takes_all_methods(&self) -> bool {
        !self.gates.is_empty() || !self.routes.has_files()
    }

    /// The file of this name and no other.
    fn exactly(&self, place: routes::Place) -> Asked {
        Asked {
            root: self.routes.root(place.root),
            links: self.links,
            place,
            index: [].into(),
            neighbours: Neighbours::default(),
            pretty: false,
            fallback: None,
            lists: false,
        }
    }

    /// What answers for what is not there.
    fn fallback(&self, url: &str) -> Fallback {
        if self.gates.passage(url.as_bytes()).is_some() {
            return Fallback::Backend;
        }
        let routes::Place { root: number, path, .. } = self.routes.place_of(url.as_bytes());
        Fallback::File { root: self.routes.root(number), number, path }
    }

    /// What a request asks for where its path has led, and where else it may be.
    fn asked(&self, request: &Request<'_>, led: Led) -> Asked {
        let Led { place, leads_on, .. } = led;
        let settings = &self.settings.routes;
        let fallback = settings.fallback.as_ref();
        Asked {
            root: self.routes.root(place.root),
            links: self.links,
            index: Arc::clone(&self.index),
            neighbours: Neighbours {
                gzip_only: self.policy.takes_gzip_alone(),
                ..self.routes.neighbours(request)
            },
            pretty: settings.pretty_urls,
            fallback: match leads_on {
                true => Some(Fallback::Rule),
                false => fallback.map(|url| self.fallback(url)),
            },
            lists: self.settings.listing,
            place,
        }
    }

    /// Changes fields by the rules for the path of a request.
    fn amend(&self, request: &Request<'_>, media_type: &str, error: bool, fields: &mut Fields) {
        let rules = self.routes.rules(request);
        self.routes.amend(&rules, media_type, error, fields);
    }

    /// Adds the fields of a refusal, and gives its page.
    fn add_refusal(
        &self,
        request: &Request<'_>,
        status: Status,
        fields: &mut Fields,
    ) -> Body<'static> {
        let page = self.error_pages.of(status);
        if !page.coded.is_empty() {
            fields.add(Name::Vary, "Accept-Encoding");
        }
        self.amend(request, page.media_type, true, fields);
        let mut body = page.body;
        if let Some((coding, coded)) = self.policy.choose(request, page.coded) {
            body = coded.clone();
            fields.add(Name::ContentEncoding, FilterKind::of(*coding).name);
        }
        pages::add_fields_of(page.media_type, body.len(), fields);
        page_body(request, body)
    }
}

fn page_body(request: &Request<'_>, page: Bytes) -> Body<'static> {
    match request.method() {
        Method::Head => Body::Empty,
        _ => Body::Bytes(page),
    }
}
