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
    /// Coded beforehand by gzip, and there is no plain one: whether it is decoded is not decided.
    Alone,
    /// The same, decoded here while it is sent.
    Decoded,
}

impl Served {
    /// Whether a body is made while it is sent, so that its length is not known.
    pub(crate) fn streams(self) -> bool {
        matches!(self, Served::OnTheWay(_) | Served::Decoded)
    }

    pub(crate) fn coding(self) -> Option<Coding> {
        match self {
            Served::Plain | Served::Alone | Served::Decoded => None,
            Served::Here(coding) | Served::OnTheWay(coding) | Served::Beforehand(coding) => {
                Some(coding)
            }
        }
    }
}
