//! Which bodies leave coded, and how much of the processor that may cost.
//!
//! A body that is held in memory is coded once, by a [`Compression`], and held coded beside the
//! plain one: whoever asks next is answered from the cache. How much is coded at once, and how long
//! in a row, is bounded by [`Load`]; beyond that the chain of filters is cut short and bodies leave
//! plain (S3, section 6: M140).

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use flyball_http::coding::{Class, Classes, Coding};
use flyball_http::{Method, Name, Request};
use flyball_sys::disk::Compute;
use flyball_sys::file::Stamp;
use hashbrown::DefaultHashBuilder;

use crate::filter::{Chain, FILTERS, FilterKind};

/// Which bodies of a site leave coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressSettings {
    /// Whether bodies are coded when they are asked for.
    pub on: bool,
    /// Whether a file that was coded beforehand is sent in the place of the file beside it.
    pub precompressed: bool,
    /// The codings on offer, in the order of preference when a client likes them equally.
    pub codings: Vec<Coding>,
    /// Media types that are worth it: `text/css`, `text/*`, `*+json`; empty for those of text.
    pub types: Vec<String>,
    /// Smaller bodies are left as they are, in bytes.
    pub min_bytes: u64,
    /// Larger bodies are left as they are, in bytes.
    pub max_bytes: u64,
    /// How hard the encoder of gzip tries, 1 to 9.
    pub gzip_level: u32,
    /// How hard the encoder of Brotli tries, 0 to 11.
    pub brotli_level: u32,
    /// How hard the encoder of Zstandard tries, 1 to 19.
    pub zstd_level: u32,
    /// Bodies that a process codes at once; more leave plain.
    pub shed: usize,
    /// Percent of one processor that coding may take of a process; what is beyond leaves plain.
    pub cpu_percent: u64,
}

