//! The command line of `flyball cert`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::{Failure, admin};
use crate::settings::state_directory;

/// What `flyball cert` is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cert {
    /// List the certificates of a storage.
    List {
        /// The storage.
        storage: PathBuf,
        /// Only those for this name.
        name: Option<String>,
        /// As JSON.
        json: bool,
    },
    /// Tell all of those for a name.
    Show {
        /// The storage.
        storage: PathBuf,
        /// The name.
        name: String,
    },
    /// Have a running server renew or revoke one.
    Tell {
        /// Its Unix-domain socket; `None` is that of the server that is found.
        socket: Option<PathBuf>,
        /// `renew` or `revoke`.
        verb: &'static str,
        /// One of its names.
        name: String,
    },
    /// Put a pair from elsewhere into a storage.
    Import {
        /// The storage; that of the configuration, or of the state directory, otherwise.
        storage: Option<PathBuf>,
        /// The configuration file, to say which site uses it.
        config: Option<PathBuf>,
        /// The first name of the certificate in the configuration.
        name: String,
        /// The chain, in PEM.
        chain: PathBuf,
        /// The key, in PEM.
        key: PathBuf,
        /// Also in the place of one that holds longer.
        replaces: bool,
    },
}

pub(super) fn program() -> clap::Command {
    clap::Command::new("cert")
        .about("List certificates that came by ACME, renew them, or bring one from elsewhere")
        .subcommand_required(true)
        .subcommand(list())
        .subcommand(show())
        .subcommand(told("renew", "Have a running server order a certificate once more, now"))
        .subcommand(told("revoke", "Have a running server revoke a certificate, and order another"))
        .subcommand(import())
}

fn list() -> clap::Command {
    clap::Command::new("list")
        .about("Print names, issuer, end and renewal of each certificate, and what failed last")
        .arg(Arg::new("name").value_name("NAME").help("Only those for this name"))
        .arg(storage())
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
}

fn show() -> clap::Command {
    clap::Command::new("show")
        .about("Print all that is known of the certificates for a name")
        .arg(Arg::new("name").value_name("NAME").required(true).help("One of their names"))
        .arg(storage())
}

/// What a running server is told to do about a certificate.
fn told(verb: &'static str, about: &'static str) -> clap::Command {
    clap::Command::new(verb)
        .about(about)
        .arg(Arg::new("name").value_name("NAME").required(true).help("One of its names"))
        .arg(admin::socket())
}

fn import() -> clap::Command {
    let file = |name: &'static str, help: &'static str| {
        let argument = Arg::new(name).long(name).value_name("FILE").required(true).help(help);
        argument.value_parser(value_parser!(PathBuf))
    };
    clap::Command::new("import")
        .about("Put a certificate from elsewhere into the storage")
        .long_about(
            "Put a certificate from elsewhere into the storage, such as one of certbot: it is used \
             until it is due for renewal. One that is there for the same name is replaced, unless \
             it holds longer, or the new one does not hold yet. A running server uses it within \
             a minute, and orders another then where it does not name all hosts of its site. With \
             --config it is said which site uses it, for which hosts, and a name that is the first \
             host of no site is refused.",
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .help("First host of the site, which the certificate must be for"),
        )
        .arg(file("chain", "The certificate and its chain, in PEM: fullchain.pem of certbot"))
        .arg(file("key", "Its private key, in PEM: privkey.pem of certbot"))
        .arg(
            Arg::new("replace")
                .long("replace")
                .action(ArgAction::SetTrue)
                .help("Put it there also where one holds longer, or before it holds itself"),
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Configuration whose site is to use it, and whose storage is meant"),
        )
        .arg(storage())
}

fn storage() -> Arg {
    Arg::new("storage")
        .long("storage")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("Directory where certificates are kept [default: acme in the state directory]")
}

/// # Errors
/// When what names a running server makes no sense.
pub(super) fn parsed(given: &ArgMatches) -> Result<Cert, Failure> {
    let (verb, given) = given.subcommand().unwrap_or(("list", given));
    let path = |id: &str| given.get_one::<PathBuf>(id).cloned().unwrap_or_default();
    let name = given.get_one::<String>("name").cloned();
    let storage = || match given.get_one::<PathBuf>("storage") {
        Some(storage) => storage.clone(),
        None => state_directory().join("acme"),
    };
    Ok(match verb {
        "show" => Cert::Show { storage: storage(), name: name.unwrap_or_default() },
        "renew" | "revoke" => Cert::Tell {
            socket: admin::socket_given(given)?,
            verb: if verb == "renew" { "renew" } else { "revoke" },
            name: name.unwrap_or_default(),
        },
        "import" => {
            let (name, chain, key) = (name.unwrap_or_default(), path("chain"), path("key"));
            let replaces = given.get_flag("replace");
            let [storage, config] = ["storage", "config"].map(|id| given.get_one(id).cloned());
            Cert::Import { storage, config, name, chain, key, replaces }
        }
        _ => Cert::List { storage: storage(), name, json: given.get_flag("json") },
    })
}
