//! The reports of one file.

use flyball_stats::Interval;
use serde_json::{Deserializer, Value};

use super::{Figure, Found};

/// Most reports of a file.
const RUNS_MAX: usize = 1_000;

/// Requests beyond a percentile from which on the ranks around it tell where it is.
const BEYOND_MIN: f64 = 5.0;

/// How many standard deviations of a rank an interval of 95 % has on each side.
const DEVIATIONS: f64 = 1.96;

/// What the bootstrap draws by: the same reports give the same intervals.
const SEED: u64 = 1;

/// The reports of one file.
#[derive(Clone, Debug)]
pub struct Side {
    /// What the file is called.
    pub name: String,
    runs: Vec<Value>,
}

impl Side {
    /// Those in `text`: one JSON object after the other.
    ///
    /// # Errors
    /// What is no report of `flyball load --json`, and that there is none or there are too many.
    pub fn read(name: &str, text: &str) -> Result<Side, String> {
        let mut runs = Vec::new();
        for value in Deserializer::from_str(text).into_iter::<Value>() {
            let run = value.map_err(|error| format!("{name}: {error}"))?;
            if run["latency_us"]["count"].as_u64().is_none() {
                return Err(format!("{name}: no report of `flyball load --json`"));
            }
            runs.push(run);
            if runs.len() > RUNS_MAX {
                return Err(format!("{name}: more than {RUNS_MAX} reports"));
            }
        }
        let name = name.to_owned();
        if runs.is_empty() { Err(format!("{name}: no report")) } else { Ok(Side { name, runs }) }
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// What the first run has at this key.
    pub(super) fn first(&self, key: &str) -> &Value {
        self.runs.first().map_or(&Value::Null, |run| &run[key])
    }

    /// Why runs do not count.
    pub(super) fn void(&self) -> Vec<String> {
        let mut void = Vec::new();
        for (nth, run) in self.runs.iter().enumerate() {
            let lists = ["void_because", "client_limited_because"].into_iter();
            let why = lists.flat_map(|key| run[key].as_array().into_iter().flatten());
            for why in why.filter_map(Value::as_str) {
                let told = format!("{}, run {}: {why}", self.name, nth + 1);
                // Newer reports have the client's limits in both lists.
                if !void.contains(&told) {
                    void.push(told);
                }
            }
        }
        void
    }

    /// A figure and its interval; `None` where a report has it not.
    pub(super) fn find(&self, figure: Figure) -> Option<Found> {
        let of_each: Option<Vec<f64>> =
            self.runs.iter().map(|run| figure_of(run, figure)).collect();
        let of_each = of_each?;
        match (&of_each[..], &self.runs[..]) {
            ([one], [run]) => Some(Found { figure: *one, interval: within(run, figure, *one) }),
            (many, _) => {
                let interval = Interval::of(many, SEED);
                Some(Found { figure: interval?.middle, interval })
            }
        }
    }
}

fn figure_of(run: &Value, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Rate(key, _) => run[key].as_f64(),
        Figure::Mean => run["latency_us"]["mean"].as_f64(),
        Figure::Percentile(key, _) => run["latency_us"][key].as_f64(),
    }
}

/// The interval that one run tells of a figure of its own.
fn within(run: &Value, figure: Figure, middle: f64) -> Option<Interval> {
    match figure {
        Figure::Rate(_, by_second) => {
            let seconds = whole_seconds(run, by_second);
            let found = (seconds.len() >= 3).then(|| Interval::of(&seconds, SEED))??;
            // The seconds are whole, and the figure is of all the time.
            Some(Interval { low: found.low.min(middle), middle, high: found.high.max(middle) })
        }
        Figure::Mean => None,
        Figure::Percentile(_, share) => {
            let (low, high) = ranks(run["latency_us"]["count"].as_f64()?, share)?;
            let interval = Interval { low: at_rank(run, low)?, middle, high: at_rank(run, high)? };
            Some(interval)
        }
    }
}

/// Replies of the seconds that are wholly within what counts of the run.
fn whole_seconds(run: &Value, by_second: &str) -> Vec<f64> {
    let seconds = |key: &str| run[key].as_f64().unwrap_or(0.0).max(0.0);
    let (from_s, window_s) = (seconds("warmup_s"), seconds("window_s"));
    let (from, to) = (from_s.ceil() as usize, (from_s + window_s).floor() as usize);
    let counts: Vec<f64> =
        run[by_second].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    counts.get(from..to.min(counts.len())).unwrap_or_default().to_vec()
}

/// Between which ranks of so many requests a quantile is with 95 %: how many are below it is
/// binomial. `None` where too few are beyond it.
pub(super) fn ranks(count: f64, share: f64) -> Option<(u64, u64)> {
    if count * share.min(1.0 - share) < BEYOND_MIN {
        return None;
    }
    let (middle, deviation) = (count * share, (count * share * (1.0 - share)).sqrt());
    let low = (middle - DEVIATIONS * deviation).floor().max(1.0);
    let high = (middle + DEVIATIONS * deviation).ceil().min(count);
    Some((low as u64, high as u64))
}

/// The latency of the request of this rank, in microseconds.
fn at_rank(run: &Value, rank: u64) -> Option<f64> {
    let mut seen = 0;
    let pairs = run["latency_histogram_us"].as_array()?;
    pairs.iter().find_map(|pair| {
        seen += pair[1].as_u64()?;
        (seen >= rank).then(|| pair[0].as_f64())?
    })
}
