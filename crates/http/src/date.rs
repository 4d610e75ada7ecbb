//! Time as a parameter: one reading of the clocks, with the `Date` field formatted once a second.

use std::time::{Duration, SystemTime};

/// Length of an IMF-fixdate (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// Weekdays, of which two of the forms of a date write the first three letters.
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// One reading of the clocks, lent to every input of the machine.
///
/// JAWS's "lazy time header" (S3, section 3.2.2): the text is made again only when the second
/// changes, so a driver keeps one `Now` and calls [`Now::set`] once per turn of its loop.
#[derive(Clone, Debug)]
pub struct Now {
    ms: u64,
    unix_ms: u64,
    date: [u8; DATE_BYTES],
}

impl Now {
    /// A reading: `ms` on any monotonic clock, `unix_ms` in milliseconds since 1970.
    pub fn new(ms: u64, unix_ms: u64) -> Now {
        Now { ms, unix_ms, date: format_date(unix_ms / 1000) }
    }

    /// Moves the reading forward; formats only when the second changed.
    pub fn set(&mut self, ms: u64, unix_ms: u64) {
        self.ms = ms;
        if unix_ms / 1000 != self.unix_ms / 1000 {
            self.date = format_date(unix_ms / 1000);
        }
        self.unix_ms = unix_ms;
    }

    /// Monotonic milliseconds.
    pub fn ms(&self) -> u64 {
        self.ms
    }

    /// Seconds since 1970, UTC.
    pub fn unix(&self) -> u64 {
        self.unix_ms / 1000
    }

    /// Milliseconds since 1970, UTC.
    pub fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// The text of the `Date` field.
    pub fn date(&self) -> &[u8; DATE_BYTES] {
        &self.date
    }
}

/// Formats seconds since 1970 as an IMF-fixdate; years past 9999 show as the last second of 9999.
pub fn format_date(unix: u64) -> [u8; DATE_BYTES] {
    const LAST: u64 = 253_402_300_799;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(unix.min(LAST));
    let mut date = [b' '; DATE_BYTES];
    let text = httpdate::HttpDate::from(time).to_string();
    date.copy_from_slice(&text.as_bytes()[..DATE_BYTES]);
    date
}

/// Reads an HTTP-date in any of its three forms; `None` when it is not one. A weekday that is not
/// that of the date is passed over, as nginx and Apache do: the rest says all.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    seconds(text).or_else(|| {
        let (day, rest) = text.split_at(text.find([',', ' '])?);
        let is_short = day.len() == 3;
        let is_named = |name: &&&str| **name == day || is_short && name.starts_with(day);
        WEEKDAYS.iter().find(is_named)?;
        WEEKDAYS.iter().find_map(|name| {
            seconds(&format!("{}{rest}", if is_short { &name[..3] } else { name }))
        })
    })
}

fn seconds(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_changes_only_with_the_second() {
        let mut now = Now::new(5, 784_111_777_001);
        assert_eq!(now.date(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        now.set(6, 784_111_777_999);
        assert_eq!((now.ms(), now.date()), (6, b"Sun, 06 Nov 1994 08:49:37 GMT"));
        now.set(7, 784_111_778_000);
        assert_eq!(now.date(), b"Sun, 06 Nov 1994 08:49:38 GMT");
    }

    #[test]
    fn all_three_forms_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_date(b"yesterday"), None);
        assert_eq!(parse_date(b"\xff"), None);
    }

    #[test]
    fn a_weekday_that_is_wrong_is_passed_over_and_one_that_is_none_is_not() {
        for day in WEEKDAYS {
            for text in [
                format!("{}, 06 Nov 1994 08:49:37 GMT", &day[..3]),
                format!("{day}, 06-Nov-94 08:49:37 GMT"),
                format!("{} Nov  6 08:49:37 1994", &day[..3]),
            ] {
                assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
            }
        }
        for text in [
            "Sum, 06 Nov 1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
            ", 06 Nov 1994 08:49:37 GMT",
            "Mon, 31 Nov 1994 08:49:37 GMT",
            "Monday, 06 Nov 1994 08:49:37 GMT",
            "Sunday,",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_date_past_the_year_9999_is_clamped() {
        assert_eq!(&format_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
