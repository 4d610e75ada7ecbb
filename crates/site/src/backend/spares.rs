//! Things that are used again and again, so that not each request has to make and free them: memory
//! that nobody uses goes back to the kernel at once, page by page.

use std::sync::{Mutex, PoisonError};

/// Most of a kind that nobody uses; others are freed.
const SPARES_MAX: usize = 64;

/// Those of one kind that nobody uses at the moment.
#[derive(Debug)]
pub(super) struct Spares<T>(Mutex<Vec<T>>);

impl<T> Default for Spares<T> {
    fn default() -> Spares<T> {
        Spares(Mutex::default())
    }
}

impl<T> Spares<T> {
    /// The one that was used last.
    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps one for whoever is next.
    pub(super) fn keep(&self, one: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < SPARES_MAX {
            all.push(one);
        }
    }
}
