//! The head of an answer in the form of CGI (RFC 3875, section 6), as it comes from a program.
//!
//! What a program says is not believed: its fields are held to the grammar of RFC 9110, and those
//! that speak of a connection are not its to send.

use std::borrow::Cow;

use flyball_http::date::parse_date;
use flyball_http::field::{is_name, is_value};
use flyball_http::{Fields, Name, Status, framing};

/// Longest head.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Room for ends of lines beyond those that were sent.
const SLACK_BYTES: usize = 32;

/// Most fields.
const FIELDS_MAX: usize = 200;

/// What a program answers, but for its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: Status,
    /// The fields that the client gets.
    pub fields: Fields,
    /// The length of the content, if the program tells.
    pub len: Option<u64>,
    /// A path of this server that is answered instead (RFC 3875, section 6.2.2).
    pub redirect: Option<Vec<u8>>,
    /// A file that is sent as the content.
    pub file: Option<SentFile>,
}

/// A file that a backend has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentFile {
    /// The one at this absolute path (`X-Sendfile`).
    At(Vec<u8>),
    /// The one at this path beneath the first root (`X-Accel-Redirect`).
    Beneath(Vec<u8>),
}

/// The length of a head with its blank line, once that is there. Lines may end in LF alone.
pub fn head_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let end = at + memchr::memchr(b'\n', &bytes[at..])?;
        let line = &bytes[at..end];
        if matches!(line, b"" | b"\r") {
            return Some(end + 1);
        }
        at = end + 1;
    }
}

impl Reply {
    /// The media type, for rules that go by it; empty when none is told.
    pub(crate) fn media_type(&self) -> Cow<'_, str> {
        let value = self.content_type().unwrap_or_default();
        let kind = value.split(|&byte| byte == b';').next().unwrap_or_default();
        String::from_utf8_lossy(kind.trim_ascii())
    }

    /// The media type with its parameters.
    pub(crate) fn content_type(&self) -> Option<&[u8]> {
        self.fields.lines().value(Name::ContentType)
    }

    /// Reads a whole head.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(head: &[u8]) -> Result<Reply, &'static str> {
        // Lines may have got an end of two bytes.
        let fields = Fields::with_capacity(head.len() + SLACK_BYTES);
        let mut reading = Reading { fields, ..Reading::default() };
        let mut lines =
            head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        for (at, line) in lines.by_ref().take_while(|line| !line.is_empty()).enumerate() {
            if at >= FIELDS_MAX {
                return Err("too many fields");
            }
            match line.strip_prefix(b"HTTP/1.") {
                // A program whose name begins with nph- speaks HTTP itself (RFC 3875, section 5).
                Some(rest) if at == 0 => {
                    let status = rest.get(2..).ok_or("a status line without a status")?;
                    reading.status = Some(read_status(status)?);
                }
                _ => reading.field(line)?,
            }
        }
        reading.end()
    }
}

#[derive(Default)]
struct Reading {
    status: Option<Status>,
    fields: Fields,
    len: Option<u64>,
    file: Option<SentFile>,
    count: usize,
}

impl Reading {
    fn field(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let colon = memchr::memchr(b':', line).ok_or("a line without a colon")?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if !is_name(name) {
            return Err("a field whose name is none");
        }
        if !is_value(value) {
            return Err("a field value with a control character");
        }
        self.count += 1;
        let known = Name::from_bytes(name);
        match known {
            Some(Name::Status) if self.status.is_some() => return Err("two statuses"),
            Some(Name::Status) => self.status = Some(read_status(value)?),
            Some(Name::ContentLength) => self.length(value)?,
            Some(Name::TransferEncoding) => return Err("a transfer coding"),
            Some(Name::XSendfile | Name::XAccelRedirect) if self.file.is_some() => {
                return Err("two files to be sent");
            }
            Some(Name::XSendfile) => self.file = Some(SentFile::At(value.to_vec())),
            Some(Name::XAccelRedirect) => self.file = Some(SentFile::Beneath(value.to_vec())),
            Some(Name::ContentType | Name::Location) if self.has(known) => {
                let is_location = known == Some(Name::Location);
                return Err(if is_location { "two locations" } else { "two media types" });
            }
            // What is no time, or the second, says nothing: then it is this server's to say.
            Some(Name::Date) if self.has(known) || parse_date(value).is_none() => {}
            // They are this server's to say, or speak of the connection.
            Some(Name::Server) => {}
            _ if Name::is_any(name, Name::OF_THE_CONNECTION) => {}
            _ => self.fields.add_named(name, value),
        }
        Ok(())
    }

    fn has(&self, name: Option<Name>) -> bool {
        name.is_some_and(|name| self.fields.lines().has(name))
    }

