//! How often each file of a set is asked for, and how many requests a session has.

use super::kinds::{Kind, Manifest};
use crate::random::Random;

/// Files in a directory of SPECweb99.
const SPEC_FILES: u64 = 36;

/// Shares of SPECweb99's classes, which SPECweb96 and WebStone have too: up to and with each.
const CLASSES: [f64; 4] = [0.35, 0.85, 0.99, 1.0];

/// Shares of the nine files within a class of SPECweb99: up to and with each.
const NUMBERS: [f64; 9] = [0.039, 0.098, 0.186, 0.363, 0.716, 0.834, 0.905, 0.955, 1.0];

/// The mean of the Poisson distribution by which SPECweb96 chooses among the nine files of a class:
/// the middle one. SPEC says only that the shape is such.
const MEAN_96: f64 = 5.0;

/// The share of SPECweb99's connections that carry one request; the others carry 5 to 15.
const SINGLE_SHARE: f64 = 0.3;

/// How much of a trace's requests the tenth of its files gets that is asked for most: nine tenths,
/// an invariant of the logs that Arlitt and Williamson (1996) looked at.
const TENTH_SHARE: f64 = 0.9;

/// Steps by which the exponent for that is found, each halving what is left of `0.0..8.0`.
const EXPONENT_STEPS: u32 = 32;

/// A source of requests.
#[derive(Clone, Debug)]
pub struct Mix {
    kind: Kind,
    /// Files within a class of SPEC: up to and with each.
    numbers: [f64; 9],
    /// Directories of SPEC, or files of a trace: up to and with each, by Zipf's law.
    popularity: Vec<f64>,
    /// Files of the trace in the order of their popularity.
    order: Vec<u32>,
}

impl Mix {
    /// The mix of a set with so many files.
    pub fn new(manifest: &Manifest, files: usize) -> Mix {
        let kind = manifest.kind;
        let ranks = match kind {
            Kind::SpecWeb99 | Kind::SpecWeb96 | Kind::S4 => manifest.parameters.directories,
            Kind::Trace => files as u64,
            _ => 1,
        };
        let mut order: Vec<u32> = (0..files as u32).collect();
        if kind == Kind::Trace {
            // What is popular is not what is small.
            let seed = manifest.parameters.seed;
            let mut random = Random::new(seed, crate::random::Purpose::Popularity);
            random.shuffle(&mut order);
        }
        let exponent = if kind == Kind::Trace { exponent(ranks) } else { 1.0 };
        let numbers = if kind == Kind::SpecWeb96 { poisson(MEAN_96) } else { NUMBERS };
        Mix { kind, numbers, popularity: zipf(ranks, exponent), order }
    }

    /// The next request, as the place of a file in its set.
    pub fn draw(&self, random: &mut Random) -> u32 {
        match self.kind {
            Kind::OnePacket | Kind::SingleFile => 0,
            Kind::WebStone => place(&CLASSES, random.unit()) as u32,
            Kind::Trace => self.order[place(&self.popularity, random.unit())],
            Kind::SpecWeb99 | Kind::SpecWeb96 | Kind::S4 => {
                let directory = place(&self.popularity, random.unit()) as u64;
                let class = place(&CLASSES, random.unit()) as u64;
                let number = place(&self.numbers, random.unit()) as u64;
                (directory * SPEC_FILES + class * 9 + number) as u32
            }
        }
    }

    /// How many requests the next session has, each after the reply to the one before it.
    pub fn session(&self, random: &mut Random) -> u32 {
        match self.kind {
            Kind::SpecWeb99 | Kind::S4 if !random.chance(SINGLE_SHARE) => {
                5 + random.below(11) as u32
            }
            _ => 1,
        }
    }

    /// Mean number of requests in a session.
    pub fn requests_per_session(&self) -> f64 {
        match self.kind {
            Kind::SpecWeb99 | Kind::S4 => SINGLE_SHARE + (1.0 - SINGLE_SHARE) * 10.0,
            _ => 1.0,
        }
    }
}

/// Zipf's law over so many ranks: the shares up to and with each.
fn zipf(ranks: u64, exponent: f64) -> Vec<f64> {
    let weight = |rank: u64| (rank as f64).powf(-exponent);
    let sum: f64 = (1..=ranks).map(weight).sum();
    let mut upto = 0.0;
    (1..=ranks)
        .map(|rank| {
            upto += weight(rank) / sum;
            upto
        })
        .collect()
}

/// The exponent of Zipf's law with which the first tenth of so many ranks, or the first one of
/// less than ten, has [`TENTH_SHARE`]: 1.29 of two thousand, 1.24 of four thousand.
fn exponent(ranks: u64) -> f64 {
    let first = (ranks / 10).max(1);
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..EXPONENT_STEPS {
        let middle = (low + high) / 2.0;
        let upto = |last: u64| (1..=last).map(|rank| (rank as f64).powf(-middle)).sum::<f64>();
        if upto(first) < TENTH_SHARE * upto(ranks) { low = middle } else { high = middle }
    }
    low
}

