//! A server at the other end of a link: it answers each request by what that says of itself. By
//! FastCGI it keeps the link, by SCGI it closes it.

/// Bytes in front of the content of a record.
const HEADER_BYTES: usize = 8;

/// Bytes of a record of an answer, at most.
const RECORD_BYTES_MAX: usize = 700;

/// Kinds of records.
const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// A server, and what it knows of a request.
#[derive(Debug, Default)]
pub(super) struct Responder {
    /// How much of what it received it has understood.
    at: usize,
    params: Vec<u8>,
    body: Vec<u8>,
    /// A request has begun that is not answered.
    is_asked: bool,
    /// It speaks SCGI.
    is_scgi: bool,
}

impl Responder {
    /// Whether nothing was asked that was not answered, and something may be.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_asked && !self.is_scgi
    }

    /// Whether it closes the link once all is sent that it has said.
    pub(super) fn closes(&self) -> bool {
        !self.is_asked && self.is_scgi
    }

    /// What it says to all that it has received.
    pub(super) fn answer(&mut self, received: &[u8]) -> Vec<u8> {
        match received.first() {
            Some(first) if first.is_ascii_digit() => self.answer_scgi(received),
            _ => self.answer_fastcgi(received),
        }
    }

    fn answer_scgi(&mut self, received: &[u8]) -> Vec<u8> {
        if self.closes() {
            return Vec::new();
        }
        (self.is_asked, self.is_scgi) = (true, true);
        let Some((head, body)) = netstring(received) else { return Vec::new() };
        let param = |wanted: &str| scgi_param(head, wanted);
        let len = param("CONTENT_LENGTH").parse().expect("a length");
        if body.len() < len {
            return Vec::new();
        }
        assert_eq!(body.len(), len, "more than the body");
        self.is_asked = false;
        said(&param("REQUEST_METHOD"), &param("REQUEST_URI"), body)
    }

    fn answer_fastcgi(&mut self, received: &[u8]) -> Vec<u8> {
        let mut said = Vec::new();
        while let Some((kind, content, len)) = record(&received[self.at..]) {
            self.at += len;
            match kind {
                BEGIN => *self = Responder { at: self.at, is_asked: true, ..Responder::default() },
                PARAMS => self.params.extend(content),
                STDIN if content.is_empty() => {
                    self.say(&mut said);
                    self.is_asked = false;
                }
                STDIN => self.body.extend(content),
                other => panic!("a record of kind {other}"),
            }
        }
        said
    }

    fn say(&self, records: &mut Vec<u8>) {
        let answer = said(&self.param("REQUEST_METHOD"), &self.param("REQUEST_URI"), &self.body);
        answer.chunks(RECORD_BYTES_MAX).for_each(|content| add(STDOUT, content, records));
        add(STDOUT, &[], records);
        add(END, &[0; 8], records);
    }

    /// A parameter of the request.
    fn param(&self, wanted: &str) -> String {
        let mut rest = &self.params[..];
        while !rest.is_empty() {
            let (name_len, value_len) = (length(&mut rest), length(&mut rest));
            let (name, behind) = rest.split_at(name_len);
            let (value, behind) = behind.split_at(value_len);
            if name == wanted.as_bytes() {
                return String::from_utf8_lossy(value).into_owned();
            }
            rest = behind;
        }
        panic!("no {wanted}")
    }
}

/// The answer to a request.
fn said(method: &str, uri: &str, body: &[u8]) -> Vec<u8> {
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    let text = format!("{method} {uri} with {} bytes, {sum}; ", body.len());
    let len = uri.split_once('?').and_then(|(_, len)| len.parse().ok()).unwrap_or(0);
    // Else how the body leaves depends on how much of it is there.
    let kind = "application/octet-stream";
    let head = format!("Content-Type: {kind}\r\nContent-Length: {len}\r\n\r\n");
    let mut answer = head.into_bytes();
    answer.extend(text.bytes().cycle().take(len));
    answer
}

/// The variables of a request by SCGI, and what follows them, once all of them came.
fn netstring(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let (len, rest) = (str::from_utf8(&bytes[..colon]).expect("a length"), &bytes[colon + 1..]);
    let (head, rest) = rest.split_at_checked(len.parse().expect("a length"))?;
    let (comma, body) = rest.split_first()?;
    assert_eq!(*comma, b',', "the end of a netstring");
    Some((head, body))
}

/// One of those variables.
fn scgi_param(head: &[u8], wanted: &str) -> String {
    let texts: Vec<&[u8]> = head.split(|byte| *byte == 0).collect();
    let pair = texts.chunks_exact(2).find(|pair| pair[0] == wanted.as_bytes());
    String::from_utf8_lossy(pair.unwrap_or_else(|| panic!("no {wanted}"))[1]).into_owned()
}

/// The length of a name or a value.
fn length(rest: &mut &[u8]) -> usize {
    let bytes = if rest[0] < 0x80 { 1 } else { 4 };
    let (length, behind) = rest.split_at(bytes);
    *rest = behind;
    length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) & 0x7fff_ffff
}

/// The first record: its kind, its content, and its length.
fn record(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = usize::from(header[4]) << 8 | usize::from(header[5]);
    let whole = HEADER_BYTES + len + usize::from(header[6]);
    let content = bytes.get(..whole)?;
    Some((header[1], &content[HEADER_BYTES..HEADER_BYTES + len], whole))
}

fn add(kind: u8, content: &[u8], said: &mut Vec<u8>) {
    let [high, low] = (content.len() as u16).to_be_bytes();
    said.extend([1, kind, 0, 1, high, low, 0, 0]);
    said.extend(content);
}
