//! By structure (S3, section 3.1): a page and the objects that it refers to are one group. A use of
//! any of them is a use of all, and they are pushed out together, the group that was used longest
//! ago first.
//!
//! An object that several pages refer to is in the group of the one that was used last: when a
//! group that was not the newest is used, it takes the objects that its page refers to from the
//! others. So whoever goes first takes no object away from a page that stays. Groups are bounded,
//! which also bounds what one use costs.

use hashbrown::HashTable;

use super::list::List;
use super::{NONE, Nodes, Policy, Traits, Victim};
use crate::blocks::block_bytes;

/// Most members of a group; what else its pages refer to stands alone.
pub(crate) const GROUP_MAX: u32 = 64;

/// A list of groups, each by its leader, in order of use.
#[derive(Debug, Default)]
pub(crate) struct Structured {
    groups: List,
    /// By node.
    members: Vec<Member>,
    by_id: HashTable<u32>,
    /// For each object that pages refer to, the page that was used last, whether or not the object
    /// is there.
    wanted: HashTable<Want>,
    /// Bytes of the lists of objects.
    object_bytes: u64,
}

/// A node's place in its group: a ring.
#[derive(Debug)]
struct Member {
    id: u64,
    leader: u32,
    next: u32,
    previous: u32,
    /// Members of the group; only the leader's counts.
    count: u32,
    objects: Box<[u64]>,
}

#[derive(Clone, Copy, Debug)]
struct Want {
    id: u64,
    page: u32,
}

impl Structured {
    fn member(&mut self, index: u32) -> &mut Member {
        &mut self.members[index as usize]
    }

    fn leader_of(&self, index: u32) -> u32 {
        self.members[index as usize].leader
    }

    /// The group of a node is the newest, and takes what its page and the node refer to.
    fn use_group(&mut self, nodes: &mut impl Nodes, index: u32) {
        let leader = self.leader_of(index);
        // What it refers to came to it when it became the newest, or later when it was inserted.
        if self.groups.newest == leader {
            return;
        }
        self.groups.touch(nodes, leader);
        self.gather(nodes, leader);
        if index != leader {
            self.gather(nodes, index);
        }
    }

    /// Takes the objects of a page into its group.
    fn gather(&mut self, nodes: &mut impl Nodes, page: u32) {
        let objects = std::mem::take(&mut self.member(page).objects);
        let leader = self.leader_of(page);
        for &id in &objects {
            self.want(id, page);
            let members = &self.members;
            let same = |&&index: &&u32| members[index as usize].id == id;
            let found: [u32; VARIANTS_MAX] = {
                let mut found = [NONE; VARIANTS_MAX];
                let there = self.by_id.iter_hash(id).filter(same);
                found.iter_mut().zip(there).for_each(|(slot, index)| *slot = *index);
                found
            };
            for index in found.into_iter().take_while(|index| *index != NONE) {
                self.join(nodes, index, leader);
            }
        }
        self.member(page).objects = objects;
    }

    fn want(&mut self, id: u64, page: u32) {
        match self.wanted.find_mut(id, |want| want.id == id) {
            Some(want) => want.page = page,
            None => {
                self.wanted.insert_unique(id, Want { id, page }, |want| want.id);
            }
        }
    }

    /// Moves a node to the group of `leader`, with its own group if it leads one and both fit.
    fn join(&mut self, nodes: &mut impl Nodes, index: u32, leader: u32) {
        let before = self.leader_of(index);
        let moving = if before == index { self.member(index).count } else { 1 };
        if before == leader || self.member(leader).count + moving > GROUP_MAX {
            return;
        }
        if before == index {
            self.groups.unlink(nodes, index);
        } else {
            self.leave(index);
        }
        let mut at = index;
        loop {
            self.member(at).leader = leader;
            at = self.member(at).next;
            if at == index {
                break;
            }
        }
        // Two rings become one when the successors of a node of each change places.
        let (ours, theirs) = (self.member(leader).next, self.member(index).next);
        self.member(leader).next = theirs;
        self.member(theirs).previous = leader;
        self.member(index).next = ours;
        self.member(ours).previous = index;
        self.member(leader).count += moving;
    }

