//! How values stand in a line: numbers, addresses, dates, and bytes that a client chose.

use std::io::Write;
use std::net::IpAddr;

use flyball_http::{Now, Remote};
use serde_json::Value;

/// How bytes of a client are written so that they can neither end a value nor a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Quotes, backslashes and whatever is not printable ASCII become `\xHH`.
    Plain,
    /// The string escapes of JSON (RFC 8259, section 7). A byte that is not ASCII becomes the
    /// character of its number, so that hostile bytes are valid text and can be told again.
    Json,
}

/// Appends a number in decimal.
pub(crate) fn number(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends the address of a client, or that it has none.
pub(crate) fn client(client: Remote, out: &mut Vec<u8>) {
    match client {
        Remote::Ip(IpAddr::V4(v4)) => {
            let [first, rest @ ..] = v4.octets();
            number(u64::from(first), out);
            for octet in rest {
                out.push(b'.');
                number(u64::from(octet), out);
            }
        }
        // Writing to a vector cannot fail.
        other => drop(write!(out, "{other}")),
    }
}

/// Appends 16 hexadecimal digits.
pub(crate) fn hexadecimal(n: u64, out: &mut Vec<u8>) {
    out.extend((0..16).rev().map(|digit| HEXADECIMAL[(n >> (4 * digit)) as usize & 15]));
}

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// Appends bytes of a client, at most `most` of them.
pub(crate) fn escape(text: &[u8], most: usize, style: Style, out: &mut Vec<u8>) {
    let (text, cut) = if text.len() > most { (&text[..most], true) } else { (text, false) };
    // No way out of the loop: that lets the compiler look at many bytes at a time.
    if text.iter().fold(true, |clean, &byte| clean & is_clean(byte)) {
        out.extend_from_slice(text);
    } else {
        text.iter().for_each(|&byte| escape_byte(byte, style, out));
    }
    if cut {
        out.extend_from_slice(b"...");
    }
}

fn is_clean(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) & (byte != b'"') & (byte != b'\\')
}

fn escape_byte(byte: u8, style: Style, out: &mut Vec<u8>) {
    match (byte, style) {
        (byte, _) if is_clean(byte) => out.push(byte),
        (b'"' | b'\\', Style::Json) => out.extend_from_slice(&[b'\\', byte]),
        (_, Style::Plain) => {
            out.extend_from_slice(b"\\x");
            out.extend([byte >> 4, byte & 15].map(|digit| HEXADECIMAL[usize::from(digit)]));
        }
        (_, Style::Json) => escape_character(char::from(byte), out),
    }
}

/// A character by its number, as in a string of JSON.
fn escape_character(character: char, out: &mut Vec<u8>) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        out.extend((0..4).rev().map(|digit| HEXADECIMAL[usize::from(*unit >> (4 * digit)) & 15]));
    }
}

