//! A body that is coded while it is sent: one that is too long to be coded at once, or that is
//! being produced itself (M113).
//!
//! Its pieces are those of another [`Source`], cut anew so that the same file is always coded to
//! the same bytes. Reading and coding are steps of a plan, so that a loop leaves them to whoever
//! does its disk work. When the other source has to be waited for, what came of it until then is
//! flushed: a client sees all of a body that comes slowly as it comes.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::{Buf, Bytes};
use flyball_http::Segment;
use flyball_http::coding::Coding;
use flyball_sys::disk::{Compute, Done, Op};
use flyball_sys::file::Stamp;

use crate::compress::Permit;
use crate::entry::File;
use crate::filter::{Chain, FilterKind, PIECE_BYTES};
use crate::plan::Plan;
use crate::source::{Piece, Source};
use crate::steps::Steps;

/// A source whose pieces are those of another, coded.
#[derive(Debug)]
pub(crate) struct CodedSource {
    /// `None` while it is being worked on elsewhere.
    steps: Option<Box<CodingSteps>>,
}

impl CodedSource {
    /// Codes what comes of `source`, which is so many bytes, if that is known.
    ///
    /// # Errors
    /// The source, when there is no memory for the encoder.
    pub(crate) fn new(
        source: Box<dyn Source>,
        bytes: Option<u64>,
        (coding, level): (Coding, u32),
        permit: Permit,
    ) -> Result<CodedSource, Box<dyn Source>> {
        let Ok(filter) = (FilterKind::of(coding).make)(level, bytes) else { return Err(source) };
        let chain = Some(Chain::default().then(filter));
        let state = CoderState { chain, ..CoderState::default() };
        let coder = Arc::new(Coder { permit, state: Mutex::new(state) });
        let steps = CodingSteps {
            source,
            waiting: None,
            segment: None,
            last: false,
            input: Vec::new(),
            unflushed: false,
            stage: Stage::Input,
            coder,
        };
        Ok(CodedSource { steps: Some(Box::new(steps)) })
    }
}

impl CodedSource {
    /// Codes what it is [fed](CodedSource::feed). Where that pauses, what came is flushed. `None`
    /// when there is no memory for the encoder.
    pub(crate) fn fed(coding: (Coding, u32), permit: Permit) -> Option<CodedSource> {
        // There is work only where something is owed: the source is never asked.
        let none = CodedSource { steps: None };
        CodedSource::new(Box::new(none), None, coding, permit).ok()
    }

    /// Whether it takes more before it works on what it has.
    pub(crate) fn takes_more(&self) -> bool {
        let takes = |steps: &CodingSteps| {
            !steps.last && steps.segment.is_none() && steps.input.len() < PIECE_BYTES
        };
        self.steps.as_deref().is_some_and(takes)
    }

    /// Takes what follows, and whether it is the end.
    pub(crate) fn feed(&mut self, bytes: Bytes, last: bool) {
        if let Some(steps) = &mut self.steps {
            steps.last |= last;
            steps.take_bytes(bytes);
        }
    }

    /// Whether it has taken something that a client may not be able to read yet.
    pub(crate) fn owes(&self) -> bool {
        let owes = |steps: &CodingSteps| {
            steps.last || steps.unflushed || steps.segment.is_some() || !steps.input.is_empty()
        };
        self.steps.as_deref().is_some_and(owes)
    }
}

impl Source for CodedSource {
    fn next(&mut self) -> Box<Plan> {
        match self.steps.take() {
            Some(mut steps) => {
                steps.stage = Stage::Input;
                Plan::steps(*steps)
            }
            None => {
                debug_assert!(false, "it is being coded already");
                Plan::failed()
            }
        }
    }

    fn produced(&mut self, plan: Plan) -> Piece {
        let Some(mut steps) = plan.into_steps::<CodingSteps>() else { return Piece::Failed };
        let piece = steps.piece();
        self.steps = Some(steps);
        piece
    }
}

/// A body that is in memory, or in a file.
#[derive(Debug)]
pub(crate) struct OneSegment(Option<Segment<File>>);

