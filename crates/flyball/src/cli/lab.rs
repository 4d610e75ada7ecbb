//! The command line of `flyball lab`.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, value_parser};

/// What `flyball lab` is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Lab {
    /// Name the experiments.
    List,
    /// Show what one is about.
    Show(String),
    /// Write the pages of campaigns again.
    Report(Vec<PathBuf>),
    /// Put two campaigns of one experiment beside each other.
    Compare(PathBuf, PathBuf),
    /// The contestants of campaigns, best first.
    Rank(Vec<PathBuf>),
    /// Copy what a repository keeps of campaigns to a record.
    Keep(PathBuf, PathBuf),
    /// Print the document of all experiments, from these records.
    Table(Vec<PathBuf>),
    /// Remove what labs that no longer run have left.
    Clear,
    /// Run some.
    Run {
        /// Which; all of them for `ALL`.
        names: Vec<String>,
        /// How.
        kind: Kind,
        /// Where results go.
        out: PathBuf,
        /// Where files are made, to be used again.
        files: PathBuf,
        /// Whether what is there already is kept.
        resume: bool,
        /// What decides the order.
        seed: u64,
        /// Repetitions, where they are not those of the kind.
        blocks: Option<usize>,
        /// Seconds of each run, likewise.
        seconds: Option<f64>,
        /// Repetitions of what no claim looks at, where they are fewer.
        unjudged: Option<usize>,
        /// The percentage of a run's time that the machine beneath may take.
        stolen_percent_max: Option<f64>,
        /// Look into servers, instead of measuring them.
        white_box: bool,
    },
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Few points and repetitions: about a minute, at most three.
    Quick,
    /// As the papers did.
    Full,
}

pub(super) fn program() -> clap::Command {
    let name = || Arg::new("name").value_name("NAME");
    clap::Command::new("lab")
        .about("Repeat the papers' experiments on this machine")
        .subcommand_required(true)
        .subcommand(clap::Command::new("list").about("Name the experiments"))
        .subcommand(
            clap::Command::new("show")
                .about("Show what an experiment is about, and what has to come out")
                .arg(name().required(true)),
        )
        .subcommand(run())
        .subcommand(directories("report", "Judge campaigns again, and write report.html"))
        .subcommand(
            clap::Command::new("compare")
                .about("Put two campaigns of one experiment beside each other: A by B")
                .arg(directory("a").value_name("A"))
                .arg(directory("b").value_name("B")),
        )
        .subcommand(directories("rank", "Name the contestants of campaigns, best first"))
        .subcommand(
            clap::Command::new("keep")
                .about("Copy what is worth keeping of campaigns: verdicts, and figures as numbers")
                .arg(directory("dir").value_name("DIR").help("What `--out` of a run was"))
                .arg(directory("record").value_name("RECORD").help("The directory to make")),
        )
        .subcommand(
            clap::Command::new("table")
                .about("Print docs/reproduction.md, from what was kept of campaigns")
                .arg(
                    directory("dir")
                        .required(false)
                        .value_name("RECORD")
                        .num_args(0..)
                        .help("What `flyball lab keep` made"),
                ),
        )
        .subcommand(
            clap::Command::new("clear")
                .about("Remove what a killed lab or `flyball tune` left, as its next run would"),
        )
}

fn directory(name: &'static str) -> Arg {
    Arg::new(name).required(true).value_parser(value_parser!(PathBuf))
}

fn directories(name: &'static str, about: &'static str) -> clap::Command {
    let each = directory("dir").value_name("DIR").num_args(1..);
    clap::Command::new(name).about(about).arg(each.help("What `--out` of a run was"))
}

