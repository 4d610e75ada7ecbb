//! The protocol pipeline (S3, section 3.1: M113): filters over the body of a response, in a chain
//! that is chosen for each response (section 6: M140). A filter is one file below `filter/` and a
//! row of [`FILTERS`]: what it is called, how files are named that were coded beforehand, the
//! setting of its level and its encoder are all in that file. It is on offer to clients where
//! `compress.codings` names it. The chain is cut short when there is enough to do: see
//! [`Load`](crate::compress::Load).

mod brotli;
mod deflate;
mod gzip;
mod zstd;

use std::fmt;
use std::io::{self, Write};

use flyball_http::coding::Coding;

/// Bytes of a piece. What an encoder makes of a body depends on how that is cut, and the same
/// entity tag always means the same bytes: a body that has one is always cut so, whether it is
/// coded at once or while it is sent. A piece takes 1 to 2 ms.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// A filter at work on one body. What it makes of a body depends on the body, on the filter's
/// level, on the pieces, and on where it is flushed, and on nothing else.
pub(crate) trait Filter: Send {
    /// Takes the next piece of the body, and appends what comes out of it, which may be nothing.
    ///
    /// # Errors
    /// When the encoder has no memory or fails otherwise; the body is lost then.
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Nothing more comes for now: appends all that a client needs to read what came until here,
    /// which costs some bytes each time.
    ///
    /// # Errors
    /// As [`Filter::write`].
    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// The body is complete: appends what is left.
    ///
    /// # Errors
    /// As [`Filter::write`].
    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()>;
}

/// A kind of filter.
pub struct FilterKind {
    /// The name of the content coding that it applies, as in `Content-Encoding`.
    pub name: &'static str,
    /// Another name that clients may give it; may be empty.
    pub(crate) alias: &'static str,
    /// What the name of a file ends with that is coded beforehand.
    pub(crate) suffix: &'static str,
    /// What entity tags of its bodies end with, before the level.
    pub(crate) tag: &'static str,
    /// How hard it tries.
    pub level: Level,
    /// Makes one for a body of so many bytes, if that is known.
    pub(crate) make: fn(level: u32, body_bytes: Option<u64>) -> io::Result<Box<dyn Filter>>,
    /// Undoes it.
    #[cfg(test)]
    pub(crate) decoder: for<'b> fn(body: &'b [u8]) -> Box<dyn std::io::Read + 'b>,
}

/// How hard a filter tries, and the setting that says so: a higher level costs more and saves more.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// The key of the setting.
    pub key: &'static str,
    /// The least level.
    pub least: u32,
    /// The greatest.
    pub most: u32,
    /// The level when none is set, as it is written.
    pub default: &'static str,
    /// What the setting does, in one line.
    pub doc: &'static str,
    /// What else there is to know; may be empty.
    pub more: &'static str,
    /// Where the coding is described.
    pub source: &'static str,
}

/// A filter as libraries have them: it writes what it codes into a vector.
trait Encoder: Write + Send {
    /// What was coded and not taken.
    fn coded(&mut self) -> &mut Vec<u8>;

    /// The body is complete: all that was not taken.
    fn end(self: Box<Self>) -> io::Result<Vec<u8>>;
}

impl<E: Encoder> Filter for E {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.write_all(piece)?;
        out.append(self.coded());
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        Write::flush(self)?;
        out.append(self.coded());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut self.end()?);
        Ok(())
    }
}

/// Every filter, in the order of preference when a client likes them equally: since bodies are
/// coded once and kept, what makes them smallest comes first.
pub static FILTERS: &[FilterKind] = &[brotli::KIND, zstd::KIND, gzip::KIND, deflate::KIND];

const _: () = assert!(FILTERS.len() <= Coding::MAX, "a class holds the numbers of so many codings");

impl FilterKind {
    /// The filter of this coding.
    pub(crate) fn of(coding: Coding) -> &'static FilterKind {
        &FILTERS[coding.index().min(FILTERS.len() - 1)]
    }

    /// The coding of this name, in whatever case.
    pub(crate) fn named(name: &[u8]) -> Option<Coding> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let found = FILTERS.iter().position(|kind| is(kind.name) || is(kind.alias));
        found.filter(|_| !name.is_empty()).and_then(Coding::at)
    }
}

impl Level {
    /// The level when none is set.
    pub(crate) fn preset(&self) -> u32 {
        self.default.parse().unwrap_or(self.least)
    }
}

impl fmt::Debug for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilterKind({})", self.name)
    }
}

/// Filters in a row: what comes out of one goes into the next.
#[derive(Default)]
pub(crate) struct Chain {
    filters: Vec<Box<dyn Filter>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", self.filters.len())
    }
}

impl Chain {
    /// With one more filter behind the others.
    pub(crate) fn then(mut self, filter: Box<dyn Filter>) -> Chain {
        self.filters.push(filter);
        self
    }

    /// Takes the next piece of the body, and appends what comes out at the end of the chain.
    ///
    /// # Errors
    /// When a filter fails; the body is lost then.
    pub(crate) fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let Some((last, before)) = self.filters.split_last_mut() else {
            out.extend_from_slice(piece);
            return Ok(());
        };
        let Some((first, between)) = before.split_first_mut() else {
            return last.write(piece, out);
        };
        let mut passed = Vec::new();
        first.write(piece, &mut passed)?;
        for filter in between {
            let taken = std::mem::take(&mut passed);
            filter.write(&taken, &mut passed)?;
        }
        last.write(&passed, out)
    }

    /// Nothing more comes for now: appends what all filters hold back.
    ///
    /// # Errors
    /// As [`Chain::write`].
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let Some((last, before)) = self.filters.split_last_mut() else { return Ok(()) };
        let mut passed = Vec::new();
        for filter in before {
            let taken = std::mem::take(&mut passed);
            filter.write(&taken, &mut passed)?;
            filter.flush(&mut passed)?;
        }
        last.write(&passed, out)?;
        last.flush(out)
    }

    /// The body is complete: appends what is left in all filters.
    ///
    /// # Errors
    /// As [`Chain::write`].
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut filters = self.filters.into_iter();
        let Some(first) = filters.next() else { return Ok(()) };
        if filters.len() == 0 {
            return first.finish(out);
        }
        let mut left = Vec::new();
        first.finish(&mut left)?;
        let mut rest = Chain { filters: filters.collect() };
        rest.write(&left, out)?;
        rest.finish(out)
    }
}

