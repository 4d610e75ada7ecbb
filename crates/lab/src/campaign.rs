//! All runs of an experiment: calibrated, in an order that chance decides, repeated when they are
//! void, kept as they come, and gone on with after an interruption.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::contestant::{self, Absent};
use crate::definition::{Experiment, QUICK_S_MAX, Series, Varies};
use crate::generator::{self, Load};
use crate::host::SetupError;
use crate::run::{Record, Site, measure};
use crate::schedule::{Turn, turns};
use crate::verdict::{Cell, Measured};

/// Attempts at a run before it counts as noisy.
pub const ATTEMPTS_MAX: u32 = 3;

/// Repetitions of a full run.
const FULL_BLOCKS: usize = 10;

/// The least and the most repetitions of a quick one. With fewer than six, flipping signs calls no
/// difference certain; eight leave room for the correction for several claims.
const QUICK_BLOCKS: (usize, usize) = (3, 8);

/// Seconds of one full run.
const FULL_S: f64 = 30.0;

/// The least and the most seconds of one quick run.
const QUICK_S: (f64, f64) = (0.8, 5.0);

/// The share of a run that is warm-up.
const WARMUP_SHARE: f64 = 0.2;

/// Seconds that a run takes beyond its load: starting, comparing answers, ending.
const OVERHEAD_S: f64 = 1.0;

/// The share of a quick experiment's time that is planned; the rest is for repeated runs.
const PLANNED_SHARE: f64 = 0.8;

/// The share after which a quick experiment begins no more runs: those under way, and the report,
/// have what is left.
const BEGUN_SHARE: f64 = 0.93;

/// Times the length of a quick run that its clients wait at most: what the papers' clients waited
/// would be many times as long as the run.
const QUICK_TIMEOUT_RUNS: f64 = 2.0;

/// Connections by which the peak is looked for.
const CALIBRATION_CONNECTIONS: f64 = 64.0;

/// Seconds of that.
const CALIBRATION_S: f64 = 2.0;

/// How a campaign is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Few repetitions at few points, within three minutes.
    pub quick: bool,
    /// What decides the order, and what clients draw.
    pub seed: u64,
    /// Runs that are there already are kept.
    pub resume: bool,
    /// Repetitions, where they are not those of the kind.
    pub blocks: Option<usize>,
    /// Seconds of a run, likewise.
    pub seconds: Option<f64>,
}

/// What came of all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// The experiment.
    pub experiment: String,
    /// Whether it was a quick one.
    pub quick: bool,
    /// What decided the order.
    pub seed: u64,
    /// Seconds of each run, with its warm-up.
    pub seconds: f64,
    /// What 1 means along an axis that is relative: a rate.
    pub peak: Option<f64>,
    /// Who stayed away, and why.
    pub absent: BTreeMap<String, String>,
    /// Every run that was made, also those that do not count.
    pub records: Vec<Record>,
    /// It ran on loopback, without what root may do.
    pub reduced: bool,
}

impl Runs {
    /// The runs that count; those that stayed void after every attempt are left out.
    pub fn valid(&self) -> Vec<Measured> {
        let valid = self.records.iter().filter(|record| record.void.is_empty());
        valid
            .map(|record| Measured {
                cell: Cell {
                    series: record.series.clone(),
                    point: record.point,
                    block: record.block,
                },
                figures: record.figures.clone(),
            })
            .collect()
    }

    /// How many cells have no valid run.
    pub fn noisy(&self) -> usize {
        let key = |record: &Record| (record.series.clone(), record.point.to_bits(), record.block);
        let mut cells: BTreeMap<_, bool> = BTreeMap::new();
        for record in &self.records {
            *cells.entry(key(record)).or_default() |= record.void.is_empty();
        }
        cells.values().filter(|valid| !**valid).count()
    }
}

/// Told as a campaign goes on.
pub trait Progress {
    /// A run begins: the nth of all, this long since the first began.
    fn begins(&mut self, nth: usize, all: usize, what: &str);
    /// Something worth knowing.
    fn note(&mut self, what: &str);
}

/// One cell of the figure.
struct Plan<'a> {
    series: &'a Series,
    point: f64,
}

