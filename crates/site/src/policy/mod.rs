//! Caching policies (S3, section 3.1, M111): which entry of a store makes room for the next. One
//! file for each; a new one is a file, a variant of [`Chosen`] and a name in
//! [`CachePolicy`].
//!
//! A policy keeps its order in the [`Links`] that each node of the store has for it, so that a use
//! of an entry allocates nothing and touches what was found anyway.

mod hinted;
mod lfu;
mod list;
mod lru;
#[cfg(test)]
mod model;
mod structured;

pub(crate) use hinted::Hinted;
pub(crate) use lfu::Lfu;
pub(crate) use lru::Lru;
pub(crate) use structured::Structured;

/// Which file makes room for the next in a full cache (S3, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The one that was used longest ago.
    #[default]
    Lru,
    /// The one with the fewest uses; counts fade.
    Lfu,
    /// As hints say: pinned files stay, kept ones go last, others are never held.
    Hinted,
    /// Pages go together with the objects that they refer to.
    Structured,
}

impl CachePolicy {
    /// Every policy.
    pub const ALL: [CachePolicy; 4] =
        [CachePolicy::Lru, CachePolicy::Lfu, CachePolicy::Hinted, CachePolicy::Structured];

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            CachePolicy::Lru => "lru",
            CachePolicy::Lfu => "lfu",
            CachePolicy::Hinted => "hinted",
            CachePolicy::Structured => "structured",
        }
    }
}

/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// A node's place in the order: its neighbours in a list, and a word of the policy's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) newer: u32,
    pub(crate) older: u32,
    pub(crate) tag: u32,
}

impl Default for Links {
    fn default() -> Links {
        Links { newer: NONE, older: NONE, tag: 0 }
    }
}

/// The nodes of a store, as a policy sees them.
pub(crate) trait Nodes {
    /// The links of a node that is in the store.
    fn links(&mut self, index: u32) -> &mut Links;
}

/// What a hint says of an entry (policy `hinted`), in the order in which entries are pushed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing.
    #[default]
    Plain,
    /// It is pushed out after all plain ones.
    Kept,
    /// It is never pushed out.
    Pinned,
}

/// What a policy may know of an entry when it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits<'a> {
    pub(crate) class: Class,
    /// What others refer to it by (policy `structured`).
    pub(crate) id: u64,
    /// What it refers to (policy `structured`).
    pub(crate) objects: &'a [u64],
}

/// An entry that is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) index: u32,
    /// False when others have to go with it; the policy names them when it is asked again.
    pub(crate) is_last: bool,
}

/// An order of eviction. The store calls each method when the nodes are as it says.
pub(crate) trait Policy {
    /// A node may come: what the policy holds does not grow when it does, but by
    /// [`Policy::cost_bytes`].
    fn reserve(&mut self, _traits: &Traits<'_>) {}

    /// Bytes of memory that the policy holds for a node with these traits alone.
    fn cost_bytes(&self, _traits: &Traits<'_>) -> u64 {
        0
    }

    /// A node came.
    fn inserted(&mut self, nodes: &mut impl Nodes, index: u32, traits: &Traits<'_>);

    /// A node was used.
    fn used(&mut self, nodes: &mut impl Nodes, index: u32);

    /// A node is about to go, evicted or not.
    fn removed(&mut self, nodes: &mut impl Nodes, index: u32);

    /// The node that is to make room; `None` when none may.
    fn victim(&mut self, nodes: &mut impl Nodes) -> Option<Victim>;

    /// True when a node is never pushed out.
    fn is_pinned(&self, _links: &Links) -> bool {
        false
    }

    /// Bytes of memory that the policy holds beside the links.
    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// The policy that a setting names. LRU is in place; the others are behind a pointer.
#[derive(Debug)]
pub(crate) enum Chosen {
    Lru(Lru),
    Lfu(Box<Lfu>),
    Hinted(Hinted),
    Structured(Box<Structured>),
}

impl Chosen {
    pub(crate) fn new(policy: CachePolicy) -> Chosen {
        match policy {
            CachePolicy::Lru => Chosen::Lru(Lru::default()),
            CachePolicy::Lfu => Chosen::Lfu(Box::default()),
            CachePolicy::Hinted => Chosen::Hinted(Hinted::default()),
            CachePolicy::Structured => Chosen::Structured(Box::default()),
        }
    }
}

impl Policy for Chosen {
    fn reserve(&mut self, traits: &Traits<'_>) {
        if let Chosen::Structured(policy) = self {
            policy.reserve(traits);
        }
    }

    fn cost_bytes(&self, traits: &Traits<'_>) -> u64 {
        match self {
            Chosen::Structured(policy) => policy.cost_bytes(traits),
            Chosen::Lru(_) | Chosen::Lfu(_) | Chosen::Hinted(_) => 0,
        }
    }

    fn inserted(&mut self, nodes: &mut impl Nodes, index: u32, traits: &Traits<'_>) {
        match self {
            Chosen::Lru(policy) => policy.inserted(nodes, index, traits),
            Chosen::Lfu(policy) => policy.inserted(nodes, index, traits),
            Chosen::Hinted(policy) => policy.inserted(nodes, index, traits),
            Chosen::Structured(policy) => policy.inserted(nodes, index, traits),
        }
    }

    #[inline]
    fn used(&mut self, nodes: &mut impl Nodes, index: u32) {
        match self {
            Chosen::Lru(policy) => policy.used(nodes, index),
            Chosen::Lfu(policy) => policy.used(nodes, index),
            Chosen::Hinted(policy) => policy.used(nodes, index),
            Chosen::Structured(policy) => policy.used(nodes, index),
        }
    }

    fn removed(&mut self, nodes: &mut impl Nodes, index: u32) {
        match self {
            Chosen::Lru(policy) => policy.removed(nodes, index),
            Chosen::Lfu(policy) => policy.removed(nodes, index),
            Chosen::Hinted(policy) => policy.removed(nodes, index),
            Chosen::Structured(policy) => policy.removed(nodes, index),
        }
    }

    fn victim(&mut self, nodes: &mut impl Nodes) -> Option<Victim> {
        match self {
            Chosen::Lru(policy) => policy.victim(nodes),
            Chosen::Lfu(policy) => policy.victim(nodes),
            Chosen::Hinted(policy) => policy.victim(nodes),
            Chosen::Structured(policy) => policy.victim(nodes),
        }
    }

    fn is_pinned(&self, links: &Links) -> bool {
        matches!(self, Chosen::Hinted(policy) if policy.is_pinned(links))
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Chosen::Lru(_) | Chosen::Hinted(_) => 0,
            Chosen::Lfu(policy) => policy.memory_bytes(),
            Chosen::Structured(policy) => policy.memory_bytes(),
        }
    }
}
