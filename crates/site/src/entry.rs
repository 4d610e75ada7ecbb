//! A file in the cache: its stamp, its prebuilt head (Flash's response-header cache) and its body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use flyball_http::conditional::Validators;
use flyball_http::date::format_date;
use flyball_sys::descriptors::Descriptor;
use flyball_sys::file::Stamp;

/// An open file whose body is sent in pieces, and the stamp that its head was built from.
#[derive(Debug)]
pub struct OpenFile {
    /// The descriptor.
    pub file: Arc<Descriptor>,
    /// The stamp that must still hold before the last piece leaves.
    pub stamp: Stamp,
    changed: AtomicBool,
}

impl OpenFile {
    /// A file that is open and was looked at.
    pub fn new(file: Arc<Descriptor>, stamp: Stamp) -> OpenFile {
        OpenFile { file, stamp, changed: AtomicBool::new(false) }
    }

    /// Tells that the stamp does not hold any more: no further answer is made of it.
    pub fn set_changed(&self) {
        self.changed.store(true, Relaxed);
        self.file.set_stale();
    }
}

/// How a file's body is held.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// In memory.
    Memory(Bytes),
    /// Behind an open descriptor.
    Open(Arc<OpenFile>),
}

/// A file in the cache.
#[derive(Debug)]
pub(crate) struct FileEntry {
    /// The site, and the name relative to its root, that this entry is found by.
    pub(crate) site: usize,
    pub(crate) name: Box<[u8]>,
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
    pub(crate) media_type: Box<str>,
    validators: Box<[u8]>,
    etag_len: usize,
    /// The fields of a plain 200, with the blank line.
    head: Box<[u8]>,
}

const ETAG: &[u8] = b"ETag: ";

/// Bytes of an entry beside what it points to, with its place in the cache.
const ENTRY_BYTES: usize = 320;

impl FileEntry {
    pub(crate) fn new(
        site: usize,
        name: &[u8],
        stamp: Stamp,
        media_type: &str,
        content: Content,
    ) -> FileEntry {
        // Strong, and never by hashing the file: the same inode, length and time mean the same
        // bytes (RFC 9110, section 8.8.3).
        let etag = format!("\"{:x}-{:x}-{:x}\"", stamp.inode, stamp.size, stamp.modified_ns);
        let mut validators = [ETAG, etag.as_bytes(), b"\r\nLast-Modified: "].concat();
        validators.extend_from_slice(&format_date(modified_seconds(&stamp)));
        validators.extend_from_slice(b"\r\n");
        let mut entry = FileEntry {
            site,
            name: name.into(),
            stamp,
            content,
            media_type: media_type.into(),
            validators: validators.into(),
            etag_len: etag.len(),
            head: Box::default(),
        };
        let mut head = Vec::new();
        entry.write_head(&mut head);
        entry.head = head.into();
        entry
    }

    /// True once a body was broken off because the file had changed.
    pub(crate) fn is_known_changed(&self) -> bool {
        matches!(&self.content, Content::Open(open) if open.changed.load(Relaxed))
    }

    /// What the entry costs in memory: its body and what stands beside it.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let body = match &self.content {
            Content::Memory(body) => body.len(),
            Content::Open(_) => 0,
        };
        let beside = self.name.len() + self.head.len() + self.validators.len();
        (body + beside + ENTRY_BYTES) as u64
    }

    /// The fields of a plain 200, with the blank line, as built when the file entered the cache.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Builds those fields.
    pub(crate) fn write_head(&self, out: &mut Vec<u8>) {
        let fields = format!(
            "Content-Type: {}\r\nContent-Length: {}\r\nAccept-Ranges: bytes\r\n",
            self.media_type, self.stamp.size
        );
        out.extend_from_slice(fields.as_bytes());
        out.extend_from_slice(&self.validators);
        out.extend_from_slice(b"\r\n");
    }

    /// `ETag` and `Last-Modified`, each with its CRLF: all that a 304 needs.
    pub(crate) fn validator_fields(&self) -> &[u8] {
        &self.validators
    }

    /// What conditional requests are compared with.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: &self.validators[ETAG.len()..ETAG.len() + self.etag_len],
            last_modified: modified_seconds(&self.stamp),
        }
    }
}

/// Whole seconds, rounded down; a time before 1970 counts as 1970.
fn modified_seconds(stamp: &Stamp) -> u64 {
    u64::try_from(stamp.modified_ns / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::file::Kind;

    #[test]
    fn a_head_carries_strong_validators_and_the_length() {
        let stamp = Stamp {
            device: 1,
            inode: 0xabc,
            size: 5,
            modified_ns: 784_111_777_000_000_001,
            changed_ns: 0,
            links: 1,
            kind: Kind::Regular,
        };
        let content = Content::Memory(Bytes::from_static(b"hello"));
        let entry = FileEntry::new(0, b"a", stamp, "text/plain", content);
        assert_eq!(
            std::str::from_utf8(entry.head()).unwrap(),
            "Content-Type: text/plain\r\nContent-Length: 5\r\nAccept-Ranges: bytes\r\n\
             ETag: \"abc-5-ae1b981bc490a01\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
        assert_eq!(entry.validators().etag, b"\"abc-5-ae1b981bc490a01\"");
        assert_eq!(entry.validators().last_modified, 784_111_777);
    }
}
