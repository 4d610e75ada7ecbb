//! The command line: what is asked for, and the settings that come with it.
//!
//! The flags of settings, and their help, are made from [`SETTINGS`]. Their values are checked with
//! the rest of the settings, so that a wrong one is told in the same words wherever it is written.

mod admin;
mod cache;
#[cfg(feature = "acme")]
mod cert;
#[cfg(feature = "load")]
mod fileset;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "load")]
mod load;
mod meant;
#[cfg(any(feature = "lab", feature = "tune"))]
mod stolen;
mod top;
mod trace;
mod trust;
#[cfg(feature = "tune")]
mod tune;

use std::ffi::OsString;
use std::fmt;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};

pub use crate::top::Top;
pub use cache::Simulate;
#[cfg(feature = "acme")]
pub use cert::Cert;
pub use clap_complete::Shell;
#[cfg(feature = "load")]
pub use fileset::Fileset;
#[cfg(feature = "lab")]
pub use lab::{Kind as LabKind, Lab};
#[cfg(feature = "load")]
pub use load::{Compare, Load, Run};
pub use meant::meant;
pub use trace::Tracing;
pub use trust::Trust;
#[cfg(feature = "tune")]
pub use tune::Tune;

use crate::settings::{
    Origin, Raw, SETTINGS, Setting, SettingError, Typed, Written, name_before, read,
};

/// Exit code for errors of usage and configuration.
pub const USAGE_EXIT: u8 = 2;

/// The setting whose flag may be repeated: the addresses add up.
const LISTEN: &str = "listen";

/// The argument that is short for an address on 127.0.0.1.
const PORT: &str = "port";

/// What the user asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Serve, by these settings.
    Serve(Typed),
    /// Say whether these settings are right.
    Check(Typed),
    /// Say why settings are as they are.
    Explain {
        /// What was written.
        typed: Typed,
        /// Keys and tables that are asked for; all when there are none.
        keys: Vec<String>,
        /// As JSON.
        json: bool,
    },
    /// Get certificates, as the master says on standard input.
    #[cfg(feature = "acme")]
    AcmeAgent,
    /// Look at certificates, or bring one.
    #[cfg(feature = "acme")]
    Cert(Cert),
    /// List the architectures.
    Arch {
        /// As JSON.
        json: bool,
    },
    /// Talk to a running server.
    Ctl {
        /// Its Unix-domain socket; `None` is that of the server that is found.
        socket: Option<PathBuf>,
        /// What it is asked.
        ask: Ask,
    },
    /// Replay an access log against caches.
    Simulate(Simulate),
    /// Load a server.
    #[cfg(feature = "load")]
    Load(Load),
    /// Make a set of files to load a server with.
    #[cfg(feature = "load")]
    Fileset(Fileset),
    /// Run experiments.
    #[cfg(feature = "lab")]
    Lab(Lab),
    /// Find the settings that serve a site best.
    #[cfg(feature = "tune")]
    Tune(Tune),
    /// Have this machine trust its own authority.
    Trust(Trust),
    /// Show what a running server does.
    Top(Top),
    /// Print what is made from the program's own tables.
    Docs(Document),
}

/// A document that is made from the program's own tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// `docs/settings.md`, which is the result of
    /// [`settings_markdown`](crate::settings::settings_markdown).
    Settings,
    /// `docs/experiment-settings.md`, which is the result of
    /// [`experiments_markdown`](crate::settings::experiments_markdown).
    Experiments,
    /// A page of the manual, in roff: of the subcommand, or of the program.
    Man(Option<String>),
    /// Completions for this shell.
    Completions(Shell),
}

/// What a running server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Its status.
    Status,
    /// The value of a setting that holds now.
    Get(String),
    /// The settings that can be changed.
    Settings {
        /// As JSON.
        json: bool,
    },
    /// To change one.
    Set(String, String),
    /// To do this.
    Do(Deed),
    /// Timelines of its requests.
    Trace(Tracing),
}

