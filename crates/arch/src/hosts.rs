//! Answers by the site that gave them and the class of their status: as many numbers as there are
//! sites, whatever hosts clients write into their requests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_http::Status;
use flyball_site::SiteSettings;
use flyball_sys::shared::SharedCounters;

/// Sites that are counted by name; those behind them, in the order of the configuration, and
/// requests of no site are counted as [`OTHER`].
pub const SITES_NAMED_MAX: usize = 255;

/// The label of all others.
pub const OTHER: &str = "other";

/// Classes of status: 1xx to 5xx.
pub const CLASSES: usize = 5;

/// The labels of sites: the first host of each.
pub(crate) fn labels(sites: &[SiteSettings]) -> Vec<String> {
    let label = |site: &SiteSettings| site.hosts.first().cloned().unwrap_or_else(|| OTHER.into());
    sites.iter().map(label).collect()
}

/// Counts of answers, in a mapping of their own.
#[derive(Clone, Debug, Default)]
pub struct HostCounts {
    shared: Option<Arc<SharedCounters>>,
    names: Arc<[String]>,
    /// Of each site the place of its name.
    places: Vec<usize>,
}

impl HostCounts {
    /// Maps the counts of so many blocks, and one for the dead; to be called before the first fork.
    /// `sites` are their names, in their order.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(sites: &[String], blocks: usize) -> io::Result<HostCounts> {
        let mut names: Vec<String> = Vec::new();
        for name in sites {
            if names.len() < SITES_NAMED_MAX && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names.retain(|name| name != OTHER);
        names.push(OTHER.to_string());
        let mut counts = HostCounts { shared: None, names: names.into(), places: Vec::new() };
        counts.shared = Some(Arc::new(SharedCounters::new((blocks + 1) * counts.row())?));
        Ok(counts.of_sites(sites))
    }

    /// The same counts for other sites: those with names that were not there at the start are
    /// counted with the others.
    pub fn of_sites(&self, sites: &[String]) -> HostCounts {
        let other = self.names.len().saturating_sub(1);
        let place = |name: &String| self.names.iter().position(|known| known == name);
        let places = sites.iter().map(|name| place(name).unwrap_or(other)).collect();
        HostCounts { shared: self.shared.clone(), names: Arc::clone(&self.names), places }
    }

    /// Counts in one block: whole cache lines.
    fn row(&self) -> usize {
        (self.names.len() * CLASSES).next_multiple_of(8)
    }

    fn cell(&self, block: usize, site: Option<usize>, status: Status) -> Option<&AtomicU64> {
        let other = self.names.len().checked_sub(1)?;
        let place = site.and_then(|site| self.places.get(site)).copied().unwrap_or(other);
        let class = usize::from(status.class()).clamp(1, CLASSES) - 1;
        self.shared.as_ref()?.all().get(block * self.row() + place * CLASSES + class)
    }

    /// Counts an answer of a site, or of none, in a block that has one writer.
    pub fn answered(&self, block: usize, site: Option<usize>, status: Status) {
        if let Some(cell) = self.cell(block, site, status) {
            // The only writer: no read-modify-write is needed.
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// The same in a block that several threads write.
    pub fn answered_among_others(&self, block: usize, site: Option<usize>, status: Status) {
        if let Some(cell) = self.cell(block, site, status) {
            cell.fetch_add(1, Relaxed);
        }
    }

    /// Moves what was counted in a block to that of the dead.
    pub fn fold(&self, block: usize, dead: usize) {
        let Some(shared) = &self.shared else { return };
        let row = self.row();
        let (from, to) = (&shared.all()[block * row..][..row], &shared.all()[dead * row..][..row]);
        for (from, to) in from.iter().zip(to) {
            to.fetch_add(from.swap(0, Relaxed), Relaxed);
        }
    }

    /// The answers by class, for each name, summed over these blocks.
    pub fn totals(
        &self,
        blocks: impl Iterator<Item = usize> + Clone,
    ) -> Vec<(&str, [u64; CLASSES])> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let total = |(place, name)| {
            let mut sums = [0; CLASSES];
            for block in blocks.clone() {
                let cells = &shared.all()[block * self.row() + place * CLASSES..][..CLASSES];
                let add = |(sum, cell): (&mut u64, &AtomicU64)| *sum += cell.load(Relaxed);
                sums.iter_mut().zip(cells).for_each(add);
            }
            (name, sums)
        };
        self.names.iter().map(String::as_str).enumerate().map(total).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_site_and_class_and_outlive_their_block() {
        let names = ["a.example", "b.example", "a.example"].map(String::from);
        let counts = HostCounts::new(&names, 2).unwrap();
        counts.answered(0, Some(0), Status::OK);
        counts.answered(0, Some(1), Status::NOT_FOUND);
        counts.answered_among_others(1, Some(1), Status::NOT_FOUND);
        counts.answered(1, None, Status::MISDIRECTED_REQUEST);
        counts.fold(0, 2);
        counts.answered(0, Some(9), Status::OK);
        counts.answered(0, Some(2), Status::OK);
        // Other sites, as a configuration that is read again may have them.
        let later = counts.of_sites(&["new.example", "b.example"].map(String::from));
        later.answered(1, Some(0), Status::OK);
        later.answered(1, Some(1), Status::OK);
        let totals = counts.totals(0..3);
        assert_eq!(
            totals,
            [
                ("a.example", [0, 2, 0, 0, 0]),
                ("b.example", [0, 1, 0, 2, 0]),
                ("other", [0, 2, 0, 1, 0])
            ]
        );
    }

    #[test]
    fn there_are_no_more_labels_than_are_allowed() {
        let names: Vec<String> = (0..1_000).map(|n| format!("host{n}")).collect();
        let counts = HostCounts::new(&names, 1).unwrap();
        counts.answered(0, Some(999), Status::OK);
        let totals = counts.totals(0..2);
        assert_eq!(totals.len(), SITES_NAMED_MAX + 1);
        assert_eq!(totals.last(), Some(&(OTHER, [0, 1, 0, 0, 0])));
        // One that has no site at all.
        assert!(HostCounts::default().totals(0..1).is_empty());
        HostCounts::default().answered(0, None, Status::OK);
    }
}
