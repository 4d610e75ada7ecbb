//! What a module has written of an answer: one buffer for all requests of a thread.

use flyball_http::field::{is_name, is_value};
use flyball_http::{Fields, Name, Status, framing};
use flyball_module::Refused;
use flyball_module::abi::{FILES_MAX, WRITTEN_MAX};

/// Most bytes of fields in an answer.
const FIELDS_BYTES_MAX: usize = 16 * 1024;

/// Capacity that is kept for the next answer.
const KEPT_BYTES: usize = 64 * 1024;

/// Fields that the server writes itself (RFC 9110, sections 6.6.1, 7.6.1 and 10.2.4; RFC 9112,
/// section 6).
const OF_THE_SERVER: u64 = Name::set(&[
    Name::Date,
    Name::Server,
    Name::Connection,
    Name::KeepAlive,
    Name::TransferEncoding,
    Name::Upgrade,
    Name::Trailer,
]);

/// An answer that is being written.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) status: Status,
    pub(crate) fields: Fields,
    pub(crate) content: Vec<u8>,
    pub(crate) files: Vec<FileWish>,
    /// How long the module says that the content will be.
    pub(crate) len: Option<u64>,
    /// The path of this site that answers in its place.
    pub(crate) serve: Option<Vec<u8>>,
    /// The head has left: what concerns it comes too late.
    pub(crate) head_left: bool,
}

/// A range of a file that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileWish {
    /// Behind so many bytes of the content.
    pub(crate) at: usize,
    pub(crate) path: Vec<u8>,
    pub(crate) offset: u64,
    pub(crate) len: Option<u64>,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            status: Status::OK,
            fields: Fields::default(),
            content: Vec::new(),
            files: Vec::new(),
            len: None,
            serve: None,
            head_left: false,
        }
    }
}

impl Draft {
    /// Forgets what was written.
    pub(crate) fn clear(&mut self) {
        self.status = Status::OK;
        self.fields.clear();
        self.clear_content();
        self.len = None;
        self.serve = None;
        self.head_left = false;
    }

    /// Forgets the content.
    pub(crate) fn clear_content(&mut self) {
        self.content.clear();
        self.content.shrink_to(KEPT_BYTES);
        self.files.clear();
    }

    /// The media type of the content; empty when nothing is said of it.
    pub(crate) fn media_type(&self) -> &str {
        let told = self.fields.lines().values(Name::ContentType).last();
        std::str::from_utf8(told.unwrap_or_default()).unwrap_or_default()
    }

    /// Whether the content is as long as the module says, if it says so.
    pub(crate) fn is_as_long_as_told(&self) -> bool {
        self.len.is_none_or(|told| told == self.content.len() as u64)
    }

    pub(crate) fn set_status(&mut self, code: u16) -> Result<(), Refused> {
        self.at_head()?;
        // 1xx are no answers.
        let status = Status::of(code).filter(|status| status.class() >= 2);
        self.status = status.ok_or(Refused::Malformed)?;
        Ok(())
    }

    pub(crate) fn add_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.at_head()?;
        let value = value.trim_ascii();
        if !is_name(name) || !is_value(value) {
            return Err(Refused::Malformed);
        }
        if Name::from_bytes(name) == Some(Name::ContentLength) {
            self.len = Some(framing::length(value).ok_or(Refused::Malformed)?);
            return Ok(());
        }
        if Name::is_any(name, OF_THE_SERVER) {
            return Err(Refused::Malformed);
        }
        if self.fields.lines().h1().len() + name.len() + value.len() + 4 > FIELDS_BYTES_MAX {
            return Err(Refused::TooMuch);
        }
        self.fields.add_named(name, value);
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        if self.content.len() + bytes.len() > WRITTEN_MAX {
            return Err(Refused::TooMuch);
        }
        self.content.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn send_file(
        &mut self,
        path: &[u8],
        offset: u64,
        len: Option<u64>,
    ) -> Result<(), Refused> {
        if self.files.len() == FILES_MAX {
            return Err(Refused::TooMuch);
        }
        let path = checked_path(path)?;
        self.files.push(FileWish { at: self.content.len(), path, offset, len });
        Ok(())
    }

    pub(crate) fn serve(&mut self, path: &[u8]) -> Result<(), Refused> {
        self.at_head()?;
        self.serve = Some(checked_path(path)?);
        Ok(())
    }

    fn at_head(&self) -> Result<(), Refused> {
        if self.head_left { Err(Refused::TooLate) } else { Ok(()) }
    }
}

/// A path as it may stand in a request line.
fn checked_path(path: &[u8]) -> Result<Vec<u8>, Refused> {
    let is_path = path.first() == Some(&b'/') && path.iter().all(u8::is_ascii_graphic);
    if is_path { Ok(path.to_vec()) } else { Err(Refused::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_ends_its_line_or_says_what_is_the_servers_to_say() {
        let mut draft = Draft::default();
        for (name, value) in [
            (&b"a"[..], &b"x\r\ny: z"[..]),
            (b"a\r\nb", b"x"),
            (b"a b", b"x"),
            (b"", b"x"),
            (b"a", b"\0"),
            (b"Transfer-Encoding", b"chunked"),
            (b"connection", b"close"),
            (b"Content-Length", b"+1"),
            (b"Content-Length", b"-1"),
        ] {
            assert_eq!(draft.add_field(name, value), Err(Refused::Malformed), "{value:?}");
        }
        assert!(draft.fields.lines().h1().is_empty());
        draft.add_field(b"Content-Type", b" text/plain ").unwrap();
        draft.add_field(b"Content-Length", b"12").unwrap();
        assert_eq!(draft.fields.lines().h1(), b"Content-Type: text/plain\r\n");
        assert_eq!((draft.media_type(), draft.len), ("text/plain", Some(12)));
        assert_eq!(draft.set_status(100), Err(Refused::Malformed));
        draft.head_left = true;
        assert_eq!(draft.set_status(404), Err(Refused::TooLate));
        assert_eq!(draft.add_field(b"a", b"b"), Err(Refused::TooLate));
    }

    #[test]
    fn only_a_path_is_asked_for_and_no_more_than_may_be() {
        let mut draft = Draft::default();
        for path in ["", "a", "/a b", "/a\r\nb", "http://a/"] {
            assert_eq!(draft.serve(path.as_bytes()), Err(Refused::Malformed), "{path}");
            assert_eq!(draft.send_file(path.as_bytes(), 0, None), Err(Refused::Malformed));
        }
        for _ in 0..FILES_MAX {
            draft.send_file(b"/a", 0, None).unwrap();
        }
        assert_eq!(draft.send_file(b"/a", 0, None), Err(Refused::TooMuch));
        assert_eq!(draft.write(&vec![0; WRITTEN_MAX + 1]), Err(Refused::TooMuch));
    }
}
