//! What was received and is not consumed yet.

/// Bytes received and not yet consumed, in a buffer that holds the largest head.
#[derive(Debug)]
pub struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    /// An empty buffer of this size.
    pub fn new(capacity: usize) -> Input {
        Input { bytes: vec![0; capacity].into(), start: 0, end: 0 }
    }

    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The same, to be opened in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// True when nothing is.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes from `at` on, where `at` is what [`Input::position`] gave, consumed or not.
    pub fn since(&self, at: usize) -> &[u8] {
        &self.bytes[at..self.end]
    }

    /// Where the unconsumed bytes begin.
    pub fn position(&self) -> usize {
        self.start
    }

    /// Drops the first `n` bytes; they stay readable through [`Input::since`] until the next call
    /// of [`Input::space`].
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// Room for more, at the end; what is left over moves to the front first.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// Whether there is any.
    pub fn has_room(&self) -> bool {
        self.end - self.start < self.bytes.len()
    }

    /// `n` bytes were put into that room.
    pub fn filled(&mut self, n: usize) {
        self.end = (self.end + n).min(self.bytes.len());
    }

    /// Puts these bytes at the end, of which there is room for all.
    pub fn put(&mut self, bytes: &[u8]) {
        self.space()[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Drops it all.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}
