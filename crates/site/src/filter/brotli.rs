//! Brotli (RFC 7932).

use std::fmt;
use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flyball_http::coding::Coding;

use super::{Filter, FilterKind};

/// Bytes that the encoder works on at once.
const BUFFER_BYTES: usize = 16 * 1024;

/// The window as a power of two: 1 MiB at most, which bounds what one encoder allocates.
const WINDOW_BITS_MAX: u32 = 20;
const WINDOW_BITS_MIN: u32 = 16;

pub(super) const KIND: FilterKind = FilterKind {
    coding: Coding::Brotli,
    suffix: ".br",
    tag: "br",
    levels: 0..=11,
    level: 5,
    make: |level, body_bytes| {
        let bits = u64::BITS - body_bytes.saturating_sub(1).leading_zeros();
        let params = BrotliEncoderParams {
            quality: level as i32,
            lgwin: bits.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX) as i32,
            size_hint: usize::try_from(body_bytes).unwrap_or(0),
            ..BrotliEncoderParams::default()
        };
        Ok(Box::new(Brotli(CompressorWriter::with_params(Vec::new(), BUFFER_BYTES, &params))))
    },
};

struct Brotli(CompressorWriter<Vec<u8>>);

impl fmt::Debug for Brotli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Brotli")
    }
}

impl Filter for Brotli {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(piece)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.0.into_inner());
        Ok(())
    }
}
