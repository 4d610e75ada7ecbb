//! `flyball load`: runs it, shows how it goes, and reports.

mod compare;
mod peak;
mod progress;
mod tui;

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use flyball::cli::{self, Command, Load, Run};
use flyball_load::agent;
use flyball_load::job::{Job, Options};
use flyball_load::observe::{Kind, Live, Report, csv, hdr_log, pretty, text};

use progress::{Shows, watched};

/// Exit code of a run that failed by a condition or by wrong bodies.
const FAILED_EXIT: u8 = 3;

/// Exit code of a run that says nothing about the server.
const VOID_EXIT: u8 = 4;

pub(crate) fn run(asked: &Load) -> ExitCode {
    let done = match asked {
        Load::Agent(address) => serve(*address).map(|()| ExitCode::SUCCESS),
        Load::Compare(asked) => compare::run(asked),
        Load::Run(asked) => {
            check(asked).and_then(|()| if asked.find_peak { peak::run(asked) } else { once(asked) })
        }
    };
    done.unwrap_or_else(|why| {
        eprintln!("flyball: {why}");
        ExitCode::FAILURE
    })
}

/// Whether what a run is to leave can be left: nobody wants to know after an hour.
fn check(asked: &Run) -> Result<(), String> {
    for file in [&asked.csv, &asked.hdr, &asked.plot].into_iter().flatten() {
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened.map_err(|error| told(file, &error))?;
    }
    if asked.tui && !std::io::stdout().is_terminal() {
        return Err("--tui needs a terminal on standard output".into());
    }
    Ok(())
}

fn once(asked: &Run) -> Result<ExitCode, String> {
    let report = measured(asked, &asked.options, &asked.arguments, &AtomicBool::new(false))?;
    super::print(&if asked.json { pretty(&report) } else { text(&report) });
    if let Some(file) = &asked.csv {
        fs::write(file, csv(&report)).map_err(|error| told(file, &error))?;
    }
    if let Some(file) = &asked.hdr {
        let mut out = BufWriter::new(File::create(file).map_err(|error| told(file, &error))?);
        hdr_log(&report, &mut out)
            .and_then(|()| out.flush())
            .map_err(|error| told(file, &error))?;
    }
    Ok(verdict(asked, &report))
}

/// One run: by agents where there are any, else by this process; a signal makes `stop` true, and
/// ends it early.
fn measured(
    asked: &Run,
    options: &Options,
    arguments: &[String],
    stop: &AtomicBool,
) -> Result<Report, String> {
    let live = Arc::new(Live::default());
    let shows = match asked {
        Run { tui: true, .. } => Shows::Screen(options.url.clone()),
        Run { quiet: true, .. } => Shows::Nothing,
        _ => Shows::Line,
    };
    if !asked.agents.is_empty() {
        let coordinate =
            || agent::coordinate(&asked.agents, arguments, options.asked(), &live, stop);
        let report = watched(&live, stop, shows, coordinate)?;
        return Ok(Report { interrupted: stop.load(Relaxed), ..report });
    }
    let job = Job::prepare(options)?;
    let report = watched(&live, stop, shows, || job.run(&live, stop));
    let report = report.map_err(|error| error.to_string())?;
    Ok(Report { interrupted: stop.load(Relaxed), ..report })
}

/// Says why a run failed or is void, and the exit code for it.
fn verdict(asked: &Run, report: &Report) -> ExitCode {
    let failures = failures(asked, report);
    failures.iter().for_each(|why| eprintln!("flyball: failed: {why}"));
    let judges = !asked.fail_if.is_empty();
    let (void, why) = (report.void_because(), report.invalid_because());
    if !void.is_empty() || judges && !why.is_empty() {
        let why = why.join("; ");
        eprintln!("flyball: the run is void: it says nothing about the server ({why})");
        return ExitCode::from(VOID_EXIT);
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED_EXIT) }
}

/// Why a run failed.
fn failures(asked: &Run, report: &Report) -> Vec<String> {
    let mut failures: Vec<String> =
        asked.fail_if.iter().filter_map(|threshold| threshold.failed_by(report)).collect();
    let tally = &report.tally;
    for (errors, when) in [(&tally.errors, ""), (&tally.warmup_errors, " within the warm-up")] {
        let count = |kind: Kind| errors[kind as usize];
        let kinds = [Kind::WrongBody, Kind::TornBody, Kind::ShortBody];
        let [wrong, torn, short] = kinds.map(count);
        if asked.options.behaviour.verify && wrong + torn + short > 0 {
            failures
                .push(format!("{wrong} wrong bodies, {torn} torn ones, {short} short ones{when}"));
        }
        let broken = count(Kind::WrongDynamic);
        if broken > 0 {
            failures.push(format!("{broken} dynamic replies broke a rule of SPECweb99{when}"));
        }
    }
    failures.extend(report.post_log.iter().flat_map(|log| log.wrong.iter().cloned()));
    failures
}

fn told(file: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", file.display())
}

/// Generates load for coordinators.
fn serve(address: std::net::SocketAddr) -> Result<(), String> {
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    super::print(&format!("an agent waits for coordinators at {address}\n"));
    let parse = |arguments: &[String]| {
        let words = ["flyball", "load"].into_iter().map(String::from);
        match cli::parse(words.chain(arguments.iter().cloned())) {
            Ok(Command::Load(Load::Run(run))) => Ok(run.options),
            Ok(_) => Err("that is no load".to_string()),
            Err(failure) => Err(failure.to_string()),
        }
    };
    agent::serve(&listener, &parse, &mut |what| eprintln!("flyball: {what}"))
        .map_err(|error| error.to_string())
}
