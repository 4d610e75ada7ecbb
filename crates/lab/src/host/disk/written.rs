//! What was written to a disk: kept in memory, so that the image stays what it was.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are kept together.
const BLOCK: usize = 4_096;

/// Most bytes of it: a server under test writes a log and some tables.
const WRITTEN_MAX: usize = 256 << 20;

/// Blocks that are not what the image has there.
#[derive(Debug, Default)]
pub(super) struct Written {
    blocks: HashMap<u64, Box<[u8]>>,
}

impl Written {
    /// Keeps bytes that were written at `offset`. Blocks on the image, of which the rest of the
    /// first and the last block is.
    ///
    /// # Errors
    /// When the image cannot be read, or more is written than is kept.
    pub(super) fn write(&mut self, image: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (block, within, part) in blocks(offset, bytes.len()) {
            let room = self.blocks.len() * BLOCK < WRITTEN_MAX;
            let kept = match self.blocks.entry(block) {
                Entry::Occupied(kept) => kept.into_mut(),
                Entry::Vacant(_) if !room => return Err(io::ErrorKind::StorageFull.into()),
                Entry::Vacant(free) => {
                    let mut whole = vec![0; BLOCK];
                    read_upto(image, &mut whole, block * BLOCK as u64)?;
                    free.insert(whole.into())
                }
            };
            kept[within..within + part.len()].copy_from_slice(&bytes[part]);
        }
        Ok(())
    }

    /// Puts what was written over bytes that the image has at `offset`.
    pub(super) fn over(&self, offset: u64, bytes: &mut [u8]) {
        for (block, within, part) in blocks(offset, bytes.len()) {
            if let Some(kept) = self.blocks.get(&block) {
                let upto = within + part.len();
                bytes[part].copy_from_slice(&kept[within..upto]);
            }
        }
    }
}

/// The blocks that so many bytes at `offset` are in: which, where within it, and which of them.
fn blocks(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let here = offset + at as u64;
        let within = (here % BLOCK as u64) as usize;
        let part = at..len.min(at + BLOCK - within);
        at = part.end;
        (!part.is_empty()).then_some((here / BLOCK as u64, within, part))
    })
}

/// Reads as much as there is.
fn read_upto(image: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        match image.read_at(&mut bytes[read..], offset + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_image_is_what_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        fs::write(&path, [1; 10_000]).unwrap();
        let image = File::open(&path).unwrap();
        let mut written = Written::default();
        written.write(&image, 4_000, &[2; 5_000]).unwrap();
        written.write(&image, 8_999, &[3]).unwrap();
        let mut expected = vec![1; 10_000];
        expected[4_000..9_000].fill(2);
        expected[8_999] = 3;
        for (from, upto) in [(0, 10_000), (4_095, 4_097), (8_999, 9_001), (9_500, 9_500)] {
            let mut read = vec![0; upto - from];
            image.read_exact_at(&mut read, from as u64).unwrap();
            written.over(from as u64, &mut read);
            assert!(read == expected[from..upto], "{from} to {upto}");
        }
        assert!(fs::read(&path).unwrap() == [1; 10_000]);
    }
}
