//! What the operator has asked for, kept in the storage until it is done: an agent that ends before
//! that leaves it to the next one.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::agent::ladder::Failures;
use crate::agent::pair::Pair;
use crate::agent::storage::{Shelf, Storage};
use crate::agent::time;
use crate::messages::{ASKED_APART_S, FromAgent, Note, ToAgent};
use crate::names::Name;

/// Certificates of one name that wait to be revoked.
const REVOCATIONS_MAX: usize = 8;

/// For how long a certificate that no site of this server has is left to another server of the
/// storage to order, in seconds: 7 days.
pub(crate) const LEFT_TO_OTHERS_S: u64 = 7 * 86_400;

/// A certificate that is to be revoked, whatever takes its place meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    /// In DER.
    der: Vec<u8>,
    pub(crate) serial: String,
    /// When it ends by itself, in seconds since 1970.
    pub(crate) not_after: u64,
    /// Tries that failed, in the life of an agent.
    #[serde(skip)]
    pub(crate) failures: Failures,
}

impl Revocation {
    pub(crate) fn of(pair: &Pair) -> Revocation {
        let (leaf, der) = (pair.leaf(), pair.certificate().to_vec());
        let (serial, not_after) = (leaf.serial.clone(), leaf.not_after_s);
        Revocation { der, serial, not_after, failures: Failures::default() }
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'_> {
        CertificateDer::from(&self.der[..])
    }

    /// Whether it is of the same certificate.
    pub(crate) fn is(&self, other: &Revocation) -> bool {
        self.der == other.der
    }
}

/// What was asked for about one certificate: the content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    pub(crate) revocations: Vec<Revocation>,
    /// Another is to be ordered than the one of this serial number; than none, where it is empty.
    pub(crate) other_than: Option<String>,
    /// Since when, in seconds since 1970.
    other_since: Option<u64>,
    /// When a renewal and a revocation were asked for last, in seconds since 1970.
    pub(crate) renewal_at: Option<u64>,
    pub(crate) revocation_at: Option<u64>,
}

impl Asked {
    /// Whether nothing is to be done any more, and another request would be a new one.
    fn is_over(&self, now: u64) -> bool {
        let is_late = |at: Option<u64>| at.and_then(|at| since(at, now)).is_none();
        self.revocations.is_empty()
            && self.other_than.is_none()
            && is_late(self.renewal_at)
            && is_late(self.revocation_at)
    }

    /// Another certificate is to be ordered than the one of this serial number.
    pub(crate) fn want_other(&mut self, than: String, now: u64) {
        (self.other_than, self.other_since) = (Some(than), Some(now));
    }

    /// Since when another is wanted. What was written before this was noted has the request alone.
    pub(crate) fn since(&self) -> u64 {
        self.other_since.or(self.renewal_at).unwrap_or(0)
    }

    /// Whether no server is waited for any more that would order the other one.
    pub(crate) fn is_given_up(&self, now: u64) -> bool {
        now.saturating_sub(self.since()) > LEFT_TO_OTHERS_S
    }

    fn add(&mut self, message: &ToAgent, pair: Option<&Pair>, now: u64) -> Result<(), String> {
        match message {
            ToAgent::Revoke { .. } => {
                let pair = pair.ok_or("there is no certificate that could be revoked")?;
                let revocation = Revocation::of(pair);
                self.revocation_at = Some(now);
                if self.revocations.iter().any(|known| known.is(&revocation)) {
                    return Ok(());
                }
                if self.revocations.len() == REVOCATIONS_MAX {
                    return Err(format!("{REVOCATIONS_MAX} certificates wait to be revoked"));
                }
                self.revocations.push(revocation);
            }
            _ => {
                let serial = pair.map(|pair| pair.leaf().serial.clone());
                self.want_other(serial.unwrap_or_default(), now);
                self.renewal_at = Some(now);
            }
        }
        Ok(())
    }
}

/// How many seconds ago something was asked for, while the same again is no other request.
fn since(at: u64, now: u64) -> Option<u64> {
    now.checked_sub(at).filter(|ago| *ago < ASKED_APART_S)
}

/// The requests of a storage: one file for each certificate about which there is one. Other servers
/// may have the same storage, so that a file is read and written under a lock.
pub(crate) struct Requests {
    storage: Storage,
    /// The names of each certificate.
    names: Vec<Vec<Name>>,
    /// What the disk did not take, which this agent does all the same. Of its two threads one reads
    /// and writes at a time.
    unwritten: Mutex<HashMap<String, Asked>>,
}

