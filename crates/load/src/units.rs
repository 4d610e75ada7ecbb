//! Numbers with units, as they are written on a command line.

use std::time::Duration;

/// `500ms`, `10s`, `2m`, `1h`, `250us`; a bare number is seconds.
///
/// # Errors
/// What is expected instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(DURATION.into()),
    };
    let number: f64 = number.parse().map_err(|_| DURATION)?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| DURATION.into())
}

const DURATION: &str = "expected a time such as 500ms, 10s or 2m";

/// A number of things per second: `1000`, `2.5`, `20k`.
///
/// # Errors
/// What is expected instead.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let expected = || "expected a rate such as 1000, 2.5 or 20k".to_string();
    let (number, factor) = match text.strip_suffix('k') {
        Some(number) => (number, 1000.0),
        None => (text, 1.0),
    };
    let rate = number.parse::<f64>().map_err(|_| expected())? * factor;
    if rate.is_finite() && rate >= 0.0 { Ok(rate) } else { Err(expected()) }
}

/// A number of bytes: `4096`, `64k`, `5M`.
///
/// # Errors
/// What is expected instead.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(BYTES.into()),
    };
    let number: u64 = number.parse().map_err(|_| BYTES)?;
    number.checked_mul(factor).ok_or_else(|| BYTES.into())
}

const BYTES: &str = "expected bytes such as 4096, 64k or 5M";

/// `1 line`, `2 lines`.
pub(crate) fn counted(count: impl TryInto<u64> + std::fmt::Display, what: &str) -> String {
    let plural = format!("{count} {what}s");
    if count.try_into().is_ok_and(|count| count == 1) { format!("1 {what}") } else { plural }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood_and_nonsense_is_not() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(parse_bytes("64k"), Ok(65536));
        assert!((parse_rate("2.5k").unwrap() - 2500.0).abs() < 1e-9);
        assert_eq!(
            (counted(1u64, "line"), counted(0usize, "file")),
            ("1 line".into(), "0 files".into())
        );
        for text in ["", "s", "5x", "-1s", "1e999s", "..s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["", "k", "-1", "99999999999999999999", "99999999999999G"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        for text in ["", "NaN", "inf", "-1", "k"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
