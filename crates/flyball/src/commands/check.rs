//! `flyball check`: says whether a configuration is right, and binds nothing.

use std::process::ExitCode;

use flyball::settings::Typed;
use flyball_server::Server;

/// Exit code when the server could not start.
const FAILED: u8 = 1;

pub(crate) fn run(typed: Typed) -> ExitCode {
    match super::settings(typed) {
        Ok(settings) => {
            let checked = match flyball_arch::find(&settings.arch) {
                Some(architecture) => Server::check(architecture, &settings),
                None => Ok(Vec::new()),
            };
            let warnings = match checked {
                Ok(warnings) => warnings,
                Err(why) => {
                    eprintln!("flyball: {why}");
                    return ExitCode::from(FAILED);
                }
            };
            for warning in warnings {
                eprintln!("flyball: warning: {warning}");
            }
            let sites = settings.sites.len();
            let noun = if sites == 1 { "site" } else { "sites" };
            super::print(&format!("ok: {sites} {noun}, architecture {}\n", settings.arch));
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(),
    }
}
