//! Session tickets (RFC 8446, section 4.6.1; RFC 5077) whose keys all workers have in common.
//!
//! A key is derived from a root and the number of a period, so that all workers change it at the
//! same moment and tell each other nothing. A ticket is accepted for the period in which it was
//! made and the one after it, and for the one before too, since clocks may differ. It is bound to
//! the policy of the sites that it was made for: under another it is no ticket.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

/// Bytes of a root.
pub const ROOT_BYTES: usize = 32;

/// How long a key is used, in seconds.
const PERIOD_S: u64 = 12 * 3_600;

/// Bytes of the name of a key, with which a ticket begins.
const NAME_BYTES: usize = 16;

/// Bytes of a key of AES-256.
const KEY_BYTES: usize = 32;

/// What keys are derived from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Root(pub [u8; ROOT_BYTES]);

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Root(..)")
    }
}

impl Root {
    /// That of a text which is secret, such as a file that several servers have in common.
    pub fn of_text(text: &[u8]) -> Root {
        let mut root = [0; ROOT_BYTES];
        derive(text, b"flyball root", &mut root);
        Root(root)
    }
}

/// How many bytes are derived.
#[derive(Clone, Copy)]
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF with SHA-256 (RFC 5869). Less than 8,160 bytes are never refused.
fn derive(secret: &[u8], information: &[u8], to: &mut [u8]) {
    let extracted = Salt::new(HKDF_SHA256, b"flyball tickets").extract(secret);
    let information = [information];
    let expanded = extracted.expand(&information, Bytes(to.len()));
    let filled = expanded.and_then(|expanded| expanded.fill(to));
    debug_assert!(filled.is_ok());
}

/// A key of one period.
struct Key {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl Key {
    fn of(root: &Root, period: u64) -> Option<Key> {
        let mut bytes = [0; NAME_BYTES + KEY_BYTES];
        derive(&root.0, &period.to_be_bytes(), &mut bytes);
        let (name, key) = bytes.split_first_chunk::<NAME_BYTES>()?;
        let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
        Some(Key { name: *name, key: LessSafeKey::new(key) })
    }
}

/// The keys of a moment.
struct Keys {
    /// The period, and the number of the roots, that they are of.
    period: u64,
    roots: Vec<Root>,
    /// The one that tickets are made with, then all others that are accepted.
    all: Vec<Key>,
}

impl Keys {
    fn of(roots: &[Root], period: u64) -> Keys {
        let periods = [period, period.wrapping_sub(1), period.wrapping_add(1)];
        let pairs = roots.iter().flat_map(|root| periods.iter().map(move |at| (root, *at)));
        let all = pairs.filter_map(|(root, at)| Key::of(root, at)).collect();
        Keys { period, roots: roots.to_vec(), all }
    }
}

/// The keys of tickets, and the time by which they change.
pub struct Tickets {
    /// The time, in seconds since 1970, as it was told last.
    now_s: AtomicU64,
    keys: RwLock<Arc<Keys>>,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("now_s", &self.now_s).finish_non_exhaustive()
    }
}

impl Tickets {
    /// Tickets are made with the first root, and those that were made with any are accepted; with
    /// none there are none. The time is in seconds since 1970.
    pub fn new(roots: &[Root], now_s: u64) -> Tickets {
        let keys = Arc::new(Keys::of(roots, now_s / PERIOD_S));
        Tickets { now_s: AtomicU64::new(now_s), keys: RwLock::new(keys) }
    }

    /// Tells the time. It costs next to nothing while the second is the same.
    pub fn tell(&self, now_s: u64) {
        if self.now_s.load(Relaxed) != now_s {
            self.now_s.store(now_s, Relaxed);
        }
    }

    /// The time that was told last, in seconds since 1970.
    pub(crate) fn now_s(&self) -> u64 {
        self.now_s.load(Relaxed)
    }

