//! Pathname translation: from a path beneath a root to the file that answers for it.
//!
//! One path may have several names: those of neighbours in other languages or formats, of indexes,
//! with `.html` behind it, and last a fallback. They are opened one after the other.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use flyball_http::Status;
use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::Op;
use flyball_sys::file::{self, Kind, Links, Stamp};

use crate::found::Found;
use crate::outcome::{Outcome, status_of};
use crate::path::Mapped;
use crate::routes::{Candidate, Depends, GZIP_SUFFIX, Neighbours, Place, Role};
use crate::served::Served;

/// Most times that one name is opened again because others were renamed meanwhile.
const REOPENS_MAX: u32 = 200;

/// What is asked for, and where it may be.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) links: Links,
    pub(crate) place: Place,
    /// Names of indexes.
    pub(crate) index: Arc<[String]>,
    pub(crate) neighbours: Neighbours,
    /// Whether a name is also looked for with `.html` behind it.
    pub(crate) pretty: bool,
    /// What answers for what is not there.
    pub(crate) fallback: Option<Fallback>,
    /// Whether a directory without an index is an answer.
    pub(crate) lists: bool,
}

/// What answers for a path that names nothing.
#[derive(Debug)]
pub(crate) enum Fallback {
    /// A file: its root with the number of that, and its path there.
    File { root: Arc<OwnedFd>, number: u16, path: Vec<u8> },
    /// A backend, which also gets the paths that look like those of files.
    Backend,
    /// What a rule says, for any path.
    Rule,
}

/// The name that is being looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The path as it is asked for.
    Path,
    /// The index of this number in the directory that the path names.
    Index(usize),
    /// The path with `.html`.
    Pretty,
    /// The fallback.
    Fallback,
}

/// Pathname translation: from a relative path to an open file.
#[derive(Debug)]
pub(crate) struct Translate {
    asked: Asked,
    stage: Stage,
    /// The number of the root beneath which it is looked for.
    root: u16,
    /// The names that may answer at this stage, and which of them is looked at.
    candidates: Vec<Candidate>,
    at: usize,
    /// The plain file, while it is looked whether it has neighbours.
    best: Option<Box<Found>>,
    depends: Depends,
    directory: Option<Arc<Descriptor>>,
    opened: Option<Arc<Descriptor>>,
    reopened: u32,
}

impl Translate {
    pub(crate) fn new(asked: Asked) -> Translate {
        let path = asked.place.path.clone();
        let plain = asked.place.mapped == Mapped::Directory;
        let mut translate = Translate {
            root: asked.place.root,
            asked,
            stage: Stage::Path,
            candidates: Vec::new(),
            at: 0,
            best: None,
            depends: Depends::default(),
            directory: None,
            opened: None,
            reopened: 0,
        };
        // A directory has no neighbours.
        let neighbours = if plain { Neighbours::default() } else { translate.neighbours() };
        translate.candidates = neighbours.of(&path);
        translate
    }

    fn neighbours(&self) -> Neighbours {
        self.asked.neighbours.clone()
    }

    pub(crate) fn next_op(&mut self) -> Op {
        match &self.opened {
            Some(file) => Op::Stat { file: Arc::clone(file) },
            None => Op::Open {
                root: Arc::clone(&self.asked.root),
                // The empty path names nothing, as a path with an encoded slash does, which is NUL.
                path: CString::new(self.name()).unwrap_or_default(),
                links: self.asked.links,
            },
        }
    }

    fn name(&self) -> Vec<u8> {
        self.candidates.get(self.at).map(|candidate| candidate.name.clone()).unwrap_or_default()
    }

    fn role(&self) -> Role {
        self.candidates.get(self.at).map_or(Role::Plain, |candidate| candidate.role)
    }

    pub(crate) fn opened(&mut self, opened: io::Result<Descriptor>) -> Option<Outcome> {
        match opened {
            Ok(file) => {
                self.opened = Some(Arc::new(file));
                None
            }
            // openat2 cannot tell whether a `..` in a link stays beneath the root while any name
            // anywhere is changed, and asks for another try.
            Err(error) if file::is_race(&error) && self.reopened < REOPENS_MAX => {
                self.reopened += 1;
                None
            }
            Err(error) => match status_of(&error) {
                Status::NOT_FOUND => self.next_candidate(),
                // A neighbour that cannot be read is no reason to refuse the file itself.
                Status::FORBIDDEN if self.role() != Role::Plain => self.next_candidate(),
                status => Some(Outcome::Missing(status)),
            },
        }
    }

