//! `perf`, which looks into processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Running, SetupError, find};

/// Time that perf may take beyond its look, to read what it wrote.
const PERF_MAX: Duration = Duration::from_secs(60);

/// Runs perf to its end, and returns what it printed. Blocks; it looks for so many seconds, and
/// `scratch` is for its output.
///
/// # Errors
/// When it is missing, or with what it complained of.
pub(crate) fn perf(
    words: &[&str],
    look_s: f64,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<String, SetupError> {
    let (output, errors) = (scratch.join("perf.out"), scratch.join("perf.err"));
    let mut command = Command::new(find("perf")?);
    command.args(words).stdin(Stdio::null());
    let mut running = Running::start_apart(&mut command, &output, &errors)?;
    let ended = running.wait(Duration::from_secs_f64(look_s) + PERF_MAX, stop);
    if ended.is_some_and(|status| status.success()) {
        let text = fs::read(&output).map_err(|error| SetupError(error.to_string()))?;
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    let said = fs::read_to_string(&errors).unwrap_or_default();
    let what = words.first().copied().unwrap_or_default();
    let why = if ended.is_none() && !stop() { "it does not end" } else { said.trim() };
    Err(SetupError(format!("perf {what}: {why}")))
}
