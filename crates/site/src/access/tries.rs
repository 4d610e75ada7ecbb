//! Logins that failed, and from where users have logged in: counted in memory that all processes
//! share, and taken over by the sites of a reload, so that nothing is tried more often by it.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_sys::clients::{Client, Rates};

use super::settings::AuthSettings;

/// Clients and users whose failures are known, in all; those that failed least make room.
const FAILURES_KNOWN_MAX: usize = 16 * 1024;

/// How long the address of a login is remembered, in seconds: a day, so that strangers never lock
/// out a user who logs in daily.
const KNOWN_S: u64 = 24 * 60 * 60;

/// What was tried at one site.
#[derive(Debug)]
pub(crate) struct Tries {
    /// What the counts are of: the users of this file, and so many failures in a minute.
    file: Option<PathBuf>,
    most: u64,
    failures: Rates,
    /// Users, each with a client from which it has logged in lately.
    places: Rates,
    names: RandomState,
}

/// One try: it counts as a failure until it has succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    client: Client,
    name: u64,
    /// The user has logged in from this client lately.
    is_known: bool,
}

impl Tries {
    /// Those of a site with these settings: the first of `earlier` that counts the same, which is
    /// taken out, or one that knows of none. To be made before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub(super) fn of(
        settings: &AuthSettings,
        earlier: &mut Vec<Arc<Tries>>,
    ) -> io::Result<Arc<Tries>> {
        let most = settings.failures_per_minute.max(1);
        let counts_same = |tries: &Arc<Tries>| tries.file == settings.file && tries.most == most;
        if let Some(at) = earlier.iter().position(counts_same) {
            return Ok(earlier.remove(at));
        }
        Ok(Arc::new(Tries {
            file: settings.file.clone(),
            most,
            failures: Rates::new(FAILURES_KNOWN_MAX, most as f64 / 60.0, most)?,
            places: Rates::new(FAILURES_KNOWN_MAX, 1.0 / KNOWN_S as f64, 1)?,
            names: RandomState::new(),
        }))
    }

    /// A client tries to log in as this user. From where the user has logged in lately the failures
    /// of the client alone count, so that strangers who fail by a user's name do not lock the user
    /// out.
    ///
    /// # Errors
    /// The milliseconds after which it may try.
    pub(super) fn begin(&self, client: Client, user: &[u8], now_ms: u64) -> Result<Try, u64> {
        let name = self.names.hash_one(user);
        self.failures.take(client, now_ms)?;
        let is_known = self.places.knows((name, client), now_ms);
        if !is_known && let Err(wait_ms) = self.failures.take(name, now_ms) {
            self.failures.give_back(client, now_ms);
            return Err(wait_ms);
        }
        Ok(Try { client, name, is_known })
    }

    /// It has succeeded.
    pub(super) fn succeeded(&self, tried: Try, now_ms: u64) {
        let Try { client, name, is_known } = tried;
        self.failures.give_back(client, now_ms);
        if !is_known {
            self.failures.give_back(name, now_ms);
        }
        self.places.fill((name, client), now_ms);
    }
}
