//! A private key and the chain of its certificate, as one file of the storage has them.

use flyball_tls::{Certificate, Fault};
use instant_acme::CertificateIdentifier;
use rustls::pki_types::{CertificateDer, Der};

use crate::names::Name;

/// Begins the line, behind key and chain, that names the directory of the authority.
const BY: &str = "# issued by ";

/// A key and a chain that belong together.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Both in PEM, the key first.
    pub(crate) text: String,
    read: flyball_tls::Pair,
}

impl Pair {
    /// Puts a key and the chain that an authority sent together.
    ///
    /// # Errors
    /// What is wrong with which of the two, also when each holds what the other should.
    pub(crate) fn of(key: &str, chain: &str) -> Result<Pair, Fault> {
        flyball_tls::Pair::from_pem(chain.as_bytes(), key.as_bytes())?;
        Pair::of_text(format!("{}\n{}\n", key.trim_end(), chain.trim_end()))
    }

    fn of_text(text: String) -> Result<Pair, Fault> {
        let read = flyball_tls::Pair::from_pem(text.as_bytes(), text.as_bytes())?;
        Ok(Pair { text, read })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is not a key and its chain.
    pub(crate) fn read(text: String) -> Result<Pair, String> {
        Pair::of_text(text).map_err(|fault| format!("the file {fault}"))
    }

    /// The same, issued by the authority of this directory.
    #[must_use]
    pub(crate) fn by(mut self, directory: &str) -> Pair {
        self.text.push_str(&format!("{BY}{directory}\n"));
        self
    }

    /// The directory of the authority that issued it, if that is known: it is not of one that was
    /// imported.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.text.lines().next_back()?.strip_prefix(BY)
    }

    /// What the certificate says.
    pub(crate) fn leaf(&self) -> &Certificate {
        self.read.certificate()
    }

    /// The certificate itself.
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        self.read.leaf()
    }

    /// Whether it is for all of these names. A wildcard is for one label (RFC 9525, section 6.3).
    pub(crate) fn covers(&self, names: &[Name]) -> bool {
        let leaf = self.leaf();
        names.iter().all(|name| match name.address() {
            Some(address) => leaf.addresses.contains(&address),
            None if name.is_wildcard() => leaf.names.iter().any(|known| known == name.as_str()),
            None => leaf.names(name.as_str()),
        })
    }

    /// Whether its key is this one, in PEM.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.text.starts_with(key.trim_end())
    }

    /// How its authority names it in advice about renewal (RFC 9773, section 4.1).
    pub(crate) fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let leaf = self.leaf();
        let (key, serial) = (bytes(&leaf.authority_key)?, bytes(&leaf.serial)?);
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
pub(crate) mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    /// A key and a certificate of its own for these names.
    pub(crate) fn made(names: &[&str]) -> (String, String) {
        made_until(names, 4_000)
    }

    /// The same, which ends with the first day of a year.
    pub(crate) fn made_until(names: &[&str], year: i32) -> (String, String) {
        made_between(names, 1975, year)
    }

    /// The same, which begins with the first day of a year too.
    pub(crate) fn made_between(names: &[&str], from: i32, until: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        (key.serialize_pem(), params.self_signed(&key).unwrap().pem())
    }

    #[test]
    fn a_key_that_does_not_match_is_no_pair() {
        let ((key, chain), (other, _)) = (made(&["a.org"]), made(&["a.org"]));
        let pair = Pair::of(&key, &chain).unwrap();
        assert!(pair.has_key(&key) && !pair.has_key(&other));
        assert!(matches!(Pair::of(&other, &chain), Err(Fault::Mismatch)));
        for text in ["", &key, &chain, "-----BEGIN PRIVATE KEY-----\n"] {
            assert!(Pair::read(text.to_string()).is_err(), "{text}");
        }
    }

    #[test]
    fn its_authority_is_read_where_it_was_written() {
        let (key, chain) = made(&["a.org"]);
        let pair = Pair::of(&key, &chain).unwrap();
        assert_eq!(pair.authority(), None);
        let text = pair.by("https://ca.example/dir").text;
        assert_eq!(Pair::read(text).unwrap().authority(), Some("https://ca.example/dir"));
    }

    #[test]
    fn it_covers_the_names_that_it_has_and_what_its_wildcards_stand_for() {
        let (key, chain) = made(&["a.org", "*.a.org"]);
        let pair = Pair::of(&key, &chain).unwrap();
        let covers = |names: &[&str]| {
            pair.covers(&names.iter().map(|name| Name::parse(name).unwrap()).collect::<Vec<_>>())
        };
        assert!(covers(&["a.org", "*.a.org"]) && covers(&["*.a.org"]));
        assert!(covers(&["b.a.org"]) && !covers(&["c.b.a.org"]) && !covers(&["a.org", "b.org"]));
        assert!(!covers(&["*.b.a.org"]));
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
