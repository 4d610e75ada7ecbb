//! The command line of `flyball cert`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

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
    /// Put a pair from elsewhere into a storage.
    Import {
        /// The storage.
        storage: PathBuf,
        /// The first name of the certificate in the configuration.
        name: String,
        /// The chain, in PEM.
        chain: PathBuf,
        /// The key, in PEM.
        key: PathBuf,
    },
}

/// Hidden until a server reads the storage.
pub(super) fn program() -> clap::Command {
    clap::Command::new("cert")
        .about("List the certificates of a storage, or bring one from elsewhere")
        .hide(true)
        .subcommand_required(true)
        .subcommand(list())
        .subcommand(import())
}

fn list() -> clap::Command {
    clap::Command::new("list")
        .about("Print names, issuer and end of each certificate")
        .arg(Arg::new("name").value_name("NAME").help("Only those for this name"))
        .arg(storage())
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
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
             until it is due for renewal. One that is there for the same name is replaced. A \
             running server uses it within ten minutes.",
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .help("First host of the site, which the certificate must be for"),
        )
        .arg(file("chain", "The certificate and its chain, in PEM: fullchain.pem of certbot"))
        .arg(file("key", "Its private key, in PEM: privkey.pem of certbot"))
        .arg(storage())
}

fn storage() -> Arg {
    Arg::new("storage")
        .long("storage")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("Directory where certificates are kept")
}

pub(super) fn parsed(given: &ArgMatches) -> Cert {
    let (verb, given) = given.subcommand().unwrap_or(("list", given));
    let path = |id: &str| given.get_one::<PathBuf>(id).cloned().unwrap_or_default();
    let name = given.get_one::<String>("name").cloned();
    let storage = path("storage");
    match verb {
        "import" => {
            let (name, chain, key) = (name.unwrap_or_default(), path("chain"), path("key"));
            Cert::Import { storage, name, chain, key }
        }
        _ => Cert::List { storage, name, json: given.get_flag("json") },
    }
}
