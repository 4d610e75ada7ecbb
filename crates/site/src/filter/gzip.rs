//! gzip (RFC 1952), by zlib-rs.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_http::coding::Coding;

use super::{Encoder, FilterKind};

pub(super) const KIND: FilterKind = FilterKind {
    coding: Coding::Gzip,
    suffix: ".gz",
    tag: "gz",
    levels: 1..=9,
    level: 6,
    // No name and no time in the header: the bytes depend on the body alone.
    make: |level, _| Ok(Box::new(GzEncoder::new(Vec::new(), Compression::new(level)))),
};

impl Encoder for GzEncoder<Vec<u8>> {
    fn coded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        GzEncoder::finish(*self)
    }
}
