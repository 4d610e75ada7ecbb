//! A step of a handshake that takes long, as a signature by RSA does, on its way to another thread.

use std::sync::{Mutex, PoisonError};

use flyball_sys::disk::Compute;
use flyball_tls::{Opened, Session};

/// The step, until it is back.
#[derive(Debug)]
pub struct Apart(Mutex<Option<Step>>);

/// A session, and what it is to open.
#[derive(Debug)]
pub struct Step {
    pub session: Session,
    /// Cipher text, from the first record that is not opened.
    pub cipher: Vec<u8>,
    /// What its client is to be told.
    pub wire: Vec<u8>,
    /// What was opened, once the step is taken.
    pub opened: Option<Opened>,
}

impl Apart {
    pub fn new(session: Session, cipher: Vec<u8>) -> Apart {
        Apart(Mutex::new(Some(Step { session, cipher, wire: Vec::new(), opened: None })))
    }

    /// Gives it back, taken or not.
    pub fn take(&self) -> Option<Step> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Compute for Apart {
    fn compute(&self) {
        let mut step = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Step { session, cipher, wire, opened }) = &mut *step {
            // What its client has said already is kept in the session.
            opened.get_or_insert_with(|| session.open(cipher, &mut [], wire));
        }
    }
}
