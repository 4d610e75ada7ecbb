//! What of an experiment is measured, how often and for how long.
//!
//! A full campaign measures every cell as often as every other. A quick one has about a minute: it
//! measures every cell twice, for the figure, and those that a claim looks at as often as it takes
//! for a difference to be certain, for the verdict.

use std::ops::Range;

use flyball_stats::pairs_needed;

use crate::definition::{Claim, Experiment, Place, Series};
use crate::noise;
use crate::schedule::{Turn, turns, turns_of};
use crate::verdict::{Measured, looks_at};

/// Seconds that a quick experiment is planned to take: all together little more than an hour.
pub const QUICK_S_AIM: f64 = 66.0;

/// The share of its time after which a quick experiment begins no more runs: the one under
/// way, and the report, have what is left.
pub const BEGUN_SHARE: f64 = 0.92;

/// Repetitions of a full campaign.
const FULL_BLOCKS: usize = 10;

/// Seconds of one full run: half a minute that counts, after a fifth of warm-up.
const FULL_S: f64 = 37.5;

/// Repetitions of every cell in a quick campaign: two are the fewest that have an interval.
const QUICK_BLOCKS: usize = 2;

/// The least and the most seconds of one quick run.
const QUICK_S: (f64, f64) = (0.7, 3.0);

/// Runs of two copies where each is long, in a quick campaign.
const COPIES_OF_LONG: usize = 2;

/// Seconds that a run takes beyond its load: starting, comparing answers, ending.
const OVERHEAD_S: f64 = 0.6;

/// Seconds that a run of an open load at or past saturation goes on beyond it: clients whose
/// connection was dropped try again after a second, and most of them have an answer sooner.
const OVERLOAD_S: f64 = 0.8;

/// Seconds that a quick campaign takes before its first run: files, and the peak.
const BEFORE_S: f64 = 6.0;

/// One cell of the figure.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The series.
    pub series: &'a Series,
    /// The value along the axis.
    pub point: f64,
}

/// All runs of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Those of every cell, in this order.
    pub turns: Vec<Turn>,
    /// The blocks in which those cells follow that a claim looks at.
    pub judged: Range<usize>,
    /// Runs of two copies of one server before all others, both together.
    pub copies: usize,
    /// Seconds of each, with its warm-up.
    pub seconds: f64,
    /// Seconds that they take together, about.
    pub all_s: f64,
    /// How many runs these are, about.
    pub count: usize,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// A quick campaign.
    pub quick: bool,
    /// What decides the order.
    pub seed: u64,
    /// Repetitions of every cell, where they are not those of the kind.
    pub blocks: Option<usize>,
    /// Seconds of a run, likewise.
    pub seconds: Option<f64>,
    /// Repetitions of what no claim looks at, where they are fewer.
    pub unjudged: Option<usize>,
}

impl Asked {
    /// Repetitions of what claims look at, or in a quick campaign the least of them.
    fn wanted(&self) -> usize {
        self.blocks.unwrap_or(if self.quick { QUICK_BLOCKS } else { FULL_BLOCKS })
    }

    /// Rounds in which every cell is run.
    pub fn rounds(&self) -> usize {
        self.unjudged.map_or(self.wanted(), |fewer| fewer.min(self.wanted()))
    }
}

/// The cells of an experiment.
pub fn cells(experiment: &Experiment, quick: bool) -> Vec<Cell<'_>> {
    let points = experiment.points(quick);
    let of_series = |series| points.iter().map(move |point| Cell { series, point: *point });
    experiment.series(quick).flat_map(of_series).collect()
}

