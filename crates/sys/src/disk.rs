//! One operation that may wait on the disk, as data: an event loop performs it in place, a helper
//! thread performs it for a loop, a ring submits it. [`Nowait`] performs those that need not wait.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;

use crate::clock;
use crate::descriptors::Descriptor;
use crate::file::{self, Batch, Links, Stamp, Whereabouts};
use crate::mapping::Mapping;
use crate::nameless;
use crate::owned::Opening;
use crate::residency::{Residency, Resident};

/// A file that has not changed for so long is hardly being written by a call that is still under
/// way, in milliseconds.
const QUIET_MS: i128 = 2_000;

/// Bytes that are read at a time to bring them into memory.
const TOUCH_BYTES: usize = 64 * 1024;

/// Roots whose file systems are remembered.
const ROOTS_MAX: usize = 4_096;

/// Bytes that are asked for with the first of a file that may be absent, as many as sendfile asks
/// for at once: the kernel sizes its first readahead by the read that missed, and after one of a
/// byte the file needs more reads.
pub const FIRST_BYTES: usize = 64 * 1024;

/// An operation. It owns everything that the kernel will look at.
#[derive(Debug)]
pub enum Op {
    /// Opens a path beneath a root.
    Open {
        /// The root.
        root: Arc<OwnedFd>,
        /// The path, relative to it.
        path: CString,
        /// Which links are followed.
        links: Links,
    },
    /// Looks at an open file.
    Stat {
        /// The file.
        file: Arc<Descriptor>,
    },
    /// Lets finish what is being written to a file.
    Settle {
        /// The file.
        file: Arc<Descriptor>,
        /// When the file was last changed, in nanoseconds since 1970.
        changed_ns: i128,
        /// Its bytes.
        size: u64,
    },
    /// Reads into `buffer[filled..]` at the offset `start + filled`.
    Read {
        /// The file.
        file: Arc<Descriptor>,
        /// Where the bytes go.
        buffer: Vec<u8>,
        /// Bytes of the buffer that are there already.
        filled: usize,
        /// Offset in the file of the first byte of the buffer.
        start: u64,
    },
    /// Brings a range of a file, and its pages of a mapping, into memory.
    Populate {
        /// The mapping.
        mapping: Arc<Mapping>,
        /// The file that is mapped.
        file: Arc<Descriptor>,
        /// Offset in the file.
        start: u64,
        /// How many bytes, as far as they are mapped.
        len: usize,
    },
    /// Lists some of the names of an open directory.
    List {
        /// The directory.
        directory: Arc<Descriptor>,
        /// Where it was found.
        place: Whereabouts<Arc<OwnedFd>>,
        /// Where in the directory: 0, or what the last batch says comes next.
        position: u64,
    },
    /// Other work for the processor, which takes long enough to hold a loop up.
    Compute {
        /// The work, which keeps what comes of it.
        work: Arc<dyn Compute>,
    },
    /// Puts bytes into a file without a name, in memory, that nobody can change any more.
    Keep {
        /// The bytes.
        bytes: Bytes,
    },
    /// Makes a file without a name, to be written and read again.
    Nameless {
        /// The directory that it is in.
        directory: Arc<OwnedFd>,
    },
    /// Writes to such a file.
    Write {
        /// The file.
        file: Arc<Descriptor>,
        /// The bytes.
        bytes: Bytes,
        /// Offset in the file of the first of them.
        start: u64,
    },
}

/// Work for the processor that has nothing to do with the disk, and that whoever performs disk
/// operations performs as well.
pub trait Compute: fmt::Debug + Send + Sync {
    /// Does it here and now. Done again, as when a helper died of it, it comes to the same.
    fn compute(&self);
}

/// The result of an [`Op`], of the same name.
#[derive(Debug)]
pub enum Done {
    /// The file.
    Opened(io::Result<Descriptor>),
    /// Its stamp.
    Stamped(io::Result<Stamp>),
    /// Nothing is being written any more that had begun before.
    Settled,
    /// The buffer, and how many bytes were read into it.
    Read(Vec<u8>, io::Result<usize>),
    /// The range is in memory, unless it cannot be read.
    Populated,
    /// The names, and where the next are.
    Listed(io::Result<Batch>),
    /// The work is done.
    Computed,
    /// All of the bytes are written.
    Written(io::Result<()>),
}