impl Default for CompressSettings {
    fn default() -> CompressSettings {
        CompressSettings {
            on: true,
            precompressed: true,
            codings: FILTERS.iter().map(|kind| kind.coding).collect(),
            types: Vec::new(),
            min_bytes: 1024,
            max_bytes: 1024 * 1024,
            gzip_level: FilterKind::of(Coding::Gzip).level,
            brotli_level: FilterKind::of(Coding::Brotli).level,
            zstd_level: FilterKind::of(Coding::Zstd).level,
            shed: 8,
            cpu_percent: 50,
        }
    }
}

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
        let offers = settings.on || settings.precompressed;
        let offer = if offers { Class::new(&settings.codings) } else { Class::NONE };
        CodingPolicy { settings: settings.clone(), offer }
    }

    /// What a request would rather have of what is on offer here. A range is always one of the
    /// plain body, which every client understands that has parts of it.
    pub(crate) fn class(&self, request: &Request<'_>, classes: &mut Classes) -> Class {
        if self.offer == Class::NONE || !request.has_any(Name::AcceptEncoding.bit()) {
            return Class::NONE;
        }
        if request.has_any(Name::Range.bit()) && request.method() == Method::Get {
            return Class::NONE;
        }
        let mut lines = request.values(Name::AcceptEncoding);
        match (lines.next(), lines.next()) {
            (Some(line), None) => classes.of(line, self.offer),
            _ => Class::of(request.values(Name::AcceptEncoding), self.offer),
        }
    }

    /// True when answers with this body depend on what the client accepts.
    pub(crate) fn varies(&self, media_type: &str, size: u64) -> bool {
        self.offer != Class::NONE
            && size >= self.settings.min_bytes
            && (self.settings.precompressed || size <= self.settings.max_bytes)
            && self.is_listed(media_type)
    }

    /// Whether files that were coded beforehand are looked for.
    pub(crate) fn takes_neighbours(&self) -> bool {
        self.settings.precompressed
    }

    /// The coding of a body that varies, for a client of this class: the one it likes best.
    pub(crate) fn coding(&self, class: Class, size: u64) -> Option<Coding> {
        let codes = self.settings.on && size <= self.settings.max_bytes;
        class.codings().next().filter(|_| codes)
    }

    /// The level of a coding here.
    pub(crate) fn level(&self, coding: Coding) -> u32 {
        let level = match coding {
            Coding::Gzip => self.settings.gzip_level,
            Coding::Brotli => self.settings.brotli_level,
            Coding::Zstd => self.settings.zstd_level,
        };
        let levels = &FilterKind::of(coding).levels;
        level.clamp(*levels.start(), *levels.end())
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

/// How much a process is coding, and which bodies are not worth it. Shared by its threads; a change
/// of it never waits.
#[derive(Debug)]
pub(crate) struct Load {
    under_way: AtomicUsize,
    /// Until when what was spent keeps the share of the processor busy, in microseconds.
    paid_us: AtomicU64,
    since: Instant,
    stubborn: Box<[AtomicU64]>,
    hasher: DefaultHashBuilder,
}

impl Load {
    pub(crate) fn new() -> Arc<Load> {
        Arc::new(Load {
            under_way: AtomicUsize::new(0),
            paid_us: AtomicU64::new(0),
            since: Instant::now(),
            stubborn: (0..STUBBORN).map(|_| AtomicU64::new(0)).collect(),
            hasher: DefaultHashBuilder::default(),
        })
    }

    /// True when there is enough to do.
    pub(crate) fn is_full(&self, policy: &CodingPolicy) -> bool {
        self.under_way.load(Relaxed) >= policy.settings.shed
            || self.paid_us.load(Relaxed) > self.now_us() + BURST_US
    }

    /// Leave to code one more body; `None` when there is enough to do.
    pub(crate) fn permit(self: &Arc<Load>, policy: &CodingPolicy) -> Option<Permit> {
        if self.is_full(policy) {
            return None;
        }
        let permit = Permit { load: Arc::clone(self), percent: policy.settings.cpu_percent.max(1) };
        let before = self.under_way.fetch_add(1, Relaxed);
        // Given back when it is dropped.
        (before < policy.settings.shed).then_some(permit)
    }

    /// True when this body is known not to shrink.
    pub(crate) fn is_stubborn(&self, of: &Body<'_>) -> bool {
        let hash = self.hash(of);
        self.stubborn[hash as usize % STUBBORN].load(Relaxed) == hash
    }

    /// Remembers that a body does not shrink.
    pub(crate) fn set_stubborn(&self, of: &Body<'_>) {
        let hash = self.hash(of);
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

/// A body that would be coded.
#[derive(Hash)]
pub(crate) struct Body<'a> {
    pub(crate) site: usize,
    pub(crate) name: &'a [u8],
    pub(crate) stamp: &'a Stamp,
    pub(crate) coding: Coding,
}

/// Leave to code one body, for as long as that takes.
#[derive(Debug)]
pub(crate) struct Permit {
    load: Arc<Load>,
    percent: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.load.under_way.fetch_sub(1, Relaxed);
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

    fn code(&self) -> std::io::Result<Vec<u8>> {
        let kind = FilterKind::of(self.coding);
        let mut chain = Chain::default().then((kind.make)(self.level, self.body.len() as u64)?);
        let mut out = Vec::with_capacity(self.body.len() / 2);
        chain.write(&self.body, &mut out)?;
        chain.finish(&mut out)?;
        Ok(out)
    }
}

impl Compute for Compression {
    fn compute(&self) {
        let begun = Instant::now();
        // An encoder fails for want of memory: the body leaves plain then.
        let coded = self.code().ok();
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.permit.load.spend(us, self.permit.percent);
        let worth = |coded: &Vec<u8>| coded.len() + SAVING_BYTES_MIN <= self.body.len();
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
    /// Bodies that left plain because too much was being coded.
    pub shed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
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
        policy.class(&head.request(text.as_bytes()), &mut Classes::default())
    }

    #[test]
    fn the_class_is_that_of_the_codings_on_offer() {
        let gzip = Class::new(&[Coding::Gzip]);
        let accepts = "Accept-Encoding: gzip;q=0.5\r\nAccept-Encoding: br;q=0\r\n";
        assert_eq!(class(&policy(|_| ()), "GET", accepts), gzip);
        assert_eq!(class(&policy(|_| ()), "GET", ""), Class::NONE);
        let only = policy(|s| s.codings = vec![Coding::Gzip]);
        assert_eq!(class(&only, "GET", "Accept-Encoding: gzip, br, zstd\r\n"), gzip);
        let off = policy(|s| (s.on, s.precompressed) = (false, false));
        assert_eq!(class(&off, "GET", accepts), Class::NONE);
        let neighbours = policy(|s| s.on = false);
        assert_eq!(class(&neighbours, "GET", accepts), gzip);
    }

    #[test]
    fn a_range_is_one_of_the_plain_body() {
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
        for (size, varies) in [(1_023, false), (1_024, true), (1 << 20, true), (2 << 20, false)] {
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

    fn compression(load: &Arc<Load>, body: Vec<u8>) -> Compression {
        let permit = load.permit(&policy(|_| ())).unwrap();
        Compression::new(body.into(), Coding::Gzip, 6, permit)
    }

    #[test]
    fn a_body_that_does_not_shrink_is_not_coded() {
        let load = Load::new();
        let text = compression(&load, b"again and ".repeat(1_000));
        text.compute();
        assert!(text.take().unwrap().len() < 1_000);
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
        let body = |stamp| Body { site: 0, name: b"a", stamp, coding: Coding::Gzip };
        assert!(!load.is_stubborn(&body(&stamp)));
        load.set_stubborn(&body(&stamp));
        assert!(load.is_stubborn(&body(&stamp)));
        assert!(!load.is_stubborn(&body(&changed)));
        assert!(!load.is_stubborn(&Body { coding: Coding::Zstd, ..body(&stamp) }));
    }

    #[test]
    fn so_many_bodies_are_coded_at_once_and_no_more() {
        let (load, policy) = (Load::new(), policy(|s| s.shed = 2));
        let permits = [load.permit(&policy), load.permit(&policy), load.permit(&policy)];
        assert_eq!(permits.each_ref().map(Option::is_some), [true, true, false]);
        drop(permits);
        assert!(load.permit(&policy).is_some());
    }

    #[test]
    fn what_was_spent_has_to_be_waited_for() {
        let (load, policy) = (Load::new(), policy(|s| s.cpu_percent = 50));
        load.spend(BURST_US / 4, 50);
        assert!(load.permit(&policy).is_some());
        load.spend(BURST_US, 50);
        assert!(load.permit(&policy).is_none());
    }
}
