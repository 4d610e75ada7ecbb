//! deflate (RFC 9110, section 8.4.1.2), which is the zlib format (RFC 1950), by zlib-rs. Some
//! clients take the name for the bare format within (RFC 1951), and all of them read gzip.

use std::io;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{Encoder, FilterKind, Level};

pub(super) const KIND: FilterKind = FilterKind {
    name: "deflate",
    alias: "",
    suffix: ".zz",
    tag: "zz",
    level: Level {
        key: "compress.deflate-level",
        least: 1,
        most: 9,
        default: "6",
        doc: "How hard deflate tries",
        more: "It is on offer only where `compress.codings` names it: it saves what gzip saves, \
               and some clients read it wrongly.",
        source: "RFC 1950, RFC 9110 section 8.4.1.2",
    },
    make: |level, _| Ok(Box::new(ZlibEncoder::new(Vec::new(), Compression::new(level)))),
    #[cfg(test)]
    decoder: |body| Box::new(flate2::read::ZlibDecoder::new(body)),
};

impl Encoder for ZlibEncoder<Vec<u8>> {
    fn coded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        ZlibEncoder::finish(*self)
    }
}
