//! A request body that is consumed and answered with its length and CRC-32: the smallest handler
//! that takes bodies, and the one that shows what a window and a wait do to them.

use bytes::Bytes;
use flyball_http::{Status, h1};

use crate::plan::Plan;
use crate::service::Answer;

/// Most bytes of a body that are worked on at once, per connection.
pub const WINDOW_BYTES: usize = 64 * 1024;

/// A body that is being consumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Upload {
    taken: u64,
    crc: u32,
    window: usize,
    /// The number of the site that takes it.
    pub(crate) site: usize,
}

impl Upload {
    pub(crate) fn to(site: usize) -> Upload {
        Upload { site, ..Upload::default() }
    }

    /// Bytes in the window that is being worked on.
    pub fn window_len(&self) -> usize {
        self.window
    }

    pub(crate) fn window(&mut self, bytes: &[u8]) -> Box<Plan> {
        self.window = bytes.len().min(WINDOW_BYTES);
        Plan::digest(bytes[..self.window].to_vec(), self.crc)
    }

    pub(crate) fn add(&mut self, crc: u32) {
        self.crc = crc;
        self.taken += self.window as u64;
        self.window = 0;
    }

    pub(crate) fn answer<'a>(&self, fields: &'a mut Vec<u8>) -> Answer<'a> {
        let text = format!("bytes {} crc32 {:08x}\n", self.taken, self.crc);
        let head = format!("Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n", text.len());
        fields.clear();
        fields.extend_from_slice(head.as_bytes());
        let body = h1::Body::Bytes(Bytes::from(text));
        Answer { status: Status::OK, fields, body, close: false }
    }
}
