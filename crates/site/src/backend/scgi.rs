//! The link to a server that speaks SCGI: a netstring of variables, the body, and the answer until
//! the server closes the link.

use std::sync::Arc;

use bytes::BytesMut;

use super::environment::Environment;
use super::upstream::Upstream;
use super::wire::{Received, Wire};
use super::{Failure, Flow, Link};

/// A request on its way.
#[derive(Debug)]
struct Scgi {
    wire: Wire,
    ended: bool,
    output: u64,
}

/// Begins a request, whose variables tell how long the body is. Never blocks.
pub(super) fn begin(upstream: &Arc<Upstream>, variables: &Environment) -> Box<dyn Link> {
    let wire = Wire::to_server(upstream, request(variables), false);
    Box::new(Scgi { wire, ended: false, output: 0 })
}

/// The variables as a netstring: the length of the body first, and that this is SCGI.
fn request(variables: &Environment) -> Vec<u8> {
    let length = variables.get("CONTENT_LENGTH").unwrap_or(b"0");
    let mut text = [b"CONTENT_LENGTH\0", length, b"\0SCGI\x001\0"].concat();
    for (name, value) in variables.iter().filter(|(name, _)| name != b"CONTENT_LENGTH") {
        for part in [name, value] {
            text.extend_from_slice(part);
            text.push(0);
        }
    }
    let mut out = format!("{}:", text.len()).into_bytes();
    out.append(&mut text);
    out.push(b',');
    out
}

impl Link for Scgi {
    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn wire_mut(&mut self) -> Option<&mut Wire> {
        Some(&mut self.wire)
    }

    fn room(&self) -> usize {
        self.wire.room()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.wire.add(|queue| queue.extend_from_slice(bytes));
    }

    fn end_body(&mut self) {}

    fn queued(&self) -> usize {
        self.wire.queued()
    }

    fn pull(&mut self, answer: &mut BytesMut) -> Result<Flow, (Failure, String)> {
        if self.ended {
            return Ok(Flow::End);
        }
        let received = self.wire.take(|bytes| {
            answer.extend_from_slice(bytes);
            bytes.len()
        })?;
        match received {
            Received::Bytes(len) => {
                self.output += len as u64;
                Ok(Flow::Came)
            }
            Received::Nothing => Ok(Flow::Wait),
            Received::End if self.output == 0 => {
                Err((Failure::Gone, "its server closed the link and has said nothing".into()))
            }
            Received::End => {
                self.ended = true;
                Ok(Flow::End)
            }
        }
    }

    /// SCGI has one request on a link.
    fn leave(self: Box<Self>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_netstring_with_the_length_of_the_body_first() {
        let mut variables = Environment::default();
        for (name, value) in [("A", "b"), ("CONTENT_LENGTH", "27"), ("EMPTY", "")] {
            variables.add(name, value.as_bytes());
        }
        let expected = b"36:CONTENT_LENGTH\x0027\0SCGI\x001\0A\0b\0EMPTY\0\0,";
        assert_eq!(request(&variables), expected);
        assert_eq!(request(&Environment::default()), b"24:CONTENT_LENGTH\x000\0SCGI\x001\0,");
    }
}
