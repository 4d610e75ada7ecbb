//! A certificate with its chain, and the key that belongs to it: read from PEM, and checked.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, SignatureAlgorithm};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::key;
use crate::x509::Certificate;

/// How the PEM of a key begins that only a password opens (RFC 7468, section 11, and OpenSSL's
/// older form).
const ENCRYPTED: [&str; 2] = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];

/// How the PEM of a certificate, and that of any key, goes on behind its dashes.
const CERTIFICATE: &str = "BEGIN CERTIFICATE-----";
const KEY: &str = "PRIVATE KEY-----";

/// Keys in a form of OpenSSL's own that none is read from here.
const OLD_KEYS: [(&str, &str); 1] = [("BEGIN DSA PRIVATE KEY", "DSA")];

/// A certificate with its chain, and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub(crate) certified: Arc<CertifiedKey>,
    /// The key as it was read, to be handed to other processes.
    key: Arc<PrivateKeyDer<'static>>,
    certificate: Arc<Certificate>,
}

/// Why a chain and a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What should hold the chain holds no certificate.
    NoCertificate,
    /// What should hold the chain holds a key, and the other way round.
    Swapped,
    /// A part of the chain is no PEM of a certificate, or its first certificate cannot be read.
    WrongChain(String),
    /// What should hold the key holds none.
    NoKey,
    /// The key is encrypted.
    Encrypted,
    /// The key is of no kind that is known.
    WrongKey(String),
    /// The key is that of another certificate.
    Mismatch,
    /// The certificate of the key is behind another one.
    NotFirst,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoCertificate => f.write_str("holds no certificate in PEM"),
            Fault::Swapped => f.write_str(
                "holds a key, and what is given as the key holds a certificate: the two are \
                 swapped",
            ),
            Fault::WrongChain(why) => write!(f, "holds a certificate that cannot be read: {why}"),
            Fault::NoKey => f.write_str("holds no private key in PEM"),
            Fault::Encrypted => {
                f.write_str("holds a key that only a password opens; write it without one")
            }
            Fault::WrongKey(why) => write!(f, "holds a key that cannot be used: {why}"),
            Fault::Mismatch => f.write_str("holds a key that does not belong to the certificate"),
            Fault::NotFirst => f.write_str(
                "holds the certificate of the key behind another one: that of the site itself must \
                 be the first",
            ),
        }
    }
}

impl Fault {
    /// Whether it is the chain's, not the key's.
    pub fn is_of_chain(&self) -> bool {
        use Fault::{NoCertificate, NotFirst, Swapped, WrongChain};
        matches!(self, NoCertificate | Swapped | WrongChain(_) | NotFirst)
    }
}

/// What is wrong with a text in PEM, for its owner: the library shows the bytes of a label.
pub(crate) fn shown(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a BEGIN line has no END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is broken".to_owned(),
        other => other.to_string(),
    }
}

