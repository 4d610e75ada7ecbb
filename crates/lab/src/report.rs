//! What a reader gets of a campaign: one page that needs nothing else, with the figure drawn
//! again, the paper's claim beside ours and the machine; and the figure as SVG and CSV beside it.

mod figure;
mod page;
mod reproduction;
mod svg;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use crate::campaign::{self, Options, Runs};
use crate::catalogue;
use crate::definition::{Claim, Experiment, Measure};
use crate::host::{SetupError, put};
use crate::outcome::Outcome;
use crate::verdict::judge;

pub use figure::{Figure, Line, Spot, label};
pub use reproduction::{keep, reproduction};
pub use tables::{compare, rank};

/// The definition of an experiment that is none of those that there are.
pub(crate) const DEFINITION: &str = "definition.json";

/// Sub-directories that are looked through for campaigns.
const CAMPAIGNS_MAX: usize = 256;

/// A campaign as it was kept.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Where.
    pub directory: PathBuf,
    /// What was asked.
    pub experiment: Experiment,
    /// What came of it.
    pub outcome: Outcome,
    /// All runs; nothing of an experiment that cannot be run.
    pub runs: Option<Runs>,
    /// What was claimed before the first run, as far as that was kept.
    pub claimed: Option<Vec<Claim>>,
}

impl Campaign {
    /// Reads one from its directory. Blocks.
    ///
    /// # Errors
    /// When there is none, or of another version.
    pub fn read(directory: &Path) -> Result<Campaign, SetupError> {
        let outcome: Outcome = json(&directory.join("verdict.json"))?;
        let own = directory.join(DEFINITION);
        let experiment = match own.exists() {
            true => json(&own)?,
            false => {
                let all = catalogue::all().map_err(|error| SetupError(error.to_string()))?;
                catalogue::find(&all, &outcome.experiment).map_err(SetupError)?.clone()
            }
        };
        let file = directory.join("runs.json");
        let runs = if file.exists() { Some(json(&file)?) } else { None };
        let claimed = campaign::claimed(directory);
        Ok(Campaign { directory: directory.to_owned(), experiment, outcome, runs, claimed })
    }

    /// The campaign in this directory, or those in the directories within.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn read_all(directory: &Path) -> Result<Vec<Campaign>, SetupError> {
        if directory.join("verdict.json").exists() {
            return Ok(vec![Campaign::read(directory)?]);
        }
        let wrong = |error| SetupError(format!("{}: {error}", directory.display()));
        let entries = fs::read_dir(directory).map_err(wrong)?.take(CAMPAIGNS_MAX).flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.retain(|path| path.join("verdict.json").exists());
        found.sort();
        if found.is_empty() {
            let why = "there is no verdict.json in it: is it the --out of `flyball lab run`?";
            return Err(SetupError(format!("{}: {why}", directory.display())));
        }
        found.iter().map(|path| Campaign::read(path)).collect()
    }

    /// Judges its runs by the rules that hold now.
    pub fn judge_again(&mut self) {
        if let Some(runs) = &self.runs {
            let noise = runs.noise.as_ref();
            let (verdict, figures) =
                judge(&self.experiment, runs.quick, &runs.valid(), noise, runs.seed);
            (self.outcome.verdict, self.outcome.figures) = (verdict, figures);
            self.outcome.predicate = self.experiment.predicates();
            self.outcome.claims = self.experiment.claims.clone();
        }
    }

    /// Whether it is what these options ask for, by the set-up and the claims of now, with nothing
    /// left to run.
    pub fn is_complete(&self, options: &Options) -> bool {
        let is_judged = self.outcome.claims == self.experiment.claims;
        let is_done = self.runs.as_ref().is_some_and(|runs| runs.complete);
        self.experiment.not_testable.is_some() || is_judged && is_done && self.is_of(options)
    }

    /// Whether its runs are those that these options ask for, by the set-up of now: experiments
    /// that share them may use them.
    pub fn is_of(&self, options: &Options) -> bool {
        let same = |runs: &Runs| {
            let Options { quick, seed, blocks, seconds, unjudged, stolen_percent_max, .. } =
                options;
            let asked = (quick, seed, blocks, unjudged, stolen_percent_max);
            let Runs { quick, seed, blocks, unjudged, stolen_percent_max, .. } = runs;
            asked == (quick, seed, blocks, unjudged, stolen_percent_max)
                && seconds.is_none_or(|seconds| seconds == runs.seconds)
        };
        self.runs.as_ref().is_some_and(same) && self.is_set_up_as_now()
    }

    /// Whether load, machine and servers were those of the definition of now, as far as it was
    /// kept.
    pub fn is_set_up_as_now(&self) -> bool {
        let now = self.experiment.setup(self.outcome.quick);
        self.outcome.setup.as_ref().is_none_or(|then| *then == now)
    }

    /// The measures that its claims speak about, each once; the first is that of the figure.
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for claim in &self.experiment.claims {
            if !measures.contains(&claim.measure) {
                measures.push(claim.measure);
            }
        }
        measures
    }

    /// The figures, one for each measure; none without runs.
    pub fn figures(&self) -> Vec<Figure> {
        let Some(runs) = &self.runs else { return Vec::new() };
        let of = |measure: &Measure| Figure::of(&self.experiment, runs, *measure);
        self.measures().iter().map(of).collect()
    }

    /// Writes the page, and the figures beside it. Returns where the page is. Blocks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> Result<PathBuf, SetupError> {
        let figures = self.figures();
        for figure in &figures {
            let name = format!("figure-{}", figure.name);
            put(&self.directory.join(format!("{name}.svg")), &svg::draw(figure))?;
            put(&self.directory.join(format!("{name}.csv")), &figure.csv())?;
        }
        let page = self.directory.join("report.html");
        put(&page, &page::of(self, &figures))?;
        Ok(page)
    }
}

/// Whether a campaign was begun in this directory itself.
pub(crate) fn holds_campaign(directory: &Path) -> bool {
    ["verdict.json", campaign::SETTLED].iter().any(|name| directory.join(name).exists())
}

/// Whether campaigns were begun in directories within this one.
pub(crate) fn holds_several(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().take(CAMPAIGNS_MAX).flatten();
    entries.map(|entry| entry.path()).any(|path| holds_campaign(&path))
}

/// Writes one page of all campaigns in the directories within this one; nothing where it is that of
/// one experiment. Returns where the page is. Blocks.
///
/// # Errors
/// When one cannot be read, or the page not be written.
pub(crate) fn write_all(directory: &Path) -> Result<Option<PathBuf>, SetupError> {
    if directory.join("verdict.json").exists() {
        return Ok(None);
    }
    let page = directory.join("report.html");
    put(&page, &page::of_all(&Campaign::read_all(directory)?))?;
    Ok(Some(page))
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SetupError> {
    let wrong = |why: String| SetupError(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// A figure as SVG.
pub(crate) fn drawn(figure: &Figure) -> String {
    svg::draw(figure)
}

/// The style of all pages.
pub(crate) fn style() -> &'static str {
    page::STYLE
}

/// Text as it stands between the tags of a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