    pub(crate) fn stamped(&mut self, stamp: io::Result<Stamp>) -> Option<Outcome> {
        let file = self.opened.take()?;
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(error) => return Some(Outcome::Missing(status_of(&error))),
        };
        let asks_for_directory = self.asked.place.mapped == Mapped::Directory;
        match (stamp.kind, self.stage, self.role()) {
            (Kind::Regular, Stage::Path, _) if asks_for_directory => self.next_candidate(),
            (Kind::Regular, ..) => self.file(file, stamp),
            (Kind::Directory, Stage::Path, Role::Plain) if asks_for_directory => {
                self.directory = Some(file);
                self.index(0)
            }
            (Kind::Directory, Stage::Path, Role::Plain) => Some(Outcome::NeedsSlash),
            _ => self.next_candidate(),
        }
    }

    /// A candidate is there.
    fn file(&mut self, file: Arc<Descriptor>, stamp: Stamp) -> Option<Outcome> {
        let candidate = self.candidates.get(self.at)?;
        let is_plain = |candidate: &&Candidate| candidate.role == Role::Plain;
        let (name, served) = match candidate.role {
            // What answers is the plain file, as far as names go.
            Role::Gzip => {
                let plain = candidate.name.strip_suffix(GZIP_SUFFIX);
                (plain.unwrap_or(&candidate.name), Served::Alone)
            }
            _ => (&candidate.name[..], Served::Plain),
        };
        let resource = match candidate.role {
            Role::Plain | Role::Gzip => None,
            _ => self.candidates.iter().find(is_plain).map(|plain| plain.name.as_slice().into()),
        };
        let found = Box::new(Found {
            file,
            stamp,
            name: name.to_vec(),
            resource,
            root: self.root,
            depends: Depends::default(),
            served,
            body: Bytes::new(),
        });
        self.depends.language |= candidate.depends.language;
        self.depends.image |= candidate.depends.image;
        match candidate.role {
            Role::Preferred => self.best = Some(found),
            // Whether it has neighbours must be told, although it answers.
            Role::Plain | Role::Gzip => {
                self.best = Some(found);
                return self.next_candidate();
            }
            Role::Default => drop(self.best.get_or_insert(found)),
            Role::Refused => return self.next_candidate(),
        }
        self.end_of_candidates()
    }

    fn next_candidate(&mut self) -> Option<Outcome> {
        self.at += 1;
        // The plain file is there.
        if self.best.is_some() && self.at < self.candidates.len() && self.role() == Role::Gzip {
            self.at += 1;
        }
        if self.at < self.candidates.len() {
            return None;
        }
        self.end_of_candidates()
    }

    fn end_of_candidates(&mut self) -> Option<Outcome> {
        if let Some(found) = self.best.take() {
            return Some(Outcome::File(Found { depends: self.depends, ..*found }));
        }
        let path = &self.asked.place.path;
        match self.stage {
            Stage::Path if self.asked.pretty && self.asked.place.mapped == Mapped::File => {
                let name = [path, &b".html"[..]].concat();
                self.begin(Stage::Pretty, &name)
            }
            Stage::Path | Stage::Pretty => self.fall_back(),
            Stage::Index(number) => self.index(number + 1),
            Stage::Fallback => Some(Outcome::Missing(Status::NOT_FOUND)),
        }
    }

    /// Goes on with an index, or tells that there is none.
    fn index(&mut self, number: usize) -> Option<Outcome> {
        if let Some(index) = self.asked.index.get(number) {
            let path = &self.asked.place.path;
            let name = match path.as_slice() {
                b"." => index.as_bytes().to_vec(),
                path => [path, b"/", index.as_bytes()].concat(),
            };
            return self.begin(Stage::Index(number), &name);
        }
        if self.asked.lists || self.asked.fallback.is_none() {
            let place = self.asked.place.clone();
            return self.directory.take().map(|directory| Outcome::Directory(directory, place));
        }
        self.fall_back()
    }

    /// Goes on with the fallback. A file is none for a path that looks like that of a file.
    fn fall_back(&mut self) -> Option<Outcome> {
        let path = &self.asked.place.path;
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let is_file = path != b"." && name.contains(&b'.');
        match self.asked.fallback.take() {
            Some(Fallback::Backend) => Some(Outcome::FallsBack),
            Some(Fallback::Rule) => Some(Outcome::LedOn),
            Some(Fallback::File { root, number, path }) if !is_file => {
                (self.asked.root, self.root) = (root, number);
                self.begin(Stage::Fallback, &path)
            }
            _ => Some(Outcome::Missing(Status::NOT_FOUND)),
        }
    }

    fn begin(&mut self, stage: Stage, name: &[u8]) -> Option<Outcome> {
        self.stage = stage;
        self.candidates = self.neighbours().of(name);
        self.at = 0;
        self.depends = Depends::default();
        None
    }
}
