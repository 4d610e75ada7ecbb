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
    /// The fields of a plain 200, with the blank line; the validators are the last of them.
    head: Vec<u8>,
    cuts: Cuts,
}

/// Where the parts of a head are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cuts {
    type_len: u32,
    validators_at: u32,
    etag_len: u32,
}

impl Cuts {
    /// As one word, for a table in shared memory; its heads are shorter than 64 KiB.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.type_len) << 32
            | u64::from(self.validators_at) << 16
            | u64::from(self.etag_len)
    }

    /// From that word.
    pub(crate) fn from_word(word: u64) -> Cuts {
        Cuts {
            type_len: (word >> 32) as u32,
            validators_at: (word >> 16) as u32 & 0xffff,
            etag_len: word as u32 & 0xffff,
        }
    }
}

const TYPE: &[u8] = b"Content-Type: ";

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
        let mut head = Vec::new();
        write_head(media_type, &stamp, &validators, &mut head);
        head.shrink_to_fit();
        let cuts = Cuts {
            type_len: media_type.len() as u32,
            validators_at: (head.len() - validators.len() - END.len()) as u32,
            etag_len: etag.len() as u32,
        };
        FileEntry { site, name: name.into(), stamp, content, head, cuts }
    }

    /// An entry without its name, as a table in shared memory has it.
    pub(crate) fn from_parts(
        stamp: Stamp,
        head: Vec<u8>,
        cuts: Cuts,
        content: Content,
    ) -> FileEntry {
        FileEntry { site: 0, name: Box::default(), stamp, content, head, cuts }
    }

    /// Its head, to be filled again.
    pub(crate) fn into_head(self) -> Vec<u8> {
        self.head
    }

    /// Where the parts of the head are.
    pub(crate) fn cuts(&self) -> Cuts {
        self.cuts
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
        let beside = self.name.len() + self.head.len();
        (body + beside + ENTRY_BYTES) as u64
    }

    /// The fields of a plain 200, with the blank line, as built when the file entered the cache.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Builds those fields.
    pub(crate) fn write_head(&self, out: &mut Vec<u8>) {
        write_head(self.media_type(), &self.stamp, self.validator_fields(), out);
    }

    /// The media type, with its charset.
    pub(crate) fn media_type(&self) -> &str {
        let bytes = self.head.get(TYPE.len()..TYPE.len() + self.cuts.type_len as usize);
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// `ETag` and `Last-Modified`, each with its CRLF: all that a 304 needs.
    pub(crate) fn validator_fields(&self) -> &[u8] {
        let end = self.head.len().saturating_sub(END.len());
        self.head.get(self.cuts.validators_at as usize..end).unwrap_or_default()
    }

    /// What conditional requests are compared with.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: self
                .validator_fields()
                .get(ETAG.len()..ETAG.len() + self.cuts.etag_len as usize)
                .unwrap_or_default(),
            last_modified: modified_seconds(&self.stamp),
        }
    }
}

/// The blank line.
const END: &[u8] = b"\r\n";

fn write_head(media_type: &str, stamp: &Stamp, validators: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(TYPE);
    let fields =
        format!("{media_type}\r\nContent-Length: {}\r\nAccept-Ranges: bytes\r\n", stamp.size);
    out.extend_from_slice(fields.as_bytes());
    out.extend_from_slice(validators);
    out.extend_from_slice(END);
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
