//! Which bodies leave coded, and how much of the processor that may cost.
//!
//! A body that is held in memory is coded once, by a [`Compression`], and held coded beside the
//! plain one: whoever asks next is answered from the cache. A longer one is coded while it is sent,
//! by a [`CodedSource`](crate::coded_source::CodedSource), for each client anew. How much is coded
//! at once, and how long in a row, is bounded by [`Load`]; beyond that, and while the server is
//! [`Overloaded`], the chain of filters is cut short and bodies leave plain (S3, section 6: M140).

use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use flyball_http::coding::{Class, Classes, Coding};
use flyball_http::{Method, Name, Request};
use flyball_sys::disk::Compute;
use flyball_sys::file::Stamp;
use hashbrown::DefaultHashBuilder;

use crate::filter::{Chain, FILTERS, FilterKind, PIECE_BYTES};
use crate::served::Served;

/// Which bodies of a site leave coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressSettings {
    /// Whether bodies are coded when they are asked for.
    pub on: bool,
    /// Whether answers of programs are coded too.
    pub backends: bool,
    /// Whether a file that was coded beforehand is sent in the place of the file beside it.
    pub precompressed: bool,
    /// Whether a file that is there by gzip alone answers for the plain one.
    pub gzip_only: bool,
    /// The codings on offer, in the order of preference when a client likes them equally.
    pub codings: Vec<Coding>,
    /// Media types that are worth it: `text/css`, `text/*`, `*+json`; empty for those of text.
    pub types: Vec<String>,
    /// Smaller bodies are left as they are, in bytes.
    pub min_bytes: u64,
    /// Larger bodies are not coded at once and kept, but while they are sent, in bytes.
    pub max_bytes: u64,
    /// Larger bodies are left as they are, in bytes; 0 when none is coded while it is sent.
    pub stream_bytes_max: u64,
    /// Bodies that a process codes at once while they are sent; more leave plain.
    pub streams: usize,
    /// How hard each filter tries, in the order of [`FILTERS`].
    pub levels: [u32; FILTERS.len()],
    /// Bodies that a process codes at once; more leave plain.
    pub shed: usize,
    /// Percent of one processor that coding may take of a process; what is beyond leaves plain.
    pub cpu_percent: u64,
    /// Whether bodies are coded while the server is overloaded.
    pub overloaded: bool,
}

impl Default for CompressSettings {
    fn default() -> CompressSettings {
        CompressSettings {
            on: true,
            backends: true,
            precompressed: true,
            gzip_only: false,
            codings: OFFERED.iter().filter_map(|name| FilterKind::named(name)).collect(),
            types: Vec::new(),
            min_bytes: 1024,
            max_bytes: 1024 * 1024,
            stream_bytes_max: 64 * 1024 * 1024,
            streams: 16,
            levels: std::array::from_fn(|at| FILTERS[at].level.preset()),
            shed: 8,
            cpu_percent: 50,
            overloaded: false,
        }
    }
}

/// Names of the codings that are on offer when none are set.
const OFFERED: [&[u8]; 3] = [b"br", b"zstd", b"gzip"];

