//! What a connection knows of one request and its answer.

use crate::body::BodyReader;
use crate::framing::{Framing, Hop};
use crate::h1::stream::Stream;
use crate::head::{Head, Method, Version};
use crate::limits::Limits;
use crate::scan::HeadScan;

/// Whether an answer is awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ask {
    #[default]
    None,
    Wanted,
    Outstanding,
}

/// One request and its answer. The next one starts from the default: nothing that is said here
/// outlives the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) ask: Ask,
    pub(super) scan: HeadScan,
    pub(super) keep_alive: bool,
    pub(super) http10: bool,
    pub(super) head_only: bool,
    /// More than the request came with its last bytes.
    pub(super) surplus: bool,
    /// Its answer is the last of the connection.
    pub(super) ends: bool,
    pub(super) body: BodyReader,
    pub(super) body_ready: usize,
    /// Bytes that were thrown away, of the request body and behind it.
    pub(super) drained_bytes: u64,
    pub(super) expect_continue: bool,
    /// The answerer wants the request body.
    pub(super) deliver: bool,
    /// The answerer keeps time itself, and may begin before the request body has ended.
    pub(super) backend: bool,
    /// The body that is being produced; of no meaning but in `Streaming`.
    pub(super) stream: Stream,
}

impl Default for Message {
    fn default() -> Message {
        Message {
            ask: Ask::None,
            scan: HeadScan::default(),
            keep_alive: false,
            http10: false,
            head_only: false,
            surplus: false,
            ends: false,
            body: BodyReader::new(Framing::None, 0),
            body_ready: 0,
            drained_bytes: 0,
            expect_continue: false,
            deliver: false,
            backend: false,
            stream: Stream::default(),
        }
    }
}

impl Message {
    /// Its head ended and wants an answer; `surplus` when more came with it.
    pub(super) fn head_ended(&mut self, head: &Head, hop: Hop, surplus: bool, limits: &Limits) {
        self.ask = Ask::Wanted;
        self.keep_alive = hop.keep_alive;
        self.http10 = head.version == Version::Http10;
        self.head_only = head.method == Method::Head;
        self.surplus = surplus;
        self.body = BodyReader::new(hop.framing, limits.body_bytes_max);
        // It is never read to its end, whatever is answered.
        self.ends = self.body.is_too_long();
        self.expect_continue = hop.expects_continue && hop.framing != Framing::None;
    }

    /// Whether the next move is the client's, while the request body is taken.
    pub(super) fn awaits_body(&self) -> bool {
        self.deliver && self.body_ready == 0
    }

    /// Whether what is left of the request body may be thrown away and the connection kept.
    pub(super) fn body_can_be_drained(&self, limits: &Limits) -> bool {
        // Without its 100 the client may never send the body, or may send it late.
        !self.expect_continue
            && self.body.remaining().is_none_or(|left| left <= limits.drain_bytes_max)
    }
}
