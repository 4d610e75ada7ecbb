//! One order, from its key to its certificate.
//!
//! What is under way is written before it is used: the key before the order, the order's URL before
//! the first challenge. One that is killed at any point goes on with the same order, and no
//! certificate is issued twice. Only an order whose URL was not written yet is made once more; the
//! first one is then left without a certificate, and expires.

use std::time::{Duration, Instant};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};

use crate::agent::challenges::{Challenges, Proof, Standing};
use crate::agent::fault::{Fault, asked, is};
use crate::agent::https::Https;
use crate::agent::ladder::Limiter;
use crate::agent::lease::Lease;
use crate::agent::pair::Pair;
use crate::agent::storage::{Shelf, Storage};
use crate::agent::time;
use crate::configuration::Kind;
use crate::names::Name;

/// For one try of an order, from its first look to its certificate: others wait meanwhile. The next
/// try goes on with it.
const ORDER_MS_MAX: u64 = 120_000;

/// Between two looks at an order, where the authority does not say: the first, and the longest.
const LOOK_FIRST: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(10);

/// Between two looks, whatever the authority says.
const LOOK_ASKED_MAX: Duration = Duration::from_secs(60);

/// Longest token of a challenge in bytes.
const TOKEN_MAX: usize = 256;

/// An order as the storage has it.
#[derive(Debug, Serialize, Deserialize)]
struct Underway {
    directory: String,
    names: Vec<String>,
    /// Of the certificate, in PEM.
    key: String,
    url: Option<String>,
}

/// What is ordered.
pub(crate) struct Wanted<'a> {
    pub(crate) directory: &'a str,
    pub(crate) profile: Option<&'a str>,
    pub(crate) names: &'a [Name],
    /// Name of the order's file.
    pub(crate) stem: &'a str,
    /// The pair that is there.
    pub(crate) held: Option<&'a Pair>,
    /// Ways to show that the names are ours, in the order in which they are tried.
    pub(crate) kinds: &'a [Kind],
}

/// An agent's means to order.
pub(crate) struct Orders<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) lease: &'a mut Lease,
    pub(crate) limiter: &'a mut Limiter,
    pub(crate) https: &'a Https,
    pub(crate) challenges: Challenges<'a>,
}

/// The directory of the order that is under way, if there is one.
pub(crate) fn directory_of(storage: &Storage, stem: &str) -> Option<String> {
    let underway = storage.get::<Underway>(Shelf::Orders, stem).ok()??;
    underway.url.is_some().then_some(underway.directory)
}