/// Types of text, and of the few other formats that leave much to be saved.
const TYPES: &[&str] = &[
    "text/*",
    "*+json",
    "*+xml",
    "application/javascript",
    "application/json",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-sh",
    "application/x-tar",
    "application/xml",
    "application/xml-dtd",
    "application/yaml",
    "font/collection",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

/// A coded body has to be smaller than the plain one by so many bytes: the field that names the
/// coding costs some, and decoding is work for the client.
const SAVING_BYTES_MIN: usize = 64;

/// Most bodies that a process decodes while they are sent; each takes up to 192 KiB.
pub(crate) const DECODED_MAX: usize = 256;

/// How long coding may go on in a process before the share of the processor counts, in
/// microseconds: a server that has just started codes its whole site once.
const BURST_US: u64 = 2_000_000;

/// Bodies that are remembered not to shrink, per process; which are forgotten when others take
/// their places.
const STUBBORN: usize = 4_096;

/// The settings of a site, as its service asks for them.
#[derive(Debug)]
pub(crate) struct CodingPolicy {
    settings: CompressSettings,
    offer: Class,
}

impl CodingPolicy {
    pub(crate) fn new(settings: &CompressSettings) -> CodingPolicy {
        let offers = settings.on || settings.precompressed || settings.gzip_only;
        let offer = if offers { Class::new(&settings.codings) } else { Class::NONE };
        CodingPolicy { settings: settings.clone(), offer }
    }

    /// What a request would rather have of what is on offer here. A range is always one of the
    /// plain body, which every client understands that has parts of it.
    pub(crate) fn class(&self, request: &Request<'_>, classes: &mut Classes) -> Class {
        if !self.has_wish(request) {
            return Class::NONE;
        }
        let mut lines = request.values(Name::AcceptEncoding);
        match (lines.next(), lines.next()) {
            (Some(line), None) => classes.of(line, self.offer),
            _ => self.read(request),
        }
    }

    fn read(&self, request: &Request<'_>) -> Class {
        Class::of(request.values(Name::AcceptEncoding), self.offer, FilterKind::named)
    }

    fn has_wish(&self, request: &Request<'_>) -> bool {
        let is_range = request.has_any(Name::Range.bit()) && request.method() == Method::Get;
        self.offer != Class::NONE && request.has_any(Name::AcceptEncoding.bit()) && !is_range
    }

    /// Which of these bodies a request would rather have than the plain one.
    pub(crate) fn choose<'b>(
        &self,
        request: &Request<'_>,
        coded: &'b [(Coding, Bytes)],
    ) -> Option<&'b (Coding, Bytes)> {
        if coded.is_empty() || !self.has_wish(request) {
            return None;
        }
        self.read(request).codings().find_map(|coding| coded.iter().find(|(of, _)| *of == coding))
    }

    /// A body that is kept for good, in every coding on offer that makes it smaller.
    pub(crate) fn code(&self, media_type: &str, body: &[u8]) -> Vec<(Coding, Bytes)> {
        if !self.settings.on || !self.varies(media_type, body.len() as u64) {
            return Vec::new();
        }
        let coded = |coding| Some((coding, coded(body, coding, self.level(coding)).ok()?));
        let is_worth = |(_, coded): &(Coding, Vec<u8>)| saves(body.len(), coded.len());
        let coded = self.offer.codings().filter_map(coded).filter(is_worth);
        coded.map(|(coding, coded)| (coding, coded.into())).collect()
    }

    /// True when answers with this body depend on what the client accepts.
    pub(crate) fn varies(&self, media_type: &str, size: u64) -> bool {
        self.offer != Class::NONE
            && size >= self.settings.min_bytes
            && (self.settings.precompressed || self.settings.on && size <= self.largest())
            && self.is_listed(media_type)
    }

    /// The largest body that is coded here.
    fn largest(&self) -> u64 {
        self.settings.max_bytes.max(self.settings.stream_bytes_max)
    }

    /// Whether files that were coded beforehand are looked for.
    pub(crate) fn takes_neighbours(&self) -> bool {
        self.settings.precompressed
    }

    /// Whether files answer that are there by gzip alone.
    pub(crate) fn takes_gzip_alone(&self) -> bool {
        self.settings.gzip_only
    }

    /// How a body that varies leaves, for a client of this class: in the coding it likes best.
    pub(crate) fn served(&self, class: Class, size: u64) -> Served {
        let serves = self.settings.on && size <= self.largest();
        match class.codings().next().filter(|_| serves) {
            None => Served::Plain,
            Some(coding) if size <= self.settings.max_bytes => Served::Here(coding),
            Some(coding) => Served::OnTheWay(coding),
        }
    }

    /// The coding of a body that is being produced, for a client of this class; `len` where it is
    /// known.
    pub(crate) fn of_stream(
        &self,
        class: Class,
        media_type: &str,
        len: Option<u64>,
    ) -> Option<Coding> {
        let codes = self.streams(media_type, len);
        class.codings().next().filter(|_| codes)
    }

    /// True when bodies of this type that are being produced depend on what the client accepts.
    pub(crate) fn streams(&self, media_type: &str, len: Option<u64>) -> bool {
        let (least, most) = (self.settings.min_bytes, self.settings.stream_bytes_max);
        self.settings.on
            && most > 0
            && len.is_none_or(|len| least <= len)
            && self.is_listed(media_type)
    }

    /// True when answers of programs with this type depend on what the client accepts. Events are
    /// each so short that coding them saves little.
    pub(crate) fn codes_answer(&self, media_type: &str, len: Option<u64>) -> bool {
        self.settings.backends
            && len.is_none_or(|len| len <= self.settings.stream_bytes_max)
            && !media_type.eq_ignore_ascii_case("text/event-stream")
            && self.streams(media_type, len)
    }

    /// Bodies that a process codes at once.
    fn most(&self, way: Way) -> usize {
        match way {
            Way::AtOnce => self.settings.shed,
            Way::Sent => self.settings.streams,
        }
    }

    /// The level of a coding here.
    pub(crate) fn level(&self, coding: Coding) -> u32 {
        let level = &FilterKind::of(coding).level;
        let set = self.settings.levels.get(coding.index()).copied();
        set.unwrap_or_else(|| level.preset()).clamp(level.least, level.most)
    }

    fn is_listed(&self, media_type: &str) -> bool {
        let essence = media_type.split(';').next().unwrap_or_default().trim().as_bytes();
        let is_covered = |listed: &str| covers(listed.as_bytes(), essence);
        match &self.settings.types[..] {
            [] => TYPES.iter().any(|listed| is_covered(listed)),
            types => types.iter().any(|listed| is_covered(listed)),
        }
    }
}

