//! Who has the links of a loop: connections, or none.

use std::sync::Arc;

use flyball_site::Upstream;

use super::link::Link;
use crate::slots::{Slots, Token};

/// Who has a link.
#[derive(Debug)]
pub(super) enum User {
    /// A connection.
    Connection(Token),
    /// None: it is at rest.
    None(Box<Link>),
}

impl User {
    /// The link, if it is at rest and leads there.
    fn link_to(&self, upstream: &Arc<Upstream>) -> Option<&Link> {
        match self {
            User::None(link) if link.upstream().is_some_and(|one| Arc::ptr_eq(one, upstream)) => {
                Some(link)
            }
            _ => None,
        }
    }
}

/// What a loop knows of a link.
pub(super) trait Used {
    /// Who has it.
    fn user(&mut self) -> &mut User;
}

/// Those at rest, the one that was used last at the end: the others grow old and are closed by the
/// server. Some may have ended.
#[derive(Debug, Default)]
pub(super) struct Resting(Vec<Token>);

impl Resting {
    /// One more is at rest.
    pub(super) fn push(&mut self, token: Token) {
        self.0.push(token);
    }

    /// How many lead there.
    pub(super) fn count(
        &mut self,
        table: &mut Slots<impl Used>,
        upstream: &Arc<Upstream>,
    ) -> usize {
        self.0.retain(|token| table.find(*token).is_some());
        let mut leads_there = |token: &&Token| leads_to(table, **token, upstream);
        self.0.iter().filter(|token| leads_there(token)).count()
    }

    /// Gives a connection one that leads there.
    pub(super) fn take(
        &mut self,
        table: &mut Slots<impl Used>,
        upstream: &Arc<Upstream>,
        connection: Token,
    ) -> Option<(Token, Box<Link>)> {
        let at = self.0.iter().rposition(|token| leads_to(table, *token, upstream))?;
        let token = self.0.remove(at);
        let user = table.find(token)?.user();
        match std::mem::replace(user, User::Connection(connection)) {
            User::None(link) => Some((token, link)),
            User::Connection(_) => None,
        }
    }

    /// All, none of which is at rest any more.
    pub(super) fn take_all(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.0)
    }
}

fn leads_to(table: &mut Slots<impl Used>, token: Token, upstream: &Arc<Upstream>) -> bool {
    table.find(token).is_some_and(|one| one.user().link_to(upstream).is_some())
}