impl Orders<'_> {
    /// The certificate and its key. The order stays in the storage until the caller has written
    /// them, and deletes it. Blocks as long as it takes, within bounds.
    ///
    /// # Errors
    /// What failed. An order that the authority refuses is deleted.
    pub(crate) fn issue(&mut self, account: &Account, wanted: &Wanted<'_>) -> Result<Pair, Fault> {
        let mut underway = self.begin(wanted)?;
        let mut order = self.order(account, wanted, &mut underway)?;
        let issued = self.drive(&mut order, wanted, &underway);
        if issued.as_ref().is_err_and(Fault::is_refusal) {
            self.storage.remove(Shelf::Orders, wanted.stem)?;
        }
        issued
    }

    /// What is under way for these names, or the beginning of it.
    fn begin(&mut self, wanted: &Wanted<'_>) -> Result<Underway, Fault> {
        let names: Vec<String> = wanted.names.iter().map(Name::to_string).collect();
        if let Some(underway) = self.storage.get::<Underway>(Shelf::Orders, wanted.stem)? {
            let is_same = underway.directory == wanted.directory && underway.names == names;
            // The pair was written, and the order was not deleted yet; or another came later, by
            // which this order has outlived its purpose.
            let is_done = wanted.held.is_some_and(|pair| pair.has_key(&underway.key))
                || wanted.held.is_some() && self.storage.is_newer(wanted.stem);
            if is_same && !is_done {
                return Ok(underway);
            }
        }
        let key = KeyPair::generate().map_err(|error| Fault::Here(error.to_string()))?;
        let (directory, key) = (wanted.directory.to_owned(), key.serialize_pem());
        let underway = Underway { directory, names, key, url: None };
        self.storage.put(Shelf::Orders, wanted.stem, &underway)?;
        Ok(underway)
    }

    /// The authority's side of it: the order of its URL, or a new one.
    fn order(
        &mut self,
        account: &Account,
        wanted: &Wanted<'_>,
        underway: &mut Underway,
    ) -> Result<Order, Fault> {
        if let Some(url) = &underway.url {
            match asked(|| self.https.finish(account.order(url.clone()))).map_err(Fault::from) {
                // It has expired, or the authority has lost it.
                Err(Fault::Refused(_)) => {}
                Err(fault) => return Err(fault),
                Ok(mut order) => {
                    if order.state().status != OrderStatus::Invalid {
                        return Ok(order);
                    }
                }
            }
        }
        loop {
            self.lease.keep(time::unix())?;
            match self.limiter.wait_ms(time::unix_ms()) {
                0 => break,
                wait => self.challenges.channel.pass(Duration::from_millis(wait))?,
            }
        }
        let order = new_order((self.https, account), wanted)?;
        underway.url = Some(order.url().to_owned());
        self.storage.put(Shelf::Orders, wanted.stem, underway)?;
        Ok(order)
    }

    fn drive(
        &mut self,
        order: &mut Order,
        wanted: &Wanted<'_>,
        underway: &Underway,
    ) -> Result<Pair, Fault> {
        let mut looks = Looks::new();
        loop {
            self.lease.keep(time::unix())?;
            match order.state().status {
                OrderStatus::Pending => self.prove(order, wanted.kinds, &mut looks)?,
                OrderStatus::Ready => {
                    let csr = request(wanted.names, &underway.key)?;
                    asked(|| self.https.finish(order.finalize_csr(&csr)))?;
                    if order.state().status == OrderStatus::Ready {
                        looks.wait(self)?;
                    }
                }
                OrderStatus::Processing => {
                    looks.wait(self)?;
                    asked(|| self.https.finish(order.refresh()).map(|_| ()))?;
                }
                OrderStatus::Valid => {
                    let chain = asked(|| self.https.finish(order.certificate()))?;
                    let chain = chain.ok_or(Fault::Away("no certificate came".into()))?;
                    return check(Pair::of(&underway.key, &chain), wanted.names);
                }
                OrderStatus::Invalid => return Err(invalid(self.https, order)),
            }
        }
    }

    /// Shows that the names are ours, until the authority has seen it or says no.
    fn prove(&mut self, order: &mut Order, kinds: &[Kind], looks: &mut Looks) -> Result<(), Fault> {
        let mut standing = Vec::new();
        let proved = self.stand(order, kinds, &mut standing).and_then(|()| {
            while order.state().status == OrderStatus::Pending {
                looks.wait(self)?;
                asked(|| self.https.finish(order.refresh()).map(|_| ()))?;
            }
            looks.next = LOOK_FIRST;
            Ok(())
        });
        let cleared = standing.iter().try_for_each(|standing| self.challenges.clear(standing));
        proved.and(cleared)
    }

    /// Sets all challenges, and only then tells the authority that they can be looked at.
    fn stand(
        &mut self,
        order: &mut Order,
        kinds: &[Kind],
        standing: &mut Vec<Standing>,
    ) -> Result<(), Fault> {
        let count = order.state().authorizations.len();
        let mut told = Vec::new();
        for at in 0..count {
            if let Some((proof, is_pending)) = proof(self.https, order, (at, kinds))? {
                standing.push(self.challenges.set(&proof)?);
                self.lease.keep(time::unix())?;
                told.extend(is_pending.then_some((at, proof.kind)));
            }
        }
        if !told.is_empty() {
            self.challenges.share()?;
        }
        for (at, kind) in told {
            let ready = asked(|| {
                let mut all = order.authorizations();
                let mut authorization = nth(self.https, &mut all, at)?;
                let challenge = authorization.challenge(library(kind));
                self.https.finish(challenge.ok_or(Error::Str("a challenge"))?.set_ready())
            });
            ready.map_err(|error| match Fault::from(error) {
                Fault::Refused(why) => Fault::NotShown(why),
                fault => fault,
            })?;
        }
        Ok(())
    }
}

