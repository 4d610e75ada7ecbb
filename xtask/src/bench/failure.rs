//! Why a comparison ended early.

use std::fmt;
use std::io;

/// Why a comparison ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong, or this machine lacks something: nothing was run.
    Unusable(String),
    /// Something failed underway.
    Broken(String),
}

impl Failure {
    /// Exit status of the process.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Failure::Unusable(_) => 2,
            Failure::Broken(_) => 1,
        }
    }

    /// Wraps an I/O error with what was being done.
    pub(crate) fn io(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure::Broken(format!("{what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unusable(why) | Failure::Broken(why) => f.write_str(why),
        }
    }
}
