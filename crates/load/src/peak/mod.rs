//! Finding the knee: at which rate a server is saturated, and what it does beyond.
//!
//! The rate is doubled while the server keeps up, the interval in which it ceases to is halved some
//! times, and then it is offered up to three times its peak. A server that sheds load well has a
//! flat curve there; one that works on requests whose clients have gone has a falling one
//! (S4, section 9: area under the curve).

mod plot;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::observe::Report;

pub use plot::{svg, terminal};

/// Share of the offered requests that must be answered well for a rate to be sustained.
pub const SUSTAINED_SHARE: f64 = 0.95;

/// Most doublings of the first rate, and most halvings of it.
const DOUBLINGS_MAX: u32 = 16;

/// Halvings of the interval that holds the knee: to within 5 % of it.
const HALVINGS: u32 = 4;

/// What is offered beyond the peak, as multiples of it.
const BEYOND: [f64; 5] = [1.25, 1.5, 2.0, 2.5, 3.0];

/// One rate, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Requests offered per second.
    pub offered: f64,
    /// Replies per second.
    pub replies: f64,
    /// Good replies per second.
    pub goodput: f64,
    /// The latency that 99 % of the requests did not exceed, in microseconds, time-outs included.
    pub p99_us: f64,
    /// Share of the requests that got no reply.
    pub error_share: f64,
    /// Why the client was the limit; empty when it was not.
    pub client_limits: Vec<String>,
}

impl Point {
    /// What a run at one rate came to.
    pub fn of(report: &Report) -> Point {
        let tally = &report.tally;
        Point {
            offered: report.intended_per_s(),
            replies: report.replies_per_s(),
            goodput: report.goodput_per_s(),
            p99_us: tally.latency.percentile_us(99.0),
            error_share: tally.unanswered as f64 / tally.intended.max(1) as f64,
            client_limits: report.client_limits(),
        }
    }

    fn is_sustained(&self) -> bool {
        self.goodput >= self.offered * SUSTAINED_SHARE
    }

    fn is_valid(&self) -> bool {
        self.client_limits.is_empty()
    }

    /// Whether its goodput is the server's: a client that comes late does not make it higher.
    fn tells_goodput(&self) -> bool {
        self.is_sustained() || self.is_valid()
    }
}

/// Goodput against offered load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// By offered load, ascending.
    pub points: Vec<Point>,
    /// Why a further rate could not be offered, which ended the search.
    pub stopped: Option<String>,
}

impl Curve {
    /// The highest goodput of a point that counts.
    pub fn peak(&self) -> f64 {
        let telling = self.points.iter().filter(|point| point.tells_goodput());
        telling.map(|point| point.goodput).fold(0.0, f64::max)
    }

    /// The highest rate that was offered and sustained.
    fn saturation(&self) -> Option<f64> {
        let sustained = self.points.iter().filter(|point| point.is_sustained());
        sustained.map(|point| point.offered).reduce(f64::max)
    }

    /// Whether no request was answered at any rate.
    pub fn is_silent(&self) -> bool {
        self.points.iter().all(|point| point.replies <= 0.0)
    }

    /// The lowest rate that was not sustained: the limit of the client or that of the server.
    fn first_beyond(&self) -> Option<&Point> {
        self.points.iter().find(|point| !point.is_sustained())
    }

    /// Whether the client came to its limit before the server did.
    fn is_client_limited(&self) -> bool {
        self.first_beyond().is_none_or(|point| !point.is_valid())
    }

    /// Why the limit that was found is the client's, a line each; empty if it is the server's.
    fn client_limits(&self) -> Vec<String> {
        match self.first_beyond() {
            Some(point) => {
                let at = |why: &String| format!("at {:.1}/s: {why}", point.offered);
                point.client_limits.iter().map(at).collect()
            }
            None => vec!["every rate that was offered was sustained".to_owned()],
        }
    }

    /// The area under the curve as a share of that of a server which stays at this one's peak.
    pub fn area(&self) -> f64 {
        let peak = self.peak();
        let (mut area, mut ideal) = (0.0, 0.0);
        let mut last = (0.0, 0.0, 0.0);
        for point in &self.points {
            let best = point.offered.min(peak);
            let width = point.offered - last.0;
            area += width * (point.goodput + last.1) / 2.0;
            ideal += width * (best + last.2) / 2.0;
            last = (point.offered, point.goodput, best);
        }
        if ideal > 0.0 { area / ideal } else { 0.0 }
    }
}

