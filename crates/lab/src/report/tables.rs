//! Campaigns beside each other, and contestants in order, as text.

use std::fmt::Write as _;

use super::Campaign;
use super::figure::{Figure, label};
use super::svg::number;
use crate::definition::Measure;
use crate::statistics::{Comparison, Finding, holm};

/// Two campaigns of one experiment: every series at every point, the first by the second.
///
/// # Errors
/// When they are not of one experiment, or have no runs.
pub fn compare(left: &Campaign, right: &Campaign) -> Result<String, String> {
    let (a, b) = (&left.experiment.name, &right.experiment.name);
    if a != b {
        return Err(format!("one is of {a} and the other of {b}: there is nothing to compare"));
    }
    let none = |campaign: &Campaign| format!("{} has no runs", campaign.directory.display());
    let left_runs = left.runs.as_ref().ok_or_else(|| none(left))?.valid();
    let right_runs = right.runs.as_ref().ok_or_else(|| none(right))?.valid();
    let mut found: Vec<(Measure, String, f64, Option<Comparison>)> = Vec::new();
    let quick = left.outcome.quick || right.outcome.quick;
    for measure in left.measures() {
        for series in left.experiment.series(quick) {
            for point in left.experiment.points(quick) {
                let of = |runs: &[crate::verdict::Measured]| -> Vec<f64> {
                    let here = runs
                        .iter()
                        .filter(|run| run.cell.series == series.name && run.cell.point == *point);
                    here.filter_map(|run| run.figures.get(&measure).copied()).collect()
                };
                // Runs of two campaigns belong together by nothing but their order.
                let pairs: Vec<(f64, f64)> =
                    of(&left_runs).into_iter().zip(of(&right_runs)).collect();
                let comparison = Comparison::of(&pairs, left.outcome.quick.into());
                found.push((measure, series.name.clone(), *point, comparison));
            }
        }
    }
    let values: Vec<f64> = found.iter().filter_map(|(.., one)| one.map(|one| one.p)).collect();
    let mut corrected = holm(&values).into_iter();
    let mut text = format!("{a}: the first by the second, with 95 % intervals\n");
    let peak = |campaign: &Campaign| campaign.runs.as_ref().and_then(|runs| runs.peak);
    if let (Some(a), Some(b)) = (peak(left), peak(right)) {
        // The same point is another load where the peaks that were found differ.
        let _ = writeln!(text, "1 along the axis: {} and {} a second", number(a), number(b));
    }
    let mut last = None;
    for (measure, series, point, comparison) in found {
        if last != Some(measure) {
            let _ = writeln!(text, "{}", label(measure));
            last = Some(measure);
        }
        let said = match comparison.zip(comparison.and_then(|_| corrected.next())) {
            None => "too few valid runs".to_owned(),
            Some((one, p)) => {
                let finding = match one.finding(p) {
                    Finding::Greater => "more",
                    Finding::Less => "less",
                    Finding::Equal => "the same",
                    Finding::Unclear => "no difference is shown",
                };
                let ratio = one.ratio;
                format!("{:.3} ({:.3} to {:.3}) {finding}", ratio.middle, ratio.low, ratio.high)
            }
        };
        let _ = writeln!(text, "  {series:<24} {point:<10} {said}");
    }
    Ok(text)
}

/// The contestants of each campaign by their best point, best first.
pub fn rank(campaigns: &[Campaign]) -> String {
    let mut text = String::new();
    for campaign in campaigns {
        let (Some(figure), Some(claim)) =
            (campaign.figures().into_iter().next(), campaign.experiment.claims.first())
        else {
            continue;
        };
        let less = better_is_less(claim.measure);
        let _ = writeln!(text, "{}: {}", campaign.experiment.name, figure.measure);
        for (nth, (name, best)) in best(&figure, less).into_iter().enumerate() {
            let _ = writeln!(text, "  {:>2}. {name:<24} {}", nth + 1, number(best));
        }
        let hollow = figure.lines.iter().filter(|line| line.spots.iter().all(|spot| spot.noisy));
        let hollow: Vec<&str> = hollow.map(|line| line.name.as_str()).collect();
        if !hollow.is_empty() {
            let _ = writeln!(text, "  without a valid run: {}", hollow.join(", "));
        }
    }
    text
}

/// Whether a smaller figure is the better one.
fn better_is_less(measure: Measure) -> bool {
    !matches!(measure, Measure::GoodputPerS | Measure::RepliesPerS | Measure::MbitPerS)
}

/// The best figure of each series, best first; points without a valid run do not count.
fn best(figure: &Figure, less: bool) -> Vec<(String, f64)> {
    let sign = if less { -1.0 } else { 1.0 };
    let best_of = |line: &super::Line| {
        let valid = line.spots.iter().filter(|spot| !spot.noisy).map(|spot| spot.value.middle);
        valid.max_by(|a, b| (sign * a).total_cmp(&(sign * b)))
    };
    let mut all: Vec<(String, f64)> =
        figure.lines.iter().filter_map(|line| Some((line.name.clone(), best_of(line)?))).collect();
    all.sort_by(|(_, a), (_, b)| (sign * b).total_cmp(&(sign * a)));
    all
}
