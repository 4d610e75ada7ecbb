//! Shows an authority that names are ours: what workers must answer is told to the master, records
//! are set by a command.

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flyball_sys::error_log::Level;
use flyball_sys::say;
use rcgen::{CertificateParams, CustomExtension, KeyPair};

use crate::agent::channel::Channel;
use crate::agent::fault::Fault;
use crate::agent::storage::{Shelf, Storage};
use crate::configuration::Kind;
use crate::messages::{Challenge, FromAgent, ToAgent};

/// For the master to say that a challenge stands.
const STANDS_MS_MAX: u64 = 30_000;

/// For the command of dns-01, which waits until the record can be seen.
const HOOK_MS_MAX: u64 = 300_000;

/// For other agents to see a challenge, and their workers to answer it: they look every second.
const SHARE: Duration = Duration::from_secs(2);

/// Between two looks whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What an authority will ask.
pub(crate) struct Proof {
    pub(crate) kind: Kind,
    /// The host, without `*.`, or the address.
    pub(crate) name: String,
    pub(crate) token: String,
    /// The token and the account's key (RFC 8555, section 8.1).
    pub(crate) authorization: String,
    /// Its SHA-256 digest, and that in base64url.
    pub(crate) digest: Vec<u8>,
    pub(crate) record: String,
}

/// A challenge that is being answered.
pub(crate) enum Standing {
    /// By workers, under this number.
    Workers(u64),
    /// By a record of this name and value.
    Record(String, String),
}

/// Sets and clears challenges.
pub(crate) struct Challenges<'a> {
    pub(crate) channel: &'a mut Channel,
    pub(crate) storage: &'a Storage,
    pub(crate) hook: &'a [String],
    /// Of the last one that workers were told.
    pub(crate) last_id: &'a mut u64,
}

impl Challenges<'_> {
    /// Sets one. It stands when this returns.
    ///
    /// # Errors
    /// When workers or the command fail.
    pub(crate) fn set(&mut self, proof: &Proof) -> Result<Standing, Fault> {
        let challenge = match proof.kind {
            Kind::Dns01 => {
                let name = format!("_acme-challenge.{}", proof.name);
                self.call("set", &name, &proof.record)?;
                return Ok(Standing::Record(name, proof.record.clone()));
            }
            Kind::Http01 => {
                let (token, answer) = (proof.token.clone(), proof.authorization.clone());
                Challenge::Http01 { token, answer }
            }
            Kind::TlsAlpn01 => certificate(proof)?,
        };
        *self.last_id += 1;
        let id = *self.last_id;
        self.storage.put(Shelf::Challenges, &id.to_string(), &challenge)?;
        self.channel.tell(&FromAgent::ChallengeSet { id, challenge })?;
        let answer =
            self.channel.pick(Duration::from_millis(STANDS_MS_MAX), |message| match message {
                ToAgent::ChallengeStands { id: of } if *of == id => Some(Ok(())),
                ToAgent::ChallengeFails { id: of, why } if *of == id => Some(Err(why.clone())),
                _ => None,
            })?;
        let why = match answer {
            Some(Ok(())) => return Ok(Standing::Workers(id)),
            Some(Err(why)) => why,
            None => "they do not say that it stands".into(),
        };
        self.clear(&Standing::Workers(id))?;
        Err(Fault::Here(format!("workers cannot answer a challenge: {why}")))
    }

    /// Gives agents that wait the time to see what was set, so that their workers answer too.
    ///
    /// # Errors
    /// When the master has ended.
    pub(crate) fn share(&mut self) -> Result<(), Fault> {
        match self.storage.is_waited_for() {
            true => Ok(self.channel.pass(SHARE)?),
            false => Ok(()),
        }
    }

    /// Clears one. A record that cannot be removed is told, and harms nothing.
    ///
    /// # Errors
    /// When the master has ended.
    pub(crate) fn clear(&mut self, standing: &Standing) -> Result<(), Fault> {
        match standing {
            Standing::Workers(id) => {
                // One that stays is deleted before the next order.
                let _ = self.storage.remove(Shelf::Challenges, &id.to_string());
                Ok(self.channel.tell(&FromAgent::ChallengeClear { id: *id })?)
            }
            Standing::Record(name, value) => match self.call("clear", name, value) {
                Err(Fault::Gone(gone)) => Err(Fault::Gone(gone)),
                Err(fault) => {
                    say!(Level::Warn, "acme: {}", fault.why());
                    Ok(())
                }
                Ok(()) => Ok(()),
            },
        }
    }

    /// Runs the command, and ends it when it takes too long.
    fn call(&mut self, what: &str, name: &str, value: &str) -> Result<(), Fault> {
        let (program, first) = self.hook.split_first().ok_or(Fault::Here("no dns-hook".into()))?;
        let failed = |why: String| Fault::Here(format!("{program} {what} {name}: {why}"));
        let mut child = Command::new(program)
            .args(first)
            .args([what, name, value])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let deadline = Instant::now() + Duration::from_millis(HOOK_MS_MAX);
        let mut talk = Ok(());
        while talk.is_ok() && Instant::now() < deadline {
            match child.try_wait() {
                Ok(None) => talk = self.channel.pass(LOOK_EVERY),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(status.to_string())),
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        talk?;
        Err(failed(format!("it took longer than {} s", HOOK_MS_MAX / 1_000)))
    }
}

/// The certificate of a challenge (RFC 8737, section 3): for the name alone, with the digest.
fn certificate(proof: &Proof) -> Result<Challenge, Fault> {
    let here = |error: rcgen::Error| Fault::Here(error.to_string());
    let mut params = CertificateParams::new([proof.name.clone()]).map_err(here)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&proof.digest)];
    let key = KeyPair::generate().map_err(here)?;
    let chain = params.self_signed(&key).map_err(here)?.pem();
    let name = proof.name.parse::<IpAddr>().map_or_else(|_| proof.name.clone(), reverse);
    Ok(Challenge::TlsAlpn01 { name, chain, key: key.serialize_pem() })
}

/// The name by which a client asks for the challenge certificate of an address (RFC 8738,
/// section 6): its name for reverse look-ups.
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let nibbles =
                address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_asked_for_by_their_names_in_arpa() {
        assert_eq!(reverse("192.0.2.7".parse().unwrap()), "7.2.0.192.in-addr.arpa");
        let six = reverse("2001:db8::1".parse().unwrap());
        assert!(six.starts_with("1.0.0.0.") && six.ends_with("8.b.d.0.1.0.0.2.ip6.arpa"), "{six}");
    }
}
