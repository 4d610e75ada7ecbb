//! Lines of the common log format, and of the combined one, which has more at its end:
//! `host ident user [dd/Mon/yyyy:HH:MM:SS zone] "METHOD URI PROTOCOL" status bytes`.
//!
//! Logs of real servers (those of NASA and ClarkNet of 1995, say) have requests without a protocol,
//! quotes and blanks in a URI, bytes that are no UTF-8, and sizes of `-`: these are read. A request
//! of HTTP/0.9 is asked for by HTTP/1.0.
//!
//! A line may end with a word that says how its answer ended, as `$end` of this server does.

use flyball_http::End;

use super::Entry;
use crate::workload::target::target_of;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// What a line says.
///
/// # Errors
/// What is wrong with it.
pub(super) fn entry(line: &[u8]) -> Result<Entry<'_>, &'static str> {
    let client = &line[..position(line, b' ').ok_or("it has one word")?];
    let opened = position(line, b'[').ok_or("it has no [time]")?;
    let closed = opened + position(&line[opened..], b']').ok_or("its [time] has no end")?;
    let time_s = time(&line[opened + 1..closed]).ok_or("its [time] is none")?;
    let rest = line[closed + 1..].trim_ascii();
    let rest = rest.strip_prefix(b"\"").ok_or("it has no \"request\"")?;
    let is_cut = End::is_cut(rest);
    let (line, status, bytes) = quoted(rest).ok_or("no status follows a quote")?;
    let (method, target, is_http10) = request(line)?;
    Ok(Entry { client, time_s, method, target, is_http10, status, bytes, is_cut })
}

fn position(text: &[u8], wanted: u8) -> Option<usize> {
    text.iter().position(|byte| *byte == wanted)
}

/// What is before the first quote that a status and a size follow, and these.
fn quoted(text: &[u8]) -> Option<(&[u8], u16, u64)> {
    let mut quotes = text.iter().enumerate().filter(|(_, byte)| **byte == b'"');
    quotes.find_map(|(at, _)| {
        let (status, bytes) = outcome(&text[at + 1..])?;
        Some((&text[..at], status, bytes))
    })
}

/// The status and the size that are next; a size of `-` is none.
fn outcome(text: &[u8]) -> Option<(u16, u64)> {
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    let mut words = text.split(blank).filter(|word| !word.is_empty());
    let (status, size) = (words.next()?, words.next()?);
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let is_size = size == b"-" || is_number(size);
    let is_one = text.first().is_some_and(blank) && status.len() == 3 && is_number(status);
    if !is_one || !is_size {
        return None;
    }
    let bytes = str::from_utf8(size).ok()?.parse().unwrap_or(0);
    Some((str::from_utf8(status).ok()?.parse().ok()?, bytes))
}

/// Method, path, and whether it is of a protocol before HTTP/1.1.
fn request(line: &[u8]) -> Result<(&str, String, bool), &'static str> {
    let line = line.trim_ascii();
    let blank = line.iter().position(u8::is_ascii_whitespace);
    // A lone path was asked for by GET.
    let (method, rest) = match blank {
        Some(at) => (str::from_utf8(&line[..at]).unwrap_or_default(), &line[at..]),
        None => ("GET", line),
    };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err("its request has no method");
    }
    if method == "CONNECT" {
        return Err("CONNECT asks for no file");
    }
    let last = rest.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    let protocol = rest[last..].get(..5).filter(|start| start.eq_ignore_ascii_case(b"HTTP/"));
    let path = if protocol.is_some() { &rest[..last] } else { rest };
    let is_http10 = protocol.is_none() || rest[last..].ends_with(b"1.0");
    let path = unescaped(path.trim_ascii());
    // A fragment is the browser's affair, and no part of what it meant to ask for.
    let whole = path.split(|byte| *byte == b'#').next().unwrap_or(&path);
    let target = target_of(whole).ok_or("its request has no path")?;
    Ok((method, target, is_http10))
}

/// A path without the escapes that Apache writes: `\"`, `\\` and `\xhh`.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let hex = after.get(1..3).and_then(|digits| str::from_utf8(digits).ok());
        match (after.first(), hex.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (Some(b'x'), Some(escaped)) => {
                plain.push(escaped);
                rest = &after[3..];
            }
            (Some(quote @ (b'"' | b'\\')), _) => {
                plain.push(*quote);
                rest = &after[1..];
            }
            _ => plain.push(b'\\'),
        }
    }
    plain
}

