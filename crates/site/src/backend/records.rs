//! The records of FastCGI 1.0: those that a server writes, and those that it reads. No input and no
//! output here, only bytes.

use super::environment::Environment;

/// The only version there is.
const VERSION: u8 = 1;

/// Bytes in front of the content of each record.
pub(super) const HEADER_BYTES: usize = 8;

/// Most bytes of content in a record that is written: what two bytes can say, in whole eights.
const CONTENT_BYTES_MAX: usize = 65_528;

/// The id of the request: there is one on a link at a time.
const REQUEST: u16 = 1;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

/// Whoever gets a request answers it (section 6.2).
const RESPONDER: u8 = 1;

/// The responder does not close the link after the answer (section 5.1).
const KEEP_CONN: u8 = 1;

/// Bytes of the content of an end of a request.
const END_BYTES: usize = 8;

/// What a responder says about a request that it has ended (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has answered.
    Complete,
    /// It answers one request at a time on a link, and thinks that this is a second one.
    CannotMultiplex,
    /// It is out of something.
    Overloaded,
    /// It does not answer requests.
    UnknownRole,
}

/// What makes content of this length a whole number of eights.
fn padding(len: usize) -> usize {
    len.wrapping_neg() % 8
}

/// What stands in front of so many bytes of content.
fn header(kind: u8, len: usize) -> [u8; HEADER_BYTES] {
    let [id_high, id_low] = REQUEST.to_be_bytes();
    let [len_high, len_low] = (len as u16).to_be_bytes();
    [VERSION, kind, id_high, id_low, len_high, len_low, padding(len) as u8, 0]
}

/// Appends a record.
fn write_record(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&header(kind, content.len()));
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 8][..padding(content.len())]);
}

/// Appends what begins a request: its role, and its parameters.
pub(super) fn write_request(params: &Environment, keep: bool, out: &mut Vec<u8>) {
    let most = |(whole, _): (&[u8], usize)| whole.len() + 8;
    // With the end of a body that there is not.
    out.reserve(params.whole().map(most).sum::<usize>() + 8 * HEADER_BYTES);
    let flags = if keep { KEEP_CONN } else { 0 };
    write_record(BEGIN_REQUEST, &[0, RESPONDER, flags, 0, 0, 0, 0, 0], out);
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    for (whole, name_len) in params.whole() {
        write_length(name_len, out);
        write_length(whole.len() - name_len, out);
        out.extend_from_slice(whole);
    }
    end_params(start, out);
    write_record(PARAMS, &[], out);
}

/// Makes records of all behind `start`, which is room for a header and parameters: mostly one, in
/// its place.
fn end_params(start: usize, out: &mut Vec<u8>) {
    let content = start + HEADER_BYTES;
    let len = out.len() - content;
    if len > CONTENT_BYTES_MAX {
        let stream = out.split_off(content);
        out.truncate(start);
        stream.chunks(CONTENT_BYTES_MAX).for_each(|content| write_record(PARAMS, content, out));
    } else {
        out[start..content].copy_from_slice(&header(PARAMS, len));
        out.resize(out.len() + padding(len), 0);
    }
}

/// The length of a name or a value: one byte, or four with the highest bit set (section 3.4).
fn write_length(len: usize, out: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => out.extend_from_slice(&(len as u32 | 1 << 31).to_be_bytes()),
    }
}

/// Appends bytes of the request body.
pub(super) fn write_body(bytes: &[u8], out: &mut Vec<u8>) {
    for content in bytes.chunks(CONTENT_BYTES_MAX) {
        write_record(STDIN, content, out);
    }
}

/// Appends the end of the request body.
pub(super) fn write_body_end(out: &mut Vec<u8>) {
    write_record(STDIN, &[], out);
}

/// Reads what a responder sends, wherever it is cut.
#[derive(Debug, Default)]
pub struct Reader {
    header: [u8; HEADER_BYTES],
    header_len: usize,
    kind: u8,
    content_left: usize,
    padding_left: usize,
    end: [u8; END_BYTES],
    ended: Option<Ended>,
    /// Something came behind the end.
    trails: bool,
}

