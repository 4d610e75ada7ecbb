//! A body that is decoded while it is sent: that of a file which is there by gzip alone.
//!
//! Reading and decoding are steps of a plan, as with bodies that are coded on their way. However
//! much a file expands, no more than a piece of it is held: what is left of what was read waits for
//! the next piece.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex};

use flate2::{Decompress, FlushDecompress, Status};
use flyball_sys::disk::{Compute, Done, Op};
use flyball_sys::file::Stamp;

use crate::compress::Decoding;
use crate::entry::File;
use crate::filter::PIECE_BYTES;
use crate::plan::Plan;
use crate::source::{Piece, Source};
use crate::steps::Steps;

/// The window of gzip, as a power of two (RFC 1951, section 2).
const WINDOW_BITS: u8 = 15;

/// A source whose pieces are those of a file, decoded.
#[derive(Debug)]
pub(crate) struct DecodedSource {
    /// `None` while it is being worked on elsewhere.
    steps: Option<Box<DecodingSteps>>,
}

impl DecodedSource {
    /// Decodes this file, which is coded by gzip.
    pub(crate) fn new(file: File, permit: Decoding) -> DecodedSource {
        let left = file.stamp.size;
        let decoder = Arc::new(Decoder::new(permit));
        let steps = DecodingSteps { file, offset: 0, left, stage: Stage::Read, decoder };
        DecodedSource { steps: Some(Box::new(steps)) }
    }
}

impl Source for DecodedSource {
    fn next(&mut self) -> Box<Plan> {
        match self.steps.take() {
            Some(mut steps) => {
                steps.begin();
                Plan::steps(*steps)
            }
            None => {
                debug_assert!(false, "it is being decoded already");
                Plan::failed()
            }
        }
    }

    fn produced(&mut self, plan: Plan) -> Piece {
        let Some(steps) = plan.into_steps::<DecodingSteps>() else { return Piece::Failed };
        let piece = steps.piece();
        self.steps = Some(steps);
        piece
    }
}

/// The steps to the next piece.
#[derive(Debug)]
struct DecodingSteps {
    file: File,
    offset: u64,
    /// Bytes of the file that were not read yet.
    left: u64,
    stage: Stage,
    decoder: Arc<Decoder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The file is being read.
    Read,
    /// What was read is being decoded.
    Decode,
    /// The file was read to its end, and has to be looked at.
    Check,
    /// A piece is there.
    Done,
    /// That was the last one.
    Ended,
    /// The body is lost.
    Failed,
}

impl DecodingSteps {
    fn begin(&mut self) {
        self.stage = match self.stage {
            Stage::Failed | Stage::Ended => Stage::Failed,
            _ if self.decoder.has_more() => Stage::Decode,
            _ if self.left > 0 => Stage::Read,
            _ => Stage::Check,
        };
    }

    /// What came of them.
    fn piece(&self) -> Piece {
        match (self.stage, self.decoder.take()) {
            (Stage::Done, Some(out)) => Piece::bytes(out, false),
            (Stage::Ended, Some(out)) => Piece::bytes(out, true),
            _ => Piece::Failed,
        }
    }

    /// Bytes of the file came.
    fn take_read(&mut self, mut buffer: Vec<u8>, read: io::Result<usize>) {
        match read {
            Ok(read @ 1..) => {
                buffer.truncate(read);
                (self.offset, self.left) = (self.offset + read as u64, self.left - read as u64);
                self.decoder.put(buffer);
                self.stage = Stage::Decode;
            }
            // It has become shorter, or cannot be read any more.
            Ok(0) | Err(_) => self.is_changed(),
        }
    }

    /// The file was read: whether that was what its head says, and all of a body.
    fn take_stamp(&mut self, stamp: io::Result<Stamp>) {
        if !stamp.is_ok_and(|stamp| self.file.keeps_promise(&stamp)) {
            return self.is_changed();
        }
        self.stage = if self.decoder.is_whole() { Stage::Ended } else { Stage::Failed };
    }

    fn is_changed(&mut self) {
        self.file.set_changed();
        self.stage = Stage::Failed;
    }
}

impl Steps for DecodingSteps {
    fn next_op(&mut self) -> Option<Op> {
        let file = Arc::clone(&self.file.file);
        match self.stage {
            Stage::Read => {
                let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES);
                Some(Op::Read { file, buffer: vec![0; most], filled: 0, start: self.offset })
            }
            Stage::Decode => Some(Op::Compute { work: Arc::<Decoder>::clone(&self.decoder) }),
            Stage::Check => Some(Op::Stat { file }),
            Stage::Done | Stage::Ended | Stage::Failed => None,
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Read(buffer, read) => self.take_read(buffer, read),
            Done::Stamped(stamp) => self.take_stamp(stamp),
            Done::Computed => self.stage = Stage::Done,
            _ => debug_assert!(false, "a result that was not asked for"),
        }
    }
}

/// The decoder, which may be at work on another thread.
#[derive(Debug)]
struct Decoder {
    _permit: Decoding,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// That of the member which is being decoded; `None` between two (RFC 1952, section 2.2).
    member: Option<Decompress>,
    members: u64,
    input: Vec<u8>,
    /// How much of the input is decoded.
    at: usize,
    /// More may come of what was taken: the last piece was full.
    is_full: bool,
    out: Vec<u8>,
    is_broken: bool,
}

impl Decoder {
    fn new(permit: Decoding) -> Decoder {
        Decoder { _permit: permit, state: Mutex::default() }
    }

    /// Takes what was read, where all that was before is decoded.
    fn put(&self, input: Vec<u8>) {
        if let Ok(mut state) = self.state.lock() {
            (state.input, state.at) = (input, 0);
        }
    }

