//! Numbers and times in words, as the operator is told them.

/// A number of things: `1 day`, `2 days`.
pub fn counted(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A time in seconds by the largest unit that it fills, rounded down: `89 days`, `1 hour`.
pub fn lasting(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    match UNITS.iter().find(|(unit, _)| seconds >= *unit) {
        Some((unit, noun)) => counted(seconds / unit, noun),
        None => "less than a second".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_unit_and_one_is_no_plural() {
        for (seconds, told) in [
            (0, "less than a second"),
            (1, "1 second"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (7_199, "1 hour"),
            (86_399, "23 hours"),
            (86_400, "1 day"),
            (2 * 86_400, "2 days"),
            (400 * 86_400, "400 days"),
        ] {
            assert_eq!(lasting(seconds), told);
        }
    }
}
