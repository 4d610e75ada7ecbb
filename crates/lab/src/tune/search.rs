//! The search: a noise floor, a screen over the whole space, successive halving of what was best
//! there, small steps from the best two, and a confirmation against the default on runs that the
//! search has not seen. Within a block all who are compared are asked for the same, in an order
//! that chance decides.
//!
//! What looks best after many tries looks better than it is; only the confirmation decides.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_stats::{Comparison, Finding, deviation, holm, mean, noise_floor, pairs_needed};
use serde::Serialize;

use super::found::{End, Finalist, Found, Trial};
use crate::space::{Point, Space};

/// Runs of the default by which the noise is known.
const NOISE_RUNS: usize = 6;

/// The least and the most points of the screen.
const SCREEN: (usize, usize) = (3, 32);

/// Of those that were measured, one in so many stays.
const HALVING: usize = 3;

/// Rounds of the halving; each measures those that stay twice as often as the one before.
const ROUNDS: u32 = 3;

/// Blocks by which a step is judged, and how many of the best begin steps.
const STEP_BLOCKS: usize = 3;
const STEPS_FROM: usize = 2;

/// Steps from each of them at most.
const STEPS_MAX: usize = 4;

/// Who is confirmed at most, beside the default.
const FINALISTS_MAX: usize = 3;

/// Of how many of the best it is asked at most whether they may be finalists.
const ASKED_MAX: usize = 12;

/// The most blocks of the confirmation.
const CONFIRM_BLOCKS_MAX: usize = 20;

/// The share of what arrives from which on a score tells of the load, and not of the server.
const KEPT_UP: f64 = 0.95;

/// Seeds of the confirmation are from here on: none of them was seen before.
const FRESH_SEEDS: u64 = 1 << 32;

/// Searches at most, one after the other, while none has come to a comparison: each has what is
/// left of the budget.
const SEARCHES_MAX: u32 = 16;

/// Shares of the budget at which the stages end. The last has the rest, half of all: what it
/// cannot tell apart was searched for in vain.
const UNTIL: [(Stage, f64); 4] =
    [(Stage::Noise, 0.08), (Stage::Screen, 0.30), (Stage::Halving, 0.42), (Stage::Steps, 0.50)];

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The default against itself.
    Noise,
    /// Points all over the space, once each.
    Screen,
    /// The better third, again and again.
    Halving,
    /// Neighbours of the best.
    Steps,
    /// Whether the best keep the rule of quality.
    Admission,
    /// The best against the default.
    Confirmation,
}

impl Stage {
    /// Whether points are being looked for.
    pub(super) fn searches(self) -> bool {
        !matches!(self, Stage::Admission | Stage::Confirmation)
    }
}

/// At what load a point is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// More than the default can take.
    Overload,
    /// Below that, there, and far above: the area under the curve, at so many times the cost.
    Sweep,
    /// What the default keeps up with: a point has to keep all of S4's rule of quality (M158).
    Below,
}

/// What measures a point. Larger scores are better; all are above 0. Scores at one load can be
/// compared, until it is raised.
pub trait Bench {
    /// One run; the seed says what is asked for. Blocks.
    ///
    /// # Errors
    /// Why the run does not count.
    fn run(&mut self, point: &Point, at: At, seed: u64) -> Result<f64, String>;

    /// What a server that answers everything scores in overload.
    fn most(&self) -> f64;

    /// Raises the overload beyond what a server with this score can take.
    fn raise(&mut self, beyond: f64);

    /// How many runs in overload take as long as one that sweeps.
    fn sweep_cost(&self) -> usize;
}

/// Told as the search goes on.
pub trait Watch {
    /// A run begins: the nth of so many in its stage, and so long is left altogether.
    fn begins(&mut self, stage: Stage, nth: usize, of: usize, label: &str, left: Duration);
    /// It came out so, and this is it by the default's mean so far.
    fn came(&mut self, score: &Result<f64, String>, by_default: Option<f64>);
}

/// How long it may take, and what decides what chance decides.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// The time that has been spent, also before the search.
    pub spent: &'a dyn Fn() -> Duration,
    /// The time that there is.
    pub budget: Duration,
    /// The seed.
    pub seed: u64,
}

