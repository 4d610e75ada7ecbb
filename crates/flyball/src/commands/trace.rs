//! `flyball ctl trace`: asks a running server for timelines, again and again, and prints them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use flyball::cli::Tracing;
use flyball_arch::ascii_json;
use flyball_server::control;
use flyball_sys::error_log;
use flyball_sys::readiness::{self, Interest};
use serde_json::Value;

/// How often the server is asked, in milliseconds.
const INTERVAL_MS: i32 = 100;

pub(crate) fn run(socket: &Path, tracing: &Tracing) -> ExitCode {
    match follow(socket, tracing) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(lost) => {
            eprintln!("flyball: {lost} timelines were lost: too many came at once");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {}", error_log::shown(why.trim_end()));
            ExitCode::FAILURE
        }
    }
}

/// Prints until there are enough, or nobody reads any more; how many were lost.
fn follow(socket: &Path, tracing: &Tracing) -> Result<u64, String> {
    let mut filter = format!("/trace?sample={}&slower-us={}", tracing.sample, tracing.slower_us);
    if let Some(host) = &tracing.host {
        let _ = write!(filter, "&host={host}");
    }
    let (mut target, mut left, mut lost) = (filter.clone(), tracing.count, 0);
    loop {
        let (status, text) = control::ask(socket, "POST", &target)?;
        if status != 200 {
            return Err(text);
        }
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        lost += answer["lost"].as_u64().unwrap_or_default();
        target = format!("{filter}&after={}", answer["next"]);
        for record in answer["records"].as_array().into_iter().flatten() {
            let line = match (tracing.json, record["line"].as_str()) {
                (false, Some(line)) => error_log::shown(line),
                _ => ascii_json(&record["record"]),
            };
            if !print(&(line + "\n")) {
                return Ok(lost);
            }
            if let Some(left) = &mut left {
                *left -= 1;
                if *left == 0 {
                    return Ok(lost);
                }
            }
        }
        if is_unread(INTERVAL_MS) {
            return Ok(lost);
        }
    }
}

/// Waits so long, or until nobody reads any more: whether that is so.
fn is_unread(timeout_ms: i32) -> bool {
    let wait = || -> io::Result<bool> {
        let (out, mut events) = (io::stdout(), Vec::new());
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(out.as_fd(), 0, Interest::NONE)?;
        mechanism.wait(&mut events, timeout_ms)?;
        Ok(events.iter().any(|event| event.hangup))
    };
    wait().unwrap_or(true)
}

/// False when nobody reads any more.
fn print(line: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_ok()
}
