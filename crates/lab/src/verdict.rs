//! From measured points to a verdict, by the predicates of the definition and nothing else.

use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;

use flyball_stats::{Comparison, Finding, Interval, holm, mean, median, pairs_needed};
use serde::{Deserialize, Serialize};

use crate::definition::{Claim, Experiment, Measure, Place, Relation};
use crate::noise::Noise;

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
    /// Whether it is of a round in which every cell was run, and not one that was run again because
    /// a claim looks there.
    pub in_round: bool,
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

/// Judges every claim of an experiment by the runs of a quick or a full campaign, and all of them
/// together: reproduced when each is, reversed when one is. A difference that is not larger than
/// that of two copies of one server counts as none.
pub fn judge(
    experiment: &Experiment,
    quick: bool,
    runs: &[Measured],
    noise: Option<&Noise>,
    seed: u64,
) -> (Verdict, Vec<Judged>) {
    if experiment.not_testable.is_some() {
        return (Verdict::NotTestable, Vec::new());
    }
    let axis = experiment.points(quick);
    let compare = |claim: &Claim| {
        let comparison = Comparison::of(&pairs(claim, runs, axis), seed)?;
        Some(comparison.within(claim.margin()))
    };
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
            let floor = noise.and_then(|noise| noise.floor(claim.measure, pairs)).unwrap_or(1.0);
            // Two ratios that vary apart: the deviations of their logarithms add up as squares.
            let floor = if claim.beside.is_some() { floor.powf(SQRT_2) } else { floor };
            let mut judged = judge_claim(claim, comparison, p, (floor, needed));
            if comparison.is_none() && is_untold(claim, runs) {
                judged.note = "runs of this campaign do not tell what it is about".into();
            }
            judged.doubt(claim, noise);
            if judged.pairs > 0 {
                judged.beware(claim, runs, axis);
            }
            judged
        })
        .collect();
    let verdicts = || judged.iter().map(|one| one.verdict);
    // What is certainly the other way round is not made good by what is not known.
    let all = match verdicts().any(|one| one == Verdict::Reversed) {
        true => Verdict::Reversed,
        false => verdicts().max().unwrap_or(Verdict::NoResult),
    };
    (all, judged)
}

impl Judged {
    /// Takes back what is told of a measure by which two copies of one server differ, or of which
    /// it is not known whether they do.
    fn doubt(&mut self, claim: &Claim, noise: Option<&Noise>) {
        let why = match noise {
            None => "what two copies of one server differ by is not known",
            Some(noise) if noise.differ.contains(&claim.measure) => {
                "two copies of one server differ in this, too"
            }
            Some(_) => return,
        };
        if matches!(self.verdict, Verdict::Reproduced | Verdict::Reversed) {
            self.verdict = Verdict::Weaker;
            self.note = why.into();
        }
    }

    /// What a reader has to know of where the claim looked.
    fn beware(&mut self, claim: &Claim, runs: &[Measured], axis: &[f64]) {
        let is_with_itself = is_with_itself(claim, runs, axis);
        if is_with_itself {
            self.verdict = Verdict::NoResult;
            self.note = "both sides are the same runs".into();
        }
        if let Some((series, point)) = unknown_peak(claim, runs, axis) {
            let to_be_joined = if self.note.is_empty() { "" } else { "; " };
            let why = format!("no run of {series} at {point} counts: its peak may be there");
            self.note = format!("{}{to_be_joined}{why}", self.note);
        }
    }
}

