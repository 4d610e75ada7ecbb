//! Brotli (RFC 7932).

use std::io;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;

use super::{Encoder, FilterKind, Level};

/// Bytes that the encoder works on at once.
const BUFFER_BYTES: usize = 16 * 1024;

/// The window as a power of two: 1 MiB at most, which bounds what one encoder allocates.
const WINDOW_BITS_MAX: u32 = 20;
const WINDOW_BITS_MIN: u32 = 16;

pub(super) const KIND: FilterKind = FilterKind {
    name: "br",
    alias: "",
    suffix: ".br",
    tag: "br",
    level: Level {
        key: "compress.brotli-level",
        least: 0,
        most: 11,
        default: "5",
        doc: "How hard Brotli tries",
        more: "Levels above 9 take tens of times as long, for a few percent.",
        source: "RFC 7932",
    },
    make: |level, body_bytes| {
        let bits = u64::BITS - body_bytes.unwrap_or(u64::MAX).saturating_sub(1).leading_zeros();
        let params = BrotliEncoderParams {
            quality: level as i32,
            lgwin: bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX) as i32,
            size_hint: body_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0),
            ..BrotliEncoderParams::default()
        };
        Ok(Box::new(CompressorWriter::with_params(Vec::new(), BUFFER_BYTES, &params)))
    },
    #[cfg(test)]
    decoder: |body| Box::new(brotli::Decompressor::new(body, BUFFER_BYTES)),
};

impl Encoder for CompressorWriter<Vec<u8>> {
    fn coded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        Ok(self.into_inner())
    }
}
