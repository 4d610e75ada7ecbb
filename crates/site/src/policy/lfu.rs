//! Least frequently used, with aging: the entry with the fewest uses makes room, of several the one
//! that was used longest ago.
//!
//! Entries with the same count are a list, so that a use moves an entry from one list to the next
//! in constant time (K. Shah, A. Mitra, D. Matani: An O(1) algorithm for implementing the LFU cache
//! eviction scheme, 2010). Counts stop at [`COUNT_MAX`], so that the lists are an array. Old fame
//! fades: after ten uses for each entry all counts are halved, which is the reset of TinyLFU
//! (G. Einziger, R. Friedman, B. Manes: TinyLFU: A Highly Efficient Cache Admission Policy, ACM
//! Transactions on Storage 13(4), 2017). Halving joins lists in pairs and leaves the entries alone:
//! each says when its count was written, and what has been halved since is taken off when it is
//! read. So that costs no more than the number of lists either.

use super::list::List;
use super::{Nodes, Policy, Traits, Victim};

/// Highest count. With ten uses for each entry between two halvings, few get there.
const COUNT_MAX: u32 = COUNTS as u32 - 1;

/// Counts that are told apart; as many as a word has bits.
const COUNTS: usize = 64;

/// Bits of a tag that are the count; the others say after how many halvings it was written.
const COUNT_BITS: u32 = 6;

/// Most halvings that a tag can tell.
const HALVINGS_MAX: u32 = u32::MAX >> COUNT_BITS;

/// Uses for each entry between two halvings.
const USES_PER_ENTRY: u64 = 10;

/// With fewer entries than this the time between two halvings does not get shorter.
const ENTRIES_MIN: u64 = 64;

/// A list for each count.
#[derive(Debug)]
pub(crate) struct Lfu {
    lists: [List; COUNTS],
    /// A bit for each list that has an entry.
    present: u64,
    halvings: u32,
    entries: u64,
    /// Uses since the last halving.
    uses: u64,
}

impl Default for Lfu {
    fn default() -> Lfu {
        let lists = [List::default(); COUNTS];
        Lfu { lists, present: 0, halvings: 0, entries: 0, uses: 0 }
    }
}

impl Lfu {
    fn count(&self, nodes: &mut impl Nodes, index: u32) -> u32 {
        let tag = nodes.links(index).tag;
        let halved = self.halvings - (tag >> COUNT_BITS);
        (tag & COUNT_MAX).checked_shr(halved).unwrap_or(0)
    }

    fn put(&mut self, nodes: &mut impl Nodes, index: u32, count: u32) {
        nodes.links(index).tag = self.halvings << COUNT_BITS | count;
        self.lists[count as usize].push(nodes, index);
        self.present |= 1 << count;
    }

    fn take(&mut self, nodes: &mut impl Nodes, index: u32) -> u32 {
        let count = self.count(nodes, index);
        let list = &mut self.lists[count as usize];
        list.unlink(nodes, index);
        if list.is_empty() {
            self.present &= !(1 << count);
        }
        count
    }

    fn note_use(&mut self, nodes: &mut impl Nodes) {
        self.uses += 1;
        if self.uses >= USES_PER_ENTRY * self.entries.max(ENTRIES_MIN) {
            self.uses = 0;
            self.halve(nodes);
        }
    }

    /// Of two lists that become one, the entries of the higher count are the newer.
    fn halve(&mut self, nodes: &mut impl Nodes) {
        let before = std::mem::replace(&mut self.lists, [List::default(); COUNTS]);
        self.present = 0;
        for (count, list) in before.into_iter().enumerate() {
            self.lists[count / 2].put_in_front(nodes, list);
            self.present |= u64::from(!list.is_empty()) << (count / 2);
        }
        self.halvings += 1;
        if self.halvings == HALVINGS_MAX {
            self.begin_anew(nodes);
        }
    }

    /// Writes every tag again: tags cannot tell more halvings.
    fn begin_anew(&mut self, nodes: &mut impl Nodes) {
        self.halvings = 0;
        for (count, list) in self.lists.iter().enumerate() {
            let mut index = list.newest;
            while index != super::NONE {
                let links = nodes.links(index);
                links.tag = count as u32;
                index = links.older;
            }
        }
    }
}

impl Policy for Lfu {
    fn inserted(&mut self, nodes: &mut impl Nodes, index: u32, _traits: &Traits<'_>) {
        self.entries += 1;
        self.put(nodes, index, 1);
        self.note_use(nodes);
    }

    fn used(&mut self, nodes: &mut impl Nodes, index: u32) {
        let count = self.take(nodes, index);
        self.put(nodes, index, (count + 1).min(COUNT_MAX));
        self.note_use(nodes);
    }

    fn removed(&mut self, nodes: &mut impl Nodes, index: u32) {
        self.entries -= 1;
        self.take(nodes, index);
    }

    fn victim(&mut self, _nodes: &mut impl Nodes) -> Option<Victim> {
        let list = self.lists.get(self.present.trailing_zeros() as usize)?;
        Some(Victim { index: list.oldest, is_last: true })
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Lfu>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{self, Model};
    use proptest::prelude::*;

    /// Keys with their counts; those of one count in order of use, the newest last.
    #[derive(Default)]
    struct Counted {
        keys: Vec<(u8, u32)>,
        uses: u64,
    }

    impl Counted {
        fn note_use(&mut self) {
            self.uses += 1;
            if self.uses >= 10 * (self.keys.len() as u64).max(64) {
                self.uses = 0;
                // Stable: within a new count, lower old counts stay older.
                self.keys.sort_by_key(|&(_, count)| count);
                self.keys.iter_mut().for_each(|(_, count)| *count /= 2);
            }
        }

        fn put(&mut self, key: u8, count: u32) {
            self.keys.push((key, count.min(63)));
            self.note_use();
        }
    }

    impl Model for Counted {
        fn inserted(&mut self, key: u8) {
            self.put(key, 1);
        }

        fn used(&mut self, key: u8) {
            let count = self.keys.iter().find(|(k, _)| *k == key).unwrap().1;
            self.removed(key);
            self.put(key, count + 1);
        }

        fn removed(&mut self, key: u8) {
            self.keys.retain(|(k, _)| *k != key);
        }

        fn victims(&mut self) -> Vec<u8> {
            self.keys
                .iter()
                .min_by_key(|(_, count)| *count)
                .map(|(key, _)| *key)
                .into_iter()
                .collect()
        }
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_list_of_counts(
            steps in prop::collection::vec(model::steps(), 1..6),
            halvings in prop_oneof![Just(0), Just(HALVINGS_MAX - 2)],
        ) {
            let lfu = Lfu { halvings, ..Lfu::default() };
            let traits = |_| Traits::default();
            model::compare(lfu, Counted::default(), &steps.concat(), traits)?;
        }
    }
}
