//! Answers by the site or the module that gave them and the class of their status, how long modules
//! took, and how long requests of sites did: as many numbers as there are of these, whatever
//! clients write into their requests.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_http::Status;
use flyball_sys::shared::SharedCounters;

use crate::histogram::{POWERS_CELLS, Powers, record_power};
use crate::writers::Writers;

/// Names that are counted while the server runs, in the order in which configurations bring them;
/// sites behind them and requests of no site are counted as [`OTHER`].
pub const SITES_NAMED_MAX: usize = 255;

/// The label of all others.
pub const OTHER: &str = "other";

/// The names of the classes of status.
pub const CLASS_NAMES: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// How many classes of status there are.
pub const CLASSES: usize = 5;

/// The place of a status's class among all.
pub(crate) fn class(status: Status) -> usize {
    usize::from(status.class()).clamp(1, CLASSES) - 1
}

/// Words of a name in a block: a cache line, so that no two workers write the same one.
const CELL: usize = 8;

/// Which of them has the nanoseconds that were spent on it; the classes are before it.
const SPENT: usize = CLASSES;

/// Words of the times of a name in a block: whole cache lines, too.
const TIMES_CELL: usize = POWERS_CELLS.next_multiple_of(8);

/// The place of a name among all; that of [`OTHER`] is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamePlace(u8);

const _: () = assert!(SITES_NAMED_MAX <= u8::MAX as usize);

/// Counts of answers, in a mapping of their own: name by name, and in each block by block. The
/// memory of names that nobody has is never touched, and none is set aside for it.
#[derive(Clone, Debug, Default)]
pub struct NamedCounts {
    shared: Option<Arc<SharedCounters>>,
    /// How long requests took, if that is kept, in a mapping like that of the counts.
    times: Option<Arc<SharedCounters>>,
    /// Blocks, the dead's included.
    blocks: usize,
    /// The names by their place; none is ever taken away, so that workers which finish go on
    /// counting where they did. The first is [`OTHER`].
    names: Arc<Mutex<Vec<String>>>,
    /// Of each site the place of its name.
    places: Vec<usize>,
}

