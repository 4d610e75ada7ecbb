//! `flyball load --find-peak`: many runs, and their curve.

use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use flyball::cli::Run;
use flyball_load::job::Load;
use flyball_load::peak::{self, Point};
use flyball_load::schedule::Profile;

pub(super) fn run(asked: &Run) -> Result<ExitCode, String> {
    let (first, name) = match &asked.options.load {
        Load::Sessions(profile) => (profile.highest_per_s(), "sessions"),
        Load::Requests(profile, _) => (profile.highest_per_s(), "requests-per-s"),
        Load::Rate(profile) => (profile.highest_per_s(), "rate"),
        Load::Connections(_) | Load::Replay(_) => return Err("--find-peak needs a rate".into()),
    };
    // Rates of the curve are requests; what is scheduled are sessions of some requests each.
    let (mut failures, stop) = (Vec::new(), AtomicBool::new(false));
    let mut per_session = f64::from(asked.options.requests_per_session());
    let curve = peak::find(first * per_session, |rate| {
        let profile = Profile::constant(rate / per_session);
        let mut options = asked.options.clone();
        let mut arguments: Vec<String> = asked.arguments.clone();
        let written = format!("--{name}=");
        arguments.retain(|text| !text.starts_with(&written));
        arguments.insert(0, format!("{written}{}", profile.text()));
        options.load = match options.load {
            Load::Sessions(_) => Load::Sessions(profile),
            Load::Requests(_, connections) => Load::Requests(profile, connections),
            _ => Load::Rate(profile),
        };
        let report = super::measured(asked, &options, &arguments, &stop)?;
        if stop.load(Relaxed) {
            return Err("it was interrupted".into());
        }
        if !report.void.is_empty() {
            return Err(format!("the run is void: {}", report.void.join("; ")));
        }
        per_session = report.asked.requests_per_session.max(1e-9);
        let point = Point::of(&report);
        let failed = super::failures(asked, &report).into_iter();
        failures.extend(failed.map(|why| format!("at {:.1}/s: {why}", point.offered)));
        if !asked.quiet {
            let (offered, good) = (point.offered, point.goodput);
            eprintln!("offered {offered:.1}/s: {good:.1}/s good");
        }
        Ok(point)
    })?;
    if let Some(file) = &asked.plot {
        let title = format!("{}, {} per rate", asked.options.url, seconds(asked));
        fs::write(file, peak::svg(&curve, &title)).map_err(|error| super::told(file, &error))?;
    }
    super::super::print(&if asked.json {
        format!("{:#}\n", peak::to_json(&curve))
    } else {
        peak::text(&curve)
    });
    failures.iter().for_each(|why| eprintln!("flyball: failed: {why}"));
    let is_silent = curve.is_silent();
    if let Some(why) = curve.stopped {
        return Err(why);
    }
    if is_silent {
        eprintln!("flyball: the search is void: no request was answered");
        return Ok(ExitCode::from(super::VOID_EXIT));
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(super::FAILED_EXIT) })
}

fn seconds(asked: &Run) -> String {
    format!("{} s", asked.options.duration.as_secs_f64())
}