/// Runs an experiment. Blocks for minutes; `stop` ends it with what there is.
///
/// # Errors
/// When it cannot be set up: a missing program, no right, no space.
pub fn run(
    site: &mut Site,
    experiment: &Experiment,
    options: &Options,
    out: &Path,
    progress: &mut dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Runs, SetupError> {
    generator::check(&experiment.workload)?;
    let begun = Instant::now();
    let directory = out.join("runs");
    let wrong = |error: io::Error| SetupError(format!("{}: {error}", directory.display()));
    fs::create_dir_all(&directory).map_err(wrong)?;
    if !options.resume {
        // Runs of another time would pass for those of this one.
        for path in fs::read_dir(&directory).map_err(wrong)?.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "json") {
                fs::remove_file(&path).map_err(wrong)?;
            }
        }
    }
    let mut runs = Runs {
        experiment: experiment.name.clone(),
        quick: options.quick,
        seed: options.seed,
        seconds: 0.0,
        peak: None,
        absent: BTreeMap::new(),
        records: Vec::new(),
        reduced: site.network.is_none(),
    };
    let plans = plans(experiment, options.quick, &mut runs, progress);
    let usual = if options.quick { quick_blocks(plans.len()) } else { FULL_BLOCKS };
    let blocks = options.blocks.unwrap_or(usual);
    runs.seconds = options.seconds.unwrap_or_else(|| seconds(options, plans.len() * blocks));
    let mut experiment = experiment.clone();
    if options.quick {
        let timeout_s = &mut experiment.workload.timeout_s;
        *timeout_s = timeout_s.min(QUICK_TIMEOUT_RUNS * runs.seconds);
    }
    let experiment = &experiment;
    runs.peak = calibrate(site, experiment, options, progress, stop)?;
    let order = turns(plans.len(), blocks, options.seed);
    for (nth, turn) in order.iter().enumerate() {
        let spent = begun.elapsed().as_secs_f64() / QUICK_S_MAX as f64;
        if options.quick && spent > BEGUN_SHARE {
            let left = order.len() - nth;
            progress.note(&format!("{left} of {} runs do not fit into the time", order.len()));
            break;
        }
        if stop() {
            progress.note("interrupted; `--resume` goes on from here");
            break;
        }
        let plan = &plans[turn.cell];
        if runs.absent.contains_key(&plan.series.name) {
            continue;
        }
        progress.begins(nth + 1, order.len(), &format!("{} at {}", plan.series.name, plan.point));
        // A quick experiment repeats void runs only in time that the others do not need.
        let done = (nth + 1) as f64 / order.len() as f64;
        let attempts = if options.quick && spent > done { 1 } else { ATTEMPTS_MAX };
        let asked = (*turn, attempts);
        one_turn(site, experiment, plan, asked, options, &directory, &mut runs, progress, stop)?;
    }
    Ok(runs)
}

/// The cells of those who can take part; who cannot is named, with the reason.
fn plans<'a>(
    experiment: &'a Experiment,
    quick: bool,
    runs: &mut Runs,
    progress: &mut dyn Progress,
) -> Vec<Plan<'a>> {
    let one_file = ["one-packet", "single-file"].contains(&experiment.workload.name.as_str());
    let mut plans = Vec::new();
    for series in experiment.series(quick) {
        match contestant::is_there(series, one_file) {
            Ok(()) => {
                let points = experiment.points(quick).iter();
                plans.extend(points.map(|point| Plan { series, point: *point }));
            }
            Err(absent) => {
                let why = match absent {
                    Absent::Missing(missing) => missing.to_string(),
                    Absent::Unable(why) => why,
                };
                progress.note(&format!("{} does not take part: {why}", series.name));
                runs.absent.insert(series.name.clone(), why);
            }
        }
    }
    plans
}

/// As many repetitions of so many cells as fit into the time when each run is as short as can be.
fn quick_blocks(cells: usize) -> usize {
    let runs = QUICK_S_MAX as f64 * PLANNED_SHARE / (QUICK_S.0 + OVERHEAD_S);
    (runs as usize / cells.max(1)).clamp(QUICK_BLOCKS.0, QUICK_BLOCKS.1)
}

