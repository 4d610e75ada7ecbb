//! What a campaign has settled before its first run, by which it goes on after an interruption.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Options, kept};
use crate::definition::{Axis, Claim, Experiment, Series};

/// Where it is kept.
pub(crate) const SETTLED: &str = "settled.json";

/// What is settled before the first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Settled {
    pub(super) quick: bool,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    pub(super) peak: Option<f64>,
    #[serde(default)]
    pub(super) stolen_percent_max: Option<f64>,
    /// What was asked then.
    #[serde(default)]
    pub(super) experiment: Option<Experiment>,
    /// The commit by which it was begun.
    #[serde(default)]
    pub(super) commit: Option<String>,
    /// Whether it was begun on loopback, for want of root.
    #[serde(default)]
    pub(super) reduced: Option<bool>,
}

impl Settled {
    /// Why runs of now do not belong to those of then.
    pub(super) fn differs(&self, quick: bool, seed: u64, now: &Experiment) -> Option<String> {
        if (self.quick, self.seed) != (quick, seed) {
            let kind = if self.quick { "quick" } else { "full" };
            return Some(format!("it was begun as a {kind} campaign with --seed {}", self.seed));
        }
        let then = self.experiment.as_ref()?;
        if then.name != now.name {
            return Some(format!("it holds runs of {}", then.name));
        }
        let of = |experiment: &Experiment| {
            let Axis { varies, setting, relative_to, connections, .. } = experiment.axis.clone();
            let axis = (varies, setting, relative_to, connections);
            (experiment.workload.clone(), experiment.machine.clone(), axis)
        };
        let alike = |one: &Series| {
            let other = then.series.iter().find(|other| other.name == one.name);
            other.is_none_or(|other| {
                // Whether it takes part in quick campaigns changes no run of it.
                *one == Series { full_only: one.full_only, ..other.clone() }
            })
        };
        let differs = of(then) != of(now) || !now.series.iter().all(alike);
        differs.then(|| "its definition is another now; run it without --resume".to_owned())
    }

    /// What is asked of each run now, and was not then; `reduced` is whether it is on loopback now.
    pub(super) fn is_asked_otherwise(&self, options: &Options, reduced: bool) -> Option<String> {
        if self.reduced.is_some_and(|then| then != reduced) {
            let how = if reduced { "with root" } else { "without root" };
            return Some(format!("it was begun {how}"));
        }
        if self.stolen_percent_max != options.stolen_percent_max {
            return Some("it was begun with another --stolen-max".to_owned());
        }
        let another = options.seconds.is_some_and(|seconds| (seconds - self.seconds).abs() > 1e-3);
        another.then(|| format!("it was begun with runs of {} s", self.seconds))
    }
}

/// How long the runs of a campaign in this directory are, when it was begun.
pub(super) fn seconds(directory: &Path) -> Option<f64> {
    kept(&directory.join(SETTLED)).map(|settled: Settled| settled.seconds)
}

/// What was claimed before the first run of a campaign in this directory, as far as it was kept.
pub(crate) fn claimed(directory: &Path) -> Option<Vec<Claim>> {
    let settled: Settled = kept(&directory.join(SETTLED))?;
    Some(settled.experiment?.claims)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::catalogue;

    fn options() -> Options {
        Options {
            quick: true,
            seed: 1,
            resume: true,
            blocks: None,
            seconds: None,
            unjudged: None,
            stolen_percent_max: None,
        }
    }

    fn experiment(name: &str) -> Experiment {
        catalogue::all().unwrap().into_iter().find(|one| one.name == name).unwrap()
    }

    fn settled(experiment: Option<Experiment>) -> Settled {
        let (peak, commit) = (Some(900.0), None);
        Settled {
            quick: true,
            seed: 1,
            seconds: 1.5,
            peak,
            stolen_percent_max: None,
            experiment,
            commit,
            reduced: Some(false),
        }
    }

    #[test]
    fn runs_of_another_kind_seed_or_definition_do_not_belong_together() {
        let then = experiment("s0-fig10");
        let settled = settled(Some(then.clone()));
        assert_eq!(settled.differs(true, 1, &then), None);
        assert!(settled.differs(false, 1, &then).unwrap().contains("a quick campaign"));
        assert!(settled.differs(true, 2, &then).unwrap().contains("--seed 1"));
        // What is claimed and what is drawn may change: the runs are the same.
        let mut now = then.clone();
        now.claims.pop();
        now.series.pop();
        now.axis.points.push(3.0);
        assert_eq!(settled.differs(true, 1, &now), None);
        let of_another = settled.differs(true, 1, &experiment("s0-fig8"));
        assert_eq!(of_another.as_deref(), Some("it holds runs of s0-fig10"));
        let mut now = then.clone();
        now.workload.timeout_s += 1.0;
        assert!(settled.differs(true, 1, &now).is_some());
        let mut now = then.clone();
        now.series[0].set.clear();
        assert!(settled.differs(true, 1, &now).is_some());
        let mut now = then;
        now.machine = experiment("s2-fig9").machine;
        assert!(settled.differs(true, 1, &now).is_some());
    }

    #[test]
    fn runs_that_are_asked_otherwise_do_not_belong_together() {
        let settled = settled(None);
        assert_eq!(settled.is_asked_otherwise(&options(), false), None);
        let as_then = Options { seconds: Some(1.5), ..options() };
        assert_eq!(settled.is_asked_otherwise(&as_then, false), None);
        let longer = Options { seconds: Some(3.0), ..options() };
        assert!(settled.is_asked_otherwise(&longer, false).unwrap().contains("1.5 s"));
        let looser = Options { stolen_percent_max: Some(5.0), ..options() };
        assert!(settled.is_asked_otherwise(&looser, false).unwrap().contains("--stolen-max"));
        let on_loopback = settled.is_asked_otherwise(&options(), true);
        assert_eq!(on_loopback.as_deref(), Some("it was begun with root"));
    }

    #[test]
    fn what_was_claimed_then_is_told_as_far_as_it_was_kept() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(claimed(directory.path()), None);
        let then = experiment("s0-fig10");
        let claims = then.claims.clone();
        let text = serde_json::to_string(&settled(Some(then))).unwrap();
        fs::write(directory.path().join(SETTLED), text).unwrap();
        assert_eq!(claimed(directory.path()), Some(claims));
        assert_eq!(seconds(directory.path()), Some(1.5));
        fs::write(directory.path().join(SETTLED), "{").unwrap();
        assert_eq!(claimed(directory.path()), None);
    }
}