    /// Takes a node that does not lead out of its ring; it is a ring of its own then.
    fn leave(&mut self, index: u32) {
        let Member { next, previous, leader, .. } = *self.member(index);
        self.member(previous).next = next;
        self.member(next).previous = previous;
        self.member(leader).count -= 1;
        let member = self.member(index);
        (member.next, member.previous) = (index, index);
    }

    /// The next of the ring leads in the place of a leader that goes.
    fn pass_lead(&mut self, nodes: &mut impl Nodes, index: u32) {
        let (heir, count) = (self.member(index).next, self.member(index).count);
        self.groups.replace(nodes, index, heir);
        self.member(heir).count = count;
        let mut at = heir;
        loop {
            self.member(at).leader = heir;
            at = self.member(at).next;
            if at == heir {
                break;
            }
        }
    }
}

/// Entries of one name that are looked for: a file has an entry for each way to send it.
const VARIANTS_MAX: usize = 8;

impl Policy for Structured {
    fn reserve(&mut self, traits: &Traits<'_>) {
        if self.members.len() == self.members.capacity() {
            self.members.reserve_exact((self.members.len() / 8).max(4));
        }
        let members = &self.members;
        self.by_id.reserve(1, |&other| members[other as usize].id);
        self.wanted.reserve(traits.objects.len(), |want| want.id);
    }

    fn cost_bytes(&self, traits: &Traits<'_>) -> u64 {
        block_bytes(size_of_val(traits.objects))
    }

    fn inserted(&mut self, nodes: &mut impl Nodes, index: u32, traits: &Traits<'_>) {
        let id = traits.id;
        let member = Member {
            id,
            leader: index,
            next: index,
            previous: index,
            count: 1,
            objects: traits.objects.into(),
        };
        match self.members.get_mut(index as usize) {
            Some(place) => *place = member,
            None => self.members.push(member),
        }
        self.object_bytes += self.cost_bytes(traits);
        let members = &self.members;
        self.by_id.insert_unique(id, index, |&other| members[other as usize].id);
        self.groups.push(nodes, index);
        let page = self.wanted.find(id, |want| want.id == id).map(|want| want.page);
        if let Some(page) = page {
            self.use_group(nodes, page);
        }
        self.gather(nodes, index);
    }

    fn used(&mut self, nodes: &mut impl Nodes, index: u32) {
        self.use_group(nodes, index);
    }

    fn removed(&mut self, nodes: &mut impl Nodes, index: u32) {
        let objects = std::mem::take(&mut self.member(index).objects);
        for id in &objects {
            let wanted = self.wanted.find_entry(*id, |want| want.id == *id && want.page == index);
            if let Ok(want) = wanted {
                want.remove();
            }
        }
        self.object_bytes -= block_bytes(size_of_val(&*objects));
        let id = self.member(index).id;
        if let Ok(entry) = self.by_id.find_entry(id, |other| *other == index) {
            entry.remove();
        }
        if self.leader_of(index) == index {
            if self.member(index).next == index {
                self.groups.unlink(nodes, index);
                return;
            }
            self.pass_lead(nodes, index);
        }
        self.leave(index);
    }

    fn victim(&mut self, _nodes: &mut impl Nodes) -> Option<Victim> {
        let oldest = self.groups.oldest;
        let next = self.members.get(oldest as usize)?.next;
        Some(Victim { index: next, is_last: next == oldest })
    }

    fn memory_bytes(&self) -> u64 {
        let members = block_bytes(self.members.capacity() * size_of::<Member>());
        let by_id = block_bytes(self.by_id.allocation_size());
        let wanted = block_bytes(self.wanted.allocation_size());
        size_of::<Structured>() as u64 + members + by_id + wanted + self.object_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{self, KEYS, Model};
    use crate::store::Store;
    use proptest::prelude::*;

    /// Pages are 0 to 3; 4 is a style sheet, an object that refers to others.
    fn objects(key: u8) -> &'static [u64] {
        match key {
            0 => &[4, 5, 6],
            1 => &[4, 6, 7, 20],
            2 => &[8, 2],
            4 => &[9, 10],
            _ => &[],
        }
    }

