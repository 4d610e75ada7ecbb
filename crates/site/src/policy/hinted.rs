//! By hints (S3, section 3.1): what a hint pins stays, what it keeps is pushed out last, and the
//! rest is in order of use. What is never to be kept does not get here.

use super::list::List;
use super::{Class, Links, Nodes, Policy, Traits, Victim};

/// Two lists in order of use; pinned entries are in none.
#[derive(Debug, Default)]
pub(crate) struct Hinted {
    plain: List,
    kept: List,
}

/// Tags.
const PLAIN: u32 = 0;
const KEPT: u32 = 1;
const PINNED: u32 = 2;

impl Hinted {
    fn list_of(&mut self, nodes: &mut impl Nodes, index: u32) -> Option<&mut List> {
        match nodes.links(index).tag {
            PLAIN => Some(&mut self.plain),
            KEPT => Some(&mut self.kept),
            _ => None,
        }
    }
}

impl Policy for Hinted {
    fn inserted(&mut self, nodes: &mut impl Nodes, index: u32, traits: &Traits<'_>) {
        nodes.links(index).tag = match traits.class {
            Class::Plain => PLAIN,
            Class::Kept => KEPT,
            Class::Pinned => PINNED,
        };
        if let Some(list) = self.list_of(nodes, index) {
            list.push(nodes, index);
        }
    }

    fn used(&mut self, nodes: &mut impl Nodes, index: u32) {
        if let Some(list) = self.list_of(nodes, index) {
            list.touch(nodes, index);
        }
    }

    fn removed(&mut self, nodes: &mut impl Nodes, index: u32) {
        if let Some(list) = self.list_of(nodes, index) {
            list.unlink(nodes, index);
        }
    }

    fn victim(&mut self, _nodes: &mut impl Nodes) -> Option<Victim> {
        let list = [self.plain, self.kept].into_iter().find(|list| !list.is_empty())?;
        Some(Victim { index: list.oldest, is_last: true })
    }

    fn is_pinned(&self, links: &Links) -> bool {
        links.tag == PINNED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{self, Model};
    use proptest::prelude::*;

    fn class(key: u8) -> Class {
        [Class::Plain, Class::Kept, Class::Pinned][usize::from(key) % 3]
    }

    /// All keys in order of use, the newest last.
    #[derive(Default)]
    struct Order(Vec<u8>);

    impl Model for Order {
        fn inserted(&mut self, key: u8) {
            self.0.push(key);
        }

        fn used(&mut self, key: u8) {
            self.removed(key);
            self.0.push(key);
        }

        fn removed(&mut self, key: u8) {
            self.0.retain(|&k| k != key);
        }

        fn victims(&mut self) -> Vec<u8> {
            let oldest = |wanted| self.0.iter().copied().find(|&key| class(key) == wanted);
            oldest(Class::Plain).or_else(|| oldest(Class::Kept)).into_iter().collect()
        }
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_list_that_is_searched_by_class(steps in model::steps()) {
            let traits = |key| Traits { class: class(key), ..Traits::default() };
            model::compare(Hinted::default(), Order::default(), &steps, traits)?;
        }
    }
}