    /// These roots hold from now on.
    pub fn renew(&self, roots: &[Root]) {
        let keys = Arc::new(Keys::of(roots, self.now_s() / PERIOD_S));
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn keys(&self) -> Arc<Keys> {
        let period = self.now_s() / PERIOD_S;
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        if keys.period == period {
            return keys;
        }
        let mut kept = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if kept.period != period {
            *kept = Arc::new(Keys::of(&kept.roots, period));
        }
        Arc::clone(&kept)
    }
}

/// Makes and takes the tickets of sites that have this policy.
#[derive(Debug)]
pub(crate) struct Ticketer {
    pub(crate) tickets: Arc<Tickets>,
    /// A digest of the policy.
    pub(crate) policy: [u8; 32],
}

impl Ticketer {
    /// What a ticket is bound to.
    fn bound(&self, name: &[u8]) -> Aad<Vec<u8>> {
        Aad::from([name, &self.policy].concat())
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        !self.tickets.keys().all.is_empty()
    }

    fn lifetime(&self) -> u32 {
        PERIOD_S as u32
    }

    /// The name of the key, a nonce, and what was encrypted with its tag.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.tickets.keys();
        let key = keys.all.first()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let bound = self.bound(&key.name);
        let nonce_bytes = nonce;
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.key.seal_in_place_append_tag(nonce, bound, &mut sealed).ok()?;
        Some([&key.name[..], &nonce_bytes, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.tickets.keys();
        // The names are on the wire: comparing them tells nothing.
        let key = keys.all.iter().find(|key| key.name == *name)?;
        let mut opened = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = key.key.open_in_place(nonce, self.bound(name), &mut opened).ok()?.len();
        opened.truncate(len);
        Some(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_S: u64 = 1_800_000_000;

    fn ticketer(root: u8, policy: u8, now_s: u64) -> Ticketer {
        let tickets = Arc::new(Tickets::new(&[Root([root; ROOT_BYTES])], now_s));
        Ticketer { tickets, policy: [policy; 32] }
    }

    #[test]
    fn a_ticket_is_accepted_by_every_worker_of_the_same_root_and_policy() {
        let ticket = ticketer(1, 1, NOW_S).encrypt(b"state").unwrap();
        assert_eq!(ticketer(1, 1, NOW_S).decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(ticketer(2, 1, NOW_S).decrypt(&ticket), None);
        assert_eq!(ticketer(1, 2, NOW_S).decrypt(&ticket), None);
    }

    #[test]
    fn a_key_is_accepted_for_the_period_after_its_own_and_no_longer() {
        let one = ticketer(1, 1, NOW_S);
        let ticket = one.encrypt(b"state").unwrap();
        for (later_s, holds) in [(0, true), (PERIOD_S, true), (2 * PERIOD_S, false)] {
            one.tickets.tell(NOW_S + later_s);
            assert_eq!(one.decrypt(&ticket).is_some(), holds, "{later_s}");
        }
        let behind = ticketer(1, 1, NOW_S - PERIOD_S);
        assert!(behind.decrypt(&ticket).is_some());
    }

    #[test]
    fn an_older_root_is_accepted_while_it_is_kept() {
        let one = ticketer(1, 1, NOW_S);
        let ticket = one.encrypt(b"state").unwrap();
        let [old, new] = [1, 2].map(|byte| Root([byte; ROOT_BYTES]));
        one.tickets.renew(&[new, old]);
        assert!(one.decrypt(&ticket).is_some());
        assert!(ticketer(2, 1, NOW_S).decrypt(&one.encrypt(b"new").unwrap()).is_some());
        one.tickets.renew(&[new]);
        assert!(one.decrypt(&ticket).is_none());
        one.tickets.renew(&[]);
        assert!(!one.enabled() && one.encrypt(b"state").is_none());
    }

    proptest! {
        #[test]
        fn what_was_changed_or_made_up_is_no_ticket(bytes: Vec<u8>, at: usize, by in 1..=255_u8) {
            let one = ticketer(1, 1, NOW_S);
            prop_assert_eq!(one.decrypt(&bytes), None);
            let mut ticket = one.encrypt(&bytes).unwrap();
            let at = at % ticket.len();
            ticket[at] ^= by;
            prop_assert_eq!(one.decrypt(&ticket), None);
        }
    }
}
