//! From measured points to a verdict, by the predicates of the definition and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::definition::{Claim, Experiment, Measure, Place, Relation};
use crate::noise::Noise;
use crate::statistics::{Comparison, Finding, Interval, holm, median, pairs_needed};

/// What came of a figure, or of one claim about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As the paper has it, and as much.
    Reproduced,
    /// The same way round but less, or not to be told from no difference.
    Weaker,
    /// The other way round.
    Reversed,
    /// Not on such a machine.
    NotTestable,
    /// Too few valid runs.
    NoResult,
}

/// Where one run was made: a series, a point of the axis, a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The series' name.
    pub series: String,
    /// The value along the axis.
    pub point: f64,
    /// Which repetition.
    pub block: usize,
}

/// What a valid run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Where.
    pub cell: Cell,
    /// The figures.
    pub figures: BTreeMap<Measure, f64>,
}

/// A claim and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Judged {
    /// In a sentence.
    pub says: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Left by right, as measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Interval>,
    /// Left by right, in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// The p-value, corrected for all claims of the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// How many pairs of runs it rests on.
    pub pairs: usize,
    /// In words, when the verdict alone may mislead.
    pub note: String,
}

/// Judges every claim of an experiment, and all of them together: reproduced when each is,
/// reversed when one is. A difference that is not larger than that of two copies of one server
/// counts as none.
pub fn judge(
    experiment: &Experiment,
    runs: &[Measured],
    noise: Option<&Noise>,
    seed: u64,
) -> (Verdict, Vec<Judged>) {
    if experiment.not_testable.is_some() {
        return (Verdict::NotTestable, Vec::new());
    }
    let compare = |claim| Comparison::of(&pairs(claim, runs), seed);
    let comparisons: Vec<Option<Comparison>> = experiment.claims.iter().map(compare).collect();
    let corrected = holm(&comparisons.iter().flatten().map(|one| one.p).collect::<Vec<_>>());
    let needed = pairs_needed(corrected.len());
    let mut corrected = corrected.into_iter();
    let judged: Vec<Judged> = experiment
        .claims
        .iter()
        .zip(comparisons)
        .map(|(claim, comparison)| {
            let p = comparison.and_then(|_| corrected.next());
            let pairs = comparison.map_or(0, |comparison| comparison.pairs);
            let floor = noise.and_then(|noise| noise.floor(claim.measure, pairs));
            judge_claim(claim, comparison, p, (floor.unwrap_or(1.0), needed))
        })
        .collect();
    let all = judged.iter().map(|one| one.verdict).max().unwrap_or(Verdict::NoResult);
    (all, judged)
}

fn judge_claim(
    claim: &Claim,
    comparison: Option<Comparison>,
    p: Option<f64>,
    bounds: (f64, usize),
) -> Judged {
    let (verdict, note) = match (comparison, p) {
        (Some(comparison), Some(p)) => weigh(claim, &comparison, p, bounds),
        _ => (Verdict::NoResult, "fewer than two valid pairs of runs"),
    };
    Judged {
        says: claim.says.clone(),
        verdict,
        ratio: comparison.map(|comparison| comparison.ratio),
        paper: claim.paper,
        p,
        pairs: comparison.map_or(0, |comparison| comparison.pairs),
        note: note.to_owned(),
    }
}

/// `floor` is the ratio, above 1, up to which a difference is noise, and `pairs_min` the number
/// of pairs without which no difference can be certain.
fn weigh(
    claim: &Claim,
    comparison: &Comparison,
    p: f64,
    (floor, pairs_min): (f64, usize),
) -> (Verdict, &'static str) {
    let ratio = comparison.ratio.middle;
    let needed = claim.reproduced.unwrap_or(1.0);
    let told = matches!(comparison.finding(p), Finding::Greater | Finding::Less);
    if told && ratio.ln().abs() <= floor.ln() && !comparison.is_equal() {
        return (Verdict::Weaker, "a difference, but no larger than that of two copies of one");
    }
    if comparison.finding(p) == Finding::Unclear
        && comparison.pairs < pairs_min
        && !(claim.is == Relation::Equal && comparison.is_equal())
    {
        return (Verdict::NoResult, "too few valid pairs of runs to tell a difference");
    }
    match (claim.is, comparison.finding(p)) {
        (Relation::Greater, Finding::Greater) if ratio >= needed => (Verdict::Reproduced, ""),
        (Relation::Less, Finding::Less) if ratio <= needed => (Verdict::Reproduced, ""),
        (Relation::Greater, Finding::Greater) | (Relation::Less, Finding::Less) => {
            (Verdict::Weaker, "the same way round, but less")
        }
        (Relation::Greater, Finding::Less) | (Relation::Less, Finding::Greater) => {
            (Verdict::Reversed, "")
        }
        (Relation::Equal, _) if comparison.is_equal() => (Verdict::Reproduced, ""),
        (Relation::Equal, Finding::Greater | Finding::Less) => {
            (Verdict::Reversed, "there is a difference where the paper has none")
        }
        (Relation::Equal, Finding::Unclear | Finding::Equal) => {
            (Verdict::Weaker, "no difference is shown, and equality is not certain either")
        }
        (_, Finding::Equal) => (Verdict::Weaker, "certainly no difference beyond the margin"),
        (_, Finding::Unclear) => (Verdict::Weaker, "no difference is shown"),
    }
}

