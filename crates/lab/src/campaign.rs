//! All runs of an experiment: calibrated, in an order that chance decides, repeated when they are
//! void, kept as they come, and gone on with after an interruption.

mod hopeless;
mod options;
mod runs;
pub(crate) mod seen;
mod settled;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::catalogue;
use crate::contestant::{self, Absent};
use crate::definition::{Claim, Experiment, Measure, Series, Step, Value, Varies};
use crate::generator::{self, Load};
use crate::host::{SetupError, commit, descriptors_max, put_json};
use crate::knee;
use crate::noise::Noise;
use crate::outcome::Outcome;
use crate::plan::{self, BEGUN_SHARE, Cell, Plan};
use crate::run::{
    ATTEMPTS_MAX, CLIENT_DESCRIPTORS, Grounds, Record, Site, measure, measure_untroubled,
};
use crate::schedule::Turn;
use crate::verdict::looks_at;

use hopeless::FirstRuns;
pub use options::Options;
pub use runs::{Runs, Unfair};
use settled::Settled;
pub(crate) use settled::{SETTLED, claimed};

/// Runs of a series that may fail one after the other before it takes part no more.
const FAILURES_MAX: u32 = 2;

/// Attempts at a run of two copies in a quick campaign, which needs what they differ by before all
/// else and has no time for more.
const QUICK_COPY_ATTEMPTS_MAX: u32 = 2;

/// Times a full campaign chooses the cells that claims look at: a peak may move when it has runs.
const CHOICES_MAX: u32 = 3;

/// The share of a run that is warm-up.
pub(crate) const WARMUP_SHARE: f64 = 0.2;

/// Times the length of a quick run that its clients wait at most: what the papers' clients waited
/// would be many times as long as the run.
const QUICK_TIMEOUT_RUNS: f64 = 2.0;

/// Descriptors of a generator that are no connections, the share of the others that clients which
/// wait may take (those that were answered late take some, too), and the step in seconds by which
/// clients wait shorter when there are too few of them.
const OTHER_DESCRIPTORS: usize = 100;
const WAITING_SHARE: f64 = 0.8;
const WAIT_STEP_S: f64 = 0.1;

/// Connections by which the peak is looked for.
const CALIBRATION_CONNECTIONS: f64 = 64.0;

/// Seconds of that.
const CALIBRATION_S: f64 = 2.0;

/// Seconds of each run by which a full campaign finds the knee.
const KNEE_S: f64 = 3.0;

/// Told as a campaign goes on.
pub trait Progress {
    /// An experiment begins, the nth of all; so long is left for all that are asked for, about.
    fn experiment(&mut self, nth: usize, all: usize, name: &str, left: Duration);
    /// A run begins: the nth of all; so long is left for those of its experiment, about.
    fn begins(&mut self, nth: usize, all: usize, what: &str, left: Duration);
    /// Something worth knowing.
    fn note(&mut self, what: &str);
}

/// Runs an experiment. Blocks for minutes; `stop` ends it with what there is, and so does the time
/// that a quick campaign has.
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
    Grounds::can_be_prepared(&experiment.machine)?;
    let begun = Instant::now();
    let most_s = experiment.quick_s_max();
    let out_of_time =
        || options.quick && begun.elapsed() >= Duration::from_secs(most_s - most_s / 20);
    let ends = || stop() || out_of_time();
    let directory = prepared(out, options)?;
    let mut runs = Runs::none(experiment, options, site);
    let cells = present(experiment, options.quick, &mut runs, progress);
    let claims = catalogue::claims_on(experiment).map_err(|e| SetupError(e.to_string()))?;
    let plan = plan::of(experiment, &cells, &claims, options.asked());
    // Runs that were made before an interruption were as long as was planned then.
    let before = options.resume.then(|| settled::seconds(out)).flatten();
    runs.seconds = before.unwrap_or(plan.seconds);
    let mut shortened = experiment.clone();
    if options.quick {
        let timeout_s = &mut shortened.workload.timeout_s;
        *timeout_s = timeout_s.min(QUICK_TIMEOUT_RUNS * runs.seconds);
    }
    let mut campaign = Campaign {
        site,
        asked: experiment,
        experiment: &shortened,
        options,
        directory: &directory,
        begun,
        stop: &ends,
        failures: BTreeMap::new(),
        begun_by: None,
        missed: 0,
        uncertain: 0,
        first: FirstRuns::default(),
        runs,
    };
    let done = campaign.settle(out, progress).and_then(|settled| {
        campaign.bound_waiting(progress);
        if !settled || !campaign.compare_copies(&plan, &cells, &claims, progress)? {
            return Ok(());
        }
        campaign.all(&plan, &cells, &claims, progress)
    });
    match done {
        Err(why) if !ends() => return Err(why),
        _ if stop() => progress.note("interrupted; `--resume` goes on from here"),
        _ if out_of_time() => progress.note("its time is over; `--resume` goes on from here"),
        _ => {}
    }
    let mut facts = campaign.site.facts();
    if let Some(before) = campaign.begun_by.filter(|before| facts.commit.as_ref() != Some(before)) {
        facts.commit = Some(format!("{before}, gone on by {}", facts.commit.unwrap_or_default()));
    }
    campaign.runs.facts = Some(facts);
    Ok(campaign.runs)
}

