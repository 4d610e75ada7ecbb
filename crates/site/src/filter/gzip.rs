//! gzip (RFC 1952), by zlib-rs.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Encoder, FilterKind, Level};

pub(super) const KIND: FilterKind = FilterKind {
    name: "gzip",
    // RFC 9110, section 8.4.1.3.
    alias: "x-gzip",
    suffix: ".gz",
    tag: "gz",
    level: Level {
        key: "compress.gzip-level",
        least: 1,
        most: 9,
        default: "6",
        doc: "How hard gzip tries",
        more: "",
        source: "RFC 1952",
    },
    // No name and no time in the header: the bytes depend on the body alone.
    make: |level, _| Ok(Box::new(GzEncoder::new(Vec::new(), Compression::new(level)))),
    #[cfg(test)]
    decoder: |body| Box::new(flate2::read::GzDecoder::new(body)),
};

impl Encoder for GzEncoder<Vec<u8>> {
    fn coded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        GzEncoder::finish(*self)
    }
}