/// How long each run may be, so that all of a quick experiment fit into its time.
fn seconds(options: &Options, runs: usize) -> f64 {
    if !options.quick {
        return FULL_S;
    }
    let each = QUICK_S_MAX as f64 * PLANNED_SHARE / runs.max(1) as f64 - OVERHEAD_S;
    each.clamp(QUICK_S.0, QUICK_S.1)
}

/// What the contestant that a relative axis goes by gives when it is kept busy.
fn calibrate(
    site: &mut Site,
    experiment: &Experiment,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Option<f64>, SetupError> {
    let Some(base) = &experiment.axis.relative_to else { return Ok(None) };
    let Some(series) = experiment.series.iter().find(|series| series.name == *base) else {
        return Ok(None);
    };
    progress.note(&format!("looking for the peak of {base}"));
    let load = Load {
        varies: Varies::Connections,
        amount: CALIBRATION_CONNECTIONS,
        seconds: CALIBRATION_S,
        warmup: CALIBRATION_S * WARMUP_SHARE,
        seed: options.seed,
        verify: false,
    };
    make_files(site, experiment, 0.0)?;
    // A connection for each request, or a session, as the axis has them.
    let mut like = experiment.clone();
    if experiment.axis.varies == Varies::Rate {
        like.workload.flags.extend(["--requests-per-connection".into(), "1".into()]);
    }
    let record = measure(site, &like, series, &load, stop)?;
    let figure = match experiment.axis.varies {
        Varies::Sessions => "connections_per_s",
        _ => "replies_per_s",
    };
    let peak = record.generator.get(figure).and_then(serde_json::Value::as_f64);
    progress.note(&format!("{base} peaks near {:.0} in a second", peak.unwrap_or(0.0)));
    Ok(peak.filter(|peak| *peak > 0.0))
}

/// Measures one cell in one block, again when the run is void.
#[allow(clippy::too_many_arguments, reason = "a turn is all of a campaign, once")]
fn one_turn(
    site: &mut Site,
    experiment: &Experiment,
    plan: &Plan<'_>,
    (turn, attempts): (Turn, u32),
    options: &Options,
    directory: &Path,
    runs: &mut Runs,
    progress: &mut dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<(), SetupError> {
    let file = |attempt: u32| file_of(directory, plan, turn.block, attempt);
    for attempt in 1..=attempts {
        let path = file(attempt);
        let kept = options.resume.then(|| kept(&path)).flatten();
        let record = match kept {
            Some(record) => record,
            None => {
                let (load, series) = load_of(experiment, plan, turn, options, runs);
                make_files(site, experiment, plan.point)?;
                let begun = Instant::now();
                let mut record = match measure(site, experiment, &series, &load, stop) {
                    Ok(record) => record,
                    // An interruption ends what is under way, which is no failure.
                    Err(_) if stop() => return Ok(()),
                    Err(error) => {
                        let name = plan.series.name.clone();
                        progress.note(&format!("{name} takes part no more: {error}"));
                        runs.absent.insert(name, error.to_string());
                        return Ok(());
                    }
                };
                (record.point, record.block, record.attempt) = (plan.point, turn.block, attempt);
                if stop() && begun.elapsed().as_secs_f64() < load.seconds {
                    return Ok(());
                }
                keep(&path, &record)?;
                record
            }
        };
        let valid = record.void.is_empty();
        if !valid {
            progress.note(&format!("void: {}", record.void.join("; ")));
        }
        runs.records.push(record);
        if valid || stop() {
            return Ok(());
        }
    }
    progress.note(&format!("{} stays noisy at {}", plan.series.name, plan.point));
    Ok(())
}

/// The load of a cell, and the series with what the axis sets.
fn load_of(
    experiment: &Experiment,
    plan: &Plan<'_>,
    turn: Turn,
    options: &Options,
    runs: &Runs,
) -> (Load, Series) {
    let axis = &experiment.axis;
    let mut series = plan.series.clone();
    let connections = f64::from(axis.connections.unwrap_or(CALIBRATION_CONNECTIONS as u32));
    let (varies, amount) = match axis.varies {
        Varies::Rate | Varies::Sessions => (axis.varies, plan.point * runs.peak.unwrap_or(1.0)),
        Varies::Connections => (Varies::Connections, plan.point),
        _ => (Varies::Connections, connections),
    };
    if let (Varies::Setting, Some(key)) = (axis.varies, &axis.setting) {
        series.set.insert(key.clone(), crate::definition::Value::Whole(plan.point as i64));
    }
    let load = Load {
        varies,
        amount,
        seconds: runs.seconds,
        warmup: runs.seconds * WARMUP_SHARE,
        // The same within a block, so that its cells are asked for the same.
        seed: options.seed.wrapping_add(turn.block as u64),
        verify: false,
    };
    (load, series)
}

fn file_of(directory: &Path, plan: &Plan<'_>, block: usize, attempt: u32) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let series: String = plan.series.name.chars().map(plain).collect();
    directory.join(format!("{series}_{}_{block}_{attempt}.json", plan.point))
}

/// A run that was made before.
fn kept(path: &Path) -> Option<Record> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn keep(path: &Path, record: &Record) -> Result<(), SetupError> {
    let wrong = |error: io::Error| SetupError(format!("{}: {error}", path.display()));
    let text = serde_json::to_string_pretty(record).map_err(io::Error::from).map_err(wrong)?;
    // Whole or not at all: an interruption leaves no half of a file.
    let half = path.with_extension("half");
    fs::write(&half, text).and_then(|()| fs::rename(&half, path)).map_err(wrong)
}

/// Makes the files that a cell needs; those that are there already are kept.
fn make_files(site: &mut Site, experiment: &Experiment, point: f64) -> Result<(), SetupError> {
    let extra = match experiment.axis.varies {
        Varies::FileSize => vec!["--size".to_owned(), format!("{point}")],
        Varies::SetSize => vec!["--mib".to_owned(), format!("{point}")],
        _ => Vec::new(),
    };
    let workload = &experiment.workload;
    let sizes = workload.files.iter().map(|(name, value)| format!("-{name}-{value}"));
    let sizes: String = sizes.chain(extra.get(1).map(|value| format!("-{value}"))).collect();
    let directory = site.files_root.join(format!("{}{sizes}", generator::fileset(workload)?));
    generator::make_files(&site.flyball, workload, &extra, &directory, &site.scratch)?;
    site.files = directory;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(quick: bool) -> Options {
        Options { quick, seed: 1, resume: false, blocks: None, seconds: None }
    }

    #[test]
    fn quick_runs_fit_into_their_time_and_full_ones_are_long() {
        assert_eq!(seconds(&options(false), 100), FULL_S);
        assert_eq!(seconds(&options(true), 2), QUICK_S.1);
        assert_eq!(seconds(&options(true), 1_000), QUICK_S.0);
        let each = seconds(&options(true), 36);
        assert!((each + OVERHEAD_S) * 36.0 <= QUICK_S_MAX as f64, "{each}");
    }

    #[test]
    fn every_quick_experiment_fits_into_its_time() {
        for experiment in crate::catalogue::all().unwrap() {
            let cells = experiment.series(true).count() * experiment.points(true).len();
            let runs = cells * quick_blocks(cells);
            let most = (seconds(&options(true), runs) + OVERHEAD_S) * runs as f64;
            assert!(most <= QUICK_S_MAX as f64, "{}: {runs} runs, {most} s", experiment.name);
        }
    }

    #[test]
    fn runs_that_are_void_in_every_attempt_are_noisy() {
        let record = |block, attempt, void: &[&str]| Record {
            series: "a".into(),
            point: 1.0,
            amount: 1.0,
            block,
            attempt,
            void: void.iter().map(|text| (*text).to_owned()).collect(),
            figures: BTreeMap::new(),
            server_cpu_s: None,
            drops: None,
            stolen_share: None,
            generator: serde_json::Value::Null,
        };
        let runs = Runs {
            experiment: "x".into(),
            quick: true,
            seed: 1,
            seconds: 1.0,
            peak: None,
            absent: BTreeMap::new(),
            reduced: false,
            records: vec![
                record(0, 1, &["late"]),
                record(0, 2, &[]),
                record(1, 1, &["late"]),
                record(1, 2, &["late"]),
                record(1, 3, &["late"]),
            ],
        };
        assert_eq!((runs.valid().len(), runs.noisy()), (1, 1));
    }
}
