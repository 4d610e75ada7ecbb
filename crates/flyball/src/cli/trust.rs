//! The command line of `flyball trust`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

/// What `flyball trust` is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The certificate of an authority; that of the server that is started here, if none is given.
    pub root: Option<PathBuf>,
    /// Trust it no longer.
    pub remove: bool,
    /// The directory that stands for `/`.
    pub under: PathBuf,
}

pub(super) fn program() -> clap::Command {
    let path = |argument: Arg| argument.value_parser(value_parser!(PathBuf));
    clap::Command::new("trust")
        .about("Have this machine trust the certificates of its own authority")
        .long_about(
            "Have this machine trust the certificates of its own authority, which `flyball serve \
             --https` and `certificate = \"internal\"` use. Its certificate goes to where Debian \
             or Fedora keep those that the administrator adds, and their program is run that \
             makes the system's list. It vouches for localhost and private addresses alone. An \
             authority of another kind, where FILE is its certificate, is trusted for all that it \
             vouches for.",
        )
        .arg(path(
            Arg::new("root")
                .value_name("FILE")
                .help("The authority's certificate [default: that in the state directory]"),
        ))
        .arg(
            Arg::new("remove")
                .long("remove")
                .action(ArgAction::SetTrue)
                .help("Take it away again; with FILE, only if it is that one"),
        )
        .arg(path(Arg::new("under").long("under").default_value("/").hide(true)))
}

pub(super) fn parsed(given: &ArgMatches) -> Trust {
    Trust {
        root: given.get_one::<PathBuf>("root").cloned(),
        remove: given.get_flag("remove"),
        under: given.get_one::<PathBuf>("under").cloned().unwrap_or_default(),
    }
}