/// The directory of the runs; without what there is of another time, which would pass for this.
fn prepared(out: &Path, options: &Options) -> Result<PathBuf, SetupError> {
    let directory = out.join("runs");
    let wrong = |error: io::Error| SetupError(format!("{}: {error}", directory.display()));
    fs::create_dir_all(&directory).map_err(wrong)?;
    if options.resume {
        return Ok(directory);
    }
    let mut old: Vec<PathBuf> =
        fs::read_dir(&directory).map_err(wrong)?.flatten().map(|entry| entry.path()).collect();
    old.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    // What says that all is there goes first, and what says whose the runs are last.
    for name in ["verdict.json", "runs.json", "report.html"] {
        old.insert(0, out.join(name));
    }
    old.retain(|path| path.exists());
    // Of what was never run there is a verdict alone.
    let is_ours =
        || out.join(SETTLED).exists() || kept::<Outcome>(&out.join("verdict.json")).is_some();
    if !old.is_empty() && !is_ours() {
        let why = "it holds files of something else; take another --out";
        return Err(SetupError(format!("{}: {why}", out.display())));
    }
    old.extend(Some(out.join(SETTLED)).filter(|path| path.exists()));
    old.iter().try_for_each(fs::remove_file).map_err(wrong)?;
    Ok(directory)
}

/// The cells of those who can take part; who cannot is named, with the reason.
fn present<'a>(
    experiment: &'a Experiment,
    quick: bool,
    runs: &mut Runs,
    progress: &mut dyn Progress,
) -> Vec<Cell<'a>> {
    let one_file = ["one-packet", "single-file"].contains(&experiment.workload.name.as_str());
    for series in experiment.series(quick) {
        if let Err(absent) = contestant::takes_part(series, one_file) {
            let why = match absent {
                Absent::Missing(missing) => missing.to_string(),
                Absent::Unable(why) => why,
            };
            progress.note(&format!("{} does not take part: {why}", series.name));
            runs.absent.insert(series.name.clone(), why);
        }
    }
    let mut cells = plan::cells(experiment, quick);
    cells.retain(|cell| !runs.absent.contains_key(&cell.series.name));
    cells
}

/// A campaign that is under way.
struct Campaign<'a> {
    site: &'a mut Site,
    /// As it is defined.
    asked: &'a Experiment,
    /// With the time that clients wait in such a campaign.
    experiment: &'a Experiment,
    options: &'a Options,
    directory: &'a Path,
    begun: Instant,
    stop: &'a dyn Fn() -> bool,
    /// Runs of a series that failed, one after the other.
    failures: BTreeMap<String, u32>,
    /// The commit by which it was begun.
    begun_by: Option<String>,
    /// Runs for which there was no time.
    missed: usize,
    /// Runs before all others that stayed void.
    uncertain: usize,
    /// Whether any run has counted so far.
    first: FirstRuns,
    runs: Runs,
}