    fn length(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let len = framing::length(value).ok_or("a length that is none")?;
        if self.len.replace(len).is_some_and(|before| before != len) {
            return Err("two lengths");
        }
        Ok(())
    }

    fn end(self) -> Result<Reply, &'static str> {
        if self.count == 0 {
            return Err("no field at all");
        }
        let mut redirect = None;
        let status = match (self.status, self.fields.lines().value(Name::Location)) {
            (Some(status), _) => status,
            (None, Some(location)) => {
                if location.starts_with(b"/") && !location.starts_with(b"//") {
                    redirect = Some(location.to_vec());
                }
                Status::FOUND
            }
            (None, None) => Status::OK,
        };
        let Reading { fields, len, file, .. } = self;
        Ok(Reply { status, fields, len, redirect, file })
    }
}

/// Three digits, and whatever reason behind them.
fn read_status(value: &[u8]) -> Result<Status, &'static str> {
    const BAD: &str = "a status that is none";
    let digits = value.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let ends = value.get(3).is_none_or(|&byte| byte == b' ');
    let code = digits.filter(|_| ends).ok_or(BAD)?;
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    // An interim answer is none.
    Status::of(code).filter(|status| status.class() > 1).ok_or(BAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(reply: &Reply) -> &str {
        std::str::from_utf8(reply.fields.lines().h1()).unwrap()
    }

    #[test]
    fn the_forms_of_rfc_3875_are_read() {
        let document = Reply::parse(b"Content-Type: text/html; charset=x\nX-A:  b \n\n").unwrap();
        assert_eq!((document.status, &*document.media_type()), (Status::OK, "text/html"));
        assert_eq!(said(&document), "Content-Type: text/html; charset=x\r\nX-A: b\r\n");
        let local = Reply::parse(b"Location: /other?x\r\n\r\n").unwrap();
        assert_eq!(local.redirect.as_deref(), Some(&b"/other?x"[..]));
        for client in ["http://a/", "//evil/", "https://a/b"] {
            let text = format!("Location: {client}\n\n");
            let reply = Reply::parse(text.as_bytes()).unwrap();
            assert_eq!((reply.status, reply.redirect), (Status::FOUND, None), "{client}");
        }
        let with =
            Reply::parse(b"Status: 418 teapot\nLocation: /x\nContent-Length: 3\n\n").unwrap();
        assert_eq!((with.status.code(), with.redirect, with.len), (418, None, Some(3)));
        let nph = Reply::parse(b"HTTP/1.1 201 Created\r\nServer: x\r\nA: b\r\n\r\n").unwrap();
        assert_eq!((nph.status.code(), said(&nph)), (201, "A: b\r\n"));
    }

    #[test]
    fn a_head_that_is_none_is_refused() {
        for bad in [
            "\n",
            "no colon\n\n",
            ": x\n\n",
            "a b: c\n\n",
            "A: b\n folded\n\n",
            "A: b\rc\n\n",
            "A: \0\n\n",
            "Status: 20\n\n",
            "Status: 2000\n\n",
            "Status: 100\n\n",
            "Status: 999\n\n",
            "Status: 200\nStatus: 200\n\n",
            "Content-Length: -1\n\n",
            "Content-Length: +1\n\n",
            "Content-Length: 1\nContent-Length: 2\n\n",
            "Content-Length: 99999999999999999999\n\n",
            "Transfer-Encoding: chunked\nA: b\n\n",
            "A: b\nHTTP/1.1 200 OK\n\n",
            "HTTP/1.\n\n",
        ] {
            assert!(Reply::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_speaks_of_the_connection_is_not_passed_on() {
        let head = b"A: b\nConnection: close\nKeep-Alive: x\nUpgrade: h2c\nServer: x\nC: d\n\n";
        assert_eq!(said(&Reply::parse(head).unwrap()), "A: b\r\nC: d\r\n");
    }

    #[test]
    fn a_date_is_passed_on_if_it_is_one() {
        const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
        for (head, passed) in [
            (format!("{DATE}\nA: b\n\n"), format!("{DATE}\r\nA: b\r\n")),
            (format!("{DATE}\nA: b\nDate: now\n\n"), format!("{DATE}\r\nA: b\r\n")),
            (format!("{DATE}\n{DATE}\n\n"), format!("{DATE}\r\n")),
            ("Date: now\nA: b\n\n".into(), "A: b\r\n".into()),
        ] {
            assert_eq!(said(&Reply::parse(head.as_bytes()).unwrap()), passed);
        }
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is_cut() {
        for head in ["A: b\r\nC: d\r\n\r\n", "A: b\nC: d\n\n", "\n"] {
            for cut in 0..head.len() {
                assert_eq!(head_len(&head.as_bytes()[..cut]), None, "{head:?} at {cut}");
            }
            assert_eq!(head_len(format!("{head}body\n\n").as_bytes()), Some(head.len()));
        }
    }
}
