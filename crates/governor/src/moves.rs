//! A move of a lever, with what it was before and why.

use std::fmt::{self, Display, Formatter, Write};

use crate::Ns;
use crate::why::Why;

/// What can be moved, or advised. Each has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lever {
    /// Whether a loop is overloaded: 0 or 1. Nothing by itself; others follow it.
    Overload,
    /// The length of the accept queue.
    Backlog,
    /// The level of the ladder.
    Level,
    /// How many may be at work behind a gate.
    Places,
    /// Threads or processes that do disk work.
    Helpers,
    /// Threads that serve connections.
    Threads,
    /// Worker processes.
    Workers,
    /// The accept-limit, of an architecture whose best one depends on the clients; advised only.
    AcceptLimit,
    /// Bytes of the content cache; advised only.
    CacheContent,
    /// The architecture; advised only.
    Architecture,
}

impl Lever {
    /// Its name in notes.
    pub fn name(self) -> &'static str {
        match self {
            Lever::Overload => "overload",
            Lever::Backlog => "backlog",
            Lever::Level => "level",
            Lever::Places => "places",
            Lever::Helpers => "helpers",
            Lever::Threads => "threads",
            Lever::Workers => "workers",
            Lever::AcceptLimit => "accept-limit",
            Lever::CacheContent => "cache-content",
            Lever::Architecture => "architecture",
        }
    }

    /// Whether it is never moved, only advised: a change empties caches or ends connections, and
    /// its gain cannot be told within minutes on one machine.
    fn is_advised_only(self) -> bool {
        matches!(self, Lever::AcceptLimit | Lever::CacheContent | Lever::Architecture)
    }
}

/// A move that is to be made, was made, or would have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What moves.
    pub lever: Lever,
    /// From this.
    pub from: u64,
    /// To this; the same as `from` where advice names no number.
    pub to: u64,
    /// Why.
    pub why: Why,
}

impl Move {
    /// It as a JSON object without line breaks.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn json(&self, out: &mut dyn Write) -> fmt::Result {
        let Move { lever, from, to, why } = self;
        write!(out, "{{\"lever\":\"{}\",\"from\":{from},\"to\":{to},", lever.name())?;
        why.members(out)?;
        out.write_str("}")
    }
}

impl Display for Move {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Move { lever, from, to, why } = self;
        let would = if lever.is_advised_only() { "would try " } else { "" };
        match from == to {
            true => write!(f, "{would}{}: {why}", lever.name()),
            false => write!(f, "{would}{} {from} -> {to}: {why}", lever.name()),
        }
    }
}

/// Who keeps moves for people to read. It must not wait.
pub trait Notes {
    /// This was decided then.
    fn note(&mut self, at: Ns, made: Move);
}

impl<F: FnMut(Ns, Move)> Notes for F {
    fn note(&mut self, at: Ns, made: Move) {
        self(at, made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Ms;

    #[test]
    fn a_move_is_told_with_its_numbers() {
        let why = Why::QueueTime { per_s: 212, time_ms: Ms(100_000_000) };
        let made = Move { lever: Lever::Backlog, from: 4_096, to: 21, why };
        assert_eq!(made.to_string(), "backlog 4096 -> 21: 212/s, 100 ms asked for");
        let mut json = String::new();
        made.json(&mut json).unwrap();
        let told = r#"{"lever":"backlog","from":4096,"to":21,"why":"queue-time","per_s":212,"#;
        assert_eq!(json, format!("{told}\"time_ms\":100}}"));
    }

    #[test]
    fn advice_says_that_it_is_advice() {
        let why = Why::DiskInTurns { percent: 40 };
        let made = Move { lever: Lever::Architecture, from: 0, to: 0, why };
        let told = "would try architecture: 40 % of the loop's time is waiting for the disk";
        assert!(made.to_string().starts_with(told), "{made}");
    }
}
