//! `--stolen-max` of the lab and of `flyball tune`: how much of a run's time other guests of the
//! machine may have.

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches};

const NAME: &str = "stolen-max";

pub(super) fn argument() -> Arg {
    Arg::new(NAME)
        .long(NAME)
        .value_name("PERCENT")
        .value_parser(ValueParser::new(percent))
        .help("Runs of which the machine beneath takes more are void [default: 1]")
}

pub(super) fn parsed(given: &ArgMatches) -> Option<f64> {
    given.get_one(NAME).copied()
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "expected a percentage from 0 to 100".into())
}
