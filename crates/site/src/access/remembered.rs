//! Logins that were verified lately, so that a page with fifty pictures costs one password hash.
//!
//! Held is not the password but a keyed hash of user and password, whose key is random, known to
//! this server alone and gone with it.

use std::io;

use blake2::Blake2sMac256;
use blake2::digest::{FixedOutput, KeyInit, Update};
use flyball_sys::clients::Client;
use flyball_sys::random;

/// Sets of the table, and entries in each: so many logins are remembered for a site, per worker.
const SETS: usize = 256;
const WAYS: usize = 4;

/// A keyed hash of a login.
pub(super) type Proof = [u64; 4];

/// The key by which logins are hashed.
#[derive(Clone)]
pub(super) struct ProofKey([u8; 32]);

/// What was verified, until when.
#[derive(Debug)]
pub(super) struct Remembered {
    entries: Vec<Entry>,
    lasts_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    proof: Proof,
    until_ms: u64,
}

impl std::fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProofKey")
    }
}

impl ProofKey {
    /// A random one.
    ///
    /// # Errors
    /// When the kernel has no random bytes, which no kernel of this decade has.
    pub(super) fn random() -> io::Result<ProofKey> {
        let mut key = [0; 32];
        random::fill(&mut key)?;
        Ok(ProofKey(key))
    }

    /// The keyed hash of a login from one client (BLAKE2s, RFC 7693). Another client that guesses
    /// is not remembered with it: what it tries is verified, and counts as a failure.
    pub(super) fn proof(&self, client: Client, user: &[u8], password: &[u8]) -> Proof {
        let mut mac = Blake2sMac256::new(&self.0.into());
        let (kind, address) = match client {
            Client::V4(address) => (4u8, u64::from(address)),
            Client::V6(network) => (6, network),
            Client::Local => (0, 0),
        };
        mac.update(&[kind]);
        mac.update(&address.to_le_bytes());
        // The length first: no user and password together look like another two.
        mac.update(&(user.len() as u64).to_le_bytes());
        mac.update(user);
        mac.update(password);
        let bytes: [u8; 32] = mac.finalize_fixed().into();
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
            u64::from_le_bytes(word)
        };
        [word(0), word(1), word(2), word(3)]
    }
}

impl Remembered {
    /// Nothing yet; what comes lasts for so many milliseconds.
    pub(super) fn new(lasts_ms: u64) -> Remembered {
        Remembered { entries: vec![Entry::default(); SETS * WAYS], lasts_ms }
    }

    /// Whether this login was verified lately. How long it takes does not depend on how much of
    /// a proof is right.
    pub(super) fn knows(&self, proof: &Proof, now_ms: u64) -> bool {
        let set = set_of(proof);
        self.entries[set..set + WAYS]
            .iter()
            .fold(false, |known, entry| known | (now_ms < entry.until_ms && same(entry, proof)))
    }

    /// It was verified now. The oldest of its set makes room.
    pub(super) fn add(&mut self, proof: &Proof, now_ms: u64) {
        let set = set_of(proof);
        let entries = &mut self.entries[set..set + WAYS];
        let at = match entries.iter().position(|entry| same(entry, proof)) {
            Some(at) => at,
            None => (0..WAYS).min_by_key(|at| entries[*at].until_ms).unwrap_or(0),
        };
        entries[at] = Entry { proof: *proof, until_ms: now_ms + self.lasts_ms };
    }
}

fn set_of(proof: &Proof) -> usize {
    proof[0] as usize % SETS * WAYS
}

/// Compares whole words, and looks at the result only at the end.
fn same(entry: &Entry, proof: &Proof) -> bool {
    let differing = entry.proof.iter().zip(proof).fold(0, |all, (a, b)| all | (a ^ b));
    differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Client = Client::V4(7);

    #[test]
    fn a_login_is_known_for_its_time_and_no_other_is() {
        let key = ProofKey::random().unwrap();
        let mut remembered = Remembered::new(1_000);
        let login = key.proof(HOME, b"ann", b"secret");
        assert!(!remembered.knows(&login, 5));
        remembered.add(&login, 5);
        assert!(remembered.knows(&login, 1_004) && !remembered.knows(&login, 1_005));
        for (user, password) in [("ann", "secre"), ("anns", "ecret"), ("", "annsecret")] {
            assert!(!remembered.knows(&key.proof(HOME, user.as_bytes(), password.as_bytes()), 5));
        }
        for elsewhere in [Client::V4(8), Client::V6(7), Client::Local] {
            assert!(!remembered.knows(&key.proof(elsewhere, b"ann", b"secret"), 5));
        }
        let other = ProofKey::random().unwrap();
        assert!(!remembered.knows(&other.proof(HOME, b"ann", b"secret"), 5));
    }

    #[test]
    fn the_table_does_not_grow_and_the_newest_stay() {
        let mut remembered = Remembered::new(10_000_000);
        for at in 0..10_000 {
            remembered.add(&[at, at, at, at], at);
        }
        assert_eq!(remembered.entries.len(), SETS * WAYS);
        let known = (0..10_000).filter(|at| remembered.knows(&[*at; 4], 10_000));
        assert_eq!(known.collect::<Vec<_>>(), (10_000 - 1_024..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_remembered_when_that_lasts_no_time() {
        let mut remembered = Remembered::new(0);
        remembered.add(&[1; 4], 7);
        assert!(!remembered.knows(&[1; 4], 7));
    }
}
