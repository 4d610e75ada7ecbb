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
use crate::agent::requests::{Asked, LEFT_TO_OTHERS_S, Revocation};
use crate::agent::time;
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
        if self.is_there(stem, wanted) {
            let entry = self.entries.iter_mut().find(|entry| entry.stem == stem);
            match entry {
                Some(entry) => entry.is_asked_since(&self.storage, asked.since()),
                // Another server of the storage may have a site with it.
                None if !asked.is_given_up(time::unix()) => {}
                None => {
                    say!(
                        Level::Warn,
                        "acme: {}: the renewal that was asked for is not done, and given up: no \
                         site has had that certificate for {} days",
                        name_of(stem),
                        LEFT_TO_OTHERS_S / 86_400
                    );
                    self.settle(stem, wanted);
                }
            }
        } else {
            self.settle(stem, wanted);
        }
    }

    /// Whether the certificate that is there is the one of this serial number, in whose place
    /// another is wanted; none is there where that is empty.
    fn is_there(&self, stem: &str, serial: &str) -> bool {
        let held = self.storage.pair(stem).unwrap_or(None);
        held.map(|pair| pair.leaf().serial.clone()).unwrap_or_default() == serial
    }

    /// Another than that one is not wanted any more. Where this cannot be written, the next look
    /// finds it again.
    fn settle(&self, stem: &str, wanted: &str) {
        let settle = |asked: &mut Asked| asked.other_than.take_if(|known| known == wanted);
        let _ = self.requests.change(stem, settle);
    }

    /// What the operator asked for another server has done, which was asked the same, where the
    /// storage says so. To be called with the lease.
    pub(super) fn forget_what_is_done(&mut self, at: usize) {
        let stem = self.entries[at].stem.clone();
        let wanted = self.requests.of(&stem).other_than;
        if wanted.is_none_or(|wanted| !self.is_there(&stem, &wanted)) {
            self.entries[at].schedule.is_asked_for = false;
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
    /// was revoked and is still there, by this server or by another of the storage, and that is
    /// written down with the same change.
    fn forget_revocation(&mut self, stem: &str, revocation: &Revocation, is_revoked: bool) {
        let held = self.storage.pair(stem).unwrap_or(None);
        let is_held = held.is_some_and(|pair| Revocation::of(&pair).is(revocation));
        let change = |asked: &mut Asked| {
            asked.revocations.retain(|known| !known.is(revocation));
            if is_revoked && is_held {
                asked.want_other(revocation.serial.clone(), time::unix());
            }
        };
        if let Err(error) = self.requests.change(stem, change) {
            say!(Level::Debug, "acme: the storage: {error}");
        }
        let entry = self.entries.iter_mut().find(|entry| entry.stem == stem);
        if let Some(entry) = entry.filter(|_| is_revoked && is_held) {
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