/// Whether a pattern with one `*` at most, at its beginning or end, covers a type.
fn covers(pattern: &[u8], media_type: &[u8]) -> bool {
    let same = |a: &[u8], b: Option<&[u8]>| b.is_some_and(|b| a.eq_ignore_ascii_case(b));
    match pattern {
        [b'*'] => true,
        [b'*', end @ ..] => {
            let at = media_type.len().checked_sub(end.len());
            same(end, at.map(|at| &media_type[at..]))
        }
        [begin @ .., b'*'] => same(begin, media_type.get(..begin.len())),
        _ => pattern.eq_ignore_ascii_case(media_type),
    }
}

/// Knows whether the server has more to do than it can.
pub trait Overloaded: fmt::Debug + Send + Sync {
    /// Whether it has now. Asked before a body is coded; never waits.
    fn is_overloaded(&self) -> bool;
}

/// How much a process is coding, and which bodies are not worth it. Shared by its threads; a change
/// of it never waits.
#[derive(Debug)]
pub(crate) struct Load {
    /// Bodies that are coded at once, and those that are coded while they are sent.
    under_way: [AtomicUsize; 2],
    /// What is being coded at once: whoever asks for it meanwhile gets it plain, rather than to
    /// have it coded again. No more than [`CompressSettings::shed`].
    in_flight: Mutex<Vec<u64>>,
    /// Bodies that were coded while they were sent, and bytes that this saved: since somebody has
    /// last asked.
    sent: [AtomicU64; 2],
    /// Who knows how busy the server is otherwise; nobody until it serves.
    overload: OnceLock<Box<dyn Overloaded>>,
    /// Until when what was spent keeps the share of the processor busy, in microseconds.
    paid_us: AtomicU64,
    since: Instant,
    stubborn: Box<[AtomicU64]>,
    /// Bodies that are decoded while they are sent.
    decoding: AtomicUsize,
    hasher: DefaultHashBuilder,
}

impl Load {
    pub(crate) fn new() -> Arc<Load> {
        Arc::new(Load {
            under_way: Default::default(),
            in_flight: Mutex::default(),
            sent: Default::default(),
            overload: OnceLock::new(),
            paid_us: AtomicU64::new(0),
            since: Instant::now(),
            stubborn: (0..STUBBORN).map(|_| AtomicU64::new(0)).collect(),
            decoding: AtomicUsize::new(0),
            hasher: DefaultHashBuilder::default(),
        })
    }