/// What a running server can be told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Load its configuration again.
    Reload,
    /// Accept nothing more, finish, and end.
    Drain,
    /// Let another program, at the same path, take over.
    Upgrade,
}

/// Why nothing is done.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong, or only help or the version was asked for.
    Usage(clap::Error),
    /// Settings are wrong, or their file cannot be read.
    Settings(Vec<SettingError>),
}

/// Reads the command line, whose first item is the program's name, and the configuration file that
/// it names. Blocks on the disk for that file.
///
/// # Errors
/// When the command line or the file cannot be understood. Keys and values are not checked yet:
/// [`resolve`](crate::settings::resolve) does that.
pub fn parse<I, A>(arguments: I) -> Result<Command, Failure>
where
    I: IntoIterator<Item = A>,
    A: Into<OsString> + Clone,
{
    let matches = program().try_get_matches_from(arguments)?;
    Ok(match matches.subcommand() {
        Some(("serve", given)) => Command::Serve(typed(given)?),
        Some(("check", given)) => Command::Check(typed(given)?),
        Some(("explain", given)) => Command::Explain {
            typed: typed(given)?,
            keys: given.get_many("key").into_iter().flatten().cloned().collect(),
            json: given.get_flag("json"),
        },
        Some(("cache", given)) => Command::Simulate(cache::parsed(given)),
        #[cfg(feature = "load")]
        Some(("fileset", given)) => Command::Fileset(fileset::parsed(given)?),
        #[cfg(feature = "lab")]
        Some(("lab", given)) => Command::Lab(lab::parsed(given)),
        #[cfg(feature = "load")]
        Some(("load", given)) => Command::Load(load::parsed(given)?),
        Some(("ctl", given)) => ctl_command(given)?,
        #[cfg(feature = "tune")]
        Some(("tune", given)) => Command::Tune(tune::parsed(given)),
        Some(("top", given)) => Command::Top(top::parsed(given)?),
        Some(("trust", given)) => Command::Trust(trust::parsed(given)),
        #[cfg(feature = "acme")]
        Some(("acme-agent", _)) => Command::AcmeAgent,
        #[cfg(feature = "acme")]
        Some(("cert", given)) => Command::Cert(cert::parsed(given)?),
        Some(("arch", given)) => Command::Arch { json: given.get_flag("json") },
        // The program demands a subcommand, and there is no other.
        Some((_, given)) => Command::Docs(document(given)),
        None => Command::Docs(Document::Settings),
    })
}

impl Failure {
    /// Prints it, to standard error unless help or the version was asked for, and returns the exit
    /// code of the process.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::Usage(error) => {
                // Nothing can be said any more when the terminal is gone.
                let _ = error.print();
            }
            Failure::Settings(errors) => {
                for error in errors {
                    eprintln!("{error}");
                }
            }
        }
        ExitCode::from(self.exit_code())
    }

    /// The exit code: [`USAGE_EXIT`], or 0 when help or the version was asked for.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(error) if !error.use_stderr() => 0,
            _ => USAGE_EXIT,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(error) => error.fmt(f),
            Failure::Settings(errors) => errors.iter().try_for_each(|error| writeln!(f, "{error}")),
        }
    }
}

impl std::error::Error for Failure {}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Usage(error)
    }
}

impl From<Vec<SettingError>> for Failure {
    fn from(errors: Vec<SettingError>) -> Failure {
        Failure::Settings(errors)
    }
}

/// The whole command line, as clap knows it.
pub fn program() -> clap::Command {
    clap::Command::new("flyball")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The web server whose concurrency architecture is a setting")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            serve(),
            check(),
            explain(),
            arch(),
            #[cfg(feature = "acme")]
            acme_agent(),
            cache::program(),
            #[cfg(feature = "acme")]
            cert::program(),
            #[cfg(feature = "load")]
            load::program(),
            #[cfg(feature = "load")]
            fileset::program(),
            #[cfg(feature = "lab")]
            lab::program(),
            #[cfg(feature = "tune")]
            tune::program(),
            ctl(),
            top::program(),
            trust::program(),
            docs(),
        ])
}

