//! Zstandard (RFC 8878), within the window that every client of the coding must support (RFC 9659).

use std::fmt;
use std::io::{self, Write};

use flyball_http::coding::Coding;
use zstd::Encoder;

use super::{Filter, FilterKind};

/// The window as a power of two: 1 MiB at most, which bounds what one encoder allocates. Clients
/// must support 8 MiB.
const WINDOW_BITS_MAX: u32 = 20;

pub(super) const KIND: FilterKind = FilterKind {
    coding: Coding::Zstd,
    suffix: ".zst",
    tag: "zs",
    levels: 1..=19,
    level: 6,
    make: |level, body_bytes| {
        let mut encoder = Encoder::new(Vec::new(), level as i32)?;
        // With it the encoder chooses tables that fit the body, and tells the size in its frame.
        encoder.set_pledged_src_size(Some(body_bytes))?;
        if body_bytes > 1 << WINDOW_BITS_MAX {
            encoder.window_log(WINDOW_BITS_MAX)?;
        }
        Ok(Box::new(Zstd(encoder)))
    },
};

struct Zstd(Encoder<'static, Vec<u8>>);

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zstd")
    }
}

impl Filter for Zstd {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(piece)?;
        out.append(self.0.get_mut());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.0.finish()?);
        Ok(())
    }
}
