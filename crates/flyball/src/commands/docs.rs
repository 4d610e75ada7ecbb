//! `flyball docs`: prints what is made from the program's own tables: docs/settings.md and
//! docs/experiment-settings.md, pages of the manual, and completions for shells.

use std::io;
use std::process::ExitCode;

use flyball::cli::{Document, USAGE_EXIT, program};
use flyball::settings::{experiments_markdown, settings_markdown};

pub(crate) fn run(document: &Document) -> ExitCode {
    let mut text = Vec::new();
    let made = match document {
        Document::Settings => {
            text.extend(settings_markdown().into_bytes());
            Ok(())
        }
        Document::Experiments => {
            text.extend(experiments_markdown().into_bytes());
            Ok(())
        }
        Document::Man(name) => page(name.as_deref(), &mut text),
        Document::Completions(shell) => {
            clap_complete::generate(*shell, &mut program(), "flyball", &mut text);
            Ok(())
        }
    };
    match made {
        Ok(()) => {
            super::print(&String::from_utf8_lossy(&text));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flyball: {error}");
            ExitCode::from(USAGE_EXIT)
        }
    }
}

/// The page of a subcommand, or of the program.
fn page(name: Option<&str>, text: &mut Vec<u8>) -> io::Result<()> {
    // Names of subcommands become whole ones, such as flyball-serve.
    let mut program = program();
    program.build();
    let command = match name {
        None => Some(&program),
        Some(name) => program.find_subcommand(name).filter(|command| !command.is_hide_set()),
    };
    let Some(command) = command else {
        return Err(io::Error::other(format!("there is no subcommand {:?}", name.unwrap_or(""))));
    };
    clap_mangen::Man::new(command.clone()).render(text)
}
