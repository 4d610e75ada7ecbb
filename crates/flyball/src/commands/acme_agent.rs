//! `flyball acme-agent`: the process that gets certificates. The master executes it.

use std::process::ExitCode;

use flyball::cli::USAGE_EXIT;
use flyball_sys::error_log::{self, Level};
use flyball_sys::{say, title};

pub(crate) fn run() -> ExitCode {
    title::prepare();
    title::set("flyball: acme-agent");
    error_log::stamp();
    match flyball_acme::run(std::io::stdin(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say!(Level::Error, "acme-agent: {why}");
            ExitCode::from(USAGE_EXIT)
        }
    }
}
