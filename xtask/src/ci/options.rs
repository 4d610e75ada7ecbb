//! What `cargo xtask ci` is asked for.

/// How it is called.
pub(super) const USAGE: &str = "\
usage: cargo xtask ci [--full | --times | --timed] [--repeat N] [--beside N] [--hog SIZE]

  --full      run the full tier alone
  --times     run each test executable by itself, and write the table of CONTRIBUTING.md
  --timed     run the tests that have a bound of wall time, and no others
  --repeat N  N times
  --beside N  beside N busy loops
  --hog SIZE  beside a process that keeps touching so much memory, such as 2GiB";

/// Bytes of a GiB.
const GIB: usize = 1 << 30;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Format, clippy and both tiers.
    Steps,
    /// The full tier.
    Full,
    /// Each executable by itself, for the table.
    Times,
    /// The tests with a bound of wall time.
    Timed,
}

/// What is run, how often, and beside what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) what: What,
    pub(super) repeat: usize,
    /// Busy loops.
    pub(super) beside: usize,
    /// Memory that is touched meanwhile, in bytes.
    pub(super) hog_bytes: usize,
}

impl Options {
    /// # Errors
    /// When an argument is unknown or lacks its number.
    pub(super) fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options { what: What::Steps, repeat: 1, beside: 0, hog_bytes: 0 };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            let mut number = |unit: &str| {
                let text = left.next().map_or("", String::as_str);
                let digits = text.strip_suffix(unit).unwrap_or(text);
                digits.parse::<usize>().map_err(|_| format!("{argument} takes a number"))
            };
            match argument.as_str() {
                "--full" => options.what = What::Full,
                "--times" => options.what = What::Times,
                "--timed" => options.what = What::Timed,
                "--repeat" => options.repeat = number("")?,
                "--beside" => options.beside = number("")?,
                "--hog" => options.hog_bytes = number("GiB")?.saturating_mul(GIB),
                other => return Err(format!("{other} is unknown")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let steps = Options { what: What::Steps, repeat: 1, beside: 0, hog_bytes: 0 };
        assert_eq!(parsed(""), Ok(steps));
        let timed = Options { what: What::Timed, repeat: 30, beside: 4, hog_bytes: 2 * GIB };
        assert_eq!(parsed("--timed --repeat 30 --beside 4 --hog 2GiB"), Ok(timed));
        assert_eq!(parsed("--full").map(|options| options.what), Ok(What::Full));
        assert!(parsed("--repeat").is_err());
        assert!(parsed("--fast").is_err());
    }
}
