//! `flyball tune`: says what may be set here, hands the command line on, and shows how it goes.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use flyball::cli::Tune;
use flyball_arch::ALL;
use flyball_lab::contestant;
use flyball_lab::definition::Value;
use flyball_lab::run::STOLEN_PERCENT_MAX;
use flyball_lab::tune::{
    ARCHITECTURE, Asked, Knob, Notes, Point, Requests, Space, Stage, Target, Watch, run as tuned,
};

use super::lab::spoken;

/// Architectures that are not tried: processes or threads without number do not serve a site.
const NOT_TRIED: &[&str] = &["thread-per-connection"];

/// Of these settings the values that are tried, the default among them, and whether they have an
/// order. `workers` and [`ARCHITECTURE`] follow from the machine.
const KNOBS: &[(&str, &[&str], &str, bool)] = &[
    ("events", &["epoll", "epoll-edge", "poll"], "epoll", false),
    ("accept.limit", &["1", "4", "16", "64", "inf"], "16", true),
    ("connections.max", &["256", "1024", "4096", "auto"], "auto", true),
    ("send.mode", &["auto", "sendfile", "copy", "mapped"], "auto", false),
    ("send.blocking", &["false", "true"], "false", false),
    ("cache.content", &["32MiB", "128MiB", "512MiB"], "128MiB", true),
    ("cache.small", &["16KiB", "64KiB", "256KiB"], "64KiB", true),
    ("cache.files", &["256", "1024", "8192"], "1024", true),
    ("amped.helpers", &["2", "8", "32"], "8", true),
    ("mt.threads", &["16", "64", "256"], "64", true),
    ("mp.processes", &["8", "32", "128"], "32", true),
    ("watpipe.writers", &["2", "8", "32", "100"], "8", true),
];

/// What S4 recommends: in memory one non-blocking thread for each core, from the disk enough
/// threads to hide it (M170); and what the other papers do.
const FIRST: &[&[(&str, &str)]] = &[
    &[(ARCHITECTURE, "symped"), ("accept.limit", "inf")],
    &[(ARCHITECTURE, "uring")],
    &[(ARCHITECTURE, "watpipe"), ("watpipe.writers", "32")],
    &[(ARCHITECTURE, "amped"), ("amped.helpers", "32")],
    &[(ARCHITECTURE, "tux")],
    &[("events", "epoll-edge"), ("accept.limit", "64")],
];

pub(crate) fn run(asked: &Tune) -> ExitCode {
    super::finish(outcome(asked))
}

