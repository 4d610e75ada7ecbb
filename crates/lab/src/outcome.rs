//! What came of an experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::definition::{Claim, Setup};
use crate::host::Facts;
use crate::noise::Noise;
use crate::run::STOLEN_PERCENT_MAX;
use crate::verdict::{Judged, Verdict};

/// What came of an experiment, as it is written beside its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: String,
    /// Quick or full.
    pub quick: bool,
    /// What came of all claims together.
    pub verdict: Verdict,
    /// What was claimed, before the run, in words.
    pub predicate: Vec<String>,
    /// The same as the definition has it; nothing in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// How it was measured; nothing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// What came of each claim, with its figures.
    pub figures: Vec<Judged>,
    /// It ran on loopback, without what root may do.
    pub reduced: bool,
    /// Cells that had no valid run.
    pub noisy: usize,
    /// What the machine beneath took of the runs that count; nothing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<Stolen>,
    /// What 1 means along an axis that is relative.
    pub peak: Option<f64>,
    /// What two copies of one server differed by.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// Who stayed away, and why.
    pub absent: BTreeMap<String, String>,
    /// What those who took part say of their versions.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// The machine.
    pub facts: Facts,
    /// The command that makes it again.
    pub command: String,
}

impl Outcome {
    /// What is not as it would be in full, in brackets: a reader takes it for less. Nothing of an
    /// experiment that cannot be run.
    pub fn reservation(&self) -> &'static str {
        match (self.setup.is_some(), self.quick, self.reduced) {
            (true, true, true) => " (quick, on loopback)",
            (true, true, false) => " (quick)",
            (true, false, true) => " (on loopback)",
            _ => "",
        }
    }
}

/// What is told of experiments or of a search that are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What came of them, and where it is written.
    pub text: String,
    /// Whether anything came of them: runs that count were compared, or a search that was ended has
    /// a best so far.
    pub has_result: bool,
}

/// What the machine beneath took of the runs that count, in percent of their time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stolen {
    /// Of the one in the middle.
    pub middle: f64,
    /// Of the one of which it took most.
    pub most: f64,
}

impl Stolen {
    /// Whether runs count of which more was taken than usually may be.
    pub fn is_beyond_the_usual(&self) -> bool {
        self.most > STOLEN_PERCENT_MAX
    }
}
