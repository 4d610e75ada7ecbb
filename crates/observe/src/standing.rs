//! Where connections stand, as it is told: by state of their machine, and apart from those those
//! that are between requests and still send.

use flyball_http::h1::state::State;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As its machine says, and not [`Standing::Sending`].
    At(State),
    /// Between requests, while what was answered is still being sent: it is not idle.
    Sending,
}

/// How many there are.
pub(crate) const STANDINGS: usize = State::ALL.len() + 1;

impl Standing {
    /// Of a connection whose machine is in this state and wants to write, or does not.
    pub fn new(state: State, writes: bool) -> Standing {
        match state {
            State::Idle if writes => Standing::Sending,
            state => Standing::At(state),
        }
    }

    /// The state of its machine.
    pub fn state(self) -> State {
        match self {
            Standing::At(state) => state,
            Standing::Sending => State::Idle,
        }
    }

    /// Those of connections that are open.
    pub fn open() -> impl Iterator<Item = Standing> {
        let states = State::ALL.into_iter().filter(|state| *state != State::Closed);
        states.map(Standing::At).chain([Standing::Sending])
    }

    /// Its place in a list of all.
    pub(crate) fn place(self) -> usize {
        match self {
            Standing::At(state) => state as usize,
            Standing::Sending => STANDINGS - 1,
        }
    }

    /// What it is called in `/status` and `/metrics`.
    pub fn label(self) -> &'static str {
        let Standing::At(state) = self else { return "sending" };
        match state {
            State::Idle => "idle",
            State::Head => "reading-head",
            State::Asked => "asked",
            State::AskedBody => "reading-body",
            State::AnsweredBody => "draining-body",
            State::Streaming => "streaming",
            State::Exchanging => "exchanging",
            State::Closing => "closing",
            State::Parting => "parting",
            State::Lingering => "lingering",
            State::Breaking => "breaking-off",
            State::Closed => "closed",
        }
    }
}

/// Connections by where they stand, as one of several threads saw them change that hand connections
/// to each other: the sums over all threads are right, while that of one may be below zero, and
/// wraps.
#[derive(Clone, Debug)]
pub struct StateChanges([u64; STANDINGS]);

impl Default for StateChanges {
    fn default() -> StateChanges {
        StateChanges([0; STANDINGS])
    }
}

impl StateChanges {
    /// A connection went from one place to another; `None` is before its first, or after its last.
    pub fn count(&mut self, from: Option<Standing>, to: Option<Standing>) {
        for (standing, change) in [(from, u64::MAX), (to, 1)] {
            if let Some(standing) = standing {
                let count = &mut self.0[standing.place()];
                *count = count.wrapping_add(change);
            }
        }
    }

    /// What [`Blocks::set_states`](crate::counters::Blocks::set_states) takes.
    pub fn counts(&self) -> &[u64; STANDINGS] {
        &self.0
    }
}

/// Counts connections by where they stand, for
/// [`Blocks::set_states`](crate::counters::Blocks::set_states).
pub fn count_states(all: impl Iterator<Item = Standing>) -> [u64; STANDINGS] {
    let mut counts = [0; STANDINGS];
    all.for_each(|standing| counts[standing.place()] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_place_and_a_name_of_its_own() {
        let mut all: Vec<Standing> = State::ALL.into_iter().map(Standing::At).collect();
        all.push(Standing::Sending);
        let places: Vec<usize> = all.iter().map(|standing| standing.place()).collect();
        assert_eq!(places, (0..STANDINGS).collect::<Vec<_>>());
        let mut names: Vec<&str> = all.iter().map(|standing| standing.label()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STANDINGS);
        assert_eq!(Standing::open().count(), STANDINGS - 1);
    }

    #[test]
    fn who_is_between_requests_and_sends_is_not_idle() {
        let count = |state, writes| count_states([Standing::new(state, writes)].into_iter());
        let place = |counts: [u64; STANDINGS]| counts.iter().position(|count| *count == 1);
        assert_eq!(place(count(State::Idle, false)), Some(Standing::At(State::Idle).place()));
        assert_eq!(place(count(State::Idle, true)), Some(Standing::Sending.place()));
        assert_eq!(place(count(State::Closing, true)), Some(Standing::At(State::Closing).place()));
    }
}
