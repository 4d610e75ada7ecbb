//! An experiment as it is written down before anything is run: one file of `lab/experiments`, for
//! one figure or table of a paper.
//!
//! It says what the paper showed, under which workload, who takes part, along which axis, and the
//! claims: the predicates by which the figure counts as reproduced, weaker or reversed. Nothing of
//! it may depend on what comes out.

mod axis;
mod machine;
mod measure;
mod workload;

use std::collections::BTreeMap;
use std::fmt;

use flyball_stats::EQUIVALENCE_MARGIN;
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;

pub use axis::{Axis, Step, Varies};
pub use machine::{Machine, PageCache};
pub use measure::Measure;
pub(crate) use workload::WORK_PATH;
pub use workload::{Work, Workload};

/// The workload of which a part is made again for each request.
pub(crate) const DYNAMIC: &str = "specweb99-dynamic";

/// Longest time that a quick run of one experiment may take, in seconds, and of one whose runs have
/// a length of their own.
pub const QUICK_S_MAX: u64 = 180;
const QUICK_LONG_S_MAX: u64 = 600;

/// Names are used for files and on the command line.
const NAME_LEN_MAX: usize = 40;

/// One figure or table of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// The file that it was read from, as it was named; nothing of those that are carried.
    #[serde(skip)]
    pub file: Option<String>,
    /// The paper and the figure, as in `s0-fig8`.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// The paper's tag and where in it: `S0, Figure 8`; empty, as the next two, of one's own.
    #[serde(default)]
    pub source: String,
    /// The rows of the papers' table that it answers.
    #[serde(default)]
    pub rows: Vec<String>,
    /// What the paper showed, with its numbers.
    #[serde(default)]
    pub shows: String,
    /// What is done otherwise here, and why; empty when nothing is.
    #[serde(default)]
    pub deviates: String,
    /// Why it cannot be tested on such a machine. Then nothing else is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_testable: Option<String>,
    /// The experiment whose runs this one reads too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_runs_of: Option<String>,
    /// What clients ask for.
    #[serde(default)]
    pub workload: Workload,
    /// What is varied from point to point.
    #[serde(default)]
    pub axis: Axis,
    /// Seconds of a run, with its warm-up, where the kind of campaign does not say them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What surrounds the servers.
    #[serde(default)]
    pub machine: Machine,
    /// Who takes part: the lines or bars of the figure.
    #[serde(default)]
    pub series: Vec<Series>,
    /// What has to come out.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Which of the results are not to be built on, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// Why results of an experiment are not to be built on, whatever came of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Doubt {
    /// The claims by their place in the definition, from 1.
    pub claims: Vec<usize>,
    /// What is the matter with them.
    pub is: Fault,
    /// Why.
    pub why: String,
}

/// What can be the matter with a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// What came out has another cause than the one that is claimed.
    Withdrawn,
    /// It comes out whatever the server does.
    CannotFail,
    /// It cannot come out on this machine or by these runs.
    CannotHold,
}

/// What decides what runs measure: an experiment without what it says and claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Setup {
    /// What clients ask for.
    pub workload: Workload,
    /// What is varied, at the points of this kind of campaign.
    pub axis: Axis,
    /// What surrounds the servers.
    pub machine: Machine,
    /// Who takes part in this kind of campaign.
    pub series: Vec<Series>,
}

/// A contestant with its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// As the figure calls it.
    pub name: String,
    /// `flyball`, a peer, or what a command of one's own is called.
    #[serde(default)]
    pub contestant: String,
    /// The command of a server of one's own, with `{address}` and `{root}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The architecture, of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Settings by their keys, as in a configuration file.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Only in a full run.
    #[serde(default)]
    pub full_only: bool,
    /// More flags of the generator, where it is clients that are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<String>,
    /// Its event loop calls the module of SPECweb99 in place, as S1's did (Sections 3 and 4.3).
    #[serde(default, skip_serializing_if = "is_false")]
    pub calls_in_place: bool,
    /// It refuses everything: what is measured is what that costs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refuses: bool,
    /// Each connection is asked for by a process of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub client_processes: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Series {
    /// What files of its runs are named by.
    pub fn in_file_names(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        self.name.chars().map(plain).collect()
    }
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Real(f64),
    /// Anything else.
    Text(String),
}

