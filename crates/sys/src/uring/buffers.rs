//! Buffers that the kernel takes from when bytes come: a connection that waits holds none.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::{Received, Ring};

/// Bytes of one provided buffer, and of one that an operation brings along: most heads are smaller.
pub const RECEIVE_BYTES: usize = 4096;

/// The only group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

/// A page: the kernel wants the entries to begin with one.
const PAGE_BYTES: usize = 4096;

/// Buffers that a group begins with. The kernel takes them in turn, so that all that it was given
/// are soon in memory, however few are in use at a time.
const FIRST: u16 = 16;

/// Most buffers that a group can have.
const BUFFERS_MAX: u16 = 1 << 15;

/// A ring of free buffers, shared with the kernel. Its memory is never given back, since the kernel
/// may write to it until the ring is gone, which is some time after it was closed.
pub(super) struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    count: u16,
    /// Those below were given to the kernel once.
    begun: u16,
    tail: u16,
}

impl Buffers {
    /// Makes at least `count` buffers and gives the first of them to the kernel.
    pub(super) fn register(ring: &io_uring::IoUring, count: u16) -> io::Result<Buffers> {
        let count = count.clamp(1, BUFFERS_MAX).next_power_of_two();
        let entries_bytes = usize::from(count) * size_of::<BufRingEntry>();
        let entries = allocate(entries_bytes, PAGE_BYTES)?.cast::<BufRingEntry>();
        let memory = allocate(usize::from(count) * RECEIVE_BYTES, size_of::<usize>())?;
        let address = entries.as_ptr() as u64;
        // SAFETY: `entries` has room for `count` entries, is aligned to a page, zeroed, and is
        // never freed.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0)? };
        let mut buffers = Buffers { entries, memory, count, begun: 0, tail: 0 };
        buffers.give_new(FIRST);
        Ok(buffers)
    }

    /// The kernel had none left: it gets as many again as it has, while there are others.
    pub(super) fn ran_out(&mut self) {
        self.give_new(self.begun);
    }

    fn give_new(&mut self, most: u16) {
        let end = self.begun.saturating_add(most).min(self.count);
        (self.begun..end).for_each(|id| self.give(id));
        self.begun = end;
    }

    /// Gives a buffer to the kernel, which may write to it from now on.
    ///
    /// # Panics
    /// When there is no such buffer: it is another ring's.
    pub(super) fn give(&mut self, id: u16) {
        assert!(id < self.count, "buffer {id} of {}", self.count);
        let at = usize::from(self.tail & (self.count - 1));
        let address = self.start_of(id).as_ptr() as u64;
        // SAFETY: `at` is below `count`; the kernel reads an entry only once the tail is past it,
        // and at most `count` buffers exist, so that this entry was taken before.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(address);
            entry.set_len(RECEIVE_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in a field of the first entry that nothing else uses; it is
        // aligned, and both sides access it as an atomic.
        let tail = unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr());
            AtomicU16::from_ptr(tail.cast_mut())
        };
        tail.store(self.tail, Ordering::Release);
    }

    /// The first `len` bytes of a buffer that the kernel has filled and that was not given back.
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < self.count && len <= RECEIVE_BYTES, "buffer {id}, {len} bytes");
        // SAFETY: the range lies in the memory of buffer `id`, which was zeroed at first; the
        // kernel does not write to it until `give` hands it out, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start_of(id).as_ptr(), len) }
    }

    fn start_of(&self, id: u16) -> NonNull<u8> {
        // SAFETY: `id` is below `count`, so that the offset is within the allocation.
        unsafe { self.memory.add(usize::from(id) * RECEIVE_BYTES) }
    }
}

fn allocate(bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, align).map_err(io::Error::other)?;
    // SAFETY: the layout has a size: there is at least one buffer.
    let memory = unsafe { alloc_zeroed(layout) };
    Ok(NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout)))
}

/// Where received bytes are.
#[derive(Debug)]
pub(super) enum Place {
    /// Nowhere: there are none.
    Nowhere,
    /// In a provided buffer.
    Provided(u16),
    /// In a buffer that the operation brought along.
    Own(Vec<u8>),
}

impl Ring {
    /// The bytes that were received.
    pub fn bytes<'a>(&'a self, received: &'a Received) -> &'a [u8] {
        match (&received.place, &self.buffers) {
            (Place::Own(buffer), _) => &buffer[..received.len],
            (Place::Provided(id), Some(buffers)) => buffers.bytes(*id, received.len),
            _ => &[],
        }
    }

    /// Takes the buffer of received bytes back, for others.
    ///
    /// # Panics
    /// When another ring, which has more buffers, received them.
    pub fn recycle(&mut self, received: Received) {
        match received.place {
            Place::Own(buffer) => self.keep_buffer(buffer),
            Place::Provided(id) => {
                if let Some(buffers) = &mut self.buffers {
                    buffers.give(id);
                }
            }
            Place::Nowhere => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owned::Owned;
    use crate::uring::tests::one;
    use crate::uring::{Completion, Features, Mode, is_out_of_buffers};
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    #[test]
    fn the_kernel_gets_more_buffers_when_it_has_none_left() {
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        assert!(ring.enable(Features::ALL, 4 * FIRST, 16).provided);
        let (near, mut far) = UnixStream::pair().unwrap();
        let near = Arc::new(Owned::from(near));
        let mut receive = || {
            far.write_all(b"x").unwrap();
            ring.receive_on(&near, false, 7);
            let (7, Completion::Received(received, false)) = one(&mut ring) else { panic!() };
            received.map(|received| assert!(ring.bytes(&received).starts_with(b"x")))
        };
        for given in [FIRST, FIRST, 2 * FIRST] {
            for _ in 0..given {
                receive().unwrap();
            }
            let error = receive().unwrap_err();
            assert!(is_out_of_buffers(&error), "{error}");
        }
    }

    #[test]
    #[should_panic(expected = "buffer 4 of 4")]
    fn a_buffer_of_another_ring_is_not_given_to_the_kernel() {
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        assert!(ring.enable(Features::ALL, 4, 16).provided);
        ring.recycle(Received { place: Place::Provided(4), len: 1 });
    }
}