/// Finds the curve, beginning at `first` requests per second; `measure` offers a rate, as nearly as
/// it can: what was offered is what its point says.
///
/// # Errors
/// That of the first `measure`. A later one ends the search: the curve goes as far as it came.
pub fn find(
    first: f64,
    mut measure: impl FnMut(f64) -> Result<Point, String>,
) -> Result<Curve, String> {
    let mut points: Vec<Point> = Vec::new();
    let stopped = search(first, &mut measure, &mut points).err();
    if points.is_empty() {
        return Err(stopped.unwrap_or_default());
    }
    points.sort_by(|one, other| one.offered.total_cmp(&other.offered));
    Ok(Curve { points, stopped })
}

fn search(
    first: f64,
    measure: &mut dyn FnMut(f64) -> Result<Point, String>,
    points: &mut Vec<Point>,
) -> Result<(), String> {
    let mut rate = first;
    let (mut low, mut high) = (None, None);
    for _ in 0..DOUBLINGS_MAX {
        let point = measure(rate)?;
        // Of a first rate of sessions it is not known yet how many requests they have.
        if point.offered > 0.0 {
            rate = point.offered;
        }
        if point.is_sustained() {
            low = Some(rate);
        } else {
            high = Some(rate);
        }
        points.push(point);
        match (low, high) {
            (Some(_), Some(_)) => break,
            (None, Some(_)) => rate /= 2.0,
            _ => rate *= 2.0,
        }
    }
    if let (Some(mut low), Some(mut high)) = (low, high) {
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            let point = measure(middle)?;
            let is_sustained = point.is_sustained();
            points.push(point);
            if is_sustained { low = middle } else { high = middle }
        }
    }
    let peak = Curve { points: points.clone(), stopped: None }.peak();
    for multiple in BEYOND {
        let rate = peak * multiple;
        let is_known = points.iter().any(|point| (point.offered / rate - 1.0).abs() < 0.05);
        if peak > 0.0 && !is_known {
            points.push(measure(rate)?);
        }
    }
    Ok(())
}

/// The curve as a table and a plot of characters.
pub fn text(curve: &Curve) -> String {
    let mut out = String::from("    offered/s     replies/s     goodput/s       p99  no reply\n");
    for point in &curve.points {
        let _ = writeln!(
            out,
            "{:>13.1}{:>14.1}{:>14.1}{:>10}{:>9.1}%{}",
            point.offered,
            point.replies,
            point.goodput,
            crate::observe::short(point.p99_us),
            point.error_share * 100.0,
            if point.is_valid() { "" } else { "  client-limited" }
        );
    }
    let _ = writeln!(out, "\n{}", terminal(curve));
    match curve.saturation() {
        Some(rate) => {
            let _ = writeln!(out, "saturated above {rate:.1}/s, peak {:.1}/s", curve.peak());
        }
        None => out.push_str("no rate was sustained\n"),
    }
    let _ = writeln!(
        out,
        "area under the curve: {:.3} of a server that stays at its peak",
        curve.area()
    );
    if let Some(why) = &curve.stopped {
        let _ = writeln!(out, "STOPPED: {why}");
    }
    if curve.is_client_limited() {
        out.push_str("CLIENT-LIMITED: the generator came to its limit before the server did\n");
        curve.client_limits().iter().for_each(|why| {
            let _ = writeln!(out, "  {why}");
        });
    }
    out
}

