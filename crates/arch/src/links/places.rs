//! How many links to a server may be in use at a time, and who waits for one of them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_sys::owned::Owned;
use flyball_sys::wake::Wake;

/// The places of the links to one server, shared by the threads of a process.
#[derive(Debug)]
pub(crate) struct Places {
    /// `None` is no limit.
    most: Option<usize>,
    queue_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Those who wait, the first at the front.
    queue: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    wake: Wake,
    /// A place is its own, which it has not taken yet.
    granted: AtomicBool,
}

/// What is said to a request for a place.
#[derive(Debug)]
pub(crate) enum Entry {
    /// One was free.
    Now(Place),
    /// It waits for its turn.
    Later(Waiting),
    /// As many wait as may.
    Full,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

/// A wait for a place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    places: Arc<Places>,
    waiter: Arc<Waiter>,
}

impl Places {
    pub(crate) fn new(most: Option<usize>, queue_max: usize) -> Arc<Places> {
        Arc::new(Places { most, queue_max, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a place.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn enter(self: &Arc<Places>) -> io::Result<Entry> {
        let Some(most) = self.most else { return Ok(Entry::Now(Place(Arc::clone(self)))) };
        let mut state = self.state();
        if state.used < most {
            state.used += 1;
            return Ok(Entry::Now(Place(Arc::clone(self))));
        }
        if state.queue.len() >= self.queue_max {
            return Ok(Entry::Full);
        }
        let waiter = Arc::new(Waiter { wake: Wake::new()?, granted: AtomicBool::new(false) });
        state.queue.push_back(Arc::clone(&waiter));
        Ok(Entry::Later(Waiting { places: Arc::clone(self), waiter }))
    }

    /// A place is free: the first who waits has it.
    fn pass_on(&self) {
        if self.most.is_none() {
            return;
        }
        let mut state = self.state();
        match state.queue.pop_front() {
            Some(waiter) => {
                waiter.granted.store(true, Relaxed);
                waiter.wake.notify();
            }
            None => state.used -= 1,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl Waiting {
    /// The place, once it is there.
    pub(crate) fn turn(&self) -> Option<Place> {
        let granted = self.waiter.granted.swap(false, Relaxed);
        granted.then(|| Place(Arc::clone(&self.places)))
    }

    /// What can be read when it is there.
    pub(crate) fn descriptor(&self) -> &Arc<Owned> {
        self.waiter.wake.descriptor()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.places.state();
        let at = state.queue.iter().position(|other| Arc::ptr_eq(other, &self.waiter));
        at.and_then(|at| state.queue.remove(at));
        // One that was given and not taken is another's.
        drop(state);
        drop(self.turn());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(places: &Arc<Places>) -> Place {
        match places.enter().unwrap() {
            Entry::Now(place) => place,
            other => panic!("{other:?}"),
        }
    }

    fn later(places: &Arc<Places>) -> Waiting {
        match places.enter().unwrap() {
            Entry::Later(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn places_go_to_those_who_wait_in_their_order_and_to_no_more() {
        let places = Places::new(Some(2), 2);
        let (one, _two) = (now(&places), now(&places));
        let (first, second) = (later(&places), later(&places));
        assert!(matches!(places.enter().unwrap(), Entry::Full));
        assert!(first.turn().is_none() && second.turn().is_none());
        drop(one);
        assert!(second.turn().is_none());
        let place = first.turn().unwrap();
        assert!(first.turn().is_none(), "it is given once");
        assert!(matches!(places.enter().unwrap(), Entry::Later(_)), "one has left the queue");
        drop(place);
        assert!(second.turn().is_some());
        assert_eq!(places.state().used, 1);
    }

    #[test]
    fn who_goes_away_has_no_place_and_holds_none() {
        let places = Places::new(Some(1), 3);
        let one = now(&places);
        let (first, second, third) = (later(&places), later(&places), later(&places));
        drop(second);
        drop(one);
        // It was given its place, and goes away.
        drop(first);
        let place = third.turn().unwrap();
        assert_eq!(places.state().queue.len(), 0);
        drop(place);
        assert_eq!(places.state().used, 0);
    }

    #[test]
    fn without_a_limit_there_is_always_a_place() {
        let places = Places::new(None, 0);
        let all: Vec<Place> = (0..100).map(|_| now(&places)).collect();
        drop(all);
        assert_eq!(places.state().used, 0);
    }
}