/// Seconds since 1970 of `dd/Mon/yyyy:HH:MM:SS ±zzzz`; without a zone it is of UTC.
fn time(text: &[u8]) -> Option<i64> {
    let (stamp, zone) = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], text[at..].trim_ascii()),
        None => (text, &b"+0000"[..]),
    };
    let mut parts = stamp.split(|byte| matches!(byte, b'/' | b':'));
    let day = number(parts.next()?, 1, 31)?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))? as i64 + 1;
    let year = number(parts.next()?, 1970, 9999)?;
    let hour = number(parts.next()?, 0, 23)?;
    let minute = number(parts.next()?, 0, 59)?;
    let second = number(parts.next()?, 0, 60)?;
    if parts.next().is_some() || zone.len() != 5 {
        return None;
    }
    let offset_s = number(&zone[1..3], 0, 23)? * 3_600 + number(&zone[3..5], 0, 59)? * 60;
    let offset_s = match zone[0] {
        b'+' => offset_s,
        b'-' => -offset_s,
        _ => return None,
    };
    let clock_s = hour * 3_600 + minute * 60 + second;
    Some(days(year, month, day) * 86_400 + clock_s - offset_s)
}

fn number(digits: &[u8], least: i64, most: i64) -> Option<i64> {
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

/// Days from the beginning of 1970: years begin in March here, so that leap days end them.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(request: &[u8]) -> Result<(String, String, bool), &'static str> {
        let mut line = b"h - u [01/Aug/1995:00:00:07 -0400] \"".to_vec();
        line.extend_from_slice(request);
        let entry = entry(&line)?;
        assert_eq!((entry.client, entry.time_s), (&b"h"[..], 807_249_607));
        assert!([200, 304, 400, 404].contains(&entry.status) && entry.bytes < 2_000);
        Ok((entry.method.into(), entry.target, entry.is_http10))
    }

    #[test]
    fn the_oddities_of_real_logs_survive() {
        let found = |method: &str, target: &str, old| Ok((method.into(), target.into(), old));
        for (line, expected) in [
            (&b"GET /a HTTP/1.0\" 200 1839"[..], found("GET", "/a", true)),
            (b"GET /a HTTP/1.1\" 304 -\r", found("GET", "/a", false)),
            (b"GET /no-protocol\" 200 5", found("GET", "/no-protocol", true)),
            (b"GET /a b HTTP/1.0\" 404 -", found("GET", "/a%20b", true)),
            (b"GET /a\"b\" HTTP/1.0\" 404 -", found("GET", "/a%22b%22", true)),
            (b"GET /a\" 200 b\" 404 -", found("GET", "/a%22%20200%20b", true)),
            (b"GET /\xe4\x96 HTTP/1.0\" 400 -", found("GET", "/%E4%96", true)),
            (b"GET /\\xe4\\\"\\q HTTP/1.0\" 400 -", found("GET", "/%E4%22\\q", true)),
            (b"GET  /two  HTTP/1.0 \" 200 3", found("GET", "/two", true)),
            (b"/lone\" 200 3", found("GET", "/lone", true)),
            (
                b"POST http://h/x HTTP/1.1\" 200 3 \"-\" \"me \\\"9\\\"\"",
                found("POST", "/x", false),
            ),
        ] {
            let shown = String::from_utf8_lossy(line);
            assert_eq!(read(line), expected, "{shown}");
        }
    }

    #[test]
    fn what_asks_for_nothing_is_told() {
        for (line, why) in [
            (&b"GET /a HTTP/1.0"[..], "no status"),
            (b"GET /a HTTP/1.0\" abc 5", "no status"),
            (b"\" 400 -", "no path"),
            (b"GET HTTP/1.0\" 400 -", "no path"),
            (b"get\\x00 /a\" 400 -", "no method"),
            (b"CONNECT h:443 HTTP/1.0\" 400 -", "CONNECT"),
        ] {
            let shown = String::from_utf8_lossy(line);
            assert!(read(line).unwrap_err().contains(why), "{shown}");
        }
        for (line, why) in [
            (&b"alone"[..], "one word"),
            (b"h - -", "no [time]"),
            (b"h [1/", "no end"),
            (b"h [32/Jan/1995:00:00:00 +0000] \"GET /\" 200 1", "is none"),
            (b"h [01/Jan/1995:00:00:00 0000] \"GET /\" 200 1", "is none"),
            (b"h [01/Jan/1995:00:00:00 +0000]", "no \"request\""),
        ] {
            assert!(entry(line).unwrap_err().contains(why), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn times_are_of_their_zone() {
        assert_eq!(time(b"01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(time(b"01/Jan/1970:01:30:00 +0130"), Some(0));
        assert_eq!(time(b"29/Feb/2000:23:59:59"), Some(951_868_799));
        assert_eq!(time(b"31/Dec/2026:00:00:00 -0000"), Some(1_798_675_200));
    }
}
