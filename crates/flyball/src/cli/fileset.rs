//! The command line of `flyball fileset`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use flyball_load::fileset::{
    Kind, Manifest, Parameters, directories_for_connections, directories_for_rate,
};
use flyball_load::sessions::SessionLogs;
use flyball_load::units::{parse_bytes, parse_rate};
use flyball_load::workload::SurgeParameters;

/// What is made for the files that a log asks for.
const LOG: &str = "log";

/// Sessions of each log where nothing else is said: those of S4.
const SESSIONS: u64 = 26_400;

/// What `flyball fileset` is to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Fileset {
    /// The set; of a log only the seed counts.
    pub manifest: Manifest,
    /// The access log whose files are made, and where it is cut off.
    pub log: Option<(PathBuf, Option<u64>)>,
    /// Whether a wrong line of it is an error, and not only skipped and told.
    pub strict: bool,
    /// Logs of sessions that are written, and where.
    pub sessions: Option<(SessionLogs, PathBuf)>,
    /// Where.
    pub directory: PathBuf,
}

pub(super) fn program() -> clap::Command {
    clap::Command::new("fileset")
        .about("Make a set of files to load a server with")
        .long_about(
            "Make a set of files to load a server with.\n\nEach file tells its size and name in \
             its first line, and all of it follows from the seed, so that `flyball load --fileset \
             DIR --verify` knows every byte. A directory that holds the same set is left as it is.",
        )
        .arg(
            Arg::new("kind")
                .value_name("KIND")
                .required(true)
                .value_parser(PossibleValuesParser::new(Kind::names().chain([LOG])))
                .help("Which files"),
        )
        .arg(
            Arg::new("directory")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Where to: a directory that is new, or holds this set"),
        )
        .arg(number("directories", "N", "Directories of specweb99, specweb96 and s4"))
        .arg(
            number("for-connections", "N", "As many as specweb99 has for so many connections")
                .conflicts_with("directories"),
        )
        .arg(
            Arg::new("part")
                .long("part")
                .value_name("SHARE")
                .requires("for-connections")
                // What conflicts with an argument that is there is not required any more.
                .conflicts_with("directories")
                .value_parser(ValueParser::new(parse_part))
                .help("This part of them, for a server with as small a part of the memory"),
        )
        .arg(
            Arg::new("for-rate")
                .long("for-rate")
                .value_name("R")
                .value_parser(ValueParser::new(parse_rate))
                .conflicts_with_all(["directories", "for-connections"])
                .help("As many as specweb96 has for so many requests per second"),
        )
        .arg(number("size", "BYTES", "Bytes of single-file"))
        .arg(number("mib", "N", "MiB of the files of trace"))
        .args(of_log())
        .args(of_sessions())
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("What the bytes, and the files of trace, come from [default: 1]"),
        )
}

fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    let range = value_parser!(u64).range(1..);
    Arg::new(name).long(name).value_name(value).value_parser(range).help(help)
}

fn of_log() -> [Arg; 3] {
    [
        Arg::new("log")
            .long("log")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .required_if_eq("kind", LOG)
            .help("The access log whose files `log` makes"),
        Arg::new("data-set")
            .long("data-set")
            .value_name("BYTES")
            .value_parser(parse_bytes)
            .requires("log")
            .help("Cut the log off where its files have so many bytes together"),
        Arg::new("strict")
            .long("strict")
            .action(ArgAction::SetTrue)
            .requires("log")
            .help("A wrong line of the --log is an error, instead of skipped and told"),
    ]
}

fn of_sessions() -> [Arg; 4] {
    [
        Arg::new("session-logs")
            .long("session-logs")
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf))
            .help("Write logs of sessions with the off periods of SURGE, for --wsesslog"),
        number("logs", "N", "How many [default: 16]").requires("session-logs"),
        number("sessions", "N", "Sessions of each [default: 26400]").requires("session-logs"),
        Arg::new("surge")
            .long("surge")
            .value_name("NAME=NUMBER,...")
            .require_equals(true)
            .requires("session-logs")
            .value_parser(ValueParser::new(off_periods))
            .help("Their off periods, as for `flyball load --surge`, or none"),
    ]
}

/// A part of a set.
fn parse_part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| *part > 0.0 && *part <= 1.0);
    part.ok_or_else(|| "a part is above 0, and at most 1".to_owned())
}

