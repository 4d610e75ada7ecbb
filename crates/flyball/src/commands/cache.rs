//! `flyball cache simulate`: replays an access log against caches of several policies and sizes.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flyball::cli::{Simulate, USAGE_EXIT};
use flyball_site::simulate::{Progress, Report, Simulation};

/// Bytes of the log that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// How often it is said how far the replay has come.
const PROGRESS: Duration = Duration::from_secs(1);

pub(crate) fn run(asked: &Simulate) -> ExitCode {
    match replay(asked) {
        Ok(report) if report.requests > 0 || report.malformed == 0 => {
            let text = match asked.json {
                true => format!("{:#}\n", report.to_json()),
                false => report.to_string(),
            };
            super::print(&text);
            ExitCode::SUCCESS
        }
        Ok(report) => {
            eprintln!("{}: no line is of an access log:\n{report}", asked.log.display());
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(USAGE_EXIT)
        }
    }
}

fn replay(asked: &Simulate) -> Result<Report, String> {
    let root = asked.options.root.as_deref().unwrap_or(Path::new("."));
    let mut simulation = Simulation::new(asked.options.clone())
        .map_err(|error| format!("--root {}: {error}", root.display()))?;
    let log = open(&asked.log).map_err(|error| format!("{}: {error}", asked.log.display()))?;
    let (mut told, mut shows) = (Instant::now(), false);
    let tells = std::io::stderr().is_terminal();
    let tell = |progress: Progress| {
        if tells && told.elapsed() >= PROGRESS {
            (told, shows) = (Instant::now(), true);
            eprint!("\r{} lines, {} MiB", progress.lines, progress.bytes >> 20);
        }
    };
    let replayed = simulation.replay(log, tell);
    if shows {
        eprintln!();
    }
    replayed.map_err(|error| format!("{}: {error}", asked.log.display()))?;
    Ok(simulation.report())
}

fn open(log: &Path) -> std::io::Result<Box<dyn BufRead>> {
    if log == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, std::io::stdin())));
    }
    let file = File::open(log)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
}