impl OneSegment {
    pub(crate) fn new(segment: Segment<File>) -> OneSegment {
        OneSegment(Some(segment))
    }
}

impl Source for OneSegment {
    fn ready(&mut self) -> Option<Piece> {
        self.0.take().map(Piece::Last)
    }

    fn next(&mut self) -> Box<Plan> {
        Plan::failed()
    }

    fn produced(&mut self, _plan: Plan) -> Piece {
        Piece::Failed
    }
}

/// The steps to the next coded piece.
#[derive(Debug)]
struct CodingSteps {
    source: Box<dyn Source>,
    /// The work that makes the source's next piece.
    waiting: Option<Box<Plan>>,
    /// What came of the source and was not taken into the input yet.
    segment: Option<Segment<File>>,
    /// Nothing comes of the source after that.
    last: bool,
    /// The next piece to be coded, as far as it is there.
    input: Vec<u8>,
    /// Something was coded that a client may not be able to read yet.
    unflushed: bool,
    stage: Stage,
    coder: Arc<Coder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The input is being filled.
    Input,
    /// The segment's file is being read.
    Read,
    /// The segment's file was read to its end, and has to be looked at.
    Check,
    /// The input is being coded.
    Code,
    /// A piece is there.
    Done,
    /// The body is lost.
    Failed,
}

/// What follows a piece that is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Then {
    #[default]
    More,
    /// More, but nobody knows when.
    Flush,
    /// The end of the body.
    Finish,
}

impl CodingSteps {
    /// What came of them.
    fn piece(&mut self) -> Piece {
        match self.stage {
            Stage::Done => match self.coder.take() {
                Some((out, last, input)) => {
                    self.input = input;
                    Piece::bytes(out, last)
                }
                None => Piece::Failed,
            },
            _ => Piece::Failed,
        }
    }

    /// Goes on with filling the input; gives out the operation that this needs.
    fn fill(&mut self) -> Option<Op> {
        while self.stage == Stage::Input {
            if self.input.len() >= PIECE_BYTES {
                self.code(Then::More);
                break;
            }
            match self.segment.take() {
                Some(Segment::Bytes(bytes)) => self.take_bytes(bytes),
                Some(segment @ Segment::File { .. }) => {
                    let is_read = segment.content_len() == 0;
                    self.stage = if is_read { Stage::Check } else { Stage::Read };
                    self.segment = Some(segment);
                }
                // Bytes that only a connection's output has.
                Some(Segment::Inline(_)) => self.stage = Stage::Failed,
                None if self.last => self.code(Then::Finish),
                None => match self.source.ready() {
                    Some(piece) => self.take_piece(piece),
                    None if self.unflushed || !self.input.is_empty() => self.code(Then::Flush),
                    None => {
                        let plan = self.waiting.insert(self.source.next());
                        return plan.next_op();
                    }
                },
            }
        }
        None
    }

    fn take_piece(&mut self, piece: Piece) {
        match piece {
            Piece::More(segment) => self.segment = Some(segment),
            Piece::Last(segment) => {
                self.segment = Some(segment);
                self.last = true;
            }
            Piece::Failed => self.stage = Stage::Failed,
        }
    }

    fn take_bytes(&mut self, mut bytes: Bytes) {
        let most = bytes.len().min(PIECE_BYTES - self.input.len());
        self.input.extend_from_slice(&bytes[..most]);
        bytes.advance(most);
        if !bytes.is_empty() {
            self.segment = Some(Segment::Bytes(bytes));
        }
    }

    fn code(&mut self, then: Then) {
        self.unflushed = then == Then::More;
        self.coder.put(mem::take(&mut self.input), then);
        self.stage = Stage::Code;
    }

    /// The next read of the file, or the look at it.
    fn file_op(&mut self) -> Option<Op> {
        let Some(Segment::File { file, offset, len }) = &self.segment else { return None };
        let file = Arc::clone(&file.file);
        if self.stage == Stage::Check {
            return Some(Op::Stat { file });
        }
        let filled = self.input.len();
        let most = usize::try_from(*len).unwrap_or(usize::MAX).min(PIECE_BYTES - filled);
        let buffer = vec![0; most];
        Some(Op::Read { file, buffer, filled: 0, start: *offset })
    }

