//! A file in the cache: its stamp, its prebuilt head (Flash's response-header cache) and its body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use flyball_http::coding::Coding;
use flyball_http::conditional::Validators;
use flyball_http::date::{format_date, parse_date};
use flyball_http::fields::Mark;
use flyball_http::{Block, FieldLines, Fields, Name};
use flyball_sys::descriptors::Descriptor;
use flyball_sys::file::{self, Promise, Stamp};
use flyball_sys::pinned::Pinned;

use crate::etag::{Etag, EtagRule};
use crate::files::{Held, block_bytes, shared_bytes};
use crate::filter::FilterKind;
use crate::policy::Class;
use crate::variant::Scope;

/// An open file whose body is sent in pieces, and the stamp that its head was built from.
#[derive(Debug)]
pub struct OpenFile {
    /// The descriptor.
    pub file: Arc<Descriptor>,
    /// The stamp whose promise must still hold before the last piece leaves.
    pub stamp: Stamp,
    promise: Promise,
    /// What hints say of it; `None` when it is not held once it was sent.
    pub class: Option<Class>,
    changed: AtomicBool,
    /// The millisecond at which all of it was last seen in memory, modulo 2^32; 0 for never.
    resident_ms: AtomicU32,
}

/// What a file segment of an answer carries.
pub type File = Arc<OpenFile>;

impl OpenFile {
    /// A file that is open and was looked at.
    pub fn new(file: Arc<Descriptor>, stamp: Stamp) -> OpenFile {
        let (changed, resident_ms) = (AtomicBool::new(false), AtomicU32::new(0));
        let (class, promise) = (Some(Class::Plain), Promise::default());
        OpenFile { file, stamp, promise, class, changed, resident_ms }
    }

    /// The same file, of which bodies promise this.
    pub fn promising(self, promise: Promise) -> OpenFile {
        OpenFile { promise, ..self }
    }

    /// Whether a body that was begun may be finished where the file looks like this by now.
    pub fn keeps_promise(&self, now: &Stamp) -> bool {
        let in_a_write = self.promise == Promise::Bytes && now.size == self.stamp.size;
        self.stamp.keeps(now, self.promise) || in_a_write && file::grows(&*self.file, &self.stamp)
    }

    /// The same file, of which hints say this.
    pub fn of_class(self, class: Option<Class>) -> OpenFile {
        OpenFile { class, ..self }
    }

    /// Tells that the stamp does not hold any more: no further answer is made of it.
    pub fn set_changed(&self) {
        self.changed.store(true, Relaxed);
        self.file.set_stale();
    }

    /// Takes note that all of it was in memory at this millisecond of the process's clock.
    pub fn set_resident(&self, now_ms: u64) {
        self.resident_ms.store(now_ms as u32, Relaxed);
    }

    /// Whether all of it was in memory less than `holds_ms` ago. After 2^32 milliseconds, 49 days,
    /// it may say so once more.
    pub fn is_resident(&self, now_ms: u64, holds_ms: u32) -> bool {
        let seen_ms = self.resident_ms.load(Relaxed);
        seen_ms != 0 && (now_ms as u32).wrapping_sub(seen_ms) < holds_ms
    }

    /// Whether it is known to have changed.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Relaxed)
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

impl Content {
    /// Bytes of the body.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Memory(body) => body.len() as u64,
            Content::Open(open) => open.stamp.size,
        }
    }
}

/// What an entry says of its body beside its length and validators.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head<'a> {
    /// The media type, with its charset.
    pub(crate) media_type: &'a str,
    /// The content coding; empty for none.
    pub(crate) coding: &'a str,
    /// What the entity tag is made of.
    pub(crate) etag: EtagRule,
    /// What the entity tag ends with when the body is not the file itself, without a dash; empty
    /// when it is.
    pub(crate) tag: &'a str,
    /// The language; empty for none.
    pub(crate) language: &'a str,
    /// Fields that 206 and 304 carry too (RFC 9110, section 15.4.5).
    pub(crate) shared: FieldLines<'a>,
    /// The body is coded while it is sent: nobody knows its length.
    pub(crate) streams: bool,
    /// The time at which it is said, in seconds since 1970: a file from the future is not told to
    /// have changed later (RFC 9110, section 8.8.2.1).
    pub(crate) said_s: Option<u64>,
}

