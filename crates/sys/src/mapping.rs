//! Parts of files that are mapped to be sent from memory (S2, section 5.4).
//!
//! No Rust code ever looks at the bytes, and no slice is made of them: others may write to the file
//! or cut it short at any time, and a look at a page behind the end of a file is a SIGBUS. Only the
//! kernel is given the address. Where it meets such a page while it copies, its call fails with
//! EFAULT, which is an error like any other.

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags};

use crate::mincore::{self, Resident};

/// A part of a file, mapped for reading. It stays what it is when the file is renamed or removed,
/// and keeps the file from being freed.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    len: usize,
    offset: u64,
    /// Bytes at its front that were brought into memory, and may have been pushed out since.
    populated: AtomicUsize,
    /// Whether mincore tells the truth about this file.
    tells: OnceLock<bool>,
}

// SAFETY: the address is only handed to the kernel, which may be done from any thread; nothing in
// this process reads or writes through it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What the kernel is told of how a mapping will be read (madvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    None,
    /// From front to back: it reads further ahead.
    Sequential,
    /// Here and there: it reads nothing ahead.
    Random,
    /// Soon: it starts to read all of it.
    WillNeed,
}

impl Mapping {
    /// Maps `len` bytes of a file at an offset that is a multiple of the page size. Reads nothing.
    ///
    /// # Errors
    /// When the file system cannot map files, or the process has too many mappings.
    pub fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<Mapping> {
        if len == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        // SAFETY: a new mapping is asked for wherever there is room; it replaces none.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        let start = NonNull::new(start).ok_or(ErrorKind::OutOfMemory)?;
        let (populated, tells) = (AtomicUsize::new(0), OnceLock::new());
        Ok(Mapping { start, len, offset, populated, tells })
    }

