//! What a search found, and every run by which it did.

use flyball_stats::Interval;
use serde::Serialize;

use super::search::Stage;
use crate::space::Point;

/// A run that was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// When in the search.
    pub stage: Stage,
    /// What was measured, in words.
    pub label: String,
    /// What it was asked for.
    pub seed: u64,
    /// What it gave.
    pub score: Option<f64>,
    /// Why it does not count.
    pub void: Option<String>,
    /// How often the load had been raised: only scores of one load are compared.
    pub load: u32,
    #[serde(skip)]
    pub(super) point: Point,
}

/// One that was confirmed, or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finalist {
    /// Its settings in words.
    pub label: String,
    /// By the default.
    pub ratio: Interval,
    /// The p-value, corrected for the number of finalists.
    pub p: f64,
    /// From so many pairs.
    pub pairs: usize,
    /// It is better than the default, and by more than noise.
    pub better: bool,
    #[serde(skip)]
    pub(super) point: Point,
}

/// How the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Something beat the default.
    Better,
    /// Nothing beat the default significantly.
    NoDifference,
    /// Nothing was compared with the default: there is no result.
    NoResult,
    /// It was interrupted: the best so far is not confirmed.
    Interrupted,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// How it ended.
    pub end: End,
    /// The winner; the best so far after an interruption; the default when nothing beat it.
    #[serde(skip)]
    pub best: Point,
    /// Its settings in words.
    pub label: String,
    /// Those that were confirmed, best first.
    pub finalists: Vec<Finalist>,
    /// The standard deviation of the default's score from run to run, as a share of it.
    pub noise: Option<f64>,
    /// Whether they were compared by the area under the whole curve, and not in overload alone.
    pub swept: bool,
    /// Every run.
    pub trials: Vec<Trial>,
}

impl Found {
    /// Why the best of the search was not confirmed, if it was not.
    pub(super) fn refused(&self) -> Option<&str> {
        let mut asked = self.trials.iter().filter(|trial| trial.stage == Stage::Admission);
        asked.find_map(|trial| trial.void.as_deref())
    }
}
