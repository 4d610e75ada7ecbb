//! What can be seen and done while a run goes on: a line that is written anew, and Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use flyball_load::observe::{Glance, Live};
use flyball_sys::clock::monotonic_ns;
use flyball_sys::net;
use flyball_sys::signal::{Signal, Signals};

use super::tui;

/// Milliseconds between two looks for signals.
const LOOK_MS: u64 = 100;

/// Looks from one progress line to the next, on a terminal, where it is written over.
const LOOKS: u32 = 5;

/// The same in a file, which keeps every line: a short run leaves none.
const LOOKS_IN_FILE: u32 = 100;

/// What is shown of a run.
pub(super) enum Shows {
    /// Nothing.
    Nothing,
    /// A line, which on a terminal is written over.
    Line,
    /// A screen of its own, for this URL.
    Screen(String),
}

/// Runs `work` and shows its progress on standard error. The first SIGINT or SIGTERM makes `stop`
/// true, so that what was counted is reported; another one ends the process.
pub(super) fn watched<T: Send>(
    live: &Arc<Live>,
    stop: &AtomicBool,
    shows: Shows,
    work: impl FnOnce() -> T,
) -> T {
    let has_line = matches!(shows, Shows::Line);
    let is_terminal = std::io::stderr().is_terminal();
    let between = if is_terminal { LOOKS } else { LOOKS_IN_FILE };
    // Before any thread: all of them leave the signals to the watcher.
    let signals = Signals::block();
    let over = Arc::new(AtomicBool::new(false));
    let screen = match shows {
        Shows::Screen(url) => Some(tui::Screen::start(url, Arc::clone(live), Arc::clone(&over))),
        _ => None,
    };
    let done = thread::scope(|scope| {
        let over = &over;
        let wants_stop = screen.as_ref().map(tui::Screen::wants_stop);
        scope.spawn(move || {
            let (mut last, mut looks) = (Glance::default(), 0);
            while !over.load(Relaxed) {
                if wants_stop.as_ref().is_some_and(|wants_stop| wants_stop.load(Relaxed)) {
                    stop.store(true, Relaxed);
                }
                match &signals {
                    Ok(signals) => look(signals, stop),
                    Err(_) => thread::park_timeout(std::time::Duration::from_millis(LOOK_MS)),
                }
                looks += 1;
                if has_line && looks % between == 0 {
                    let now = live.glance();
                    let shown = line(now, last, monotonic_ns(), between);
                    if is_terminal {
                        eprint!("\r\x1b[K{shown}")
                    } else {
                        eprintln!("{shown}")
                    }
                    last = now;
                }
            }
            if has_line && is_terminal {
                eprint!("\r\x1b[K");
                let _ = std::io::stderr().flush();
            }
        });
        let done = work();
        over.store(true, Relaxed);
        done
    });
    if let Some(screen) = screen {
        screen.leave();
    }
    done
}

/// Waits a little for a signal.
fn look(signals: &Signals, stop: &AtomicBool) {
    if !net::wait_readable(signals, LOOK_MS).unwrap_or(false) {
        return;
    }
    while let Some(signal) = signals.next() {
        // The terminal that was closed is one more way to be told to stop.
        let is_stop = matches!(signal, Signal::Stop | Signal::Reload);
        if is_stop && stop.swap(true, Relaxed) {
            flyball_sys::process::exit_now(130);
        }
    }
}

/// How the run is at `now_ns`, after what it was so many looks before.
fn line(now: Glance, last: Glance, now_ns: u64, looks: u32) -> String {
    let window = now.window;
    let total = window.to_ns.saturating_sub(window.from_ns) as f64 / 1e9;
    let passed = now_ns.saturating_sub(window.from_ns) as f64 / 1e9;
    let per_s = now.replies.saturating_sub(last.replies) as f64 * 1000.0
        / (LOOK_MS * u64::from(looks)) as f64;
    format!(
        "{:.0}/{total:.0} s  {per_s:.0} replies/s  {} open  {} errors",
        passed.min(total),
        now.open,
        now.errors
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_load::observe::Window;

    #[test]
    fn a_line_says_how_far_and_how_fast_a_run_is() {
        let window = Window { from_ns: 1_000_000_000, to_ns: 11_000_000_000 };
        let last = Glance { window, replies: 500, ..Glance::default() };
        let now = Glance { replies: 1500, open: 7, errors: 3, ..last };
        // Half a second passes from one line to the next.
        let shown = line(now, last, 5_000_000_000, LOOKS);
        assert_eq!(shown, "4/10 s  2000 replies/s  7 open  3 errors");
        let shown = line(now, last, 11_000_000_000, LOOKS_IN_FILE);
        assert_eq!(shown, "10/10 s  100 replies/s  7 open  3 errors", "ten seconds do in a file");
        let late = line(now, now, 60_000_000_000, LOOKS);
        assert!(late.starts_with("10/10 s  0 replies/s"), "it waits for its last replies: {late}");
    }
}