    /// Asks who is given back how busy the server is otherwise, if nobody is asked yet.
    pub(crate) fn watch(&self, overload: impl FnOnce() -> Box<dyn Overloaded>) {
        self.overload.get_or_init(overload);
    }

    /// True when there is enough to do.
    pub(crate) fn is_full(&self, policy: &CodingPolicy, way: Way) -> bool {
        self.under_way[way as usize].load(Relaxed) >= policy.most(way)
            || self.paid_us.load(Relaxed) > self.now_us() + BURST_US
            || !policy.settings.overloaded
                && self.overload.get().is_some_and(|overload| overload.is_overloaded())
    }

    /// Leave to code one more body; `None` when there is enough to do.
    pub(crate) fn permit(
        self: &Arc<Load>,
        policy: &CodingPolicy,
        way: Way,
        body: &Body<'_>,
    ) -> Option<Permit> {
        if self.is_full(policy, way) {
            return None;
        }
        let percent = policy.settings.cpu_percent.max(1);
        let (under_way, hash) = (&self.under_way[way as usize], self.hash(body));
        if under_way.fetch_add(1, Relaxed) >= policy.most(way)
            || way == Way::AtOnce && !self.take_off(hash)
        {
            under_way.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Permit { load: Arc::clone(self), way, percent, body: hash })
    }

    /// Leave to decode one more body; `None` when as many are being decoded as may.
    pub(crate) fn decode(self: &Arc<Load>) -> Option<Decoding> {
        let decoding = Decoding(Arc::clone(self));
        (self.decoding.fetch_add(1, Relaxed) < DECODED_MAX).then_some(decoding)
    }

    /// True when this body is being coded.
    pub(crate) fn is_in_flight(&self, body: &Body<'_>) -> bool {
        self.in_flight().contains(&self.hash(body))
    }

    /// A body begins to be coded, unless it is already.
    fn take_off(&self, body: u64) -> bool {
        let mut in_flight = self.in_flight();
        let is_free = !in_flight.contains(&body);
        if is_free {
            in_flight.push(body);
        }
        is_free
    }

    /// Held for a few instructions, never while a body is coded.
    fn in_flight(&self) -> MutexGuard<'_, Vec<u64>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bodies that were coded while they were sent, and bytes that this saved, since it was last
    /// called.
    pub(crate) fn take_sent(&self) -> (u64, u64) {
        let [bodies, bytes] = &self.sent;
        (bodies.swap(0, Relaxed), bytes.swap(0, Relaxed))
    }

    /// True when this body is known not to shrink.
    pub(crate) fn is_stubborn(&self, of: &Body<'_>) -> bool {
        let hash = self.hash(of);
        self.stubborn[hash as usize % STUBBORN].load(Relaxed) == hash
    }

    /// Remembers that a body does not shrink.
    pub(crate) fn set_stubborn(&self, of: &Body<'_>) {
        self.set_stubborn_hash(self.hash(of));
    }

    fn set_stubborn_hash(&self, hash: u64) {
        self.stubborn[hash as usize % STUBBORN].store(hash, Relaxed);
    }

    fn hash(&self, of: &Body<'_>) -> u64 {
        self.hasher.hash_one(of).max(1)
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Counts what coding one body took.
    fn spend(&self, us: u64, percent: u64) {
        let (now_us, busy_us) = (self.now_us(), us.saturating_mul(100) / percent);
        let add = |paid_us: u64| Some(paid_us.max(now_us).saturating_add(busy_us));
        let _ = self.paid_us.fetch_update(Relaxed, Relaxed, add);
    }
}

/// Leave to decode one body, for as long as that takes.
#[derive(Debug)]
pub(crate) struct Decoding(Arc<Load>);

impl Drop for Decoding {
    fn drop(&mut self) {
        self.0.decoding.fetch_sub(1, Relaxed);
    }
}

/// When a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At once, to be kept.
    AtOnce,
    /// While it is sent.
    Sent,
}

