//! Times as a listing shows them.

use flyball_http::date::format_date;

/// A point of time in UTC, as text.
pub(super) struct Time {
    /// `1994-11-06`
    pub(super) date: String,
    /// `08:49`
    pub(super) minute: String,
    /// `37`
    pub(super) second: String,
}

impl Time {
    /// Takes the HTTP-date apart, which is clamped to the year 9999.
    pub(super) fn of(unix: u64) -> Time {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let text = format_date(unix);
        let text = String::from_utf8_lossy(&text);
        // `Sun, 06 Nov 1994 08:49:37 GMT`, always of this width (RFC 9110, section 5.6.7).
        let month = MONTHS.find(&text[8..11]).unwrap_or(0) / 3 + 1;
        Time {
            date: format!("{}-{month:02}-{}", &text[12..16], &text[5..7]),
            minute: text[17..22].to_owned(),
            second: text[23..25].to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_right_at_the_ends_of_years_and_clamped_at_the_last() {
        for (unix, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_704_067_199, "2023-12-31 23:59:59"),
            (1_704_067_200, "2024-01-01 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (u64::MAX, "9999-12-31 23:59:59"),
        ] {
            let time = Time::of(unix);
            assert_eq!(format!("{} {}:{}", time.date, time.minute, time.second), text);
        }
        for month in 0..12 {
            // Every 31 days from 15 January on is a day of each month of 1970.
            let time = Time::of((14 + month * 30) * 86_400);
            assert_eq!(&time.date[..8], format!("1970-{:02}-", month + 1));
        }
    }
}