/// Looks at an order, each after a longer time.
struct Looks {
    deadline: Instant,
    next: Duration,
}

impl Looks {
    fn new() -> Looks {
        Looks { deadline: Instant::now() + Duration::from_millis(ORDER_MS_MAX), next: LOOK_FIRST }
    }

    fn wait(&mut self, orders: &mut Orders<'_>) -> Result<(), Fault> {
        if Instant::now() >= self.deadline {
            return Err(Fault::Away("the authority does not come to an end".into()));
        }
        let asked = orders.https.retry_after().map(Duration::from_secs);
        let wait = asked.map_or(self.next, |asked| asked.min(LOOK_ASKED_MAX));
        self.next = (self.next * 2).min(LOOK_MAX);
        orders.lease.keep(time::unix())?;
        Ok(orders.challenges.channel.pass(wait)?)
    }
}

/// A name as an order has it (RFC 8555, section 7.1.3; RFC 8738 for addresses).
fn identifier(name: &Name) -> Identifier {
    match name.address() {
        Some(address) => Identifier::Ip(address),
        None => Identifier::Dns(name.to_string()),
    }
}

/// A new order. The certificate that it replaces is named if the authority wants to know.
fn new_order((https, account): (&Https, &Account), wanted: &Wanted<'_>) -> Result<Order, Fault> {
    let identifiers: Vec<Identifier> = wanted.names.iter().map(identifier).collect();
    let ask = |replaces: Option<CertificateIdentifier<'static>>| {
        asked(|| {
            let mut new = NewOrder::new(&identifiers);
            if let Some(profile) = wanted.profile {
                new = new.profile(profile);
            }
            if let Some(replaces) = &replaces {
                new = new.replaces(replaces.clone());
            }
            https.finish(account.new_order(&new))
        })
    };
    let replaces = wanted.held.and_then(Pair::identifier);
    let has_replaced = replaces.is_some();
    match ask(replaces) {
        Err(Error::Unsupported(_)) if has_replaced => Ok(ask(None)?),
        // Another authority's, or replaced already.
        Err(Error::Api(problem)) if has_replaced && !is(&problem, "rateLimited") => Ok(ask(None)?),
        // An authority has to repeat it (RFC 9773, section 5). The site is not to pay for one that
        // does not.
        Err(Error::Other(why)) if has_replaced && why.to_string().starts_with("replaces field") => {
            Ok(ask(None)?)
        }
        answer => Ok(answer?),
    }
}

/// The authorization of this place, which is asked for if it is not known yet.
fn nth<'a>(
    https: &Https,
    all: &'a mut instant_acme::Authorizations<'_>,
    at: usize,
) -> Result<instant_acme::AuthorizationHandle<'a>, Error> {
    // Those before are known already, and cost no request.
    for _ in 0..at {
        skip(https, all)?;
    }
    https.finish(async { all.next().await.ok_or(Error::Str("an authorization"))? })
}

fn skip(https: &Https, all: &mut instant_acme::Authorizations<'_>) -> Result<(), Error> {
    https.finish(async { all.next().await.ok_or(Error::Str("an authorization"))?.map(|_| ()) })
}