    /// Whether more comes without reading on.
    fn has_more(&self) -> bool {
        self.state.lock().is_ok_and(|state| state.is_full || state.at < state.input.len())
    }

    /// Whether what was decoded ends where a body may.
    fn is_whole(&self) -> bool {
        self.state.lock().is_ok_and(|state| state.member.is_none() && state.members > 0)
    }

    /// What was decoded since this was called last; `None` when the body is lost.
    fn take(&self) -> Option<Vec<u8>> {
        // A lock is poisoned when the decoder panicked: its body is lost.
        let mut state = self.state.lock().ok()?;
        (!state.is_broken).then(|| mem::take(&mut state.out))
    }
}

impl State {
    /// Decodes until a piece is full or the input is at its end. False when it is no gzip.
    fn decode(&mut self) -> bool {
        self.out = Vec::with_capacity(PIECE_BYTES);
        while self.out.len() < PIECE_BYTES && (self.is_full || self.at < self.input.len()) {
            if self.member.is_none() {
                self.is_full = false;
                // Tapes and disks pad with zeros, which other programs pass over too.
                if self.members > 0 {
                    let zeros = self.input[self.at..].iter().take_while(|byte| **byte == 0);
                    self.at += zeros.count();
                }
                if self.at == self.input.len() {
                    break;
                }
            }
            let member = self.member.get_or_insert_with(|| Decompress::new_gzip(WINDOW_BITS));
            let (taken, made) = (member.total_in(), self.out.len());
            let input = &self.input[self.at..];
            let decoded = member.decompress_vec(input, &mut self.out, FlushDecompress::None);
            let taken = (member.total_in() - taken) as usize;
            self.at += taken;
            match decoded {
                Ok(Status::StreamEnd) => {
                    (self.member, self.is_full) = (None, false);
                    self.members += 1;
                }
                Ok(_) => {
                    self.is_full = self.out.len() == self.out.capacity();
                    if taken == 0 && self.out.len() == made {
                        // It wants more than there is.
                        return self.at == self.input.len();
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }
}

impl Compute for Decoder {
    fn compute(&self) {
        let Ok(mut state) = self.state.lock() else { return };
        if !state.is_broken {
            state.is_broken = !state.decode();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::{DECODED_MAX, Load};
    use crate::entry::OpenFile;
    use bytes::Bytes;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use flyball_http::Segment;
    use flyball_sys::descriptors::Descriptor;
    use flyball_sys::file;
    use proptest::prelude::*;
    use std::fs;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// The pieces of a file of these bytes; `None` when the body is lost.
    fn pieces(coded: &[u8]) -> Option<Vec<Bytes>> {
        let named = tempfile::NamedTempFile::new().unwrap();
        fs::write(named.path(), coded).unwrap();
        let opened = Arc::new(Descriptor::from(fs::File::open(named.path()).unwrap()));
        let stamp = file::stamp(&*opened).unwrap();
        let file = Arc::new(OpenFile::new(opened, stamp));
        let mut source = DecodedSource::new(file, Load::new().decode().unwrap());
        let mut pieces = Vec::new();
        loop {
            let mut plan = source.next();
            plan.run();
            match source.produced(*plan) {
                Piece::More(Segment::Bytes(bytes)) => pieces.push(bytes),
                Piece::Last(Segment::Bytes(bytes)) => {
                    pieces.push(bytes);
                    return Some(pieces);
                }
                Piece::Failed => return None,
                other => panic!("{other:?}"),
            }
        }
    }

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let pieces = pieces(coded)?;
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        Some(pieces.concat())
    }

    #[test]
    fn a_file_comes_as_it_was_before_however_much_it_expands() {
        let mixed: Vec<u8> =
            (0..300_000_u32).flat_map(|n| n.wrapping_mul(77).to_le_bytes()).collect();
        for text in [
            &b""[..],
            b"x",
            &[0; 5_000_000],
            &mixed,
            &[b'a'; PIECE_BYTES],
            &[b'a'; 2 * PIECE_BYTES],
        ] {
            assert!(decoded(&gzip(text)).as_deref() == Some(text), "{} bytes", text.len());
        }
    }

    #[test]
    fn members_follow_each_other_and_zeros_the_last() {
        let two = [gzip(b"one, "), gzip(b""), gzip(b"two")].concat();
        assert_eq!(decoded(&two).unwrap(), b"one, two");
        assert_eq!(decoded(&[&two[..], &[0; 600]].concat()).unwrap(), b"one, two");
        let many = gzip(b"a").repeat(9_000);
        assert_eq!(decoded(&many).unwrap(), [b'a'; 9_000]);
    }

    #[test]
    fn what_is_cut_or_is_no_gzip_is_lost() {
        let whole = gzip(b"a text that is long enough to be cut in many places");
        for len in 0..whole.len() {
            assert_eq!(decoded(&whole[..len]), None, "cut at {len}");
        }
        for at in [0, 1, 2, whole.len() - 8, whole.len() - 1] {
            let mut wrong = whole.clone();
            wrong[at] ^= 0x55;
            assert_eq!(decoded(&wrong), None, "changed at {at}");
        }
        assert_eq!(decoded(&[&whole[..], b"more"].concat()), None);
    }

    #[test]
    fn so_many_are_decoded_at_a_time_and_no_more() {
        let load = Load::new();
        let mut permits: Vec<_> = (0..DECODED_MAX).map(|_| load.decode().unwrap()).collect();
        assert!(load.decode().is_none() && load.decode().is_none());
        permits.pop();
        assert!(load.decode().is_some());
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, cut in 0_usize..40) {
            let _ = decoded(&bytes);
            let mut whole = gzip(&bytes);
            let at = cut.min(whole.len() - 1);
            whole[at] ^= 1;
            let _ = decoded(&whole);
        }
    }
}