impl Pair {
    /// Reads a chain, the leaf first, and the key of the leaf; both may be in one text.
    ///
    /// # Errors
    /// What is wrong with them. Whether the certificate holds now is not looked at.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Pair, Fault> {
        let pair = Pair::of_challenge(chain, key)?;
        match pair.certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(pair),
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                let CertifiedKey { cert, key, .. } = &*pair.certified;
                let is_of_key = |leaf: &CertificateDer<'static>| {
                    CertifiedKey::new(vec![leaf.clone()], Arc::clone(key)).keys_match() == Ok(())
                };
                let is_behind = cert.iter().skip(1).any(is_of_key);
                Err(if is_behind { Fault::NotFirst } else { Fault::Mismatch })
            }
            Err(Error::InvalidCertificate(_)) => {
                let why = "the first is broken, or has a critical extension that is not known";
                Err(Fault::WrongChain(why.to_owned()))
            }
            Err(error) => Err(Fault::WrongChain(error.to_string())),
        }
    }

    /// The same of a certificate that is only made to show an authority that a name is ours: what
    /// it says of itself is critical, and no other understands it (RFC 8737, section 3). Whether
    /// the two belong together is not looked at.
    ///
    /// # Errors
    /// As [`Pair::from_pem`].
    pub fn of_challenge(chain: &[u8], key: &[u8]) -> Result<Pair, Fault> {
        let wrong = |error: pem::Error| Fault::WrongChain(shown(&error));
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(wrong)?;
        if certificates.is_empty() {
            let is_swapped = contains(chain, KEY) && contains(key, CERTIFICATE);
            return Err(if is_swapped { Fault::Swapped } else { Fault::NoCertificate });
        }
        let is_encrypted = |key: &[u8]| ENCRYPTED.iter().any(|text| contains(key, text));
        let old = OLD_KEYS.iter().find(|(text, _)| contains(key, text));
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match (error, old) {
            _ if is_encrypted(key) => Fault::Encrypted,
            (pem::Error::NoItemsFound, Some((_, kind))) => Fault::WrongKey(key::unknown(kind)),
            (pem::Error::NoItemsFound, None) => Fault::NoKey,
            (error, _) => Fault::WrongKey(shown(&error)),
        })?;
        Pair::from_der(certificates, key)
    }

    /// The same of what is read from PEM already, and was looked at then.
    ///
    /// # Errors
    /// As [`Pair::of_challenge`].
    pub(crate) fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Pair, Fault> {
        let leaf = chain.first().ok_or(Fault::NoCertificate)?;
        let certificate = Certificate::parse(leaf)
            .ok_or_else(|| Fault::WrongChain("it is no certificate of X.509".to_owned()))?;
        let signing = any_supported_type(&key).map_err(|error| {
            Fault::WrongKey(key::unusable(&key).unwrap_or_else(|| error.to_string()))
        })?;
        Ok(Pair {
            certified: Arc::new(CertifiedKey::new(chain, signing)),
            key: Arc::new(key),
            certificate: Arc::new(certificate),
        })
    }

    /// What its certificate says.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The certificate itself, in DER.
    pub fn leaf(&self) -> &CertificateDer<'static> {
        &self.certified.cert[0]
    }

    /// Whether its key is one whose signatures take long: RSA.
    pub fn signs_slowly(&self) -> bool {
        self.certified.key.algorithm() == SignatureAlgorithm::RSA
    }

    /// What kind of key it has, as it is told.
    pub fn key_kind(&self) -> &'static str {
        match self.certified.key.algorithm() {
            SignatureAlgorithm::RSA => "RSA",
            SignatureAlgorithm::ECDSA => "ECDSA",
            SignatureAlgorithm::ED25519 => "Ed25519",
            _ => "other",
        }
    }

    /// Its chain and its key in DER, for another process.
    pub(crate) fn der(&self) -> (&[CertificateDer<'static>], &PrivateKeyDer<'static>) {
        (&self.certified.cert, &self.key)
    }
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, generate_simple_self_signed};

    fn pem() -> (String, String) {
        let made = generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn read(chain: &str, key: &str) -> Result<Pair, Fault> {
        Pair::from_pem(chain.as_bytes(), key.as_bytes())
    }

    #[test]
    fn a_chain_and_its_key_are_read_from_two_texts_or_from_one() {
        let (chain, key) = pem();
        let pair = read(&chain, &key).unwrap();
        assert!(pair.certificate().names("a.test") && !pair.signs_slowly());
        assert_eq!(pair.key_kind(), "ECDSA");
        let both = format!("{key}{chain}");
        assert_eq!(read(&both, &both).unwrap().certificate(), pair.certificate());
    }

    #[test]
    fn a_challenge_may_be_critical_which_a_certificate_of_a_site_may_not() {
        let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(&[7; 32])];
        let key = KeyPair::generate().unwrap();
        let (chain, key) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        let why = read(&chain, &key).unwrap_err().to_string();
        assert!(why.ends_with("a critical extension that is not known"), "{why}");
        let pair = Pair::of_challenge(chain.as_bytes(), key.as_bytes()).unwrap();
        let (chain, key) = pair.der();
        assert!(Pair::from_der(chain.to_vec(), key.clone_key()).is_ok());
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let ((chain, key), (other_chain, other)) = (pem(), pem());
        let behind = format!("{other_chain}{chain}");
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let cut = key.replace("MIG", "MIH");
        for (chain, key, fault) in [
            (key.as_str(), key.as_str(), Fault::NoCertificate),
            (&chain, &chain, Fault::NoKey),
            (&chain, "", Fault::NoKey),
            (&key, &chain, Fault::Swapped),
            ("", &chain, Fault::NoCertificate),
            (&chain, &encrypted, Fault::Encrypted),
            (&chain, &other, Fault::Mismatch),
            (&behind, &key, Fault::NotFirst),
        ] {
            assert_eq!(read(chain, key).unwrap_err(), fault);
        }
        assert!(matches!(read(&chain, &cut), Err(Fault::WrongKey(_))));
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(read(empty, &key), Err(Fault::WrongChain(_))));
        let open = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        let why = read(open, &key).unwrap_err().to_string();
        assert!(why.ends_with("cannot be read: a BEGIN line has no END line"), "{why}");
        assert!(KeyPair::from_pem(&key).is_ok());
    }
}