/// The curve as JSON.
pub fn to_json(curve: &Curve) -> Value {
    let points: Vec<Value> = curve
        .points
        .iter()
        .map(|point| {
            json!({
                "offered_per_s": point.offered,
                "replies_per_s": point.replies,
                "goodput_per_s": point.goodput,
                "p99_us": point.p99_us,
                "error_share": point.error_share,
                "client_limited": !point.is_valid(),
                "client_limited_because": point.client_limits,
            })
        })
        .collect();
    json!({
        "peak_per_s": curve.peak(),
        "saturation_per_s": curve.saturation(),
        "area": curve.area(),
        "client_limited": curve.is_client_limited(),
        "client_limited_because": curve.client_limits(),
        "stopped_because": curve.stopped,
        "points": points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers up to `capacity`, and beyond it loses `loss` for each request more.
    fn server(capacity: f64, loss: f64) -> impl FnMut(f64) -> Result<Point, String> {
        move |offered| {
            let goodput = offered.min(capacity - (offered - capacity).max(0.0) * loss).max(0.0);
            Ok(Point { offered, replies: goodput, goodput, ..Point::default() })
        }
    }

    #[test]
    fn the_knee_is_found_from_below_and_from_above() {
        for first in [10.0, 1000.0, 60_000.0] {
            let curve = find(first, server(12_345.0, 0.0)).unwrap();
            let saturation = curve.saturation().unwrap();
            assert!((0.93..=1.06).contains(&(saturation / 12_345.0)), "{first}: {saturation}");
            assert!((curve.peak() / 12_345.0 - 1.0).abs() < 0.02, "{first}: {}", curve.peak());
            let last = curve.points.last().unwrap().offered;
            assert!(last >= 2.9 * 12_345.0, "{first}: offered up to {last}");
            assert!(!curve.is_client_limited());
        }
    }

    #[test]
    fn the_knee_of_sessions_is_found_whatever_was_thought_of_their_length() {
        for (first, thought) in [(1000.0, 1.0), (50_000.0, 1.0), (1000.0, 40.0)] {
            let (mut inner, mut per_session) = (server(12_345.0, 0.0), thought);
            let curve = find(first * per_session, |rate| {
                // Sessions turn out to have 7.3 requests, which is known from then on.
                let offered = rate / per_session * 7.3;
                per_session = 7.3;
                inner(offered)
            });
            let saturation = curve.unwrap().saturation().unwrap();
            assert!((0.93..=1.06).contains(&(saturation / 12_345.0)), "{first}: {saturation}");
        }
    }

    #[test]
    fn the_area_tells_a_flat_curve_from_a_falling_one() {
        let flat = find(100.0, server(1000.0, 0.0)).unwrap().area();
        let falling = find(100.0, server(1000.0, 0.5)).unwrap().area();
        assert!((flat - 1.0).abs() < 0.02, "{flat}");
        assert!(falling < 0.8, "{falling}");
    }

    #[test]
    fn a_client_that_cannot_is_not_taken_for_the_server() {
        let mut inner = server(50_000.0, 0.0);
        let measure = |rate| {
            // It sends no more than 5000 in a second, and knows.
            let client_limits = if rate > 5000.0 { vec!["late".to_string()] } else { Vec::new() };
            Ok(Point { offered: rate, client_limits, ..inner(rate.min(5000.0))? })
        };
        let curve = find(1000.0, measure).unwrap();
        assert!(curve.is_client_limited());
        assert!(curve.peak() <= 5001.0, "{}", curve.peak());
        assert!(text(&curve).contains("CLIENT-LIMITED"));
        assert_eq!(to_json(&curve)["client_limited"], true);
    }

    #[test]
    fn the_reason_for_a_client_s_limit_is_that_of_the_rate_which_decided() {
        let point = |offered: f64, goodput: f64, why: &[&str]| Point {
            offered,
            goodput,
            client_limits: why.iter().map(|&why| why.to_owned()).collect(),
            ..Point::default()
        };
        // Late at first, and sustained all the same; beyond it something else is the limit.
        let points = vec![point(10.0, 10.0, &["late"]), point(20.0, 12.0, &["no ports"])];
        let of = |points| Curve { points, stopped: None }.client_limits();
        assert_eq!(of(points), ["at 20.0/s: no ports"]);
        let all = of(vec![point(10.0, 10.0, &["late"])]);
        assert_eq!(all, ["every rate that was offered was sustained"]);
        assert!(of(vec![point(10.0, 5.0, &[]), point(20.0, 5.0, &["late"])]).is_empty());
    }

    #[test]
    fn a_curve_goes_as_far_as_rates_can_be_offered() {
        let mut inner = server(50_000.0, 0.0);
        let out = || Err("no ports".to_string());
        let curve = find(1000.0, |rate| if rate > 5000.0 { out() } else { inner(rate) }).unwrap();
        assert_eq!((curve.points.len(), curve.stopped.as_deref()), (3, Some("no ports")));
        assert!(curve.is_client_limited() && text(&curve).contains("STOPPED: no ports"));
        assert_eq!(find(1000.0, |_| out()), Err("no ports".into()));
    }

    #[test]
    fn a_server_that_answers_nothing_is_given_up() {
        let curve = find(64.0, |offered| Ok(Point { offered, ..Point::default() })).unwrap();
        assert_eq!(curve.saturation(), None);
        assert!(curve.peak() < 1e-9);
        assert!(text(&curve).contains("no rate was sustained") && curve.is_silent());
    }
}
