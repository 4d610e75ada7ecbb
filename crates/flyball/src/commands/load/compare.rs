//! `flyball load compare`: the reports of two files beside each other.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use flyball::cli::Compare;
use flyball_load::compare::{Side, json, text, void};

/// Most bytes of a file of reports.
const BYTES_MAX: u64 = 1 << 30;

pub(super) fn run(asked: &Compare) -> Result<ExitCode, String> {
    let (a, b) = (side(&asked.a)?, side(&asked.b)?);
    let told = if asked.json { format!("{:#}\n", json(&a, &b)) } else { text(&a, &b) };
    super::super::print(&told);
    let counts = void(&a, &b).is_empty();
    Ok(if counts { ExitCode::SUCCESS } else { ExitCode::from(super::VOID_EXIT) })
}

fn side(file: &Path) -> Result<Side, String> {
    let told = |error| super::told(file, &error);
    if fs::metadata(file).map_err(told)?.len() > BYTES_MAX {
        return Err(format!("{}: more than {BYTES_MAX} bytes", file.display()));
    }
    let text = fs::read_to_string(file).map_err(told)?;
    Side::read(&file.display().to_string(), &text)
}
