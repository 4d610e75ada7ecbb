//! `flyball fileset`: makes the files, and shows how far it is.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use flyball::cli::Fileset;
use flyball_load::fileset::make;

/// Files between two words about how far it is.
const PROGRESS_FILES: usize = 64;

pub(crate) fn run(asked: &Fileset) -> ExitCode {
    let shows = stderr().is_terminal();
    let mut progress = |nth: usize, all: usize| {
        if shows && nth.is_multiple_of(PROGRESS_FILES) {
            eprint!("\r{nth} of {all} files");
        }
    };
    let made = make(&asked.manifest, &asked.directory, &mut progress);
    if shows {
        eprint!("\r\x1b[K");
    }
    match made {
        Ok(files) => {
            let directory = asked.directory.display();
            super::print(&format!("{files} files of {} in {directory}\n", asked.manifest.kind));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {why}");
            ExitCode::FAILURE
        }
    }
}
