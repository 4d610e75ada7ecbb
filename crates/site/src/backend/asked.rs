//! What is asked of a backend: a request, with its body.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_http::OwnedRequest;

use super::body::{Body, Refused};
use super::request::name_of;
use super::spool::Spool;
use super::start::{Start, told_len};
use super::{Failure, Link};
use crate::plan::Plan;

/// A request on its way to a backend.
#[derive(Debug)]
pub(super) struct Asked {
    request: OwnedRequest,
    id: String,
    pub(super) body: Body,
    /// What makes its link, once the request body is whole.
    start: Option<Box<Start>>,
    /// The site that it was asked of.
    pub(super) site: usize,
    /// Directories of which files may be sent.
    pub(super) sendfile_roots: Arc<[PathBuf]>,
    /// How often it was sent elsewhere by a program.
    pub(super) redirects: u8,
    /// Its program led to a path that is not open to everybody.
    pub(super) led_to_closed: bool,
}

impl Asked {
    pub(super) fn new(request: OwnedRequest, site: usize, id: String) -> Asked {
        Asked {
            request,
            id,
            body: Body::default(),
            start: None,
            site,
            sendfile_roots: [].into(),
            redirects: 0,
            led_to_closed: false,
        }
    }

    pub(super) fn request(&self) -> &OwnedRequest {
        &self.request
    }

    /// What it is called in the log.
    pub(super) fn name(&self) -> String {
        name_of("backend", &self.request, &self.id)
    }

    /// The length of its body, as its head tells it; `None` when it comes in chunks.
    pub(super) fn told_len(&self) -> Option<u64> {
        told_len(&self.request)
    }

    /// Asks for its program at once, or when its body is whole, of which so many bytes may be held.
    pub(super) fn begin(&mut self, start: Start, held_max: Option<u64>) -> Option<Box<dyn Link>> {
        self.body = match (held_max, self.told_len()) {
            (_, Some(0)) => return Some(self.link(start)),
            (Some(most), _) => Body::gathered(usize::try_from(most).unwrap_or(usize::MAX), true),
            (None, None) if start.needs_length() => Body::gathered(0, false),
            (None, _) => return Some(self.link(start)),
        };
        self.start = Some(Box::new(start));
        None
    }

    /// Asks for its program, once its body is whole.
    pub(super) fn begin_when_gathered(&mut self) -> Option<Box<dyn Link>> {
        if !self.body.is_gathered() {
            return None;
        }
        let mut start = self.start.take()?;
        if self.told_len().is_none() {
            start.measured(self.body.len());
        }
        Some(self.link(*start))
    }

    fn link(&self, start: Start) -> Box<dyn Link> {
        start.link(&self.request, &self.id)
    }

    /// Whether its program is asked for when its body is whole, which it is not yet.
    pub(super) fn is_gathered_first(&self) -> bool {
        self.start.is_some()
    }

    /// The work that is to be done before more of the body can be gathered.
    ///
    /// # Errors
    /// Why no more can.
    pub(super) fn store(
        &mut self,
        spool: Option<&Arc<Spool>>,
    ) -> Result<Option<Box<Plan>>, (Failure, String)> {
        let told = self.told_len().unwrap_or(0);
        self.body.store(told, spool).map_err(|refused| match refused {
            Refused::Full => {
                (Failure::SpoolFull, "the place for request bodies is full".to_owned())
            }
            Refused::TooLong => self.too_long(),
        })
    }

    /// The work with the body is done.
    ///
    /// # Errors
    /// Why it could not be done.
    pub(super) fn worked(&mut self, plan: Plan) -> Result<(), (Failure, String)> {
        self.body.worked(plan).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                (Failure::SpoolFull, format!("the place for request bodies: {error}"))
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => self.too_long(),
            _ => (Failure::Down, format!("its body cannot be held: {error}")),
        })
    }

    /// There is no place for more of the body than memory holds.
    fn too_long(&self) -> (Failure, String) {
        match self.told_len() {
            Some(_) => (Failure::TooLong, "its body is longer than may be held".to_owned()),
            None => {
                let why = "its body came in chunks, and is longer than may be held";
                (Failure::Unmeasured, why.to_owned())
            }
        }
    }

    /// Drops what no program has got: the request is over.
    pub(super) fn forget(&mut self) {
        self.start = None;
        self.body.forget();
    }
}
