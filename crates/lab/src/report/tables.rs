//! Campaigns beside each other, and contestants in order, as text.

use std::fmt::Write as _;

use flyball_stats::{Comparison, Finding, Interval, holm, pairs_needed};

use super::Campaign;
use super::figure::{Figure, Line, Spot, label};
use super::svg::number;
use crate::definition::{Claim, Measure, Varies};
use crate::verdict::{Measured, looks_at};

/// Two campaigns of one experiment: every series at every point, the first by the second. What
/// claims look at is told as certainly as they are judged; of the rest only the ratio, for among as
/// many comparisons as a figure has points nothing is certain by ten pairs.
///
/// # Errors
/// When they are not of one experiment, or have no runs.
pub fn compare(left: &Campaign, right: &Campaign) -> Result<String, String> {
    let (a, b) = (&left.experiment.name, &right.experiment.name);
    if a != b {
        return Err(format!("one is of {a} and the other of {b}: there is nothing to compare"));
    }
    let none = |campaign: &Campaign| format!("{} has no runs", campaign.directory.display());
    let runs = [
        left.runs.as_ref().ok_or_else(|| none(left))?.valid(),
        right.runs.as_ref().ok_or_else(|| none(right))?.valid(),
    ];
    let quick = left.outcome.quick || right.outcome.quick;
    let cells = compared(left, &runs, quick);
    let judged = || cells.iter().filter(|cell| cell.is_claimed);
    let values: Vec<f64> = judged().filter_map(|cell| Some(cell.comparison?.p)).collect();
    let needed = pairs_needed(values.len());
    let mut corrected = holm(&values).into_iter();
    let [one, other] = [left, right].map(|campaign| campaign.outcome.reservation());
    let mut text = format!("{a}: the first{one} by the second{other}, with 95 % intervals\n");
    let peak = |campaign: &Campaign| campaign.runs.as_ref().and_then(|runs| runs.peak);
    if let (Some(a), Some(b)) = (peak(left), peak(right)) {
        // The same point is another load where the peaks that were found differ.
        let _ = writeln!(text, "1 along the axis: {} and {} a second", number(a), number(b));
    }
    let mut last = None;
    for cell in &cells {
        if last != Some(cell.measure) {
            let _ = writeln!(text, "{}", label(cell.measure));
            last = Some(cell.measure);
        }
        let said = match cell.comparison {
            None => "too few valid runs".to_owned(),
            Some(one) => {
                let Interval { low, middle, high } = one.ratio;
                let p = if cell.is_claimed { corrected.next() } else { None };
                let finding = match p.map(|p| one.finding(p)) {
                    None => "",
                    Some(Finding::Greater) => " more",
                    Some(Finding::Less) => " less",
                    Some(Finding::Equal) => " the same",
                    Some(Finding::Unclear) if one.pairs < needed => " too few pairs to tell",
                    Some(Finding::Unclear) => " no difference is shown",
                };
                format!("{middle:.3} ({low:.3} to {high:.3}){finding}")
            }
        };
        let _ = writeln!(text, "  {:<24} {:<10} {said}", cell.series, cell.point);
    }
    Ok(text)
}

/// A series at a point, in two campaigns.
struct Compared {
    measure: Measure,
    series: String,
    point: f64,
    /// Whether a claim looks there, going by either of them.
    is_claimed: bool,
    comparison: Option<Comparison>,
}

/// All that two campaigns of an experiment can be compared by.
fn compared(campaign: &Campaign, runs: &[Vec<Measured>; 2], quick: bool) -> Vec<Compared> {
    let experiment = &campaign.experiment;
    let axis = experiment.points(quick);
    let mut cells = Vec::new();
    for measure in campaign.measures() {
        for series in experiment.series(quick) {
            for point in axis {
                let of = |runs: &[Measured]| -> Vec<f64> {
                    let here = |run: &&Measured| {
                        run.cell.series == series.name && run.cell.point == *point
                    };
                    let figures = runs.iter().filter(here);
                    let figures = figures.filter_map(|run| run.figures.get(&measure).copied());
                    figures.map(|figure| figure.max(measure.least())).collect()
                };
                // Runs of two campaigns belong together by nothing but their order.
                let pairs: Vec<(f64, f64)> = of(&runs[0]).into_iter().zip(of(&runs[1])).collect();
                let looks = |claim: &Claim| {
                    let places = runs.iter().flat_map(|runs| looks_at(claim, runs, axis));
                    let is_here = |(name, at): (&str, Option<f64>)| {
                        name == series.name && at.is_none_or(|at| at == *point)
                    };
                    claim.measure == measure && places.into_iter().any(is_here)
                };
                cells.push(Compared {
                    measure,
                    series: series.name.clone(),
                    point: *point,
                    is_claimed: experiment.claims.iter().any(looks),
                    comparison: Comparison::of(&pairs, quick.into()),
                });
            }
        }
    }
    cells
}

