//! The noise floor: what two copies of one server differ by when they are measured as everything
//! else is (A/A). A difference that is not larger than theirs is none.

use std::collections::BTreeMap;

use flyball_stats::{Comparison, Finding, deviation, holm, noise_floor};
use serde::{Deserialize, Serialize};

use crate::definition::Measure;
use crate::run::Record;

/// The runs of both copies together, in a quick campaign and in a full one.
pub const RUNS: (usize, usize) = (6, 12);

/// What two copies of one server differed by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The series that both were.
    pub series: String,
    /// The value along the axis.
    pub point: f64,
    /// Their valid runs together.
    pub runs: usize,
    /// The standard deviation of each measure's logarithm from run to run.
    pub spread: BTreeMap<Measure, f64>,
    /// Measures that are claimed and by which the copies differed, as if they were two servers:
    /// with them something is wrong here.
    pub differ: Vec<Measure>,
}

impl Noise {
    /// From the runs of both copies, whose blocks count pairs: the first copy's are even, the
    /// second's odd. `None` with fewer than three that are valid. Of these measures it is told
    /// whether the copies differ, as certainly as claims are judged.
    pub fn of(records: &[Record], claimed: &[Measure], seed: u64) -> Option<Noise> {
        let valid: Vec<&Record> = records.iter().filter(|run| run.void.is_empty()).collect();
        let first = valid.first().filter(|_| valid.len() >= 3)?;
        let mut spread = BTreeMap::new();
        let mut compared: Vec<(Measure, Comparison)> = Vec::new();
        let pairs_max = records.iter().map(|run| run.block / 2 + 1).max().unwrap_or(0);
        for measure in first.figures.keys() {
            let figure = |run: &Record| {
                let figure = run.figures.get(measure)?.max(measure.least());
                (figure > 0.0).then_some(figure)
            };
            let logs: Vec<f64> = valid.iter().filter_map(|run| figure(run).map(f64::ln)).collect();
            if logs.len() < 3 {
                continue;
            }
            spread.extend(deviation(&logs).map(|deviation| (*measure, deviation)));
            let of_block = |block: usize| valid.iter().find(|run| run.block == block);
            let pairs: Vec<(f64, f64)> = (0..pairs_max)
                .filter_map(|pair| Some((of_block(2 * pair)?, of_block(2 * pair + 1)?)))
                .filter_map(|(left, right)| Some((figure(left)?, figure(right)?)))
                .collect();
            let comparison = Comparison::of(&pairs, seed).filter(|_| claimed.contains(measure));
            compared.extend(comparison.map(|one| (*measure, one)));
        }
        let corrected = holm(&compared.iter().map(|(_, one)| one.p).collect::<Vec<_>>());
        let told = compared.into_iter().zip(corrected);
        let differ = told.filter_map(|((measure, one), p)| {
            matches!(one.finding(p), Finding::Greater | Finding::Less).then_some(measure)
        });
        let differ = differ.collect();
        let (series, point) = (first.series.clone(), first.point);
        Some(Noise { series, point, runs: valid.len(), spread, differ })
    }

    /// The ratio, above 1, that chance alone reaches between the means of so many pairs once in
    /// twenty times; `None` for what was not measured.
    pub fn floor(&self, measure: Measure, pairs: usize) -> Option<f64> {
        Some(noise_floor(*self.spread.get(&measure)?, self.runs, pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(figures: &[f64]) -> Vec<Record> {
        let of = |(block, figure): (usize, &f64)| Record {
            series: "a".into(),
            point: 1.0,
            block,
            figures: BTreeMap::from([(Measure::GoodputPerS, *figure)]),
            ..Record::default()
        };
        figures.iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_floor_is_what_chance_reaches_and_falls_with_more_pairs() {
        let measures = [Measure::GoodputPerS];
        let figures = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0];
        let noise = Noise::of(&records(&figures), &measures, 1).unwrap();
        let spread = noise.spread[&Measure::GoodputPerS];
        assert!((0.012..0.017).contains(&spread), "{spread}");
        let floor = |pairs| noise.floor(Measure::GoodputPerS, pairs).unwrap();
        // Student's t of five degrees, twice the variance, eight pairs.
        assert!((floor(8) - (2.571 * spread / 2.0).exp()).abs() < 1e-5);
        assert!(floor(2) > floor(8) && floor(8) > 1.0);
        assert_eq!(noise.floor(Measure::MemoryMib, 8), None);
        assert!(noise.differ.is_empty());
    }

    #[test]
    fn copies_that_differ_are_told_and_two_runs_say_nothing() {
        let figures: Vec<f64> =
            (0..12).map(|nth| if nth % 2 == 0 { 100.0 } else { 110.0 }).collect();
        let measures = [Measure::GoodputPerS];
        let differ = |claimed| Noise::of(&records(&figures), claimed, 1).unwrap().differ;
        assert_eq!(differ(&measures), measures);
        assert_eq!(differ(&[]), [], "nothing is claimed of it");
        assert_eq!(Noise::of(&records(&figures[..2]), &measures, 1), None);
    }
}
