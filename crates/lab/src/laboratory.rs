//! What `flyball lab` does: lists and shows experiments, and runs them from set-up to report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::campaign::{self, Options, Progress, Runs};
use crate::catalogue;
use crate::contestant;
use crate::definition::{Experiment, Measure, Series, Varies};
use crate::host::{
    Awake, Facts, Network, SCRATCH, SetupError, allowed_cpus, clear_leftovers, is_root,
    may_go_first, put_json, take,
};
use crate::outcome::{Outcome, Said};
use crate::plan;
use crate::report::{self, Campaign};
use crate::run::{Cpus, STOLEN_PERCENT_MAX, Site};
use crate::verdict::{Verdict, judge};
use crate::white_box;

/// The name that stands for all experiments.
pub const ALL: &str = "ALL";

/// Where experiments are run.
#[derive(Clone, Debug)]
pub struct Laboratory {
    /// Our binary: server and generator.
    pub flyball: PathBuf,
    /// Where results go: those of one experiment as they are, of more in a directory for each.
    pub out: PathBuf,
    /// Where files are made.
    pub files: PathBuf,
    /// Why our server would not take what a series sets: for a definition that was not made here.
    pub refusal: fn(&Experiment, &Series) -> Option<String>,
}

/// The experiments, a line each.
///
/// # Errors
/// When a definition is wrong.
pub fn list() -> Result<String, String> {
    let mut text = String::new();
    for experiment in catalogue::all().map_err(|error| error.to_string())? {
        let note = match &experiment.not_testable {
            Some(why) => format!(" (not testable here: {why})"),
            None => String::new(),
        };
        let _ = writeln!(text, "{:<17} {}{note}", experiment.name, experiment.title);
    }
    Ok(text)
}