/// Whether there are runs where a claim looks, of which none has its figure: what it is about takes
/// more than this machine lets the lab see.
fn is_untold(claim: &Claim, runs: &[Measured]) -> bool {
    let mut own = runs.iter().filter(|run| run.cell.series == claim.left).peekable();
    own.peek().is_some() && own.all(|run| !run.figures.contains_key(&claim.measure))
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
    // Equality is never certain of few pairs, however narrow their interval.
    let takes_many = matches!(claim.is, Relation::Equal | Relation::AtLeast);
    let is_unclear = takes_many || comparison.finding(p) == Finding::Unclear;
    if is_unclear && comparison.pairs < pairs_min {
        return (Verdict::NoResult, "too few valid pairs of runs to tell a difference");
    }
    if claim.is == Relation::AtLeast && comparison.is_at_least() {
        return (Verdict::Reproduced, "");
    }
    let told = matches!(comparison.finding(p), Finding::Greater | Finding::Less);
    if told && ratio.ln().abs() <= floor.ln() && !comparison.is_equal() {
        return (Verdict::Weaker, "a difference, but no larger than that of two copies of one");
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
        (Relation::Equal, Finding::Greater | Finding::Less) if comparison.is_beyond_margin() => {
            (Verdict::Reversed, "there is a difference where the paper has none")
        }
        (Relation::Equal, Finding::Greater | Finding::Less) => {
            (Verdict::Weaker, "a difference, which may be within the margin")
        }
        (Relation::AtLeast, Finding::Less) if comparison.is_beyond_margin() => {
            (Verdict::Reversed, "")
        }
        (Relation::AtLeast, _) => (Verdict::Weaker, "it may be less than the margin allows"),
        (Relation::Equal, Finding::Unclear | Finding::Equal) => {
            (Verdict::Weaker, "no difference is shown, and equality is not certain either")
        }
        (_, Finding::Equal) => (Verdict::Weaker, "certainly no difference beyond the margin"),
        (_, Finding::Unclear) => (Verdict::Weaker, "no difference is shown"),
    }
}

/// Whether a claim comes to the same runs on both sides.
fn is_with_itself(claim: &Claim, runs: &[Measured], axis: &[f64]) -> bool {
    let looked_at = looks_at(claim, runs, axis);
    let (first, beside) = looked_at.split_at(2);
    first[0] == first[1] || first == beside
}

/// A point without a run that counts beside what the others have for a peak: the peak itself may be
/// there. Points further away are below: throughput that fell does not rise again.
fn unknown_peak<'a>(claim: &'a Claim, runs: &[Measured], axis: &[f64]) -> Option<(&'a str, f64)> {
    let mut sorted = axis.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let places = claim.places().into_iter().zip(looks_at(claim, runs, axis));
    let peaks = places.filter(|((_, place), _)| *place == Place::Peak).map(|(_, side)| side);
    let beside = |(series, peak): (&'a str, Option<f64>)| {
        let at = sorted.iter().position(|point| Some(*point) == peak)?;
        let was_run = |point: f64| {
            runs.iter().any(|run| run.cell.series == series && run.cell.point == point)
        };
        let neighbours = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        let mut points = neighbours.filter_map(|at| sorted.get(at).copied());
        points.find(|point| !was_run(*point)).map(|point| (series, point))
    };
    peaks.filter_map(beside).next()
}

