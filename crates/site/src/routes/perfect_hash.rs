//! A perfect hash of names that are known when the server starts: one probe finds a name or tells
//! that it is none of them (S3, section 3.1, whose tilde expander has one of the user table).
//!
//! Compress, hash and displace: the names are divided into small buckets, and for each bucket, the
//! largest first, a displacement is searched that puts all its names into places still free.
//! Belazzougui, Botelho, Dietzfelbinger: Hash, Displace, and Compress, ESA 2009.

use std::hash::{DefaultHasher, Hasher};

/// Names in a bucket on average: more would take longer to place, fewer more memory.
const BUCKET_NAMES: usize = 4;

/// Places per ten names: with a few left over, displacements are found soon.
const PLACES_PER_TEN: usize = 12;

/// Most displacements tried for one bucket before another seed is taken.
const DISPLACEMENTS_MAX: u32 = 1 << 16;

/// Most seeds that are tried. One is nearly always enough.
const SEEDS_MAX: u64 = 64;

/// A perfect hash: the place of each name, and a value there.
#[derive(Clone, Debug)]
pub(crate) struct PerfectHash<V> {
    seed: u64,
    displacements: Box<[u32]>,
    places: Box<[Place<V>]>,
}

/// A name and its value, if there is one here.
type Place<V> = Option<(Box<str>, V)>;

impl<V> PerfectHash<V> {
    /// The perfect hash of these names; where one comes twice, the first counts. `None` when none
    /// was found, which does not happen with names that differ.
    pub(crate) fn new(entries: Vec<(String, V)>) -> Option<PerfectHash<V>> {
        let mut seen = std::collections::HashSet::new();
        let entries: Vec<(String, V)> =
            entries.into_iter().filter(|(name, _)| seen.insert(name.clone())).collect();
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        let (seed, displacements) = (0..SEEDS_MAX)
            .find_map(|seed| Some((seed, displacements(seed, &names, places(names.len()))?)))?;
        let mut hash = PerfectHash {
            seed,
            displacements: displacements.into(),
            places: (0..places(entries.len())).map(|_| None).collect(),
        };
        for (name, value) in entries {
            let place = hash.place(&name)?;
            debug_assert!(hash.places[place].is_none());
            hash.places[place] = Some((name.into(), value));
        }
        Some(hash)
    }

    /// The value of a name: one probe.
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        let (found, value) = self.places.get(self.place(name)?)?.as_ref()?;
        (**found == *name).then_some(value)
    }

    fn place(&self, name: &str) -> Option<usize> {
        let hash = hash(self.seed, name);
        let displacement = self.displacements.get(bucket(hash, self.displacements.len()))?;
        Some(place(hash, *displacement, self.places.len()))
    }
}

fn places(names: usize) -> usize {
    (names * PLACES_PER_TEN).div_ceil(10).max(1)
}

fn hash(seed: u64, name: &str) -> u64 {
    // Its keys are fixed: each process computes alike.
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seed);
    hasher.write(name.as_bytes());
    hasher.finish()
}

fn bucket(hash: u64, buckets: usize) -> usize {
    (hash >> 40) as usize % buckets
}

/// The place of a name under a displacement, which moves it by a step of the name's own.
fn place(hash: u64, displacement: u32, places: usize) -> usize {
    let (start, step) = (hash as u32, (hash >> 20) as u32 | 1);
    let moved = u64::from(start)
        + u64::from(step) * u64::from(displacement)
        + ((u64::from(displacement) * u64::from(displacement)) >> 8);
    (moved % places as u64) as usize
}

fn displacements(seed: u64, names: &[&str], places: usize) -> Option<Vec<u32>> {
    let count = names.len().div_ceil(BUCKET_NAMES).max(1);
    let mut buckets: Vec<(usize, Vec<u64>)> = (0..count).map(|at| (at, Vec::new())).collect();
    for name in names {
        let hash = hash(seed, name);
        buckets[bucket(hash, count)].1.push(hash);
    }
    buckets.sort_by_key(|(_, hashes)| std::cmp::Reverse(hashes.len()));
    let mut taken = vec![false; places];
    let mut displacements = vec![0; count];
    for (at, hashes) in buckets {
        displacements[at] = displacement(&hashes, &mut taken)?;
    }
    Some(displacements)
}

/// A displacement that puts all names of a bucket into free places, which it takes.
fn displacement(hashes: &[u64], taken: &mut [bool]) -> Option<u32> {
    let mut chosen = Vec::with_capacity(hashes.len());
    'displacements: for displacement in 0..DISPLACEMENTS_MAX {
        chosen.clear();
        for &hash in hashes {
            let place = place(hash, displacement, taken.len());
            if taken[place] || chosen.contains(&place) {
                continue 'displacements;
            }
            chosen.push(place);
        }
        chosen.iter().for_each(|&place| taken[place] = true);
        return Some(displacement);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(names: &[String]) -> PerfectHash<usize> {
        let entries = names.iter().cloned().zip(0..).collect();
        PerfectHash::new(entries).expect("a perfect hash is found")
    }

    #[test]
    fn every_name_of_a_large_table_is_found_at_one_place() {
        for count in [0, 1, 2, 3, 10, 1_000, 20_000] {
            let names: Vec<String> = (0..count).map(|n| format!("user{n}")).collect();
            let hash = of(&names);
            for (at, name) in names.iter().enumerate() {
                assert_eq!(hash.get(name), Some(&at));
            }
            for other in ["", "user", "user-1", "root", "user20000"] {
                assert_eq!(hash.get(other), None, "{other}");
            }
            assert!(hash.places.len() <= count * 13 / 10 + 2);
        }
    }

    #[test]
    fn the_first_of_two_equal_names_counts() {
        let hash = PerfectHash::new(vec![("a".into(), 1), ("a".into(), 2)]).unwrap();
        assert_eq!(hash.get("a"), Some(&1));
    }

    proptest! {
        #[test]
        fn it_answers_as_a_map_does(
            names in prop::collection::hash_set("[a-d]{0,4}", 0..60),
            asked in "[a-d]{0,4}",
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let hash = of(&names);
            let expected = names.iter().position(|name| *name == asked);
            prop_assert_eq!(hash.get(&asked).copied(), expected);
        }
    }
}
