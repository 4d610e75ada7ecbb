//! `flyball load`: runs it, shows how it goes, and reports.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use flyball::cli::Load;
use flyball_load::job::Job;
use flyball_load::observe::{Glance, Live, Report, json, text};
use flyball_sys::clock::monotonic_ns;

/// Time between two progress lines.
const PROGRESS: Duration = Duration::from_millis(500);

pub(crate) fn run(asked: &Load) -> ExitCode {
    match measured(asked) {
        Ok(report) => {
            super::print(&if asked.json {
                format!("{:#}\n", json(&report))
            } else {
                text(&report)
            });
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measured(asked: &Load) -> Result<Report, String> {
    let job = Job::prepare(&asked.options)?;
    let live = Arc::new(Live::default());
    let stop = AtomicBool::new(false);
    let shows = !asked.quiet && std::io::stderr().is_terminal();
    let over = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let watcher = shows.then(|| {
            let (live, over) = (Arc::clone(&live), &over);
            scope.spawn(move || progress(&live, over))
        });
        let report = job.run(&live, &stop);
        over.store(true, Relaxed);
        if let Some(watcher) = watcher {
            watcher.thread().unpark();
        }
        report
    });
    report.map_err(|error| error.to_string())
}

/// One line on standard error that is written anew, until the run is over.
fn progress(live: &Live, over: &AtomicBool) {
    let mut last = Glance::default();
    while !over.load(Relaxed) {
        thread::park_timeout(PROGRESS);
        let now = live.glance();
        let window = now.window;
        let total = window.to_ns.saturating_sub(window.from_ns) as f64 / 1e9;
        let passed = monotonic_ns().saturating_sub(window.from_ns) as f64 / 1e9;
        let per_s = (now.replies - last.replies) as f64 / PROGRESS.as_secs_f64();
        eprint!(
            "\r\x1b[K{:.0}/{total:.0} s  {per_s:.0} replies/s  {} open  {} errors",
            passed.min(total),
            now.open,
            now.errors
        );
        last = now;
    }
    eprint!("\r\x1b[K");
    let _ = std::io::stderr().flush();
}