/// The figures of left and right in each block that has both. Where their ratio is claimed to
/// change, left is their ratio at the one place and right that at the other, in each block that has
/// all four. A round has no part in choosing the peak that it is compared at, for what was chosen
/// because it is high would be compared by what made it high.
fn pairs(claim: &Claim, runs: &[Measured], axis: &[f64]) -> Vec<(f64, f64)> {
    let blocks = 0..runs.iter().map(|run| run.cell.block + 1).max().unwrap_or(0);
    let in_block = |block: usize| {
        let of_others = looked_at(claim, runs, axis, block)?;
        let side = |(series, point): (&str, Option<f64>)| Side {
            runs: runs.iter().filter(|run| run.cell.series == series).collect(),
            point,
            measure: claim.measure,
        };
        let sides: Vec<Side<'_>> = of_others.into_iter().map(side).collect();
        let pair = |sides: &[Side<'_>]| both(&sides[0], &sides[1], block, axis);
        let ratio = |sides: &[Side<'_>]| pair(sides).map(|(left, right)| left / right);
        match sides.len() {
            2 => pair(&sides),
            _ => Some((ratio(&sides[..2])?, ratio(&sides[2..])?)),
        }
    };
    blocks.filter_map(in_block).collect()
}

/// Where a claim looks in a block: in a round, by what the others choose. `None` when they cannot:
/// when none of them has a run where all rounds together have the peak, or when they choose what it
/// is compared with.
fn looked_at<'a>(
    claim: &'a Claim,
    runs: &[Measured],
    axis: &[f64],
    block: usize,
) -> Option<Vec<(&'a str, Option<f64>)>> {
    let all = looks_at(claim, runs, axis);
    let is_round = runs.iter().any(|run| run.in_round && run.cell.block == block);
    if !is_round || !claim.looks_at_a_peak() {
        return Some(all);
    }
    let others: Vec<Measured> =
        runs.iter().filter(|run| run.in_round && run.cell.block != block).cloned().collect();
    let has_run = |(series, point): &(&str, Option<f64>)| {
        let there = |run: &Measured| run.cell.series == *series && Some(run.cell.point) == *point;
        others.iter().any(there)
    };
    let places = claim.places().into_iter().zip(&all);
    let mut peaks = places.filter(|((_, place), _)| *place == Place::Peak).map(|(_, side)| side);
    let chosen = peaks.all(has_run).then(|| looks_at(claim, &others, axis))?;
    (chosen[0] != chosen[1] || all[0] == all[1]).then_some(chosen)
}

/// The figures of two sides in a block, if it has both. Where every point counts, each is the
/// geometric mean over the points that both have in the block.
fn both(left: &Side<'_>, right: &Side<'_>, block: usize, axis: &[f64]) -> Option<(f64, f64)> {
    if left.point.is_some() || right.point.is_some() {
        return Some((left.mean_in(block, axis)?, right.mean_in(block, axis)?));
    }
    let in_both = |point: &&f64| [left, right].iter().all(|side| side.at(block, **point).is_some());
    let common: Vec<f64> = axis.iter().filter(in_both).copied().collect();
    Some((left.mean_in(block, &common)?, right.mean_in(block, &common)?))
}

/// The series and points that a claim looks at, as [`Claim::places`] has them, going by these runs
/// and the points of the axis; no point stands for all.
pub fn looks_at<'a>(
    claim: &'a Claim,
    runs: &[Measured],
    axis: &[f64],
) -> Vec<(&'a str, Option<f64>)> {
    let point = |(series, place): (&'a str, Place)| {
        let of_series: Vec<&Measured> =
            runs.iter().filter(|run| run.cell.series == series).collect();
        (series, point_at(&of_series, place, claim, axis))
    };
    claim.places().into_iter().map(point).collect()
}

/// One side of a claim: the runs of a series, and the point that it looks at, if it is one.
struct Side<'a> {
    runs: Vec<&'a Measured>,
    point: Option<f64>,
    measure: Measure,
}

impl Side<'_> {
    /// The figure in this block at this point.
    fn at(&self, block: usize, point: f64) -> Option<f64> {
        let here = |run: &&&Measured| run.cell.block == block && run.cell.point == point;
        let figure = *self.runs.iter().find(here)?.figures.get(&self.measure)?;
        Some(figure.max(self.measure.least()))
    }

    /// The figure in this block at the one point, or the geometric mean over these.
    fn mean_in(&self, block: usize, points: &[f64]) -> Option<f64> {
        if let Some(point) = self.point {
            return self.at(block, point);
        }
        let figures: Option<Vec<f64>> =
            points.iter().map(|point| Some(self.at(block, *point)?.ln())).collect();
        figures.filter(|logs| !logs.is_empty()).map(|logs| mean(&logs).exp())
    }
}