impl Reader {
    /// Takes bytes: what of them is content of the answer is moved to their front, and what is
    /// error output is given to `said`. How many bytes of content there are.
    ///
    /// # Errors
    /// What is wrong with a record.
    pub fn take(&mut self, bytes: &mut [u8], mut said: impl FnMut(&[u8])) -> Result<usize, String> {
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() {
            if self.content_left > 0 {
                let len = self.content_left.min(bytes.len() - at);
                match self.kind {
                    STDOUT => {
                        bytes.copy_within(at..at + len, kept);
                        kept += len;
                    }
                    STDERR => said(&bytes[at..at + len]),
                    END_REQUEST => {
                        let start = END_BYTES - self.content_left;
                        self.end[start..start + len].copy_from_slice(&bytes[at..at + len]);
                    }
                    _ => {}
                }
                self.content_left -= len;
                at += len;
                if self.content_left == 0 && self.kind == END_REQUEST {
                    self.ended = Some(ended(self.end[4])?);
                }
            } else if self.padding_left > 0 {
                let len = self.padding_left.min(bytes.len() - at);
                self.padding_left -= len;
                at += len;
            } else if self.ended.is_some() {
                self.trails = true;
                break;
            } else {
                self.header[self.header_len] = bytes[at];
                (self.header_len, at) = (self.header_len + 1, at + 1);
                if self.header_len == HEADER_BYTES {
                    self.header_len = 0;
                    self.begin_record()?;
                }
            }
        }
        Ok(kept)
    }

    fn begin_record(&mut self) -> Result<(), String> {
        let [version, kind, id_high, id_low, len_high, len_low, padding, _] = self.header;
        if version != VERSION {
            return Err(format!("a record of version {version}"));
        }
        let (id, len) = (u16::from_be_bytes([id_high, id_low]), [len_high, len_low]);
        let len = usize::from(u16::from_be_bytes(len));
        let expected = match kind {
            STDOUT | STDERR | END_REQUEST => REQUEST,
            // They are about no request.
            GET_VALUES_RESULT | UNKNOWN_TYPE => 0,
            _ => return Err(format!("a record of type {kind}")),
        };
        if id != expected {
            return Err(format!("a record of type {kind} for request {id}"));
        }
        if kind == END_REQUEST && len != END_BYTES {
            return Err(format!("an end of the request of {len} bytes"));
        }
        (self.kind, self.content_left, self.padding_left) = (kind, len, usize::from(padding));
        Ok(())
    }

    /// What was said of the request, once it has ended.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Whether the link is at the end of its last record and at no other.
    pub fn is_clean(&self) -> bool {
        self.ended.is_some() && self.padding_left == 0 && !self.trails
    }
}

