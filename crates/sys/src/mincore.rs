//! Which pages of a mapping are in memory, as mincore(2) tells. For files that the caller neither
//! owns nor may write it says that everything is; a page behind the end of the file shows that.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

/// Pages that one look at a mapping tells of.
const PAGES_MAX: usize = 1024;

/// What a test says about a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resident {
    /// Every page is in memory.
    Yes,
    /// Some page is not.
    No,
    /// Nothing tells, for this file.
    Unknown,
}

impl Resident {
    /// This, or what else tells.
    pub(crate) fn or_else(self, other: impl FnOnce() -> Resident) -> Resident {
        if self == Resident::Unknown { other() } else { self }
    }
}

/// Maps a range and everything up to the page behind the end of the file, and looks which pages of
/// the range are in memory. Nothing is touched, and only address space is used.
pub(crate) fn mapped_pages(
    file: impl AsFd,
    offset: u64,
    len: usize,
    size: u64,
) -> io::Result<Resident> {
    let page = rustix::param::page_size() as u64;
    let start = offset / page * page;
    let pages = ((offset + len as u64).div_ceil(page) - offset / page) as usize;
    let behind = (size.max(offset + len as u64).div_ceil(page) * page - start) as usize;
    let mapped = behind + page as usize;
    // SAFETY: a new mapping is asked for wherever there is room; it replaces none.
    let at = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            mapped,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            start,
        )
    }?;
    let found = look(at, pages, behind);
    // SAFETY: this is the mapping made above, and no reference into it was ever made.
    unsafe { rustix::mm::munmap(at, mapped) }?;
    found
}

/// What mincore says of the first `pages` of a mapping, unless the page at `behind`, which cannot
/// be in memory, shows that it says so of every page.
fn look(at: *mut c_void, pages: usize, behind: usize) -> io::Result<Resident> {
    // SAFETY: these are the first pages of the mapping.
    if !unsafe { all_seen(at, pages) }? {
        return Ok(Resident::No);
    }
    // SAFETY: `behind` is the last page of the mapping.
    let lies = unsafe { all_seen(at.byte_add(behind), 1) }?;
    Ok(if lies { Resident::Unknown } else { Resident::Yes })
}

/// Whether mincore says that all of these pages are in memory.
///
/// # Safety
/// The pages must be mapped.
pub(crate) unsafe fn all_seen(at: *mut c_void, pages: usize) -> io::Result<bool> {
    let page = rustix::param::page_size();
    let mut vector = [0_u8; PAGES_MAX];
    let mut seen = 0;
    while seen < pages {
        let most = PAGES_MAX.min(pages - seen);
        // SAFETY: the range lies within the mapping, and the vector has a byte for each page of it;
        // the call looks at page tables only.
        let done =
            unsafe { libc::mincore(at.byte_add(seen * page), most * page, vector.as_mut_ptr()) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        if vector[..most].iter().any(|resident| resident & 1 == 0) {
            return Ok(false);
        }
        seen += most;
    }
    Ok(true)
}

/// Whether mincore tells the truth about a file of `size` bytes: of a page behind its end it must
/// not say that it is in memory.
pub(crate) fn mincore_tells(file: impl AsFd, size: u64) -> bool {
    let end = size.next_multiple_of(rustix::param::page_size() as u64);
    matches!(mapped_pages(file, end, 0, end), Ok(Resident::Yes))
}
