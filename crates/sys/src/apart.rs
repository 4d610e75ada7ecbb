//! Tests that need a table of descriptors of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::process::{self, Forked, fork, wait_for};

/// Runs `check` in a process of one thread, and fails when it does. The other tests of this process
/// open and close meanwhile, and those that fork copy what is open: an end that is dropped here
/// would not be gone before their children are.
#[track_caller]
pub(crate) fn apart(check: impl Fn()) {
    match fork().unwrap() {
        Forked::Child => {
            let done = catch_unwind(AssertUnwindSafe(&check));
            process::exit_now(if done.is_ok() { 0 } else { 1 });
        }
        Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 0),
    }
}
