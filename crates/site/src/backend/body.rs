//! The request body on its way to a program: gathered until it is whole, so that a client that is
//! slow keeps no program from others, or passed on as it comes. What is longer than may be held in
//! memory goes on in a file.

use std::io;
use std::sync::Arc;

use super::Link;
use super::spool::{Full, Spool, Spooled, WINDOW_BYTES};
use crate::plan::Plan;

/// Why a body cannot be gathered.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is no place for more than memory holds.
    TooLong,
    /// The place is full.
    Full,
}

/// A request body.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Most bytes that are held in memory.
    memory_max: usize,
    /// Whether more may go on in a file.
    spools: bool,
    /// Its first bytes that the link has not taken, behind `at` that it has.
    memory: Vec<u8>,
    at: usize,
    /// The bytes that follow.
    file: Option<Spooled>,
    /// And those that are about to go there.
    window: Vec<u8>,
    /// Work with the file is under way.
    works: bool,
    /// All of it has come.
    ended: bool,
    /// The link knows that.
    told: bool,
}

impl Body {
    /// One that is gathered, with so many bytes in memory, and with more in a file if it `spools`.
    pub(super) fn gathered(memory_max: usize, spools: bool) -> Body {
        Body { memory_max, spools, ..Body::default() }
    }

    /// Bytes that are here.
    pub(super) fn len(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, Spooled::len);
        (self.memory.len() - self.at + self.window.len()) as u64 + file
    }

    /// All of it has come.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// All of it is where its link finds it.
    pub(super) fn is_gathered(&self) -> bool {
        self.ended && !self.works && self.window.is_empty()
    }

    /// Whether the link has all of it.
    pub(super) fn is_passed_on(&self) -> bool {
        self.told
    }

    /// Whether work with the file is under way.
    pub(super) fn is_working(&self) -> bool {
        self.works
    }

    /// Bytes that can be gathered now.
    pub(super) fn room(&self) -> usize {
        match self.memory_max.saturating_sub(self.memory.len()) {
            _ if self.works => 0,
            0 if self.spools => WINDOW_BYTES - self.window.len(),
            // One more, to see whether there are more.
            0 => 1 - self.window.len().min(1),
            left => left,
        }
    }

    /// Gathers bytes, at most as many as there is room for.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if self.memory.len() < self.memory_max {
            self.memory.extend_from_slice(bytes);
        } else {
            self.window.extend_from_slice(bytes);
        }
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Drops what is left: the request is over.
    pub(super) fn forget(&mut self) {
        (self.memory, self.at, self.window, self.file) = (Vec::new(), 0, Vec::new(), None);
    }

    /// The work that is to be done before more can be gathered of a body that says it is `told`
    /// bytes long.
    pub(super) fn store(
        &mut self,
        told: u64,
        spool: Option<&Arc<Spool>>,
    ) -> Result<Option<Box<Plan>>, Refused> {
        if self.window.is_empty() && told <= self.memory_max as u64 {
            return Ok(None);
        }
        let Some(spool) = spool.filter(|_| self.spools) else { return Err(Refused::TooLong) };
        if self.window.is_empty() {
            return Ok(None);
        }
        if self.window.len() < WINDOW_BYTES && !self.ended {
            return Ok(None);
        }
        let file = self.file.get_or_insert_with(|| Spooled::of_request(spool));
        let window = std::mem::take(&mut self.window);
        let plan = file.store(window.into()).map_err(|Full(_)| Refused::Full)?;
        self.works = true;
        Ok(Some(plan))
    }

    /// The work that is to be done before more can be passed on.
    pub(super) fn fetch(&mut self) -> Option<Box<Plan>> {
        let file = self.file.as_mut().filter(|file| self.memory.is_empty() && file.len() > 0)?;
        self.works = true;
        Some(file.fetch())
    }

    /// That work is done.
    ///
    /// # Errors
    /// Why it could not be done.
    pub(super) fn worked(&mut self, plan: Plan) -> io::Result<()> {
        self.works = false;
        let Some(file) = &mut self.file else { return Ok(()) };
        let fetched = file.done(plan).map_err(|(error, _)| error)?;
        if !fetched.is_empty() {
            (self.memory, self.at) = (fetched, 0);
        }
        Ok(())
    }

    /// Passes on what the link takes; true when that was anything.
    pub(super) fn feed(&mut self, link: &mut dyn Link) -> bool {
        let len = (self.memory.len() - self.at).min(link.room());
        if len > 0 {
            link.take(&self.memory[self.at..self.at + len]);
            self.at += len;
        }
        if self.at == self.memory.len() {
            (self.memory, self.at) = (Vec::new(), 0);
            if self.ended && !self.told && !self.works && self.len() == 0 {
                self.told = true;
                self.file = None;
                link.end_body();
                return true;
            }
        }
        len > 0
    }
}
