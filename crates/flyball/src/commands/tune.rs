//! `flyball tune`: says what may be set here, hands the command line on, and shows how it goes.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use flyball::cli::Tune;
use flyball::settings::{Range, SETTINGS, SettingError, TUNED_FIRST, Typed, explain, find, read};
use flyball_arch::ALL;
use flyball_lab::contestant;
use flyball_lab::definition::Value;
use flyball_lab::outcome::Said;
use flyball_lab::run::STOLEN_PERCENT_MAX;
use flyball_lab::tune::{
    ARCHITECTURE, Asked, Knob, Notes, Point, Requests, Space, Stage, Target, Watch, run as tuned,
};

use super::progress::{self, spoken};

pub(crate) fn run(asked: &Tune) -> ExitCode {
    super::finish_said(outcome(asked))
}

fn outcome(asked: &Tune) -> Result<Said, String> {
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
    let typed = match &target {
        Target::Config(config) => read(config).map_err(|errors| lines(&errors))?,
        _ => Typed::default(),
    };
    let peer = contestant::space(&asked.server);
    let first = if peer.is_some() { Vec::new() } else { first(&space(&typed)) };
    let asked = Asked {
        flyball: std::env::current_exe().map_err(|error| error.to_string())?,
        contestant: asked.server.clone(),
        target,
        requests,
        per_connection: asked.per_connection,
        first,
        space: peer.unwrap_or_else(|| space(&typed)),
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
        _ => quoted(&word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:=,+@%-".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// What is wrong with a configuration, a line each.
fn lines(errors: &[SettingError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What may be set on this machine.
fn space(typed: &Typed) -> Space {
    let runs = ALL.iter().filter(|arch| arch.is_tuned() && arch.probe().is_ok());
    let names = runs.map(|arch| arch.name());
    let mut knobs = vec![
        knob(typed, ARCHITECTURE, names.map(value).collect(), false),
        knob(typed, "workers", workers(), true),
    ];
    knobs.extend(SETTINGS.iter().filter_map(|setting| {
        let Range { values, ordered } = setting.tune?;
        Some(knob(typed, setting.key, values.iter().map(|text| value(text)).collect(), ordered))
    }));
    Space { knobs }
}

/// A knob whose default is what the configuration has, which is tried too.
fn knob(typed: &Typed, key: &str, mut values: Vec<Value>, ordered: bool) -> Knob {
    let groups = explain(typed, &[], &[key.to_owned()]).unwrap_or_default();
    let has = groups.into_iter().flat_map(|group| group.settings).next();
    let has = value(&has.map(|setting| setting.value).unwrap_or_default());
    let known = values.iter().position(|value| *value == has);
    if known.is_none() {
        values.insert(0, has);
    }
    Knob {
        key: key.into(),
        default: known.unwrap_or(0),
        // A value that is not of the table has no place in its order.
        ordered: ordered && known.is_some(),
        values,
        only: honoured_by(key),
    }
}

/// As many workers as there are processors, or more of them, for disks that are waited for.
fn workers() -> Vec<Value> {
    let cpus = thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
    let more = [2, 4, 8].map(|times| Value::Whole((times * cpus) as i64));
    [value("auto")].into_iter().chain(more).collect()
}

/// The architectures that honour a setting; none are named for one that all do.
fn honoured_by(key: &str) -> Option<Vec<String>> {
    let names = find(SETTINGS, key)?.architectures()?;
    Some(names.into_iter().map(str::to_owned).collect())
}

fn value(text: &str) -> Value {
    let whole = text.parse().map(Value::Whole).ok();
    whole.or_else(|| text.parse().map(Value::Flag).ok()).unwrap_or_else(|| Value::Text(text.into()))
}

fn first(space: &Space) -> Vec<Point> {
    let default = space.default_point();
    let points = TUNED_FIRST.iter().map(|settings| space.point_of(settings));
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
            Stage::Admission => "admission",
            Stage::Confirmation => "confirmation",
        };
        progress::tell(&format!("[{stage} {nth}/{of}, {} left] {label}: ", spoken(left)));
    }

    fn came(&mut self, score: &Result<f64, String>, by_default: Option<f64>) {
        match (score, by_default) {
            (Ok(score), Some(by)) => {
                progress::tell(&format!("{score:.0}/s, {by:.2} of the default\n"))
            }
            (Ok(score), None) => progress::tell(&format!("{score:.0}/s\n")),
            (Err(why), _) => progress::tell(&format!("void: {why}\n")),
        }
    }
}

impl Notes for Lines {
    fn note(&mut self, what: &str) {
        progress::tell(&format!("{what}\n"));
    }
}

#[cfg(test)]
mod tests {
    use flyball::settings::parse;

    use super::*;

    #[test]
    fn a_command_line_can_be_given_to_a_shell_again() {
        assert_eq!(quoted("--budget=2m"), "--budget=2m");
        assert_eq!(quoted("my site"), "'my site'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn every_knob_is_a_setting_with_its_default_and_values_that_it_takes() {
        let space = space(&Typed::default());
        for setting in SETTINGS {
            let Some(range) = setting.tune else { continue };
            let knob = space.knobs.iter().find(|knob| knob.key == setting.key).unwrap();
            assert_eq!(knob.values.len(), range.values.len(), "{}: its default", setting.key);
        }
        for knob in &space.knobs {
            let setting = SETTINGS.iter().find(|row| row.key == knob.key);
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
        let space = space(&Typed::default());
        for settings in TUNED_FIRST {
            let set = space.settings(&space.point_of(settings));
            for (key, wanted) in *settings {
                let is_there = set.get(*key).is_some_and(|value| value.to_string() == *wanted);
                assert!(is_there, "{key}={wanted} in {set:?}");
            }
        }
    }

    #[test]
    fn what_a_configuration_has_is_its_default_and_its_architecture_is_tuned() {
        let text = "arch = \"mt\"\n[mt]\nthreads = 100\n[accept]\nlimit = 4\n";
        let space = space(&parse(Path::new("a.toml").into(), text).unwrap());
        let default = space.default_point();
        let of = |key: &str| {
            let at = space.knobs.iter().position(|knob| knob.key == key).unwrap();
            space.knobs[at].values[default[at]].to_string()
        };
        assert_eq!([of("arch"), of("mt.threads"), of("accept.limit")], ["mt", "100", "4"]);
        assert!(space.settings(&default).is_empty());
        // Threads are varied from there, and helpers of another architecture are not.
        let near: Vec<_> = space.neighbours(&default).iter().map(|one| space.label(one)).collect();
        assert!(near.contains(&"mt.threads=256".to_owned()), "{near:?}");
        assert!(near.iter().all(|label| !label.contains("amped.helpers")), "{near:?}");
    }
}