/// The contestants of each campaign, best first: by their best point, or, where less is better,
/// by what they have under the heaviest load that most of them were measured at. Beside the best
/// point stands the area under the line, as a share of the largest.
pub fn rank(campaigns: &[Campaign]) -> String {
    let mut text = String::new();
    for campaign in campaigns {
        let (Some(figure), Some(claim)) =
            (campaign.figures().into_iter().next(), campaign.experiment.claims.first())
        else {
            continue;
        };
        let at = (!claim.measure.better_is_more()).then(|| heaviest(&figure)).flatten();
        let varies = campaign.experiment.axis.varies != Varies::Nothing;
        let here = at.filter(|_| varies).map(|at| format!(", at {at}")).unwrap_or_default();
        let (name, kind) = (&campaign.experiment.name, campaign.outcome.reservation());
        let _ = writeln!(text, "{name}: {}{here}{kind}", figure.measure);
        for (nth, (name, best)) in ranked(&figure, at).into_iter().enumerate() {
            let share = area_share(&figure, &name).filter(|_| at.is_none());
            let area = share.map(|share| format!("  area {share:.2}")).unwrap_or_default();
            let _ = writeln!(text, "  {:>2}. {name:<24} {}{area}", nth + 1, number(best));
        }
        let is_left = |line: &&Line| value(line, at).is_none();
        let left: Vec<&str> =
            figure.lines.iter().filter(is_left).map(|line| line.name.as_str()).collect();
        if !left.is_empty() {
            let _ = writeln!(text, "  without a valid run: {}", left.join(", "));
        }
    }
    text
}

/// The point at which most series have a valid run; of several the last.
fn heaviest(figure: &Figure) -> Option<f64> {
    let lines = &figure.lines;
    let having = |at: f64| lines.iter().filter(|line| value(line, Some(at)).is_some()).count();
    lines
        .iter()
        .flat_map(|line| line.spots.iter().map(|spot| (having(spot.at), spot.at)))
        .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
        .map(|(_, at)| at)
}

/// The figure of a series at a point, or the highest; nothing without a valid run.
fn value(line: &Line, at: Option<f64>) -> Option<f64> {
    let valid = line.spots.iter().filter(|spot| !spot.noisy);
    let here = valid.filter(|spot| at.is_none_or(|at| at == spot.at));
    here.map(|spot| spot.value.middle).max_by(f64::total_cmp)
}

/// The series in order: the highest first, or the lowest at a point.
fn ranked(figure: &Figure, at: Option<f64>) -> Vec<(String, f64)> {
    let lines = figure.lines.iter();
    let mut all: Vec<(String, f64)> =
        lines.filter_map(|line| Some((line.name.clone(), value(line, at)?))).collect();
    all.sort_by(|(_, a), (_, b)| if at.is_some() { a.total_cmp(b) } else { b.total_cmp(a) });
    all
}

/// The area under the line of a series along the axis, as a share of the largest (S4, section 9):
/// what a server gives over all loads, not only at its best. Of lines that have a valid run at
/// every point.
fn area_share(figure: &Figure, name: &str) -> Option<f64> {
    let points = figure.lines.iter().map(|line| line.spots.len()).max().filter(|n| *n > 1)?;
    let is_whole =
        |line: &&Line| line.spots.len() == points && line.spots.iter().all(|spot| !spot.noisy);
    let area = |line: &Line| -> f64 {
        let pairs = line.spots.windows(2);
        let height = |pair: &[Spot]| (pair[0].value.middle + pair[1].value.middle) / 2.0;
        pairs.map(|pair| (pair[1].at - pair[0].at) * height(pair)).sum()
    };
    let whole = || figure.lines.iter().filter(is_whole);
    let largest = whole().map(area).max_by(f64::total_cmp).filter(|area| *area > 0.0)?;
    Some(area(whole().find(|line| line.name == name)?) / largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, spots: &[(f64, f64, bool)]) -> Line {
        let spot = |&(at, middle, valid): &(f64, f64, bool)| Spot {
            at,
            value: Interval { low: middle, middle, high: middle },
            runs: 1,
            noisy: !valid,
        };
        Line { name: name.into(), spots: spots.iter().map(spot).collect() }
    }

    #[test]
    fn where_less_is_better_contestants_are_compared_under_the_heaviest_load() {
        let figure = Figure {
            name: "latency".into(),
            measure: "latency",
            along: None,
            lines: vec![
                // The best of all where there is nothing to do.
                line("slow", &[(1.0, 1.0, true), (2.0, 9.0, true), (3.0, 7.0, false)]),
                line("quick", &[(1.0, 2.0, true), (2.0, 3.0, true), (3.0, 8.0, true)]),
                line("void", &[(1.0, 0.5, false)]),
            ],
        };
        let names = |at| ranked(&figure, at).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(heaviest(&figure), Some(2.0));
        assert_eq!(names(Some(2.0)), ["quick", "slow"]);
        assert_eq!(names(None), ["slow", "quick"], "by the highest");
    }

    #[test]
    fn the_area_under_a_line_is_a_share_of_the_largest_and_takes_every_point() {
        let figure = Figure {
            name: "goodput".into(),
            measure: "goodput",
            along: None,
            lines: vec![
                line("stays", &[(1.0, 8.0, true), (2.0, 8.0, true), (4.0, 8.0, true)]),
                // The higher peak, and the smaller area.
                line("falls", &[(1.0, 8.0, true), (2.0, 10.0, true), (4.0, 2.0, true)]),
                line("void", &[(1.0, 8.0, true), (2.0, 90.0, false), (4.0, 8.0, true)]),
            ],
        };
        assert_eq!(area_share(&figure, "stays"), Some(1.0));
        assert_eq!(area_share(&figure, "falls"), Some((9.0 + 12.0) / 24.0));
        assert_eq!(area_share(&figure, "void"), None);
        let single = Figure { lines: vec![line("one", &[(1.0, 8.0, true)])], ..figure };
        assert_eq!(area_share(&single, "one"), None);
    }
}