    /// Bytes of the file came.
    fn take_read(&mut self, buffer: &[u8], read: io::Result<usize>) {
        let Some(Segment::File { offset, len, .. }) = &mut self.segment else { return };
        match read {
            Ok(read @ 1..) => {
                self.input.extend_from_slice(&buffer[..read]);
                (*offset, *len) = (*offset + read as u64, *len - read as u64);
                self.stage = Stage::Input;
            }
            // It has become shorter, or cannot be read any more.
            Ok(0) | Err(_) => self.is_changed(),
        }
    }

    /// The file was read: whether that was what its head says.
    fn take_stamp(&mut self, stamp: io::Result<Stamp>) {
        let Some(Segment::File { file, .. }) = &self.segment else { return };
        if stamp.is_ok_and(|stamp| file.keeps_promise(&stamp)) {
            self.segment = None;
            self.stage = Stage::Input;
        } else {
            self.is_changed();
        }
    }

    fn is_changed(&mut self) {
        if let Some(Segment::File { file, .. }) = &self.segment {
            file.set_changed();
        }
        self.stage = Stage::Failed;
    }
}

impl Steps for CodingSteps {
    fn next_op(&mut self) -> Option<Op> {
        loop {
            if let Some(plan) = &mut self.waiting {
                if let Some(op) = plan.next_op() {
                    return Some(op);
                }
                if let Some(plan) = self.waiting.take() {
                    let piece = self.source.produced(*plan);
                    self.take_piece(piece);
                }
            }
            match self.stage {
                Stage::Input => {
                    if let Some(op) = self.fill() {
                        return Some(op);
                    }
                }
                Stage::Read | Stage::Check => return self.file_op(),
                Stage::Code => return Some(Op::Compute { work: Arc::<Coder>::clone(&self.coder) }),
                Stage::Done | Stage::Failed => return None,
            }
        }
    }

    fn done(&mut self, done: Done) {
        if let Some(plan) = &mut self.waiting {
            return plan.done(done);
        }
        match done {
            Done::Read(buffer, read) => self.take_read(&buffer, read),
            Done::Stamped(stamp) => self.take_stamp(stamp),
            Done::Computed => self.stage = Stage::Done,
            _ => debug_assert!(false, "a result that was not asked for"),
        }
    }

    fn lost(&mut self) {
        if let Some(plan) = &mut self.waiting {
            plan.lost();
        }
    }
}

/// The encoder, which may be at work on another thread.
#[derive(Debug)]
struct Coder {
    permit: Permit,
    state: Mutex<CoderState>,
}

#[derive(Debug, Default)]
struct CoderState {
    /// `None` once the body has ended, or is lost.
    chain: Option<Chain>,
    /// What to code; taken before it is, so that it is never coded twice.
    todo: Option<(Vec<u8>, Then)>,
    out: Vec<u8>,
    /// The last piece, emptied: its memory serves the next.
    spare: Vec<u8>,
    last: bool,
    taken_bytes: usize,
    made_bytes: usize,
}

impl Coder {
    fn put(&self, input: Vec<u8>, then: Then) {
        if let Ok(mut state) = self.state.lock() {
            state.todo = Some((input, then));
        }
    }

    /// What was coded, whether it is the end of the body, and memory for the next piece; `None`
    /// when the body is lost.
    fn take(&self) -> Option<(Vec<u8>, bool, Vec<u8>)> {
        // A lock is poisoned when an encoder panicked: its body is lost.
        let mut state = self.state.lock().ok()?;
        if state.chain.is_none() && !state.last {
            return None;
        }
        Some((mem::take(&mut state.out), state.last, mem::take(&mut state.spare)))
    }
}

impl CoderState {
    fn code(&mut self, input: &[u8], then: Then) -> io::Result<()> {
        let Some(mut chain) = self.chain.take() else { return Ok(()) };
        chain.write(input, &mut self.out)?;
        match then {
            Then::More => {}
            Then::Flush => chain.flush(&mut self.out)?,
            Then::Finish => {
                self.last = true;
                return chain.finish(&mut self.out);
            }
        }
        self.chain = Some(chain);
        Ok(())
    }
}

