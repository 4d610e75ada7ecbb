//! What is asked for.
//!
//! # How to add a workload
//!
//! One file with one type:
//!
//! 1. Before the run it puts every request that it can ever ask for into a [`Catalog`], which
//!    prepares the bytes once, and remembers the numbers that [`Catalog::add`] gives.
//! 2. It implements [`Workload::next_session`]: it appends [`Step`]s, which name requests by these
//!    numbers, to a vector that the engine clears and uses again. A session of several bursts with
//!    think times is a vector of several steps: [`Follow`] says when each is sent.
//! 3. It implements [`Workload::fork`], because every thread has a workload of its own; the threads
//!    share the catalog. A log of sessions gives thread `i` of `n` each `n`-th session.
//! 4. What a request expects ([`Expected`]) makes `--verify` possible, and its `class` makes
//!    replies and time-outs be counted apart by size.
//!
//! Nothing else knows which workload it drives: schedules, connections and observation do not
//! change. [`url`] and [`list`] are the two shortest examples.

mod access_log;
mod conditional;
mod directory;
mod dynamic;
mod fileset;
mod limited;
mod list;
mod of_set;
mod recorded;
mod request;
mod session_log;
mod singles;
mod skipped;
mod surge;
mod target;
mod url;

pub use crate::content::Content;
pub use access_log::{AccessLog, Replaying, access_log, files_of_log};
pub use conditional::Conditional;
pub(crate) use directory::{class_files, expect_files};
pub use dynamic::{Dynamic, DynamicOptions, Page, PageSeen, PostLog, RULES, Rule};
pub(crate) use dynamic::{Place as DynamicPlace, fetch_log};
pub use fileset::FilesetMix;
pub use limited::Limited;
pub use list::WeightedList;
pub(crate) use of_set::expect_set;
pub use recorded::Recorded;
pub use request::{Catalog, Expected, Message, Prepared};
pub use session_log::session_log;
pub use singles::Singles;
pub use skipped::Skipped;
pub use surge::{Surge, SurgeParameters};
pub use url::OneUrl;

/// The number of a request in its [`Catalog`].
pub type RequestId = u32;

/// The class of a request that is counted in none.
pub(crate) const NO_CLASS: u16 = u16::MAX;

/// When a step is sent, beside the steps before it in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// It begins a burst: when every earlier reply has come, and this many nanoseconds of thinking
    /// are over. That of a first step is not waited for.
    Think(u64),
    /// As [`Follow::Think`], with a think time of the client's own.
    Pause,
    /// When the first reply of its burst has come: as many at once as may be pipelined.
    AfterFirst,
    /// With the step before it, if it may be pipelined.
    Together,
}

/// One request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is asked for.
    pub request: RequestId,
    /// When.
    pub follow: Follow,
}

/// Where sessions come from.
pub trait Workload: Send + Sync {
    /// Appends the steps of the next session to `steps`, which is empty; false when there are no
    /// more sessions. Called for every connection that is opened: it must not allocate, once
    /// `steps` is large enough.
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool;

    /// The same workload for thread `index` of `threads`: what they ask for together is what this
    /// one would ask for alone, as far as it is a log, or is drawn anew with a seed of their own.
    fn fork(&self, index: usize, threads: usize) -> Box<dyn Workload>;

    /// Mean number of requests in a session, to make rates of requests from rates of sessions.
    fn requests_per_session(&self) -> f64;
}
