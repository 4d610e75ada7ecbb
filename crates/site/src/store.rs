//! A slab of entries with a hash table over it: the shape of every cache here. Which entry makes
//! room for the next is the business of a [`Policy`].
//!
//! Entries are named by handles that go stale when the entry is evicted, so that one cache may
//! point into another without keeping anything alive.

use hashbrown::HashTable;

use crate::policy::{Links, NONE, Nodes, Policy, Traits};

/// Nodes that the slab grows by at least.
const GROWTH_MIN: usize = 4;

/// The slab grows by one in so many: what is not in use yet counts as memory too.
const GROWTH_SHARE: usize = 8;

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

/// An entry and its place in the policy's order; a free one is chained to the next by `older`.
#[derive(Debug)]
struct Node<V> {
    value: Option<V>,
    hash: u64,
    generation: u32,
    links: Links,
}

impl<V> Nodes for Vec<Node<V>> {
    fn links(&mut self, index: u32) -> &mut Links {
        &mut self[index as usize].links
    }
}

/// The entries, and the policy that says which of them makes room.
#[derive(Debug)]
pub(crate) struct Store<V, P> {
    nodes: Vec<Node<V>>,
    free: u32,
    table: HashTable<u32>,
    policy: P,
}

impl<V, P: Policy> Store<V, P> {
    pub(crate) fn new(policy: P) -> Store<V, P> {
        Store { nodes: Vec::new(), free: NONE, table: HashTable::new(), policy }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory of the store itself, and of its policy: what is reserved, used or not.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node<V>>();
        (nodes + self.table.allocation_size()) as u64 + self.policy.memory_bytes()
    }

    /// Makes room for one more entry: the next insertion will not make the store larger. To be
    /// called before the store's bytes are counted. Gives back what an entry with these traits adds
    /// to them all the same.
    pub(crate) fn reserve(&mut self, traits: &Traits<'_>) -> u64 {
        if self.free == NONE && self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact((self.nodes.len() / GROWTH_SHARE).max(GROWTH_MIN));
        }
        let nodes = &self.nodes;
        self.table.reserve(1, |&other| nodes[other as usize].hash);
        self.policy.reserve(traits);
        self.policy.cost_bytes(traits)
    }

    /// The entry with this hash that `matches`, which counts as a use of it.
    pub(crate) fn find(&mut self, hash: u64, matches: impl Fn(&V) -> bool) -> Option<Handle> {
        let nodes = &self.nodes;
        let found = self.table.find(hash, |&index| {
            let node = &nodes[index as usize];
            node.hash == hash && node.value.as_ref().is_some_and(&matches)
        });
        let index = *found?;
        self.policy.used(&mut self.nodes, index);
        Some(Handle { index, generation: self.nodes[index as usize].generation })
    }

    /// The entry that a handle names, unless it was removed.
    pub(crate) fn peek(&self, handle: Handle) -> Option<&V> {
        let node = self.nodes.get(handle.index as usize)?;
        node.value.as_ref().filter(|_| node.generation == handle.generation)
    }

    /// As [`Store::peek`], and the entry counts as used.
    pub(crate) fn use_mut(&mut self, handle: Handle) -> Option<&mut V> {
        self.peek(handle)?;
        self.policy.used(&mut self.nodes, handle.index);
        self.nodes[handle.index as usize].value.as_mut()
    }

    /// Adds an entry, which counts as used. One that is equal must have been removed before.
    pub(crate) fn insert(&mut self, hash: u64, value: V, traits: &Traits<'_>) -> Handle {
        self.reserve(traits);
        let index = match self.free {
            NONE => {
                let node = Node { value: None, hash, generation: 0, links: Links::default() };
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
            index => {
                self.free = self.nodes[index as usize].links.older;
                index
            }
        };
        let node = &mut self.nodes[index as usize];
        node.value = Some(value);
        node.hash = hash;
        node.links = Links::default();
        let generation = node.generation;
        let nodes = &self.nodes;
        self.table.insert_unique(hash, index, |&other| nodes[other as usize].hash);
        self.policy.inserted(&mut self.nodes, index, traits);
        Handle { index, generation }
    }

    /// True when the entry is there and the policy never pushes it out.
    pub(crate) fn is_pinned(&self, handle: Handle) -> bool {
        let node = self.nodes.get(handle.index as usize);
        node.is_some_and(|node| {
            node.generation == handle.generation
                && node.value.is_some()
                && self.policy.is_pinned(&node.links)
        })
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<V> {
        self.peek(handle)?;
        self.policy.removed(&mut self.nodes, handle.index);
        let node = &mut self.nodes[handle.index as usize];
        let (hash, value) = (node.hash, node.value.take());
        node.generation = node.generation.wrapping_add(1);
        node.links.older = std::mem::replace(&mut self.free, handle.index);
        if let Ok(entry) = self.table.find_entry(hash, |&index| index == handle.index) {
            entry.remove();
        }
        value
    }

    /// Removes the entry that the policy chooses, and those that go with it up to one that is
    /// spared, and gives each to `gone`. False when there is none that may go.
    pub(crate) fn evict(&mut self, spared: Option<Handle>, mut gone: impl FnMut(V)) -> bool {
        let mut any = false;
        while let Some(victim) = self.policy.victim(&mut self.nodes) {
            let generation = self.nodes[victim.index as usize].generation;
            let handle = Handle { index: victim.index, generation };
            if spared == Some(handle) {
                break;
            }
            if let Some(value) = self.remove(handle) {
                any = true;
                gone(value);
            }
            if victim.is_last {
                break;
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Lru;

    #[test]
    fn a_handle_goes_stale_when_its_entry_is_evicted() {
        let mut store = Store::new(Lru::default());
        let first = store.insert(1, "first", &Traits::default());
        let second = store.insert(2, "second", &Traits::default());
        assert_eq!(store.find(1, |v| *v == "first"), Some(first));
        let mut gone = Vec::new();
        assert!(store.evict(None, |v| gone.push(v)));
        assert_eq!(store.peek(second), None);
        let third = store.insert(3, "third", &Traits::default());
        assert_eq!((store.peek(second), store.peek(third)), (None, Some(&"third")));
        while store.evict(None, |v| gone.push(v)) {}
        assert_eq!(gone, ["second", "first", "third"]);
        assert_eq!(store.len(), 0);
    }

    #[test]
    fn what_was_reserved_is_counted_before_it_is_used() {
        let mut store = Store::new(Lru::default());
        for key in 0..10_000_u64 {
            assert_eq!(store.reserve(&Traits::default()), 0);
            let before = store.overhead_bytes();
            store.insert(key << 57 | key, key, &Traits::default());
            assert_eq!(store.overhead_bytes(), before, "{key}");
        }
        let least = 10_000 * size_of::<Node<u64>>() as u64;
        assert!(store.overhead_bytes() < least * 3 / 2, "{}", store.overhead_bytes());
    }
}
