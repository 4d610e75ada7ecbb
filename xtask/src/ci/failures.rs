//! What failed, said once more at the end: a run prints thousands of lines, and its reader sees the
//! last of them.

use std::io::{BufRead, Write};

/// How many lines are kept of the failures of one step.
const MOST_LINES: usize = 200;

/// The lines with which libtest begins and ends what it says of an executable's failures.
const BEGIN: &str = "failures:";
const END: &str = "test result: FAILED";

/// Passes lines on as they come, and returns those that tell of failures, at most [`MOST_LINES`].
///
/// # Errors
/// When the lines cannot be read, or not be passed on.
pub(super) fn tee(lines: impl BufRead, mut to: impl Write) -> std::io::Result<Vec<String>> {
    let (mut kept, mut is_failure) = (Vec::new(), false);
    for line in lines.split(b'\n') {
        let line = line?;
        to.write_all(&line)?;
        to.write_all(b"\n")?;
        let line = String::from_utf8_lossy(&line);
        is_failure |= line == BEGIN;
        if is_failure && kept.len() < MOST_LINES {
            kept.push(line.clone().into_owned());
        }
        is_failure &= !line.starts_with(END);
    }
    Ok(kept)
}

/// The lines of a text that tell of failures.
pub(super) fn kept(text: &str) -> Vec<String> {
    tee(text.as_bytes(), std::io::sink()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_kept_and_all_is_passed_on() {
        let said = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nwhy\n\n\
                    failures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\n\n\
                    running 0 tests\n";
        let mut passed_on = Vec::new();
        let kept = tee(said.as_bytes(), &mut passed_on).unwrap();
        assert_eq!(String::from_utf8(passed_on).unwrap(), said);
        assert_eq!(kept.first().map(String::as_str), Some("failures:"));
        assert!(kept.contains(&"why".to_owned()), "{kept:?}");
        assert_eq!(
            kept.last().map(String::as_str),
            Some("test result: FAILED. 1 passed; 1 failed")
        );
    }

    #[test]
    fn a_flood_of_failures_is_cut() {
        let said = format!("failures:\n{}", "why\n".repeat(10 * MOST_LINES));
        assert_eq!(tee(said.as_bytes(), std::io::sink()).unwrap().len(), MOST_LINES);
    }
}