/// The figures of left and right in each block that has both.
fn pairs(claim: &Claim, runs: &[Measured]) -> Vec<(f64, f64)> {
    let blocks = runs.iter().map(|run| run.cell.block + 1).max().unwrap_or(0);
    let right_at = claim.right_at.unwrap_or(claim.at);
    let left = Side::new(&claim.left, claim.at, claim, runs);
    let right = Side::new(&claim.right, right_at, claim, runs);
    (0..blocks).filter_map(|block| Some((left.in_block(block)?, right.in_block(block)?))).collect()
}

/// The series and points that a claim looks at, left and right, going by these runs; no point
/// stands for all.
pub fn looks_at<'a>(claim: &'a Claim, runs: &[Measured]) -> [(&'a str, Option<f64>); 2] {
    let right_at = claim.right_at.unwrap_or(claim.at);
    [(claim.left.as_str(), claim.at), (claim.right.as_str(), right_at)].map(|(series, place)| {
        let of_series: Vec<&Measured> =
            runs.iter().filter(|run| run.cell.series == series).collect();
        (series, point_at(&of_series, place, claim))
    })
}

/// One side of a claim: the runs at the place that it looks at.
struct Side<'a> {
    runs: Vec<&'a Measured>,
    measure: Measure,
}

impl<'a> Side<'a> {
    fn new(series: &str, place: Place, claim: &Claim, runs: &'a [Measured]) -> Side<'a> {
        let measure = claim.measure;
        let of_series: Vec<&Measured> =
            runs.iter().filter(|run| run.cell.series == series).collect();
        let point = point_at(&of_series, place, claim);
        let here = |run: &&Measured| point.is_none_or(|point| run.cell.point == point);
        Side { runs: of_series.into_iter().filter(here).collect(), measure }
    }

    /// The figure in this block: the mean where several points count.
    fn in_block(&self, block: usize) -> Option<f64> {
        let figures: Vec<f64> = self
            .runs
            .iter()
            .filter(|run| run.cell.block == block)
            .filter_map(|run| run.figures.get(&self.measure).copied())
            .collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    }
}

/// The value of the axis that a place means for a series; `None` for all of them. The peak is the
/// point of the best median, so that one lucky run does not decide where it is; where a quick
/// campaign has measured one point more often, it was the best before.
fn point_at(runs: &[&Measured], place: Place, claim: &Claim) -> Option<f64> {
    let mut points: Vec<f64> = runs.iter().map(|run| run.cell.point).collect();
    points.sort_unstable_by(f64::total_cmp);
    points.dedup();
    match place {
        Place::Everywhere => None,
        Place::First => points.first().copied(),
        Place::Last => points.last().copied(),
        Place::At(value) => {
            points.into_iter().min_by(|a, b| (a - value).abs().total_cmp(&(b - value).abs()))
        }
        Place::Peak => {
            let height = |point: f64| {
                let at_point = runs.iter().filter(|run| run.cell.point == point);
                let figures: Vec<f64> =
                    at_point.filter_map(|run| run.figures.get(&claim.measure).copied()).collect();
                median(&figures)
            };
            let times = |point: f64| runs.iter().filter(|run| run.cell.point == point).count();
            let most = points.iter().map(|point| times(*point)).max().unwrap_or(0);
            points.retain(|point| times(*point) * 2 > most);
            points.into_iter().max_by(|a, b| height(*a).total_cmp(&height(*b)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(is: Relation, reproduced: Option<f64>, at: Place) -> Claim {
        Claim {
            says: "a against b".into(),
            measure: Measure::GoodputPerS,
            left: "a".into(),
            right: "b".into(),
            at,
            right_at: None,
            is,
            paper: None,
            reproduced,
        }
    }

    fn run(series: &str, point: f64, block: usize, goodput: f64) -> Measured {
        let cell = Cell { series: series.into(), point, block };
        Measured { cell, figures: BTreeMap::from([(Measure::GoodputPerS, goodput)]) }
    }

    /// Ten blocks in which `a` has this many times what `b` has, with a little noise.
    fn runs(ratio: f64) -> Vec<Measured> {
        let noise = |block: usize| 1.0 + 0.01 * ((block * 7) % 5) as f64 / 5.0;
        let of_block = |block: usize| {
            [
                run("a", 1.0, block, 500.0 * ratio),
                run("b", 1.0, block, 500.0),
                run("a", 2.0, block, 1_000.0 * ratio * noise(block)),
                run("b", 2.0, block, 1_000.0),
            ]
        };
        (0..10).flat_map(of_block).collect()
    }

    fn verdict(claim: &Claim, runs: &[Measured]) -> Verdict {
        let comparison = Comparison::of(&pairs(claim, runs), 1);
        judge_claim(claim, comparison, comparison.map(|comparison| comparison.p), (1.0, 6)).verdict
    }

    #[test]
    fn a_claim_is_reproduced_weaker_or_reversed_by_its_predicate() {
        let greater = claim(Relation::Greater, Some(1.2), Place::Last);
        assert_eq!(verdict(&greater, &runs(1.5)), Verdict::Reproduced);
        assert_eq!(verdict(&greater, &runs(1.1)), Verdict::Weaker);
        assert_eq!(verdict(&greater, &runs(0.8)), Verdict::Reversed);
        assert_eq!(verdict(&greater, &runs(1.0)), Verdict::Weaker);
        let equal = claim(Relation::Equal, None, Place::Peak);
        assert_eq!(verdict(&equal, &runs(0.99)), Verdict::Reproduced);
        assert_eq!(verdict(&equal, &runs(1.3)), Verdict::Reversed);
    }

    #[test]
    fn a_difference_within_the_noise_is_none() {
        let greater = claim(Relation::Greater, Some(1.05), Place::Last);
        let comparison = Comparison::of(&pairs(&greater, &runs(1.1)), 1).unwrap();
        let verdict = |floor| weigh(&greater, &comparison, comparison.p, (floor, 6)).0;
        assert_eq!((verdict(1.02), verdict(1.2)), (Verdict::Reproduced, Verdict::Weaker));
    }

    #[test]
    fn too_few_valid_pairs_are_no_result() {
        let greater = claim(Relation::Greater, Some(1.2), Place::Last);
        let one = [run("a", 1.0, 0, 2.0), run("b", 1.0, 0, 1.0), run("a", 1.0, 1, 2.0)];
        assert_eq!(verdict(&greater, &one), Verdict::NoResult);
        // Half as much again in each of four blocks: no flip of signs makes four pairs certain.
        let of_block = |run: &Measured| run.cell.block < 4;
        let four: Vec<Measured> = runs(1.5).into_iter().filter(of_block).collect();
        assert_eq!(verdict(&greater, &four), Verdict::NoResult);
    }

    #[test]
    fn each_side_has_its_own_peak_by_the_median() {
        let mut all = Vec::new();
        for block in 0..5 {
            // One lucky run of `b` at 1 does not move its peak away from 2.
            let lucky = if block == 0 { 5_000.0 } else { 10.0 };
            all.push(run("a", 1.0, block, 300.0));
            all.push(run("a", 2.0, block, 200.0));
            all.push(run("b", 1.0, block, lucky));
            all.push(run("b", 2.0, block, 100.0));
        }
        let found = pairs(&claim(Relation::Greater, Some(1.0), Place::Peak), &all);
        assert_eq!(found, vec![(300.0, 100.0); 5]);
    }

    #[test]
    fn a_series_can_be_compared_with_itself_elsewhere() {
        let mut itself = claim(Relation::Less, Some(0.9), Place::First);
        (itself.right, itself.right_at) = ("a".into(), Some(Place::Last));
        assert_eq!(verdict(&itself, &runs(1.0)), Verdict::Reproduced);
    }
}