impl Requests {
    pub(crate) fn new(storage: Storage, names: Vec<Vec<Name>>) -> Requests {
        Requests { storage, names, unwritten: Mutex::default() }
    }

    /// Writes a request down, however busy the agent is: what to tell the master.
    pub(crate) fn note(&self, message: &ToAgent) -> Option<FromAgent> {
        let (ToAgent::Renew { name } | ToAgent::Revoke { name }) = message else { return None };
        Some(FromAgent::Noted { name: name.clone(), how: self.how(name, message) })
    }

    fn how(&self, name: &str, message: &ToAgent) -> Note {
        let Some(at) = self.named(name) else {
            return Note::Refused("no certificate has this name".into());
        };
        let stem = self.names[at].first().map(crate::files::stem).unwrap_or_default();
        // What cannot be read is no certificate that is served.
        let pair = self.storage.pair(&stem).unwrap_or(None);
        let added = |asked: &mut Asked| asked.add(message, pair.as_ref(), time::unix());
        match self.change(&stem, added) {
            Ok(Ok(())) => Note::Written,
            Ok(Err(why)) => Note::Refused(why),
            Err(error) => Note::Unwritten(format!("the storage: {error}")),
        }
    }

    /// Which certificate has this name.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        let name = Name::parse(name).ok()?;
        self.names.iter().position(|names| names.contains(&name))
    }

    /// What was asked for, by the names of the files of certificates.
    pub(crate) fn all(&self) -> Vec<(String, Asked)> {
        let mut stems: BTreeSet<String> = self.lock().keys().cloned().collect();
        stems.extend(self.storage.stems(Shelf::Asked).unwrap_or_default());
        stems.into_iter().map(|stem| (stem.clone(), self.of(&stem))).collect()
    }

    /// What was asked for about one.
    pub(crate) fn of(&self, stem: &str) -> Asked {
        let unwritten = self.lock().get(stem).cloned();
        unwritten.unwrap_or_else(|| self.read(stem))
    }

    fn read(&self, stem: &str) -> Asked {
        self.storage.get(Shelf::Asked, stem).ok().flatten().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Asked>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is asked for about a certificate; its file goes when nothing is.
    ///
    /// # Errors
    /// When the disk fails or is full, or others keep the lock: then it is known until the agent
    /// ends.
    pub(crate) fn change<T>(
        &self,
        stem: &str,
        change: impl FnOnce(&mut Asked) -> T,
    ) -> io::Result<T> {
        let mut unwritten = self.lock();
        let held = self.storage.hold(Shelf::Asked);
        let written = self.read(stem);
        let mut asked = unwritten.remove(stem).unwrap_or_else(|| written.clone());
        let changed = change(&mut asked);
        let done = match &held {
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            Ok(_) if asked.is_over(time::unix()) => self.storage.remove(Shelf::Asked, stem),
            Ok(_) if asked != written => self.storage.put(Shelf::Asked, stem, &asked),
            Ok(_) => Ok(()),
        };
        if done.is_err() {
            unwritten.insert(stem.to_owned(), asked);
        }
        done.map(|()| changed)
    }

    /// What the master is to know of requests that were made a moment ago.
    pub(crate) fn remembered(&self, name: &str, asked: &Asked) -> Option<FromAgent> {
        let ago = |at: Option<u64>| at.and_then(|at| since(at, time::unix()));
        let (renewal, revocation) = (ago(asked.renewal_at), ago(asked.revocation_at));
        let is_any = renewal.is_some() || revocation.is_some();
        is_any.then(|| FromAgent::AskedBefore { name: name.to_owned(), renewal, revocation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::pair::tests::made;

    fn requests() -> (tempfile::TempDir, Requests) {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let names = ["a.org", "b.org"].map(|name| Name::parse(name).unwrap()).to_vec();
        (dir, Requests::new(storage, vec![names]))
    }

    fn hold(requests: &Requests) -> String {
        let (key, chain) = made(&["a.org", "b.org"]);
        let pair = Pair::of(&key, &chain).unwrap();
        requests.storage.write(Shelf::Certificates, "a.org", pair.text.as_bytes()).unwrap();
        pair.leaf().serial.clone()
    }

    fn fault(told: Option<FromAgent>) -> Option<String> {
        match told {
            Some(FromAgent::Noted { how: Note::Written, .. }) => None,
            Some(FromAgent::Noted { how: Note::Refused(why) | Note::Unwritten(why), .. }) => {
                Some(why)
            }
            told => panic!("{told:?}"),
        }
    }

    #[test]
    fn what_is_asked_for_stays_until_it_is_done_and_names_the_certificate_that_was_there() {
        let (_dir, requests) = requests();
        let (renew, revoke) =
            (ToAgent::Renew { name: "B.org.".into() }, ToAgent::Revoke { name: "b.org".into() });
        assert!(fault(requests.note(&revoke)).unwrap().contains("no certificate"));
        assert_eq!(fault(requests.note(&renew)), None);
        assert_eq!(requests.of("a.org").other_than.as_deref(), Some(""));
        let first = hold(&requests);
        assert_eq!(fault(requests.note(&revoke)), None);
        assert_eq!(fault(requests.note(&revoke)), None);
        let second = hold(&requests);
        assert_eq!(fault(requests.note(&revoke)), None);
        let serials = |asked: &Asked| -> Vec<String> {
            asked.revocations.iter().map(|revocation| revocation.serial.clone()).collect()
        };
        assert_eq!(serials(&requests.of("a.org")), [first, second]);
        let long_ago = |asked: &mut Asked| {
            asked.revocations.clear();
            (asked.renewal_at, asked.revocation_at) = (Some(1), Some(1));
        };
        requests.change("a.org", long_ago).unwrap();
        assert_eq!(requests.all().len(), 1, "an order is still to come");
        requests.change("a.org", |asked| asked.other_than = None).unwrap();
        assert_eq!(requests.all(), []);
    }

    #[test]
    fn a_name_has_few_revocations_and_a_name_that_is_not_kept_has_none() {
        let (_dir, requests) = requests();
        let revoke = |name: &str| fault(requests.note(&ToAgent::Revoke { name: name.into() }));
        for _ in 0..REVOCATIONS_MAX {
            hold(&requests);
            assert_eq!(revoke("a.org"), None);
        }
        hold(&requests);
        assert!(revoke("a.org").unwrap().contains("8 certificates wait"));
        assert!(revoke("c.org").unwrap().contains("no certificate has this name"));
        assert_eq!(requests.all().len(), 1);
    }

    #[test]
    fn servers_with_one_storage_lose_nothing_of_what_they_are_asked_at_the_same_moment() {
        const EACH: usize = 3;
        let (_dir, first) = requests();
        hold(&first);
        let servers: Vec<Requests> =
            (0..4).map(|_| Requests::new(first.storage.clone(), first.names.clone())).collect();
        let (_, pem) = made(&["a.org", "b.org"]);
        let der = pem.into_bytes();
        std::thread::scope(|scope| {
            for (at, server) in servers.iter().enumerate() {
                let der = &der;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let serial = format!("{at}-{number}");
                        let revocation = Revocation {
                            der: [&der[..], serial.as_bytes()].concat(),
                            serial,
                            not_after: 0,
                            failures: Failures::default(),
                        };
                        let add = |asked: &mut Asked| asked.revocations.push(revocation);
                        server.change("a.org", add).unwrap();
                    }
                });
            }
        });
        assert_eq!(first.of("a.org").revocations.len(), servers.len() * EACH);
    }

    #[test]
    fn what_is_written_while_others_keep_the_lock_is_known_and_written_later() {
        let (_dir, requests) = requests();
        let held = requests.storage.hold(Shelf::Asked).unwrap();
        let told = fault(requests.note(&ToAgent::Renew { name: "a.org".into() }));
        let why = "asked/.lock: another server keeps it";
        assert!(told.as_ref().unwrap().contains(why), "{told:?}");
        assert_eq!(requests.of("a.org").other_than.as_deref(), Some(""));
        drop(held);
        requests.change("a.org", |_| ()).unwrap();
        assert_eq!(requests.read("a.org").other_than.as_deref(), Some(""));
    }

    #[test]
    fn what_a_disk_does_not_take_is_told_and_known_all_the_same() {
        let (dir, requests) = requests();
        std::fs::create_dir_all(dir.path().join("asked/.a.org.new/in")).unwrap();
        let told = fault(requests.note(&ToAgent::Renew { name: "a.org".into() }));
        assert!(told.unwrap().contains("the storage: "));
        let asked =
            |requests: &Requests| requests.all().pop().and_then(|(_, asked)| asked.other_than);
        assert_eq!(asked(&requests).as_deref(), Some(""));
        std::fs::remove_dir_all(dir.path().join("asked/.a.org.new")).unwrap();
        requests.change("a.org", |asked| asked.renewal_at = None).unwrap();
        let next = Requests::new(requests.storage.clone(), requests.names.clone());
        assert_eq!(asked(&next).as_deref(), Some(""));
    }
}
