//! The command line of `flyball tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgGroup, ArgMatches, value_parser};
use flyball_lab::contestant::{OURS, check};
use flyball_load::units::parse_duration;

/// What `flyball tune` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Tune {
    /// The directory that is served.
    pub directory: Option<PathBuf>,
    /// Or the configuration.
    pub config: Option<PathBuf>,
    /// Or the workload whose files are made.
    pub workload: Option<String>,
    /// Whose settings.
    pub server: String,
    /// The access log that says what is asked for.
    pub log: Option<PathBuf>,
    /// Or the list of paths.
    pub list: Option<PathBuf>,
    /// Requests on each connection.
    pub per_connection: u32,
    /// Time for all of it.
    pub budget: Duration,
    /// What decides what chance decides.
    pub seed: u64,
    /// Where the evidence goes.
    pub out: PathBuf,
    /// The largest 99th percentile of latency.
    pub p99_max: Option<Duration>,
    /// The percentage of a run's time that the machine beneath may take.
    pub stolen_percent_max: Option<f64>,
}

pub(super) fn program() -> clap::Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        let parser = value_parser!(PathBuf);
        Arg::new(name).long(name).value_name(value).value_parser(parser).help(help)
    };
    clap::Command::new("tune")
        .about("Find the settings that serve a site best on this machine, by measuring them")
        .long_about(
            "Find the settings that serve a site best on this machine, by measuring them.\n\nA \
             fresh server is started and loaded for each try: on this machine, by itself. What \
             beats the default significantly is written as a configuration, with the evidence \
             beside it; often nothing does. Ctrl-C keeps the best so far. As root, servers have a \
             network namespace of their own, and a configuration's sites are asked on loopback.\n\n\
             Exit codes: 0 there is an answer; 1 it cannot be done here, and why; 2 the command \
             line is wrong; 4 nothing was compared: there is no result.",
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The directory that is served"),
        )
        .arg(path("config", "FILE", "The configuration whose sites are served").short('c'))
        .arg(
            Arg::new("workload")
                .long("workload")
                .value_name("NAME")
                .help("A workload of `flyball fileset`, such as specweb99, whose files are made"),
        )
        .group(ArgGroup::new("target").args(["dir", "config", "workload"]).required(true))
        .arg(server())
        .arg(path("log", "FILE", "An access log: what it says is asked for"))
        .arg(path("list", "FILE", "Paths to ask for, each line PATH or PATH WEIGHT"))
        .group(ArgGroup::new("asked").args(["log", "list"]))
        .arg(
            Arg::new("requests-per-connection")
                .long("requests-per-connection")
                .value_name("N")
                .default_value("5")
                .value_parser(value_parser!(u32).range(1..=1_000_000))
                .help("Requests on each connection"),
        )
        .arg(
            Arg::new("budget")
                .long("budget")
                .value_name("TIME")
                .default_value("10m")
                .value_parser(ValueParser::new(budget))
                .help("Time for all of it, at least 10s"),
        )
        .arg(
            Arg::new("p99-max")
                .long("p99-max")
                .value_name("TIME")
                .value_parser(ValueParser::new(parse_duration))
                .help("Settings whose 99th percentile, below the peak, is longer are out"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .default_value("1")
                .value_parser(value_parser!(u64))
                .help("What decides which settings are tried, and in which order"),
        )
        .arg(super::stolen::argument())
        .arg(path("out", "DIR", "Where the evidence goes [default: flyball-tune]"))
}

fn server() -> Arg {
    Arg::new("server")
        .long("server")
        .value_name("NAME")
        .default_value(OURS)
        .value_parser(ValueParser::new(contestant))
        .conflicts_with("config")
        .help("Whose settings: a peer of `flyball lab`, such as nginx, has the same search")
}

fn contestant(text: &str) -> Result<String, String> {
    check(text).map(|()| text.to_owned())
}

fn budget(text: &str) -> Result<Duration, String> {
    let least = flyball_lab::tune::BUDGET_MIN;
    let enough = parse_duration(text)?;
    (enough >= least).then_some(enough).ok_or_else(|| {
        format!("{} s are the least: each try takes a second or more", least.as_secs())
    })
}

/// What the command line asks for.
pub(super) fn parsed(given: &ArgMatches) -> Tune {
    let path = |id: &str| given.get_one::<PathBuf>(id).cloned();
    let time = |id: &str| given.get_one::<Duration>(id).copied();
    Tune {
        directory: path("dir"),
        config: path("config"),
        workload: given.get_one::<String>("workload").cloned(),
        server: given.get_one::<String>("server").cloned().unwrap_or_else(|| OURS.into()),
        log: path("log"),
        list: path("list"),
        per_connection: given.get_one("requests-per-connection").copied().unwrap_or(5),
        budget: time("budget").unwrap_or(Duration::from_secs(600)),
        seed: given.get_one("seed").copied().unwrap_or(1),
        out: path("out").unwrap_or_else(|| "flyball-tune".into()),
        p99_max: time("p99-max"),
        stolen_percent_max: super::stolen::parsed(given),
    }
}