/// What an experiment is about.
///
/// # Errors
/// When there is none of this name: which is near.
pub fn show(name: &str) -> Result<String, String> {
    let experiments = catalogue::all().map_err(|error| error.to_string())?;
    let experiment = catalogue::named(&experiments, name)?;
    let mut text = format!("{}: {}\n", experiment.name, experiment.title);
    if !experiment.source.is_empty() {
        let _ = writeln!(text, "{}, {}", experiment.source, experiment.rows.join(", "));
    }
    if !experiment.shows.is_empty() {
        let _ = writeln!(text, "\nThe paper: {}", experiment.shows);
    }
    if !experiment.deviates.is_empty() {
        let _ = writeln!(text, "Otherwise here: {}", experiment.deviates);
    }
    if let Some(why) = &experiment.not_testable {
        let _ = writeln!(text, "Not testable here: {why}");
        return Ok(text);
    }
    let workload = &experiment.workload;
    let files = workload.files.iter().map(|(key, value)| format!(" --{key} {value}"));
    let flags = workload.flags.iter().map(|flag| format!(" {flag}"));
    let scale = workload.scale.map(|scale| format!(" (scale {scale})"));
    let words: String = files.chain(flags).chain(scale).collect();
    let _ = writeln!(text, "Workload: {}{words}", workload.name);
    let _ = writeln!(text, "Machine: {}", experiment.machine);
    let points = |quick| {
        let points = experiment.points(quick).iter();
        points.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    if experiment.axis.varies != Varies::Nothing {
        let of = experiment.axis.relative_to.as_ref();
        let of = of.map(|base| format!(" times the peak of {base}")).unwrap_or_default();
        let _ = writeln!(text, "Points: {}{of} (quick: {})", points(false), points(true));
    }
    text += "Series:\n";
    for series in &experiment.series {
        let settings: Vec<String> =
            series.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let who = match (&series.architecture, &series.command[..]) {
            (Some(architecture), _) => architecture.clone(),
            (None, []) => series.contestant.clone(),
            (None, command) => command.join(" "),
        };
        let mut words = vec![format!("  {}: {who}", series.name)];
        words.extend(settings);
        if !series.load.is_empty() {
            words.push(format!("(clients: {})", series.load.join(" ")));
        }
        if series.client_processes {
            words.push("(clients: a process for each connection)".into());
        }
        let _ = writeln!(text, "{}", words.join(" "));
    }
    text += "Claims:\n";
    for predicate in experiment.predicates() {
        let _ = writeln!(text, "  {predicate}");
    }
    Ok(text)
}

/// Judges these campaigns again, writes their pages, and says where they are. Blocks.
///
/// # Errors
/// When a directory holds none.
pub fn report(directories: &[PathBuf]) -> Result<String, String> {
    let mut text = String::new();
    for mut campaign in campaigns(directories)? {
        campaign.judge_again();
        put_json(&campaign.directory.join("verdict.json"), &campaign.outcome)
            .map_err(|error| error.to_string())?;
        let page = campaign.write().map_err(|error| error.to_string())?;
        let _ = writeln!(text, "{}", page.display());
    }
    for directory in directories {
        let all = report::write_all(directory).map_err(|error| error.to_string())?;
        let _ = all.map(|page| writeln!(text, "{}", page.display()));
    }
    Ok(text)
}

/// Two campaigns of one experiment beside each other. Blocks.
///
/// # Errors
/// When they are not that.
pub fn compare(left: &Path, right: &Path) -> Result<String, String> {
    let read = |path: &Path| Campaign::read(path).map_err(|error| error.to_string());
    report::compare(&read(left)?, &read(right)?)
}

/// The contestants of these campaigns, best first. Blocks.
///
/// # Errors
/// When a directory holds none.
pub fn rank(directories: &[PathBuf]) -> Result<String, String> {
    campaigns(directories).map(|campaigns| report::rank(&campaigns))
}

/// Copies what a repository keeps of campaigns to a record. Blocks.
///
/// # Errors
/// When the directory holds none, or the record cannot be written.
pub fn keep(directory: &Path, record: &Path) -> Result<String, String> {
    let campaigns = campaigns(&[directory.to_owned()])?;
    report::keep(&campaigns, record).map_err(|error| error.to_string())?;
    Ok(format!("{} experiments kept in {}\n", campaigns.len(), record.display()))
}

/// The document of all experiments and what came of them in these records. Blocks.
///
/// # Errors
/// When a record cannot be read.
pub fn table(records: &[PathBuf]) -> Result<String, String> {
    report::reproduction(records).map_err(|error| error.to_string())
}

/// Removes what labs that no longer run have left: processes, namespaces, control groups, disks.
/// Blocks.
///
/// # Errors
/// Without root, and when something cannot be removed.
pub fn clear() -> Result<String, String> {
    if !is_root() {
        return Err("clearing takes root, as what could be left did".into());
    }
    clear_leftovers().map_err(|error| error.to_string())?;
    Ok("nothing of labs that no longer run is left\n".into())
}

fn campaigns(directories: &[PathBuf]) -> Result<Vec<Campaign>, String> {
    let mut all = Vec::new();
    for directory in directories {
        all.extend(Campaign::read_all(directory).map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// Sets the flag at SIGINT, SIGTERM, and where it is not ignored (as after `nohup`) SIGHUP, so that
/// what was set up is undone.
///
/// # Errors
/// When no handler can be set.
pub fn on_interrupt(flag: &Arc<AtomicBool>) -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let ends = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    for signal in ends {
        // The second time it ends the lab as it would without.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Whether a signal was ignored when this process began.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

impl Laboratory {
    /// Runs experiments one after the other. Returns what came of them, a line each, and whether
    /// each has a result. Blocks for minutes or hours.
    ///
    /// # Errors
    /// When nothing can be run: an unknown name, a missing program, no right.
    pub fn run(
        &self,
        names: &[String],
        options: &Options,
        progress: &mut dyn Progress,
        stop: &dyn Fn() -> bool,
    ) -> Result<Said, String> {
        let experiments = catalogue::all().map_err(|error| error.to_string())?;
        let chosen = self.chosen(experiments, names)?;
        let _taken = take(&self.out).map_err(|error| error.to_string())?;
        let single = chosen.len() == 1;
        self.has_place(single)?;
        let (mut text, mut has_result) = (String::new(), true);
        for (nth, experiment) in chosen.iter().enumerate() {
            if stop() {
                has_result = false;
                break;
            }
            let left = chosen[nth..].iter().map(|one| planned_s(one, &chosen, options)).sum();
            let left = Duration::from_secs_f64(left);
            progress.experiment(nth + 1, chosen.len(), &experiment.name, left);
            let out = self.out_of(experiment, single);
            match self.one(experiment, options, &out, progress, stop) {
                Ok(outcome) => {
                    text += &line(&outcome);
                    has_result &= outcome.verdict != Verdict::NoResult;
                    let page = Campaign::read(&out).and_then(|campaign| campaign.write());
                    let page = page.map_err(|error| error.to_string())?;
                    let _ = writeln!(text, "    {}", page.display());
                }
                Err(why) if single => return Err(why.to_string()),
                Err(why) => {
                    progress.note(&format!("{} failed: {why}", experiment.name));
                    let _ = writeln!(text, "{:<17} failed: {why}", experiment.name);
                    has_result = false;
                }
            }
        }
        if !text.is_empty() {
            let page = report::write_all(&self.out).map_err(|error| error.to_string());
            let _ = match page {
                Ok(Some(page)) => writeln!(text, "all of them on one page: {}", page.display()),
                Ok(None) => Ok(()),
                Err(why) => writeln!(text, "no page of all: {why}"),
            };
        }
        Ok(Said { text, has_result })
    }

    /// Looks into the servers of experiments, one after the other. Returns where the pages are.
    /// Blocks for some seconds for each series.
    ///
    /// # Errors
    /// As [`Laboratory::run`], and without perf.
    pub fn look_into(
        &self,
        names: &[String],
        options: &Options,
        progress: &mut dyn Progress,
        stop: &dyn Fn() -> bool,
    ) -> Result<String, String> {
        let experiments = catalogue::all().map_err(|error| error.to_string())?;
        let mut chosen = self.chosen(experiments, names)?;
        let _taken = take(&self.out).map_err(|error| error.to_string())?;
        chosen.retain(|one| one.not_testable.is_none());
        for experiment in &chosen {
            if let Some(base) = &experiment.shares_runs_of {
                let name = &experiment.name;
                progress.note(&format!("{name} has the runs of {base}: look into that"));
            }
        }
        chosen.retain(|one| one.shares_runs_of.is_none());
        let single = chosen.len() == 1;
        self.has_place(single)?;
        let mut text = String::new();
        for experiment in chosen.iter().take_while(|_| !stop()) {
            let out = self.out_of(experiment, single);
            let page = self.site(experiment, options, progress).and_then(|mut site| {
                let wrong = |error| SetupError(format!("{}: {error}", out.display()));
                fs::create_dir_all(&out).map_err(wrong)?;
                white_box::run(&mut site, experiment, options, &out, progress, stop)
            });
            let _ = match page {
                Ok(page) => writeln!(text, "{:<17} {}", experiment.name, page.display()),
                Err(why) if single => return Err(why.to_string()),
                Err(why) => writeln!(text, "{:<17} failed: {why}", experiment.name),
            };
        }
        let _ = fs::remove_dir_all(self.out.join(SCRATCH));
        Ok(text)
    }

    /// Where the results of an experiment go: those of a single one as they are, unless others have
    /// directories of their own there.
    fn out_of(&self, experiment: &Experiment, single: bool) -> PathBuf {
        match single && !report::holds_several(&self.out) {
            true => self.out.clone(),
            false => self.out.join(&experiment.name),
        }
    }

    /// Whether results of several experiments may go where those of a single one may be.
    fn has_place(&self, single: bool) -> Result<(), String> {
        if single || !report::holds_campaign(&self.out) {
            return Ok(());
        }
        let why = "it holds the results of one experiment; take another --out for several";
        Err(format!("{}: {why}", self.out.display()))
    }

    /// The experiments of these names, or in these files, whose settings our server takes; all for
    /// [`ALL`].
    fn chosen(
        &self,
        experiments: Vec<Experiment>,
        names: &[String],
    ) -> Result<Vec<Experiment>, String> {
        let mut chosen: Vec<Experiment> = Vec::with_capacity(names.len());
        // Also what is asked for beside all has to be there.
        for name in names.iter().filter(|name| *name != ALL) {
            let one = catalogue::named(&experiments, name)?;
            if !chosen.iter().any(|other| other.name == one.name) {
                chosen.push(one);
            }
        }
        if names.iter().any(|name| name == ALL) {
            chosen.retain(|one| !experiments.iter().any(|other| other.name == one.name));
            chosen.extend(experiments);
        }
        // Those first whose runs others may share.
        chosen.sort_by_key(|experiment| experiment.shares_runs_of.is_some());
        for experiment in &chosen {
            for series in experiment.series.iter().filter(|one| one.contestant == contestant::OURS)
            {
                if let Some(why) = (self.refusal)(experiment, series) {
                    let Experiment { name, .. } = experiment;
                    return Err(format!("{name}: series {:?}: {}", series.name, why.trim()));
                }
            }
        }
        Ok(chosen)
    }

    fn one(
        &self,
        experiment: &Experiment,
        options: &Options,
        out: &Path,
        progress: &mut dyn Progress,
        stop: &dyn Fn() -> bool,
    ) -> Result<Outcome, SetupError> {
        let wrong = |error: std::io::Error| SetupError(format!("{}: {error}", out.display()));
        fs::create_dir_all(out).map_err(wrong)?;
        if let Ok(there) = Campaign::read(out)
            && there.experiment.name != experiment.name
        {
            let name = there.experiment.name;
            let why = format!("it holds the results of {name}; take another --out");
            return Err(SetupError(format!("{}: {why}", out.display())));
        }
        if options.resume
            && let Ok(there) = Campaign::read(out)
            && there.is_complete(options)
        {
            progress.note("it is complete, and kept");
            return Ok(there.outcome);
        }
        let runs = match experiment.not_testable {
            Some(_) => None,
            None => Some(self.measured(experiment, options, out, progress, stop)?),
        };
        let measured = runs.as_ref().map(Runs::valid).unwrap_or_default();
        let noise = runs.as_ref().and_then(|runs| runs.noise.clone());
        let facts = runs.as_ref().and_then(|runs| runs.facts.clone());
        let (verdict, figures) =
            judge(experiment, options.quick, &measured, noise.as_ref(), options.seed);
        let outcome = Outcome {
            experiment: experiment.name.clone(),
            quick: options.quick,
            verdict,
            predicate: experiment.predicates(),
            claims: experiment.claims.clone(),
            setup: runs.as_ref().map(|_| experiment.setup(options.quick)),
            figures,
            reduced: runs.as_ref().is_some_and(|runs| runs.reduced),
            noisy: runs.as_ref().map_or(0, Runs::noisy),
            stolen: runs.as_ref().and_then(Runs::stolen),
            peak: runs.as_ref().and_then(|runs| runs.peak),
            noise,
            absent: runs.as_ref().map(|runs| runs.absent.clone()).unwrap_or_default(),
            versions: self.versions(experiment, options),
            facts: facts.unwrap_or_else(|| Facts::of(None)),
            command: format!(
                "flyball lab run {} {}",
                catalogue::asked_for(experiment),
                options.words()
            ),
        };
        if !catalogue::names().any(|name| name == experiment.name) {
            // Beside its runs, by which alone nobody could judge them again.
            put_json(&out.join(report::DEFINITION), experiment)?;
        }
        put_json(&out.join("verdict.json"), &outcome)?;
        if let Some(runs) = &runs {
            put_json(&out.join("runs.json"), runs)?;
        }
        Ok(outcome)
    }

    /// The versions of all contestants that are there, by name. Blocks.
    fn versions(&self, experiment: &Experiment, options: &Options) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for series in experiment.series(options.quick) {
            if !versions.contains_key(&series.contestant)
                && let Some(version) = contestant::version(series, &self.flyball)
            {
                versions.insert(series.contestant.clone(), version);
            }
        }
        versions
    }

    /// The runs of an experiment: those of the one that it shares them with, when they are there.
    fn measured(
        &self,
        experiment: &Experiment,
        options: &Options,
        out: &Path,
        progress: &mut dyn Progress,
        stop: &dyn Fn() -> bool,
    ) -> Result<Runs, SetupError> {
        if let Some(base) = &experiment.shares_runs_of {
            let there = Campaign::read(&self.out.join(base)).ok();
            let is_of_these = there.as_ref().is_some_and(|there| there.is_of(options));
            if let Some(runs) = there.and_then(|there| there.runs) {
                if is_of_these {
                    progress.note(&format!("the runs of {base} are used"));
                    return Ok(runs);
                }
                progress.note(&format!("{base} was run otherwise: its runs are not used"));
            }
        }
        let mut site = self.site(experiment, options, progress)?;
        if !sees_disk_waits(experiment) {
            site.awake = awake(&mut |why| progress.note(why));
        }
        let runs = campaign::run(&mut site, experiment, options, out, progress, stop);
        // Configuration and logs of the last server: of use only where it failed.
        if runs.is_ok() {
            let _ = fs::remove_dir_all(&site.scratch);
        }
        runs
    }

    /// What all runs of an experiment have in common.
    fn site(
        &self,
        experiment: &Experiment,
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Site, SetupError> {
        let scratch = self.out.join(SCRATCH);
        let wrong = |error: std::io::Error| SetupError(format!("{}: {error}", scratch.display()));
        fs::create_dir_all(&scratch).map_err(wrong)?;
        let absolute = |path: &Path| fs::canonicalize(path).map_err(wrong);
        fs::create_dir_all(&self.files).map_err(wrong)?;
        Ok(Site {
            flyball: self.flyball.clone(),
            files_root: absolute(&self.files)?,
            compare_with: None,
            files: PathBuf::new(),
            scratch: absolute(&scratch)?,
            network: network(experiment, progress)?,
            cpus: cpus(experiment.machine.cpus),
            verified: Default::default(),
            config: None,
            stolen_percent_max: options.stolen_percent_max.unwrap_or(STOLEN_PERCENT_MAX),
            awake: None,
            client_first: client_first(experiment.machine.cpus, &mut |why| progress.note(why)),
        })
    }
}

/// Whether something is claimed of the time in which processors waited for a disk: they do not when
/// they are kept busy.
fn sees_disk_waits(experiment: &Experiment) -> bool {
    let claims = catalogue::claims_on(experiment).unwrap_or_default();
    claims.iter().any(|claim| claim.measure == Measure::DiskWaitPercent)
}

/// Keeps processors awake; why not is told.
pub(crate) fn awake(tell: &mut dyn FnMut(&str)) -> Option<Awake> {
    let awake = Awake::keep(&allowed_cpus());
    if let Err(error) = &awake {
        tell(&format!("processors may sleep, and waking them disturbs runs: {error}"));
    }
    awake.ok()
}

/// Whether a generator that follows a clock may go before other programs on its CPU, which is not
/// the server's, then; why not is told.
pub(crate) fn client_first(wanted: u32, tell: &mut dyn FnMut(&str)) -> bool {
    let Cpus { server, client } = cpus(wanted);
    if !is_root() || server.contains(&client) {
        return false;
    }
    let may = may_go_first();
    if let Err(error) = &may {
        tell(&format!("other programs may hold up the generator: {error}"));
    }
    may.is_ok()
}

/// Seconds that an experiment takes among those that are chosen, about: none when it reads the runs
/// of another.
fn planned_s(experiment: &Experiment, chosen: &[Experiment], options: &Options) -> f64 {
    let base = experiment.shares_runs_of.as_ref();
    let shares = base.is_some_and(|base| chosen.iter().any(|other| other.name == *base));
    if shares || experiment.not_testable.is_some() {
        return 0.0;
    }
    let claims = catalogue::claims_on(experiment).unwrap_or_default();
    let cells = plan::cells(experiment, options.quick);
    plan::of(experiment, &cells, &claims, options.asked()).all_s
}

/// The two hosts; none without root, which is said.
fn network(
    experiment: &Experiment,
    progress: &mut dyn Progress,
) -> Result<Option<Network>, SetupError> {
    if !is_root() {
        progress.note("not root: on loopback, without control groups, which the report says");
        return Ok(None);
    }
    clear_leftovers()?;
    let Cpus { server, client } = cpus(experiment.machine.cpus);
    let made = Network::new(server[0], client, experiment.machine.backlog).map(Some);
    // In a container root has less rights.
    made.map_err(|error| {
        SetupError(format!("{error}; users other than root run it reduced, on loopback"))
    })
}

/// Servers have the first CPUs of those that there are, and the generator the last.
pub(crate) fn cpus(wanted: u32) -> Cpus {
    let mut all = allowed_cpus();
    let client = all.last().copied().unwrap_or(0);
    all.truncate((wanted as usize).min(all.len() - 1).max(1));
    Cpus { server: all, client }
}

/// What came of an experiment, in a line.
fn line(outcome: &Outcome) -> String {
    let verdict = serde_json::to_value(outcome.verdict).unwrap_or_default();
    let (verdict, reservation) = (verdict.as_str().unwrap_or_default(), outcome.reservation());
    let mut text = format!("{:<17} {verdict}{reservation}", outcome.experiment);
    for claim in &outcome.figures {
        let ratio = claim.ratio.map_or_else(
            || "no ratio".to_owned(),
            |ratio| format!("{:.2} ({:.2} to {:.2})", ratio.middle, ratio.low, ratio.high),
        );
        let note = if claim.note.is_empty() { "" } else { "; " };
        let _ = write!(text, "\n    {}: {ratio}{note}{}", claim.says, claim.note);
    }
    if outcome.noisy > 0 {
        let _ = write!(text, "\n    cells without a valid run: {}", outcome.noisy);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_listed_and_can_be_shown() {
        let listed = list().unwrap();
        for experiment in catalogue::all().unwrap() {
            assert!(listed.contains(&experiment.title));
            let shown = show(&experiment.name).unwrap();
            assert!(shown.contains(&experiment.shows), "{shown}");
        }
        assert!(show("s0-fig88").unwrap_err().contains("did you mean s0-fig8?"));
    }
}
