//! Which bytes of a file are in memory (S2, section 5.7: the residency test): how an event loop
//! knows that reading will not wait on the disk.
//!
//! Three calls can tell, and each has a trap:
//! * preadv2(2) with RWF_NOWAIT reads only what is in memory. It is exact and copies; some file
//!   systems (FUSE, network file systems) cannot do it.
//! * cachestat(2) counts the pages of a range. It also counts pages that are still being read, and
//!   newer kernels refuse it for files that the caller neither owns nor may write.
//! * mincore(2) looks at each page of a mapping. For files that the caller neither owns nor may
//!   write it says that everything is in memory. A page behind the end of the file shows that: it
//!   cannot be there.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use crate::file;
use crate::mapping::Mapping;
use crate::mincore::mapped_pages;

pub use crate::mincore::Resident;

/// cachestat(2), which libc does not name everywhere yet; the number is the same on all
/// architectures of Linux but alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// A way to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Test {
    /// Whichever works: RWF_NOWAIT where bytes are read, mincore where they are sent by reference.
    #[default]
    Auto,
    /// preadv2(2) with RWF_NOWAIT.
    Nowait,
    /// cachestat(2).
    Cachestat,
    /// mincore(2) on a mapping.
    Mincore,
}

/// What the probe found of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It tells the truth.
    Works,
    /// Why it is not used.
    Refused(&'static str),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Works => f.write_str("works"),
            Finding::Refused(why) => f.write_str(why),
        }
    }
}

/// What the probe found.
#[derive(Clone, Debug)]
pub struct Probe {
    /// preadv2(2) with RWF_NOWAIT.
    pub nowait: Finding,
    /// cachestat(2).
    pub cachestat: Finding,
    /// mincore(2).
    pub mincore: Finding,
    /// madvise(2) with MADV_POPULATE_READ, by which a mapping is brought into memory.
    pub populate: Finding,
}

impl Probe {
    /// Tries each test on this program's own file, which is in memory; once per process.
    pub fn here() -> &'static Probe {
        static HERE: OnceLock<Probe> = OnceLock::new();
        HERE.get_or_init(|| match std::fs::File::open("/proc/self/exe") {
            Ok(sample) => Probe::on(&sample),
            Err(_) => Probe {
                nowait: Finding::Works,
                cachestat: Finding::Refused("could not be tried"),
                mincore: Finding::Refused("could not be tried"),
                populate: Finding::Refused("could not be tried"),
            },
        })
    }

    /// Tries each test on the first byte of a file that is not empty.
    pub fn on(sample: &std::fs::File) -> Probe {
        let size = sample.metadata().map_or(0, |found| found.len());
        // Whatever is said of a page that was just read must be that it is there.
        let _ = file::read_at(sample, &mut [0], 0);
        let nowait = match file::read_resident(sample, &mut [0], 0) {
            Ok(_) => Finding::Works,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Finding::Works,
            Err(_) => Finding::Refused("not supported"),
        };
        let cachestat = match cached_pages(sample, 0, 1) {
            Ok(1) => Finding::Works,
            Ok(_) => Finding::Refused("does not see pages that are there"),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                Finding::Refused("not permitted for files that others own")
            }
            Err(_) => Finding::Refused("not supported (Linux 6.5)"),
        };
        let mincore = match mapped_pages(sample, 0, 1, size) {
            Ok(Resident::Yes) => Finding::Works,
            Ok(Resident::No) => Finding::Refused("does not see pages that are there"),
            Ok(Resident::Unknown) => Finding::Refused("tells nothing of files that others own"),
            Err(_) => Finding::Refused("not supported"),
        };
        let populate = match Mapping::new(sample, 0, 1).and_then(|page| page.populate(0, 1)) {
            Ok(()) => Finding::Works,
            Err(_) => Finding::Refused("not supported (Linux 5.14): what is mapped is read"),
        };
        Probe { nowait, cachestat, mincore, populate }
    }

    /// What is used where bytes are read.
    pub fn for_reading(&self) -> &'static str {
        match self.nowait {
            Finding::Works => "preadv2 with RWF_NOWAIT",
            Finding::Refused(_) => "none: a helper always",
        }
    }

    /// What is used before bytes are sent by reference.
    pub fn for_sending(&self) -> &'static str {
        match (&self.mincore, &self.nowait, &self.cachestat) {
            (Finding::Works, ..) => "mincore",
            (_, Finding::Works, _) => "preadv2 with RWF_NOWAIT, of the whole piece",
            (.., Finding::Works) => "cachestat",
            _ => "none: a helper always",
        }
    }

    /// What is used before bytes are sent from a mapping.
    pub fn for_mappings(&self) -> &'static str {
        match self.mincore {
            Finding::Works => "mincore",
            Finding::Refused(_) => "none: a helper always",
        }
    }
}

