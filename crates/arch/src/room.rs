//! Which connections make room when a worker is full and somebody waits for a place (M56).
//!
//! Who holds places without asking for anything must not keep others out, and neither must clients
//! that take their answers slower than the least rate: a player that has paused keeps its place
//! while there is room. No other loses a place while a request is being answered, or while its body
//! comes.

use flyball_conn::Connection;

use crate::slots::Token;

/// How long a connection has kept the worker waiting before its place is given away, in
/// milliseconds: longer than a round trip to the other side of the world, and loss on the way.
const HELD_MS: u64 = 1_000;

/// Most connections that are closed in one go.
const CLOSED_AT_ONCE_MAX: usize = 1_024;

/// Why a connection may be closed, in the order in which they go: heads that are never finished,
/// then those that are kept for another request or until their client closes them, whose clients
/// lose nothing, then those whose clients are slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Stalled,
    Kept,
    Lags,
}

/// A connection that may be closed to make room. The least goes first, and the oldest of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Yields {
    holds: Holds,
    since_ms: u64,
}

impl Yields {
    /// Whether and how readily a connection may be closed. One that is not quiet has something of
    /// its client that the machine has not seen; a slow one is slow all the same.
    pub(crate) fn of(connection: &Connection, is_quiet: bool) -> Option<Yields> {
        let quiet = |since: Option<u64>| since.filter(|_| is_quiet);
        let found = [
            (Holds::Stalled, quiet(connection.stalled_since())),
            (Holds::Kept, quiet(connection.idle_since())),
            // What it sends is thrown away.
            (Holds::Kept, connection.lingers_since()),
            (Holds::Lags, connection.lags_since()),
        ];
        let (holds, since_ms) = found.into_iter().find_map(|(of, at)| Some((of, at?)))?;
        Some(Yields { holds, since_ms })
    }

    /// Whether its client loses what it has asked for.
    pub(crate) fn cuts_an_answer(self) -> bool {
        self.holds == Holds::Lags
    }

    /// Whether it has held its place for so long that another may have it.
    pub(crate) fn is_due(self, now_ms: u64) -> bool {
        now_ms >= self.since_ms + HELD_MS
    }
}

/// Who is closed so that `wanted` find room, first those that shall go first.
pub(crate) fn choose(
    open: impl Iterator<Item = (Token, Option<Yields>)>,
    wanted: usize,
    now_ms: u64,
) -> Vec<Token> {
    let due = |(token, yields): (Token, Option<Yields>)| {
        let yields = yields.filter(|yields| yields.is_due(now_ms))?;
        Some((yields, token.bits()))
    };
    let mut due: Vec<_> = open.filter_map(due).collect();
    due.sort_unstable();
    due.truncate(wanted.min(CLOSED_AT_ONCE_MAX));
    due.into_iter().map(|(_, bits)| Token::from_bits(bits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    #[test]
    fn unfinished_heads_go_before_kept_connections_before_slow_ones_and_none_goes_early() {
        let yields = |holds, since_ms| Some(Yields { holds, since_ms });
        let mut slots = Slots::default();
        let open = [
            yields(Holds::Kept, 0),
            yields(Holds::Stalled, 300),
            None,
            yields(Holds::Stalled, 200),
            yields(Holds::Kept, 1_001),
            yields(Holds::Stalled, 1_001),
            yields(Holds::Lags, 0),
        ];
        let tokens = open.map(|yields| slots.insert(yields));
        let chosen = |wanted| choose(tokens.into_iter().zip(open), wanted, HELD_MS + 1_000);
        assert_eq!(chosen(usize::MAX), [tokens[3], tokens[1], tokens[0], tokens[6]]);
        assert_eq!(chosen(1), [tokens[3]]);
        assert_eq!(chosen(0), []);
    }
}
