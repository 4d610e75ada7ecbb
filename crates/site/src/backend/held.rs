//! A request body of unknown length that is held until its end tells how long it was: PHP reads no
//! other, and SCGI has no other.

use super::environment::Environment;

/// What is held, and the variables that will say how long it is.
#[derive(Debug)]
pub(super) struct Held {
    variables: Environment,
    body: Vec<u8>,
    most: usize,
}

impl Held {
    /// Nothing yet, and `most` bytes at most.
    pub(super) fn new(variables: Environment, most: usize) -> Held {
        Held { variables, body: Vec::new(), most }
    }

    /// Bytes that it takes: one more than may be held, to see whether there are more.
    pub(super) fn room(&self) -> usize {
        (self.most + 1).saturating_sub(self.body.len())
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    /// There is more than may be held.
    pub(super) fn is_full(&self) -> bool {
        self.body.len() > self.most
    }

    /// The variables and the body, which is all of it or its beginning.
    pub(super) fn into_parts(self, is_whole: bool) -> (Environment, Vec<u8>) {
        let Held { mut variables, body, .. } = self;
        if is_whole {
            // As if the client had said so at once.
            variables.unset("HTTP_TRANSFER_ENCODING");
            variables.add("CONTENT_LENGTH", body.len().to_string().as_bytes());
        }
        (variables, body)
    }
}