impl<'a> Head<'a> {
    /// That of a plain body.
    #[cfg(test)]
    pub(crate) fn of(media_type: &'a str) -> Head<'a> {
        Head { media_type, ..Head::default() }
    }
}

/// A file in the cache.
#[derive(Debug)]
pub(crate) struct FileEntry {
    /// The scope and the name, relative to the root, that this entry is found by.
    pub(crate) scope: Scope,
    pub(crate) name: Box<[u8]>,
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
    /// The fields of a plain 200: type, coding and language; the length and whether there are
    /// ranges; what other answers share; and last the validators.
    head: Block,
    cuts: Cuts,
}

/// Where the parts of a head are, behind the media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cuts {
    coding: Mark,
    length: Mark,
    shared: Mark,
    etag: Mark,
}

impl Cuts {
    /// As one word, for a table in shared memory; its heads are shorter than 64 KiB.
    pub(crate) fn to_word(self) -> u64 {
        let Cuts { coding, length, shared, etag } = self;
        [coding, length, shared, etag].iter().fold(0, |word, mark| word << 16 | u64::from(mark.0))
    }

    /// From that word.
    pub(crate) fn from_word(word: u64) -> Cuts {
        let mark = |at: u32| Mark((word >> (16 * at)) as u32 & 0xffff);
        Cuts { coding: mark(3), length: mark(2), shared: mark(1), etag: mark(0) }
    }
}

/// What shared bytes hold beside the bytes themselves: where they are, their room, and a count.
const BYTES_HEAD: usize = 24;

impl FileEntry {
    pub(crate) fn new(
        scope: Scope,
        name: &[u8],
        stamp: Stamp,
        says: &Head<'_>,
        content: Content,
    ) -> FileEntry {
        let mut fields = Fields::with_capacity(HEAD_TYPICAL);
        let len = Some(content.len()).filter(|_| !says.streams);
        let cuts = add_head(says, &stamp, len, &mut fields);
        let head = Block::new(fields);
        FileEntry { scope, name: name.into(), stamp, content, head, cuts }
    }

    /// An entry without its name, as a table in shared memory has it.
    pub(crate) fn from_parts(
        stamp: Stamp,
        head: Vec<u8>,
        cuts: Cuts,
        content: Content,
    ) -> FileEntry {
        let (scope, name) = (Scope::of_path(0, 0), Box::default());
        FileEntry { scope, name, stamp, content, head: Block::of_h1(head), cuts }
    }

    /// The memory of its head, to be filled again.
    pub(crate) fn into_head(self) -> Vec<u8> {
        self.head.into_h1()
    }

    /// Where the parts of the head are.
    pub(crate) fn cuts(&self) -> Cuts {
        self.cuts
    }

    /// True once a body was broken off because the file had changed.
    pub(crate) fn is_known_changed(&self) -> bool {
        matches!(&self.content, Content::Open(open) if open.is_changed())
    }

    /// Bytes of the body; where it is coded while it is sent, before that.
    pub(crate) fn len(&self) -> u64 {
        self.content.len()
    }

    /// The coding of a body that is coded while it is sent: its head has no length.
    pub(crate) fn coded_on_the_way(&self) -> Option<Coding> {
        if self.cuts.length < self.cuts.shared {
            return None;
        }
        FilterKind::named(self.coding_field(Name::ContentEncoding))
    }

    /// Whether the body is that of a file which is decoded while it is sent: its head has no length
    /// either, and no coding.
    pub(crate) fn is_decoded(&self) -> bool {
        self.cuts.length == self.cuts.shared && self.coding_field(Name::ContentEncoding).is_empty()
    }

    /// The fields of a plain 200, as encoded when the file entered the cache.
    pub(crate) fn head(&self) -> &Block {
        &self.head
    }

    /// Adds those fields.
    pub(crate) fn add_fields(&self, fields: &mut Fields) {
        let says = self.says();
        let len = Some(self.len()).filter(|_| !says.streams);
        add_head(&says, &self.stamp, len, fields);
    }

