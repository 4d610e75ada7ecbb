//! Property tests of policies: a store and a plain model take the same steps, and must evict the
//! same entries.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::{Policy, Traits};
use crate::store::Store;

/// Keys are below this, so that most steps meet an entry.
pub(crate) const KEYS: u8 = 12;

/// What is done to a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A request: a use if it is there, else an insertion.
    Request(u8),
    /// The entry is dropped, if it is there.
    Remove(u8),
    /// Whoever has to go goes.
    Evict,
}

/// What a policy should do, said as plainly as possible.
pub(crate) trait Model {
    fn inserted(&mut self, key: u8);
    fn used(&mut self, key: u8);
    fn removed(&mut self, key: u8);
    /// Which keys go next, in any order; they are still there. [`Model::removed`] follows for each.
    fn victims(&mut self) -> Vec<u8>;
}

/// Steps, with enough requests for counts to grow and age.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..KEYS).prop_map(Step::Request),
        1 => (0..KEYS).prop_map(Step::Remove),
        2 => Just(Step::Evict),
    ];
    prop::collection::vec(step, 0..600)
}

/// Runs the steps on both. There are few hashes, so that they collide.
pub(crate) fn compare<P: Policy>(
    policy: P,
    mut model: impl Model,
    steps: &[Step],
    traits: impl Fn(u8) -> Traits<'static>,
) -> TestCaseResult {
    let mut store = Store::new(policy);
    let mut held = Vec::new();
    for step in steps {
        match *step {
            Step::Request(key) => {
                let hash = u64::from(key % 3);
                let found = store.find(hash, |&k| k == key);
                prop_assert_eq!(found.is_some(), held.contains(&key));
                if found.is_some() {
                    model.used(key);
                } else {
                    store.insert(hash, key, &traits(key));
                    model.inserted(key);
                    held.push(key);
                }
            }
            Step::Remove(key) => {
                // Looking for it would be a use: the model is told of that.
                let Some(handle) = store.find(u64::from(key % 3), |&k| k == key) else { continue };
                model.used(key);
                prop_assert_eq!(store.remove(handle), Some(key));
                model.removed(key);
                held.retain(|&k| k != key);
            }
            Step::Evict => {
                let mut expected = model.victims();
                let mut gone = Vec::new();
                prop_assert_eq!(store.evict(None, |key| gone.push(key)), !expected.is_empty());
                gone.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(&gone, &expected);
                for key in gone {
                    model.removed(key);
                    held.retain(|&k| k != key);
                }
            }
        }
        prop_assert_eq!(store.len(), held.len());
    }
    Ok(())
}