/// The residency test as it is used: one that is chosen, or whichever works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Residency {
    test: Test,
}

impl Residency {
    /// By this test. What a test cannot tell of a file stays unknown, but for [`Test::Auto`].
    pub fn by(test: Test) -> Residency {
        Residency { test }
    }

    /// Reads at an offset only what is in memory. Does not wait on the disk, unless a page was
    /// pushed out in the moment between the look and the read.
    ///
    /// # Errors
    /// `WouldBlock` when the bytes are on the disk; `Unsupported` when nothing tells.
    pub fn read(self, file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = file.as_fd();
        let found = match self.test {
            Test::Auto | Test::Nowait => return file::read_resident(file, buffer, offset),
            Test::Cachestat => counted(file, offset, buffer.len()),
            Test::Mincore => match file::stamp(file) {
                Ok(stamp) => seen(file, offset, buffer.len(), stamp.size),
                Err(_) => Resident::Unknown,
            },
        };
        match found {
            Resident::Yes => file::read_at(file, buffer, offset),
            Resident::No => Err(ErrorKind::WouldBlock.into()),
            Resident::Unknown => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// As [`Residency::holds`], but without reading: unknown where only that can tell.
    pub fn sees(self, file: impl AsFd, offset: u64, len: usize, size: u64) -> Resident {
        match self.test {
            Test::Nowait => Resident::Unknown,
            Test::Cachestat => counted(file, offset, len),
            Test::Mincore | Test::Auto => seen(file, offset, len, size),
        }
    }

    /// Whether `len` bytes at an offset of a file of `size` bytes are all in memory. Never waits on
    /// the disk; `scratch` is overwritten where only reading can tell.
    pub fn holds(
        self,
        file: impl AsFd,
        offset: u64,
        len: usize,
        size: u64,
        scratch: &mut [u8],
    ) -> Resident {
        let file = file.as_fd();
        match self.test {
            Test::Nowait => read_all(file, offset, len, scratch),
            Test::Cachestat => counted(file, offset, len),
            Test::Mincore => seen(file, offset, len, size),
            Test::Auto => seen(file, offset, len, size)
                .or_else(|| read_all(file, offset, len, scratch))
                .or_else(|| counted(file, offset, len)),
        }
    }
}

/// The answer of reading all of it without waiting.
fn read_all(file: impl AsFd, offset: u64, len: usize, scratch: &mut [u8]) -> Resident {
    let mut at = 0;
    while at < len {
        let most = scratch.len().min(len - at);
        match file::read_resident(&file, &mut scratch[..most], offset + at as u64) {
            // The file has become shorter, which whoever sends it will see.
            Ok(0) => return Resident::Yes,
            Ok(read) => at += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Resident::No,
            Err(_) => return Resident::Unknown,
        }
    }
    Resident::Yes
}

/// The answer of cachestat(2).
fn counted(file: impl AsFd, offset: u64, len: usize) -> Resident {
    if len == 0 {
        return Resident::Yes;
    }
    let page = rustix::param::page_size() as u64;
    let pages = (offset + len as u64).div_ceil(page) - offset / page;
    match cached_pages(file, offset, len as u64) {
        Ok(cached) if cached >= pages => Resident::Yes,
        Ok(_) => Resident::No,
        Err(_) => Resident::Unknown,
    }
}

/// The answer of mincore(2).
fn seen(file: impl AsFd, offset: u64, len: usize, size: u64) -> Resident {
    if len == 0 {
        return Resident::Yes;
    }
    mapped_pages(file, offset, len, size).unwrap_or(Resident::Unknown)
}

/// How many pages of a range are in the page cache.
fn cached_pages(file: impl AsFd, offset: u64, len: u64) -> io::Result<u64> {
    let range = [offset, len];
    // Cached, dirty, under writeback, evicted, and recently evicted pages.
    let mut counts = [0_u64; 5];
    // SAFETY: the call reads two and writes five 64-bit numbers, which is what the arrays hold.
    let done = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0,
        )
    };
    if done == 0 { Ok(counts[0]) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    const LEN: usize = 300_000;

    /// A look that must not wait begins to read what is missing, and a fast disk has it there
    /// before the look ends: so many times it is pushed out again.
    const ATTEMPTS: usize = 1_000;

    /// A file on a disk, or what the tests have for one.
    fn file() -> File {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; LEN]).unwrap();
        file.sync_all().unwrap();
        file
    }

    fn push_out(file: &File) {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    fn tests() -> Vec<Test> {
        let probe = Probe::on(&file());
        let works = |finding: &Finding| *finding == Finding::Works;
        let all = [
            (Test::Nowait, works(&probe.nowait)),
            (Test::Cachestat, works(&probe.cachestat)),
            (Test::Mincore, works(&probe.mincore)),
            (Test::Auto, true),
        ];
        all.into_iter().filter(|test| test.1).map(|test| test.0).collect()
    }

    #[test]
    fn every_test_tells_what_is_in_memory_from_what_is_not() {
        let tests = tests();
        assert!(tests.len() > 1, "{tests:?}");
        for test in tests {
            let (residency, file) = (Residency::by(test), file());
            let mut scratch = vec![0; 64 * 1024];
            let holds = |offset, len, scratch: &mut [u8]| {
                residency.holds(&file, offset, len, LEN as u64, scratch)
            };
            std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            assert_eq!(holds(0, LEN, &mut scratch), Resident::Yes, "{test:?}");
            assert_eq!(holds(5_000, 1, &mut scratch), Resident::Yes, "{test:?}");
            assert_eq!(residency.read(&file, &mut scratch, 4_096).unwrap(), 65_536, "{test:?}");
            let is_missed = (0..ATTEMPTS).any(|_| {
                push_out(&file);
                holds(0, LEN, &mut scratch) == Resident::No
            });
            assert!(is_missed, "{test:?}");
            let refused = (0..ATTEMPTS).find_map(|_| {
                push_out(&file);
                residency.read(&file, &mut scratch, 4_096).err()
            });
            let kind = refused.map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::WouldBlock), "{test:?}");
        }
    }

    #[test]
    fn one_missing_page_in_the_middle_of_a_piece_is_seen() {
        for test in tests() {
            let file = file();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
            let holds = |offset, len| {
                Residency::by(test).holds(&file, offset, len, LEN as u64, &mut [0; 65_536])
            };
            let is_seen = (0..ATTEMPTS).any(|_| {
                push_out(&file);
                // Everything but one page; without read-ahead, as the advice says.
                for at in (0..LEN as u64).step_by(4_096).filter(|at| *at != 40 * 4_096) {
                    file::read_at(&file, &mut [0], at).unwrap();
                }
                assert_eq!(holds(0, 40 * 4_096), Resident::Yes, "{test:?}");
                holds(0, 256 * 1024) == Resident::No
            });
            assert!(is_seen, "{test:?}");
        }
    }

    #[test]
    fn a_test_that_calls_every_page_resident_is_not_believed() {
        if !crate::process::is_root() {
            eprintln!("skipped: only the superuser has files that another user may only read");
            return;
        }
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; LEN]).unwrap();
        file.as_file().sync_all().unwrap();
        let path = file.path().to_owned();
        // Opened for reading, as a server does, and looked at by a user who does not own it.
        let file = File::open(path).unwrap();
        match crate::process::fork().unwrap() {
            crate::process::Forked::Child => {
                let become_other = crate::process::become_user(65_534).is_ok();
                push_out(&file);
                let lies = mapped_pages(&file, 0, LEN, LEN as u64);
                let counts = cached_pages(&file, 0, LEN as u64);
                // Either the kernel told the truth, or it was not believed.
                let told = matches!(lies, Ok(Resident::Unknown | Resident::No));
                let counted = counts.is_err() || counts.is_ok_and(|pages| pages < 74);
                let auto = Residency::default();
                let is_missed = (0..ATTEMPTS).any(|_| {
                    push_out(&file);
                    auto.holds(&file, 0, LEN, LEN as u64, &mut [0; 65_536]) == Resident::No
                });
                let sound = told && counted && is_missed;
                crate::process::exit_now(if become_other && sound { 0 } else { 1 });
            }
            crate::process::Forked::Parent(child) => {
                assert_eq!(crate::process::wait_for(child).unwrap(), 0);
            }
        }
    }
}