/// A body that would be coded.
#[derive(Hash)]
pub(crate) struct Body<'a> {
    /// That of the file; none of what is being produced.
    pub(crate) stamp: Option<&'a Stamp>,
    pub(crate) coding: Coding,
}

/// Leave to code one body, for as long as that takes.
#[derive(Debug)]
pub(crate) struct Permit {
    load: Arc<Load>,
    way: Way,
    percent: u64,
    /// Of which body.
    body: u64,
}

impl Permit {
    /// Counts the time since then.
    pub(crate) fn spend(&self, begun: Instant) {
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.load.spend(us, self.percent);
    }

    /// The body was coded while it was sent: so many bytes to so many.
    pub(crate) fn finished(&self, plain: usize, coded: usize) {
        let [bodies, bytes] = &self.load.sent;
        bodies.fetch_add(1, Relaxed);
        bytes.fetch_add(plain.saturating_sub(coded) as u64, Relaxed);
        if !saves(plain, coded) {
            self.load.set_stubborn_hash(self.body);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.load.under_way[self.way as usize].fetch_sub(1, Relaxed);
        if self.way == Way::AtOnce {
            self.load.in_flight().retain(|body| *body != self.body);
        }
    }
}

/// The coding of one body: work for whoever performs disk operations.
#[derive(Debug)]
pub(crate) struct Compression {
    body: Bytes,
    coding: Coding,
    level: u32,
    permit: Permit,
    coded: Mutex<Option<Vec<u8>>>,
}

impl Compression {
    pub(crate) fn new(body: Bytes, coding: Coding, level: u32, permit: Permit) -> Compression {
        Compression { body, coding, level, permit, coded: Mutex::new(None) }
    }

    /// What it coded.
    pub(crate) fn coding(&self) -> Coding {
        self.coding
    }

    /// The plain body.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// The coded body; `None` when it is not worth it.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        self.coded.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body, coded as a whole.
fn coded(body: &[u8], coding: Coding, level: u32) -> io::Result<Vec<u8>> {
    let mut chain =
        Chain::default().then((FilterKind::of(coding).make)(level, Some(body.len() as u64))?);
    let mut out = Vec::with_capacity(body.len() / 2);
    for piece in body.chunks(PIECE_BYTES) {
        chain.write(piece, &mut out)?;
    }
    chain.finish(&mut out)?;
    Ok(out)
}

/// Whether coding so many bytes to so many is worth it.
fn saves(plain: usize, coded: usize) -> bool {
    coded + SAVING_BYTES_MIN <= plain
}

impl Compute for Compression {
    fn compute(&self) {
        let begun = Instant::now();
        // An encoder fails for want of memory: the body leaves plain then.
        let coded = coded(&self.body, self.coding, self.level).ok();
        self.permit.spend(begun);
        let worth = |coded: &Vec<u8>| saves(self.body.len(), coded.len());
        let mut kept = self.coded.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = coded.filter(worth).map(|mut coded| {
            coded.shrink_to_fit();
            coded
        });
    }
}

/// What coding has come to since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressCounts {
    /// Bodies that were coded.
    pub compressions: u64,
    /// Bytes that those bodies were smaller by.
    pub saved_bytes: u64,
    /// Bodies that left plain because too much was being coded, or the server was overloaded.
    pub shed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::coding;
    use flyball_http::{Head, Limits, scan};

    fn policy(change: impl Fn(&mut CompressSettings)) -> CodingPolicy {
        let mut settings = CompressSettings::default();
        change(&mut settings);
        CodingPolicy::new(&settings)
    }

    fn class(policy: &CodingPolicy, method: &str, fields: &str) -> Class {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut head = Head::default();
        scan::parse_head(text.as_bytes(), &Limits::default(), &mut head).expect(&text);
        policy.class(&head.request(text.as_bytes()), &mut Classes::new(FilterKind::named))
    }

