//! The command line of `flyball cache`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use flyball_site::pattern::is_pattern;
use flyball_site::simulate::Options;
use flyball_site::{CachePolicy, Hints};

use crate::settings::parse_size;

/// Sizes that are tried unless others are given.
const SIZES: &str = "1MiB,4MiB,16MiB,64MiB,256MiB";

/// As the default of `cache.small`.
const SMALL: &str = "64KiB";

/// Stands for every policy.
const ALL: &str = "all";

/// What `flyball cache simulate` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulate {
    /// The log; `-` is standard input.
    pub log: PathBuf,
    /// The caches.
    pub options: Options,
    /// Whether the result is JSON.
    pub json: bool,
}

pub(super) fn program() -> clap::Command {
    clap::Command::new("cache")
        .about("Find out which caching policy and size suit a site")
        .subcommand_required(true)
        .subcommand(simulate())
}

fn simulate() -> clap::Command {
    let mut policies = vec![ALL];
    policies.extend(CachePolicy::ALL.map(CachePolicy::name));
    let hint = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("PATTERN")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(ValueParser::new(pattern))
            .help(help)
    };
    clap::Command::new("simulate")
        .about("Replay an access log against caches of every policy and size, and print hit ratios")
        .long_about(
            "Replay an access log against caches of every policy and size, and print hit \
             ratios.\n\nThe log is in the common or the combined format, or holds an object of \
             JSON in each line. Hosts are kept apart, if the log has them. The caches follow the \
             very policies and limits of the server. Only files that `cache.small` lets into \
             memory are counted. What pages refer to is read from the files beneath --root, or \
             else learnt from the log's referers. The last line says what to set.",
        )
        .arg(
            Arg::new("log")
                .value_name("LOG")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The access log; - is standard input"),
        )
        .arg(
            Arg::new("root")
                .long("root")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where the files are, or a directory for each host: sizes are from there"),
        )
        .arg(
            Arg::new("policy")
                .long("policy")
                .value_name("NAME,...")
                .value_delimiter(',')
                .default_value(ALL)
                .value_parser(PossibleValuesParser::new(policies))
                .help("Policies; of all, hinted only with --pin, --keep or --never"),
        )
        .arg(
            Arg::new("size")
                .long("size")
                .value_name("SIZE,...")
                .value_delimiter(',')
                .default_value(SIZES)
                .value_parser(ValueParser::new(size))
                .help("Sizes of the cache, as cache.content"),
        )
        .arg(
            Arg::new("small")
                .long("small")
                .value_name("SIZE")
                .default_value(SMALL)
                .value_parser(ValueParser::new(size))
                .help("Largest body in memory, as cache.small"),
        )
        .arg(hint("pin", "Files that `hinted` never pushes out, as cache.pin"))
        .arg(hint("keep", "Files that `hinted` pushes out last, as cache.keep"))
        .arg(hint("never", "Files that `hinted` never holds, as cache.never"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
}

fn size(text: &str) -> Result<u64, String> {
    let size = parse_size(text).filter(|size| *size > 0);
    size.ok_or_else(|| "expected a size such as 512KiB or 10MB, above 0".into())
}

fn pattern(text: &str) -> Result<String, String> {
    let valid = is_pattern(text).then(|| text.to_owned());
    valid.ok_or_else(|| "expected a pattern of file names such as *.css or /assets/**".into())
}

/// What was asked for, without repetitions.
pub(super) fn parsed(given: &ArgMatches) -> Simulate {
    let given = given.subcommand().map_or(given, |(_, given)| given);
    let path = |id| given.get_one::<PathBuf>(id).cloned();
    let patterns = |id| given.get_many::<String>(id).into_iter().flatten().cloned().collect();
    let named: Vec<&String> = given.get_many("policy").into_iter().flatten().collect();
    let hints = Hints { pin: patterns("pin"), keep: patterns("keep"), never: patterns("never") };
    // Without hints, the policy that goes by them is that which all begin with.
    let says = hints != Hints::default();
    let is_named = |policy: &CachePolicy| {
        let is_of_all = *policy != CachePolicy::Hinted || says;
        named.iter().any(|name| *name == policy.name() || *name == ALL && is_of_all)
    };
    let mut sizes: Vec<u64> = given.get_many("size").into_iter().flatten().copied().collect();
    sizes.sort_unstable();
    sizes.dedup();
    Simulate {
        log: path("log").unwrap_or_default(),
        options: Options {
            policies: CachePolicy::ALL.into_iter().filter(is_named).collect(),
            sizes,
            small_bytes_max: given.get_one("small").copied().unwrap_or_default(),
            root: path("root"),
            hints,
        },
        json: given.get_flag("json"),
    }
}
