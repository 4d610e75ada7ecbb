//! `flyball check`: says whether a configuration is right, and binds nothing.

use std::process::ExitCode;

use flyball::settings::Typed;

pub(crate) fn run(typed: Typed) -> ExitCode {
    match super::settings(typed) {
        Ok(settings) => {
            let sites = settings.sites.len();
            let noun = if sites == 1 { "site" } else { "sites" };
            super::print(&format!("ok: {sites} {noun}, architecture {}\n", settings.arch));
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(),
    }
}
