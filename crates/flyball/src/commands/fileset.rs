//! `flyball fileset`: makes the files, and shows how far it is.

use std::fmt::Display;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use flyball::cli::Fileset;
use flyball_load::fileset::{make, make_of_log};
use flyball_load::sessions::write_sessions;
use flyball_load::workload::{Skipped, files_of_log};

/// Files between two words about how far it is.
const PROGRESS_FILES: usize = 64;

pub(crate) fn run(asked: &Fileset) -> ExitCode {
    let shows = stderr().is_terminal();
    let mut progress = |nth: usize, all: usize| {
        if shows && nth.is_multiple_of(PROGRESS_FILES) {
            eprint!("\r{nth} of {all} files");
        }
    };
    let made = made(asked, &mut progress);
    if shows {
        eprint!("\r\x1b[K");
    }
    match made {
        Ok(told) => {
            super::print(&told);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes it; what there is now, in words.
fn made(asked: &Fileset, progress: &mut dyn FnMut(usize, usize)) -> Result<String, String> {
    let (directory, shown) = (&asked.directory, asked.directory.display());
    let Some((log, data_set)) = &asked.log else {
        let files = make(&asked.manifest, directory, progress)?;
        let mut told = format!("{files} files of {} in {shown}\n", asked.manifest.kind);
        if let Some((logs, directory)) = &asked.sessions {
            write_sessions(&asked.manifest, *logs, directory)?;
            told += &format!("{} logs of sessions in {}\n", logs.logs, directory.display());
        }
        return Ok(told);
    };
    let named = |why: &dyn Display| format!("{}: {why}", log.display());
    let text = fs::read(log).map_err(|error| named(&error))?;
    let mut skipped = Skipped::new(asked.strict);
    let (files, unnamed) =
        files_of_log(&text, *data_set, &mut skipped).map_err(|why| named(&why))?;
    make_of_log(&files, asked.manifest.parameters.seed, directory, progress)?;
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let mut told = format!("{} files with {bytes} bytes of a log in {shown}\n", files.len());
    if let Some(note) = skipped.note() {
        told += &format!("{}\n", named(&note));
    }
    if unnamed > 0 {
        told += &format!("{unnamed} paths of the log can be no files beside the others\n");
    }
    Ok(told)
}