/// What must be answered for one name, and whether the authority still waits to be told so; `None`
/// when there is nothing to show.
fn proof(
    https: &Https,
    order: &mut Order,
    (at, kinds): (usize, &[Kind]),
) -> Result<Option<(Proof, bool)>, Fault> {
    let found = asked(|| {
        let mut all = order.authorizations();
        let mut authorization = nth(https, &mut all, at)?;
        if authorization.status != AuthorizationStatus::Pending {
            return Ok(None);
        }
        let name = match authorization.identifier().identifier {
            Identifier::Dns(name) => name.clone(),
            Identifier::Ip(address) => address.to_string(),
            _ => return Err(Error::Str("an authorization for a host or an address")),
        };
        let offered = |kind: &&Kind| {
            authorization.challenges.iter().any(|offered| offered.r#type == library(**kind))
        };
        let kind = kinds.iter().find(offered).copied().ok_or(Error::Str("a challenge"))?;
        let challenge = authorization.challenge(library(kind)).ok_or(Error::Str("a challenge"))?;
        if !is_token(&challenge.token) {
            return Err(Error::Str("a token in base64url"));
        }
        let key = challenge.key_authorization();
        let proof = Proof {
            kind,
            name,
            token: challenge.token.clone(),
            authorization: key.as_str().to_owned(),
            digest: key.digest().as_ref().to_vec(),
            record: key.dns_value(),
        };
        Ok(Some((proof, challenge.status == ChallengeStatus::Pending)))
    });
    found.map_err(|error| match error {
        Error::Str("a challenge") => {
            Fault::Refused("the authority offers none of the challenges that are allowed".into())
        }
        error => error.into(),
    })
}

/// Whether a token is what RFC 8555, section 8.3, says: workers compare paths with it, and an
/// authority is not believed more than needed.
fn is_token(token: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=TOKEN_MAX).contains(&token.len()) && token.bytes().all(is_plain)
}

fn library(kind: Kind) -> ChallengeType {
    match kind {
        Kind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        Kind::Http01 => ChallengeType::Http01,
        Kind::Dns01 => ChallengeType::Dns01,
    }
}

/// The request for a certificate with this key (RFC 2986), in DER.
fn request(names: &[Name], key: &str) -> Result<Vec<u8>, Fault> {
    let here = |error: rcgen::Error| Fault::Here(error.to_string());
    let key = KeyPair::from_pem(key).map_err(here)?;
    let names: Vec<String> = names.iter().map(Name::to_string).collect();
    let mut params = CertificateParams::new(names).map_err(here)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(here)?.der().to_vec())
}

/// A certificate that is not what was ordered is refused: the order is not tried once more.
fn check(pair: Result<Pair, flyball_tls::Fault>, names: &[Name]) -> Result<Pair, Fault> {
    let pair = pair.map_err(|fault| {
        let what = if fault.is_of_chain() { "chain" } else { "key" };
        Fault::Refused(format!("the {what} {fault}"))
    })?;
    match pair.covers(names) {
        true => Ok(pair),
        false => Err(Fault::Refused("the certificate is not for all names".into())),
    }
}

/// Why an order is invalid: what the authority says of each name.
fn invalid(https: &Https, order: &mut Order) -> Fault {
    let whole = order.state().error.as_ref().map(ToString::to_string);
    let mut why: Vec<String> = Vec::new();
    for at in 0..order.state().authorizations.len() {
        let told = asked(|| {
            let mut all = order.authorizations();
            let mut authorization = nth(https, &mut all, at)?;
            let state = https.finish(authorization.refresh())?;
            let name = state.identifier().to_string();
            let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            Ok(errors.map(|error| format!("{name}: {error}")).collect::<Vec<_>>())
        });
        // What it does not tell is not the reason that is looked for.
        why.extend(told.unwrap_or_default());
    }
    match why.is_empty() {
        true => Fault::NotShown(whole.unwrap_or("the order is invalid".into())),
        false => Fault::NotShown(why.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_base64url() {
        assert!(is_token("f_d9sUPQXaND8xm4x-dvwa1"));
        let long = "a".repeat(TOKEN_MAX + 1);
        for token in ["", "a/b", "..", "a b", "a\r\nb", "\u{fc}", &long] {
            assert!(!is_token(token), "{token}");
        }
    }

    #[test]
    fn a_request_has_the_names_and_the_key() {
        let names = ["a.org", "*.a.org", "192.0.2.7"].map(|name| Name::parse(name).unwrap());
        let key = KeyPair::generate().unwrap();
        let der = request(&names, &key.serialize_pem()).unwrap();
        let holds = |part: &[u8]| der.windows(part.len()).any(|window| window == part);
        assert!(holds(b"a.org") && holds(b"*.a.org") && holds(&[192, 0, 2, 7]));
        assert!(holds(key.public_key_raw()));
    }
}