fn ended(status: u8) -> Result<Ended, String> {
    Ok(match status {
        0 => Ended::Complete,
        1 => Ended::CannotMultiplex,
        2 => Ended::Overloaded,
        3 => Ended::UnknownRole,
        _ => return Err(format!("an end of the request with status {status}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_the_specification_has_it() {
        let (mut out, mut params) = (Vec::new(), Environment::default());
        params.add("A", b"bc");
        params.add("N", &[b'x'; 128]);
        write_request(&params, true, &mut out);
        write_body(b"body", &mut out);
        write_body_end(&mut out);
        let mut expected = vec![1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0];
        // 5 bytes of the first pair, 6 and 128 of the second: 139, and 5 of padding.
        expected.extend_from_slice(&[1, 4, 0, 1, 0, 139, 5, 0]);
        expected.extend_from_slice(&[1, 2, b'A', b'b', b'c', 1, 0x80, 0, 0, 128, b'N']);
        expected.extend_from_slice(&[b'x'; 128]);
        expected.extend_from_slice(&[0; 5]);
        expected.extend_from_slice(&[1, 4, 0, 1, 0, 0, 0, 0]);
        expected.extend_from_slice(b"\x01\x05\0\x01\0\x04\x04\0body\0\0\0\0");
        expected.extend_from_slice(&[1, 5, 0, 1, 0, 0, 0, 0]);
        assert_eq!(out, expected);
    }

    #[test]
    fn what_is_too_long_for_a_record_takes_several() {
        let (mut out, mut params) = (Vec::new(), Environment::default());
        params.add("N", &vec![b'x'; CONTENT_BYTES_MAX]);
        write_request(&params, false, &mut out);
        let (first, second) = (2 * HEADER_BYTES, 3 * HEADER_BYTES + CONTENT_BYTES_MAX);
        assert_eq!(out[first..][..14], *b"\x01\x04\0\x01\xff\xf8\0\0\x01\x80\0\xff\xf8N");
        // One byte and four for the lengths, one for the name.
        assert_eq!(out[second..], *b"\x01\x04\0\x01\0\x06\x02\0xxxxxx\0\0\x01\x04\0\x01\0\0\0\0");
        let mut out = Vec::new();
        write_body(&vec![7; CONTENT_BYTES_MAX + 3], &mut out);
        assert_eq!(out.len(), HEADER_BYTES + CONTENT_BYTES_MAX + HEADER_BYTES + 8);
        assert_eq!(out[4..7], [0xff, 0xf8, 0]);
        assert_eq!(out[HEADER_BYTES + CONTENT_BYTES_MAX..][4..7], [0, 3, 5]);
    }

    /// An answer in several records, with padding and error output between them.
    fn answer() -> Vec<u8> {
        let mut all = b"\x01\x06\0\x01\0\x03\x02\0one##".to_vec();
        all.extend_from_slice(b"\x01\x07\0\x01\0\x04\0\0oops");
        all.extend_from_slice(b"\x01\x0b\0\0\0\x08\0\0unknown.");
        all.extend_from_slice(b"\x01\x06\0\x01\0\x04\x01\0 two#");
        all.extend_from_slice(b"\x01\x06\0\x01\0\0\0\0");
        all.extend_from_slice(b"\x01\x03\0\x01\0\x08\x03\0\0\0\0\0\0\0\0\0###");
        all
    }

    #[test]
    fn an_answer_is_read_wherever_it_is_cut() {
        let all = answer();
        for cut in 0..all.len() {
            let (mut reader, mut text, mut errors) = (Reader::default(), Vec::new(), Vec::new());
            for part in [&all[..cut], &all[cut..]] {
                assert_eq!(reader.ended(), None, "cut at {cut}");
                let mut part = part.to_vec();
                let kept = reader.take(&mut part, |said| errors.extend_from_slice(said)).unwrap();
                text.extend_from_slice(&part[..kept]);
                if cut >= all.len() - 3 {
                    break;
                }
            }
            assert_eq!((&text[..], &errors[..]), (&b"one two"[..], &b"oops"[..]), "cut at {cut}");
            assert_eq!(reader.ended(), Some(Ended::Complete), "cut at {cut}");
            assert_eq!(reader.is_clean(), cut < all.len() - 3, "cut at {cut}");
        }
        let (mut reader, mut more) = (Reader::default(), [answer(), vec![1]].concat());
        reader.take(&mut more, |_| {}).unwrap();
        assert!(!reader.is_clean(), "something came behind the end");
    }

    #[test]
    fn a_record_that_is_none_is_refused() {
        for (record, why) in [
            (&b"\x02\x06\0\x01\0\x03\0\0"[..], "a record of version 2"),
            (b"\x01\x05\0\x01\0\x03\0\0", "a record of type 5"),
            (b"\x01\x06\0\x02\0\x03\0\0", "a record of type 6 for request 2"),
            (b"\x01\x0b\0\x01\0\x08\0\0", "a record of type 11 for request 1"),
            (b"\x01\x03\0\x01\0\x07\0\0", "an end of the request of 7 bytes"),
            (b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\x04\0\0\0", "an end of the request with status 4"),
            (b"HTTP/1.1 400 Bad Request\r\n", "a record of version 72"),
        ] {
            let refused = Reader::default().take(&mut record.to_vec(), |_| {});
            assert_eq!(refused, Err(why.to_owned()));
        }
        for (status, expected) in
            [(1, Ended::CannotMultiplex), (2, Ended::Overloaded), (3, Ended::UnknownRole)]
        {
            let mut reader = Reader::default();
            let mut record = b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0".to_vec();
            record[12] = status;
            assert_eq!(reader.take(&mut record, |_| {}), Ok(0));
            assert_eq!(reader.ended(), Some(expected));
        }
    }
}
