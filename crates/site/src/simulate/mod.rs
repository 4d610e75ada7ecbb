//! An access log replayed against caches of several policies and sizes: what the hit ratio would
//! have been. The caches are those of the server, with the same policies, costs and limits; only
//! the bodies are missing.
//!
//! What differs from a server: files do not change but when the log shows a longer answer, nothing
//! is ever revalidated, and what is brought in ahead is there at once.

mod catalogue;
mod line;
mod report;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead};
use std::path::PathBuf;

pub use report::{Outcome, Report};

use crate::cache_settings::Hints;
use crate::caches;
use crate::entry;
use crate::files::{Files, Held, Room};
use crate::policy::{CachePolicy, Traits};
use catalogue::Catalogue;
use line::{Entry, Line};

/// Longest line that is read; longer ones are malformed.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Malformed lines whose numbers are kept.
const MALFORMED_MAX: usize = 10;

/// Lines between two reports of progress.
const PROGRESS_LINES: u64 = 1 << 16;

/// How far references are followed, as in the server: to the objects of a page, and to theirs.
const DEPTH_MAX: u8 = 2;

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The policies.
    pub policies: Vec<CachePolicy>,
    /// Bytes of memory that the caches may take, as `cache.content`.
    pub sizes: Vec<u64>,
    /// Largest body that is held in memory, as `cache.small`, in bytes. Requests for larger files
    /// are left out.
    pub small_bytes_max: u64,
    /// Where the files are, if they are there: then their sizes and what pages refer to are read
    /// from them, else sizes are taken from the log and references from its referers.
    pub root: Option<PathBuf>,
    /// What the policy `hinted` goes by.
    pub hints: Hints,
}

/// How far a replay has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Lines read.
    pub lines: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// A replay under way.
#[derive(Debug)]
pub struct Simulation {
    options: Options,
    catalogue: Catalogue,
    caches: Vec<Cache>,
    progress: Progress,
    report: Report,
}

/// One of the caches.
#[derive(Debug)]
struct Cache {
    files: Files<Body>,
    room: Room,
    follows: bool,
    outcome: Outcome,
}

/// A file in such a cache.
#[derive(Debug)]
struct Body {
    id: u64,
    size: u64,
    cost: u64,
}

impl Held for Body {
    fn memory_bytes(&self, _pages: bool) -> u64 {
        self.cost
    }

    fn is_open(&self) -> bool {
        false
    }
}

impl Simulation {
    /// Empty caches. Blocks on the disk for the root.
    ///
    /// # Errors
    /// When the root cannot be opened.
    pub fn new(options: Options) -> io::Result<Simulation> {
        let catalogue = Catalogue::new(options.root.as_deref(), options.hints.clone())?;
        let pairs = options.policies.iter().flat_map(|policy| {
            options.sizes.iter().map(|size| (*policy, *size)).collect::<Vec<_>>()
        });
        let caches = pairs.map(|(policy, size)| Cache::new(policy, size)).collect();
        let (progress, report) = (Progress::default(), Report::default());
        Ok(Simulation { options, catalogue, caches, progress, report })
    }

    /// Replays a whole log, and says from time to time how far it has come. Blocks on the log.
    ///
    /// # Errors
    /// When the log cannot be read. Lines that cannot be understood are only counted.
    pub fn replay(
        &mut self,
        mut log: impl BufRead,
        mut progress: impl FnMut(Progress),
    ) -> io::Result<()> {
        let mut line = Vec::new();
        while let Some(bytes) = read_line(&mut log, &mut line)? {
            self.progress.bytes += bytes;
            self.line(&line);
            if self.progress.lines.is_multiple_of(PROGRESS_LINES) {
                progress(self.progress);
            }
        }
        Ok(())
    }