fn serve() -> clap::Command {
    clap::Command::new("serve")
        .about("Serve a directory, or the sites of a configuration file")
        .long_about(
            "Serve a directory, or the sites of a configuration file.\n\nWithout a file, DIR is \
             served with listings, on 127.0.0.1:8080 or the next free port unless --listen says \
             otherwise.",
        )
        .after_long_help(settings_help())
        .arg(directory())
        .arg(config())
        .arg(port())
        .arg(domain())
        .arg(https())
        .args(SETTINGS.iter().filter_map(flag))
        .arg(set())
}

/// What many servers for developers call it.
fn port() -> Arg {
    Arg::new(PORT)
        .long(PORT)
        .short('p')
        .value_name("PORT")
        .value_parser(value_parser!(u16))
        .conflicts_with_all([LISTEN, "domain"])
        .help("Short for --listen 127.0.0.1:PORT")
}

fn domain() -> Arg {
    Arg::new("domain")
        .long("domain")
        .value_name("NAME")
        .action(ArgAction::Append)
        .conflicts_with("config")
        .help("Serve DIR by HTTPS as this host, with a certificate by ACME")
        .long_help(
            "Serve DIR by HTTPS as this host, with a certificate from Let's Encrypt, to whose \
             terms this agrees; may be repeated. It listens on ports 80 and 443 unless --listen \
             says otherwise, lists no directories, answers to no other host, and has workers \
             become another user, as with a file.",
        )
}

fn https() -> Arg {
    Arg::new("https")
        .long("https")
        .action(ArgAction::SetTrue)
        .conflicts_with_all(["config", "domain"])
        .help("Serve DIR by HTTPS on this machine, with a certificate of its own authority")
        .long_help(
            "Serve DIR by HTTPS on this machine, at https://localhost:8443 or the next free port \
             unless --listen says otherwise, with a certificate of this machine's own authority. \
             That is made in the state directory; `flyball trust` has this machine trust it.",
        )
}

fn check() -> clap::Command {
    clap::Command::new("check")
        .about("Say whether a configuration file is right")
        .arg(
            directory()
                .value_name("FILE")
                .required_unless_present("config")
                .help("The file, or with --config a directory to serve")
                .long_help(None),
        )
        .arg(config())
}

fn explain() -> clap::Command {
    clap::Command::new("explain")
        .about("Print every setting that holds, and why it is so")
        .long_about(
            "Print every setting that holds, and why it is so: the line of the file or the flag \
             that says it, a default, what the machine gives (CPUs, descriptors, limits of the \
             kernel), and what it was cut from and by what. Nothing is bound.\n\nLimits are those \
             of this process: a service may have others.",
        )
        .arg(
            Arg::new("key")
                .value_name("KEY")
                .num_args(0..)
                .help("Only these settings, or those of these tables, such as cache"),
        )
        .arg(config())
        .args(SETTINGS.iter().filter_map(flag))
        .arg(set())
        .arg(json())
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON")
}

fn arch() -> clap::Command {
    clap::Command::new("arch")
        .about("List the architectures, and say which can run here and why others cannot")
        .arg(json())
}

