//! Which connections make room when a worker is full and somebody waits for a place (M56).
//!
//! Whoever holds places without asking for anything must not keep others out. Nobody loses a place
//! while a request is being answered, or while its body comes or goes: the minimum rates are the
//! limits of those.

use crate::exchange::Exchange;
use crate::slots::Token;

/// How long a connection has kept the worker waiting before its place is given away, in
/// milliseconds: longer than a round trip to the other side of the world, and loss on the way.
const HELD_MS: u64 = 1_000;

/// Most connections that are closed in one go.
const CLOSED_AT_ONCE_MAX: usize = 1_024;

/// A connection that may be closed to make room. The least goes first: heads that are never
/// finished before connections that are kept for another request, and the oldest of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Yields {
    is_kept: bool,
    since_ms: u64,
}

impl Yields {
    /// Whether and how readily a connection may be closed.
    pub(crate) fn of(exchange: &Exchange) -> Option<Yields> {
        match (exchange.stalled_since(), exchange.idle_since()) {
            (Some(since_ms), _) => Some(Yields { is_kept: false, since_ms }),
            (None, Some(since_ms)) => Some(Yields { is_kept: true, since_ms }),
            (None, None) => None,
        }
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
    fn unfinished_heads_go_before_kept_connections_and_nobody_goes_early() {
        let yields = |is_kept, since_ms| Some(Yields { is_kept, since_ms });
        let mut slots = Slots::default();
        let open = [
            yields(true, 0),
            yields(false, 300),
            None,
            yields(false, 200),
            yields(true, 1_001),
            yields(false, 1_001),
        ];
        let tokens = open.map(|yields| slots.insert(yields));
        let chosen = |wanted| choose(tokens.into_iter().zip(open), wanted, HELD_MS + 1_000);
        assert_eq!(chosen(usize::MAX), [tokens[3], tokens[1], tokens[0]]);
        assert_eq!(chosen(1), [tokens[3]]);
        assert_eq!(chosen(0), []);
    }
}
