//! A request and its answer, as a module sees them during a call.

use std::fmt;
use std::net::IpAddr;

/// Why something was not taken into an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no status, no name or no value of a field, or a field that is the server's to write.
    Malformed,
    /// The head has left already.
    TooLate,
    /// It is more than one call may write.
    TooMuch,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Malformed => "it cannot stand in an answer",
            Refused::TooLate => "the head of the answer has left",
            Refused::TooMuch => "it is more than one call may write",
        })
    }
}

impl std::error::Error for Refused {}

/// A request and its answer. Nothing here blocks. What is given out is valid until the next call
/// that changes something.
///
/// An answer has the status 200 unless another is set, and as its length what was written when the
/// module is done, unless it waits before: then the rest follows in chunks, or is as long as a
/// field `Content-Length` says that it will be. The server writes `Date`, `Server`, `Connection`
/// and what says how long the content is, and sends no content where there must be none.
pub trait Exchange {
    /// The method.
    fn method(&self) -> &[u8];

    /// The target as it was sent.
    fn target(&self) -> &[u8];

    /// The path, decoded except for `%2F`, without dot segments.
    fn path(&self) -> &[u8];

    /// What of the path follows that of the module: empty, or with a slash at its start.
    fn below(&self) -> &[u8];

    /// The query without its `?`, as it was sent.
    fn query(&self) -> &[u8];

    /// The value of the first field of this name, whatever its case.
    fn field(&self, name: &[u8]) -> Option<&[u8]>;

    /// The field line of this number, counted from 0: its name and its value.
    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])>;

    /// The address of the client; `None` where it came over a Unix-domain socket.
    fn peer(&self) -> Option<IpAddr>;

    /// A name for this request that no other of this server has.
    fn id(&mut self) -> &str;

    /// The bytes of the request body that are there and that were not taken.
    fn body(&self) -> &[u8];

    /// Takes the first `n` of them: they are not given out again.
    fn take(&mut self, n: usize);

    /// Whether what [`Exchange::body`] gives is the last of the body.
    fn body_ended(&self) -> bool;

    /// Sets the status of the answer, 200 to 599.
    ///
    /// # Errors
    /// When it is none, or the head has left.
    fn set_status(&mut self, code: u16) -> Result<(), Refused>;

    /// Adds a field to the head of the answer.
    ///
    /// # Errors
    /// When it is malformed or the server's to write, or the head has left.
    fn add_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refused>;

    /// Appends bytes to the content of the answer.
    ///
    /// # Errors
    /// When it is more than [`crate::abi::WRITTEN_MAX`] in one call.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused>;

    /// Appends a range of a file of the site to the content, by the path that a client would ask
    /// for it: from `offset` on, `len` bytes or all that follow. It is sent as files are. If there
    /// is no such range, the answer is 404, or broken off where its head has left.
    ///
    /// # Errors
    /// When it is no path, or too many files in one call.
    fn send_file(&mut self, path: &[u8], offset: u64, len: Option<u64>) -> Result<(), Refused>;

    /// Leaves the answer to the site: as if the client had asked for this path, with its
    /// conditions and ranges. Nothing else may have been written.
    ///
    /// # Errors
    /// When it is no path, or the head has left.
    fn serve(&mut self, path: &[u8]) -> Result<(), Refused>;

    /// Writes a line into the server's log of errors, which names this request.
    fn log(&mut self, text: &str);

    /// The value of a cookie of the request (RFC 6265, section 5.4).
    fn cookie(&self, name: &[u8]) -> Option<&[u8]> {
        let mut index = 0;
        // Most requests have no cookie, and one look is cheaper than a walk.
        self.field(b"cookie")?;
        while let Some((field, value)) = self.field_at(index) {
            index += 1;
            if field.eq_ignore_ascii_case(b"cookie")
                && let Some(value) = cookie_in(value, name)
            {
                return Some(value);
            }
        }
        None
    }

    /// Sets a cookie (RFC 6265, section 4.1); `attributes` are such as `Path=/; HttpOnly`, or
    /// empty.
    ///
    /// # Errors
    /// As [`Exchange::add_field`].
    fn set_cookie(&mut self, name: &[u8], value: &[u8], attributes: &[u8]) -> Result<(), Refused> {
        let is_name = |byte: &u8| byte.is_ascii_graphic() && !b"=;,\"".contains(byte);
        let is_value = |byte: &u8| byte.is_ascii_graphic() && !b";,\"\\".contains(byte);
        if name.is_empty() || !name.iter().all(is_name) || !value.iter().all(is_value) {
            return Err(Refused::Malformed);
        }
        let mut line = Vec::with_capacity(name.len() + value.len() + attributes.len() + 3);
        line.extend_from_slice(name);
        line.push(b'=');
        line.extend_from_slice(value);
        if !attributes.is_empty() {
            line.extend_from_slice(b"; ");
            line.extend_from_slice(attributes);
        }
        self.add_field(b"Set-Cookie", &line)
    }
}

/// The value of a cookie in one field line.
fn cookie_in<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    line.split(|&byte| byte == b';').find_map(|pair| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|&byte| byte == b'=')?;
        (pair[..at] == *name).then(|| &pair[at + 1..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let line = b"ab=1; a=2;b=; c=x=y";
        assert_eq!(cookie_in(line, b"a"), Some(b"2".as_slice()));
        assert_eq!(cookie_in(line, b"ab"), Some(b"1".as_slice()));
        assert_eq!(cookie_in(line, b"b"), Some(b"".as_slice()));
        assert_eq!(cookie_in(line, b"c"), Some(b"x=y".as_slice()));
        assert_eq!(cookie_in(line, b"d"), None);
    }
}
