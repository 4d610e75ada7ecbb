//! How often each file of a set is asked for, and how many requests a session has.

use super::kinds::{Kind, Manifest};
use crate::random::Random;
use crate::workload::RequestId;

/// Files in a directory of SPECweb99.
const SPEC_FILES: u64 = 36;

/// Shares of SPECweb99's classes, which SPECweb96 and WebStone have too: up to and with each.
const CLASSES: [f64; 4] = [0.35, 0.85, 0.99, 1.0];

/// Shares of the nine files within a class of SPECweb99: up to and with each.
const NUMBERS: [f64; 9] = [0.039, 0.098, 0.186, 0.363, 0.716, 0.834, 0.905, 0.955, 1.0];

/// Shares of the nine files within a class of SPECweb96, whose popularity is Poisson-shaped around
/// the middle: the same curve with less of a peak.
const NUMBERS_96: [f64; 9] = [0.04, 0.11, 0.23, 0.41, 0.62, 0.79, 0.90, 0.96, 1.0];

/// The share of SPECweb99's connections that carry one request; the others carry 5 to 15.
const SINGLE_SHARE: f64 = 0.3;

/// A source of requests.
#[derive(Clone, Debug)]
pub struct Mix {
    kind: Kind,
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
        Mix { kind, popularity: zipf(ranks), order }
    }

    /// The next request, as the place of a file in its set.
    pub fn draw(&self, random: &mut Random) -> RequestId {
        match self.kind {
            Kind::OnePacket | Kind::SingleFile => 0,
            Kind::WebStone => place(&CLASSES, random.unit()) as RequestId,
            Kind::Trace => self.order[place(&self.popularity, random.unit())],
            Kind::SpecWeb99 | Kind::SpecWeb96 | Kind::S4 => {
                let directory = place(&self.popularity, random.unit()) as u64;
                let class = place(&CLASSES, random.unit()) as u64;
                let numbers = if self.kind == Kind::SpecWeb96 { &NUMBERS_96 } else { &NUMBERS };
                let number = place(numbers, random.unit()) as u64;
                (directory * SPEC_FILES + class * 9 + number) as RequestId
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

/// Zipf's law with exponent 1 over so many ranks: the shares up to and with each.
fn zipf(ranks: u64) -> Vec<f64> {
    let sum: f64 = (1..=ranks).map(|rank| 1.0 / rank as f64).sum();
    let mut upto = 0.0;
    (1..=ranks)
        .map(|rank| {
            upto += 1.0 / rank as f64 / sum;
            upto
        })
        .collect()
}

/// The first place whose share, with all before it, is above a number of 0 to 1.
fn place(upto: &[f64], drawn: f64) -> usize {
    upto.partition_point(|share| *share <= drawn).min(upto.len() - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
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

    #[test]
    fn a_tenth_of_a_traces_files_gets_most_of_its_requests() {
        let (mix, sizes) = mix(Kind::Trace);
        let mut random = Random::new(3, Purpose::Requests);
        let mut counts = vec![0_u32; sizes.len()];
        for _ in 0..200_000 {
            counts[mix.draw(&mut random) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let tenth: u32 = counts[..counts.len() / 10].iter().sum();
        assert!(f64::from(tenth) / 200_000.0 > 0.6, "{tenth}");
    }
}
