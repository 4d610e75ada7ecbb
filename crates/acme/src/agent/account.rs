//! The account with an authority: made once, and kept in the storage with its key.

use flyball_sys::error_log::Level;
use flyball_sys::say;
use instant_acme::{Account, Error, ExternalAccountKey, Key, NewAccount};
use rcgen::KeyPair;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use crate::agent::fault::{Fault, asked};
use crate::agent::https::Https;
use crate::agent::storage::{Shelf, Storage};
use crate::configuration::{EXTERNAL_KEY_MAX, External};

/// Longest name of a file, without what is behind the last dot.
const STEM_MAX: usize = 120;

/// An account as the storage has it.
#[derive(Serialize, Deserialize)]
struct Kept {
    directory: String,
    /// The external account's key identifier.
    external: Option<String>,
    /// In PEM.
    key: String,
    /// Its URL, when the authority knows it.
    id: Option<String>,
}

/// Which account is meant.
pub(crate) struct Wanted<'a> {
    /// The URL of the directory.
    pub(crate) directory: &'a str,
    pub(crate) email: Option<&'a str>,
    pub(crate) external: Option<&'a External>,
}

/// The account, which is made where there is none. The key is written before the authority sees it,
/// so that one who is killed meanwhile finds his account again. Of an external account the library
/// makes the key itself: killed before the answer is written, the agent makes another account.
///
/// # Errors
/// When the authority or the storage fails.
pub(crate) fn open(
    storage: &Storage,
    wanted: &Wanted<'_>,
    https: &Https,
) -> Result<Account, Fault> {
    let stem = stem(wanted.directory);
    let external = wanted.external.map(|external| external.id.clone());
    let kept = storage.get::<Kept>(Shelf::Accounts, &stem)?;
    let kept = kept.filter(|kept| kept.directory == wanted.directory && kept.external == external);
    let directory = wanted.directory.to_owned();
    if let Some(Kept { key, id: Some(id), .. }) = &kept {
        let (key, id) = (pkcs8(key)?, id.clone());
        return Ok(https.finish(builder(https).from_parts(id, key, directory))?);
    }
    let (account, key) = match wanted.external {
        Some(external) => make(wanted, Some(&bound(external)?), https)?,
        None => {
            let key = match kept {
                Some(kept) => kept.key,
                None => {
                    let key = KeyPair::generate().map_err(here)?.serialize_pem();
                    let (directory, key) = (directory.clone(), key);
                    let kept = Kept { directory, external: None, key, id: None };
                    storage.put(Shelf::Accounts, &stem, &kept)?;
                    kept.key
                }
            };
            register(wanted, key, https)?
        }
    };
    say!(
        Level::Info,
        "acme: there is an account with {directory} now, which agrees to its terms of service"
    );
    let kept = Kept { directory, external, key, id: Some(account.id().to_owned()) };
    storage.put(Shelf::Accounts, &stem, &kept)?;
    Ok(account)
}

/// Deletes what is known about the account, so that another is made.
///
/// # Errors
/// When the disk fails.
pub(crate) fn forget(storage: &Storage, directory: &str) -> Result<(), Fault> {
    Ok(storage.remove(Shelf::Accounts, &stem(directory))?)
}

/// An account for a key that is written already; the authority finds the one that it has. One that
/// wants the address with the first request gets it so, and another key.
fn register(wanted: &Wanted<'_>, key: String, https: &Https) -> Result<(Account, String), Fault> {
    let registered = asked(|| {
        let der = pkcs8(&key).map_err(|fault| Error::Other(fault.why().to_owned().into()))?;
        let pair = (Key::from_pkcs8_der(der.clone_key())?, PrivateKeyDer::Pkcs8(der));
        https.finish(builder(https).create_from_key(pair, wanted.directory.to_owned()))
    });
    match (registered, wanted.email) {
        (Ok((account, _)), Some(email)) => {
            let contact = format!("mailto:{email}");
            asked(|| https.finish(account.update_contacts(&[&contact])))?;
            Ok((account, key))
        }
        (Ok((account, _)), None) => Ok((account, key)),
        (Err(Error::Api(_)), Some(_)) => make(wanted, None, https),
        (Err(error), _) => Err(error.into()),
    }
}

/// An account, all with one request.
fn make(
    wanted: &Wanted<'_>,
    external: Option<&ExternalAccountKey>,
    https: &Https,
) -> Result<(Account, String), Fault> {
    let contact = wanted.email.map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let directory = wanted.directory.to_owned();
    let create = || https.finish(builder(https).create(&new, directory.clone(), external));
    let (account, credentials) = asked(create)?;
    let key = KeyPair::try_from(credentials.private_key()).map_err(here)?;
    Ok((account, key.serialize_pem()))
}

fn builder(https: &Https) -> instant_acme::AccountBuilder {
    Account::builder_with_http(Box::new(https.clone()))
}

fn pkcs8(pem: &str) -> Result<PrivatePkcs8KeyDer<'static>, Fault> {
    let key = KeyPair::from_pem(pem).map_err(here)?;
    Ok(PrivatePkcs8KeyDer::from(key.serialize_der()))
}

fn bound(external: &External) -> Result<ExternalAccountKey, Fault> {
    use base64ct::{Base64UrlUnpadded, Encoding};
    let mut room = [0; EXTERNAL_KEY_MAX];
    let key = Base64UrlUnpadded::decode(external.key.trim_end_matches('='), &mut room);
    let key = key.map_err(|_| Fault::Here("the external account's key is not base64url".into()))?;
    Ok(ExternalAccountKey::new(external.id.clone(), key))
}

fn here(error: impl std::fmt::Display) -> Fault {
    Fault::Here(error.to_string())
}

/// A name of a file for a directory: its URL without what a path cannot have. What the file says is
/// compared with the whole URL.
fn stem(directory: &str) -> String {
    let plain = |byte: char| if byte.is_ascii_alphanumeric() || byte == '-' { byte } else { '_' };
    let url = directory.trim_start_matches("https://");
    url.chars().map(plain).take(STEM_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_name_of_a_file() {
        assert_eq!(stem("https://ca.example:14000/dir"), "ca_example_14000_dir");
        assert_eq!(stem("https://../../x\u{fc}"), "______x_");
        assert_eq!(stem(&format!("https://{}", "a".repeat(500))).len(), STEM_MAX);
    }

    #[test]
    fn an_external_key_is_base64url() {
        let external = |key: &str| External { id: "k".into(), key: key.into() };
        assert!(
            bound(&external("zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"))
                .is_ok()
        );
        assert!(bound(&external("not base64!")).is_err());
        assert!(bound(&external(&"A".repeat(4_000))).is_err());
    }
}