fn outcome(asked: &Tune) -> Result<String, String> {
    let target = match (&asked.directory, &asked.config, &asked.workload) {
        (Some(directory), ..) => Target::Directory(directory.clone()),
        (_, Some(config), _) => Target::Config(config.clone()),
        (.., workload) => Target::Workload(workload.clone().unwrap_or_default()),
    };
    let requests = match (&asked.log, &asked.list) {
        (Some(log), _) => Requests::Log(log.clone()),
        (_, Some(list)) => Requests::List(list.clone()),
        _ => Requests::Files,
    };
    let peer = contestant::space(&asked.server);
    let first = if peer.is_some() { Vec::new() } else { first(&space()) };
    let asked = Asked {
        flyball: std::env::current_exe().map_err(|error| error.to_string())?,
        contestant: asked.server.clone(),
        target,
        requests,
        per_connection: asked.per_connection,
        first,
        space: peer.unwrap_or_else(space),
        budget: asked.budget,
        seed: asked.seed,
        out: asked.out.clone(),
        p99_us_max: asked.p99_max.map(|most| most.as_secs_f64() * 1e6),
        stolen_percent_max: asked.stolen_percent_max.unwrap_or(STOLEN_PERCENT_MAX),
        command: command(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    flyball_lab::laboratory::on_interrupt(&stop)?;
    tuned(&asked, &mut Lines, &|| stop.load(Relaxed)).map_err(|error| error.to_string())
}

/// The command line, with the program's name as it is called and not where it is.
fn command() -> String {
    let words = std::env::args().enumerate().map(|(nth, word)| match nth {
        0 => Path::new(&word).file_name().unwrap_or_default().to_string_lossy().into_owned(),
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What may be set on this machine.
fn space() -> Space {
    let runs = ALL.iter().filter(|arch| arch.probe().is_ok());
    let mut names: Vec<&str> = runs.map(|arch| arch.name()).collect();
    names.retain(|name| !NOT_TRIED.contains(name));
    let default = flyball_arch::Settings::default().arch;
    let mut knobs = vec![Knob {
        key: ARCHITECTURE.into(),
        default: names.iter().position(|name| *name == default).unwrap_or(0),
        values: names.iter().map(|name| value(name)).collect(),
        ordered: false,
        only: None,
    }];
    knobs.push(workers());
    knobs.extend(KNOBS.iter().map(|(key, values, default, ordered)| Knob {
        key: (*key).into(),
        values: values.iter().map(|text| value(text)).collect(),
        default: values.iter().position(|text| text == default).unwrap_or(0),
        ordered: *ordered,
        only: honoured_by(key),
    }));
    Space { knobs }
}

/// As many workers as there are processors, or more of them, for disks that are waited for.
fn workers() -> Knob {
    let cpus = thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
    let more = [2, 4, 8].map(|times| Value::Whole((times * cpus) as i64));
    Knob {
        key: "workers".into(),
        values: [value("auto")].into_iter().chain(more).collect(),
        default: 0,
        ordered: true,
        only: honoured_by("workers"),
    }
}

/// The architectures that honour a setting; none are named for one that all do.
fn honoured_by(key: &str) -> Option<Vec<String>> {
    let honouring = ALL.iter().filter(|arch| arch.settings().contains(&key));
    let names: Vec<String> = honouring.map(|arch| arch.name().to_owned()).collect();
    (!names.is_empty()).then_some(names)
}

fn value(text: &str) -> Value {
    let whole = text.parse().map(Value::Whole).ok();
    whole.or_else(|| text.parse().map(Value::Flag).ok()).unwrap_or_else(|| Value::Text(text.into()))
}

fn first(space: &Space) -> Vec<Point> {
    let default = space.default_point();
    let points = FIRST.iter().map(|settings| space.point_of(settings));
    // One of an architecture that cannot run here comes out as something else.
    points.filter(|point| *point != default).collect()
}

/// Says on standard error how it goes.
struct Lines;

impl Watch for Lines {
    fn begins(&mut self, stage: Stage, nth: usize, of: usize, label: &str, left: Duration) {
        let stage = match stage {
            Stage::Noise => "noise",
            Stage::Screen => "screen",
            Stage::Halving => "halving",
            Stage::Steps => "steps",
            Stage::Confirmation => "confirmation",
        };
        eprint!("[{stage} {nth}/{of}, {} left] {label}: ", spoken(left));
    }

    fn came(&mut self, score: &Result<f64, String>, by_default: Option<f64>) {
        match (score, by_default) {
            (Ok(score), Some(by)) => eprintln!("{score:.0}/s, {by:.2} of the default"),
            (Ok(score), None) => eprintln!("{score:.0}/s"),
            (Err(why), _) => eprintln!("void: {why}"),
        }
    }
}

impl Notes for Lines {
    fn note(&mut self, what: &str) {
        eprintln!("{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_is_a_setting_with_its_default_and_values_that_it_takes() {
        for knob in space().knobs.iter() {
            let setting = flyball::settings::SETTINGS.iter().find(|row| row.key == knob.key);
            let setting = setting.unwrap_or_else(|| panic!("{} is no setting", knob.key));
            let default = knob.values[knob.default].to_string();
            assert_eq!(setting.default, Some(default.as_str()), "{}", knob.key);
            for value in &knob.values {
                let words = ["flyball", "serve", "/", "--set", &format!("{}={value}", knob.key)];
                let Ok(flyball::cli::Command::Serve(typed)) = flyball::cli::parse(words) else {
                    panic!("{}={value}", knob.key);
                };
                assert!(crate::commands::settings(typed).is_ok(), "{}={value}", knob.key);
            }
        }
    }

    #[test]
    fn what_is_tried_first_is_among_the_values() {
        let space = space();
        for (settings, point) in FIRST.iter().zip(FIRST.iter().map(|one| space.point_of(one))) {
            let set = space.settings(&point);
            for (key, wanted) in *settings {
                let is_there = set.get(*key).is_some_and(|value| value.to_string() == *wanted);
                assert!(is_there, "{key}={wanted} in {set:?}");
            }
        }
    }
}
