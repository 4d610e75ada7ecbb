//! Which running server is meant: that of `--admin`, or else of FLYBALL_ADMIN.

use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches};
use flyball_sys::net::Endpoint;

use super::Failure;
use crate::settings::admin_address;

/// The argument, and its name.
const ADMIN: &str = "admin";

/// The variable of the environment that holds where it is not given.
const VARIABLE: &str = "FLYBALL_ADMIN";

/// For commands that only ask: an address, or the path of a socket.
pub(super) fn any() -> Arg {
    argument("ADDR", any_of).help("The server's --admin: an address, or unix:PATH")
}

/// For commands that change the server too: the path of a socket.
pub(super) fn socket() -> Arg {
    argument("unix:PATH", socket_of).help("The server's --admin")
}

fn argument<T: Clone + Send + Sync + 'static>(
    form: &'static str,
    read: fn(&str) -> Result<T, String>,
) -> Arg {
    Arg::new(ADMIN)
        .long(ADMIN)
        .value_name(form)
        .value_parser(ValueParser::new(read))
        .long_help(format!("The server's --admin, as {form} [default: {VARIABLE}]"))
}

/// What [`any`] names.
///
/// # Errors
/// When neither it nor the variable names one.
pub(super) fn any_given(given: &ArgMatches) -> Result<Endpoint, Failure> {
    chosen(given, any_of)
}

/// What [`socket`] names.
///
/// # Errors
/// When neither it nor the variable names one.
pub(super) fn socket_given(given: &ArgMatches) -> Result<PathBuf, Failure> {
    chosen(given, socket_of)
}

fn chosen<T: Clone + Send + Sync + 'static>(
    given: &ArgMatches,
    read: fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    if let Some(chosen) = given.get_one::<T>(ADMIN) {
        return Ok(chosen.clone());
    }
    let named = std::env::var(VARIABLE).ok().filter(|named| !named.is_empty());
    let why = match named.as_deref().map(read) {
        Some(Ok(chosen)) => return Ok(chosen),
        Some(Err(why)) => format!("{VARIABLE}: {why}"),
        None => format!("which server? Name its socket by --admin or {VARIABLE}"),
    };
    Err(super::program().error(ErrorKind::MissingRequiredArgument, why).into())
}

fn any_of(text: &str) -> Result<Endpoint, String> {
    admin_address(text)
        .ok_or_else(|| "expected an address such as 127.0.0.1:9, or unix:PATH".into())
}

fn socket_of(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
    path.map(|path| Path::new(path).to_owned()).ok_or_else(|| "expected unix:PATH".into())
}
