//! The command line of `flyball load compare`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

/// What `flyball load compare` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// The reports of one side.
    pub a: PathBuf,
    /// Those of the other.
    pub b: PathBuf,
    /// Whether the result is JSON.
    pub json: bool,
}

pub(super) fn program() -> clap::Command {
    let file = |id: &'static str, help: &'static str| {
        Arg::new(id).value_name(id).required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    clap::Command::new("compare")
        .about("Compare the reports of two files, with intervals")
        .long_about(
            "Compare the reports that `flyball load --json` wrote to two files, with intervals of \
             95 %.\n\nA file has one report or several, one after the other. Of several runs an \
             interval is that of their mean. Of one run it comes from within the run: of a \
             percentile from the ranks of its histogram, of a rate from its seconds. It does not \
             tell by how much runs differ from each other.\n\nExit codes: 0 it is compared; 1 a \
             file cannot be read; 4 a run does not count.",
        )
        .arg(file("A.json", "Reports of `flyball load --json`"))
        .arg(file("B.json", "Those to compare them with"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
}

pub(super) fn parsed(given: &ArgMatches) -> Compare {
    let file = |id: &str| given.get_one::<PathBuf>(id).cloned().unwrap_or_default();
    Compare { a: file("A.json"), b: file("B.json"), json: given.get_flag("json") }
}