    /// What came of it.
    pub fn report(&self) -> Report {
        let sized = self.catalogue.files().iter().filter_map(|file| file.size);
        let small = sized.filter(|size| *size <= self.options.small_bytes_max);
        let (files, file_bytes) = small.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
        Report {
            lines: self.progress.lines,
            small_bytes_max: self.options.small_bytes_max,
            files,
            file_bytes,
            has_objects: self.catalogue.has_objects(),
            outcomes: self.caches.iter().map(|cache| cache.outcome.clone()).collect(),
            ..self.report.clone()
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.progress.lines += 1;
        match line::parse(line) {
            _ if line.len() > LINE_BYTES_MAX => self.malformed(),
            Line::Malformed => self.malformed(),
            Line::Entry(entry) if matches!(entry.status, 200 | 206 | 304) => self.request(&entry),
            Line::Entry(_) | Line::Other => self.report.others += 1,
        }
    }

    fn malformed(&mut self) {
        self.report.malformed += 1;
        if self.report.malformed_lines.len() < MALFORMED_MAX {
            self.report.malformed_lines.push(self.progress.lines);
        }
    }

    fn request(&mut self, entry: &Entry) {
        let Some(index) = self.catalogue.note(entry) else {
            self.report.unknown += 1;
            return;
        };
        if !self.is_small(index) {
            self.report.large += 1;
            return;
        }
        // What was not sent saves nothing.
        let bytes = if entry.status == 304 { 0 } else { entry.bytes.unwrap_or(0) };
        self.report.requests += 1;
        self.report.bytes += bytes;
        let small_bytes_max = self.options.small_bytes_max;
        for cache in &mut self.caches {
            cache.request(&self.catalogue, index, bytes, small_bytes_max);
        }
    }

    fn is_small(&self, index: u32) -> bool {
        let size = self.catalogue.file(index).size;
        size.is_some_and(|size| size <= self.options.small_bytes_max)
    }
}

impl Cache {
    fn new(policy: CachePolicy, size: u64) -> Cache {
        Cache {
            files: Files::new(policy, false),
            room: Room { bytes_max: size, files_max: 0, stays: false },
            follows: policy == CachePolicy::Structured,
            outcome: Outcome { policy, size, ..Outcome::default() },
        }
    }

    fn request(&mut self, files: &Catalogue, index: u32, bytes: u64, small_bytes_max: u64) {
        if self.holds(files, index) {
            self.outcome.hits += 1;
            self.outcome.hit_bytes += bytes;
        } else if self.admit(files, index) && self.follows {
            self.fetch_objects(files, index, small_bytes_max, 1);
        }
    }

    /// Whether a file is there as it is now, which is a use of it.
    fn holds(&mut self, files: &Catalogue, index: u32) -> bool {
        let file = files.file(index);
        let Some(handle) = self.files.find(file.id, |body| body.id == file.id) else {
            return false;
        };
        let is_same = self.files.peek(handle).is_some_and(|body| Some(body.size) == file.size);
        if !is_same {
            self.files.remove(handle);
        }
        is_same
    }

    fn admit(&mut self, files: &Catalogue, index: u32) -> bool {
        let file = files.file(index);
        let (Some(class), Some(size)) = (self.class_of(file), file.size) else { return false };
        let objects = if self.follows { &file.object_ids[..] } else { &[] };
        let traits = Traits { class, id: file.id, objects };
        let path = caches::path_bytes(file.name_len + 1);
        let cost = entry::typical_bytes(file.name_len, size) + path;
        let body = Body { id: file.id, size, cost };
        let evictions = &mut self.outcome.evictions;
        let gone = |_: &Body| *evictions += 1;
        self.files.admit(file.id, body, &traits, self.room, gone).is_ok()
    }

    fn class_of(&self, file: &catalogue::File) -> Option<crate::policy::Class> {
        match self.outcome.policy {
            CachePolicy::Hinted => file.class,
            _ => Some(crate::policy::Class::Plain),
        }
    }

    fn fetch_objects(&mut self, files: &Catalogue, page: u32, small_bytes_max: u64, depth: u8) {
        for &object in &files.file(page).objects {
            let Some(size) = files.file(object).size.filter(|size| *size <= small_bytes_max) else {
                continue;
            };
            if !self.holds(files, object) && self.admit(files, object) {
                self.outcome.ahead += 1;
                self.outcome.ahead_bytes += size;
                if depth < DEPTH_MAX {
                    self.fetch_objects(files, object, small_bytes_max, depth + 1);
                }
            }
        }
    }
}

/// Reads a line without its end, and no more of it than one byte too many; the bytes that were
/// taken from the log, or `None` at its end.
fn read_line(log: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<u64>> {
    line.clear();
    let mut taken = 0;
    loop {
        let available = match log.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok((taken > 0).then_some(taken));
        }
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let consumed = part.len() + usize::from(end.is_some());
        log.consume(consumed);
        taken += consumed as u64;
        if end.is_some() {
            return Ok(Some(taken));
        }
    }
}