impl fmt::Display for Value {
    /// As it stands on a command line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => flag.fmt(out),
            Value::Whole(number) => number.fmt(out),
            Value::Real(number) => number.fmt(out),
            Value::Text(text) => out.write_str(text),
        }
    }
}

/// Where along the axis a claim looks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The best point of each side, which may be at different values.
    Peak,
    /// The largest value: furthest past saturation.
    Last,
    /// The smallest value.
    First,
    /// Every value, taken together.
    Everywhere,
    /// This value, which is a point of quick and of full campaigns.
    At(f64),
}

/// How the left has to be to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Larger.
    Greater,
    /// Smaller.
    Less,
    /// The same within the margin.
    Equal,
    /// Not smaller by more than the margin.
    AtLeast,
}

/// A predicate: one series against another, or against itself elsewhere on the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// In a sentence.
    pub says: String,
    /// What is compared.
    pub measure: Measure,
    /// The series on the left.
    pub left: String,
    /// The series on the right.
    pub right: String,
    /// Where.
    pub at: Place,
    /// Where on the right, when it is not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_at: Option<Place>,
    /// Where the same two are compared as well, if it is the change of their ratio that is claimed:
    /// the ratio here is what that at [`Claim::at`] is divided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Place>,
    /// How the left has to be.
    pub is: Relation,
    /// Left by right as the paper has it, for the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// Left by right from which on it counts as reproduced; between 1 and this it is weaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproduced: Option<f64>,
    /// How far from 1 a ratio may be that still counts as equal, where a paper itself allows for
    /// more than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
}

impl Claim {
    /// How far from 1 a ratio may be that still counts as equal.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(EQUIVALENCE_MARGIN)
    }

    /// The series and places that it looks at: left and right, and both of them once more where
    /// their ratio changes.
    pub fn places(&self) -> Vec<(&str, Place)> {
        let (left, right) = (self.left.as_str(), self.right.as_str());
        let mut places = vec![(left, self.at), (right, self.right_at.unwrap_or(self.at))];
        places.extend(self.beside.iter().flat_map(|place| [(left, *place), (right, *place)]));
        places
    }

    /// Whether it looks where a series has most.
    pub fn looks_at_a_peak(&self) -> bool {
        self.places().iter().any(|(_, place)| *place == Place::Peak)
    }

    /// In words, with the figure that it takes.
    pub fn predicate(&self) -> String {
        let paper = self.paper.map(|ratio| format!("; {ratio} in the paper")).unwrap_or_default();
        let needed = match (self.is, self.reproduced) {
            (Relation::Equal, _) => format!("within {} % of 1", self.margin() * 100.0),
            (Relation::AtLeast, _) => {
                format!("certainly no more than {} % below 1", self.margin() * 100.0)
            }
            (Relation::Greater, needed) => format!("at least {}", needed.unwrap_or(1.0)),
            (Relation::Less, needed) => format!("at most {}", needed.unwrap_or(1.0)),
        };
        format!("{}: reproduced when the ratio is {needed}{paper}", self.says)
    }
}

/// What is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionError {
    /// Whose.
    pub file: String,
    /// And why.
    pub why: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.file, self.why)
    }
}

impl std::error::Error for DefinitionError {}