/// A Poisson distribution with this mean over the numbers 1 to 9: the shares up to and with each.
fn poisson(mean: f64) -> [f64; 9] {
    let mut weight = 1.0;
    let weights: [f64; 9] = std::array::from_fn(|at| {
        weight *= mean / (at + 1) as f64;
        weight
    });
    let sum: f64 = weights.iter().sum();
    let mut upto = 0.0;
    weights.map(|weight| {
        upto += weight / sum;
        upto
    })
}

/// The first place whose share, with all before it, is above a number of 0 to 1.
fn place(upto: &[f64], drawn: f64) -> usize {
    upto.partition_point(|share| *share <= drawn).min(upto.len() - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fileset::Parameters;
    use crate::random::Purpose;

    fn mix(kind: Kind) -> (Mix, Vec<u64>) {
        let manifest = Manifest { kind, parameters: kind.defaults() };
        let files = manifest.files().unwrap();
        let sizes = files.iter().map(|file| file.size).collect();
        (Mix::new(&manifest, files.len()), sizes)
    }

    /// The table's columns: the share of requests, smallest sizes first, the size at which it is
    /// reached, and MiB of the distinct files up to there, of those that were asked for.
    const TABLE_1: [(f64, u64, f64); 8] = [
        (0.10, 409, 0.5),
        (0.30, 716, 1.5),
        (0.50, 4_096, 8.4),
        (0.70, 5_120, 12.2),
        (0.80, 7_168, 20.1),
        (0.90, 40_960, 94.3),
        (0.95, 51_200, 126.5),
        (1.00, 921_600, 2_291.6),
    ];

    #[test]
    fn the_requests_of_s4_are_those_of_its_table_1() {
        let (mix, sizes) = mix(Kind::S4);
        let mut random = Random::new(1, Purpose::Requests);
        let mut counts = vec![0_u32; sizes.len()];
        let requests = 3_090_000;
        for _ in 0..requests {
            counts[mix.draw(&mut random) as usize] += 1;
        }
        let distinct = counts.iter().filter(|count| **count > 0).count();
        assert!((21_500..=21_700).contains(&distinct), "{distinct} distinct files");
        // By size: requests, and bytes of the files that occur.
        let mut by_size: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (count, size) in counts.iter().zip(&sizes).filter(|(count, _)| **count > 0) {
            let entry = by_size.entry(*size).or_default();
            entry.0 += f64::from(*count) / f64::from(requests);
            entry.1 += *size as f64 / f64::from(1 << 20);
        }
        for (share, size, mib) in TABLE_1 {
            let (mut seen, mut memory, mut at) = (0.0, 0.0, 0);
            for (file, (requests, bytes)) in &by_size {
                if seen >= share - 1e-9 {
                    break;
                }
                // Linear within a size.
                let part = ((share - seen) / requests).min(1.0);
                (seen, memory, at) = (seen + requests * part, memory + bytes * part, *file);
            }
            assert_eq!(at, size, "{share}");
            assert!((memory - mib).abs() <= 0.1_f64.max(mib * 0.03), "{share}: {memory} {mib}");
        }
    }

    /// Shares of the nine files of a class in percent: SPECweb99's, and those of a Poisson
    /// distribution around the fifth.
    const FILES_99: [f64; 9] = [3.9, 5.9, 8.8, 17.7, 35.3, 11.8, 7.1, 5.0, 4.5];
    const FILES_96: [f64; 9] = [3.5, 8.8, 14.6, 18.25, 18.25, 15.2, 10.9, 6.8, 3.8];

    #[test]
    fn classes_files_and_directories_are_drawn_as_often_as_the_benchmarks_say() {
        for (kind, files) in [(Kind::SpecWeb99, FILES_99), (Kind::SpecWeb96, FILES_96)] {
            let (mix, _) = mix(kind);
            let mut random = Random::new(5, Purpose::Requests);
            let (mut classes, mut numbers, mut directories) = ([0f64; 4], [0f64; 9], [0f64; 3]);
            for _ in 0..500_000 {
                let drawn = mix.draw(&mut random) as usize;
                // In percent of all.
                classes[drawn % 36 / 9] += 100.0 / 5e5;
                numbers[drawn % 9] += 100.0 / 5e5;
                if let Some(directory) = directories.get_mut(drawn / 36) {
                    *directory += 100.0 / 5e5;
                }
            }
            let is_near = |found: &[f64], said: &[f64]| {
                found.iter().zip(said).all(|(found, said)| (found - said).abs() < 0.3)
            };
            assert!(is_near(&classes, &[35.0, 50.0, 14.0, 1.0]), "{kind}: {classes:?}");
            assert!(is_near(&numbers, &files), "{kind}: {numbers:?}");
            let [first, second, third] = directories;
            assert!((first / second - 2.0).abs() < 0.05, "{kind}: {directories:?}");
            assert!((first / third - 3.0).abs() < 0.1, "{kind}: {directories:?}");
        }
    }

    #[test]
    fn a_webstone_request_is_of_one_of_four_sizes() {
        let (mix, sizes) = mix(Kind::WebStone);
        assert_eq!(sizes, [500, 5 << 10, 50 << 10, 5 << 20]);
        let mut random = Random::new(5, Purpose::Requests);
        let mut shares = [0f64; 4];
        (0..500_000).for_each(|_| shares[mix.draw(&mut random) as usize] += 100.0 / 5e5);
        for (share, said) in shares.iter().zip([35.0, 50.0, 14.0, 1.0]) {
            assert!((share - said).abs() < 0.3, "{shares:?}");
        }
        assert!((mix.requests_per_session() - 1.0).abs() < 1e-9, "a connection for each");
    }

    #[test]
    fn sessions_of_specweb99_have_seven_requests_on_average() {
        let (mix, _) = mix(Kind::SpecWeb99);
        let mut random = Random::new(3, Purpose::Requests);
        let lengths: Vec<u32> = (0..100_000).map(|_| mix.session(&mut random)).collect();
        let mean = f64::from(lengths.iter().sum::<u32>()) / lengths.len() as f64;
        assert!((mean - mix.requests_per_session()).abs() < 0.05, "{mean}");
        assert!(lengths.iter().all(|length| *length == 1 || (5..=15).contains(length)));
        let single = lengths.iter().filter(|length| **length == 1).count() as f64 / 1e5;
        assert!((single - SINGLE_SHARE).abs() < 0.01, "{single}");
    }

    #[test]
    fn a_webstone_request_has_62_kib_on_average_and_mostly_large_ones() {
        let (mix, sizes) = mix(Kind::WebStone);
        let mut random = Random::new(3, Purpose::Requests);
        let drawn: Vec<u64> = (0..200_000).map(|_| sizes[mix.draw(&mut random) as usize]).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((55_000.0..70_000.0).contains(&mean), "{mean}");
    }

    /// The files of a trace as often as so many requests for each on average ask for them, the
    /// most popular first: how often, and the size of each.
    fn requested(mib: u64, seed: u64, each: u64) -> Vec<(u64, u64)> {
        let kind = Kind::Trace;
        let parameters = Parameters { mib, seed, ..kind.defaults() };
        let manifest = Manifest { kind, parameters };
        let files = manifest.files().unwrap();
        let mix = Mix::new(&manifest, files.len());
        let mut random = Random::new(seed, Purpose::Requests);
        let mut counts: Vec<(u64, u64)> = files.iter().map(|file| (0, file.size)).collect();
        for _ in 0..each * files.len() as u64 {
            counts[mix.draw(&mut random) as usize].0 += 1;
        }
        counts.retain(|(count, _)| *count > 0);
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts
    }

    #[test]
    fn a_tenth_of_a_traces_files_gets_nine_tenths_of_its_requests_and_three_tenths_get_one() {
        for (mib, seed) in [(20, 1), (100, 1), (100, 2), (400, 3)] {
            // As long a log as has so many files that are asked for once.
            let counts = requested(mib, seed, 20);
            let files = counts.len();
            let requests = |counts: &[(u64, u64)]| counts.iter().map(|(n, _)| *n).sum::<u64>();
            let tenth = requests(&counts[..files / 10]) as f64 / requests(&counts) as f64;
            assert!((0.86..0.92).contains(&tenth), "{mib} MiB, seed {seed}: {tenth}");
            let once = counts.iter().filter(|(count, _)| *count == 1).count();
            let once = once as f64 / files as f64;
            assert!((0.27..0.35).contains(&once), "{mib} MiB, seed {seed}: {once} of {files}");
        }
    }

    #[test]
    fn the_exponent_of_a_trace_follows_from_its_files() {
        for (files, said) in [(100, 1.738), (2_000, 1.286), (4_000, 1.240), (40_000, 1.141)] {
            let found = exponent(files);
            assert!((found - said).abs() < 0.001, "{files}: {found}");
            let tenth = zipf(files, found)[files as usize / 10 - 1];
            assert!((tenth - TENTH_SHARE).abs() < 1e-6, "{files}: {tenth}");
        }
        // Sets that are hardly one.
        assert_eq!([1, 2, 9].map(|files| place(&zipf(files, exponent(files)), 0.85)), [0; 3]);
    }
}