/// The directories that a load asks for, where it is said.
///
/// # Errors
/// When files of this kind do not grow with it.
fn grown(given: &ArgMatches, kind: Kind) -> Result<Option<u64>, clap::Error> {
    let connections = given.get_one::<u64>("for-connections").copied();
    let rate = given.get_one::<f64>("for-rate").copied();
    let wrong = |option: &str, of: Kind| {
        let why = format!("--{option} is of {of}: give {kind} its --directories\n");
        clap::Error::raw(ErrorKind::ArgumentConflict, why)
    };
    match (connections, rate) {
        (Some(_), _) if kind != Kind::SpecWeb99 => Err(wrong("for-connections", Kind::SpecWeb99)),
        (_, Some(_)) if kind != Kind::SpecWeb96 => Err(wrong("for-rate", Kind::SpecWeb96)),
        (Some(connections), _) => {
            let part = given.get_one::<f64>("part").copied().unwrap_or(1.0);
            let directories = directories_for_connections(connections) as f64 * part;
            Ok(Some((directories.round() as u64).max(1)))
        }
        (_, rate) => Ok(rate.map(directories_for_rate)),
    }
}

/// The off periods of SURGE, or `none`.
fn off_periods(text: &str) -> Result<Option<SurgeParameters>, String> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

/// What the command line asks for.
///
/// # Errors
/// When options are of another kind of set.
pub(super) fn parsed(given: &ArgMatches) -> Result<Fileset, clap::Error> {
    let name = given.get_one::<String>("kind").map_or("", String::as_str);
    // The parser takes no other names.
    let kind = Kind::named(name).unwrap_or(Kind::Trace);
    let number = |id: &str| given.get_one::<u64>(id).copied();
    let Parameters { directories, size, mib, seed } = kind.defaults();
    let parameters = Parameters {
        directories: number("directories").or(grown(given, kind)?).unwrap_or(directories),
        size: number("size").unwrap_or(size),
        mib: number("mib").unwrap_or(mib),
        seed: number("seed").unwrap_or(seed),
    };
    let directory = given.get_one("directory").cloned().unwrap_or_default();
    let file = |id: &str| given.get_one::<PathBuf>(id).cloned();
    let log = file("log").filter(|_| name == LOG).map(|log| (log, number("data-set")));
    let sessions = file("session-logs").map(|directory| {
        let surge = given.get_one::<Option<SurgeParameters>>("surge").copied();
        let surge = surge.unwrap_or_else(|| Some(SurgeParameters::default()));
        let logs = number("logs").unwrap_or(16);
        let sessions = number("sessions").unwrap_or(SESSIONS);
        (SessionLogs { logs, sessions, surge }, directory)
    });
    let strict = given.get_flag("strict");
    Ok(Fileset { manifest: Manifest { kind, parameters }, log, strict, sessions, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<Fileset, clap::Error> {
        let words = ["fileset"].iter().chain(arguments);
        parsed(&program().try_get_matches_from(words)?)
    }

    #[test]
    fn logs_of_sessions_are_those_of_s4_unless_something_else_is_said() {
        let logs = |more: &[&str]| {
            let arguments = [&["s4", "d", "--session-logs", "l"], more].concat();
            asked(&arguments).unwrap().sessions.unwrap().0
        };
        let surge = Some(SurgeParameters::default());
        assert_eq!(logs(&[]), SessionLogs { logs: 16, sessions: 26_400, surge });
        let capped = Some("inactive-cap=10".parse().unwrap());
        assert_eq!(logs(&["--surge=inactive-cap=10"]).surge, capped);
        assert_eq!(logs(&["--surge=none"]).surge, None);
        assert!(asked(&["s4", "d", "--session-logs", "l", "--surge=cap=1"]).is_err());
        assert!(asked(&["s4", "d", "--surge=none"]).is_err(), "there are no sessions");
    }

    #[test]
    fn sets_have_the_directories_of_a_load() {
        let directories = |arguments: &[&str]| {
            asked(arguments).map(|asked| asked.manifest.parameters.directories)
        };
        assert_eq!(directories(&["specweb99", "d", "--for-connections", "1000"]).unwrap(), 680);
        let part = ["specweb99", "d", "--for-connections=1000", "--part=0.2"];
        assert_eq!(directories(&part).unwrap(), 136);
        assert_eq!(directories(&["specweb96", "d", "--for-rate", "2k"]).unwrap(), 200);
        for wrong in [
            ["specweb96", "d", "--for-connections=9", "--seed=1"],
            ["s4", "d", "--for-rate=9", "--seed=1"],
            ["specweb99", "d", "--for-connections=9", "--directories=9"],
            ["specweb99", "d", "--directories=9", "--part=0.5"],
            ["specweb99", "d", "--for-connections=9", "--part=1.5"],
        ] {
            assert!(directories(&wrong).is_err(), "{wrong:?}");
        }
    }
}