impl Experiment {
    /// Reads a definition and checks that it hangs together. `file` is for the message.
    ///
    /// # Errors
    /// With the line and the key, or what does not fit.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, DefinitionError> {
        let wrong = |why: String| DefinitionError { file: file.to_owned(), why };
        let mut experiment: Experiment =
            toml::from_str(text).map_err(|error| wrong(with_nearest(error.to_string())))?;
        if experiment.axis.quick.is_empty() {
            experiment.axis.quick.clone_from(&experiment.axis.points);
        }
        // One that reads another's runs is whole, and can be checked, when it has them.
        if experiment.shares_runs_of.is_none() {
            experiment.check().map_err(wrong)?;
        }
        Ok(experiment)
    }

    /// The same with the runs of the experiment that it shares them with.
    ///
    /// # Errors
    /// When its claims do not fit them.
    pub fn with_runs_of(
        self,
        base: &Experiment,
        file: &str,
    ) -> Result<Experiment, DefinitionError> {
        let wrong = |why: String| DefinitionError { file: file.to_owned(), why };
        let Experiment { workload, axis, seconds, machine, series, .. } = base.clone();
        if !self.series.is_empty() {
            return Err(wrong("what shares the runs of another has no series of its own".into()));
        }
        let whole = Experiment { workload, axis, seconds, machine, series, ..self };
        whole.check().map_err(wrong)?;
        Ok(whole)
    }

    /// The values along the axis; one of no meaning where nothing is varied.
    pub fn points(&self, quick: bool) -> &[f64] {
        match (self.axis.varies, quick) {
            (Varies::Nothing, _) => &[0.0],
            (_, true) => &self.axis.quick,
            (_, false) => &self.axis.points,
        }
    }

    /// The experiment as it is at a point of the axis, where clients ask for something else there.
    pub fn at(&self, point: f64) -> Experiment {
        let mut here = self.clone();
        if self.axis.varies == Varies::DynamicShare {
            here.workload.flags.extend(["--dynamic".to_owned(), format!("{point}")]);
        }
        here
    }

    /// What decides what runs of a quick or a full campaign measure.
    pub fn setup(&self, quick: bool) -> Setup {
        let points = self.points(quick).to_vec();
        Setup {
            workload: self.workload.clone(),
            axis: Axis { points, quick: Vec::new(), ..self.axis.clone() },
            machine: self.machine.clone(),
            series: self.series(quick).cloned().collect(),
        }
    }

    /// Seconds of a run where they are its own.
    pub fn run_s(&self) -> Option<f64> {
        let steps = &self.axis.steps;
        self.seconds.or((!steps.is_empty()).then(|| steps.iter().map(|step| step.seconds).sum()))
    }

    /// Seconds that a quick campaign has.
    pub fn quick_s_max(&self) -> u64 {
        if self.run_s().is_some() { QUICK_LONG_S_MAX } else { QUICK_S_MAX }
    }

    /// What is claimed, each in words with the figure that it takes.
    pub fn predicates(&self) -> Vec<String> {
        self.claims.iter().map(Claim::predicate).collect()
    }

    /// Who takes part.
    pub fn series(&self, quick: bool) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |series| !(quick && series.full_only))
    }

    /// The doubt about a claim, by its place from 0.
    pub fn doubt(&self, claim: usize) -> Option<&Doubt> {
        self.doubts.iter().find(|doubt| doubt.claims.contains(&(claim + 1)))
    }

    fn check(&self) -> Result<(), String> {
        let Experiment { name, axis, series, claims, .. } = self;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.bytes().all(plain) {
            return Err(format!("the name {name:?} is not of small letters, digits and hyphens"));
        }
        if self.not_testable.is_some() {
            return match series.is_empty() && claims.is_empty() {
                true => Ok(()),
                false => Err("what is not testable has no series and no claims".into()),
            };
        }
        if series.is_empty() || claims.is_empty() {
            return Err("it needs series and claims, or a reason why it is not testable".into());
        }
        let known = 1..=claims.len();
        if self.doubts.iter().flat_map(|doubt| &doubt.claims).any(|claim| !known.contains(claim)) {
            return Err("a doubt is about a claim that is not there".into());
        }
        self.machine.check()?;
        if self.workload.name.is_empty() {
            return Err("the workload has no name".into());
        }
        self.check_axis()?;
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return Err("`seconds` is above 0".into());
        }
        self.workload.check_work()?;
        if let Some(scale) = self.workload.scale {
            if axis.varies != Varies::Connections || !self.workload.name.starts_with("specweb99") {
                return Err("`scale` is of specweb99, along an axis of connections".into());
            }
            if !(scale > 0.0 && scale <= 1.0 && self.workload.files.is_empty()) {
                return Err(
                    "`scale` is above 0 and at most 1, and says what files there are".into()
                );
            }
        }
        let is_dynamic = self.workload.name == DYNAMIC;
        let has_module = is_dynamic || self.workload.work.is_some();
        let may = |one: &Series| has_module && one.contestant == "flyball";
        if series.iter().any(|one| one.calls_in_place && !may(one)) {
            return Err(format!("`calls-in-place` is of flyball, and of {DYNAMIC} or `work`"));
        }
        for (at, one) in series.iter().enumerate() {
            let alike = |other: &&Series| other.in_file_names() == one.in_file_names();
            if let Some(other) = series[..at].iter().find(alike) {
                let (name, other) = (&one.name, &other.name);
                return Err(format!("series {name:?}: files of {other:?} have the same names"));
            }
        }
        claims.iter().try_for_each(|claim| self.check_claim(claim))
    }

    fn check_axis(&self) -> Result<(), String> {
        let Experiment { axis, series, .. } = self;
        let varied = axis.varies != Varies::Nothing;
        if varied && axis.points.is_empty() {
            return Err("the axis has no points".into());
        }
        if !varied && axis.connections.is_none() {
            return Err("the axis says neither what it `varies` nor how many `connections`".into());
        }
        axis.check_steps()?;
        if let Some(point) = axis.quick.iter().find(|point| !axis.points.contains(point)) {
            return Err(format!("the quick point {point} is none of the points"));
        }
        if (axis.varies == Varies::Setting) != axis.setting.is_some() {
            return Err("`setting` belongs to an axis that varies one".into());
        }
        let known = |series_name: &str| series.iter().any(|series| series.name == series_name);
        if let Some(base) = axis.relative_to.as_deref().filter(|base| !known(base)) {
            let near = self.near_series(base);
            return Err(format!("the axis is relative to {base:?}, which is no series{near}"));
        }
        if axis.relative_to.is_some() && !axis.varies.is_open() {
            return Err("`relative-to` is of an axis that varies a rate or sessions".into());
        }
        Ok(())
    }

    /// The series of a similar name, as the end of a message.
    fn near_series(&self, name: &str) -> String {
        let near = nearest(name, self.series.iter().map(|series| series.name.as_str()));
        near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
    }

    /// A quick and a full campaign judge the same claim: what it looks at is one point in both.
    fn check_place(&self, place: Place) -> Result<(), String> {
        let Axis { points, quick, varies, .. } = &self.axis;
        if *varies == Varies::Nothing {
            return Ok(());
        }
        let end = |of: &[f64], larger: fn(f64, f64) -> f64| of.iter().copied().reduce(larger);
        let ends = |larger: fn(f64, f64) -> f64| (end(points, larger), end(quick, larger));
        let (full, short, which) = match place {
            Place::Peak | Place::Everywhere => return Ok(()),
            Place::At(value) if points.contains(&value) && quick.contains(&value) => return Ok(()),
            Place::At(value) => return Err(format!("{value} is no point of every campaign")),
            Place::First => (ends(f64::min).0, ends(f64::min).1, "first"),
            Place::Last => (ends(f64::max).0, ends(f64::max).1, "last"),
        };
        match (full, short) {
            (Some(full), Some(short)) if full != short => Err(format!(
                "the {which} point of a quick run is {short} and that of a full one {full}: \
                 name the point with `{{ at = ... }}`"
            )),
            _ => Ok(()),
        }
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let says = &claim.says;
        for side in [&claim.left, &claim.right] {
            let found = self.series.iter().find(|series| series.name == *side);
            let near = || self.near_series(side);
            let found =
                found.ok_or_else(|| format!("{says:?}: {side:?} is no series{}", near()))?;
            if found.full_only {
                return Err(format!("{says:?}: a quick run lacks {side:?}"));
            }
        }
        if claim.beside == Some(claim.at) || claim.beside.is_some() && claim.right_at.is_some() {
            return Err(format!(
                "{says:?}: `beside` is another place than `at`, and of both sides"
            ));
        }
        if claim.left == claim.right && claim.right_at.is_none_or(|place| place == claim.at) {
            return Err(format!("{says:?}: it compares a point with itself"));
        }
        if claim.measure == Measure::RecoveryS && self.axis.steps.is_empty() {
            return Err(format!("{says:?}: there is a recovery where the axis has `steps`"));
        }
        if claim.measure == Measure::BlockedPercent && !self.machine.watched {
            return Err(format!("{says:?}: it takes `watched = true` in [machine]"));
        }
        match (self.machine.profiled, claim.measure.is_of_stacks()) {
            (true, false) => {
                return Err(format!("{says:?}: sampling slows servers down: claim shares of time"));
            }
            (false, true) => {
                return Err(format!(
                    "{says:?}: shares of time take `profiled = true` in [machine]"
                ));
            }
            _ => {}
        }
        for (_, place) in claim.places() {
            self.check_place(place).map_err(|why| format!("{says:?}: {why}"))?;
        }
        match (claim.is, claim.reproduced) {
            (Relation::Greater, Some(ratio)) if ratio >= 1.0 => Ok(()),
            (Relation::Less, Some(ratio)) if ratio <= 1.0 => Ok(()),
            (Relation::Equal | Relation::AtLeast, None) => Ok(()),
            _ => Err(format!("{says:?}: `reproduced` does not fit the relation")),
        }?;
        let of_equality = matches!(claim.is, Relation::Equal | Relation::AtLeast);
        match claim.margin {
            None => Ok(()),
            Some(margin) if of_equality && margin > 0.0 && margin < 1.0 => Ok(()),
            Some(_) => Err(format!("{says:?}: a margin is a share, of a claim of equality")),
        }
    }
}