impl Op {
    /// Performs it here and now. Blocks on the disk.
    pub fn perform(self) -> Done {
        match self {
            Op::Open { root, path, links } => {
                opened(|| file::open_beneath(&*root, path.as_bytes(), links))
            }
            Op::Stat { file } => Done::Stamped(file::stamp(&*file)),
            Op::Settle { file, .. } => {
                file::settle(&*file);
                Done::Settled
            }
            Op::Read { file, mut buffer, filled, start } => {
                let read = file::read_at(&*file, &mut buffer[filled..], start + filled as u64);
                Done::Read(buffer, read)
            }
            Op::Populate { mapping, file, start, len } => {
                populate(&mapping, &file, start, len);
                Done::Populated
            }
            Op::List { directory, place, position } => {
                // What the names lead to is opened and closed.
                let _opening = Opening::begin();
                Done::Listed(file::list(&*directory, &place, position))
            }
            Op::Compute { work } => {
                work.compute();
                Done::Computed
            }
            Op::Keep { bytes } => opened(|| file::in_memory(&bytes)),
            Op::Nameless { directory } => {
                opened(|| nameless::make(&*directory).map(|(file, _)| file))
            }
            Op::Write { file, bytes, start } => {
                Done::Written(nameless::write_all_at(&*file, &bytes, start))
            }
        }
    }
}

/// Opens a file, which belongs to this process from then on.
fn opened(open: impl FnOnce() -> io::Result<OwnedFd>) -> Done {
    let opening = Opening::begin();
    Done::Opened(open().map(|file| opening.keep(file)))
}

/// Why an operation was not performed without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Names or pages that it needs are not in memory. Once they are, it need not wait.
    Absent,
    /// This operation waits, or nothing tells whether it would.
    Untold,
    /// Nor does anything tell it of other operations on the same file: the file system does not
    /// keep what is asked of it in the kernel's memory, or another has to be entered.
    Elsewhere,
}

/// Performs operations that need not wait on the disk, and refuses the others: what an event loop
/// may do itself.
#[derive(Debug)]
pub struct Nowait {
    residency: Residency,
    /// Whether the files below a root are opened locally. It holds the roots, so that their
    /// addresses stay theirs.
    roots: HashMap<usize, (Arc<OwnedFd>, bool)>,
    /// What is read of a file to see whether its first page is in memory.
    first: Vec<u8>,
}

impl Nowait {
    /// With this residency test.
    pub fn new(residency: Residency) -> Nowait {
        Nowait { residency, roots: HashMap::new(), first: Vec::new() }
    }

