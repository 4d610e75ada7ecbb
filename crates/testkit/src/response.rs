//! Responses as bytes on the wire, read by rules of RFC 9112 that are stricter than a client's.

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status line without its CRLF.
    pub line: String,
    /// Every field line, in order: its name as sent, and its value.
    pub fields: Vec<(String, String)>,
    /// The head as sent, with its blank line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Reads a head, blank line included.
    ///
    /// # Panics
    /// When a line breaks the grammar of RFC 9112 as a server should write it.
    pub(crate) fn from_head(head: &[u8]) -> Response {
        let head = std::str::from_utf8(head).expect("a head in ASCII").to_owned();
        let mut lines = head.strip_suffix("\r\n\r\n").expect("a blank line").split("\r\n");
        let line = lines.next().expect("a status line").to_owned();
        let (protocol, rest) = line.split_at_checked(9).unwrap_or((&line, ""));
        let (code, phrase) = rest.split_at_checked(4).unwrap_or((rest, ""));
        let is_code = code.len() == 4 && code[..3].bytes().all(|byte| byte.is_ascii_digit());
        assert!(
            protocol == "HTTP/1.1 " && is_code && code.ends_with(' ') && !phrase.is_empty(),
            "not a status line: {line:?} in {head:?}"
        );
        let fields = lines.map(field).collect();
        Response { line, fields, head, body: Vec::new() }
    }

    /// The code of the status line.
    pub fn status(&self) -> u16 {
        self.line[9..12].parse().expect("three digits")
    }

    /// The value of the only field of this name.
    ///
    /// # Panics
    /// When there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} occurs twice in {:?}", self.head);
        first
    }

    /// The value of a field that must be there.
    ///
    /// # Panics
    /// When it is not, or occurs twice.
    #[track_caller]
    pub fn expect(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.head))
    }

    /// `Content-Length` as a number.
    pub fn content_length(&self) -> Option<usize> {
        let value = self.field("Content-Length")?;
        assert!(value.bytes().all(|byte| byte.is_ascii_digit()), "a bad length in {:?}", self.head);
        Some(value.parse().expect("a length"))
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }

    /// Bytes of body that follow the head when the request was not HEAD (RFC 9112, section 6.3).
    ///
    /// # Panics
    /// When only the end of the connection would tell.
    pub(crate) fn body_bytes(&self) -> usize {
        assert_eq!(self.field("Transfer-Encoding"), None, "a coded answer: {:?}", self.head);
        if matches!(self.status(), 100..=199 | 204 | 304) {
            return 0;
        }
        self.content_length().unwrap_or_else(|| panic!("no length in {:?}", self.head))
    }
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("not a field: {line:?}"));
    let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let visible = |byte: u8| (b' '..=b'~').contains(&byte);
    assert!(!name.is_empty() && name.bytes().all(token), "not a field name: {line:?}");
    assert!(value.trim() == value && value.bytes().all(visible), "not a field value: {line:?}");
    (name.to_owned(), value.to_owned())
}

/// Reads all of these bytes as responses to requests that were not HEAD.
///
/// # Panics
/// When they are not whole responses and nothing else.
pub fn responses(mut bytes: &[u8]) -> Vec<Response> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (response, len) = whole(bytes).unwrap_or_else(|| {
            panic!("not a whole response: {:?}", String::from_utf8_lossy(bytes))
        });
        all.push(response);
        bytes = &bytes[len..];
    }
    all
}

/// The response at the front, and its length; `None` while it is not whole.
pub(crate) fn whole(bytes: &[u8]) -> Option<(Response, usize)> {
    let (mut response, head) = head(bytes)?;
    let len = head + response.body_bytes();
    response.body = bytes.get(head..len)?.to_vec();
    Some((response, len))
}

/// The head at the front, and its length; `None` while it is not whole.
pub(crate) fn head(bytes: &[u8]) -> Option<(Response, usize)> {
    let len = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    Some((Response::from_head(&bytes[..len]), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_cut_where_their_framing_says() {
        let all = responses(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
              HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
        );
        let statuses: Vec<u16> = all.iter().map(Response::status).collect();
        assert_eq!(statuses, [100, 200, 304]);
        assert_eq!((all[1].text(), all[2].expect("etag")), ("abc", "\"x\""));
    }

    #[test]
    #[should_panic(expected = "not a whole response")]
    fn a_body_that_is_short_is_not_a_response() {
        responses(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab");
    }

    #[test]
    #[should_panic(expected = "not a field")]
    fn a_head_must_be_written_well() {
        responses(b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n");
    }
}