/// What a parser says of an unknown key or word, with the nearest of those that it expected.
fn with_nearest(said: String) -> String {
    let Some((_, rest)) =
        said.split_once("unknown field `").or(said.split_once("unknown variant `"))
    else {
        return said;
    };
    // `written`, expected one of `this`, `that`
    let mut quoted = rest.split('`').step_by(2);
    let written = quoted.next().unwrap_or_default();
    match nearest(written, quoted) {
        Some(near) => format!("{}\ndid you mean {near}?", said.trim_end()),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
name = "s9-fig1"
title = "An example"
source = "S9, Figure 1"
rows = ["M0"]
shows = "a is faster than b"

[workload]
name = "one-packet"

[axis]
varies = "rate"
points = [0.5, 1.0, 1.5]
quick = [1.0, 1.5]
relative-to = "a"

[[series]]
name = "a"
contestant = "flyball"
architecture = "sped"
set = { "accept.limit" = 1 }

[[series]]
name = "b"
contestant = "nginx"

[[claims]]
says = "a beats b past saturation"
measure = "goodput_per_s"
left = "a"
right = "b"
at = "last"
is = "greater"
paper = 1.65
reproduced = 1.1
"#;

    fn why(text: &str) -> String {
        Experiment::parse("x.toml", text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_definition_is_read_whole() {
        let experiment = Experiment::parse("x.toml", WHOLE).unwrap();
        assert_eq!(experiment.points(true), [1.0, 1.5]);
        assert_eq!(experiment.points(false).len(), 3);
        assert_eq!(experiment.series(true).count(), 2);
        assert_eq!(experiment.claims[0].at, Place::Last);
        assert_eq!(experiment.machine, Machine::default());
        let all = Experiment::parse("x.toml", &WHOLE.replace("quick = [1.0, 1.5]\n", "")).unwrap();
        assert_eq!(all.points(true), [0.5, 1.0, 1.5], "a quick run has all points by default");
    }

    #[test]
    fn a_wrong_definition_is_told_with_what_is_wrong() {
        let unknown = WHOLE.replace("title", "tittle");
        assert!(why(&unknown).contains("tittle"), "{}", why(&unknown));
        assert!(why(&unknown).contains("line 3"), "{}", why(&unknown));
        assert!(why(&unknown).ends_with("did you mean title?"), "{}", why(&unknown));
        let other = WHOLE.replace("right = \"b\"", "right = \"c\"");
        assert!(why(&other).contains("\"c\" is no series"), "{}", why(&other));
        let axis = why(&WHOLE.replace("\"rate\"", "\"rat\""));
        assert!(axis.ends_with("did you mean rate?"), "{axis}");
        let relative = why(&WHOLE.replace("relative-to = \"a\"", "relative-to = \"aa\""));
        assert!(relative.ends_with("which is no series; did you mean \"a\"?"), "{relative}");
        let backwards = WHOLE.replace("reproduced = 1.1", "reproduced = 0.9");
        assert!(why(&backwards).ends_with("does not fit the relation"));
        let quick = WHOLE.replace("quick = [1.0, 1.5]", "quick = [2.0]");
        assert!(why(&quick).contains("none of the points"));
        let empty =
            why(&WHOLE.replace("varies = \"rate\"", "")).contains("neither what it `varies`");
        assert!(empty, "nor how many connections");
        let margin = WHOLE.replace("reproduced = 1.1", "margin = 0.1");
        assert!(why(&margin).contains("`reproduced` does not fit"), "{}", why(&margin));
        let margin = WHOLE.replace("reproduced = 1.1", "reproduced = 1.1\nmargin = 0.1");
        assert!(why(&margin).ends_with("a margin is a share, of a claim of equality"));
        let beside = WHOLE.replace("at = \"last\"", "at = \"last\"\nbeside = \"last\"");
        assert!(why(&beside).ends_with("another place than `at`, and of both sides"));
        let alike = why(&WHOLE.replace("name = \"b\"", "name = \"A\""));
        assert!(alike.ends_with("series \"A\": files of \"a\" have the same names"), "{alike}");
        let unseen = why(&WHOLE.replace("goodput_per_s", "signals_percent"));
        assert!(unseen.ends_with("shares of time take `profiled = true` in [machine]"), "{unseen}");
        let unwatched = why(&WHOLE.replace("goodput_per_s", "blocked_percent"));
        assert!(unwatched.ends_with("it takes `watched = true` in [machine]"), "{unwatched}");
        let both = WHOLE.replace("[axis]", "[machine]\nprofiled = true\nwatched = true\n\n[axis]");
        assert!(why(&both).ends_with("take one of them"), "{}", why(&both));
        let slowed = WHOLE.replace("[axis]", "[machine]\nprofiled = true\n\n[axis]");
        assert!(why(&slowed).contains("sampling slows servers down"), "{}", why(&slowed));
        let ends = why(&WHOLE.replace("quick = [1.0, 1.5]", "quick = [1.0]"));
        assert!(ends.contains("the last point of a quick run is 1 and that of a full one 1.5"));
        let at = why(&WHOLE.replace("at = \"last\"", "at = { at = 0.5 }"));
        assert!(at.ends_with("0.5 is no point of every campaign"), "{at}");
        let itself = WHOLE.replace("right = \"b\"", "right = \"a\"");
        assert!(why(&itself).ends_with("compares a point with itself"));
        for wrong in ["-1.0", "0.0", "nan", "inf"] {
            let disk =
                WHOLE.replace("[axis]", &format!("[machine]\ndisk-seek-ms = {wrong}\n[axis]"));
            assert!(why(&disk).contains("`disk-seek-ms` is above 0"), "{wrong}: {}", why(&disk));
        }
        let both = "[machine]\ndisk-seek-ms = 8\ndisk-mib-per-s = 10\n[axis]";
        assert!(why(&WHOLE.replace("[axis]", both)).ends_with("are two disks"));
        let turns = |of: &str| why(&WHOLE.replace("[axis]", &format!("[machine]\n{of}\n[axis]")));
        assert!(turns("cpu-turn-us = 10").ends_with("`cpu-turn-us` is 50 to 10000"));
        let two = turns("cpu-turn-us = 200\ncpus = 2");
        assert!(two.ends_with("takes one CPU, of which a server has 0.1 to 0.9"), "{two}");
        let ours = "contestant = \"flyball\"";
        let in_place = WHOLE.replacen(ours, &format!("{ours}\ncalls-in-place = true"), 1);
        assert!(why(&in_place).ends_with("of flyball, and of specweb99-dynamic or `work`"));
        let relative = WHOLE.replace("varies = \"rate\"", "varies = \"connections\"");
        assert!(why(&relative).contains("`relative-to` is of an axis that varies a rate"));
    }

    #[test]
    fn what_changes_within_a_run_and_what_takes_time_is_told_where_it_is_wrong() {
        let stepped =
            |steps: &str| why(&WHOLE.replace("[axis]", &format!("[axis]\nsteps = {steps}")));
        let step = "{ seconds = 1, times = 2 }";
        assert!(stepped(&format!("[{step}, {step}]")).contains("three at least"));
        let backwards = stepped(&format!("[{step}, {step}, {{ seconds = 0, times = 1 }}]"));
        assert!(backwards.ends_with("and `times` that is no less than 0"), "{backwards}");
        let none = why(&WHOLE.replace("goodput_per_s", "recovery_s"));
        assert!(none.ends_with("there is a recovery where the axis has `steps`"), "{none}");
        let work = why(&WHOLE.replace("[axis]", "work = { burn-us = 5, share = 2 }\n[axis]"));
        assert!(work.ends_with("is above 0 and at most 1"), "{work}");
        let grows = WHOLE.replace("[axis]", "scale = 0.2\n[axis]");
        assert!(why(&grows).ends_with("of specweb99, along an axis of connections"));
        let closed = |scale: &str| {
            let of = WHOLE.replace("varies = \"rate\"", "varies = \"connections\"");
            let of = of.replace("relative-to = \"a\"\n", "");
            let of = of.replace("name = \"one-packet\"", "name = \"specweb99\"");
            of.replace("[axis]", &format!("{scale}\n[axis]"))
        };
        assert!(Experiment::parse("x.toml", &closed("scale = 0.2")).is_ok());
        for wrong in ["scale = 0", "scale = 2", "scale = 0.2\nfiles = { directories = 9 }"] {
            let why = why(&closed(wrong));
            assert!(why.ends_with("and says what files there are"), "{wrong}: {why}");
        }
    }

    #[test]
    fn what_is_not_testable_says_why_and_nothing_else() {
        let text = r#"
name = "s9-fig2"
title = "Scaling"
source = "S9, Figure 2"
rows = ["M0"]
shows = "it scales to eight cores"
not-testable = "it needs eight cores"
"#;
        assert!(Experiment::parse("x.toml", text).is_ok());
        let more = format!("{text}\n[[series]]\nname = \"a\"\ncontestant = \"flyball\"\n");
        assert!(why(&more).contains("no series"));
    }
}
