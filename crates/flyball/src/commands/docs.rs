//! `flyball docs settings`: prints docs/settings.md from the table of settings.

use std::process::ExitCode;

use flyball::settings::settings_markdown;

pub(crate) fn run() -> ExitCode {
    super::print(&settings_markdown());
    ExitCode::SUCCESS
}
