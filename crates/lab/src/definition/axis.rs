//! What is varied from point to point, and how load changes within a run.

use serde::{Deserialize, Serialize};

/// What the points of a figure differ in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Varies {
    /// New connections in a second, arriving openly.
    Rate,
    /// Sessions in a second, arriving openly; requests within one follow each other.
    Sessions,
    /// Connections that are busy all the time, in a closed loop.
    Connections,
    /// The size of the one file, in bytes, at a fixed number of connections.
    FileSize,
    /// The size of the set of files, in MiB, at a fixed number of connections.
    SetSize,
    /// How many of a hundred requests are dynamic ones, at a fixed number of connections.
    DynamicShare,
    /// A setting of the servers, named by [`Axis::setting`].
    Setting,
    /// Nothing: a bar for each series.
    #[default]
    Nothing,
}

impl Varies {
    /// Whether load arrives by a clock, whatever the server does.
    pub fn is_open(self) -> bool {
        matches!(self, Varies::Rate | Varies::Sessions)
    }
}

/// What is varied, and over which values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Axis {
    /// What it is.
    #[serde(default)]
    pub varies: Varies,
    /// The values of a full run.
    #[serde(default)]
    pub points: Vec<f64>,
    /// Those of a quick one, by default all; of these, every claim can be judged.
    #[serde(default)]
    pub quick: Vec<f64>,
    /// The series at whose peak a value is 1; values are absolute without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<String>,
    /// The setting that is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// How the rate changes during each run: so many times the value of the point, one step after
    /// the other. The first is what is normal, and the last begins when it is so again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Connections, where they are not what is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    /// Its length.
    pub seconds: f64,
    /// What the value of the point is multiplied by.
    pub times: f64,
}

impl Axis {
    /// The highest rate of a run, as a multiple of its point's.
    pub fn highest(&self) -> f64 {
        self.steps.iter().map(|step| step.times).reduce(f64::max).unwrap_or(1.0)
    }

    pub(super) fn check_steps(&self) -> Result<(), String> {
        let is_wrong = |step: &Step| {
            let (seconds, times) = (step.seconds, step.times);
            !(seconds > 0.0 && seconds.is_finite() && times >= 0.0 && times.is_finite())
        };
        match self.steps.is_empty() {
            true => Ok(()),
            _ if !self.varies.is_open() => {
                Err("`steps` are of an axis that varies a rate or sessions".into())
            }
            _ if self.steps.len() < 3 => Err("`steps` are three at least: before, the change, \
                                              and after"
                .into()),
            _ if self.steps.iter().any(is_wrong) => {
                Err("a step has `seconds` above 0, and `times` that is no less than 0".into())
            }
            _ => Ok(()),
        }
    }

    /// How load arrives: whether it waits for the server decides what a figure past its peak means.
    pub fn model(&self) -> &'static str {
        match self.varies {
            Varies::Rate => "open loop",
            Varies::Sessions => "partly open loop",
            _ => "closed loop",
        }
    }
}
