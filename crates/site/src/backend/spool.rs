//! Bodies that are too long for memory and must not keep a program from others: files without a
//! name, in one directory, with a limit for all of them. Nothing here waits: what does is a plan.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::{Done, Op};
use flyball_sys::shared::SharedCounters;
use flyball_sys::{file, nameless};

use crate::plan::Plan;
use crate::steps::Steps;

/// Bytes that are written to a file, or read from it, at a time.
pub(super) const WINDOW_BYTES: usize = 256 * 1024;

/// The place for bodies, and how much of it is in use.
#[derive(Debug)]
pub struct Spool {
    directory: Arc<OwnedFd>,
    bytes_max: u64,
    /// The file system knows no files without a name: each loses its name when it is made.
    unlinks: bool,
    /// What this process uses, before it says where it counts.
    alone: AtomicU64,
    shares: OnceLock<Share>,
}

/// Each process counts its bytes in a word that all processes see, so that they share one limit.
/// The parent sets the word of a dead process to zero: the files of that process are gone.
#[derive(Debug)]
struct Share {
    words: Arc<SharedCounters>,
    own: usize,
}

impl Spool {
    /// Opens a directory that may take so many bytes. Blocks on the disk.
    ///
    /// # Errors
    /// When it is not there, or no file can be made in it.
    pub fn open(directory: &Path, bytes_max: u64) -> io::Result<Spool> {
        let directory = file::open_root(directory)?;
        let unlinks = nameless::make(&directory)?.1;
        Ok(Spool {
            directory: Arc::new(directory),
            bytes_max,
            unlinks,
            alone: AtomicU64::new(0),
            shares: OnceLock::new(),
        })
    }

    /// Whether this process may make files there. Blocks on the disk.
    pub fn can_be_written(&self) -> bool {
        nameless::make(&self.directory).is_ok()
    }

    /// Counts in one of these words from now on, beside the other processes that have the others.
    /// To be called in the process that serves; only the first call counts.
    pub fn share(&self, words: &Arc<SharedCounters>, own: usize) {
        self.shares.get_or_init(|| Share { words: Arc::clone(words), own });
    }

    /// The directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Whether files have a name for a moment there, which must be removed.
    pub fn unlinks(&self) -> bool {
        self.unlinks
    }

    fn words(&self) -> (&[AtomicU64], usize) {
        match self.shares.get() {
            Some(Share { words, own }) => (words.all(), *own),
            None => (std::slice::from_ref(&self.alone), 0),
        }
    }

    /// Takes so many bytes, if no more than `most` are in use then. Of several processes that come
    /// at the same time fewer may find room than there is, never more.
    fn reserve(&self, bytes: u64, most: u64) -> bool {
        let (words, own) = self.words();
        words[own].fetch_add(bytes, SeqCst);
        let sum = words.iter().fold(0u64, |sum, word| sum.saturating_add(word.load(SeqCst)));
        let has_room = sum <= most;
        if !has_room {
            self.release(bytes);
        }
        has_room
    }

    fn release(&self, bytes: u64) {
        let (words, own) = self.words();
        words[own].fetch_sub(bytes, SeqCst);
    }
}

/// The spool has no room for these bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full(pub(super) Bytes);

/// Bytes in a file of their own: what was stored first is fetched first.
#[derive(Debug)]
pub(super) struct Spooled {
    spool: Arc<Spool>,
    /// Most bytes that may be in use in the whole spool when this one takes some.
    most: u64,
    file: Option<Arc<Descriptor>>,
    /// Bytes that were stored, or are being stored.
    stored: u64,
    fetched: u64,
}

impl Spooled {
    /// Bytes of a request, which is refused where there is no room.
    pub(super) fn of_request(spool: &Arc<Spool>) -> Spooled {
        Spooled::new(spool, spool.bytes_max)
    }

    /// Bytes of an answer, whose program can wait: a quarter of the room is left to requests.
    pub(super) fn of_answer(spool: &Arc<Spool>) -> Spooled {
        Spooled::new(spool, spool.bytes_max / 4 * 3)
    }

    fn new(spool: &Arc<Spool>, most: u64) -> Spooled {
        Spooled { spool: Arc::clone(spool), most, file: None, stored: 0, fetched: 0 }
    }

    /// Bytes that are there.
    pub(super) fn len(&self) -> u64 {
        self.stored - self.fetched
    }

    /// Bytes that the file takes, those included that were fetched.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// The work that adds bytes. One piece of work is under way at a time.
    pub(super) fn store(&mut self, bytes: Bytes) -> Result<Box<Plan>, Full> {
        if !self.spool.reserve(bytes.len() as u64, self.most) {
            return Err(Full(bytes));
        }
        let start = self.stored;
        self.stored += bytes.len() as u64;
        Ok(self.steps(What::Store(bytes), start))
    }

    /// The work that fetches the next bytes, of which there are some.
    pub(super) fn fetch(&mut self) -> Box<Plan> {
        let len = self.len().min(WINDOW_BYTES as u64);
        let start = self.fetched;
        self.fetched += len;
        self.steps(What::Fetch { len: len as usize, buffer: Vec::new(), filled: 0 }, start)
    }

    fn steps(&self, what: What, start: u64) -> Box<Plan> {
        let (directory, file) = (Arc::clone(&self.spool.directory), self.file.clone());
        Plan::steps(Transfer { directory, file, start, what, ended: None })
    }

