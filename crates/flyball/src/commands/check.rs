//! `flyball check`: says whether a configuration is right, and binds nothing. Whatever is wrong, it
//! ends with the same status.

use std::process::ExitCode;

use flyball::cli::USAGE_EXIT;
use flyball::settings::Typed;
use flyball_server::words::counted;
use flyball_server::{Checked, Server};
use flyball_sys::clock::unix_ms;

pub(crate) fn run(typed: Typed) -> ExitCode {
    match super::settings(typed) {
        Ok(settings) => {
            let checked = match flyball_arch::find(&settings.arch) {
                Some(architecture) => Server::check(architecture, &settings),
                None => Ok(Checked::default()),
            };
            let Checked { warnings, certificates } = match checked {
                Ok(checked) => checked,
                Err(why) => {
                    eprintln!("flyball: {why}");
                    return ExitCode::from(USAGE_EXIT);
                }
            };
            for warning in warnings {
                eprintln!("flyball: warning: {warning}");
            }
            let sites = settings.sites.iter().filter(|site| !site.is_many()).count() as u64;
            let sites = counted(sites, "site");
            let mut text = format!("ok: {sites}, architecture {}\n", settings.arch);
            for certificate in certificates {
                text += &format!("certificate {}\n", certificate.to_text(unix_ms() / 1_000));
            }
            super::print(&text);
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(),
    }
}