/// The coding of a name that is in the table.
#[cfg(test)]
pub(crate) fn coding(name: &str) -> Coding {
    FilterKind::named(name.as_bytes()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decoded(kind: &FilterKind, body: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        (kind.decoder)(body).read_to_end(&mut plain).unwrap();
        plain
    }

    fn coded(kind: &FilterKind, level: u32, pieces: &[&[u8]]) -> Vec<u8> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut chain = Chain::default().then((kind.make)(level, Some(bytes)).unwrap());
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| chain.write(piece, &mut out).unwrap());
        chain.finish(&mut out).unwrap();
        out
    }

    /// Text that repeats itself, but never exactly.
    fn text(bytes: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for line in 0u32.. {
            writeln!(text, "{line} the quick brown fox {:x}", line.wrapping_mul(2_654_435_761))
                .unwrap();
            if text.len() >= bytes {
                break;
            }
        }
        text.truncate(bytes);
        text
    }

    #[test]
    fn what_a_filter_codes_is_decoded_to_the_same_bytes_at_every_level() {
        for kind in FILTERS {
            for level in kind.level.least..=kind.level.most {
                for bytes in [0, 1, 1_000, 70_000] {
                    let plain = text(bytes);
                    let body = coded(kind, level, &[&plain]);
                    assert!(decoded(kind, &body) == plain, "{} {level}", kind.tag);
                    assert!(bytes < 1_000 || body.len() < bytes, "{} {level}", kind.tag);
                }
            }
        }
    }

    #[test]
    fn the_same_pieces_are_always_coded_to_the_same_bytes() {
        let plain = text(300_000);
        for kind in FILTERS {
            let pieces: Vec<&[u8]> = plain.chunks(PIECE_BYTES).collect();
            let once = coded(kind, kind.level.preset(), &pieces);
            assert!(once == coded(kind, kind.level.preset(), &pieces), "{}", kind.tag);
            assert!(decoded(kind, &once) == plain, "{}", kind.tag);
        }
    }

    #[test]
    fn what_was_flushed_can_be_read_before_the_body_has_ended() {
        let plain = text(50_000);
        for kind in FILTERS {
            let mut chain = Chain::default().then((kind.make)(kind.level.preset(), None).unwrap());
            let mut out = Vec::new();
            for piece in plain.chunks(7_000) {
                chain.write(piece, &mut out).unwrap();
                chain.flush(&mut out).unwrap();
                let read = begun(kind, &out);
                assert!(!read.is_empty() && plain.starts_with(&read) && read.ends_with(piece));
            }
            chain.finish(&mut out).unwrap();
            assert!(decoded(kind, &out) == plain, "{}", kind.tag);
        }
    }

    /// What a client reads of a body that has not ended.
    fn begun(kind: &FilterKind, body: &[u8]) -> Vec<u8> {
        let (mut reader, mut plain, mut buffer) = ((kind.decoder)(body), Vec::new(), [0; 512]);
        // Its end is missing, which is an error to each of them.
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            plain.extend_from_slice(&buffer[..read]);
        }
        plain
    }

    #[test]
    fn every_filter_has_its_own_names_suffix_and_tag_and_a_level_within_bounds() {
        for (at, kind) in FILTERS.iter().enumerate() {
            let level = &kind.level;
            assert!((level.least..=level.most).contains(&level.preset()), "{}", kind.name);
            assert_eq!(level.default, level.preset().to_string());
            let upper = kind.name.to_uppercase();
            assert_eq!(FilterKind::named(upper.as_bytes()), Coding::at(at));
            assert_eq!(FilterKind::of(coding(kind.name)).tag, kind.tag);
            for other in &FILTERS[..at] {
                assert!(other.name != kind.name && other.suffix != kind.suffix);
                assert!(other.tag != kind.tag && other.level.key != level.key);
            }
        }
        assert_eq!(FilterKind::named(b"x-gzip"), Some(coding("gzip")));
        assert!(FilterKind::named(b"").is_none() && FilterKind::named(b"identity").is_none());
    }

    #[test]
    fn filters_in_a_row_are_undone_from_the_last_to_the_first() {
        let plain = text(100_000);
        // Only the first knows how long its body will be.
        let mut bytes = Some(plain.len() as u64);
        let mut chain = Chain::default();
        for kind in FILTERS {
            chain = chain.then((kind.make)(kind.level.preset(), bytes.take()).unwrap());
        }
        let mut body = Vec::new();
        for piece in plain.chunks(10_000) {
            chain.write(piece, &mut body).unwrap();
            chain.flush(&mut body).unwrap();
        }
        chain.finish(&mut body).unwrap();
        for kind in FILTERS.iter().rev() {
            body = decoded(kind, &body);
        }
        assert!(body == plain);
        let mut plain_chain = Chain::default();
        let mut out = Vec::new();
        plain_chain.write(b"as it is", &mut out).unwrap();
        plain_chain.finish(&mut out).unwrap();
        assert_eq!(out, b"as it is");
    }
}
