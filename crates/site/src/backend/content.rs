//! The content of an answer on its way to a client: in memory, and what a slow client leaves there
//! too long in a file, so that the program need not wait for it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::spool::{Full, Spool, Spooled, WINDOW_BYTES};
use crate::plan::Plan;

/// Most bytes that are passed on as one piece.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Content that came and was not passed on: what came first leaves first.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The first bytes, which came back from the file.
    fetched: Bytes,
    /// Or those that did not go there.
    memory: BytesMut,
    /// The bytes that follow.
    file: Option<Spooled>,
    /// And those that are about to go there.
    window: BytesMut,
    /// Work with the file is under way.
    works: bool,
    /// Nothing more of this answer can go to a file.
    is_stuck: bool,
}

impl Content {
    /// What came, while nothing was passed on.
    pub(super) fn memory(&mut self) -> &mut BytesMut {
        &mut self.memory
    }

    /// Where bytes that come are put, of which memory holds so many.
    pub(super) fn tail(&mut self, memory_max: u64) -> &mut BytesMut {
        if self.goes_on_in_file(memory_max) { &mut self.window } else { &mut self.memory }
    }

    fn goes_on_in_file(&self, memory_max: u64) -> bool {
        let follows = self.file.is_some() || !self.window.is_empty() || !self.fetched.is_empty();
        // Without a buffer, what comes is passed on at once.
        follows || memory_max > 0 && self.memory.len() as u64 >= memory_max
    }

    /// Whether more may come before something is passed on.
    pub(super) fn has_room(&self, memory_max: u64, file_max: u64, spools: bool) -> bool {
        if !self.goes_on_in_file(memory_max) {
            return memory_max > 0;
        }
        let stored = self.file.as_ref().map_or(0, Spooled::stored) + self.window.len() as u64;
        spools && !self.is_stuck && !self.works && stored < file_max
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.fetched.is_empty()
            && self.memory.is_empty()
            && self.file.is_none()
            && self.window.is_empty()
    }

    /// Whether work with the file is under way.
    pub(super) fn is_working(&self) -> bool {
        self.works
    }

    /// The work that makes room for more, if there is enough of it.
    pub(super) fn store(&mut self, spool: Option<&Arc<Spool>>) -> Option<Box<Plan>> {
        if self.window.len() < WINDOW_BYTES || self.is_stuck {
            return None;
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => Spooled::of_answer(spool?),
        };
        let window = std::mem::take(&mut self.window).freeze();
        let stored = file.store(window);
        self.file = Some(file).filter(|file| file.len() > 0);
        match stored {
            Ok(plan) => {
                self.works = true;
                Some(plan)
            }
            // It stays in memory, and no more comes before it has left.
            Err(Full(window)) => {
                (self.window, self.is_stuck) = (window.into(), true);
                None
            }
        }
    }

    /// The next bytes, as far as they are in memory.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        if !self.fetched.is_empty() {
            return Some(self.fetched.split_to(self.fetched.len().min(PIECE_BYTES_MAX)));
        }
        let is_drained = self.memory.is_empty() && self.file.is_none();
        let first = if is_drained { &mut self.window } else { &mut self.memory };
        if first.is_empty() {
            return None;
        }
        if first.len() <= PIECE_BYTES_MAX {
            return Some(first.split().freeze());
        }
        Some(first.split_to(PIECE_BYTES_MAX).freeze())
    }

    /// The work that brings the next bytes into memory.
    pub(super) fn fetch(&mut self) -> Option<Box<Plan>> {
        let is_next = self.fetched.is_empty() && self.memory.is_empty();
        let file = self.file.as_mut().filter(|_| is_next)?;
        self.works = true;
        Some(file.fetch())
    }

    /// That work is done.
    ///
    /// # Errors
    /// When bytes are lost.
    pub(super) fn worked(&mut self, plan: Plan) -> std::io::Result<()> {
        self.works = false;
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.done(plan) {
            Ok(fetched) if fetched.is_empty() => {}
            Ok(fetched) => self.fetched = fetched.into(),
            Err((_, Some(stored))) => (self.window, self.is_stuck) = (stored.into(), true),
            Err((error, None)) => return Err(error),
        }
        if file.len() == 0 {
            // Its room is for others.
            self.file = None;
        }
        Ok(())
    }

    /// Drops what is left: the request is over.
    pub(super) fn forget(&mut self) {
        *self = Content { works: self.works, ..Content::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 128 * 1024;

    /// A program that says all it can, and a client that takes pieces now and then.
    fn pass(spool: Option<&Arc<Spool>>, takes_at: usize) -> (Vec<u8>, usize) {
        let body: Vec<u8> = (0..3_000_001_u32).map(|n| (n / 251) as u8 ^ n as u8).collect();
        let (mut content, mut passed) = (Content::default(), Vec::new());
        let (mut said, mut most) = (0, 0);
        let run = |content: &mut Content, mut plan: Box<Plan>| {
            plan.run();
            content.worked(*plan).unwrap();
        };
        for turn in 0.. {
            if let Some(plan) = content.store(spool) {
                run(&mut content, plan);
            }
            while content.has_room(MEMORY, 64 << 20, spool.is_some()) && said < body.len() {
                let part = (body.len() - said).min(32 * 1024 - turn % 7);
                content.tail(MEMORY).extend_from_slice(&body[said..said + part]);
                said += part;
                if let Some(plan) = content.store(spool) {
                    run(&mut content, plan);
                    break;
                }
            }
            most = most.max(said - passed.len());
            if turn % takes_at == 0 || said == body.len() {
                match (content.next(), content.is_empty()) {
                    (Some(piece), _) => passed.extend_from_slice(&piece),
                    (None, true) if said == body.len() => break,
                    (None, true) => {}
                    (None, false) => {
                        let plan = content.fetch().unwrap();
                        run(&mut content, plan);
                    }
                }
            }
        }
        assert!(passed == body, "{} of {} bytes, or others", passed.len(), body.len());
        (passed, most)
    }

    #[test]
    fn what_came_first_leaves_first_wherever_it_was() {
        let directory = tempfile::tempdir().unwrap();
        for takes_at in [1, 2, 3, 5, 40] {
            let (_, most) = pass(None, takes_at);
            assert!(most < 200_000, "{most} bytes are held in memory");
            for bytes_max in [300_000, 1 << 20, 1 << 30] {
                let spool = Arc::new(Spool::open(directory.path(), bytes_max).unwrap());
                pass(Some(&spool), takes_at);
            }
        }
    }
}