    #[test]
    fn the_class_is_that_of_the_codings_on_offer() {
        let gzip = Class::new(&[coding("gzip")]);
        let accepts = "Accept-Encoding: gzip;q=0.5\r\nAccept-Encoding: br;q=0\r\n";
        assert_eq!(class(&policy(|_| ()), "GET", accepts), gzip);
        assert_eq!(class(&policy(|_| ()), "GET", ""), Class::NONE);
        let only = policy(|s| s.codings = vec![coding("gzip")]);
        assert_eq!(class(&only, "GET", "Accept-Encoding: gzip, br, zstd\r\n"), gzip);
        let off = policy(|s| (s.on, s.precompressed) = (false, false));
        assert_eq!(class(&off, "GET", accepts), Class::NONE);
        let neighbours = policy(|s| s.on = false);
        assert_eq!(class(&neighbours, "GET", accepts), gzip);
    }

    #[test]
    fn a_range_is_one_of_the_plain_gzip() {
        let fields = "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\n";
        assert_eq!(class(&policy(|_| ()), "GET", fields), Class::NONE);
        assert_ne!(class(&policy(|_| ()), "HEAD", fields), Class::NONE);
    }

    #[test]
    fn text_of_a_certain_size_varies_and_images_do_not() {
        let policy = policy(|s| s.precompressed = false);
        for (media_type, varies) in [
            ("text/html; charset=utf-8", true),
            ("TEXT/CSS", true),
            ("application/ld+json", true),
            ("image/svg+xml", true),
            ("application/json", true),
            ("application/jsonx", false),
            ("image/png", false),
            ("video/mp4", false),
            ("application/octet-stream", false),
            ("", false),
        ] {
            assert_eq!(policy.varies(media_type, 5_000), varies, "{media_type}");
        }
        for (size, varies) in [(1_023, false), (1_024, true), (64 << 20, true), (65 << 20, false)] {
            assert_eq!(policy.varies("text/html", size), varies, "{size}");
        }
    }

    #[test]
    fn patterns_have_a_star_at_an_end() {
        for (pattern, media_type, covered) in [
            ("*", "a/b", true),
            ("*/*", "a/b", false),
            ("text/*", "text/x", true),
            ("text/*", "tex", false),
            ("*+xml", "a/b+XML", true),
            ("*+xml", "xml", false),
            ("a/b", "A/b", true),
            ("a/b", "a/bc", false),
        ] {
            assert_eq!(covers(pattern.as_bytes(), media_type.as_bytes()), covered, "{pattern}");
        }
    }

    #[test]
    fn a_body_is_coded_at_once_or_while_it_is_sent_or_not_at_all() {
        let class = Class::new(&[coding("gzip")]);
        let (small, large) = (policy(|_| ()), policy(|s| s.stream_bytes_max = 0));
        let way = |policy: &CodingPolicy, size| policy.served(class, size);
        assert_eq!(way(&small, 1 << 20), Served::Here(coding("gzip")));
        assert_eq!(way(&small, (1 << 20) + 1), Served::OnTheWay(coding("gzip")));
        assert_eq!(way(&small, 65 << 20), Served::Plain);
        assert_eq!(way(&large, (1 << 20) + 1), Served::Plain);
        assert_eq!(small.of_stream(class, "text/html", None), Some(coding("gzip")));
        assert_eq!(small.of_stream(class, "image/png", None), None);
        assert_eq!(small.of_stream(class, "text/html", Some(1_023)), None);
        assert_eq!(large.of_stream(class, "text/html", None), None);
        let off = policy(|s| s.on = false);
        assert_eq!((way(&off, 5_000), off.streams("text/html", None)), (Served::Plain, false));
    }

    fn gzip() -> Body<'static> {
        Body { stamp: None, coding: coding("gzip") }
    }

    fn compression(load: &Arc<Load>, body: Vec<u8>) -> Compression {
        let permit = load.permit(&policy(|_| ()), Way::AtOnce, &gzip()).unwrap();
        Compression::new(body.into(), coding("gzip"), 6, permit)
    }

