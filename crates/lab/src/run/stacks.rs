//! Where a server's processor time goes while it is loaded, by samples of its stacks.

use std::collections::BTreeMap;
use std::path::Path;

use crate::definition::Measure;
use crate::host::{SetupError, is_root, perf};
use crate::profile::{Category, Samples, samples};

/// Samples in a second of processor time: no multiple of the clock's, and some thousands in the
/// short runs of a quick campaign, for shares of a hundredth are looked for.
const SAMPLES_PER_S: &str = "3989";

/// Samples the stacks of these processes in so many seconds, for [`read`]. Blocks for as long.
///
/// # Errors
/// Without root or without perf, and with what perf complained of.
pub(crate) fn sample(
    processes: &[u32],
    seconds: f64,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), SetupError> {
    if !is_root() {
        return Err(SetupError("looking into servers takes root".into()));
    }
    let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
    let (ids, look, file) = (ids.join(","), format!("{seconds:.2}"), file(scratch));
    let record = ["record", "-q", "-g", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "-p"];
    let of = [ids.as_str(), "-o", &file, "--", "sleep", &look];
    perf(&[&record[..], &of].concat(), seconds, scratch, stop).map(drop)
}

/// What was sampled last. Blocks until perf has read it.
///
/// # Errors
/// With what perf complained of.
pub(crate) fn read(scratch: &Path, stop: &dyn Fn() -> bool) -> Result<Samples, SetupError> {
    let words = ["script", "-i", &file(scratch), "-F", "ip,sym,dso"];
    let script = perf(&words, 0.0, scratch, stop)?;
    Ok(samples::parse(&script))
}

fn file(scratch: &Path) -> String {
    scratch.join("perf.data").to_string_lossy().into_owned()
}

/// The shares of the server's time that an experiment can claim something of, in percent.
pub(super) fn shares(samples: &Samples) -> BTreeMap<Measure, f64> {
    let share = |count: u64| 100.0 * count as f64 / samples.all as f64;
    let in_calls = |categories: &[Category]| {
        share(categories.iter().map(|category| samples.of_category(*category)).sum())
    };
    if samples.all == 0 {
        return BTreeMap::new();
    }
    [
        (Measure::SynchronisationPercent, in_calls(&[Category::Synchronisation])),
        (Measure::SignalsPercent, in_calls(&[Category::Signals])),
        (Measure::FilesPercent, in_calls(&[Category::Files])),
        (Measure::TransferPercent, in_calls(&[Category::Writing, Category::Reading])),
        (Measure::ProgramPercent, share(samples.user + samples.libc)),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_samples() {
        let calls = [("futex", 10), ("sendto", 20), ("recvfrom", 5), ("openat", 15)];
        let samples = Samples {
            all: 200,
            kernel: 100,
            libc: 40,
            user: 60,
            calls: calls.map(|(name, count)| (name.to_owned(), count)).into(),
            ..Samples::default()
        };
        let shares = shares(&samples);
        assert_eq!(shares[&Measure::SynchronisationPercent], 5.0);
        assert_eq!(shares[&Measure::TransferPercent], 12.5);
        assert_eq!(shares[&Measure::FilesPercent], 7.5);
        assert_eq!(shares[&Measure::SignalsPercent], 0.0);
        assert_eq!(shares[&Measure::ProgramPercent], 50.0);
        assert_eq!(super::shares(&Samples::default()), BTreeMap::new());
    }
}