    /// What the head was built of.
    fn says(&self) -> Head<'_> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        Head {
            media_type: self.media_type(),
            coding: text(self.coding_field(Name::ContentEncoding)),
            etag: EtagRule::behind(self.validators().etag, &self.stamp),
            tag: self.tag(),
            language: text(self.coding_field(Name::ContentLanguage)),
            shared: self.head.between(self.cuts.shared, self.cuts.etag),
            streams: self.coded_on_the_way().is_some() || self.is_decoded(),
            said_s: Some(self.modified_s()),
        }
    }

    /// Adds those of the body as it is, where that is coded while it is sent.
    pub(crate) fn add_plain_fields(&self, fields: &mut Fields) {
        let says = Head { coding: "", tag: "", streams: false, ..self.says() };
        add_head(&says, &self.stamp, Some(self.len()), fields);
    }

    /// The media type, with its charset.
    pub(crate) fn media_type(&self) -> &str {
        std::str::from_utf8(self.head.value_at(Mark::default())).unwrap_or_default()
    }

    /// Coding and language, if there are any.
    pub(crate) fn coding_fields(&self) -> FieldLines<'_> {
        self.head.between(self.cuts.coding, self.cuts.length)
    }

    /// The value of one of them.
    fn coding_field(&self, name: Name) -> &[u8] {
        self.coding_fields().value(name).unwrap_or_default()
    }

    /// The fields that every answer of this file carries; `ETag`, if there is one, and
    /// `Last-Modified` are the last of them. All that a 304 needs.
    pub(crate) fn shared_fields(&self) -> FieldLines<'_> {
        self.head.since(self.cuts.shared)
    }

    /// What conditional requests are compared with.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: self.head.since(self.cuts.etag).value(Name::ETag).unwrap_or_default(),
            last_modified: self.modified_s(),
        }
    }

    /// When it was modified, as its head says.
    fn modified_s(&self) -> u64 {
        let said = self.head.since(self.cuts.etag).value(Name::LastModified);
        said.and_then(parse_date).unwrap_or_else(|| modified_seconds(&self.stamp))
    }

    /// What the entity tag ends with, where the body is not the file itself.
    fn tag(&self) -> &str {
        let etag = std::str::from_utf8(self.validators().etag).unwrap_or_default();
        match self.coding_field(Name::ContentEncoding) {
            b"" => "",
            _ => etag.trim_matches('"').rsplit('-').next().unwrap_or_default(),
        }
    }
}

/// Bytes of a head of the usual length.
const HEAD_TYPICAL: usize = 208;

/// What a file in memory usually takes, without the paths that lead to it.
pub(crate) fn typical_bytes(name_len: usize, body_len: u64) -> u64 {
    let entry = shared_bytes::<FileEntry>() + block_bytes(name_len) + block_bytes(HEAD_TYPICAL);
    let body = block_bytes(usize::try_from(body_len).unwrap_or(usize::MAX / 2));
    entry + body + block_bytes(BYTES_HEAD)
}

impl Held for FileEntry {
    fn memory_bytes(&self, pages: bool) -> u64 {
        let content = match &self.content {
            Content::Memory(body) if pages => Pinned::cost(body.len()) as u64,
            Content::Memory(body) => block_bytes(body.len()),
            Content::Open(_) => shared_bytes::<OpenFile>() + shared_bytes::<Descriptor>(),
        };
        let shared = if self.is_open() { 0 } else { block_bytes(BYTES_HEAD) };
        content + shared + block_bytes(self.name.len()) + block_bytes(self.head.bytes())
    }

    fn is_open(&self) -> bool {
        matches!(self.content, Content::Open(_))
    }
}

fn add_head(says: &Head<'_>, stamp: &Stamp, len: Option<u64>, fields: &mut Fields) -> Cuts {
    fields.add(Name::ContentType, says.media_type);
    let coding = fields.end();
    for (name, value) in
        [(Name::ContentEncoding, says.coding), (Name::ContentLanguage, says.language)]
    {
        if !value.is_empty() {
            fields.add(name, value);
        }
    }
    let length = fields.end();
    if let Some(len) = len {
        fields.add_shown(Name::ContentLength, len);
    }
    // Ranges are taken of the plain body alone.
    if says.coding.is_empty() && !says.streams {
        fields.add(Name::AcceptRanges, "bytes");
    }
    let shared = fields.end();
    fields.append(says.shared);
    let etag = fields.end();
    if says.etag != EtagRule::Off {
        let marks = match says.etag {
            EtagRule::SizeTime => [says.language, newer_image(says.media_type), says.tag],
            _ => ["", "", says.tag],
        };
        fields.add_shown(Name::ETag, Etag { rule: says.etag, stamp, marks });
    }
    let modified_s = modified_seconds(stamp).min(says.said_s.unwrap_or(u64::MAX));
    fields.add(Name::LastModified, format_date(modified_s));
    Cuts { coding, length, shared, etag }
}