/// Bytes of a client as text: each is the character of its number, as in [`Style::Json`].
pub(crate) fn characters(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// A value as JSON in one line of printable ASCII, as lines of the access log are: only strings
/// have other characters, which are written by their numbers.
pub fn ascii_json(value: &Value) -> String {
    let mut out = Vec::new();
    for character in value.to_string().chars() {
        match character {
            ' '..='~' => out.push(character as u8),
            _ => escape_character(character, &mut out),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Length of `21/Nov/2026:09:00:00 +0000`.
const LOCAL_BYTES: usize = 26;

/// Length of `2026-11-21T09:00:00Z`.
const ISO_BYTES: usize = 20;

/// The time in the forms of a log, made anew when the second changes.
#[derive(Clone, Debug)]
pub(crate) struct Dates {
    of: u64,
    local: [u8; LOCAL_BYTES],
    iso: [u8; ISO_BYTES],
}

impl Dates {
    pub(crate) fn new() -> Dates {
        Dates { of: u64::MAX, local: [b'-'; LOCAL_BYTES], iso: [b'-'; ISO_BYTES] }
    }

    pub(crate) fn set(&mut self, now: &Now) {
        if now.unix() == self.of {
            return;
        }
        self.of = now.unix();
        // From `Sun, 06 Nov 1994 08:49:37 GMT`.
        let date = now.date();
        let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        join(&mut self.local, &[day, b"/", month, b"/", year, b":", time, b" +0000"]);
        join(&mut self.iso, &[year, b"-", month_number(month), b"-", day, b"T", time, b"Z"]);
    }

    /// As in the common format, in UTC.
    pub(crate) fn local(&self) -> &[u8] {
        &self.local
    }

    /// As in RFC 3339, in UTC.
    pub(crate) fn iso(&self) -> &[u8] {
        &self.iso
    }
}

fn join(into: &mut [u8], parts: &[&[u8]]) {
    let mut at = 0;
    for part in parts {
        into[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

fn month_number(name: &[u8]) -> &'static [u8] {
    match name {
        b"Jan" => b"01",
        b"Feb" => b"02",
        b"Mar" => b"03",
        b"Apr" => b"04",
        b"May" => b"05",
        b"Jun" => b"06",
        b"Jul" => b"07",
        b"Aug" => b"08",
        b"Sep" => b"09",
        b"Oct" => b"10",
        b"Nov" => b"11",
        _ => b"12",
    }
}

/// Bytes of a client as they may stand in a line.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut line = Vec::new();
    escape(bytes, bytes.len(), Style::Plain, &mut line);
    String::from_utf8_lossy(&line).into_owned()
}

/// The time as `2026-11-21T09:00:00.123Z`.
pub(crate) fn iso_date(now: &Now) -> String {
    let mut dates = Dates::new();
    dates.set(now);
    let seconds = String::from_utf8_lossy(dates.iso()).into_owned();
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), now.unix_ms() % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_addresses_read_as_the_standard_library_shows_them() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(written(|out| number(n, out)), n.to_string());
            assert_eq!(written(|out| hexadecimal(n, out)), format!("{n:016x}"));
        }
        for text in ["0.0.0.0", "127.0.0.1", "255.10.9.100", "::1", "2001:db8::7", "unix"] {
            let remote = text.parse().map_or(Remote::Unix, Remote::Ip);
            assert_eq!(written(|out| client(remote, out)), text);
        }
    }

    #[test]
    fn every_byte_is_escaped_so_that_it_can_be_told_again() {
        for byte in 0..=255u8 {
            let text = [b'a', byte, b'z'];
            let json = written(|out| escape(&text, 9, Style::Json, out));
            let read: String = serde_json::from_str(&format!("\"{json}\"")).unwrap();
            assert_eq!(read.chars().map(u32::from).collect::<Vec<_>>(), text.map(u32::from));
            let plain = written(|out| escape(&text, 9, Style::Plain, out));
            assert!(plain.bytes().all(|b| (b' '..0x7f).contains(&b) && b != b'"'), "{plain}");
            assert_eq!(plain.contains('\\'), !is_clean(byte), "{plain}");
        }
        assert_eq!(
            written(|out| escape(b"a\"\\\n\xe9", 9, Style::Plain, out)),
            r"a\x22\x5c\x0a\xe9"
        );
    }

    #[test]
    fn json_is_ascii_and_reads_as_what_it_was() {
        let bytes: Vec<u8> = (0..=255).collect();
        let value =
            serde_json::json!({ "bytes": characters(&bytes), "\u{202e}": ["\u{1f41d}", 7] });
        let text = ascii_json(&value);
        assert!(text.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        // A client's bytes look the same in a line of the access log.
        let bytes = [b"a\xc2\x9b\xe2\x80\xaez\x7f".as_slice(), b"\"\\"].concat();
        let logged = written(|out| escape(&bytes, 99, Style::Json, out));
        assert_eq!(ascii_json(&characters(&bytes).into()), format!("\"{logged}\""));
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(written(|out| escape(b"abcdef", 6, Style::Plain, out)), "abcdef");
        assert_eq!(written(|out| escape(b"abcdef", 5, Style::Plain, out)), "abcde...");
    }

    #[test]
    fn dates_are_made_from_the_date_field() {
        let mut dates = Dates::new();
        dates.set(&Now::new(0, 784_111_777_000));
        assert_eq!(dates.local(), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(dates.iso(), b"1994-11-06T08:49:37Z");
        for month in 0..12u64 {
            let day_15 = (month * 30 + 15) * 86_400_000;
            dates.set(&Now::new(0, day_15));
            assert!(dates.iso().starts_with(format!("1970-{:02}-", month + 1).as_bytes()));
        }
    }
}
