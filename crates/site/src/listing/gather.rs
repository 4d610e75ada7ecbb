//! Reading a directory: its names in batches, a README at the end, and then what takes the
//! processor long: sorting the one and rendering the other.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::{Compute, Done, Op};
use flyball_sys::file::{DirectoryEntry, Kind, Stamp, Whereabouts};

use super::readme::{NAMES, Readme};
use super::unlisted::Unlisted;
use super::wish::{Format, Wish};
use super::{Entry, markdown};
use crate::path::{PATH_BYTES_MAX, can_be_asked_for};
use crate::steps::Steps;

/// A directory that is being read. What was found waits here until somebody takes it.
#[derive(Debug)]
pub(crate) struct Gather {
    directory: Arc<Descriptor>,
    place: Whereabouts<Arc<OwnedFd>>,
    /// The path that it is shown under.
    shown: Vec<u8>,
    /// Whether names that begin with a dot are shown.
    hidden: bool,
    unlisted: Unlisted,
    wish: Wish,
    /// Where the next names are; `None` when there are no more.
    position: Option<u64>,
    /// So many entries are enough for now.
    enough: usize,
    /// False once entries were taken that were not sorted.
    whole: bool,
    pub(crate) entries: Vec<Entry>,
    pub(super) readme: Readme,
    finish: Finish,
    error: Option<io::Error>,
}

/// What is left to be done once all was read.
#[derive(Debug)]
enum Finish {
    Due,
    UnderWay(Arc<Finishing>),
    Over,
}

/// Sorting the entries, and rendering the README: work for the processor.
#[derive(Debug)]
struct Finishing {
    /// How to sort; `None` when the first of them have left unsorted.
    sorts_by: Option<Wish>,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    entries: Vec<Entry>,
    markdown: Option<Vec<u8>>,
    html: Vec<u8>,
}

impl Compute for Finishing {
    fn compute(&self) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wish) = self.sorts_by {
            read.entries.sort_unstable_by(|a, b| wish.compare(a, b));
        }
        read.html = read.markdown.as_deref().map(markdown::render).unwrap_or_default();
    }
}

impl Gather {
    /// From the beginning, until there are `enough` entries.
    pub(crate) fn new(
        directory: Arc<Descriptor>,
        place: Whereabouts<Arc<OwnedFd>>,
        hidden: bool,
        wish: Wish,
        enough: usize,
    ) -> Gather {
        let readme = Readme::wanted(wish.format == Format::Html);
        let (entries, error) = (Vec::new(), None);
        let position = Some(0);
        Gather {
            directory,
            shown: place.path.clone(),
            place,
            hidden,
            unlisted: Unlisted::default(),
            wish,
            position,
            enough,
            whole: true,
            entries,
            readme,
            finish: Finish::Due,
            error,
        }
    }

    /// What the client wants.
    pub(crate) fn wish(&self) -> Wish {
        self.wish
    }

    /// Shows it under another path than that beneath its root.
    pub(crate) fn shown_as(mut self, path: &[u8]) -> Gather {
        self.shown = path.to_vec();
        self
    }

    /// Of the names of READMEs only these are shown.
    pub(crate) fn with_readmes(mut self, open: [bool; NAMES.len()]) -> Gather {
        self.readme.restrict(open);
        self
    }

    /// Leaves these out.
    pub(crate) fn without(mut self, unlisted: Unlisted) -> Gather {
        self.unlisted = unlisted;
        self
    }

    /// The path that it is shown under, without slashes at its ends; `.` for the root.
    pub(crate) fn path(&self) -> &[u8] {
        &self.shown
    }

    /// Why it cannot be read.
    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// True when the directory was read to its end.
    pub(crate) fn is_at_end(&self) -> bool {
        self.position.is_none()
    }

    /// Takes what was found. Unless that was the end, the rest will not be sorted.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        self.whole = false;
        std::mem::take(&mut self.entries)
    }

    /// Goes on, by one batch of names at least.
    pub(crate) fn go_on(&mut self) {
        self.enough = self.entries.len() + 1;
    }

    /// True when there is nothing to do for now.
    pub(crate) fn is_done(&self) -> bool {
        match self.position {
            _ if self.error.is_some() => true,
            Some(_) => self.entries.len() >= self.enough,
            None => self.readme.is_done() && matches!(self.finish, Finish::Over),
        }
    }

    fn listed(&mut self, names: Vec<DirectoryEntry>, next: Option<u64>) {
        // What links to a name must not be refused.
        let longest = self.shown.len().max(self.place.path.len());
        let room = PATH_BYTES_MAX.saturating_sub(longest + "/".len());
        let hidden = self.hidden;
        let can_be_had = |name: &[u8]| {
            (hidden || !name.starts_with(b".")) && can_be_asked_for(name) && name.len() < room
        };
        for DirectoryEntry { name, stamp } in names {
            let is_shown = |stamp: &Stamp| can_be_had(&name) && !self.unlisted.has(&name, stamp);
            let Some(stamp) = stamp.filter(is_shown) else { continue };
            let entry = entry_of(name, &stamp);
            entry.iter().for_each(|entry| self.readme.see(entry));
            self.entries.extend(entry);
        }
        self.position = next;
    }

    /// The work that is left; the same again when it was lost.
    fn finishing(&mut self) -> Arc<Finishing> {
        if let Finish::UnderWay(work) = &self.finish {
            return Arc::clone(work);
        }
        let markdown = self.readme.is_markdown().then(|| std::mem::take(&mut self.readme.text));
        let read = Read { entries: std::mem::take(&mut self.entries), markdown, html: Vec::new() };
        let sorts_by = self.whole.then_some(self.wish);
        let work = Arc::new(Finishing { sorts_by, read: Mutex::new(read) });
        self.finish = Finish::UnderWay(Arc::clone(&work));
        work
    }

    fn finished(&mut self) {
        if let Finish::UnderWay(work) = std::mem::replace(&mut self.finish, Finish::Over) {
            let mut read = work.read.lock().unwrap_or_else(PoisonError::into_inner);
            self.entries = std::mem::take(&mut read.entries);
            if read.markdown.is_some() {
                self.readme.text = std::mem::take(&mut read.html);
                self.readme.rendered = true;
            }
        }
    }
}

impl Steps for Gather {
    fn next_op(&mut self) -> Option<Op> {
        if self.is_done() {
            return None;
        }
        match self.position {
            Some(position) => {
                let (directory, place) = (Arc::clone(&self.directory), self.place.clone());
                Some(Op::List { directory, place, position })
            }
            None if !self.readme.is_done() => self.readme.next_op(&self.place),
            None => Some(Op::Compute { work: self.finishing() }),
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Listed(Ok(batch)) => self.listed(batch.entries, batch.next),
            Done::Listed(Err(error)) => self.error = Some(error),
            Done::Computed => self.finished(),
            // Its name may lead elsewhere since it was listed.
            Done::Stamped(Ok(stamp)) if self.unlisted.is_secret(self.readme.name(), &stamp) => {
                self.readme.done(Done::Stamped(Err(io::ErrorKind::NotFound.into())));
            }
            done => self.readme.done(done),
        }
    }
}

/// What is shown of a name: nothing when it leads out of the root, or to what is neither a file
/// nor a directory.
fn entry_of(name: Vec<u8>, stamp: &Stamp) -> Option<Entry> {
    let directory = match stamp.kind {
        Kind::Directory => true,
        Kind::Regular => false,
        Kind::Other => return None,
    };
    let modified = u64::try_from(stamp.modified_ns / 1_000_000_000).unwrap_or(0);
    Some(Entry { name, directory, size: stamp.size, modified })
}