    /// Performs an operation if it need not wait, else gives it back.
    ///
    /// A stamp is taken at once: whoever asks for one has opened the file here just before, on a
    /// file system where that is in memory. A listing, and long work for the processor, are always
    /// refused, and so is to populate a mapping, which is asked for where it is known to be absent.
    ///
    /// # Errors
    /// The operation, and why it was not performed.
    pub fn perform(&mut self, op: Op) -> Result<Done, (Op, Refusal)> {
        match op {
            Op::Open { root, path, links } => {
                if !self.opens_locally(&root) {
                    return Err((Op::Open { root, path, links }, Refusal::Elsewhere));
                }
                match opened(|| file::open_cached(&*root, path.as_bytes(), links)) {
                    Done::Opened(Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                        Err((Op::Open { root, path, links }, Refusal::Absent))
                    }
                    opened => Ok(opened),
                }
            }
            Op::Stat { .. } | Op::Keep { .. } => Ok(op.perform()),
            Op::Settle { file, changed_ns, size } => {
                let may = self.may_settle(&file, changed_ns, size);
                let op = Op::Settle { file, changed_ns, size };
                match may {
                    Ok(()) => Ok(op.perform()),
                    Err(refusal) => Err((op, refusal)),
                }
            }
            Op::Read { file, mut buffer, filled, start } => {
                let offset = start + filled as u64;
                let refusal = match self.residency.read(&*file, &mut buffer[filled..], offset) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Refusal::Absent,
                    Err(error) if error.kind() == ErrorKind::Unsupported => Refusal::Elsewhere,
                    read => return Ok(Done::Read(buffer, read)),
                };
                Err((Op::Read { file, buffer, filled, start }, refusal))
            }
            op @ (Op::List { .. }
            | Op::Compute { .. }
            | Op::Populate { .. }
            | Op::Nameless { .. }
            | Op::Write { .. }) => Err((op, Refusal::Untold)),
        }
    }

    /// Asks once for each root, which the first request below it may wait for.
    fn opens_locally(&mut self, root: &Arc<OwnedFd>) -> bool {
        let address = Arc::as_ptr(root) as usize;
        if let Some((_, local)) = self.roots.get(&address) {
            return *local;
        }
        let local = file::opens_locally(&**root);
        if self.roots.len() < ROOTS_MAX {
            self.roots.insert(address, (Arc::clone(root), local));
        }
        local
    }

    /// Whether a loop may let writes settle itself. That takes the inode's lock, which a write(2)
    /// under way holds for as long as it copies, and looks for the first data, which may be on the
    /// disk. Where the first page is in memory, so is what leads to it; and the lock is taken to be
    /// free when the file was not changed lately, since a write gives the file its time when it
    /// begins. The lock is taken in either case: a write that lasts longer delays the loop, but no
    /// byte is read before it ends.
    ///
    /// A page that is known to be absent is not asked for: the kernel would begin to read there. Of
    /// files that are neither ours nor ours to write mincore does not know it.
    fn may_settle(
        &mut self,
        file: &Descriptor,
        changed_ns: i128,
        size: u64,
    ) -> Result<(), Refusal> {
        let first = usize::try_from(size).unwrap_or(FIRST_BYTES).clamp(1, FIRST_BYTES);
        let ask = match self.residency.sees(file, 0, 1, size) {
            Resident::No if size > 0 => return Err(Refusal::Absent),
            Resident::Unknown => first,
            Resident::Yes | Resident::No => 1,
        };
        self.first.resize(self.first.len().max(ask), 0);
        match file::read_resident(file, &mut self.first[..ask], 0) {
            Ok(_) if i128::from(clock::unix_ms()) - changed_ns / 1_000_000 >= QUIET_MS => Ok(()),
            Ok(_) => Err(Refusal::Untold),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Refusal::Absent),
            Err(_) => Err(Refusal::Elsewhere),
        }
    }
}

