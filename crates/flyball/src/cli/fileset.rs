//! The command line of `flyball fileset`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, value_parser};
use flyball_load::fileset::{Kind, Manifest, Parameters};

/// What `flyball fileset` is to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Fileset {
    /// The set.
    pub manifest: Manifest,
    /// Where.
    pub directory: PathBuf,
}

pub(super) fn program() -> clap::Command {
    let number = |name: &'static str, value: &'static str, help: &'static str| {
        let range = value_parser!(u64).range(1..);
        Arg::new(name).long(name).value_name(value).value_parser(range).help(help)
    };
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
                .value_parser(PossibleValuesParser::new(Kind::names()))
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
        .arg(number("size", "BYTES", "Bytes of single-file"))
        .arg(number("mib", "N", "MiB of the files of trace"))
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("What the bytes, and the files of trace, come from [default: 1]"),
        )
}

/// What the command line asks for.
pub(super) fn parsed(given: &ArgMatches) -> Fileset {
    let name = given.get_one::<String>("kind").map_or("", String::as_str);
    // The parser takes no other names.
    let kind = Kind::named(name).unwrap_or(Kind::OnePacket);
    let number = |id: &str| given.get_one::<u64>(id).copied();
    let Parameters { directories, size, mib, seed } = kind.defaults();
    let parameters = Parameters {
        directories: number("directories").unwrap_or(directories),
        size: number("size").unwrap_or(size),
        mib: number("mib").unwrap_or(mib),
        seed: number("seed").unwrap_or(seed),
    };
    let directory = given.get_one("directory").cloned().unwrap_or_default();
    Fileset { manifest: Manifest { kind, parameters }, directory }
}
