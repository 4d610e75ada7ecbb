//! The command line of `flyball top`.

use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches};

use super::{Failure, admin};
use crate::top::Top;

/// Bounds of the time between two looks, in seconds.
const EVERY_S_MIN: f64 = 0.1;
const EVERY_S_MAX: f64 = 3_600.0;

pub(super) fn program() -> clap::Command {
    clap::Command::new("top")
        .about("Show what a running server does: rates, times, connections, caches, workers")
        .long_about(
            "Show what a running server does: rates, times, connections, caches, workers. It asks \
             the address of the server's --admin for its status, and shows what happened between \
             two answers. The keys are told by h.",
        )
        .arg(admin::any())
        .arg(
            Arg::new("every")
                .long("every")
                .value_name("SECONDS")
                .default_value("1")
                .value_parser(ValueParser::new(every))
                .help("Time between two looks"),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Print one interval as text, and end"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print each interval as a line of JSON; with --once only one"),
        )
}

/// # Errors
/// When no server is named.
pub(super) fn parsed(given: &ArgMatches) -> Result<Top, Failure> {
    Ok(Top {
        admin: admin::any_given(given)?,
        every: given.get_one::<Duration>("every").copied().unwrap_or(Duration::from_secs(1)),
        once: given.get_flag("once"),
        json: given.get_flag("json"),
    })
}

fn every(text: &str) -> Result<Duration, String> {
    let seconds = text.trim_end_matches('s').parse::<f64>().ok();
    seconds
        .filter(|seconds| (EVERY_S_MIN..=EVERY_S_MAX).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("expected seconds from {EVERY_S_MIN} to {EVERY_S_MAX}"))
}