    /// Tells the kernel how the mapping will be read. May wait on the disk to begin to read.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::None => return Ok(()),
            Advice::Sequential => rustix::mm::Advice::Sequential,
            Advice::Random => rustix::mm::Advice::Random,
            Advice::WillNeed => rustix::mm::Advice::WillNeed,
        };
        // SAFETY: the range is the mapping, and none of these changes what it holds.
        unsafe { rustix::mm::madvise(self.start.as_ptr(), self.len, advice)? };
        Ok(())
    }

    /// Bytes that are mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty part cannot be mapped.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Where in the file they begin.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes from this offset of the file on are mapped; `None` when it is not.
    pub fn rest_from(&self, offset: u64) -> Option<usize> {
        let at = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.len.checked_sub(at).filter(|rest| *rest > 0)
    }

    /// Sends from this mapping to a socket, `len` bytes from an offset of the file on, as far as
    /// they are mapped: they are copied while the call lasts. Waits on the disk for what is not in
    /// memory, and on the socket when that blocks and `waits` says so. `more` says that more
    /// follows at once.
    ///
    /// # Errors
    /// Those of [`crate::net::send`]; one that [`is_fault`] knows when the file has become shorter
    /// or cannot be read. Never a signal.
    pub fn send(
        &self,
        socket: impl AsFd,
        offset: u64,
        len: usize,
        more: bool,
        waits: bool,
    ) -> io::Result<usize> {
        let (at, len) = self.range(offset, len)?;
        let mut flags = libc::MSG_NOSIGNAL;
        if more {
            flags |= libc::MSG_MORE;
        }
        if !waits {
            flags |= libc::MSG_DONTWAIT;
        }
        // SAFETY: the range lies within the mapping, which lives as long as `self`. The kernel only
        // reads there, and reports a page that it cannot have by EFAULT.
        let sent = unsafe {
            let start = self.start.as_ptr().byte_add(at);
            libc::send(socket.as_fd().as_raw_fd(), start, len, flags)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Brings a range of the file into memory and into the mapping, unless that was done before
    /// (MADV_POPULATE_READ). Blocks on the disk.
    ///
    /// # Errors
    /// `Unsupported` before Linux 5.14; one that [`is_fault`] knows when the file has become
    /// shorter or cannot be read.
    pub fn populate(&self, offset: u64, len: usize) -> io::Result<()> {
        let (at, len) = self.range(offset, len)?;
        let populated = self.populated.load(Relaxed);
        if at + len <= populated {
            return Ok(());
        }
        let first = at / page() * page();
        // SAFETY: the range lies within the mapping; the call fills page tables, and touches no
        // memory that anything else uses.
        let done = unsafe {
            let start = self.start.as_ptr().byte_add(first);
            libc::madvise(start, at + len - first, libc::MADV_POPULATE_READ)
        };
        if done != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINVAL) => Err(ErrorKind::Unsupported.into()),
                _ => Err(error),
            };
        }
        if at <= populated {
            self.populated.fetch_max(at + len, Relaxed);
        }
        Ok(())
    }

    /// Whether a range of the file is in memory (mincore(2)), where `file` is what is mapped and
    /// `size` its length. Never waits on the disk.
    pub fn holds(&self, file: impl AsFd, size: u64, offset: u64, len: usize) -> Resident {
        let Ok((at, len)) = self.range(offset, len) else { return Resident::Unknown };
        if !*self.tells.get_or_init(|| mincore::mincore_tells(file, size)) {
            return Resident::Unknown;
        }
        let (first, end) = (at / page() * page(), at + len);
        // SAFETY: the range lies within the mapping, whose pages are whole.
        let pages = unsafe {
            let start = self.start.as_ptr().byte_add(first);
            mincore::all_seen(start, (end - first).div_ceil(page()))
        };
        match pages {
            Ok(true) => Resident::Yes,
            Ok(false) => Resident::No,
            Err(_) => Resident::Unknown,
        }
    }

    /// The range as it lies in the mapping, cut to its end.
    fn range(&self, offset: u64, len: usize) -> io::Result<(usize, usize)> {
        let rest = self.rest_from(offset).ok_or(ErrorKind::InvalidInput)?;
        Ok((self.len - rest, len.min(rest)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and no reference into it was ever made.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
    }
}

/// True when a call could not have a page of a mapping: the file has become shorter, or its disk
/// failed.
pub fn is_fault(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

fn page() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const LEN: usize = 300_000;

    fn file() -> File {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        file
    }

    fn push_out(file: &File) {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, far)
    }

    #[test]
    fn what_is_mapped_is_sent_from_any_offset_and_to_its_end() {
        let (file, page) = (file(), page() as u64);
        let mapping = Mapping::new(&file, 4 * page, 2 * page as usize + 5).unwrap();
        drop(file);
        assert_eq!(mapping.rest_from(4 * page), Some(mapping.len()));
        assert_eq!(
            (mapping.rest_from(4 * page - 1), mapping.rest_from(6 * page + 5)),
            (None, None)
        );
        let (near, mut far) = sockets();
        assert_eq!(mapping.send(&near, 4 * page + 7, 10, false, true).unwrap(), 10);
        assert_eq!(mapping.send(&near, 6 * page, 4096, false, false).unwrap(), 5);
        let mut bytes = [0; 15];
        far.read_exact(&mut bytes).unwrap();
        let expected: Vec<u8> = (4 * page + 7..4 * page + 17)
            .chain(6 * page..6 * page + 5)
            .map(|at| (at % 251) as u8)
            .collect();
        assert_eq!(bytes, *expected);
        assert!(mapping.send(&near, 0, 1, false, true).is_err());
    }

    #[test]
    fn a_file_that_shrank_is_an_error_and_no_signal() {
        let file = file();
        let mapping = Mapping::new(&file, 0, LEN).unwrap();
        file.set_len(10).unwrap();
        let (near, mut far) = sockets();
        // The rest of the last page is there, and is zeros.
        let at = page() as u64;
        let error = mapping.send(&near, at, 1, false, true).unwrap_err();
        assert!(is_fault(&error), "{error}");
        let error = mapping.populate(at, 4096).unwrap_err();
        assert!(is_fault(&error) || error.kind() == ErrorKind::Unsupported, "{error}");
        // Bytes that come before the missing page are sent, and counted.
        match mapping.send(&near, at - 5, 100, false, true) {
            Ok(sent) => assert!(sent <= 5, "{sent}"),
            Err(error) => assert!(is_fault(&error), "{error}"),
        }
        drop(near);
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert!(all.len() <= 5);
    }

    #[test]
    fn what_was_populated_is_seen_in_memory_and_what_was_pushed_out_is_not() {
        let file = file();
        push_out(&file);
        let mapping = Mapping::new(&file, 0, LEN).unwrap();
        let holds = |offset, len| mapping.holds(&file, LEN as u64, offset, len);
        assert_eq!(holds(0, LEN), Resident::No);
        match mapping.populate(0, LEN) {
            Ok(()) => assert_eq!(holds(0, LEN), Resident::Yes),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
        }
        drop(mapping);
        push_out(&file);
        let mapping = Mapping::new(&file, 0, LEN).unwrap();
        assert_eq!(mapping.holds(&file, LEN as u64, 0, LEN), Resident::No);
    }

    #[test]
    fn the_kernel_is_told_how_a_mapping_is_read() {
        let file = file();
        let flags_of = |advice| {
            let mapping = Mapping::new(&file, 0, LEN).unwrap();
            mapping.advise(advice).unwrap();
            let start = format!("{:x}-", mapping.start.as_ptr().addr());
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let lines = maps.lines().skip_while(|line| !line.starts_with(&start));
            let flags = lines.into_iter().find_map(|line| line.strip_prefix("VmFlags:"));
            let has = |flag| flags.unwrap().split_whitespace().any(|found| found == flag);
            (has("sr"), has("rr"))
        };
        assert_eq!(flags_of(Advice::None), (false, false));
        assert_eq!(flags_of(Advice::Sequential), (true, false));
        assert_eq!(flags_of(Advice::Random), (false, true));
        assert_eq!(flags_of(Advice::WillNeed), (false, false));
    }

    #[test]
    fn nothing_is_mapped_of_a_file_that_cannot_be() {
        assert!(Mapping::new(File::open("/").unwrap(), 0, 1).is_err());
        assert!(Mapping::new(file(), 0, 0).is_err());
        assert!(Mapping::new(file(), 1, 1).is_err());
    }
}
