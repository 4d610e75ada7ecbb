//! Faults that are planted to see that a run finds them: what a driver does wrong, done for it
//! between the driver and its kernel.

use super::random::Random;

/// What is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// A wake-up is lost: a socket is not watched, or one of its events is not told.
    LostWakeUp,
    /// A buffer is given back while it is being sent.
    GivenBackEarly,
    /// Memory of a link is given back before the server has what is sent, or its connection what
    /// came.
    LinkGivenBackEarly,
    /// A link at rest is closed by an event that says nothing of it.
    ClosesGoodLink,
    /// A plan comes back to another connection that waits for one.
    WrongExchange,
    /// A plan comes back to the slot that has asked for it, also when another connection has it.
    OutlivesConnection,
}

/// One chance in so many is taken.
const ONE_IN: usize = 4;

impl Fault {
    /// Whether a wake-up is lost here.
    pub(super) fn loses(self, random: &mut Random) -> bool {
        self == Fault::LostWakeUp && random.one_in(ONE_IN)
    }

    /// Whether a plan comes back to a slot and not to its connection.
    pub(super) fn forgets_connection(self) -> bool {
        self == Fault::OutlivesConnection
    }

    /// Whether a buffer is given back before it may be.
    pub(super) fn gives_back_early(self, random: &mut Random) -> bool {
        self == Fault::GivenBackEarly && random.one_in(ONE_IN)
    }

    /// Whether that of a link is.
    pub(super) fn gives_link_back_early(self, random: &mut Random) -> bool {
        self == Fault::LinkGivenBackEarly && random.one_in(ONE_IN)
    }

    /// Whether a link at rest is closed.
    pub(super) fn ends_rest(self) -> bool {
        self == Fault::ClosesGoodLink
    }

    /// Whether a plan goes astray.
    pub(super) fn misleads(self, random: &mut Random) -> bool {
        self == Fault::WrongExchange && random.one_in(ONE_IN)
    }
}