impl Compute for Coder {
    fn compute(&self) {
        let begun = Instant::now();
        let Ok(mut state) = self.state.lock() else { return };
        let Some((mut input, then)) = state.todo.take() else { return };
        state.taken_bytes += input.len();
        // An encoder that fails, for want of memory, has lost its body.
        state.last &= state.code(&input, then).is_ok();
        state.made_bytes += state.out.len();
        input.clear();
        state.spare = input;
        self.permit.spend(begun);
        if state.last {
            self.permit.finished(state.taken_bytes, state.made_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::{Body, CodingPolicy, CompressSettings, Load, Way};
    use crate::entry::OpenFile;
    use crate::filter::{FILTERS, coding};
    use flyball_sys::descriptors::Descriptor;
    use flyball_sys::file;
    use std::fs;
    use std::io::Read;
    use std::path::Path;

    fn text(bytes: usize) -> Vec<u8> {
        let line = |n: usize| format!("line {n:06}, {:x}\n", n.wrapping_mul(0x9e37_79b9));
        (0..).flat_map(|n| line(n).into_bytes()).take(bytes).collect()
    }

    fn permit(load: &Arc<Load>) -> Permit {
        let policy = CodingPolicy::new(&CompressSettings::default());
        load.permit(&policy, Way::Sent, &Body { stamp: None, coding: coding("gzip") }).unwrap()
    }

    fn coded(source: Box<dyn Source>, bytes: Option<u64>, kind: &FilterKind) -> CodedSource {
        let coding = (coding(kind.name), kind.level.preset());
        CodedSource::new(source, bytes, coding, permit(&Load::new())).unwrap()
    }

    fn of_file(path: &Path, kind: &FilterKind) -> (CodedSource, File) {
        let opened = Arc::new(Descriptor::from(fs::File::open(path).unwrap()));
        let stamp = file::stamp(&*opened).unwrap();
        let file = Arc::new(OpenFile::new(opened, stamp));
        let segment = Segment::File { file: Arc::clone(&file), offset: 0, len: stamp.size };
        (coded(Box::new(OneSegment::new(segment)), Some(stamp.size), kind), file)
    }

    /// The next piece and whether it is the last; `None` when the body is lost.
    fn next(source: &mut CodedSource) -> Option<(Bytes, bool)> {
        assert!(source.ready().is_none());
        let mut plan = source.next();
        plan.run();
        match source.produced(*plan) {
            Piece::More(Segment::Bytes(bytes)) => Some((bytes, false)),
            Piece::Last(Segment::Bytes(bytes)) => Some((bytes, true)),
            Piece::Failed => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_coded_to_the_same_bytes_while_it_is_sent_and_at_once() {
        let (dir, plain) = (tempfile::tempdir().unwrap(), text(400_000));
        let path = dir.path().join("text");
        fs::write(&path, &plain).unwrap();
        for kind in FILTERS {
            let (mut source, _) = of_file(&path, kind);
            let (mut body, mut pieces) = (Vec::new(), 0);
            loop {
                let (piece, last) = next(&mut source).unwrap();
                body.extend_from_slice(&piece);
                pieces += 1;
                if last {
                    break;
                }
            }
            let filter = (kind.make)(kind.level.preset(), Some(plain.len() as u64)).unwrap();
            let (mut chain, mut at_once) = (Chain::default().then(filter), Vec::new());
            plain.chunks(PIECE_BYTES).for_each(|piece| chain.write(piece, &mut at_once).unwrap());
            chain.finish(&mut at_once).unwrap();
            assert!(body == at_once, "{}", kind.tag);
            assert_eq!(pieces, plain.len() / PIECE_BYTES + 1);
        }
    }

    #[test]
    fn a_file_that_changes_while_it_is_coded_is_broken_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        for becomes in [text(100_000), Vec::new()] {
            fs::write(&path, text(300_000)).unwrap();
            let (mut source, file) = of_file(&path, &FILTERS[0]);
            assert!(!next(&mut source).unwrap().1);
            fs::write(&path, becomes).unwrap();
            let lost = (0..9).find_map(|_| match next(&mut source) {
                Some((_, last)) => last.then_some(false),
                None => Some(true),
            });
            assert_eq!(lost, Some(true));
            assert!(file.is_changed(), "no further answer is made of it");
        }
    }

    #[test]
    fn a_file_that_grows_while_it_is_coded_is_finished_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        fs::write(&path, text(300_000)).unwrap();
        let (mut source, _) = of_file(&path, &FILTERS[0]);
        let first = next(&mut source).unwrap();
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut log, b"a line more").unwrap();
        let rest = std::iter::from_fn(|| next(&mut source)).take(9).find(|(_, last)| *last);
        assert!(!first.1 && rest.is_some(), "it was broken off");
    }

    /// A body of words, each of which has to be waited for.
    #[derive(Debug)]
    struct Slow(Vec<&'static str>);

    #[derive(Debug)]
    struct Nothing;

    impl Steps for Nothing {
        fn next_op(&mut self) -> Option<Op> {
            None
        }

        fn done(&mut self, _done: Done) {}
    }

    impl Source for Slow {
        fn next(&mut self) -> Box<Plan> {
            Plan::steps(Nothing)
        }

        fn produced(&mut self, plan: Plan) -> Piece {
            plan.into_steps::<Nothing>().expect("its own steps");
            let word = self.0.remove(0);
            Piece::bytes(word.as_bytes(), self.0.is_empty())
        }
    }

    #[test]
    fn a_body_that_comes_slowly_can_be_read_as_it_comes() {
        let words = vec!["some", " words", "", " and no more"];
        let gzip = FilterKind::of(coding("gzip"));
        let mut source = coded(Box::new(Slow(words.clone())), None, gzip);
        let (mut body, mut read) = (Vec::new(), String::new());
        // One that is empty is passed over.
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            let (piece, last) = next(&mut source).unwrap();
            body.extend_from_slice(&piece);
            read += word;
            let mut plain = vec![0; read.len()];
            flate2::read::GzDecoder::new(&*body).read_exact(&mut plain).unwrap();
            assert_eq!((plain.as_slice(), last), (read.as_bytes(), word == " and no more"));
        }
    }

    #[test]
    fn work_that_is_done_twice_comes_to_the_same_and_a_panic_loses_the_body() {
        let gzip = FilterKind::of(coding("gzip"));
        let segment = || Box::new(OneSegment::new(Segment::Bytes(text(5_000).into())));
        let mut twice = coded(segment(), None, gzip);
        let mut plan = twice.next();
        while let Some(op) = plan.next_op() {
            if let Op::Compute { work } = &op {
                work.compute();
                plan.lost();
            }
            plan.done(op.perform());
        }
        let Piece::Last(Segment::Bytes(body)) = twice.produced(*plan) else { panic!() };
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
        assert!(plain == text(5_000));
        let mut lost = coded(segment(), None, gzip);
        let coder = Arc::clone(&lost.steps.as_ref().unwrap().coder);
        let panicked = std::thread::spawn(move || {
            let _held = coder.state.lock();
            panic!("as an encoder might");
        });
        assert!(panicked.join().is_err());
        assert!(next(&mut lost).is_none());
    }

    #[test]
    fn leave_to_code_is_given_back_with_the_source_and_what_it_saved_is_counted() {
        let load = Load::new();
        let gzip = coding("gzip");
        let segment = Box::new(OneSegment::new(Segment::Bytes(text(50_000).into())));
        let coding = (gzip, FilterKind::of(gzip).level.preset());
        let mut source = CodedSource::new(segment, None, coding, permit(&load)).unwrap();
        let few = CompressSettings { streams: 1, ..CompressSettings::default() };
        let policy = CodingPolicy::new(&few);
        assert!(load.is_full(&policy, Way::Sent) && !load.is_full(&policy, Way::AtOnce));
        let (body, last) = next(&mut source).unwrap();
        assert_eq!((last, load.take_sent()), (true, (1, 50_000 - body.len() as u64)));
        drop(source);
        assert!(!load.is_full(&policy, Way::Sent));
        assert_eq!(load.take_sent(), (0, 0));
    }
}