/// Searches, and again while that compared nothing and there is time. Blocks for about the budget;
/// `first` are points that are tried in any case, such as
/// those that the papers recommend.
pub fn search(
    space: &Space,
    first: &[Point],
    bench: &mut dyn Bench,
    limits: Limits<'_>,
    watch: &mut dyn Watch,
    stop: &dyn Fn() -> bool,
) -> Found {
    let mut search = Search {
        space,
        bench,
        limits,
        watch,
        stop,
        rng: fastrand::Rng::with_seed(limits.seed),
        trials: Vec::new(),
        load: 0,
        leaders: Vec::new(),
        swept: false,
        busy: Duration::ZERO,
        from: Duration::ZERO,
    };
    let mut finalists = search.once(first);
    for _ in 1..SEARCHES_MAX {
        if !finalists.is_empty() || !search.has_time_again() {
            break;
        }
        search.from = (limits.spent)();
        finalists = search.once(first);
    }
    search.found(finalists)
}

struct Search<'a> {
    space: &'a Space,
    bench: &'a mut dyn Bench,
    limits: Limits<'a>,
    watch: &'a mut dyn Watch,
    stop: &'a dyn Fn() -> bool,
    rng: fastrand::Rng,
    trials: Vec<Trial>,
    /// How often the load was raised.
    load: u32,
    /// Those that are ahead, best first, by runs on the same seeds.
    leaders: Vec<Point>,
    /// Whether the confirmation compares by the whole curve.
    swept: bool,
    /// Time that runs in overload have taken.
    busy: Duration,
    /// What was spent when the stages began.
    from: Duration,
}

