//! A private key and the chain of its certificate, as one file has them.

use flyball_tls::Certificate;
use instant_acme::CertificateIdentifier;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, Der, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::names::Name;

/// Certificates of a chain.
const CHAIN_MAX: usize = 16;

/// A key and a chain that belong together.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Both in PEM, the key first.
    pub(crate) text: String,
    pub(crate) leaf: Certificate,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Pair {
    /// Puts a key and the chain that an authority sent together.
    ///
    /// # Errors
    /// As [`read`](Pair::read).
    pub(crate) fn of(key: &str, chain: &str) -> Result<Pair, String> {
        Pair::read(format!("{}\n{}\n", key.trim_end(), chain.trim_end()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is not a key and its chain.
    pub(crate) fn read(text: String) -> Result<Pair, String> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|error| format!("the key: {error}"))?;
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(text.as_bytes()).take(CHAIN_MAX).collect();
        let chain = chain.map_err(|error| format!("the chain: {error}"))?;
        let certificate = chain.first().ok_or("there is no certificate")?.clone();
        let leaf = Certificate::parse(&certificate).ok_or("the certificate cannot be read")?;
        let key = any_supported_type(&key).map_err(|error| format!("the key: {error}"))?;
        let keys = CertifiedKey::new(chain, key).keys_match();
        keys.map_err(|error| format!("key and certificate do not match: {error}"))?;
        Ok(Pair { text, leaf, certificate })
    }

    /// Whether it is for all of these names.
    pub(crate) fn covers(&self, names: &[Name]) -> bool {
        names.iter().all(|name| match name.address() {
            Some(address) => self.leaf.addresses.contains(&address),
            None => self.leaf.names.iter().any(|known| known == name.as_str()),
        })
    }

    /// Whether its key is this one, in PEM.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.text.starts_with(key.trim_end())
    }

    /// How its authority names it in advice about renewal (RFC 9773, section 4.1).
    pub(crate) fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let (key, serial) = (bytes(&self.leaf.authority_key)?, bytes(&self.leaf.serial)?);
        let (key, serial) = (Der::from_slice(&key), Der::from_slice(&serial));
        Some(CertificateIdentifier::new(key, serial).into_owned())
    }
}

/// The bytes of hexadecimal digits; `None` when there are none.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len())
        .step_by(2)
        .map(byte)
        .collect::<Option<Vec<u8>>>()
        .filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn made(names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        (key.serialize_pem(), certificate.pem())
    }

    #[test]
    fn a_key_that_does_not_match_is_no_pair() {
        let ((key, chain), (other, _)) = (made(&["a.org"]), made(&["a.org"]));
        let pair = Pair::of(&key, &chain).unwrap();
        assert!(pair.has_key(&key) && !pair.has_key(&other));
        assert!(Pair::of(&other, &chain).unwrap_err().contains("match"));
        for text in ["", &key, &chain, "-----BEGIN PRIVATE KEY-----\n"] {
            assert!(Pair::read(text.to_string()).is_err(), "{text}");
        }
    }

    #[test]
    fn it_covers_the_names_that_it_has_to_the_letter() {
        let (key, chain) = made(&["a.org", "*.a.org"]);
        let pair = Pair::of(&key, &chain).unwrap();
        let covers = |names: &[&str]| {
            pair.covers(&names.iter().map(|name| Name::parse(name).unwrap()).collect::<Vec<_>>())
        };
        assert!(covers(&["a.org", "*.a.org"]) && covers(&["*.a.org"]));
        assert!(!covers(&["b.a.org"]) && !covers(&["a.org", "b.org"]));
        let (key, chain) = made(&["192.0.2.7", "2001:db8::1"]);
        let names = ["192.0.2.7", "2001:db8::1"].map(|name| Name::parse(name).unwrap());
        assert!(Pair::of(&key, &chain).unwrap().covers(&names));
    }

    #[test]
    fn an_identifier_has_the_bytes_of_key_and_serial() {
        assert_eq!(bytes("00ff7f"), Some(vec![0, 255, 127]));
        assert_eq!((bytes(""), bytes("0"), bytes("xx")), (None, None, None));
    }
}