impl Campaign<'_> {
    /// Settles what 1 means along a relative axis, or finds what was settled before an
    /// interruption; false when it was interrupted here.
    fn settle(&mut self, out: &Path, progress: &mut dyn Progress) -> Result<bool, SetupError> {
        let Options { quick, seed, resume, .. } = *self.options;
        let path = out.join(SETTLED);
        let found: Option<Settled> = resume.then(|| kept(&path)).flatten();
        if resume && found.is_none() && path.exists() {
            let why = "it cannot be read; run it without --resume";
            return Err(SetupError(format!("{}: {why}", path.display())));
        }
        if let Some(kept) = found {
            let differs = kept.differs(quick, seed, self.asked);
            if let Some(why) = differs.or(kept.is_asked_otherwise(self.options, self.runs.reduced))
            {
                return Err(SetupError(format!("{}: {why}", out.display())));
            }
            (self.runs.peak, self.runs.seconds) = (kept.peak, kept.seconds);
            self.begun_by = kept.commit;
            return Ok(true);
        }
        let base = self.experiment.axis.relative_to.as_ref();
        if let Some(base) = base.filter(|base| self.runs.absent.contains_key(*base)) {
            progress.note(&format!("nothing is run: the axis goes by the peak of {base}"));
            return Ok(false);
        }
        self.runs.peak = match self.peak(progress) {
            Err(_) if (self.stop)() => return Ok(false),
            peak => peak?,
        };
        let Runs { seconds, peak, .. } = self.runs;
        self.begun_by = commit();
        let (experiment, commit) = (Some(self.asked.clone()), self.begun_by.clone());
        let stolen_percent_max = self.options.stolen_percent_max;
        let reduced = Some(self.runs.reduced);
        let settled =
            Settled { quick, seed, seconds, peak, stolen_percent_max, experiment, commit, reduced };
        put_json(&path, &settled)?;
        Ok(true)
    }

    /// Lets clients wait no longer than the descriptors of a generator last when a server answers
    /// nothing: beyond them no connection is opened, and a run is void.
    fn bound_waiting(&mut self, progress: &mut dyn Progress) {
        let (workload, axis) = (&self.experiment.workload, &self.experiment.axis);
        let points = self.experiment.points(self.options.quick);
        let highest = points.iter().copied().fold(0.0, f64::max) * axis.highest();
        let most = highest * self.runs.peak.unwrap_or(1.0);
        let most_open = descriptors_max().min(CLIENT_DESCRIPTORS);
        let descriptors = most_open.saturating_sub(OTHER_DESCRIPTORS);
        let last_s = WAITING_SHARE * descriptors as f64 / most.max(1.0);
        if axis.varies == Varies::Rate && last_s < workload.timeout_s {
            let waits_s = (last_s / WAIT_STEP_S).floor().max(1.0) * WAIT_STEP_S;
            progress.note(&format!(
                "{most:.0} connections a second, each waiting {} s, would be more at once than \
                 the {descriptors} descriptors of a generator allow: they wait {waits_s:.1} s",
                workload.timeout_s
            ));
            self.runs.timeout_s = Some(waits_s);
        }
    }

    /// What the contestant that a relative axis goes by gives when it is kept busy.
    fn peak(&mut self, progress: &mut dyn Progress) -> Result<Option<f64>, SetupError> {
        let axis = &self.experiment.axis;
        let Some(base) = &axis.relative_to else { return Ok(None) };
        let Some(series) = self.experiment.series.iter().find(|series| series.name == *base) else {
            return Ok(None);
        };
        progress.note(&format!("looking for the peak of {base}"));
        let load = Load {
            varies: Varies::Connections,
            amount: CALIBRATION_CONNECTIONS,
            steps: Vec::new(),
            seconds: CALIBRATION_S,
            warmup: CALIBRATION_S * WARMUP_SHARE,
            seed: self.options.seed,
            verify: false,
        };
        make_files(self.site, self.experiment, 0.0, self.stop)?;
        // A connection for each request, or a session, as the axis has them.
        let mut like = self.experiment.clone();
        if axis.varies == Varies::Rate {
            like.workload.flags.extend(["--requests-per-connection".into(), "1".into()]);
        }
        let record = self.calibrated(&like, series, &load)?;
        let figure = match axis.varies {
            Varies::Sessions => "connections_per_s",
            _ => "replies_per_s",
        };
        let peak = record.generator.get(figure).and_then(serde_json::Value::as_f64);
        let none = || SetupError(format!("{base} answered nothing: there is no peak to go by"));
        let mut peak = peak.filter(|peak| *peak > 0.0).ok_or_else(none)?;
        peak = match self.options.quick {
            true => self.risen(series, peak)?,
            false => self.knee(series, peak)?.unwrap_or(peak),
        };
        progress.note(&format!("{base} peaks near {peak:.0} in a second"));
        if self.uncertain > 0 {
            let many = self.uncertain;
            progress.note(&format!("of the runs that say so {many} were void in every attempt"));
        }
        Ok(Some(peak))
    }

    /// The peak when more arrives openly, without which the axis would end before it.
    fn risen(&mut self, series: &Series, peak: f64) -> Result<f64, SetupError> {
        let seed = self.options.seed;
        knee::risen(peak, &mut |nth, rate| {
            self.served(series, rate, CALIBRATION_S, seed.wrapping_add(nth))
        })
    }

    /// The rate up to which a series keeps up, near one that it reached when it was kept busy.
    fn knee(&mut self, series: &Series, near: f64) -> Result<Option<f64>, SetupError> {
        let mut seed = self.options.seed;
        knee::find(near, &mut |rate| {
            seed += 1;
            self.served(series, rate, KNEE_S, seed)
        })
    }

    /// How much of a rate is served well: a run of so many seconds.
    fn served(
        &mut self,
        series: &Series,
        rate: f64,
        seconds: f64,
        seed: u64,
    ) -> Result<f64, SetupError> {
        let (varies, warmup) = (self.experiment.axis.varies, seconds * WARMUP_SHARE);
        let steps = Vec::new();
        let load = Load { varies, amount: rate, steps, seconds, warmup, seed, verify: false };
        let record = self.calibrated(self.experiment, series, &load)?;
        Ok(rate * record.served_share())
    }

    /// A run before all others, again while it is void: what it says holds for every other.
    fn calibrated(
        &mut self,
        experiment: &Experiment,
        series: &Series,
        load: &Load,
    ) -> Result<Record, SetupError> {
        let record = measure_untroubled(self.site, experiment, series, load, self.stop)?;
        self.uncertain += usize::from(!record.void.is_empty() && !record.unfair);
        Ok(record)
    }

    /// Two copies of one server in turn (A/A): those that the first claim compares with. False when
    /// it was interrupted.
    fn compare_copies(
        &mut self,
        plan: &Plan,
        cells: &[Cell<'_>],
        claims: &[Claim],
        progress: &mut dyn Progress,
    ) -> Result<bool, SetupError> {
        let Some(cell) = copied(cells, claims) else { return Ok(true) };
        let right = cell.series.name.clone();
        let mut records = Vec::new();
        // Which of a pair is the first copy is chance, as the order of all that is compared.
        let mut rng = fastrand::Rng::with_seed(self.options.seed);
        let turned: Vec<bool> = (0..plan.copies.div_ceil(2)).map(|_| rng.bool()).collect();
        for nth in 0..plan.copies {
            if (self.stop)() {
                return Ok(false);
            }
            let done_s = nth as f64 * self.runs.seconds;
            let left = Duration::from_secs_f64((plan.all_s - done_s).max(0.0));
            let what = format!("noise: {right} beside itself, at {}", cell.point);
            progress.begins(nth + 1, plan.copies, &what, left);
            let directory = self.directory;
            let file = |attempt: u32| directory.join(format!("noise_{nth}_{attempt}.json"));
            let most = if self.options.quick { QUICK_COPY_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
            let attempts = 1..=most;
            // Both of a pair are asked for the same, as all that is compared.
            let turn = Turn { block: nth / 2, cell: 0 };
            let last = self.attempts(cell, turn, attempts, &file, progress)?.pop();
            let copy = nth ^ usize::from(turned[nth / 2]);
            records.extend(last.map(|record| Record { block: copy, ..record }));
        }
        let claimed: Vec<Measure> = claims.iter().map(|claim| claim.measure).collect();
        self.runs.noise = Noise::of(&records, &claimed, self.options.seed);
        Ok(true)
    }

    /// Every cell in its blocks, and then more of those that a claim looks at: in a full campaign
    /// also where these runs say that a peak is at another point than the first ones had said.
    fn all(
        &mut self,
        plan: &Plan,
        cells: &[Cell<'_>],
        claims: &[Claim],
        progress: &mut dyn Progress,
    ) -> Result<(), SetupError> {
        let mut goes_on = self.turns(&plan.turns, (0, plan.count), cells, progress)?;
        let mut judged: Vec<Turn> = Vec::new();
        let choices = if self.options.quick { 1 } else { CHOICES_MAX };
        for _ in 0..choices {
            let valid = self.runs.valid();
            let known = (valid.as_slice(), judged.as_slice());
            let more = plan::judged_turns(plan, cells, claims, known, self.options.seed);
            if more.is_empty() || !goes_on {
                break;
            }
            let before = plan.turns.len() + judged.len();
            goes_on = self.turns(&more, (before, before + more.len()), cells, progress)?;
            judged.extend(more);
        }
        let mended =
            goes_on && (!self.options.quick || self.again(plan, &judged, cells, progress)?);
        self.runs.complete = mended && self.missed == 0;
        Ok(())
    }

    /// Makes the void runs of a quick campaign again, in the time that all others have left: first
    /// those that a claim looks at. False when it was ended.
    fn again(
        &mut self,
        plan: &Plan,
        judged: &[Turn],
        cells: &[Cell<'_>],
        progress: &mut dyn Progress,
    ) -> Result<bool, SetupError> {
        let mut turns = [judged, &plan.turns].concat();
        turns.sort_by_key(|turn| !judged.iter().any(|one| one.cell == turn.cell));
        for attempt in 2..=ATTEMPTS_MAX {
            let is_void = |turn: &Turn| self.runs.is_void(&cells[turn.cell], turn.block);
            let void: Vec<Turn> = turns.iter().copied().filter(is_void).collect();
            for (at, turn) in void.iter().enumerate() {
                if self.is_late() {
                    return Ok(true);
                }
                if (self.stop)() {
                    return Ok(false);
                }
                let cell = &cells[turn.cell];
                let left = self.runs.seconds * (void.len() - at) as f64;
                let what = format!("again, {} at {}", cell.series.name, cell.point);
                progress.begins(at + 1, void.len(), &what, Duration::from_secs_f64(left));
                self.one(cell, *turn, attempt..=attempt, progress)?;
            }
        }
        Ok(!(self.stop)())
    }

    /// Whether a quick campaign begins no more runs.
    fn is_late(&self) -> bool {
        let most_s = self.experiment.quick_s_max() as f64 * BEGUN_SHARE;
        self.options.quick && self.begun.elapsed().as_secs_f64() > most_s
    }

    /// Some runs, which are those from `before` on of so many; false when they were ended.
    fn turns(
        &mut self,
        turns: &[Turn],
        (before, all): (usize, usize),
        cells: &[Cell<'_>],
        progress: &mut dyn Progress,
    ) -> Result<bool, SetupError> {
        // What an interruption left takes no time.
        let kept = |turn: &Turn| {
            let file = file_of(self.directory, &cells[turn.cell], turn.block, 1);
            self.options.resume && file.exists()
        };
        let kept: Vec<bool> = turns.iter().map(kept).collect();
        let later = all.saturating_sub(before + turns.len());
        let (mut took, mut made) = (Duration::ZERO, 0);
        for (at, turn) in turns.iter().enumerate() {
            let nth = before + at;
            if self.is_late() {
                let left = turns.len() - at;
                progress.note(&format!("{left} of {all} runs do not fit into the time"));
                self.missed += left;
                return Ok(true);
            }
            if (self.stop)() {
                return Ok(false);
            }
            let cell = &cells[turn.cell];
            if self.runs.absent.contains_key(&cell.series.name) {
                continue;
            }
            let each = match made {
                0 => self.runs.seconds,
                _ => took.as_secs_f64() / f64::from(made),
            };
            let to_make = later + kept[at..].iter().filter(|kept| !**kept).count();
            let left = Duration::from_secs_f64(each * to_make as f64);
            let what = format!("{} at {}", cell.series.name, cell.point);
            progress.begins(nth + 1, all, &what, left);
            // A quick campaign makes void runs again when it knows how much time the others took.
            let attempts = if self.options.quick { 1..=1 } else { 1..=ATTEMPTS_MAX };
            let begun = Instant::now();
            self.one(cell, *turn, attempts, progress)?;
            if !kept[at] {
                took += begun.elapsed();
                made += 1;
            }
        }
        // The last run may be the one that was interrupted.
        Ok(!(self.stop)())
    }

    /// Measures one cell in one block.
    fn one(
        &mut self,
        cell: &Cell<'_>,
        turn: Turn,
        attempts: RangeInclusive<u32>,
        progress: &mut dyn Progress,
    ) -> Result<(), SetupError> {
        let directory = self.directory;
        let file = |attempt| file_of(directory, cell, turn.block, attempt);
        let is_last = *attempts.end() == ATTEMPTS_MAX;
        let made = self.attempts(cell, turn, attempts, &file, progress)?;
        let told = made.last().is_none_or(|last| last.void.is_empty() || last.unfair);
        if !told && is_last && !(self.stop)() {
            progress.note(&format!("{} stays noisy at {}", cell.series.name, cell.point));
        }
        self.runs.records.extend(made);
        Ok(())
    }

    /// Measures once, and again when the run is void for what the server cannot help; what was made
    /// before an interruption is not made again. Every attempt is kept in a file of its own.
    fn attempts(
        &mut self,
        cell: &Cell<'_>,
        turn: Turn,
        attempts: RangeInclusive<u32>,
        file: &dyn Fn(u32) -> PathBuf,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Record>, SetupError> {
        let mut made = Vec::new();
        for attempt in attempts {
            let path = file(attempt);
            let before: Option<Record> = self.options.resume.then(|| kept(&path)).flatten();
            let record = match before {
                Some(record) => {
                    if record.void.is_empty() {
                        self.first.made(&[]);
                    }
                    record
                }
                None => {
                    let Some(record) = self.measured(cell, turn, attempt, progress)? else { break };
                    put_json(&path, &record)?;
                    if let Some(why) = self.first.made(&record.void) {
                        return Err(SetupError(why));
                    }
                    record
                }
            };
            let (valid, unfair) = (record.void.is_empty(), record.unfair);
            if !valid {
                progress.note(&format!("void: {}", record.void.join("; ")));
            }
            made.push(record);
            if valid || unfair || (self.stop)() {
                break;
            }
        }
        Ok(made)
    }

    /// One run; nothing when it was interrupted or its server failed.
    fn measured(
        &mut self,
        cell: &Cell<'_>,
        turn: Turn,
        attempt: u32,
        progress: &mut dyn Progress,
    ) -> Result<Option<Record>, SetupError> {
        let (load, series) = load_of(self.experiment, cell, turn, self.options, &self.runs);
        make_files(self.site, self.experiment, cell.point, self.stop)?;
        let name = &cell.series.name;
        let mut experiment = self.experiment.at(cell.point);
        let timeout_s = &mut experiment.workload.timeout_s;
        *timeout_s = self.runs.timeout_s.unwrap_or(*timeout_s);
        let begun = Instant::now();
        match measure(self.site, &experiment, &series, &load, self.stop) {
            // An interruption ends what is under way, which is no failure.
            _ if (self.stop)() && begun.elapsed().as_secs_f64() < load.seconds => Ok(None),
            Err(_) if (self.stop)() => Ok(None),
            Ok(mut record) => {
                (record.point, record.block, record.attempt) = (cell.point, turn.block, attempt);
                self.failures.remove(name);
                Ok(Some(record))
            }
            Err(error) => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                if *failures < FAILURES_MAX {
                    progress.note(&format!("{name} failed: {error}"));
                } else {
                    progress.note(&format!("{name} takes part no more: {error}"));
                    self.runs.absent.insert(name.clone(), error.to_string());
                }
                Ok(None)
            }
        }
    }
}

/// The cell of which two copies are measured: the right of the first claim where it looks; in the
/// middle of the axis where that is not known before. What varies little there may vary a lot
/// elsewhere, as drops do.
fn copied<'a, 'b>(cells: &'b [Cell<'a>], claims: &[Claim]) -> Option<&'b Cell<'a>> {
    let axis: Vec<f64> = cells.iter().map(|cell| cell.point).collect();
    let right = claims.first().map(|claim| looks_at(claim, &[], &axis)[1]);
    let (series, point) = right.unwrap_or_default();
    let of_right: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.series.name == series).collect();
    let here = of_right.iter().find(|cell| Some(cell.point) == point);
    here.or(of_right.get(of_right.len() / 2)).copied().or(cells.first())
}

/// The load of a cell, and the series with what the axis sets.
fn load_of(
    experiment: &Experiment,
    cell: &Cell<'_>,
    turn: Turn,
    options: &Options,
    runs: &Runs,
) -> (Load, Series) {
    let axis = &experiment.axis;
    let mut series = cell.series.clone();
    let connections = f64::from(axis.connections.unwrap_or(CALIBRATION_CONNECTIONS as u32));
    let (varies, amount) = match axis.varies {
        Varies::Rate | Varies::Sessions => (axis.varies, cell.point * runs.peak.unwrap_or(1.0)),
        Varies::Connections => (Varies::Connections, cell.point),
        _ => (Varies::Connections, connections),
    };
    if let (Varies::Setting, Some(key)) = (axis.varies, &axis.setting) {
        let value = match cell.point.fract() == 0.0 {
            true => Value::Whole(cell.point as i64),
            false => Value::Real(cell.point),
        };
        series.set.insert(key.clone(), value);
    }
    // A shorter run has shorter steps. What is before the first change is measured without its
    // beginning.
    let scale = runs.seconds / axis.steps.iter().map(|step| step.seconds).sum::<f64>();
    let scaled = |step: &Step| Step { seconds: step.seconds * scale, ..*step };
    let steps: Vec<Step> = axis.steps.iter().map(scaled).collect();
    let warmup = steps.first().map_or(runs.seconds, |first| first.seconds) * WARMUP_SHARE;
    let load = Load {
        varies,
        amount,
        steps,
        seconds: runs.seconds,
        warmup,
        // The same within a block, so that its cells are asked for the same.
        seed: options.seed.wrapping_add(turn.block as u64),
        verify: false,
    };
    (load, series)
}

fn file_of(directory: &Path, cell: &Cell<'_>, block: usize, attempt: u32) -> PathBuf {
    let series = cell.series.in_file_names();
    directory.join(format!("{series}_{}_{block}_{attempt}.json", cell.point))
}

/// What was kept before.
fn kept<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Makes the files that a cell needs; those that are there already are kept.
fn make_files(
    site: &mut Site,
    experiment: &Experiment,
    point: f64,
    stop: &dyn Fn() -> bool,
) -> Result<(), SetupError> {
    let workload = &experiment.workload;
    let mut extra = match experiment.axis.varies {
        Varies::FileSize => vec!["--size".to_owned(), format!("{point}")],
        Varies::SetSize => vec!["--mib".to_owned(), format!("{point}")],
        _ => Vec::new(),
    };
    if let Some(scale) = workload.scale {
        let meant = format!("{:.0}", point / scale);
        extra =
            ["--for-connections".to_owned(), meant, "--part".to_owned(), scale.to_string()].into();
    }
    let sizes = workload.files.iter().map(|(name, value)| format!("-{name}-{value}"));
    let of_point = extra.chunks(2).filter_map(|flag| flag.get(1)).map(|value| format!("-{value}"));
    let sizes: String = sizes.chain(of_point).collect();
    let directory = site.files_root.join(format!("{}{sizes}", generator::fileset(workload)?));
    if directory == site.files {
        return Ok(());
    }
    generator::make_files(&site.flyball, workload, (&extra, &directory), &site.scratch, stop)?;
    // Pages that are not on the disk yet would stay when the page cache is dropped.
    let _ = Command::new("sync").arg("-f").arg(&directory).status();
    site.files = directory;
    Ok(())
}
