//! Logins that failed, and from where users have logged in: counted in memory that all processes
//! share, for all sites that have the same users, and taken over by the sites of a reload, so that
//! nothing is tried more often by either.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_sys::clients::{Client, Rate, Rates};

use super::settings::AuthSettings;

/// Clients and users whose failures are known, together; those that failed least make room.
const FAILURES_KNOWN_MAX: usize = 16 * 1024;

/// How long the address of a login is remembered, in seconds: a day, so that strangers never lock
/// out a user who logs in daily.
const KNOWN_S: u64 = 24 * 60 * 60;

/// What a client or a user may use up by failures in a minute: a share of it by each, which is
/// larger where a site allows fewer. So those of sites that allow different numbers add up.
const SHARES: u64 = 60_000_000;

/// What was tried at the sites of one file of users.
#[derive(Debug)]
pub(crate) struct Tries {
    file: Option<PathBuf>,
    /// In shares.
    failures: (Rates, Rate),
    /// Users, each with a client from which it has logged in lately.
    places: (Rates, Rate),
    names: RandomState,
}

/// One try: it counts as a failure until it has succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    client: Client,
    name: u64,
    /// What it costs if it fails.
    shares: u64,
    /// The user has logged in from this client lately.
    is_known: bool,
}

impl Tries {
    /// Those of a site with these settings: the ones among `known` that are of the same file, or
    /// new ones, which are known then. To be made before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub(super) fn of(
        settings: &AuthSettings,
        known: &mut Vec<Arc<Tries>>,
    ) -> io::Result<Arc<Tries>> {
        if let Some(same) = known.iter().find(|tries| tries.file == settings.file) {
            return Ok(Arc::clone(same));
        }
        let tries = Arc::new(Tries {
            file: settings.file.clone(),
            failures: (Rates::new(FAILURES_KNOWN_MAX)?, Rate::new(SHARES as f64 / 60.0, SHARES)),
            places: (Rates::new(FAILURES_KNOWN_MAX)?, Rate::new(1.0 / KNOWN_S as f64, 1)),
            names: RandomState::new(),
        });
        known.push(Arc::clone(&tries));
        Ok(tries)
    }

    /// A client tries to log in as this user at a site that allows so many failures in a minute.
    /// From where the user has logged in lately the failures of the client alone count, so that
    /// strangers who fail by a user's name do not lock the user out.
    ///
    /// # Errors
    /// The milliseconds after which it may try.
    pub(super) fn begin(
        &self,
        client: Client,
        user: &[u8],
        most: u64,
        now_ms: u64,
    ) -> Result<Try, u64> {
        let name = self.names.hash_one(user);
        let shares = SHARES / most.max(1);
        let (failures, rate) = &self.failures;
        failures.take_many(client, shares, rate, now_ms)?;
        let (places, lately) = &self.places;
        let is_known = places.knows((name, client), lately, now_ms);
        if !is_known && let Err(wait_ms) = failures.take_many(name, shares, rate, now_ms) {
            failures.give_back(client, shares, rate, now_ms);
            return Err(wait_ms);
        }
        Ok(Try { client, name, shares, is_known })
    }

    /// It has succeeded.
    pub(super) fn succeeded(&self, tried: Try, now_ms: u64) {
        let Try { client, name, shares, is_known } = tried;
        let ((failures, rate), (places, lately)) = (&self.failures, &self.places);
        failures.give_back(client, shares, rate, now_ms);
        if !is_known {
            failures.give_back(name, shares, rate, now_ms);
        }
        places.fill((name, client), lately, now_ms);
    }
}
