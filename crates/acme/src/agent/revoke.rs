//! Revocations: each is tried until an authority has done it or all have refused it, or until the
//! certificate has ended by itself.

use std::collections::VecDeque;

use flyball_sys::error_log::Level;
use flyball_sys::say;
use instant_acme::{Error, RevocationRequest};

use crate::agent::Agent;
use crate::agent::certificates::name_of;
use crate::agent::channel::Gone;
use crate::agent::fault::{Fault, asked, is};
use crate::agent::pair::Pair;
use crate::agent::requests::{Asked, Revocation};
use crate::configuration::Authority;

/// Those that are to be done, with the names of the files of their certificates.
#[derive(Debug, Default)]
pub(crate) struct Revocations(VecDeque<(String, Revocation)>);

impl Revocations {
    fn add(&mut self, stem: &str, revocation: Revocation) {
        if !self.0.iter().any(|(_, known)| known.is(&revocation)) {
            self.0.push_back((stem.to_owned(), revocation));
        }
    }

    /// Whether one is due.
    pub(crate) fn due(&self, now: u64) -> bool {
        self.next_at(now).is_some_and(|at| at <= now)
    }

    /// When the next one is due, in seconds since 1970.
    pub(crate) fn next_at(&self, now: u64) -> Option<u64> {
        self.0.iter().map(|(_, revocation)| revocation.failures.until(now)).min()
    }

    fn take(&mut self, now: u64) -> Option<(String, Revocation)> {
        let at = self.0.iter().position(|(_, known)| known.failures.until(now) <= now)?;
        self.0.remove(at)
    }
}

/// How a try to revoke has ended.
enum End {
    Done,
    /// All authorities have refused it, and why.
    Refused(String),
    /// One of them may do it later.
    Away(String),
}

impl Agent {
    /// Takes over what was asked of an agent that has ended, and what another did not do.
    pub(super) fn recall_requests(&mut self) -> Result<(), Gone> {
        for (stem, asked) in self.requests.all() {
            let name = name_of(&stem);
            let remembered = self.requests.remembered(&name, &asked);
            remembered.iter().try_for_each(|remembered| self.channel.tell(remembered))?;
            self.recall(&stem, &asked);
        }
        Ok(())
    }

    /// Has done what is asked for about one certificate.
    pub(super) fn recall(&mut self, stem: &str, asked: &Asked) {
        for revocation in asked.revocations.iter().cloned() {
            self.revocations.add(stem, revocation);
        }
        let Some(wanted) = &asked.other_than else {
            // Where nothing is asked for any more, its file goes.
            let _ = self.requests.change(stem, |_| ());
            return;
        };
        let held = self.storage.pair(stem).unwrap_or(None);
        let is_done = held.map(|pair| pair.leaf().serial.clone()).unwrap_or_default() != *wanted;
        let entry = self.entries.iter_mut().find(|entry| entry.stem == stem);
        match entry.filter(|_| !is_done) {
            Some(entry) => entry.is_asked_since(&self.storage, asked.renewal_at.unwrap_or(0)),
            None => {
                if !is_done {
                    say!(
                        Level::Warn,
                        "acme: {}: the renewal that was asked for is not done: no site has \
                         that certificate any more",
                        name_of(stem)
                    );
                }
                // Where it stays, the next look finds it again.
                let settle = |asked: &mut Asked| asked.other_than.take_if(|known| known == wanted);
                let _ = self.requests.change(stem, settle);
            }
        }
    }

    /// Tries to do one revocation that is due.
    pub(super) fn revoke(&mut self, now: u64) {
        let Some((stem, mut revocation)) = self.revocations.take(now) else { return };
        let (name, serial) = (name_of(&stem), &revocation.serial);
        let what = format!("{name}: the certificate with the serial number {serial}");
        if revocation.not_after <= now {
            say!(Level::Warn, "acme: {what} is not revoked: it has ended by itself");
            return self.forget_revocation(&stem, &revocation, false);
        }
        self.asked = None;
        match self.try_to_revoke(&revocation) {
            End::Done => {
                say!(Level::Info, "acme: {what} is revoked");
                self.forget_revocation(&stem, &revocation, true);
            }
            End::Refused(why) => {
                say!(Level::Error, "acme: {what} is not revoked, and not tried again: {why}");
                self.forget_revocation(&stem, &revocation, false);
            }
            End::Away(why) => {
                revocation.failures.add(now, false, self.asked);
                let wait = revocation.failures.until(now).saturating_sub(now);
                say!(
                    Level::Error,
                    "acme: {what} is not revoked yet: {why}; the next try is in {wait} s"
                );
                self.revocations.add(&stem, revocation);
            }
        }
    }

    /// One that is done, or never will be. Another certificate is ordered in the place of one that
    /// was revoked, and that is written down with the same change.
    fn forget_revocation(&mut self, stem: &str, revocation: &Revocation, is_revoked: bool) {
        let is_held = |pair: &Pair| Revocation::of(pair).is(revocation);
        let entry = self.entries.iter_mut().find(|entry| entry.stem == stem);
        let entry = entry.filter(|entry| is_revoked && entry.held().is_some_and(is_held));
        let change = |asked: &mut Asked| {
            asked.revocations.retain(|known| !known.is(revocation));
            if entry.is_some() {
                asked.other_than = Some(revocation.serial.clone());
            }
        };
        if let Err(error) = self.requests.change(stem, change) {
            say!(Level::Debug, "acme: the storage: {error}");
        }
        if let Some(entry) = entry {
            entry.ask_for(&self.storage);
        }
    }

    /// Asks the authorities in turn.
    fn try_to_revoke(&mut self, revocation: &Revocation) -> End {
        let (mut whys, mut is_refused) = (Vec::new(), true);
        for authority in self.configuration.authorities.clone() {
            match self.revoke_at(&authority, revocation) {
                Ok(()) => return End::Done,
                Err(fault) => {
                    is_refused &= matches!(fault, Fault::Refused(_) | Fault::Unknown(_));
                    whys.push(fault.at(authority.url()));
                    self.connections.remove(authority.url());
                }
            }
        }
        let why = whys.join("; ");
        if is_refused { End::Refused(why) } else { End::Away(why) }
    }

    /// One that was revoked before counts as done (RFC 8555, section 7.6): an agent was killed
    /// before it could write that down.
    fn revoke_at(&mut self, authority: &Authority, revocation: &Revocation) -> Result<(), Fault> {
        let known = self.connection(authority, authority.url())?;
        let certificate = revocation.certificate();
        let request = RevocationRequest { certificate: &certificate, reason: None };
        match asked(|| known.https.finish(known.account.revoke(&request))) {
            Err(Error::Api(problem)) if is(&problem, "alreadyRevoked") => Ok(()),
            Err(error) => {
                self.asked = self.asked.max(known.https.retry_after());
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }
}
