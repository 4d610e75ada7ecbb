//! How a campaign is asked for, and how much others may disturb it.

use crate::plan::Asked;

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
    /// Repetitions of what no claim looks at, where they are fewer.
    pub unjudged: Option<usize>,
    /// The percentage of a run's time that the machine beneath may take of it, where it is not
    /// [`STOLEN_PERCENT_MAX`](crate::run::STOLEN_PERCENT_MAX).
    pub stolen_percent_max: Option<f64>,
}

impl Options {
    /// The same, for a plan.
    pub fn asked(&self) -> Asked {
        let Options { quick, seed, blocks, seconds, unjudged, .. } = *self;
        Asked { quick, seed, blocks, seconds, unjudged }
    }

    /// As they stand on the command line.
    pub fn words(&self) -> String {
        let Options { quick, seed, blocks, seconds, unjudged, .. } = *self;
        let kind = if quick { "--quick" } else { "--full" };
        let mut words = format!("{kind} --seed {seed}");
        let mut add = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!(" --{flag} {value}")));
        };
        add("repetitions", blocks.map(|n| n.to_string()));
        add("seconds", seconds.map(|s| s.to_string()));
        add("unjudged", unjudged.map(|n| n.to_string()));
        add("stolen-max", self.stolen_percent_max.map(|percent| percent.to_string()));
        words
    }
}
