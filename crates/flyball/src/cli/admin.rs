//! Which running server is meant: that of `--admin`, or else of FLYBALL_ADMIN, or else the one that
//! is found.

use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches};
use flyball_sys::net::Endpoint;

use super::Failure;
use crate::running::VARIABLE;
use crate::settings::admin_address;

/// The argument, and its name.
const ADMIN: &str = "admin";

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
    Arg::new(ADMIN).long(ADMIN).value_name(form).value_parser(ValueParser::new(read)).long_help(
        format!(
            "The server's --admin, as {form} [default: {VARIABLE}, or the server that is found in \
             the runtime directory]"
        ),
    )
}

/// What [`any`] names; `None` where neither it nor the variable does.
///
/// # Errors
/// When the variable makes no sense.
pub(super) fn any_given(given: &ArgMatches) -> Result<Option<Endpoint>, Failure> {
    chosen(given, any_of)
}

/// What [`socket`] names, the same.
///
/// # Errors
/// As [`any_given`].
pub(super) fn socket_given(given: &ArgMatches) -> Result<Option<PathBuf>, Failure> {
    chosen(given, socket_of)
}

fn chosen<T: Clone + Send + Sync + 'static>(
    given: &ArgMatches,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    if let Some(chosen) = given.get_one::<T>(ADMIN) {
        return Ok(Some(chosen.clone()));
    }
    let named = std::env::var(VARIABLE).ok().filter(|named| !named.is_empty());
    named.as_deref().map(read).transpose().map_err(|why| {
        let why = format!("{VARIABLE}: {why}");
        super::program().error(ErrorKind::InvalidValue, why).into()
    })
}

fn any_of(text: &str) -> Result<Endpoint, String> {
    admin_address(text)
        .ok_or_else(|| "expected an address such as 127.0.0.1:9, or unix:PATH".into())
}

fn socket_of(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
    path.map(|path| Path::new(path).to_owned()).ok_or_else(|| "expected unix:PATH".into())
}
