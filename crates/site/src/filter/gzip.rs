//! gzip (RFC 1952), by zlib-rs.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_http::coding::Coding;

use super::{Filter, FilterKind};

pub(super) const KIND: FilterKind = FilterKind {
    coding: Coding::Gzip,
    suffix: ".gz",
    tag: "gz",
    levels: 1..=9,
    level: 6,
    // No name and no time in the header: the bytes depend on the body alone.
    make: |level, _| Ok(Box::new(Gzip(GzEncoder::new(Vec::new(), Compression::new(level))))),
};

#[derive(Debug)]
struct Gzip(GzEncoder<Vec<u8>>);

impl Filter for Gzip {
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