fn ctl() -> clap::Command {
    let key = || Arg::new("key").value_name("KEY").required(true);
    clap::Command::new("ctl")
        .about("Ask a running server, or change a setting of it")
        .long_about(
            "Ask a running server, or change a setting of it, through a Unix-domain socket of its \
             --admin. Without --admin here it is found, if it is the only one. Every user who may \
             write to that socket may change the server.",
        )
        .subcommand_required(true)
        .arg(admin::socket().global(true))
        .subcommand(clap::Command::new("status").about("Print its status as JSON"))
        .subcommand(
            clap::Command::new("get")
                .about("Print the value of a setting that holds now")
                .arg(key()),
        )
        .subcommand(
            clap::Command::new("settings")
                .about("List the settings that can be changed, with their values")
                .arg(json()),
        )
        .subcommand(
            clap::Command::new("set")
                .about("Change a setting, such as `set arch mt`")
                .arg(key())
                .arg(Arg::new("value").value_name("VALUE").required(true)),
        )
        .subcommand(
            clap::Command::new("reload")
                .about("Load the configuration again; one that is wrong changes nothing"),
        )
        .subcommand(
            clap::Command::new("upgrade")
                .about("Let the program that is now at its path take over, or go on as before"),
        )
        .subcommand(
            clap::Command::new("drain")
                .about("Accept nothing more, finish what is under way, and end"),
        )
        .subcommand(trace::program())
}

/// Not for users: it is not in the help, and has no page.
#[cfg(feature = "acme")]
fn acme_agent() -> clap::Command {
    clap::Command::new("acme-agent")
        .about("Get certificates, as a server says by messages on standard input")
        .hide(true)
}

fn ctl_command(given: &ArgMatches) -> Result<Command, Failure> {
    let (name, given) = given.subcommand().unwrap_or(("status", given));
    let text = |id| given.get_one::<String>(id).cloned().unwrap_or_default();
    let ask = match name {
        "get" => Ask::Get(text("key")),
        "settings" => Ask::Settings { json: given.get_flag("json") },
        "set" => Ask::Set(text("key"), text("value")),
        "reload" => Ask::Do(Deed::Reload),
        "upgrade" => Ask::Do(Deed::Upgrade),
        "drain" => Ask::Do(Deed::Drain),
        "trace" => Ask::Trace(trace::parsed(given)),
        _ => Ask::Status,
    };
    Ok(Command::Ctl { socket: admin::socket_given(given)?, ask })
}

fn docs() -> clap::Command {
    let page = Arg::new("subcommand").value_name("SUBCOMMAND").help("Of this subcommand");
    let shell = Arg::new("shell").required(true).value_parser(value_parser!(Shell));
    clap::Command::new("docs")
        .about("Print the reference of settings, manual pages, or completions of a shell")
        .subcommand_required(true)
        .subcommand(clap::Command::new("settings").about("Print docs/settings.md"))
        .subcommand(clap::Command::new("experiments").about("Print docs/experiment-settings.md"))
        .subcommand(clap::Command::new("man").about("Print a page of the manual").arg(page))
        .subcommand(clap::Command::new("completions").about("Print completions").arg(shell))
}

fn document(given: &ArgMatches) -> Document {
    match given.subcommand() {
        Some(("experiments", _)) => Document::Experiments,
        Some(("man", given)) => Document::Man(given.get_one::<String>("subcommand").cloned()),
        Some(("completions", given)) => match given.get_one::<Shell>("shell") {
            Some(shell) => Document::Completions(*shell),
            None => Document::Settings,
        },
        _ => Document::Settings,
    }
}

fn directory() -> Arg {
    Arg::new("directory")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("Directory to serve [default: the current one]")
        .long_help(
            "Directory to serve. The default is the current one, unless a configuration file is \
             given. A file with [[site]] tables and DIR exclude each other.",
        )
}

fn config() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Configuration file, in TOML")
}

/// The flag of a setting that has one.
fn flag(setting: &'static Setting) -> Option<Arg> {
    let flag = setting.flag.as_ref()?;
    let about = format!("{} [default: {}]", setting.doc, setting.default.unwrap_or_default());
    let mut long = format!("{}.", setting.doc);
    if !setting.more.is_empty() {
        let _ = write!(long, " {}", setting.more);
    }
    let _ = write!(long, "\n\nThe setting {}: {}.", setting.key, setting.form());
    let _ = write!(long, "\n[default: {}]", setting.default.unwrap_or_default());
    let argument =
        Arg::new(setting.key).long(flag.name).value_name(flag.value).help(about).long_help(long);
    Some(match setting.key {
        LISTEN => argument.action(ArgAction::Append),
        // Of a flag that is given again the later one holds, as of --set.
        key => argument.overrides_with(key).aliases(name_before(key)),
    })
}