/// The format of an image that may answer for one of another format.
fn newer_image(media_type: &str) -> &str {
    let format = media_type.strip_prefix("image/");
    format.filter(|format| matches!(*format, "avif" | "webp")).unwrap_or_default()
}

/// Whole seconds, rounded down; a time before 1970 counts as 1970.
fn modified_seconds(stamp: &Stamp) -> u64 {
    u64::try_from(stamp.modified_ns / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::file::Kind;

    fn stamp() -> Stamp {
        Stamp {
            device: 1,
            inode: 0xabc,
            size: 5,
            modified_ns: 784_111_777_000_000_001,
            changed_ns: 0,
            links: 1,
            kind: Kind::Regular,
        }
    }

    #[test]
    fn a_head_carries_strong_validators_and_the_length() {
        let content = Content::Memory(Bytes::from_static(b"hello"));
        let entry = FileEntry::new(Scope::NONE, b"a", stamp(), &Head::of("text/plain"), content);
        let expected = "Content-Type: text/plain\r\nContent-Length: 5\r\nAccept-Ranges: bytes\r\n\
             ETag: \"5-ae1b981bc490a01\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(std::str::from_utf8(entry.head().h1()).unwrap(), expected);
        assert_eq!(entry.validators().etag, b"\"5-ae1b981bc490a01\"");
        assert_eq!(entry.validators().last_modified, 784_111_777);
        assert_eq!((entry.media_type(), entry.coding_fields().h1()), ("text/plain", &b""[..]));
        check_again(&entry);
    }

    #[test]
    fn a_file_that_was_written_again_with_its_old_time_has_another_tag_of_its_inode() {
        let entry = |stamp| {
            let content = Content::Memory(Bytes::from_static(b"hello"));
            let says = Head { etag: EtagRule::Inode, ..Head::of("text/plain") };
            FileEntry::new(Scope::NONE, b"a", stamp, &says, content)
        };
        let (before, after) = (stamp(), Stamp { changed_ns: 1, ..stamp() });
        assert_ne!(entry(before).validators().etag, entry(after).validators().etag);
    }

    #[test]
    fn a_file_from_the_future_is_told_to_have_changed_when_it_was_looked_at() {
        let ahead = Stamp { modified_ns: 1_000_000_000_999_999_999, ..stamp() };
        for (stamp, said_s, told) in [
            (ahead, 784_111_777, 784_111_777),
            (ahead, 1_000_000_000, 1_000_000_000),
            (stamp(), 1_000_000_000, 784_111_777),
        ] {
            let says = Head { said_s: Some(said_s), ..Head::of("text/plain") };
            let content = Content::Memory(Bytes::from_static(b"hello"));
            let entry = FileEntry::new(Scope::NONE, b"a", stamp, &says, content);
            assert_eq!(entry.validators().last_modified, told);
            // So in all that is made of it later.
            let mut fields = Fields::default();
            entry.add_plain_fields(&mut fields);
            let line = [b"Last-Modified: ", &format_date(told)[..]].concat();
            assert!(fields.lines().h1().windows(line.len()).any(|part| part == line));
        }
    }

    #[test]
    fn a_coded_body_has_its_own_length_and_tag() {
        let content = Content::Memory(Bytes::from_static(b"hi"));
        let says = Head {
            media_type: "text/plain",
            coding: "br",
            etag: EtagRule::SizeTime,
            tag: "br5",
            language: "de",
            shared: FieldLines::of_h1(b"Vary: Accept-Encoding\r\n"),
            ..Head::default()
        };
        let entry = FileEntry::new(Scope::NONE, b"a", stamp(), &says, content);
        let expected = "Content-Type: text/plain\r\nContent-Encoding: br\r\n\
             Content-Language: de\r\nContent-Length: 2\r\n\
             Vary: Accept-Encoding\r\nETag: \"5-ae1b981bc490a01-de-br5\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(std::str::from_utf8(entry.head().h1()).unwrap(), expected);
        assert_eq!(entry.validators().etag, b"\"5-ae1b981bc490a01-de-br5\"");
        assert!(entry.shared_fields().h1().starts_with(b"Vary: Accept-Encoding\r\nETag: "));
        assert!(entry.shared_fields().h1().ends_with(b" GMT\r\n"));
        assert_eq!(entry.coding_fields().h1(), b"Content-Encoding: br\r\nContent-Language: de\r\n");
        check_again(&entry);
    }

    #[test]
    fn a_body_that_is_decoded_while_it_is_sent_has_neither_length_nor_ranges() {
        let content = Content::Memory(Bytes::from_static(b"hello"));
        let says = Head { streams: true, ..Head::of("text/plain") };
        let entry = FileEntry::new(Scope::NONE, b"a", stamp(), &says, content);
        let expected = "Content-Type: text/plain\r\nETag: \"5-ae1b981bc490a01\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(std::str::from_utf8(entry.head().h1()).unwrap(), expected);
        assert!(entry.is_decoded() && entry.coded_on_the_way().is_none());
        check_again(&entry);
        let plain = Content::Memory(Bytes::from_static(b"hello"));
        let plain = FileEntry::new(Scope::NONE, b"a", stamp(), &Head::of("text/plain"), plain);
        assert!(!plain.is_decoded());
    }

    #[test]
    fn a_body_that_is_coded_while_it_is_sent_has_no_length() {
        let content = || Content::Memory(Bytes::from_static(b"hello"));
        let says = Head { coding: "br", tag: "br5", streams: true, ..Head::of("text/plain") };
        let entry = FileEntry::new(Scope::NONE, b"a", stamp(), &says, content());
        let expected = "Content-Type: text/plain\r\nContent-Encoding: br\r\n\
             ETag: \"5-ae1b981bc490a01-br5\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(std::str::from_utf8(entry.head().h1()).unwrap(), expected);
        assert_eq!(entry.coded_on_the_way(), Some(crate::filter::coding("br")));
        let mut plain = Fields::default();
        entry.add_plain_fields(&mut plain);
        let as_it_is =
            FileEntry::new(Scope::NONE, b"a", stamp(), &Head::of("text/plain"), content());
        assert_eq!(plain.lines().h1(), as_it_is.head().h1());
        check_again(&entry);
        let kept = Head { streams: false, ..says };
        let entry = FileEntry::new(Scope::NONE, b"a", stamp(), &kept, content());
        assert_eq!(entry.coded_on_the_way(), None);
    }

    #[test]
    fn a_head_is_made_again_with_the_same_tag_whatever_the_rule() {
        let old = Stamp { modified_ns: 5, size: 0xabc, changed_ns: 5, ..stamp() };
        for stamp in [stamp(), old] {
            for (rule, expected) in
                [(EtagRule::SizeTime, 1), (EtagRule::Inode, 2), (EtagRule::Off, 0)]
            {
                let content = || Content::Memory(Bytes::from_static(b"hello"));
                let says =
                    Head { etag: rule.of(&stamp, false), language: "de", ..Head::of("image/webp") };
                let plain = FileEntry::new(Scope::NONE, b"a", stamp, &says, content());
                check_again(&plain);
                let etag = String::from_utf8_lossy(plain.validators().etag).into_owned();
                let is_marked = etag.ends_with("-de-webp\"");
                let dashes = etag.matches('-').count() - if is_marked { 2 } else { 0 };
                let fixed = stamp.modified_ns == 5 && rule == EtagRule::SizeTime;
                assert_eq!(dashes, if fixed { 2 } else { expected }, "{etag}");
                let coded = Head { coding: "br", tag: "br5", streams: true, ..says };
                let coded = FileEntry::new(Scope::NONE, b"a", stamp, &coded, content());
                check_again(&coded);
                let mut fields = Fields::default();
                coded.add_plain_fields(&mut fields);
                assert_eq!(fields.lines().h1(), plain.head().h1());
                assert_eq!(etag.is_empty(), rule == EtagRule::Off);
                let told = plain.validators().last_modified;
                assert_eq!(told, modified_seconds(&stamp));
            }
        }
    }

    /// Made again, or out of a table, it is the same.
    fn check_again(entry: &FileEntry) {
        let mut again = Fields::default();
        entry.add_fields(&mut again);
        assert_eq!(again.lines().h1(), entry.head().h1());
        assert_eq!(Cuts::from_word(entry.cuts().to_word()), entry.cuts());
    }
}