/// Which runs are made of these cells, and for how long. `claims` are those that are judged by
/// them, also those of other experiments that share them.
pub fn of(experiment: &Experiment, cells: &[Cell<'_>], claims: &[Claim], asked: Asked) -> Plan {
    let Asked { quick, seed, .. } = asked;
    let (blocks, wanted) = (asked.rounds(), asked.wanted());
    let turns = turns(cells.len(), blocks, seed);
    let needed = match (quick, asked.blocks) {
        (true, None) => pairs_needed(claims.len().max(1)).max(wanted),
        _ => wanted,
    };
    // A round that chooses a peak alone is no pair of it.
    let chooses = claims.iter().any(|claim| claim.looks_at_a_peak());
    let needed = needed + usize::from(chooses && blocks == 1 && needed > 1);
    let more = (needed - blocks) * judged_count(claims, experiment.points(quick).len());
    let beyond: f64 = turns.iter().map(|turn| beyond_s(experiment, cells[turn.cell].point)).sum();
    let count = turns.len() + more;
    let usual = if quick { noise::RUNS.0 } else { noise::RUNS.1 };
    // Runs with a length of their own leave no time for more.
    let usual = if quick && experiment.run_s().is_some() { COPIES_OF_LONG } else { usual };
    let copies = asked.blocks.map_or(usual, |blocks| usual.min(2 * blocks));
    let together = (count + copies).max(1) as f64;
    // What a claim looks at is as long as the others on average.
    let beyond = beyond * together / turns.len().max(1) as f64;
    let fits = (QUICK_S_AIM - BEFORE_S - beyond) / together;
    let fits = if quick { fits.clamp(QUICK_S.0, QUICK_S.1) } else { FULL_S };
    let seconds = asked.seconds.or(experiment.run_s()).unwrap_or(fits);
    let all_s = BEFORE_S + beyond + seconds * together;
    let most = if quick { experiment.quick_s_max() as f64 * BEGUN_SHARE } else { f64::INFINITY };
    Plan { turns, judged: blocks..needed, copies, seconds, all_s: all_s.min(most), count }
}

/// How many cells claims look at, before anything is known of peaks.
fn judged_count(claims: &[Claim], points: usize) -> usize {
    let mut places: Vec<(&str, Place)> = Vec::new();
    for claim in claims {
        for place in claim.places() {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places.iter().map(|(_, at)| if *at == Place::Everywhere { points } else { 1 }).sum()
}

/// The runs that follow those of every cell and these: of what the claims look at, going by what
/// has been measured.
pub fn judged_turns(
    plan: &Plan,
    cells: &[Cell<'_>],
    claims: &[Claim],
    (runs, made): (&[Measured], &[Turn]),
    seed: u64,
) -> Vec<Turn> {
    let axis: Vec<f64> = cells.iter().map(|cell| cell.point).collect();
    let sides: Vec<_> = claims.iter().flat_map(|claim| looks_at(claim, runs, &axis)).collect();
    let is_judged = |cell: &Cell<'_>| {
        sides.iter().any(|(series, point)| {
            *series == cell.series.name && point.is_none_or(|point| point == cell.point)
        })
    };
    let judged: Vec<usize> = (0..cells.len()).filter(|at| is_judged(&cells[*at])).collect();
    let mut more = turns_of(&judged, plan.judged.clone(), seed);
    more.retain(|turn| !made.contains(turn));
    more
}

/// Seconds that a run at this point takes beyond its load.
fn beyond_s(experiment: &Experiment, point: f64) -> f64 {
    OVERHEAD_S + if experiment.axis.varies.is_open() && point >= 1.0 { OVERLOAD_S } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::definition::Measure;

    fn quick() -> Asked {
        Asked { quick: true, seed: 1, ..Asked::default() }
    }

    #[test]
    fn every_quick_experiment_fits_into_its_time_and_all_into_little_more_than_an_hour() {
        let mut all_s = 0.0;
        for experiment in catalogue::all().unwrap() {
            if experiment.not_testable.is_some() || experiment.shares_runs_of.is_some() {
                continue;
            }
            let claims = catalogue::claims_on(&experiment).unwrap();
            let plan = of(&experiment, &cells(&experiment, true), &claims, quick());
            let most_s = experiment.quick_s_max() as f64 * BEGUN_SHARE;
            assert!(plan.all_s <= most_s, "{}", experiment.name);
            // Those whose runs have a length of their own take what they have.
            all_s += if experiment.run_s().is_some() { 0.0 } else { plan.all_s };
        }
        assert!(all_s <= 4_300.0, "{all_s} s");
    }

    #[test]
    fn cells_that_a_claim_looks_at_are_measured_until_a_difference_can_be_certain() {
        let experiments = catalogue::all().unwrap();
        let experiment = catalogue::find(&experiments, "s2-fig11").unwrap();
        let (cells, claims) = (cells(experiment, true), &experiment.claims);
        let plan = of(experiment, &cells, claims, quick());
        let runs: Vec<Measured> = cells.iter().map(measured).collect();
        let more = judged_turns(&plan, &cells, claims, (&runs, &[]), 1);
        let times = |at: usize| plan.turns.iter().chain(&more).filter(|t| t.cell == at).count();
        // Claims about the smallest file, nearly all beside the server with all caches; and about
        // the largest, that and the one without any.
        let often: Vec<usize> = (0..cells.len()).filter(|at| times(*at) == 9).collect();
        let small = often.iter().filter(|at| cells[**at].point == 500.0).count();
        assert_eq!((often.len(), small), (7, 5));
        assert!((0..cells.len()).all(|at| often.contains(&at) || times(at) == 2));
        assert_eq!(plan.count, plan.turns.len() + more.len());
    }

    fn measured(cell: &Cell<'_>) -> Measured {
        let at =
            crate::verdict::Cell { series: cell.series.name.clone(), point: cell.point, block: 0 };
        Measured { cell: at, in_round: true, figures: Default::default() }
    }

    #[test]
    fn a_peak_that_moves_is_measured_as_often_as_that_which_was_chosen_at_first() {
        let experiments = catalogue::all().unwrap();
        let experiment = catalogue::find(&experiments, "s4-fig3").unwrap();
        let (cells, claims) = (cells(experiment, false), &experiment.claims);
        let asked = Asked { seed: 1, unjudged: Some(1), ..Asked::default() };
        let plan = of(experiment, &cells, claims, asked);
        // Each gives the more the more sessions there are, up to saturation.
        let mut runs: Vec<Measured> = cells.iter().map(measured).collect();
        for run in &mut runs {
            let height = run.cell.point.min(1.1 - run.cell.point / 1000.0);
            run.figures.insert(Measure::MbitPerS, height);
        }
        let first = judged_turns(&plan, &cells, claims, (&runs, &[]), 1);
        assert!(!first.is_empty());
        assert_eq!(judged_turns(&plan, &cells, claims, (&runs, &first), 1), []);
        // Nothing of Apache counts where its peak was.
        let of_apache = |run: &Measured| run.cell.series == "apache";
        runs.retain(|run| !of_apache(run) || run.cell.point < 0.5);
        let second = judged_turns(&plan, &cells, claims, (&runs, &first), 1);
        let at = |turn: &Turn| (cells[turn.cell].series.name.as_str(), cells[turn.cell].point);
        assert!(second.iter().all(|turn| at(turn) == ("apache", 0.3)), "{second:?}");
        assert_eq!(second.len(), plan.judged.len());
    }

    #[test]
    fn a_full_campaign_measures_all_alike_and_long() {
        let experiments = catalogue::all().unwrap();
        let experiment = catalogue::find(&experiments, "s2-fig11").unwrap();
        let (cells, claims) = (cells(experiment, false), &experiment.claims);
        let plan = of(experiment, &cells, claims, Asked { seed: 1, ..Asked::default() });
        assert_eq!((plan.turns.len(), plan.seconds), (cells.len() * FULL_BLOCKS, FULL_S));
        assert!(plan.judged.is_empty());
        // What no claim looks at twice, and the rest as often as before.
        let asked = Asked { seed: 1, unjudged: Some(2), ..Asked::default() };
        let plan = of(experiment, &cells, claims, asked);
        assert_eq!((plan.turns.len(), plan.judged), (cells.len() * 2, 2..FULL_BLOCKS));
        assert_eq!(plan.count, cells.len() * 2 + 7 * (FULL_BLOCKS - 2));
        let asked = Asked { blocks: Some(1), seconds: Some(0.3), ..quick() };
        let plan = of(experiment, &cells, claims, asked);
        assert_eq!((plan.turns.len(), plan.seconds), (cells.len(), 0.3));
        assert!(plan.judged.is_empty());
    }
}