impl Search<'_> {
    fn once(&mut self, first: &[Point]) -> Vec<Finalist> {
        self.noise();
        self.screen(first);
        self.halve();
        self.step();
        self.confirm()
    }

    /// Whether another search could compare anything: its first runs, and pairs that may tell.
    fn has_time_again(&self) -> bool {
        let least = NOISE_RUNS + SCREEN.0 + 2 * pairs_needed(1);
        !(self.stop)() && self.runs_left(Stage::Confirmation) >= least
    }

    fn noise(&mut self) {
        let default = self.space.default_point();
        for nth in 0..NOISE_RUNS {
            if !self.has_room(Stage::Noise) && nth > 1 {
                break;
            }
            self.run(&default, Stage::Noise, nth as u64, (nth, NOISE_RUNS));
        }
    }

    fn screen(&mut self, first: &[Point]) {
        let count = self.runs_left(Stage::Screen).clamp(SCREEN.0, SCREEN.1);
        let mut points: Vec<Point> = first.iter().take(count / 2).cloned().collect();
        for point in self.space.latin_hypercube(count, &mut self.rng) {
            if points.len() < count && !points.contains(&point) {
                points.push(point);
            }
        }
        // One seed for all: they are compared with each other.
        let seed = NOISE_RUNS as u64;
        let all = points.len();
        for (nth, point) in points.iter().enumerate() {
            if !self.has_room(Stage::Screen) {
                break;
            }
            self.run(point, Stage::Screen, seed, (nth, all));
        }
    }

    /// Keeps the better third of those that have been screened, and again of those.
    fn halve(&mut self) {
        let mut stay = self.ranked();
        let mut seed = NOISE_RUNS as u64 + 1;
        for round in 0..ROUNDS {
            // Those that keep up with the load are not told apart by it yet.
            let alike = stay.iter().filter(|point| self.keeps_up(point)).count();
            let keep = stay.len().div_ceil(HALVING).max(STEPS_FROM).max(alike);
            stay.truncate(keep);
            if stay.is_empty() {
                return;
            }
            self.overload(&stay[0]);
            let blocks = 1_u64 << round;
            let all = stay.len() * blocks as usize;
            let mut nth = 0;
            let first = self.trials.len();
            'blocks: for _ in 0..blocks {
                let mut order = stay.clone();
                self.rng.shuffle(&mut order);
                for point in order {
                    if !self.has_room(Stage::Halving) {
                        break 'blocks;
                    }
                    self.run(&point, Stage::Halving, seed, (nth, all));
                    nth += 1;
                }
                seed += 1;
            }
            let done = nth == all;
            stay = paired(&self.trials[first..], &stay);
            // Of a round that was not finished, what was known before it stands.
            if done || self.leaders.is_empty() {
                self.leaders.clone_from(&stay);
            }
            if !done {
                return;
            }
        }
    }

    /// All that were measured, best first: those that are ahead by runs on the same seeds before
    /// those that had been left behind, however lucky these were.
    fn best_first(&self) -> Vec<Point> {
        let mut best = self.leaders.clone();
        best.extend(self.ranked().into_iter().filter(|point| !self.leaders.contains(point)));
        best
    }

    /// Raises the load when the best keeps up with it: nothing above it would be told apart.
    fn overload(&mut self, best: &Point) {
        if self.keeps_up(best) {
            self.bench.raise(mean(&self.scores(best)));
            self.load += 1;
        }
    }

    /// Whether a point answers nearly all that arrives now.
    fn keeps_up(&self, point: &Point) -> bool {
        let scores = self.scores(point);
        !scores.is_empty() && mean(&scores) >= KEPT_UP * self.bench.most()
    }

    /// From the best two, changes one knob at a time for as long as that is better.
    fn step(&mut self) {
        let mut seed = 1_000;
        for start in self.best_first().into_iter().take(STEPS_FROM) {
            let mut at = start;
            'steps: for _ in 0..STEPS_MAX {
                let mut near = self.space.neighbours(&at);
                self.rng.shuffle(&mut near);
                let all = near.len();
                for (nth, other) in near.into_iter().enumerate() {
                    if self.tried(&other) {
                        continue;
                    }
                    let mut pairs = Vec::with_capacity(STEP_BLOCKS);
                    for _ in 0..STEP_BLOCKS {
                        if !self.has_room(Stage::Steps) {
                            return;
                        }
                        seed += 1;
                        let mut both = [(&other, None), (&at, None)];
                        let first = usize::from(self.rng.bool());
                        for which in [first, 1 - first] {
                            let (point, score) = &mut both[which];
                            *score = self.run(point, Stage::Steps, seed, (nth, all));
                        }
                        pairs.extend(both[0].1.zip(both[1].1));
                        let worse = pairs.iter().all(|(left, right)| left < right);
                        if worse {
                            break;
                        }
                    }
                    let better = pairs.iter().map(|(left, right)| (left / right).ln());
                    if mean(&better.collect::<Vec<_>>()) > 0.0 {
                        self.takes_the_lead(&other, &at);
                        at = other;
                        continue 'steps;
                    }
                }
                break;
            }
        }
    }

    /// A step led to a better point: it goes before the one that it began from.
    fn takes_the_lead(&mut self, better: &Point, than: &Point) {
        self.leaders.retain(|point| point != better);
        let at = self.leaders.iter().position(|point| point == than);
        self.leaders.insert(at.unwrap_or(self.leaders.len()), better.clone());
    }

    /// The best beside the default, on seeds that nothing has been chosen by.
    fn confirm(&mut self) -> Vec<Finalist> {
        let default = self.space.default_point();
        let mut best = self.best_first();
        best.retain(|point| *point != default);
        let mut best = self.admitted(best);
        if best.is_empty() {
            return Vec::new();
        }
        // The whole curve, if all can be compared by it often enough to be certain; else overload,
        // and fewer finalists rather than too few pairs for any of them.
        let (runs, most) = (self.runs_left(Stage::Confirmation), best.len().min(FINALISTS_MAX));
        let fits = |count: usize, cost: usize| (count + 1) * pairs_needed(count) * cost <= runs;
        let sweep_cost = self.bench.sweep_cost();
        let (at, cost) = match fits(most, sweep_cost) {
            true => (At::Sweep, sweep_cost),
            false => (At::Overload, 1),
        };
        self.swept = at == At::Sweep;
        best.truncate((1..=most).rev().find(|count| fits(*count, cost)).unwrap_or(1));
        let mut all = vec![default];
        all.append(&mut best);
        // Runs may turn out shorter than they were: as long as there is time for one more.
        let expected = (runs / (all.len() * cost)).min(CONFIRM_BLOCKS_MAX);
        let mut scores: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); all.len()];
        for block in 0..CONFIRM_BLOCKS_MAX {
            let block_s = self.each_s() * (all.len() * cost) as f64;
            if block >= expected && self.left_s(Stage::Confirmation) <= block_s {
                break;
            }
            let mut order: Vec<usize> = (0..all.len()).collect();
            self.rng.shuffle(&mut order);
            for (done, nth) in order.into_iter().enumerate() {
                let enough = self.left_s(Stage::Confirmation) > self.each_s() * cost as f64;
                if (self.stop)() || !enough {
                    return self.finalists(&all, &scores);
                }
                let blocks = expected.max(block + 1);
                let count = (block * all.len() + done, blocks * all.len());
                let seed = self.fresh_seed(block);
                let score = self.run_at(at, &all[nth], Stage::Confirmation, seed, count);
                score.map(|score| scores[nth].insert(block, score));
            }
        }
        self.finalists(&all, &scores)
    }

    /// The first of these, as many as there may be finalists, that keep the rule of quality. They
    /// are asked by a seed of its own: nothing is chosen by those of the confirmation.
    fn admitted(&mut self, ranked: Vec<Point>) -> Vec<Point> {
        let mut admitted: Vec<Point> = Vec::new();
        let (seed, most) = (self.fresh_seed(CONFIRM_BLOCKS_MAX), ranked.len().min(ASKED_MAX));
        for (nth, point) in ranked.into_iter().take(most).enumerate() {
            let enough = self.left_s(Stage::Confirmation) > self.each_s();
            if admitted.len() == FINALISTS_MAX || (self.stop)() || !enough {
                break;
            }
            if self.run_at(At::Below, &point, Stage::Admission, seed, (nth, most)).is_some() {
                admitted.push(point);
            }
        }
        admitted
    }

    /// Whether it was found to break the rule of quality.
    fn is_refused(&self, point: &Point) -> bool {
        let refused = |trial: &Trial| trial.stage == Stage::Admission && trial.void.is_some();
        self.trials.iter().any(|trial| refused(trial) && trial.point == *point)
    }

    /// A seed that nothing was chosen by, and another in another search.
    fn fresh_seed(&self, block: usize) -> u64 {
        let searches = self.limits.seed.wrapping_mul(FRESH_SEEDS);
        FRESH_SEEDS.wrapping_add(searches).wrapping_add(block as u64)
    }

    fn finalists(&self, all: &[Point], scores: &[BTreeMap<usize, f64>]) -> Vec<Finalist> {
        let compared = all.iter().zip(scores).skip(1).filter_map(|(point, own)| {
            let pair = |(block, score): (&usize, &f64)| Some((*score, *scores[0].get(block)?));
            let pairs: Vec<(f64, f64)> = own.iter().filter_map(pair).collect();
            Some((point.clone(), Comparison::of(&pairs, self.limits.seed)?))
        });
        let compared: Vec<(Point, Comparison)> = compared.collect();
        let corrected = holm(&compared.iter().map(|(_, one)| one.p).collect::<Vec<_>>());
        let (noise, runs) = (self.noise_spread(), self.noise_logs().len());
        let finalist = |((point, one), p): ((Point, Comparison), f64)| {
            // Of what is not known to be small nothing can be larger.
            let floor = noise.map_or(f64::INFINITY, |spread| noise_floor(spread, runs, one.pairs));
            let better = one.finding(p) == Finding::Greater && one.ratio.middle > floor;
            let label = self.space.label(&point);
            Finalist { label, ratio: one.ratio, p, pairs: one.pairs, better, point }
        };
        let mut all: Vec<Finalist> = compared.into_iter().zip(corrected).map(finalist).collect();
        all.sort_by(|a, b| {
            (b.better, b.ratio.middle)
                .partial_cmp(&(a.better, a.ratio.middle))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        all
    }

    fn found(self, finalists: Vec<Finalist>) -> Found {
        let default = self.space.default_point();
        let winner = finalists.iter().find(|one| one.better).map(|one| one.point.clone());
        let (end, best) = match winner {
            Some(best) => (End::Better, best),
            None if (self.stop)() => {
                // Of those in the confirmation, one that was better in it; else the search's best.
                let so_far = finalists.first().map(|one| (one.ratio.middle, one.point.clone()));
                let best = match so_far {
                    Some((ratio, point)) => Some(point).filter(|_| ratio > 1.0),
                    None => self.best_first().into_iter().find(|point| !self.is_refused(point)),
                };
                (End::Interrupted, best.unwrap_or(default))
            }
            None if finalists.is_empty() => (End::NoResult, default),
            None => (End::NoDifference, default),
        };
        let noise = self.noise_spread();
        let label = self.space.label(&best);
        Found { end, best, label, finalists, noise, swept: self.swept, trials: self.trials }
    }

    /// One run in overload, which is kept.
    fn run(&mut self, point: &Point, stage: Stage, seed: u64, nth: (usize, usize)) -> Option<f64> {
        let before = (self.limits.spent)();
        let score = self.run_at(At::Overload, point, stage, seed, nth);
        self.busy += (self.limits.spent)().saturating_sub(before);
        score
    }

    /// One run, which is kept.
    fn run_at(
        &mut self,
        at: At,
        point: &Point,
        stage: Stage,
        seed: u64,
        (nth, of): (usize, usize),
    ) -> Option<f64> {
        if (self.stop)() {
            return None;
        }
        let label = self.space.label(point);
        let left = self.limits.budget.saturating_sub((self.limits.spent)());
        self.watch.begins(stage, nth + 1, of, &label, left);
        let came = self.bench.run(point, at, seed);
        if came.is_err() && (self.stop)() {
            return None;
        }
        let (score, load) = (came.as_ref().ok().copied(), self.load);
        let (void, point) = (came.as_ref().err().cloned(), point.clone());
        self.trials.push(Trial { stage, label, seed, score, void, load, point });
        let default = self.of_stage(stage, &self.space.default_point());
        let by_default = score.filter(|_| !default.is_empty()).map(|score| score / mean(&default));
        self.watch.came(&came, by_default);
        score
    }

    /// The runs before the confirmation.
    fn searched(&self) -> impl DoubleEndedIterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.stage.searches())
    }

    /// The scores of a point in the search, under the load of now.
    fn scores(&self, point: &Point) -> Vec<f64> {
        self.scores_under(self.load, point)
    }

    fn scores_under(&self, load: u32, point: &Point) -> Vec<f64> {
        let of_point = self.searched().filter(|one| (one.load, &one.point) == (load, point));
        of_point.filter_map(|trial| trial.score).collect()
    }

    /// What the scores of a stage may be told beside: those of a point in the confirmation or the
    /// admission, or in the search under the load of now.
    fn of_stage(&self, stage: Stage, point: &Point) -> Vec<f64> {
        if stage.searches() {
            return self.scores(point);
        }
        let confirmed = self.trials.iter().filter(|trial| trial.stage == stage);
        let of_point = confirmed.filter(|trial| trial.point == *point);
        of_point.filter_map(|trial| trial.score).collect()
    }

    fn tried(&self, point: &Point) -> bool {
        self.trials.iter().any(|one| (one.load, &one.point) == (self.load, point))
    }

    /// Those that were measured, best first: by the highest load that they were measured under, and
    /// there by the mean of their logarithms.
    fn ranked(&self) -> Vec<Point> {
        let mut points: Vec<(u32, f64, Point)> = Vec::new();
        for trial in self.searched().filter(|trial| trial.score.is_some()).rev() {
            if !points.iter().any(|(_, _, point)| *point == trial.point) {
                let scores = self.scores_under(trial.load, &trial.point);
                let logs: Vec<f64> = scores.into_iter().map(f64::ln).collect();
                points.push((trial.load, mean(&logs), trial.point.clone()));
            }
        }
        points.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        points.into_iter().map(|(_, _, point)| point).collect()
    }

    fn noise_logs(&self) -> Vec<f64> {
        let of_noise = self.trials.iter().filter(|trial| trial.stage == Stage::Noise);
        of_noise.filter_map(|trial| trial.score.map(f64::ln)).collect()
    }

    fn noise_spread(&self) -> Option<f64> {
        deviation(&self.noise_logs())
    }

    /// Seconds until a stage has to end.
    fn left_s(&self, stage: Stage) -> f64 {
        let share = UNTIL.iter().find(|(of, _)| *of == stage).map_or(1.0, |(_, share)| *share);
        let (from, all) = (self.from.as_secs_f64(), self.limits.budget.as_secs_f64());
        from + (all - from) * share - (self.limits.spent)().as_secs_f64()
    }

    /// Seconds that a run in overload takes, by those that there were.
    fn each_s(&self) -> f64 {
        self.busy.as_secs_f64() / self.searched().count().max(1) as f64
    }

    fn has_room(&self, stage: Stage) -> bool {
        !(self.stop)() && self.left_s(stage) > self.each_s()
    }

    fn runs_left(&self, stage: Stage) -> usize {
        // A bench without cost has room for all that there may be.
        (self.left_s(stage).max(0.0) / self.each_s().max(1e-6)) as usize
    }
}

