//! What came of all runs of a campaign, and which of them count.

use std::collections::BTreeMap;

use flyball_stats::median;
use serde::{Deserialize, Serialize};

use super::Options;
use super::hopeless::without_numbers;
use crate::definition::Experiment;
use crate::host::Facts;
use crate::noise::Noise;
use crate::outcome::Stolen;
use crate::plan::{Asked, Cell};
use crate::run::{Record, Site};
use crate::verdict::{self, Measured};

/// What came of all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// The experiment.
    pub experiment: String,
    /// Whether it was a quick one.
    pub quick: bool,
    /// What decided the order.
    pub seed: u64,
    /// Seconds of each run, with its warm-up.
    pub seconds: f64,
    /// Repetitions, where they are not those of the kind.
    #[serde(default)]
    pub blocks: Option<usize>,
    /// Repetitions of what no claim looks at, where they are fewer.
    #[serde(default)]
    pub unjudged: Option<usize>,
    /// The percentage of a run's time that the machine beneath might take, where it is not the
    /// usual one.
    #[serde(default)]
    pub stolen_percent_max: Option<f64>,
    /// What 1 means along an axis that is relative: a rate.
    pub peak: Option<f64>,
    /// Seconds that clients waited at most, where those of the experiment are too many for the
    /// descriptors that a generator may hold.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// Who stayed away, and why.
    pub absent: BTreeMap<String, String>,
    /// What two copies of one server differed by, before everything else.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// Every run that was made, also those that do not count.
    pub records: Vec<Record>,
    /// It ran on loopback, without what root may do.
    pub reduced: bool,
    /// The machine, as the servers had it.
    #[serde(default)]
    pub facts: Option<Facts>,
    /// Nothing is left to run: neither interrupted nor out of time.
    #[serde(default)]
    pub complete: bool,
}

impl Runs {
    /// Before the first.
    pub(super) fn none(experiment: &Experiment, options: &Options, site: &Site) -> Runs {
        Runs {
            experiment: experiment.name.clone(),
            quick: options.quick,
            seed: options.seed,
            seconds: 0.0,
            blocks: options.blocks,
            unjudged: options.unjudged,
            stolen_percent_max: options.stolen_percent_max,
            peak: None,
            timeout_s: None,
            absent: BTreeMap::new(),
            noise: None,
            records: Vec::new(),
            reduced: site.network.is_none(),
            facts: None,
            complete: false,
        }
    }

    /// The runs that count: those that are not void after every attempt, of servers that were fair
    /// there most of the time.
    pub fn counting(&self) -> impl Iterator<Item = &Record> {
        let unfair = self.unfair();
        let valid = self.records.iter().filter(|record| record.void.is_empty());
        valid.filter(move |record| !unfair.iter().any(|one| one.is_of(record)))
    }

    /// Why runs do not count, each cause as it is told the first time and of how many, the most
    /// frequent first. Causes that differ in their numbers alone are one.
    pub fn causes(&self) -> Vec<(&str, usize)> {
        let mut causes: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for why in self.records.iter().flat_map(|record| &record.void) {
            causes.entry(without_numbers(why)).or_insert((why, 0)).1 += 1;
        }
        let mut causes: Vec<_> = causes.into_values().collect();
        causes.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        causes
    }

    /// Where servers broke the rule of quality (M158) in more rounds than they kept it: by those
    /// that are left a server would be the better for what it gave up in the others.
    pub fn unfair(&self) -> Vec<Unfair> {
        let mut cells: Vec<Unfair> = Vec::new();
        for record in self.records.iter().filter(|record| record.void.is_empty() || record.unfair) {
            let at = cells.iter().position(|one| one.is_of(record)).unwrap_or_else(|| {
                let (series, point) = (record.series.clone(), record.point);
                cells.push(Unfair { series, point, broken: 0, kept: 0 });
                cells.len() - 1
            });
            cells[at].broken += usize::from(record.unfair);
            cells[at].kept += usize::from(!record.unfair);
        }
        cells.retain(|one| one.broken > one.kept);
        cells
    }

    /// What was measured in those that count.
    pub fn valid(&self) -> Vec<Measured> {
        let Runs { quick, seed, blocks, unjudged, .. } = *self;
        let rounds = Asked { quick, seed, blocks, unjudged, seconds: None }.rounds();
        self.counting()
            .map(|record| Measured {
                in_round: record.block < rounds,
                cell: verdict::Cell {
                    series: record.series.clone(),
                    point: record.point,
                    block: record.block,
                },
                figures: record.figures.clone(),
            })
            .collect()
    }

