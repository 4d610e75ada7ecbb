//! The work behind coded bodies: looking for a file that was coded beforehand, `page.html.br`
//! beside `page.html`, and keeping a body that was coded here in a file.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use flyball_http::coding::{Class, Coding};
use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::Op;
use flyball_sys::file::{Kind, Links, Stamp};

use crate::entry::{Content, OpenFile};
use crate::filter::FilterKind;
use crate::found::Found;
use crate::outcome::Outcome;
use crate::served::Served;

/// The files beside one file, in the order of what a client likes.
#[derive(Debug)]
pub(crate) struct Beside {
    root: Arc<OwnedFd>,
    links: Links,
    found: Found,
    class: Class,
    tried: usize,
    opened: Option<Arc<Descriptor>>,
}

impl Beside {
    /// None was looked at yet.
    pub(crate) fn new(root: Arc<OwnedFd>, links: Links, found: Found, class: Class) -> Beside {
        Beside { root, links, found, class, tried: 0, opened: None }
    }

    fn coding(&self) -> Option<Coding> {
        self.class.codings().nth(self.tried)
    }

    pub(crate) fn next_op(&self) -> Op {
        if let Some(file) = &self.opened {
            return Op::Stat { file: Arc::clone(file) };
        }
        let suffix = self.coding().map_or("", |coding| FilterKind::of(coding).suffix);
        Op::Open {
            root: Arc::clone(&self.root),
            // The name of a file that was opened holds no NUL.
            path: CString::new([&self.found.name, suffix.as_bytes()].concat()).unwrap_or_default(),
            links: self.links,
        }
    }

    /// Whatever is in the way of opening it: there is the plain file.
    pub(crate) fn opened(&mut self, opened: io::Result<Descriptor>) -> Option<Outcome> {
        match opened {
            Ok(file) => {
                self.opened = Some(Arc::new(file));
                None
            }
            Err(_) => self.next(),
        }
    }

    /// It must not be older than the plain file.
    pub(crate) fn stamped(&mut self, stamp: io::Result<Stamp>) -> Option<Outcome> {
        let (file, coding) = (self.opened.take()?, self.coding()?);
        let serves = |stamp: &Stamp| {
            stamp.kind == Kind::Regular && stamp.modified_ns >= self.found.stamp.modified_ns
        };
        match stamp.ok().filter(serves) {
            Some(stamp) => {
                let served = Served::Beforehand(coding);
                Some(Outcome::Chosen(Found { file, stamp, served, ..self.found.clone() }))
            }
            None => self.next(),
        }
    }

    fn next(&mut self) -> Option<Outcome> {
        self.tried += 1;
        self.coding().is_none().then(|| Outcome::Chosen(self.found.clone()))
    }
}

/// A body that was coded here, on its way into a file in memory: caches that hold nothing but files
/// keep it so.
#[derive(Debug)]
pub(crate) struct Keep {
    found: Found,
    bytes: Bytes,
    file: Option<Arc<Descriptor>>,
}

impl Keep {
    pub(crate) fn new(found: Found, bytes: Bytes) -> Keep {
        Keep { found, bytes, file: None }
    }

    pub(crate) fn next_op(&self) -> Op {
        match &self.file {
            Some(file) => Op::Stat { file: Arc::clone(file) },
            None => Op::Keep { bytes: self.bytes.clone() },
        }
    }

    pub(crate) fn opened(&mut self, opened: io::Result<Descriptor>) -> Option<Outcome> {
        match opened {
            Ok(file) => {
                self.file = Some(Arc::new(file));
                None
            }
            Err(_) => Some(self.not_kept()),
        }
    }

    pub(crate) fn stamped(&mut self, stamp: io::Result<Stamp>) -> Option<Outcome> {
        let file = self.file.take()?;
        let Ok(stamp) = stamp else { return Some(self.not_kept()) };
        let content = Content::Open(Arc::new(OpenFile::new(file, stamp)));
        Some(Outcome::Kept(self.found.clone(), content))
    }

    fn not_kept(&self) -> Outcome {
        Outcome::Kept(self.found.clone(), Content::Memory(self.bytes.clone()))
    }
}
