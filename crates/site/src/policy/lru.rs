//! Least recently used: the entry that was used longest ago makes room.

use super::list::List;
use super::{Nodes, Policy, Traits, Victim};

/// One list, in order of use.
#[derive(Debug, Default)]
pub(crate) struct Lru {
    order: List,
}

impl Policy for Lru {
    fn inserted(&mut self, nodes: &mut impl Nodes, index: u32, _traits: &Traits<'_>) {
        self.order.push(nodes, index);
    }

    #[inline]
    fn used(&mut self, nodes: &mut impl Nodes, index: u32) {
        self.order.touch(nodes, index);
    }

    fn removed(&mut self, nodes: &mut impl Nodes, index: u32) {
        self.order.unlink(nodes, index);
    }

    fn victim(&mut self, _nodes: &mut impl Nodes) -> Option<Victim> {
        let index = self.order.oldest;
        (!self.order.is_empty()).then_some(Victim { index, is_last: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::model::{self, Model, Step};
    use proptest::prelude::*;

    /// A list that is searched from one end to the other; the most recently used is first.
    #[derive(Default)]
    struct Order(Vec<u8>);

    impl Model for Order {
        fn inserted(&mut self, key: u8) {
            self.0.insert(0, key);
        }

        fn used(&mut self, key: u8) {
            self.removed(key);
            self.0.insert(0, key);
        }

        fn removed(&mut self, key: u8) {
            self.0.retain(|&k| k != key);
        }

        fn victims(&mut self) -> Vec<u8> {
            self.0.last().copied().into_iter().collect()
        }
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_list_in_order_of_use(steps in model::steps()) {
            let steps: Vec<Step> = steps;
            model::compare(Lru::default(), Order::default(), &steps, |_| Traits::default())?;
        }
    }
}
