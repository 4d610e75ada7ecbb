//! What a connection waits for while a backend works: the backend's descriptor, and its client,
//! who may leave.

use std::os::fd::AsFd;
use std::sync::Arc;

use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use crate::kernel::net;

/// A backend that is waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// A descriptor of the backend.
    pub descriptor: Arc<Owned>,
    /// What it is waited for.
    pub interest: Interest,
    /// Whether input from the client is wanted too. Otherwise only its leaving matters.
    pub reads: bool,
}

/// What a client does that nothing is wanted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Nothing.
    Waits,
    /// It sends its next request already: whether it leaves is not seen behind that.
    Sends,
    /// It closed its side, or is gone: whatever is being made for it is of no use.
    Left,
}

impl Client {
    /// Looks, without taking anything. Never blocks.
    pub fn look(socket: impl AsFd) -> Client {
        match net::has_input(socket) {
            None => Client::Waits,
            Some(true) => Client::Sends,
            Some(false) => Client::Left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_client_that_leaves_is_seen_unless_it_has_sent_more() {
        let (near, mut far) = UnixStream::pair().unwrap();
        assert_eq!(Client::look(&near), Client::Waits);
        std::io::Write::write_all(&mut far, b"GET").unwrap();
        assert_eq!(Client::look(&near), Client::Sends);
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert_eq!(Client::look(&near), Client::Left);
    }
}
