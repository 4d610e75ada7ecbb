//! What a program says on its error output, as lines of the server's own log.

use flyball_sys::error_log::Level;
use flyball_sys::say;

/// Most bytes of error output that are logged for one request; the rest is thrown away.
const LOGGED_BYTES_MAX: usize = 16 * 1024;

/// Longest line.
const LINE_BYTES_MAX: usize = 1024;

/// The error output of one request.
#[derive(Debug, Default)]
pub struct ErrorOutput {
    /// The path of the request and its id.
    name: String,
    line: Vec<u8>,
    left: usize,
}

impl ErrorOutput {
    /// That of what is called so in the log.
    pub fn new(name: String) -> ErrorOutput {
        ErrorOutput { name, line: Vec::new(), left: LOGGED_BYTES_MAX }
    }

    /// Logs each line that is whole by now.
    pub fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().take(self.left) {
            if byte == b'\n' || self.line.len() >= LINE_BYTES_MAX {
                self.flush();
            }
            if byte != b'\n' {
                self.line.push(byte);
            }
        }
        self.left -= bytes.len().min(self.left);
    }

    /// From here on it is that of another request.
    pub fn begin(&mut self, name: String) {
        self.name = name;
        self.line.clear();
        self.renew();
    }

    /// As much as in the beginning may be logged again.
    pub fn renew(&mut self) {
        self.left = LOGGED_BYTES_MAX;
    }

    /// Logs what is left of a line.
    pub fn flush(&mut self) {
        if !self.line.is_empty() {
            self.say(&self.line);
            self.line.clear();
        }
    }

    /// Logs a line of the server's own about this request.
    pub fn say(&self, line: &[u8]) {
        say!(Level::Warn, "{}", written(&self.name, line));
    }
}

/// A line of the log.
fn written(name: &str, line: &[u8]) -> String {
    format!("{name}: {}", String::from_utf8_lossy(line).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_flood_the_log() {
        assert_eq!(written("cgi /x 1-2", b"a\xffb\r\n"), "cgi /x 1-2: a\u{fffd}b");
        let mut errors = ErrorOutput::new("cgi".into());
        errors.take(&[b'x'; 3 * LOGGED_BYTES_MAX]);
        assert_eq!(errors.left, 0);
        assert!(errors.line.len() <= LINE_BYTES_MAX);
    }
}
