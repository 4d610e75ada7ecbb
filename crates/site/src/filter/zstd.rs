//! Zstandard (RFC 8878), within the window that every client of the coding must support (RFC 9659).

use std::io;

use super::{Encoder, FilterKind, Level};

/// The window as a power of two: 1 MiB at most, which bounds what one encoder allocates. Clients
/// must support 8 MiB.
const WINDOW_BITS_MAX: u32 = 20;

pub(super) const KIND: FilterKind = FilterKind {
    name: "zstd",
    alias: "",
    suffix: ".zst",
    tag: "zs",
    level: Level {
        key: "compress.zstd-level",
        least: 1,
        most: 19,
        default: "6",
        doc: "How hard Zstandard tries",
        more: "",
        source: "RFC 8878",
    },
    make: |level, body_bytes| {
        let mut encoder = ZstdEncoder::new(Vec::new(), level as i32)?;
        // With it the encoder chooses tables that fit the body, and tells the size in its frame.
        encoder.set_pledged_src_size(body_bytes)?;
        if body_bytes.is_none_or(|bytes| bytes > 1 << WINDOW_BITS_MAX) {
            encoder.window_log(WINDOW_BITS_MAX)?;
        }
        Ok(Box::new(encoder))
    },
    #[cfg(test)]
    decoder: |body| Box::new(zstd::Decoder::with_buffer(body).unwrap()),
};

type ZstdEncoder = zstd::Encoder<'static, Vec<u8>>;

impl Encoder for ZstdEncoder {
    fn coded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        zstd::Encoder::finish(*self)
    }
}