    /// What the machine beneath took of those that count; nothing where that is not known.
    pub fn stolen(&self) -> Option<Stolen> {
        let percent = |record: &Record| record.stolen_share.map(|share| share * 100.0);
        let all: Vec<f64> = self.counting().filter_map(percent).collect();
        let most = all.iter().copied().reduce(f64::max)?;
        Some(Stolen { middle: median(&all), most })
    }

    /// Whether a cell was measured in this block, and the last time in vain for what its server
    /// cannot help.
    pub(super) fn is_void(&self, cell: &Cell<'_>, block: usize) -> bool {
        let wanted = (cell.series.name.as_str(), cell.point, block);
        let of_it = |one: &&Record| (one.series.as_str(), one.point, one.block) == wanted;
        let last = self.records.iter().rfind(of_it);
        last.is_some_and(|last| !last.void.is_empty() && !last.unfair)
    }

    /// How many cells have no valid run.
    pub fn noisy(&self) -> usize {
        let key = |record: &Record| (record.series.clone(), record.point.to_bits(), record.block);
        let mut cells: BTreeMap<_, bool> = BTreeMap::new();
        for record in &self.records {
            *cells.entry(key(record)).or_default() |= record.void.is_empty();
        }
        cells.values().filter(|valid| !**valid).count()
    }
}

/// A point at which a series broke the rule of quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfair {
    /// The series.
    pub series: String,
    /// The value along the axis.
    pub point: f64,
    /// How often it broke it.
    pub broken: usize,
    /// How often it kept it.
    pub kept: usize,
}

impl Unfair {
    fn is_of(&self, record: &Record) -> bool {
        (&self.series, self.point) == (&record.series, record.point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Series;

    fn none() -> Runs {
        Runs {
            experiment: "x".into(),
            quick: true,
            seed: 1,
            seconds: 1.0,
            blocks: None,
            unjudged: None,
            stolen_percent_max: None,
            peak: None,
            timeout_s: None,
            absent: BTreeMap::new(),
            noise: None,
            records: Vec::new(),
            reduced: false,
            facts: None,
            complete: true,
        }
    }

    #[test]
    fn a_server_that_gave_up_large_files_most_of_the_time_was_compared_by_the_rest() {
        let of = |point, block, unfair| Record {
            series: "a".into(),
            point,
            block,
            attempt: 1,
            void: Some("quality of service".to_owned()).filter(|_| unfair).into_iter().collect(),
            unfair,
            ..Record::default()
        };
        let mut runs = none();
        for block in 0..4 {
            runs.records.push(of(1.0, block, block > 0));
            runs.records.push(of(2.0, block, block > 1));
        }
        runs.records.push(Record { void: vec!["late by 3 ms".into()], ..Record::default() });
        runs.records.push(Record { void: vec!["late by 12 ms".into()], ..Record::default() });
        assert_eq!(runs.causes(), [("quality of service", 5), ("late by 3 ms", 2)]);
        assert_eq!(runs.unfair(), [Unfair { series: "a".into(), point: 1.0, broken: 3, kept: 1 }]);
        let valid = runs.valid();
        assert!(valid.len() == 2 && valid.iter().all(|run| run.cell.point == 2.0), "{valid:?}");
    }

    #[test]
    fn runs_that_are_void_in_every_attempt_are_noisy() {
        let record = |block, attempt, void: &[&str]| Record {
            series: "a".into(),
            point: 1.0,
            block,
            attempt,
            void: void.iter().map(|text| (*text).to_owned()).collect(),
            ..Record::default()
        };
        let runs = Runs {
            records: vec![
                record(0, 1, &["late"]),
                record(0, 2, &[]),
                record(1, 1, &["late"]),
                record(1, 2, &["late"]),
                record(1, 3, &["late"]),
            ],
            ..none()
        };
        assert_eq!((runs.valid().len(), runs.noisy()), (1, 1));
        let series = Series { name: "a".into(), ..Series::default() };
        let at = |point| Cell { series: &series, point };
        assert_eq!([0, 1, 2].map(|block| runs.is_void(&at(1.0), block)), [false, true, false]);
        let times: usize = runs.causes().iter().map(|(_, times)| times).sum();
        assert_eq!(times, runs.records.iter().map(|record| record.void.len()).sum::<usize>());
        assert!(!runs.is_void(&at(2.0), 1));
    }
}