/// Points that were measured with the same seeds, best first: by how far each was above the mean of
/// all in the blocks that it has a score of. One without any goes.
fn paired(trials: &[Trial], points: &[Point]) -> Vec<Point> {
    let mut blocks: BTreeMap<u64, Vec<(&Point, f64)>> = BTreeMap::new();
    for trial in trials {
        let block = blocks.entry(trial.seed).or_default();
        block.extend(trial.score.map(|score| (&trial.point, score.ln())));
    }
    let above = |point: &Point| {
        let of_block = |block: &Vec<(&Point, f64)>| {
            let (_, log) = block.iter().find(|(other, _)| *other == point)?;
            Some(log - mean(&block.iter().map(|(_, log)| *log).collect::<Vec<_>>()))
        };
        let all: Vec<f64> = blocks.values().filter_map(of_block).collect();
        (!all.is_empty()).then(|| mean(&all))
    };
    let measured = points.iter().filter_map(|point| Some((above(point)?, point.clone())));
    let mut measured: Vec<(f64, Point)> = measured.collect();
    measured.sort_by(|a, b| b.0.total_cmp(&a.0));
    measured.into_iter().map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::space::tests::space;

    /// A contestant whose best settings are known, and a load that the default cannot take.
    struct Fake<'a> {
        factor: &'a dyn Fn(&Point) -> f64,
        rng: fastrand::Rng,
        takes: Duration,
        spent: &'a Cell<Duration>,
        arrives: f64,
        runs: &'a Cell<u32>,
        sweeps: &'a Cell<u32>,
        /// The architecture that breaks the rule of quality.
        unfair: Option<usize>,
    }

    const SWEEP_COST: u32 = 3;

    impl Bench for Fake<'_> {
        fn run(&mut self, point: &Point, at: At, seed: u64) -> Result<f64, String> {
            self.runs.set(self.runs.get() + 1);
            if at == At::Below && self.unfair == Some(point[0]) {
                return Err("large files are given up".into());
            }
            let sweeps = at == At::Sweep;
            self.sweeps.set(self.sweeps.get() + u32::from(sweeps));
            let takes = self.takes * if sweeps { SWEEP_COST } else { 1 };
            self.spent.set(self.spent.get() + takes);
            // What is under all runs of a block, and what is not.
            let shared = fastrand::Rng::with_seed(seed).f64() * 0.04;
            let own = (self.rng.f64() + self.rng.f64() - 1.0) * 0.03;
            let could = 1_000.0 * (self.factor)(point) * (1.0 + shared + own);
            if could.is_nan() {
                return Err("another program ran".into());
            }
            Ok(if sweeps { could } else { could.min(self.arrives) })
        }

        fn most(&self) -> f64 {
            self.arrives
        }

        fn raise(&mut self, beyond: f64) {
            self.arrives = 1.3 * beyond;
        }

        fn sweep_cost(&self) -> usize {
            SWEEP_COST as usize
        }
    }

    struct Nobody;

    impl Watch for Nobody {
        fn begins(&mut self, _: Stage, _: usize, _: usize, _: &str, _: Duration) {}
        fn came(&mut self, _: &Result<f64, String>, _: Option<f64>) {}
    }

    fn searched(
        factor: &dyn Fn(&Point) -> f64,
        (budget, takes): (Duration, Duration),
        seed: u64,
        stop_after: u32,
    ) -> Found {
        counted(factor, (budget, takes), seed, stop_after, None).0
    }

    /// What was found, and how many runs swept.
    fn counted(
        factor: &dyn Fn(&Point) -> f64,
        (budget, takes): (Duration, Duration),
        seed: u64,
        stop_after: u32,
        unfair: Option<usize>,
    ) -> (Found, u32) {
        let (runs, sweeps, clock) = (Cell::new(0), Cell::new(0), Cell::new(Duration::ZERO));
        let rng = fastrand::Rng::with_seed(seed);
        let (spent, arrives) = (&clock, 1_300.0);
        let (runs_made, sweeps_made) = (&runs, &sweeps);
        let mut bench = Fake {
            factor,
            rng,
            takes,
            spent,
            arrives,
            runs: runs_made,
            sweeps: sweeps_made,
            unfair,
        };
        let limits = Limits { spent: &|| clock.get(), budget, seed };
        let stop = || runs.get() >= stop_after;
        let found = search(&space(), &[], &mut bench, limits, &mut Nobody, &stop);
        (found, sweeps.get())
    }

    /// `uring` is 20 % better than the default, and a limit of 64 is 10 %.
    fn known(point: &Point) -> f64 {
        let architecture = [1.0, 0.8, 0.9, 1.2][point[0]];
        architecture * [0.7, 0.9, 1.0, 1.1][point[1]]
    }

    const FREE: (Duration, Duration) = (Duration::from_secs(600), Duration::ZERO);

    #[test]
    fn a_known_optimum_is_found_and_confirmed() {
        for seed in 0..10 {
            let found = searched(&known, FREE, seed, u32::MAX);
            assert_eq!((found.end, &found.best), (End::Better, &vec![3, 3, 1]), "{found:#?}");
            let ratio = found.finalists[0].ratio;
            assert!((1.28..1.36).contains(&ratio.middle), "{ratio:?}");
        }
    }

    #[test]
    fn settings_that_break_the_rule_of_quality_below_the_peak_are_never_the_best() {
        for seed in 0..10 {
            let (found, _) = counted(&known, FREE, seed, u32::MAX, Some(3));
            let refused = |trial: &Trial| trial.stage == Stage::Admission && trial.void.is_some();
            assert!(found.trials.iter().any(refused), "{found:#?}");
            assert!(!found.finalists.is_empty(), "{found:#?}");
            assert!(found.finalists.iter().all(|one| one.point[0] != 3), "{found:#?}");
            assert_ne!(found.best[0], 3, "{found:#?}");
        }
    }

    #[test]
    fn settings_that_keep_up_with_the_first_load_are_told_apart_by_a_higher_one() {
        // Three that take more than arrives at first, of which one is best.
        let steep = |point: &Point| [1.0, 1.7, 1.9, 2.4][point[0]];
        for seed in 0..10 {
            let found = searched(&steep, FREE, seed, u32::MAX);
            assert_eq!((found.end, found.best[0]), (End::Better, 3), "{found:#?}");
            assert!(found.trials.iter().any(|trial| trial.load > 0));
        }
    }

    #[test]
    fn the_confirmation_sweeps_when_all_can_be_compared_by_it_and_else_compares_what_it_can() {
        // Half of these runs are the confirmation's: 66 sweeps, or 16, and four take 28.
        let takes = Duration::from_millis(5);
        for (room, sweeps) in [(400, true), (100, false)] {
            let (found, swept) = counted(&known, (takes * room, takes), 1, u32::MAX, None);
            assert_eq!(swept > 0, sweeps, "{found:#?}");
            assert!(found.finalists.iter().all(|one| one.pairs >= 6), "{found:#?}");
            assert_eq!(found.end, End::Better);
        }
    }

    #[test]
    fn where_nothing_is_better_the_default_stays() {
        let ends = (0..40).map(|seed| searched(&|_| 1.0, FREE, seed, u32::MAX));
        let better = ends.filter(|found| found.end == End::Better).count();
        assert!(better <= 4, "{better} of 40");
    }

    #[test]
    fn a_tiny_budget_ends_in_time_and_promises_nothing() {
        let (budget, takes) = (Duration::from_millis(400), Duration::from_millis(40));
        let found = searched(&known, (budget, takes), 1, u32::MAX);
        assert_eq!((found.end, found.best), (End::NoResult, vec![0, 2, 1]));
        // Every stage ends before a run that would not fit; two of noise are made in any case.
        assert!((4..=10).contains(&found.trials.len()), "{}", found.trials.len());
    }

    #[test]
    fn a_search_that_compared_nothing_begins_again_and_uses_its_budget() {
        // Nothing of the first third of the runs counts, as beside another program.
        let (takes, made) = (Duration::from_millis(5), Cell::new(0));
        let late = |point: &Point| {
            made.set(made.get() + 1);
            if made.get() <= 100 { f64::NAN } else { known(point) }
        };
        let (found, _) = counted(&late, (takes * 400, takes), 1, u32::MAX, None);
        assert!(!found.finalists.is_empty(), "{found:#?}");
        let void = |_: &Point| f64::NAN;
        let (found, _) = counted(&void, (takes * 400, takes), 1, u32::MAX, None);
        assert_eq!(found.end, End::NoResult);
        let least = NOISE_RUNS + SCREEN.0 + 2 * pairs_needed(1);
        assert!(found.trials.len() > 400 - least - 20, "{} runs", found.trials.len());
    }

    #[test]
    fn an_interruption_keeps_the_best_so_far() {
        let found = searched(&known, FREE, 1, 30);
        assert_eq!(found.end, End::Interrupted);
        assert!(known(&found.best) > 1.0, "{}", found.label);
        assert_eq!(found.trials.len(), 30);
    }
}
