//! The access log, in the combined format: written into a buffer of its own by each thread of
//! control, and out when that is full or a second has passed (S3, section 4: batched and lazy).

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;

use flyball_http::{Name, Now, Request, Segment, Status};
use flyball_site::Answer;
use flyball_sys::file::Sink;

use crate::settings::AccessLog;

/// Bytes gathered before they are written; per thread of control.
const BUFFER_BYTES: usize = 64 * 1024;

/// Longest time a line waits in the buffer, in milliseconds.
const DELAY_MS: u64 = 1_000;

/// Where the log goes, opened before the first fork. Lines are appended whole.
#[derive(Clone, Debug)]
pub struct LogFile(Option<Arc<Sink>>);

impl LogFile {
    /// Opens it.
    ///
    /// # Errors
    /// When the file cannot be opened for appending.
    pub fn open(log: &AccessLog) -> io::Result<LogFile> {
        Ok(LogFile(match log {
            AccessLog::Off => None,
            AccessLog::Stdout => Some(Arc::new(flyball_sys::process::duplicate_stdout()?)),
            AccessLog::File(path) => Some(Arc::new(flyball_sys::file::open_log(path)?)),
        }))
    }

    /// True when lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

/// One thread's end of the log.
#[derive(Debug)]
pub struct AccessLogWriter {
    file: Option<Arc<Sink>>,
    buffer: Vec<u8>,
    since_ms: u64,
    date: [u8; DATE_BYTES],
    date_of: u64,
}

/// Length of `21/Nov/2026:09:00:00 +0000`.
const DATE_BYTES: usize = 26;

impl AccessLogWriter {
    /// A writer to this log.
    pub fn new(file: &LogFile) -> AccessLogWriter {
        let buffer = if file.0.is_some() { Vec::with_capacity(BUFFER_BYTES) } else { Vec::new() };
        AccessLogWriter {
            file: file.0.clone(),
            buffer,
            since_ms: 0,
            date: [b'-'; DATE_BYTES],
            date_of: u64::MAX,
        }
    }

    /// True when lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Adds the line of one request, when its answer is known. The length is that of the content
    /// that the answer promises, not what the client took of it.
    pub fn write(&mut self, request: &Request<'_>, answer: &Answer<'_>, now: &Now) {
        if self.file.is_none() {
            return;
        }
        self.begin(request.client(), now);
        let out = &mut self.buffer;
        escape(request.method_token(), out);
        out.push(b' ');
        escape(request.target(), out);
        let version = match request.head.version {
            flyball_http::Version::Http10 => "HTTP/1.0",
            flyball_http::Version::Http11 => "HTTP/1.1",
        };
        let _ = write!(out, " {version}\" {} {} \"", answer.status.code(), content_len(answer));
        escape(request.value(Name::Referer).unwrap_or(b"-"), out);
        out.extend_from_slice(b"\" \"");
        escape(request.value(Name::UserAgent).unwrap_or(b"-"), out);
        out.extend_from_slice(b"\"\n");
        self.flush_when_full();
    }

    /// Adds the line of a request that was refused before it was understood.
    pub fn write_refusal(&mut self, status: Status, client: IpAddr, now: &Now) {
        if self.file.is_none() {
            return;
        }
        self.begin(client, now);
        let _ = writeln!(self.buffer, "-\" {} - \"-\" \"-\"", status.code());
        self.flush_when_full();
    }

    fn flush_when_full(&mut self) {
        if self.buffer.len() > BUFFER_BYTES - BUFFER_BYTES / 4 {
            self.flush();
        }
    }

    /// Writes the buffer out when its oldest line has waited long enough.
    pub fn flush_when_due(&mut self, now: &Now) {
        if !self.buffer.is_empty() && now.ms().saturating_sub(self.since_ms) >= DELAY_MS {
            self.flush();
        }
    }

    /// Writes the buffer out. Blocks on the file. A log that cannot be written is dropped: serving
    /// goes on.
    pub fn flush(&mut self) {
        if let Some(file) = &self.file {
            let _ = (&**file as &Sink).write_all(&self.buffer);
        }
        self.buffer.clear();
    }

    /// Begins a line, up to the quote before the request.
    fn begin(&mut self, client: IpAddr, now: &Now) {
        if self.buffer.is_empty() {
            self.since_ms = now.ms();
        }
        self.set_date(now);
        // Writing to a vector cannot fail.
        let _ = write!(self.buffer, "{} - - [", client);
        self.buffer.extend_from_slice(&self.date);
        self.buffer.extend_from_slice(b"] \"");
    }

    fn set_date(&mut self, now: &Now) {
        if now.unix() == self.date_of {
            return;
        }
        self.date_of = now.unix();
        // From `Sun, 06 Nov 1994 08:49:37 GMT`.
        let d = now.date();
        let parts = [&d[5..7], b"/", &d[8..11], b"/", &d[12..16], b":", &d[17..25], b" +0000"];
        let mut at = 0;
        for part in parts {
            self.date[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }
}

impl Drop for AccessLogWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

fn content_len(answer: &Answer<'_>) -> u64 {
    use flyball_http::h1::Body;
    match &answer.body {
        Body::Empty => 0,
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::File { len, .. } => *len,
        Body::Parts(parts) => parts.iter().map(Segment::content_len).sum(),
        Body::Stream { len } => len.unwrap_or(0),
    }
}

/// Quotes, backslashes and bytes that are not printable ASCII become `\xHH`, so that a line cannot
/// be forged or broken.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\' {
            out.push(byte);
        } else {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::h1::Body;
    use flyball_http::{Head, Limits, scan};

    #[test]
    fn a_line_is_in_the_combined_format_and_cannot_be_forged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let log = LogFile::open(&AccessLog::File(path.clone())).unwrap();
        let bytes = b"GET /a\"b HTTP/1.1\r\nHost: x\r\nUser-Agent: me\xe9\r\n\r\n";
        let mut head = Head::default();
        scan::parse_head(bytes, &Limits::default(), &mut head).unwrap();
        let body = Body::Bytes(bytes::Bytes::from_static(b"hello"));
        let answer = Answer { status: Status::OK, fields: b"\r\n", body, close: false };
        let now = Now::new(0, 784_111_777_000);
        let mut writer = AccessLogWriter::new(&log);
        head.client = [127, 0, 0, 1].into();
        writer.write(&head.request(bytes), &answer, &now);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        writer.flush_when_due(&Now::new(DELAY_MS, 784_111_778_000));
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\x22b HTTP/1.1\" 200 5 \"-\" \
             \"me\\xe9\"\n"
        );
    }
}
