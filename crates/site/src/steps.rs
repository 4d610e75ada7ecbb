//! Operations that may wait, in sequence.

use std::any::Any;
use std::fmt::Debug;

use flyball_sys::disk::{Done, Op};

/// Operations that may wait, in sequence: what a plan of a [`Source`](crate::source::Source)
/// consists of. What they find stays here until [`Plan::into_steps`](crate::Plan::into_steps)
/// gives it back.
pub trait Steps: Any + Debug + Send {
    /// The next operation; `None` when there is none left. Its result comes with [`Steps::done`]
    /// before this is called again.
    fn next_op(&mut self) -> Option<Op>;

    /// The result of that operation.
    fn done(&mut self, done: Done);

    /// An operation that was given out is lost with whatever it held: it is the next one again.
    fn lost(&mut self) {}
}