fn run() -> clap::Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let path = |name: &'static str, help: &'static str| {
        let parser = value_parser!(PathBuf);
        Arg::new(name).long(name).value_name("DIR").value_parser(parser).help(help)
    };
    clap::Command::new("run")
        .about("Run experiments, judge them, and write a report of each")
        .long_about(
            "Run experiments, judge them, and write a report of each.\n\nAs root each server has a \
             network namespace and a control group of its own; without, all run on loopback, and \
             the report says so. What has been set up is undone in the end, also after Ctrl-C; \
             what a killed lab left is cleared by the next.\n\nExit codes: 0 each experiment \
             has a result, whichever; 1 nothing can be run, and why; 2 the command line is wrong; \
             4 one of them has no result: its runs were void, too few, or ended by Ctrl-C, or it \
             failed beside others.",
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .action(ArgAction::Append)
                .required(true)
                .help("Which experiments, or files with one; all by ALL"),
        )
        .group(ArgGroup::new("kind").args(["quick", "full"]))
        .arg(switch("quick", "About a minute for each, at few points [default]"))
        .arg(switch("full", "All points, ten repetitions of half a minute and its warm-up: hours"))
        .arg(
            switch("white-box", "Look into servers instead: system calls, time, locks and drops")
                .conflicts_with_all(["full", "resume", "repetitions", "seconds", "unjudged"]),
        )
        .arg(switch("resume", "Keep the runs that are there, and go on"))
        .arg(path("out", "Where results go [default: flyball-lab]"))
        .arg(path("files", "Where files to serve are made [default: OUT/files]"))
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .default_value("1")
                .value_parser(value_parser!(u64))
                .help("What decides the order of runs, and what clients draw"),
        )
        .arg(
            Arg::new("repetitions")
                .long("repetitions")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=1000))
                .help(
                    "Repetitions of each run [default: 2 quick, more where a claim looks; 10 full]",
                ),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("S")
                .value_parser(ValueParser::new(seconds))
                .help("Seconds of each run [default: what fits quick, 37.5 full]"),
        )
        .arg(
            Arg::new("unjudged")
                .long("unjudged")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=1000))
                .help("Repetitions of what no claim looks at [default: 2 quick, as all in full]"),
        )
        .arg(super::stolen::argument())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.2..=3_600.0).contains(seconds));
    seconds.ok_or_else(|| "expected 0.2 to 3600 seconds".into())
}

/// What the command line asks for.
pub(super) fn parsed(given: &ArgMatches) -> Lab {
    let text = |given: &ArgMatches, id: &str| given.get_one::<String>(id).cloned();
    let all = |given: &ArgMatches| -> Vec<PathBuf> {
        given.get_many("dir").into_iter().flatten().cloned().collect()
    };
    let one = |given: &ArgMatches, id: &str| -> PathBuf {
        given.get_one::<PathBuf>(id).cloned().unwrap_or_default()
    };
    match given.subcommand() {
        Some(("report", given)) => Lab::Report(all(given)),
        Some(("compare", given)) => Lab::Compare(one(given, "a"), one(given, "b")),
        Some(("rank", given)) => Lab::Rank(all(given)),
        Some(("keep", given)) => Lab::Keep(one(given, "dir"), one(given, "record")),
        Some(("table", given)) => Lab::Table(all(given)),
        Some(("clear", _)) => Lab::Clear,
        Some(("show", given)) => Lab::Show(text(given, "name").unwrap_or_default()),
        Some(("run", given)) => {
            let path = |id: &str| given.get_one::<PathBuf>(id).cloned();
            let out = path("out").unwrap_or_else(|| "flyball-lab".into());
            let count = |id: &str| given.get_one::<u64>(id).and_then(|n| usize::try_from(*n).ok());
            Lab::Run {
                names: given.get_many("name").into_iter().flatten().cloned().collect(),
                kind: if given.get_flag("full") { Kind::Full } else { Kind::Quick },
                files: path("files").unwrap_or_else(|| out.join("files")),
                out,
                resume: given.get_flag("resume"),
                seed: given.get_one("seed").copied().unwrap_or(1),
                blocks: count("repetitions"),
                seconds: given.get_one("seconds").copied(),
                unjudged: count("unjudged"),
                stolen_percent_max: super::stolen::parsed(given),
                white_box: given.get_flag("white-box"),
            }
        }
        // The program demands a subcommand, and there is no other.
        _ => Lab::List,
    }
}
