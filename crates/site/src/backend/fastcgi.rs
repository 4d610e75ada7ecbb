//! The link to a server that speaks FastCGI 1.0: one request at a time, and the next on the same
//! link if both sides keep it.

use std::sync::Arc;

use bytes::BytesMut;

use super::environment::Environment;
use super::errors::ErrorOutput;
use super::records::{self, Ended, Reader};
use super::upstream::Upstream;
use super::wire::{Received, Wire};
use super::{Failure, Flow, Link};

/// Most bytes of error output of one request; one that says more is ended.
const ERROR_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Most bytes of a queue that is kept for another request.
const QUEUE_KEPT_MAX: usize = 16 * 1024;

/// A request on its way.
#[derive(Debug, Default)]
pub(super) struct FastCgi {
    /// `None` when the link was given back.
    wire: Option<Wire>,
    reader: Reader,
    /// The responder was told the end of the request body: else it still waits for that.
    body_ended: bool,
    said: ErrorOutput,
    said_bytes: usize,
    /// Whether the responder shall keep the link.
    keeps: bool,
    /// Bytes of content that came.
    output: u64,
    /// The memory of what was sent, once that is over.
    spare: Vec<u8>,
}

/// Begins a request. Never blocks.
pub(super) fn begin(
    upstream: &Arc<Upstream>,
    params: Environment,
    repeats: bool,
    name: String,
) -> Box<dyn Link> {
    let keeps = upstream.keeps();
    let mut link = upstream.requests.take().unwrap_or_default();
    let FastCgi { mut said, spare: mut queue, .. } = std::mem::take(&mut *link);
    said.begin(name);
    queue.clear();
    records::write_request(&params, keeps, &mut queue);
    upstream.environments.keep(params);
    let wire = Some(Wire::to_server(upstream, queue, repeats));
    *link = FastCgi { wire, said, keeps, ..FastCgi::default() };
    link
}

impl FastCgi {
    /// What came of a request that has ended.
    fn end(&self, ended: Ended) -> Result<Flow, (Failure, String)> {
        match ended {
            Ended::Complete if self.output == 0 => {
                Err((Failure::Gone, "its server ended the request and has said nothing".into()))
            }
            Ended::Complete => Ok(Flow::End),
            Ended::CannotMultiplex => {
                Err((Failure::Gone, "its server takes no request on this link".into()))
            }
            Ended::Overloaded => Err((Failure::Busy, "its server is overloaded".into())),
            Ended::UnknownRole => Err((Failure::Gone, "its server is no responder".into())),
        }
    }
}

impl Link for FastCgi {
    fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    fn wire_mut(&mut self) -> Option<&mut Wire> {
        self.wire.as_mut()
    }

    fn room(&self) -> usize {
        self.wire.as_ref().map_or(usize::MAX, Wire::room)
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(wire) = &mut self.wire {
            wire.add(|queue| records::write_body(bytes, queue));
        }
    }

    fn end_body(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.add(records::write_body_end);
            self.body_ended = true;
        }
    }

    fn queued(&self) -> usize {
        self.wire.as_ref().map_or(0, Wire::queued)
    }

    fn pull(&mut self, answer: &mut BytesMut) -> Result<Flow, (Failure, String)> {
        if let Some(ended) = self.reader.ended() {
            return self.end(ended);
        }
        loop {
            let Some(wire) = &mut self.wire else { return Ok(Flow::End) };
            let (reader, said) = (&mut self.reader, &mut self.said);
            let mut said_bytes = 0;
            let received = wire.take(|bytes| {
                let kept = reader.take(bytes, |bytes| {
                    said_bytes += bytes.len();
                    said.take(bytes);
                })?;
                answer.extend_from_slice(&bytes[..kept]);
                Ok(kept)
            })?;
            self.said_bytes += said_bytes;
            let kept = match received {
                Received::Bytes(kept) => {
                    kept.map_err(|why: String| (Failure::Malformed, format!("it sent {why}")))?
                }
                Received::Nothing => return Ok(Flow::Wait),
                Received::End => {
                    self.said.flush();
                    let why = match self.output {
                        0 => "its server closed the link and has said nothing",
                        _ => "its server closed the link within the answer",
                    };
                    return Err((Failure::Gone, why.into()));
                }
            };
            self.output += kept as u64;
            if let Some(ended) = self.reader.ended() {
                self.said.flush();
                return self.end(ended);
            }
            if kept > 0 {
                return Ok(Flow::Came);
            }
            if self.said_bytes > ERROR_BYTES_MAX {
                let why = format!("its error output is longer than {ERROR_BYTES_MAX} bytes");
                return Err((Failure::Malformed, why));
            }
        }
    }

    fn leave(mut self: Box<Self>) -> bool {
        let Some(wire) = self.wire.take() else { return false };
        let keeps = self.keeps && self.body_ended && self.reader.is_clean();
        let (upstream, queue, keeps) = wire.end(keeps);
        if queue.capacity() <= QUEUE_KEPT_MAX {
            self.spare = queue;
        }
        if let Some(upstream) = upstream {
            upstream.requests.keep(self);
        }
        keeps
    }
}
