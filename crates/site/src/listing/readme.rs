//! The README of a directory, shown below its listing.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::{Done, Op};
use flyball_sys::file::{Kind, Whereabouts};

use super::Entry;

/// Bytes of a README that are shown.
pub(super) const README_BYTES_MAX: usize = 64 * 1024;

/// Names that are looked for, the first that is there first.
pub(crate) const NAMES: [&[u8]; 3] = [b"README.md", b"README", b"README.txt"];

/// A README, from its name to its text. One that cannot be read is not shown.
#[derive(Debug)]
pub(super) struct Readme {
    /// Which of the names may be shown.
    open: [bool; NAMES.len()],
    /// Which of the names it has: the first of [`NAMES`] that was seen.
    rank: Option<usize>,
    step: Step,
    pub(super) text: Vec<u8>,
    /// Whether the text is HTML already.
    pub(super) rendered: bool,
    /// Whether there is more than is shown.
    pub(super) cut: bool,
}

#[derive(Debug)]
enum Step {
    Open,
    Stat(Arc<Descriptor>),
    Read(Arc<Descriptor>, usize),
    Done,
}

impl Readme {
    /// None yet; none ever unless it is `wanted`.
    pub(super) fn wanted(wanted: bool) -> Readme {
        let step = if wanted { Step::Open } else { Step::Done };
        Readme {
            open: [true; NAMES.len()],
            rank: None,
            step,
            text: Vec::new(),
            rendered: false,
            cut: false,
        }
    }

    /// Only these of [`NAMES`] may be shown.
    pub(super) fn restrict(&mut self, open: [bool; NAMES.len()]) {
        self.open = open;
    }

    /// Looks whether an entry is one.
    pub(super) fn see(&mut self, entry: &Entry) {
        if entry.directory {
            return;
        }
        let rank = NAMES.iter().position(|name| *name == entry.name);
        let rank = rank.filter(|rank| self.open[*rank]);
        self.rank = match (self.rank, rank) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static [u8] {
        self.rank.map_or(b"", |rank| NAMES[rank])
    }

    /// Whether the text is Markdown, to be shown as HTML.
    pub(super) fn is_markdown(&self) -> bool {
        self.name().ends_with(b".md") && !self.text.is_empty()
    }

    pub(super) fn is_done(&self) -> bool {
        self.rank.is_none() || matches!(self.step, Step::Done)
    }

    pub(super) fn next_op(&self, place: &Whereabouts<Arc<OwnedFd>>) -> Option<Op> {
        Some(match &self.step {
            Step::Open => {
                let path = [&place.path, &b"/"[..], self.name()].concat();
                Op::Open {
                    root: Arc::clone(&place.root),
                    // A path that came out of a request holds no NUL.
                    path: CString::new(path).unwrap_or_default(),
                    links: place.links,
                }
            }
            Step::Stat(file) => Op::Stat { file: Arc::clone(file) },
            Step::Read(file, _) => Op::Read {
                file: Arc::clone(file),
                // One byte more tells that there is more.
                buffer: vec![0; README_BYTES_MAX + 1],
                filled: 0,
                start: 0,
            },
            Step::Done => return None,
        })
    }

    pub(super) fn done(&mut self, done: Done) {
        self.step = match (std::mem::replace(&mut self.step, Step::Done), done) {
            (Step::Open, Done::Opened(Ok(file))) => Step::Stat(Arc::new(file)),
            (Step::Stat(file), Done::Stamped(Ok(stamp))) if stamp.kind == Kind::Regular => {
                // What a file of procfs holds, whose size is none, depends on who reads it.
                Step::Read(file, usize::try_from(stamp.size).unwrap_or(usize::MAX))
            }
            (Step::Read(_, size), Done::Read(mut buffer, Ok(read))) => {
                let read = read.min(size);
                self.cut = read > README_BYTES_MAX;
                buffer.truncate(read.min(README_BYTES_MAX));
                self.text = buffer;
                self.text.shrink_to_fit();
                Step::Done
            }
            _ => Step::Done,
        };
    }
}