/// The value of the axis that a place means for a series; `None` for all of them. Ends are those of
/// the axis, whether or not a run there was valid: another point would be another claim. The peak
/// is the point of the best median by the rounds in which every cell was run, by which it was also
/// chosen what to run again: what is known better since would move it to where nothing is known.
fn point_at(runs: &[&Measured], place: Place, claim: &Claim, axis: &[f64]) -> Option<f64> {
    let ends = || axis.iter().copied();
    let mut points: Vec<f64> = runs.iter().map(|run| run.cell.point).collect();
    points.sort_unstable_by(f64::total_cmp);
    points.dedup();
    match place {
        Place::Everywhere => None,
        Place::First => ends().min_by(f64::total_cmp),
        Place::Last => ends().max_by(f64::total_cmp),
        Place::At(value) => Some(value),
        Place::Peak => {
            let has_rounds = runs.iter().any(|run| run.in_round);
            let height = |point: f64| {
                let of_rounds = runs.iter().filter(|run| run.in_round || !has_rounds);
                let at_point = of_rounds.filter(|run| run.cell.point == point);
                let figures: Vec<f64> =
                    at_point.filter_map(|run| run.figures.get(&claim.measure).copied()).collect();
                (!figures.is_empty()).then(|| median(&figures))
            };
            let heights = points.into_iter().filter_map(|point| Some((point, height(point)?)));
            heights.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(point, _)| point)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: &[f64] = &[1.0, 2.0];

    fn claim(is: Relation, reproduced: Option<f64>, at: Place) -> Claim {
        Claim {
            says: "a against b".into(),
            measure: Measure::GoodputPerS,
            left: "a".into(),
            right: "b".into(),
            at,
            right_at: None,
            beside: None,
            is,
            paper: None,
            reproduced,
            margin: None,
        }
    }

    fn run(series: &str, point: f64, block: usize, goodput: f64) -> Measured {
        let cell = Cell { series: series.into(), point, block };
        let figures = BTreeMap::from([(Measure::GoodputPerS, goodput)]);
        Measured { cell, in_round: true, figures }
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
        let comparison = Comparison::of(&pairs(claim, runs, AXIS), 1);
        let p = comparison.map(|comparison| comparison.p);
        let mut judged = judge_claim(claim, comparison, p, (1.0, 6));
        if judged.pairs > 0 {
            judged.beware(claim, runs, AXIS);
        }
        judged.verdict
    }

    #[test]
    fn what_no_run_tells_is_not_said_to_lack_runs() {
        let of_rate = claim(Relation::Greater, None, Place::Last);
        let of_drops = Claim { measure: Measure::DropsPerS, ..of_rate.clone() };
        assert!(is_untold(&of_drops, &runs(1.0)));
        assert!(!is_untold(&of_drops, &[]));
        assert!(!is_untold(&of_rate, &runs(1.0)));
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
        let at_least = claim(Relation::AtLeast, None, Place::Peak);
        for (ratio, expected) in [(1.3, Verdict::Reproduced), (0.99, Verdict::Reproduced)] {
            assert_eq!(verdict(&at_least, &runs(ratio)), expected);
        }
        assert_eq!(verdict(&at_least, &runs(0.9)), Verdict::Reversed);
    }

    /// Of one server at ten points the best of noise is some way above what it has at a given one.
    #[test]
    fn a_peak_was_compared_by_the_runs_for_which_it_was_chosen() {
        let axis: Vec<f64> = (1..=10).map(f64::from).collect();
        let peak =
            Claim { right_at: Some(Place::First), ..claim(Relation::Greater, None, Place::Peak) };
        let mut rng = fastrand::Rng::with_seed(7);
        let mut logs = Vec::new();
        for _ in 0..40 {
            let mut all: Vec<Measured> = Vec::new();
            for (block, point) in (0..2).flat_map(|block| axis.iter().map(move |at| (block, *at))) {
                all.push(run("a", point, block, 1_000.0 * (0.9 + 0.2 * rng.f64())));
                all.push(run("b", point, block, 1_000.0));
            }
            logs.extend(pairs(&peak, &all, &axis).iter().map(|(left, right)| (left / right).ln()));
        }
        assert_eq!(logs.len(), 80);
        assert!(mean(&logs).abs() < 0.03, "{} above for nothing", mean(&logs));
    }

    #[test]
    fn a_round_that_chose_a_peak_alone_is_no_pair_of_it() {
        let peak = claim(Relation::Greater, Some(1.2), Place::Peak);
        let mut all = runs(1.5);
        all.iter_mut().for_each(|run| run.in_round = run.cell.block == 0);
        assert_eq!(pairs(&peak, &all, AXIS).len(), 9);
        let last = claim(Relation::Greater, Some(1.2), Place::Last);
        assert_eq!(pairs(&last, &all, AXIS).len(), 10);
        // Of two rounds one has no run that counts where the peak is.
        all.iter_mut().for_each(|run| run.in_round = run.cell.block < 2);
        assert_eq!(pairs(&peak, &all, AXIS).len(), 10);
        all.retain(|run| (run.cell.block, run.cell.point) != (1, 2.0) || run.cell.series != "a");
        assert_eq!(pairs(&peak, &all, AXIS).len(), 8);
    }

    /// The others have the peak at the end of the axis, with which it is compared.
    #[test]
    fn a_run_was_compared_with_itself_in_one_round() {
        let mut past = claim(Relation::Less, Some(0.9), Place::Last);
        (past.right, past.right_at) = ("a".into(), Some(Place::Peak));
        let heights = [[110.0, 100.0], [112.0, 100.0], [90.0, 111.0]];
        let of_block = |(block, [first, last]): (usize, [f64; 2])| {
            [run("a", 1.0, block, first), run("a", 2.0, block, last)]
        };
        let runs: Vec<Measured> = heights.into_iter().enumerate().flat_map(of_block).collect();
        // By all it is at 1; by the last two at 2, by the first and the last likewise.
        assert!(pairs(&past, &runs, AXIS).iter().all(|(left, right)| left != right));
    }

    #[test]
    fn a_difference_within_the_noise_is_none() {
        let greater = claim(Relation::Greater, Some(1.05), Place::Last);
        let comparison = Comparison::of(&pairs(&greater, &runs(1.1), AXIS), 1).unwrap();
        let verdict = |floor| weigh(&greater, &comparison, comparison.p, (floor, 6)).0;
        assert_eq!((verdict(1.02), verdict(1.2)), (Verdict::Reproduced, Verdict::Weaker));
    }

    #[test]
    fn nothing_is_certain_of_what_two_copies_differ_in_or_were_not_compared_by() {
        let greater = claim(Relation::Greater, Some(1.05), Place::Last);
        let comparison = Comparison::of(&pairs(&greater, &runs(1.1), AXIS), 1);
        let verdict = |noise: Option<&Noise>| {
            let p = comparison.map(|comparison| comparison.p);
            let mut judged = judge_claim(&greater, comparison, p, (1.0, 6));
            judged.doubt(&greater, noise);
            judged.verdict
        };
        let mut noise = Noise {
            series: "b".into(),
            point: 2.0,
            runs: 6,
            spread: BTreeMap::new(),
            differ: vec![Measure::DropsPerS],
        };
        assert_eq!(verdict(Some(&noise)), Verdict::Reproduced);
        noise.differ.push(Measure::GoodputPerS);
        assert_eq!((verdict(Some(&noise)), verdict(None)), (Verdict::Weaker, Verdict::Weaker));
    }

    #[test]
    fn a_certain_difference_that_may_be_within_the_margin_reverses_nothing() {
        // 3.3 to 4.7 % less, each time.
        let of_block = |block: usize| {
            let left = 1_000.0 * (0.953 + 0.014 * (block % 3) as f64 / 2.0);
            [run("a", 2.0, block, left), run("b", 2.0, block, 1_000.0)]
        };
        let runs: Vec<Measured> = (0..10).flat_map(of_block).collect();
        for is in [Relation::Equal, Relation::AtLeast] {
            let mut claim = claim(is, None, Place::Last);
            assert_eq!(verdict(&claim, &runs), Verdict::Reversed);
            claim.margin = Some(0.04);
            let comparison = Comparison::of(&pairs(&claim, &runs, AXIS), 1).unwrap();
            let comparison = comparison.within(claim.margin());
            assert_eq!(comparison.finding(comparison.p), Finding::Less);
            assert_eq!(weigh(&claim, &comparison, comparison.p, (1.0, 6)).0, Verdict::Weaker);
        }
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
        // Four that are alike prove nothing either.
        let alike: Vec<Measured> = runs(1.0).into_iter().filter(of_block).collect();
        for is in [Relation::Equal, Relation::AtLeast] {
            assert_eq!(verdict(&claim(is, None, Place::Last), &alike), Verdict::NoResult);
            assert_eq!(verdict(&claim(is, None, Place::Last), &runs(1.0)), Verdict::Reproduced);
        }
    }

    #[test]
    fn a_peak_was_taken_for_known_though_the_point_beside_it_had_no_valid_run() {
        let axis = &[1.0, 2.0, 3.0];
        let mut past = claim(Relation::Less, Some(0.9), Place::Last);
        (past.right, past.right_at) = ("a".into(), Some(Place::Peak));
        let all = |points: &[(f64, f64)]| -> Vec<Measured> {
            let of_block = |block| points.iter().map(move |(at, is)| run("a", *at, block, *is));
            (0..10).flat_map(of_block).collect()
        };
        assert_eq!(unknown_peak(&past, &all(&[(1.0, 10.0), (3.0, 30.0)]), axis), Some(("a", 2.0)));
        let whole = all(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]);
        assert_eq!(unknown_peak(&past, &whole, axis), None);
        // What is missing on the far side of a point that is lower is lower still.
        assert_eq!(unknown_peak(&past, &all(&[(1.0, 30.0), (2.0, 20.0)]), axis), None);
    }

    #[test]
    fn a_peak_moved_to_where_nothing_was_run_when_another_point_was_run_again() {
        // Two rounds of two points: the peak is at 1, which is then run again and gives less.
        let mut all = vec![run("b", 1.0, 0, 90.0), run("b", 1.0, 1, 140.0)];
        all.extend((0..2).map(|block| run("b", 2.0, block, 100.0)));
        let peak = claim(Relation::Greater, Some(1.0), Place::Peak);
        let found = |all: &[Measured]| looks_at(&peak, all, AXIS)[1].1;
        assert_eq!(found(&all), Some(1.0));
        let again = (2..8).map(|block| Measured { in_round: false, ..run("b", 1.0, block, 95.0) });
        all.extend(again);
        assert_eq!(found(&all), Some(1.0));
        // Where no run of a round counts, what was run again is all there is.
        all.retain(|run| !run.in_round);
        assert_eq!(found(&all), Some(1.0));
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
        let found = pairs(&claim(Relation::Greater, Some(1.0), Place::Peak), &all, AXIS);
        assert_eq!(found, vec![(300.0, 100.0); 5]);
    }

    #[test]
    fn a_series_can_be_compared_with_itself_elsewhere() {
        let mut itself = claim(Relation::Less, Some(0.9), Place::First);
        (itself.right, itself.right_at) = ("a".into(), Some(Place::Last));
        assert_eq!(verdict(&itself, &runs(1.0)), Verdict::Reproduced);
    }

    #[test]
    fn what_a_ratio_becomes_along_the_axis_can_be_claimed() {
        // `a` has twice what `b` has at 1, and as much at 2.
        let of_block = |block: usize| {
            let drift = 1.0 + 0.1 * (block % 3) as f64;
            [("a", 1.0, 200.0), ("b", 1.0, 100.0), ("a", 2.0, 300.0), ("b", 2.0, 300.0)]
                .map(|(series, point, figure)| run(series, point, block, figure * drift))
        };
        let runs: Vec<Measured> = (0..10).flat_map(of_block).collect();
        let mut shrinks = claim(Relation::Less, Some(0.8), Place::Last);
        shrinks.beside = Some(Place::First);
        assert_eq!(pairs(&shrinks, &runs, AXIS), vec![(1.0, 2.0); 10]);
        assert_eq!(verdict(&shrinks, &runs), Verdict::Reproduced);
        shrinks.is = Relation::Greater;
        shrinks.reproduced = Some(1.2);
        assert_eq!(verdict(&shrinks, &runs), Verdict::Reversed);
        assert!(!is_with_itself(&shrinks, &runs, AXIS));
        // A block that lacks one of the four tells nothing.
        let one = |run: &Measured| (run.cell.point, run.cell.block) != (2.0, 3);
        let lacking: Vec<Measured> = runs.into_iter().filter(one).collect();
        assert_eq!(pairs(&shrinks, &lacking, AXIS).len(), 9);
    }

    #[test]
    fn a_wider_margin_makes_more_equal() {
        let mut equal = claim(Relation::Equal, None, Place::Peak);
        let judged = |equal: &Claim| {
            let comparison = Comparison::of(&pairs(equal, &runs(1.06), AXIS), 1).unwrap();
            let comparison = comparison.within(equal.margin());
            judge_claim(equal, Some(comparison), Some(comparison.p), (1.0, 6)).verdict
        };
        assert_eq!(judged(&equal), Verdict::Reversed);
        equal.margin = Some(0.1);
        assert_eq!(judged(&equal), Verdict::Reproduced);
    }

    #[test]
    fn an_end_of_the_axis_without_a_valid_run_is_no_other_point() {
        let greater = claim(Relation::Greater, Some(1.2), Place::Last);
        let before: Vec<Measured> =
            runs(1.5).into_iter().filter(|run| run.cell.point < 2.0).collect();
        assert_eq!(pairs(&greater, &before, AXIS), []);
        assert_eq!(verdict(&greater, &before), Verdict::NoResult);
        assert_eq!(verdict(&greater, &runs(1.5)), Verdict::Reproduced);
    }

    #[test]
    fn a_peak_at_the_end_of_the_axis_was_no_less_than_itself_past_it() {
        let mut past = claim(Relation::AtLeast, None, Place::Last);
        (past.right, past.right_at) = ("a".into(), Some(Place::Peak));
        assert!(is_with_itself(&past, &runs(1.0), AXIS));
        assert_eq!(verdict(&past, &runs(1.0)), Verdict::NoResult);
        past.is = Relation::Less;
        assert_eq!(verdict(&past, &runs(1.0)), Verdict::NoResult);
        past.is = Relation::AtLeast;
        // Less at the end than before it: there is something to compare.
        let falls: Vec<Measured> = (0..10)
            .flat_map(|block| [run("a", 1.0, block, 900.0), run("a", 2.0, block, 500.0)])
            .collect();
        assert!(!is_with_itself(&past, &falls, AXIS));
        assert_eq!(verdict(&past, &falls), Verdict::Reversed);
    }

    #[test]
    fn no_drops_are_less_than_many_and_as_many_as_none() {
        let drops = |series: &str, block: usize, per_s: f64| Measured {
            in_round: true,
            figures: BTreeMap::from([(Measure::DropsPerS, per_s)]),
            ..run(series, 2.0, block, 1.0)
        };
        let mut less = claim(Relation::Less, Some(0.95), Place::Last);
        less.measure = Measure::DropsPerS;
        let of = |right: f64| -> Vec<Measured> {
            (0..10).flat_map(|block| [drops("a", block, 0.0), drops("b", block, right)]).collect()
        };
        assert_eq!(verdict(&less, &of(90.0)), Verdict::Reproduced);
        assert_eq!(verdict(&less, &of(0.0)), Verdict::Weaker);
        assert_eq!(pairs(&less, &of(90.0), AXIS)[0], (1.0, 90.0));
    }

    #[test]
    fn everywhere_is_where_both_were_measured() {
        let mut all = Vec::new();
        for block in 0..3 {
            all.push(run("a", 1.0, block, 20.0));
            all.push(run("b", 1.0, block, 10.0));
            // The second point would make `a` look ten times as good.
            all.push(run("a", 2.0, block, 2_000.0));
            if block == 1 {
                all.push(run("b", 2.0, block, 1_000.0));
            }
        }
        let found = pairs(&claim(Relation::Greater, Some(1.0), Place::Everywhere), &all, AXIS);
        let ratios: Vec<f64> = found.iter().map(|(left, right)| left / right).collect();
        assert!(ratios.iter().all(|ratio| (ratio - 2.0).abs() < 1e-9), "{ratios:?}");
        assert_eq!(ratios.len(), 3);
    }
}