    /// That work is done: the bytes that were fetched.
    ///
    /// # Errors
    /// Why it could not be done, with the bytes that were not stored.
    pub(super) fn done(&mut self, plan: Plan) -> Result<Vec<u8>, (io::Error, Option<Bytes>)> {
        let lost = || io::Error::from(io::ErrorKind::Other);
        let transfer = plan.into_steps::<Transfer>().ok_or_else(|| (lost(), None))?;
        let Transfer { file, what, ended, .. } = *transfer;
        self.file = file;
        match (what, ended.unwrap_or_else(|| Err(lost()))) {
            (What::Store(_), Ok(())) => Ok(Vec::new()),
            (What::Fetch { buffer, .. }, Ok(())) => Ok(buffer),
            (What::Store(bytes), Err(error)) => {
                self.stored -= bytes.len() as u64;
                self.spool.release(bytes.len() as u64);
                Err((error, Some(bytes)))
            }
            (What::Fetch { .. }, Err(error)) => Err((error, None)),
        }
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.spool.release(self.stored);
    }
}

/// One piece of work with a file, which is made first if there is none.
#[derive(Debug)]
struct Transfer {
    directory: Arc<OwnedFd>,
    file: Option<Arc<Descriptor>>,
    /// Where in the file.
    start: u64,
    what: What,
    ended: Option<io::Result<()>>,
}

#[derive(Debug)]
enum What {
    Store(Bytes),
    Fetch { len: usize, buffer: Vec<u8>, filled: usize },
}

impl Steps for Transfer {
    fn next_op(&mut self) -> Option<Op> {
        if self.ended.is_some() {
            return None;
        }
        let Some(file) = &self.file else {
            return Some(Op::Nameless { directory: Arc::clone(&self.directory) });
        };
        let file = Arc::clone(file);
        Some(match &mut self.what {
            What::Store(bytes) => Op::Write { file, bytes: bytes.clone(), start: self.start },
            What::Fetch { len, buffer, filled } => {
                let mut buffer = std::mem::take(buffer);
                buffer.resize(*len, 0);
                Op::Read { file, buffer, filled: *filled, start: self.start }
            }
        })
    }

    fn done(&mut self, done: Done) {
        match (&mut self.what, done) {
            (_, Done::Opened(Ok(file))) => self.file = Some(Arc::new(file)),
            (_, Done::Opened(Err(error))) => self.ended = Some(Err(error)),
            (What::Store(_), Done::Written(written)) => self.ended = Some(written),
            (What::Fetch { len, buffer, filled }, Done::Read(bytes, read)) => {
                *buffer = bytes;
                match read {
                    Ok(0) => self.ended = Some(Err(io::ErrorKind::UnexpectedEof.into())),
                    Ok(n) => {
                        *filled += n;
                        self.ended = (*filled == *len).then_some(Ok(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => self.ended = Some(Err(error)),
                }
            }
            (_, done) => debug_assert!(false, "{done:?} was not asked for"),
        }
    }

    fn lost(&mut self) {
        if let What::Fetch { filled, .. } = &mut self.what {
            *filled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(spooled: &mut Spooled, mut plan: Box<Plan>) -> Vec<u8> {
        plan.run();
        spooled.done(*plan).unwrap()
    }

    #[test]
    fn what_is_stored_is_fetched_in_its_order_and_makes_room_at_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Arc::new(Spool::open(directory.path(), 1_000_000).unwrap());
        let mut spooled = Spooled::of_request(&spool);
        let body: Vec<u8> = (0..700_000_u32).map(|n| (n / 7) as u8).collect();
        for part in body.chunks(300_000) {
            let plan = spooled.store(Bytes::copy_from_slice(part)).unwrap();
            assert_eq!(run(&mut spooled, plan), b"");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it has a name");
        let mut other = Spooled::of_request(&spool);
        assert!(other.store(Bytes::from(vec![0; 300_001])).is_err());
        let mut back = Vec::new();
        while spooled.len() > 0 {
            let plan = spooled.fetch();
            back.extend_from_slice(&run(&mut spooled, plan));
        }
        assert!(back == body);
        // Answers leave room to requests.
        assert!(Spooled::of_answer(&spool).store(Bytes::from(vec![0; 50_001])).is_err());
        drop(spooled);
        assert!(Spooled::of_answer(&spool).store(Bytes::from(vec![0; 750_001])).is_err());
        assert!(other.store(Bytes::from(vec![0; 1_000_000])).is_ok());
    }

    #[test]
    fn the_limit_is_one_for_all_processes_and_one_that_died_uses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let words = Arc::new(SharedCounters::new(3).unwrap());
        let [one, other] = [0, 2].map(|own| {
            let spool = Arc::new(Spool::open(directory.path(), 1_000).unwrap());
            spool.share(&words, own);
            spool
        });
        let bytes = |len| Bytes::from(vec![0; len]);
        let [mut first, mut second] = [Spooled::of_request(&one), Spooled::of_request(&other)];
        assert!(first.store(bytes(600)).is_ok());
        assert_eq!(second.store(bytes(401)).unwrap_err(), Full(bytes(401)));
        assert!(second.store(bytes(400)).is_ok());
        words.all()[2].store(0, SeqCst);
        assert!(first.store(bytes(400)).is_ok());
        drop(first);
        assert_eq!(words.all()[0].load(SeqCst), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_no_place() {
        assert!(Spool::open(Path::new("/no/such/directory"), 1).is_err());
    }
}