fn set() -> Arg {
    Arg::new("set")
        .long("set")
        .value_name("KEY=VALUE")
        .action(ArgAction::Append)
        .value_parser(ValueParser::new(assignment))
        .help("Any setting by its key; --help lists them")
        .long_help("Any setting by its key; may be repeated. The keys are listed below.")
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// What `--help` says about the keys of `--set`.
fn settings_help() -> String {
    let mut text = String::from("Keys of --set, with their defaults:\n");
    for setting in SETTINGS.iter().filter(|setting| !setting.is_experiment()) {
        let default = setting.default.unwrap_or_default();
        let _ = writeln!(text, "  {} ({default})\n      {}", setting.key, setting.doc);
    }
    text.push_str("\ndocs/settings.md tells more about each, and about the keys of sites.");
    text
}

/// Joins what the file says and what the command line says, in order of precedence.
fn typed(given: &ArgMatches) -> Result<Typed, Failure> {
    let config = given.get_one::<PathBuf>("config");
    // `explain` has no such argument.
    let directory = given.try_get_one::<PathBuf>("directory").ok().flatten();
    let (config, directory) = match (config, directory) {
        (None, Some(path)) if meant::is_configuration(path) => (Some(path), None),
        other => other,
    };
    let mut typed = match config {
        Some(path) => read(path)?,
        None => Typed::default(),
    };
    typed.directory = directory.cloned();
    // Only `serve` has these.
    let domains = given.try_get_many::<String>("domain").ok().flatten();
    typed.domains = domains.into_iter().flatten().cloned().collect();
    typed.is_https = given.try_get_one::<bool>("https").ok().flatten().is_some_and(|on| *on);
    typed.values.extend(written(given));
    Ok(typed)
}

/// The values of flags and of `--set`, in the order given.
fn written(given: &ArgMatches) -> Vec<Written> {
    let mut placed: Vec<(usize, Written)> = Vec::new();
    for setting in SETTINGS {
        let Some(flag) = &setting.flag else { continue };
        // `check` has no flags of settings.
        let Ok(Some(values)) = given.try_get_many::<String>(setting.key) else { continue };
        let place = given.indices_of(setting.key).and_then(Iterator::last).unwrap_or_default();
        let mut texts: Vec<Raw> = values.cloned().map(Raw::Text).collect();
        let raw = if texts.len() == 1 { texts.remove(0) } else { addresses(&texts) };
        let key = setting.key.to_owned();
        placed.push((place, Written { key, raw, origin: Origin::Flag(flag.name) }));
    }
    if let Some(port) = given.try_get_one::<u16>(PORT).ok().flatten() {
        let place = given.indices_of(PORT).and_then(Iterator::last).unwrap_or_default();
        let raw = Raw::Text(format!("127.0.0.1:{port}"));
        let key = LISTEN.to_owned();
        placed.push((place, Written { key, raw, origin: Origin::Flag(PORT) }));
    }
    if let Ok(Some(values)) = given.try_get_many::<(String, String)>("set") {
        let places = given.indices_of("set").into_iter().flatten();
        placed.extend(places.zip(values).map(|(place, (key, value))| {
            let raw = Raw::Text(value.clone());
            (place, Written { key: key.clone(), raw, origin: Origin::Set })
        }));
    }
    placed.sort_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, written)| written).collect()
}

/// The addresses of several `--listen`, each of which may be a list itself.
fn addresses(flags: &[Raw]) -> Raw {
    Raw::List(flags.iter().flat_map(Raw::items).collect())
}