/// Populates a mapping; before Linux 5.14 by reading what it maps. What cannot be read is found
/// again by whoever sends it.
fn populate(mapping: &Mapping, file: &Descriptor, start: u64, len: usize) {
    let populated = mapping.populate(start, len);
    if populated.is_err_and(|error| error.kind() == ErrorKind::Unsupported) {
        file::touch(file, start, len as u64, &mut vec![0; TOUCH_BYTES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::Test;
    use std::fs;
    use std::thread;
    use std::time::{Duration, Instant};

    /// How long a disk may take for a few pages.
    const DEADLINE: Duration = Duration::from_secs(20);

    /// A read begins to bring in what is missing, and a fast disk has it there before it ends: so
    /// many times it is pushed out again.
    const ATTEMPTS: usize = 1_000;

    #[test]
    fn what_is_in_memory_is_performed_and_what_is_not_is_given_back() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::write(dir.path().join("page"), vec![7; 10_000]).unwrap();
        fs::File::open(dir.path().join("page")).unwrap().sync_all().unwrap();
        let root = Arc::new(file::open_root(dir.path()).unwrap());
        let mut nowait = Nowait::new(Residency::default());
        let open = |path: &std::ffi::CStr| Op::Open {
            root: Arc::clone(&root),
            path: path.into(),
            links: Links::Deny,
        };
        let Ok(Done::Opened(Ok(file))) = nowait.perform(open(c"page")) else { panic!() };
        let (_, refusal) = nowait.perform(open(c"never/asked")).unwrap_err();
        assert_eq!(refusal, Refusal::Absent);
        let file = Arc::new(file);
        let Ok(Done::Stamped(Ok(stamp))) = nowait.perform(Op::Stat { file: Arc::clone(&file) })
        else {
            panic!()
        };
        let settle = |changed_ns| Op::Settle { file: Arc::clone(&file), changed_ns, size: 10_000 };
        assert!(nowait.perform(settle(0)).is_ok());
        let (_, refusal) = nowait.perform(settle(stamp.changed_ns)).unwrap_err();
        assert_eq!(refusal, Refusal::Untold);
        let buffer = vec![0; 10_000];
        let read = Op::Read { file: Arc::clone(&file), buffer, filled: 0, start: 0 };
        let Ok(Done::Read(_, Ok(10_000))) = nowait.perform(read) else { panic!() };
        let mut refused = |op: &dyn Fn() -> Op| {
            (0..ATTEMPTS).find_map(|_| {
                rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                nowait.perform(op()).err()
            })
        };
        let (_, refusal) = refused(&|| settle(0)).unwrap();
        assert_eq!(refusal, Refusal::Absent);
        let read = || {
            let buffer = vec![0; 10_000];
            Op::Read { file: Arc::clone(&file), buffer, filled: 0, start: 0 }
        };
        let (given_back, refusal) = refused(&read).unwrap();
        assert_eq!(refusal, Refusal::Absent);
        assert!(matches!(given_back.perform(), Done::Read(_, Ok(10_000))));
    }

    #[test]
    fn a_look_at_a_page_that_is_absent_does_not_begin_to_read_it() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::write(dir.path().join("pages"), vec![7; 10_000]).unwrap();
        let file = fs::File::open(dir.path().join("pages")).unwrap();
        file.sync_all().unwrap();
        let file = Arc::new(Descriptor::from(OwnedFd::from(file)));
        let residency = Residency::default();
        let mut nowait = Nowait::new(residency);
        for _ in 0..ATTEMPTS {
            rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let file = Arc::clone(&file);
            let settle = Op::Settle { file, changed_ns: 0, size: 10_000 };
            assert_eq!(nowait.perform(settle).unwrap_err().1, Refusal::Absent);
        }
        assert_eq!(residency.sees(&*file, 0, 1, 10_000), Resident::No);
    }

    /// By the test that knows nothing of the first page.
    #[test]
    fn with_the_first_page_as_much_is_read_as_sendfile_asks_for() {
        let (dir, len) = (tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap(), 1 << 20);
        fs::write(dir.path().join("large"), vec![7; len]).unwrap();
        let file = fs::File::open(dir.path().join("large")).unwrap();
        file.sync_all().unwrap();
        let file = Arc::new(Descriptor::from(OwnedFd::from(file)));
        rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let (size, begun) = (len as u64, Instant::now());
        let settle = Op::Settle { file: Arc::clone(&file), changed_ns: 0, size };
        // Refused or not, as fast as the disk is.
        let _ = Nowait::new(Residency::by(Test::Nowait)).perform(settle);
        while Residency::default().sees(&*file, 0, FIRST_BYTES, size) != Resident::Yes {
            assert!(begun.elapsed() < DEADLINE, "not all of it is being read");
            thread::yield_now();
        }
    }

    #[test]
    fn what_is_kept_is_a_file_that_nobody_changes() {
        let bytes = Bytes::from(vec![7; 10_000]);
        let Done::Opened(Ok(file)) = (Op::Keep { bytes: bytes.clone() }).perform() else {
            panic!()
        };
        let file = Arc::new(file);
        let read =
            Op::Read { file: Arc::clone(&file), buffer: vec![0; 20_000], filled: 0, start: 0 };
        let Done::Read(buffer, Ok(10_000)) = read.perform() else { panic!() };
        assert_eq!(buffer[..10_000], bytes[..]);
        for seal in [rustix::io::write(&*file, b"x").err(), rustix::fs::ftruncate(&*file, 1).err()]
        {
            assert_eq!(seal, Some(rustix::io::Errno::PERM));
        }
    }

    #[test]
    fn a_file_system_that_answers_elsewhere_is_not_asked_by_the_loop() {
        let root = Arc::new(std::fs::File::open("/proc/self").unwrap().into());
        let mut nowait = Nowait::new(Residency::default());
        let open = Op::Open { root, path: c"status".into(), links: Links::Deny };
        assert_eq!(nowait.perform(open).unwrap_err().1, Refusal::Elsewhere);
    }
}
