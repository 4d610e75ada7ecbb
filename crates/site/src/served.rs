//! How the body of a file leaves: as it is, or coded.

use flyball_http::coding::Coding;

/// How the body of a file leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// As it is.
    Plain,
    /// Coded here, at once, to be kept.
    Here(Coding),
    /// Coded here while it is sent.
    OnTheWay(Coding),
    /// Coded beforehand: the open file is the coded one, and the name that of the plain one.
    Beforehand(Coding),
}

impl Served {
    pub(crate) fn coding(self) -> Option<Coding> {
        match self {
            Served::Plain => None,
            Served::Here(coding) | Served::OnTheWay(coding) | Served::Beforehand(coding) => {
                Some(coding)
            }
        }
    }
}
