//! A slab of entries in order of use, with a hash table over it: the shape of every cache here.
//!
//! Entries are named by handles that go stale when the entry is evicted, so that one cache may
//! point into another without keeping anything alive.

use hashbrown::HashTable;

const NONE: u32 = u32::MAX;

/// Names an entry until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    index: u32,
    generation: u32,
}

impl Handle {
    /// A handle of another table than this one's: the number of its record and its generation.
    pub(crate) fn from_parts(index: u32, generation: u32) -> Handle {
        Handle { index, generation }
    }

    /// These two.
    pub(crate) fn parts(self) -> (u32, u32) {
        (self.index, self.generation)
    }
}

#[derive(Debug)]
struct Node<V> {
    value: Option<V>,
    hash: u64,
    generation: u32,
    newer: u32,
    older: u32,
}

/// The entries, from the most to the least recently used.
#[derive(Debug)]
pub(crate) struct Lru<V> {
    nodes: Vec<Node<V>>,
    free: Vec<u32>,
    table: HashTable<u32>,
    newest: u32,
    oldest: u32,
}

impl<V> Lru<V> {
    pub(crate) fn new() -> Lru<V> {
        Lru {
            nodes: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The entry with this hash that `matches`, now the most recently used.
    pub(crate) fn find(&mut self, hash: u64, matches: impl Fn(&V) -> bool) -> Option<Handle> {
        let nodes = &self.nodes;
        let found = self.table.find(hash, |&index| {
            let node = &nodes[index as usize];
            node.hash == hash && node.value.as_ref().is_some_and(&matches)
        });
        let index = *found?;
        self.touch(index);
        Some(Handle { index, generation: self.nodes[index as usize].generation })
    }

    /// The entry that a handle names, unless it was removed.
    pub(crate) fn peek(&self, handle: Handle) -> Option<&V> {
        let node = self.nodes.get(handle.index as usize)?;
        node.value.as_ref().filter(|_| node.generation == handle.generation)
    }

    /// As [`Lru::peek`], and the entry is now the most recently used.
    pub(crate) fn use_mut(&mut self, handle: Handle) -> Option<&mut V> {
        self.peek(handle)?;
        self.touch(handle.index);
        self.nodes[handle.index as usize].value.as_mut()
    }

    /// Adds an entry as the most recently used. One that is equal must have been removed before.
    pub(crate) fn insert(&mut self, hash: u64, value: V) -> Handle {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let node = Node { value: None, hash, generation: 0, newer: NONE, older: NONE };
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        let node = &mut self.nodes[index as usize];
        node.value = Some(value);
        node.hash = hash;
        let generation = node.generation;
        let nodes = &self.nodes;
        self.table.insert_unique(hash, index, |&other| nodes[other as usize].hash);
        self.link_newest(index);
        Handle { index, generation }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<V> {
        self.peek(handle)?;
        self.unlink(handle.index);
        let node = &mut self.nodes[handle.index as usize];
        let (hash, value) = (node.hash, node.value.take());
        node.generation = node.generation.wrapping_add(1);
        if let Ok(entry) = self.table.find_entry(hash, |&index| index == handle.index) {
            entry.remove();
        }
        self.free.push(handle.index);
        value
    }

    /// Removes the least recently used entry.
    pub(crate) fn evict(&mut self) -> Option<V> {
        let index = self.oldest;
        let generation = self.nodes.get(index as usize)?.generation;
        self.remove(Handle { index, generation })
    }

    fn touch(&mut self, index: u32) {
        if self.newest != index {
            self.unlink(index);
            self.link_newest(index);
        }
    }

    fn unlink(&mut self, index: u32) {
        let (newer, older) = {
            let node = &self.nodes[index as usize];
            (node.newer, node.older)
        };
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let older = self.newest;
        let node = &mut self.nodes[index as usize];
        (node.newer, node.older) = (NONE, older);
        self.newest = index;
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = index,
            None => self.oldest = index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_handle_goes_stale_when_its_entry_is_evicted() {
        let mut lru = Lru::new();
        let first = lru.insert(1, "first");
        let second = lru.insert(2, "second");
        assert_eq!(lru.find(1, |v| *v == "first"), Some(first));
        assert_eq!(lru.evict(), Some("second"));
        assert_eq!(lru.peek(second), None);
        let third = lru.insert(3, "third");
        assert_eq!((lru.peek(second), lru.peek(third)), (None, Some(&"third")));
        assert_eq!((lru.evict(), lru.evict(), lru.evict()), (Some("first"), Some("third"), None));
    }

    proptest! {
        /// Against a list that is searched from one end to the other; few hashes, so they collide.
        #[test]
        fn it_behaves_like_a_list_in_order_of_use(
            steps in prop::collection::vec((0u8..3, 0u8..12), 0..200),
        ) {
            let (mut lru, mut list) = (Lru::new(), Vec::<u8>::new());
            for (step, key) in steps {
                let hash = u64::from(key % 3);
                let at = list.iter().position(|&k| k == key);
                match (step, at) {
                    (0, None) => {
                        lru.insert(hash, key);
                        list.insert(0, key);
                    }
                    (0 | 1, _) => {
                        let found = lru.find(hash, |&k| k == key);
                        prop_assert_eq!(found.is_some(), at.is_some());
                        if let Some(at) = at {
                            list.remove(at);
                            list.insert(0, key);
                        }
                    }
                    _ => prop_assert_eq!(lru.evict(), list.pop()),
                }
                prop_assert_eq!(lru.len(), list.len());
            }
        }
    }
}
