//! Memory for pieces of files, registered with the ring as far as there is any: the kernel then
//! need not look its pages up for each read (io_uring_register(2), IORING_REGISTER_BUFFERS2).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use super::{Held, Ring};
use crate::descriptors::Descriptor;

/// Largest piece that memory is registered for, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Buffers of the process's own that are kept for reuse; per ring.
const SPARE_MAX: usize = 64;

/// A page: chunks begin with one.
const PAGE_BYTES: usize = 4096;

/// Memory that a piece of a file is read into and sent from. A chunk that is dropped instead of
/// being [taken back](Ring::take_back) is lent to nobody again.
#[derive(Debug)]
pub enum Lent {
    /// Of the process's own.
    Own(Vec<u8>),
    /// Registered with the ring.
    Chunk(Chunk),
}

/// A part of memory that is registered with a ring. It is never given back, since the kernel may
/// write to it until the ring is gone, which is some time after it was closed.
#[derive(Debug)]
pub struct Chunk {
    start: NonNull<u8>,
    /// How much of it is lent.
    len: usize,
    index: u16,
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Lent::Own(buffer) => buffer,
            // SAFETY: `len` is at most the length of the allocation, which was zeroed at first and
            // is never freed; the kernel writes to it only while a `Held` has the chunk.
            Lent::Chunk(chunk) => unsafe {
                std::slice::from_raw_parts(chunk.start.as_ptr(), chunk.len)
            },
        }
    }
}

/// The chunks of a ring, made when they are needed first.
#[derive(Debug)]
pub(super) struct Chunks {
    bytes: usize,
    made: u16,
    most: u16,
    free: Vec<Chunk>,
}

impl Chunks {
    /// Room for `most` chunks of so many bytes, none of them made.
    pub(super) fn register(ring: &IoUring, most: u16, bytes: usize) -> io::Result<Chunks> {
        ring.submitter().register_buffers_sparse(u32::from(most))?;
        Ok(Chunks { bytes, made: 0, most, free: Vec::new() })
    }

    /// One that is free, or a new one while there may be more of them.
    pub(super) fn take(&mut self, ring: &IoUring, len: usize) -> Option<Chunk> {
        if len > self.bytes {
            return None;
        }
        let mut chunk = self.free.pop().or_else(|| self.make(ring))?;
        chunk.len = len;
        Some(chunk)
    }

    fn make(&mut self, ring: &IoUring) -> Option<Chunk> {
        if self.made == self.most {
            return None;
        }
        let layout = Layout::from_size_align(self.bytes.max(1), PAGE_BYTES).ok()?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let iov_base = start.as_ptr().cast();
        let range = [libc::iovec { iov_base, iov_len: self.bytes }];
        let index = self.made;
        // SAFETY: the range is the allocation, which is never freed once it is registered.
        let made =
            unsafe { ring.submitter().register_buffers_update(u32::from(index), &range, None) };
        if made.is_err() {
            // More memory than may be locked (RLIMIT_MEMLOCK): what there is has to do.
            self.most = self.made;
            // SAFETY: it was made with this layout, and the kernel did not take it.
            unsafe { dealloc(start.as_ptr(), layout) };
            return None;
        }
        self.made += 1;
        Some(Chunk { start, len: 0, index })
    }
}

impl Ring {
    /// Lets pieces of at most so many bytes be read into `most` chunks of registered memory, where
    /// the features allow it. To be called once, after [`Ring::enable`]. Each chunk is made when it
    /// is needed first, and counts against the limit on locked memory (RLIMIT_MEMLOCK).
    pub fn register_chunks(&mut self, most: u16, bytes: usize) {
        if self.features.registered && most > 0 && bytes <= CHUNK_BYTES_MAX {
            self.chunks = Chunks::register(&self.ring, most, bytes).ok();
        }
    }

