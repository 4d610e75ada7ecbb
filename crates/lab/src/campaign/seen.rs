//! Runs that someone looks at: one of each series, where the first claim looks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Campaign, FirstRuns, Options, Progress, Runs, load_of, make_files, present};
use crate::definition::Experiment;
use crate::generator;
use crate::host::SetupError;
use crate::plan::Cell;
use crate::run::{Record, Site, Watched, watched};
use crate::schedule::Turn;
use crate::verdict::looks_at;

/// What was seen of each series, and the run in which it was.
pub(crate) struct Seen<T> {
    /// In the order of the series.
    pub seen: Vec<(T, Record)>,
    /// Who could not be looked at, and why.
    pub absent: BTreeMap<String, String>,
}

/// Loads each series for so many seconds, while `look` looks. Blocks.
///
/// # Errors
/// When nothing can be set up; a series that fails is named among the absent.
pub(crate) fn see<T>(
    site: &mut Site,
    experiment: &Experiment,
    (options, seconds): (&Options, f64),
    progress: &mut dyn Progress,
    stop: &dyn Fn() -> bool,
    look: &mut dyn FnMut(&Watched<'_>) -> Result<T, SetupError>,
) -> Result<Seen<T>, SetupError> {
    generator::check(&experiment.workload)?;
    let mut runs = Runs::none(experiment, options, site);
    runs.seconds = seconds;
    let cells = looked_into(present(experiment, options.quick, &mut runs, progress), experiment);
    let mut campaign = Campaign {
        site,
        asked: experiment,
        experiment,
        options,
        directory: std::path::Path::new(""),
        begun: Instant::now(),
        stop,
        failures: BTreeMap::new(),
        begun_by: None,
        missed: 0,
        uncertain: 0,
        first: FirstRuns::default(),
        runs,
    };
    campaign.runs.peak = campaign.peak(progress)?;
    let Campaign { site, mut runs, .. } = campaign;
    let mut seen = Vec::new();
    for (nth, cell) in cells.iter().enumerate() {
        if stop() {
            break;
        }
        let left = Duration::from_secs_f64((cells.len() - nth) as f64 * seconds);
        let what = format!("looking into {} at {}", cell.series.name, cell.point);
        progress.begins(nth + 1, cells.len(), &what, left);
        let turn = Turn { block: 0, cell: nth };
        let (load, series) = load_of(experiment, cell, turn, options, &runs);
        make_files(site, experiment, cell.point, stop)?;
        match watched(site, &experiment.at(cell.point), &series, &load, stop, look) {
            Ok((looked, mut record)) => {
                record.point = cell.point;
                seen.push((looked, record));
            }
            Err(_) if stop() => break,
            Err(error) => {
                progress.note(&format!("{}: {error}", series.name));
                runs.absent.insert(series.name, error.to_string());
            }
        }
    }
    Ok(Seen { seen, absent: runs.absent })
}

/// A cell of each series: where the first claim looks, or in the middle of the axis where that is
/// not one point.
fn looked_into<'a>(cells: Vec<Cell<'a>>, experiment: &Experiment) -> Vec<Cell<'a>> {
    let axis: Vec<f64> = cells.iter().map(|cell| cell.point).collect();
    let first = experiment.claims.first().map(|claim| looks_at(claim, &[], &axis)[0].1);
    let point = first.flatten();
    let mut chosen: Vec<Cell<'a>> = Vec::new();
    for cell in &cells {
        if chosen.iter().any(|other| other.series.name == cell.series.name) {
            continue;
        }
        let of: Vec<&Cell<'a>> =
            cells.iter().filter(|other| other.series.name == cell.series.name).collect();
        let there = of.iter().find(|cell| Some(cell.point) == point);
        chosen.push(**there.unwrap_or(&of[of.len() / 2]));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalogue, plan};

    #[test]
    fn a_server_is_looked_into_where_the_first_claim_looks() {
        let points = |name: &str| -> Vec<f64> {
            let experiments = catalogue::all().unwrap();
            let experiment = catalogue::find(&experiments, name).unwrap();
            let cells = looked_into(plan::cells(experiment, true), experiment);
            cells.iter().map(|cell| cell.point).collect()
        };
        // Past saturation; a peak, which is not known before, so that it is the middle.
        assert_eq!(points("s0-fig2"), [2.0; 4]);
        assert_eq!(points("s4-fig4"), [1.0; 4]);
    }
}
