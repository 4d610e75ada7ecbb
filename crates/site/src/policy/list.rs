//! A list of nodes from the most to the least recent, linked through the nodes themselves.

use super::{NONE, Nodes};

/// The ends of a list. A node is in one list at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) newest: u32,
    pub(super) oldest: u32,
}

impl Default for List {
    fn default() -> List {
        List { newest: NONE, oldest: NONE }
    }
}

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.newest == NONE
    }

    /// Makes a node of the list its newest.
    #[inline]
    pub(super) fn touch(&mut self, nodes: &mut impl Nodes, index: u32) {
        if self.newest != index {
            self.unlink(nodes, index);
            self.push(nodes, index);
        }
    }

    /// Adds a node that is in no list, as the newest.
    pub(super) fn push(&mut self, nodes: &mut impl Nodes, index: u32) {
        let older = self.newest;
        let links = nodes.links(index);
        (links.newer, links.older) = (NONE, older);
        self.newest = index;
        match older {
            NONE => self.oldest = index,
            older => nodes.links(older).newer = index,
        }
    }

    /// Takes a node of the list out of it.
    pub(super) fn unlink(&mut self, nodes: &mut impl Nodes, index: u32) {
        let links = *nodes.links(index);
        match links.newer {
            NONE => self.newest = links.older,
            newer => nodes.links(newer).older = links.older,
        }
        match links.older {
            NONE => self.oldest = links.newer,
            older => nodes.links(older).newer = links.newer,
        }
    }

    /// Puts a node that is in no list in the place of one that is in this.
    pub(super) fn replace(&mut self, nodes: &mut impl Nodes, old: u32, new: u32) {
        let links = *nodes.links(old);
        let there = nodes.links(new);
        (there.newer, there.older) = (links.newer, links.older);
        match links.newer {
            NONE => self.newest = new,
            newer => nodes.links(newer).older = new,
        }
        match links.older {
            NONE => self.oldest = new,
            older => nodes.links(older).newer = new,
        }
    }

    /// Adds a whole list in front: all of its nodes are newer than those here.
    pub(super) fn put_in_front(&mut self, nodes: &mut impl Nodes, newer: List) {
        if newer.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = newer;
            return;
        }
        nodes.links(newer.oldest).older = self.newest;
        nodes.links(self.newest).newer = newer.oldest;
        self.newest = newer.newest;
    }
}