    /// Memory for a piece of `len` bytes: registered, if any is free.
    pub fn lend(&mut self, len: usize) -> Lent {
        let Ring { ring, chunks, spare_pieces, .. } = self;
        match chunks.as_mut().and_then(|chunks| chunks.take(ring, len)) {
            Some(chunk) => Lent::Chunk(chunk),
            None => {
                let mut buffer = spare_pieces.pop().unwrap_or_default();
                buffer.resize(len, 0);
                Lent::Own(buffer)
            }
        }
    }

    /// What is in it.
    pub fn lent<'a>(&'a self, lent: &'a Lent) -> &'a [u8] {
        lent
    }

    /// Takes it back, for others.
    pub fn take_back(&mut self, lent: Lent) {
        match (lent, &mut self.chunks) {
            (Lent::Chunk(chunk), Some(chunks)) => chunks.free.push(chunk),
            (Lent::Own(buffer), _) if self.spare_pieces.len() < SPARE_MAX => {
                self.spare_pieces.push(buffer);
            }
            _ => {}
        }
    }

    /// Starts reading a piece of a file, as long as what is lent for it, from `start` on.
    ///
    /// # Panics
    /// When another ring lent it.
    pub fn read_piece(&mut self, file: &Arc<Descriptor>, lent: Lent, start: u64, token: u64) {
        let len = u32::try_from(lent.len()).unwrap_or(u32::MAX);
        let fd = Fd(file.as_raw_fd());
        let (entry, lent) = match lent {
            Lent::Own(mut buffer) => {
                let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), len).offset(start).build();
                (entry, Lent::Own(buffer))
            }
            Lent::Chunk(chunk) => {
                assert!(self.chunks.as_ref().is_some_and(|chunks| chunk.index < chunks.made));
                let to = chunk.start.as_ptr();
                let entry = opcode::ReadFixed::new(fd, to, len, chunk.index).offset(start).build();
                (entry, Lent::Chunk(chunk))
            }
        };
        self.start(entry, token, Held::Piece { _file: Arc::clone(file), lent });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::one;
    use super::super::{Completion, Features, Mode};
    use super::*;

    /// A file of four different bytes, and a ring with one chunk of two bytes.
    fn ring_with_a_chunk() -> (Ring, Arc<Descriptor>) {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"abcd").unwrap();
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        assert!(ring.enable(Features::ALL, 4, 16).registered);
        ring.register_chunks(1, 2);
        (ring, Arc::new(Descriptor::from(std::os::fd::OwnedFd::from(file))))
    }

    fn read(ring: &mut Ring, file: &Arc<Descriptor>, lent: Lent, start: u64) -> Lent {
        ring.read_piece(file, lent, start, 7);
        let (7, Completion::Piece(lent, Ok(2))) = one(ring) else { panic!() };
        lent
    }

    #[test]
    fn a_piece_is_read_into_registered_memory_and_into_its_own_when_none_is_free() {
        let (mut ring, file) = ring_with_a_chunk();
        let (first, second) = (ring.lend(2), ring.lend(2));
        assert!(matches!((&first, &second), (Lent::Chunk(_), Lent::Own(_))));
        let first = read(&mut ring, &file, first, 0);
        let second = read(&mut ring, &file, second, 2);
        assert_eq!((&first[..], &second[..]), (&b"ab"[..], &b"cd"[..]));
        ring.take_back(first);
        let again = ring.lend(2);
        assert!(matches!(again, Lent::Chunk(_)), "it is lent again");
        assert_eq!(&read(&mut ring, &file, again, 1)[..], b"bc");
    }

    #[test]
    fn what_is_longer_than_a_chunk_is_not_registered() {
        let (mut ring, _file) = ring_with_a_chunk();
        assert!(matches!(ring.lend(3), Lent::Own(_)));
    }

    #[test]
    #[should_panic(expected = "chunk.index < chunks.made")]
    fn a_chunk_of_another_ring_is_not_given_to_the_kernel() {
        let (mut ring, _) = ring_with_a_chunk();
        let lent = ring.lend(2);
        let (mut other, file) = ring_with_a_chunk();
        other.read_piece(&file, lent, 0, 1);
    }
}