impl NamedCounts {
    /// Maps the counts of so many blocks, and one for the dead; to be called before the first fork.
    /// `sites` are their names, in their order.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(sites: &[String], blocks: usize) -> io::Result<NamedCounts> {
        let blocks = blocks + 1;
        let shared = SharedCounters::sparse((SITES_NAMED_MAX + 1) * blocks * CELL)?;
        let names = Arc::new(Mutex::new(vec![OTHER.to_owned()]));
        let (shared, times, places) = (Some(Arc::new(shared)), None, vec![]);
        let counts = NamedCounts { shared, times, blocks, names, places };
        Ok(counts.of_names(sites))
    }

    /// The same, with how long requests took; to be called before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn with_times(self) -> io::Result<NamedCounts> {
        let times = SharedCounters::sparse((SITES_NAMED_MAX + 1) * self.blocks * TIMES_CELL)?;
        Ok(NamedCounts { times: Some(Arc::new(times)), ..self })
    }

    /// The same counts for other sites. New names take the places that are left; when there are
    /// none, they are counted with the others.
    pub fn of_names(&self, sites: &[String]) -> NamedCounts {
        let mut names = self.names();
        let mut place = |name: &String| {
            let known = names.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                if names.is_empty() || names.len() > SITES_NAMED_MAX {
                    return 0;
                }
                names.push(name.clone());
                names.len() - 1
            })
        };
        let places = sites.iter().map(&mut place).collect();
        let names = Arc::clone(&self.names);
        NamedCounts { names, places, ..self.clone() }
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts of a name in a block.
    fn cells(&self, place: usize, block: usize) -> Option<&[AtomicU64]> {
        let start = (place * self.blocks + block) * CELL;
        self.shared.as_ref()?.all().get(start..=start + SPENT)
    }

    /// The times of a name in a block.
    fn times_of(&self, place: usize, block: usize) -> Option<&[AtomicU64]> {
        let start = (place * self.blocks + block) * TIMES_CELL;
        self.times.as_ref()?.all().get(start..start + POWERS_CELLS)
    }

    /// Where a site counts, or none.
    fn place(&self, site: Option<usize>) -> usize {
        site.and_then(|site| self.places.get(site)).copied().unwrap_or(0)
    }

    /// Counts an answer of a site, or of none; where its time is to be counted.
    pub fn answered(
        &self,
        block: usize,
        writers: Writers,
        site: Option<usize>,
        status: Status,
    ) -> NamePlace {
        let place = self.place(site);
        if let Some(cells) = self.cells(place, block) {
            writers.add(&cells[class(status)], 1);
        }
        NamePlace(place as u8)
    }

    /// Records how long each of `n` requests took that were answered there, in nanoseconds.
    #[inline]
    pub fn took(&self, block: usize, writers: Writers, place: NamePlace, ns: u64, n: u64) {
        if let Some(cells) = self.times_of(place.0.into(), block) {
            record_power(cells, writers, ns, n);
        }
    }

    /// Counts nanoseconds that were spent on one, in a block that several threads may write.
    pub fn spent(&self, block: usize, number: usize, ns: u64) {
        let cells = self.cells(self.place(Some(number)), block);
        if let Some(cell) = cells.and_then(|cells| cells.get(SPENT)) {
            cell.fetch_add(ns, Relaxed);
        }
    }

    /// Moves what was counted in a block to that of the dead.
    pub fn fold(&self, block: usize, dead: usize) {
        for place in 0..self.names().len() {
            let counts = (self.cells(place, block), self.cells(place, dead));
            let times = (self.times_of(place, block), self.times_of(place, dead));
            for (from, to) in [counts, times] {
                for (from, to) in from.into_iter().flatten().zip(to.into_iter().flatten()) {
                    to.fetch_add(from.swap(0, Relaxed), Relaxed);
                }
            }
        }
    }

    /// The answers by class, for each name, summed over these blocks; [`OTHER`] is the last.
    pub fn totals(
        &self,
        blocks: impl Iterator<Item = usize> + Clone,
    ) -> Vec<(String, [u64; CLASSES])> {
        let total = |(place, name): (usize, &String)| {
            let mut sums = [0; CLASSES];
            for cells in blocks.clone().filter_map(|block| self.cells(place, block)) {
                let add = |(sum, cell): (&mut u64, &AtomicU64)| *sum += cell.load(Relaxed);
                sums.iter_mut().zip(cells).for_each(add);
            }
            (name.clone(), sums)
        };
        self.by_name(total)
    }

    /// The nanoseconds that were spent on each name, summed over these blocks, in the same order.
    pub fn times_ns(&self, blocks: impl Iterator<Item = usize> + Clone) -> Vec<(String, u64)> {
        self.by_name(|(place, name)| {
            let cells = blocks.clone().filter_map(|block| self.cells(place, block)?.get(SPENT));
            (name.clone(), cells.map(|cell| cell.load(Relaxed)).sum())
        })
    }

    /// How long requests of each name took, over these blocks, in the same order.
    pub fn times(&self, blocks: impl Iterator<Item = usize> + Clone) -> Vec<(String, Powers)> {
        self.by_name(|(place, name)| {
            let cells = blocks.clone().filter_map(|block| self.times_of(place, block));
            (name.clone(), Powers::sum(cells))
        })
    }

    /// What there is of each name, of [`OTHER`] last.
    fn by_name<T>(&self, of: impl FnMut((usize, &String)) -> T) -> Vec<T> {
        let mut all: Vec<T> = self.names().iter().enumerate().map(of).collect();
        if !all.is_empty() {
            all.rotate_left(1);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_site_and_class_and_outlive_their_block() {
        let names = ["a.example", "b.example", "a.example"].map(String::from);
        let counts = NamedCounts::new(&names, 2).unwrap();
        counts.answered(0, Writers::One, Some(0), Status::OK);
        counts.answered(0, Writers::One, Some(1), Status::NOT_FOUND);
        counts.answered(1, Writers::Several, Some(1), Status::NOT_FOUND);
        counts.answered(1, Writers::One, None, Status::MISDIRECTED_REQUEST);
        counts.fold(0, 2);
        counts.answered(0, Writers::One, Some(9), Status::OK);
        counts.answered(0, Writers::One, Some(2), Status::OK);
        // Other sites, as a configuration that is read again may have them.
        let later = counts.of_names(&["new.example", "b.example"].map(String::from));
        later.answered(1, Writers::One, Some(0), Status::OK);
        later.answered(1, Writers::One, Some(1), Status::OK);
        // Workers of the sites before go on.
        counts.answered(1, Writers::One, Some(0), Status::OK);
        let expected = [
            ("a.example", [0, 3, 0, 0, 0]),
            ("b.example", [0, 1, 0, 2, 0]),
            ("new.example", [0, 1, 0, 0, 0]),
            ("other", [0, 1, 0, 1, 0]),
        ];
        let expected = expected.map(|(name, counts)| (name.to_owned(), counts));
        for known in [&counts, &later] {
            assert_eq!(known.totals(0..3), expected);
        }
    }

    #[test]
    fn time_is_counted_by_name_beside_the_answers_and_outlives_its_block() {
        let counts = NamedCounts::new(&["a.so", "b.so"].map(String::from), 2).unwrap();
        counts.spent(0, 0, 5);
        counts.fold(0, 2);
        counts.spent(0, 0, 2);
        counts.spent(1, 1, 3);
        counts.spent(1, 9, 1);
        counts.answered(1, Writers::One, Some(1), Status::OK);
        let expected = [("a.so", 7), ("b.so", 3), ("other", 1)];
        assert_eq!(counts.times_ns(0..3), expected.map(|(name, ns)| (name.to_owned(), ns)));
        assert_eq!(counts.totals(0..3)[1], ("b.so".to_owned(), [0, 1, 0, 0, 0]));
    }

    #[test]
    fn times_are_kept_by_site_and_outlive_their_block() {
        let names = ["a.example", "b.example"].map(String::from);
        let counts = NamedCounts::new(&names, 2).unwrap().with_times().unwrap();
        let place = |counts: &NamedCounts, site| counts.answered(0, Writers::One, site, Status::OK);
        let (a, b, none) = (place(&counts, Some(0)), place(&counts, Some(1)), place(&counts, None));
        assert_eq!(none, NamePlace::default());
        counts.took(0, Writers::One, a, 5_000, 2);
        counts.took(0, Writers::One, b, 1 << 20, 1);
        counts.took(1, Writers::Several, b, 7, 3);
        counts.took(1, Writers::One, none, u64::MAX, 1);
        counts.fold(0, 2);
        counts.took(0, Writers::One, a, 4_200, 1);
        // As after a reload.
        let later = counts.of_names(&["b.example".to_owned()]);
        assert_eq!(place(&later, Some(0)), b);
        let times = later.times(0..3);
        let told = |at: usize| {
            let (name, times) = &times[at];
            let times = times.distribution();
            (name.as_str(), times.count(), times.sum_ns(), times.percentile_ns(50.0))
        };
        assert_eq!(told(0), ("a.example", 3, 14_200, 8_192));
        assert_eq!(told(1), ("b.example", 4, (1 << 20) + 21, 1_024));
        assert_eq!(told(2).0, OTHER);
        let below = times[1].1.distribution().below_powers().map(|(_, count)| count);
        assert_eq!(below.collect::<Vec<_>>(), [[3; 11].as_slice(), &[4; 17]].concat());
        // Of those that keep none there is nothing.
        let without = NamedCounts::new(&names, 2).unwrap();
        without.took(0, Writers::One, a, 1, 1);
        assert_eq!(without.times(0..3)[0].1.distribution().count(), 0);
    }

    #[test]
    fn there_are_no_more_labels_than_are_allowed() {
        let names: Vec<String> = (0..1_000).map(|n| format!("host{n}")).collect();
        let counts = NamedCounts::new(&names, 1).unwrap();
        counts.answered(0, Writers::One, Some(999), Status::OK);
        let totals = counts.totals(0..2);
        assert_eq!(totals.len(), SITES_NAMED_MAX + 1);
        assert_eq!(totals.last(), Some(&(OTHER.to_owned(), [0, 1, 0, 0, 0])));
        let later = counts.of_names(&["late".to_owned()]);
        later.answered(0, Writers::One, Some(0), Status::OK);
        assert_eq!(later.totals(0..2).last(), Some(&(OTHER.to_owned(), [0, 2, 0, 0, 0])));
        // One that has no site at all.
        assert!(NamedCounts::default().totals(0..1).is_empty());
        NamedCounts::default().answered(0, Writers::One, None, Status::OK);
    }
}