    #[test]
    fn a_body_that_does_not_shrink_is_not_coded() {
        let load = Load::new();
        let text = compression(&load, b"again and ".repeat(1_000));
        text.compute();
        assert!(text.take().unwrap().len() < 1_000);
        drop(text);
        let mut noise: Vec<u8> = Vec::new();
        for n in 0u64..2_000 {
            noise.extend(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes());
        }
        let noise = compression(&load, noise);
        noise.compute();
        assert!(noise.take().is_none());
    }

    #[test]
    fn bodies_that_do_not_shrink_are_remembered_until_they_change() {
        let load = Load::new();
        let stamp = Stamp {
            device: 1,
            inode: 2,
            size: 3,
            modified_ns: 4,
            changed_ns: 5,
            links: 1,
            kind: flyball_sys::file::Kind::Regular,
        };
        let changed = Stamp { modified_ns: 5, ..stamp };
        let body = |stamp| Body { stamp: Some(stamp), coding: coding("gzip") };
        assert!(!load.is_stubborn(&body(&stamp)));
        load.set_stubborn(&body(&stamp));
        assert!(load.is_stubborn(&body(&stamp)));
        assert!(!load.is_stubborn(&body(&changed)));
        assert!(!load.is_stubborn(&Body { coding: coding("zstd"), ..body(&stamp) }));
    }

    #[test]
    fn so_many_bodies_are_coded_at_once_and_no_more() {
        let (load, policy) = (Load::new(), policy(|s| s.shed = 2));
        let body = |coding| Body { stamp: None, coding };
        let permits = ["gzip", "br", "zstd"]
            .map(|name| load.permit(&policy, Way::AtOnce, &body(coding(name))));
        assert_eq!(permits.each_ref().map(Option::is_some), [true, true, false]);
        // Those that are sent take no place of theirs.
        assert!(load.permit(&policy, Way::Sent, &gzip()).is_some());
        drop(permits);
        assert!(load.permit(&policy, Way::AtOnce, &gzip()).is_some());
    }

    #[test]
    fn a_body_that_is_being_coded_is_not_coded_by_another() {
        let (load, policy) = (Load::new(), policy(|_| ()));
        let first = load.permit(&policy, Way::AtOnce, &gzip());
        assert!(first.is_some() && load.is_in_flight(&gzip()));
        for _ in 0..2 {
            assert!(
                load.permit(&policy, Way::AtOnce, &gzip()).is_none() && load.is_in_flight(&gzip())
            );
        }
        assert!(!load.is_in_flight(&Body { coding: coding("zstd"), ..gzip() }));
        assert!(load.permit(&policy, Way::Sent, &gzip()).is_some());
        drop(first);
        assert!(!load.is_in_flight(&gzip()));
        assert!(load.permit(&policy, Way::AtOnce, &gzip()).is_some());
    }

    #[derive(Debug)]
    struct Busy;

    impl Overloaded for Busy {
        fn is_overloaded(&self) -> bool {
            true
        }
    }

    #[test]
    fn nothing_is_coded_while_the_server_is_overloaded_unless_that_is_wanted() {
        let (load, plain) = (Load::new(), policy(|_| ()));
        assert!(load.permit(&plain, Way::AtOnce, &gzip()).is_some());
        load.watch(|| Box::new(Busy));
        for way in [Way::AtOnce, Way::Sent] {
            assert!(load.is_full(&plain, way) && load.permit(&plain, way, &gzip()).is_none());
        }
        assert!(load.permit(&policy(|s| s.overloaded = true), Way::AtOnce, &gzip()).is_some());
    }

    #[test]
    fn what_was_spent_has_to_be_waited_for() {
        let (load, policy) = (Load::new(), policy(|s| s.cpu_percent = 50));
        load.spend(BURST_US / 4, 50);
        assert!(load.permit(&policy, Way::AtOnce, &gzip()).is_some());
        load.spend(BURST_US, 50);
        for way in [Way::AtOnce, Way::Sent] {
            assert!(load.permit(&policy, way, &gzip()).is_none());
        }
    }
}