    /// Groups in order of use, the newest last; a group is its leader and then the others.
    #[derive(Default)]
    struct Groups {
        groups: Vec<Vec<u8>>,
        wanted: Vec<(u8, u8)>,
    }

    impl Groups {
        fn at(&self, key: u8) -> Option<usize> {
            self.groups.iter().position(|group| group.contains(&key))
        }

        fn gather(&mut self, page: u8) {
            for object in objects(page) {
                let object = *object as u8;
                self.wanted.retain(|(wanted, _)| *wanted != object);
                self.wanted.push((object, page));
                self.join(object, page);
            }
        }

        fn join(&mut self, key: u8, page: u8) {
            let (Some(from), Some(to)) = (self.at(key), self.at(page)) else { return };
            if from == to {
                return;
            }
            let group = &mut self.groups[from];
            let mut moving = if group[0] == key { std::mem::take(group) } else { vec![key] };
            group.retain(|k| *k != key);
            // Who came last leads next, should the leader go.
            moving.rotate_left(1);
            self.groups[to].splice(1..1, moving);
            self.groups.retain(|group| !group.is_empty());
        }

        fn put_last(&mut self, key: u8) {
            let group = self.groups.remove(self.at(key).unwrap());
            self.groups.push(group);
        }
    }

    impl Model for Groups {
        fn inserted(&mut self, key: u8) {
            self.groups.push(vec![key]);
            if let Some((_, page)) = self.wanted.iter().find(|(object, _)| *object == key) {
                self.used(*page);
            }
            self.gather(key);
        }

        fn used(&mut self, key: u8) {
            if self.groups.last().is_some_and(|group| group.contains(&key)) {
                return;
            }
            self.put_last(key);
            let leader = self.groups.last().unwrap()[0];
            self.gather(leader);
            if key != leader {
                self.gather(key);
            }
        }

        fn removed(&mut self, key: u8) {
            let at = self.at(key).unwrap();
            self.groups[at].retain(|k| *k != key);
            self.groups.retain(|group| !group.is_empty());
            self.wanted.retain(|(_, page)| *page != key);
        }

        fn victims(&mut self) -> Vec<u8> {
            self.groups.first().cloned().unwrap_or_default()
        }
    }

    fn traits(key: u8) -> Traits<'static> {
        Traits { id: u64::from(key), objects: objects(key), ..Traits::default() }
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_list_of_groups(steps in model::steps()) {
            prop_assert!(u64::from(KEYS) > 10);
            model::compare(Structured::default(), Groups::default(), &steps, traits)?;
        }
    }

    fn request(store: &mut Store<u8, Structured>, key: u8) {
        if store.find(u64::from(key), |&k| k == key).is_none() {
            store.insert(u64::from(key), key, &traits(key));
        }
    }

    fn evict(store: &mut Store<u8, Structured>) -> Vec<u8> {
        let mut gone = Vec::new();
        store.evict(None, |key| gone.push(key));
        gone.sort_unstable();
        gone
    }

    #[test]
    fn a_page_goes_with_its_objects_and_a_shared_object_stays_with_the_newer_page() {
        let mut store = Store::new(Structured::default());
        for key in [0, 4, 5, 6, 1, 7, 3] {
            request(&mut store, key);
        }
        // 4 and 6 are now of page 1.
        assert_eq!(evict(&mut store), [0, 5]);
        // A use of an object is one of its page.
        request(&mut store, 7);
        assert_eq!(evict(&mut store), [3]);
        assert_eq!(evict(&mut store), [1, 4, 6, 7]);
        assert_eq!(evict(&mut store), Vec::<u8>::new());
    }

    #[test]
    fn a_group_is_bounded() {
        let mut store = Store::new(Structured::default());
        let ids: Vec<u64> = (1..=u64::from(2 * GROUP_MAX)).collect();
        store.insert(0, 0_u64, &Traits { id: 0, objects: &ids, ..Traits::default() });
        for &id in &ids {
            store.insert(id, id, &Traits { id, ..Traits::default() });
        }
        let mut most = 0;
        loop {
            let mut gone = 0;
            if !store.evict(None, |_| gone += 1) {
                break;
            }
            most = most.max(gone);
        }
        assert_eq!(most, GROUP_MAX);
    }
}
