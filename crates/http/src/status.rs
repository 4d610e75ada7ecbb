//! Status codes (RFC 9110, section 15) and their status lines.

/// A status code that this server sends, of its own accord or because a backend says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal),* $(,)?) => {
        impl Status {
            $(#[doc = concat!($code, " ", $reason)] pub const $name: Status = Status($code);)*

            /// Every status that has a name here, in ascending order: those that this server sends
            /// of its own accord, and those that backends often send.
            pub const ALL: &[Status] = &[$(Status::$name),*];

            /// The reason phrase of RFC 9110; empty for a status of a backend.
            pub fn reason(self) -> &'static str {
                match self.0 { $($code => $reason,)* _ => "" }
            }

            /// The status line with its CRLF, as HTTP/1.1 (RFC 9112, section 4).
            pub fn line(self) -> &'static [u8] {
                match self.0 {
                    $($code => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes(),)*
                    code => &LINES[usize::from(code) - usize::from(FIRST)],
                }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue",
    OK 200 "OK",
    CREATED 201 "Created",
    ACCEPTED 202 "Accepted",
    NO_CONTENT 204 "No Content",
    RESET_CONTENT 205 "Reset Content",
    PARTIAL_CONTENT 206 "Partial Content",
    MULTI_STATUS 207 "Multi-Status",
    MOVED_PERMANENTLY 301 "Moved Permanently",
    FOUND 302 "Found",
    SEE_OTHER 303 "See Other",
    NOT_MODIFIED 304 "Not Modified",
    TEMPORARY_REDIRECT 307 "Temporary Redirect",
    PERMANENT_REDIRECT 308 "Permanent Redirect",
    BAD_REQUEST 400 "Bad Request",
    UNAUTHORIZED 401 "Unauthorized",
    FORBIDDEN 403 "Forbidden",
    NOT_FOUND 404 "Not Found",
    METHOD_NOT_ALLOWED 405 "Method Not Allowed",
    NOT_ACCEPTABLE 406 "Not Acceptable",
    REQUEST_TIMEOUT 408 "Request Timeout",
    CONFLICT 409 "Conflict",
    GONE 410 "Gone",
    LENGTH_REQUIRED 411 "Length Required",
    PRECONDITION_FAILED 412 "Precondition Failed",
    CONTENT_TOO_LARGE 413 "Content Too Large",
    URI_TOO_LONG 414 "URI Too Long",
    UNSUPPORTED_MEDIA_TYPE 415 "Unsupported Media Type",
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable",
    EXPECTATION_FAILED 417 "Expectation Failed",
    MISDIRECTED_REQUEST 421 "Misdirected Request",
    UNPROCESSABLE_CONTENT 422 "Unprocessable Content",
    TOO_MANY_REQUESTS 429 "Too Many Requests",
    HEADER_FIELDS_TOO_LARGE 431 "Request Header Fields Too Large",
    INTERNAL_SERVER_ERROR 500 "Internal Server Error",
    NOT_IMPLEMENTED 501 "Not Implemented",
    BAD_GATEWAY 502 "Bad Gateway",
    SERVICE_UNAVAILABLE 503 "Service Unavailable",
    GATEWAY_TIMEOUT 504 "Gateway Timeout",
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported",
}

/// The first and the last code that there can be (RFC 9110, section 15).
const FIRST: u16 = 100;
const LAST: u16 = 599;

/// The status lines of codes that only backends send: without a reason, which need not be read.
static LINES: [[u8; 15]; (LAST - FIRST) as usize + 1] = {
    let mut lines = [*b"HTTP/1.1 000 \r\n"; (LAST - FIRST) as usize + 1];
    let mut at = 0;
    while at < lines.len() {
        let code = at as u16 + FIRST;
        lines[at][9] = b'0' + (code / 100) as u8;
        lines[at][10] = b'0' + (code / 10 % 10) as u8;
        lines[at][11] = b'0' + (code % 10) as u8;
        at += 1;
    }
    lines
};

impl Status {
    /// The status of this code, which a backend gives; `None` beyond 100 to 599.
    pub const fn of(code: u16) -> Option<Status> {
        if code >= FIRST && code <= LAST { Some(Status(code)) } else { None }
    }

    /// The three digits as a number.
    pub fn code(self) -> u16 {
        self.0
    }

    /// The first digit, 1 to 5.
    pub fn class(self) -> u8 {
        (self.0 / 100) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_line_carries_its_code_and_reason() {
        for status in Status::ALL {
            let expected = format!("HTTP/1.1 {} {}\r\n", status.code(), status.reason());
            assert_eq!(status.line(), expected.as_bytes());
            assert_eq!(Status::of(status.code()), Some(*status));
        }
    }

    #[test]
    fn a_status_that_only_backends_send_has_a_line_too() {
        assert_eq!(Status::of(418).unwrap().line(), b"HTTP/1.1 418 \r\n");
        assert_eq!(Status::of(599).unwrap().line(), b"HTTP/1.1 599 \r\n");
        assert_eq!([99, 600].map(Status::of), [None, None]);
    }
}
