//! Whose certificates clients show: authorities, and lists of what they have revoked.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::load::shown;
use crate::revoked::{List, unusable};
use crate::signers::Signers;
use crate::x509::Certificate;

/// Whose certificates clients show.
#[derive(Clone, Debug)]
pub struct ClientAuth {
    pub(crate) roots: Vec<CertificateDer<'static>>,
    pub(crate) lists: Vec<CertificateRevocationListDer<'static>>,
    /// Whether a client without one is refused.
    pub(crate) is_required: bool,
    /// Which it is among those that are renewed.
    number: usize,
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
}

/// Why authorities or lists cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFault {
    /// Whether it is the lists', not the authorities'.
    pub is_of_lists: bool,
    /// What is wrong with them.
    pub why: String,
}

impl ClientFault {
    fn of_roots(why: String) -> ClientFault {
        ClientFault { is_of_lists: false, why }
    }

    fn of_lists(why: String) -> ClientFault {
        ClientFault { is_of_lists: true, why }
    }
}

impl PartialEq for ClientAuth {
    /// Whether clients that one lets in are let in by the other, now and after a renewal.
    fn eq(&self, other: &ClientAuth) -> bool {
        (&self.roots, &self.lists, self.is_required, self.number)
            == (&other.roots, &other.lists, other.is_required, other.number)
    }
}

impl Eq for ClientAuth {}

impl ClientAuth {
    /// Certificates that these authorities issued, without those that these lists revoke, if there
    /// are any; both in PEM. Only a client's own certificate is looked up in the lists: that of its
    /// issuer must be among them, and be in its time (RFC 5280, section 5.1.2.5).
    ///
    /// # Errors
    /// Which of the two cannot be used, and why.
    pub fn from_pem(
        roots: &[u8],
        lists: Option<&[u8]>,
        is_required: bool,
    ) -> Result<ClientAuth, ClientFault> {
        let roots: Vec<_> =
            CertificateDer::pem_slice_iter(roots).collect::<Result<_, _>>().map_err(|error| {
                ClientFault::of_roots(format!("holds what is no certificate: {}", shown(&error)))
            })?;
        if roots.is_empty() {
            return Err(ClientFault::of_roots("holds no certificate in PEM".to_owned()));
        }
        let read = |lists: &[u8]| {
            let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(lists)
                .collect::<Result<_, _>>()
                .map_err(|error| {
                    format!("holds what is no list of revoked ones: {}", shown(&error))
                })?;
            match lists.is_empty() {
                true => Err("holds no list of revoked certificates in PEM".to_owned()),
                false => Ok(lists),
            }
        };
        let lists = lists.map(read).transpose().map_err(ClientFault::of_lists)?;
        ClientAuth::from_der(roots, lists.unwrap_or_default(), is_required)
    }

    /// The same of what is read from PEM already.
    ///
    /// # Errors
    /// As [`ClientAuth::from_pem`].
    pub(crate) fn from_der(
        roots: Vec<CertificateDer<'static>>,
        lists: Vec<CertificateRevocationListDer<'static>>,
        is_required: bool,
    ) -> Result<ClientAuth, ClientFault> {
        let mut store = RootCertStore::empty();
        for root in &roots {
            let added = store.add(root.clone());
            let why = "holds a certificate that is cut off or damaged";
            added.map_err(|_| ClientFault::of_roots(why.to_owned()))?;
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
            .with_crls(lists.iter().cloned())
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration();
        let verifier = match is_required {
            true => verifier,
            false => verifier.allow_unauthenticated(),
        };
        let verifier = verifier.build();
        let verifier = verifier.map_err(|error| ClientFault::of_lists(unusable(&error)))?;
        let verifier = Arc::new(Signers(verifier));
        Ok(ClientAuth { roots, lists, is_required, number: 0, verifier })
    }

    /// The same with a number, by which it is renewed.
    #[must_use]
    pub fn numbered(self, number: usize) -> ClientAuth {
        ClientAuth { number, ..self }
    }

    /// The number by which it is renewed.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The first second, since 1970, in which one of the lists is over: clients whose certificates
    /// are looked up in it are refused from then on. None without lists.
    pub fn lists_end_s(&self) -> Option<u64> {
        self.lists.iter().filter_map(|list| List::parse(list)?.next_update_s).min()
    }

    /// The same with those lists of another in the place of its own that are newer, and the issuers
    /// of the lists whose places they take: what was revoked once stays so.
    ///
    /// # Errors
    /// As [`ClientAuth::from_pem`].
    pub fn with_newer_lists_of(
        self,
        other: &ClientAuth,
    ) -> Result<(ClientAuth, Vec<String>), ClientFault> {
        let (mut lists, mut replaced) = (self.lists.clone(), Vec::new());
        for list in &mut lists {
            let Some(own) = List::parse(list) else { continue };
            let is_newer = |one: &&CertificateRevocationListDer<'static>| {
                List::parse(one).is_some_and(|one| own.is_older_than(&one))
            };
            if let Some(newer) = other.lists.iter().find(is_newer) {
                replaced.push(own.issuer);
                *list = newer.clone();
            }
        }
        if replaced.is_empty() {
            return Ok((self, replaced));
        }
        let number = self.number;
        let merged = ClientAuth::from_der(self.roots, lists, self.is_required)?;
        Ok((merged.numbered(number), replaced))
    }

    /// The certificates among the authorities that are of none (RFC 5280, section 4.2.1.9), and
    /// that another has issued: one that has issued itself may stand for itself alone.
    pub fn leaves(&self) -> Vec<Certificate> {
        let all = self.roots.iter().filter_map(|root| Certificate::parse(root));
        all.filter(|one| !one.is_authority && one.subject != one.issuer).collect()
    }

    /// The issuers of lists that are none of the authorities.
    pub fn lists_of_others(&self) -> Vec<String> {
        let known: Vec<Certificate> =
            self.roots.iter().filter_map(|root| Certificate::parse(root)).collect();
        let issuers = self.lists.iter().filter_map(|list| Some(List::parse(list)?.issuer));
        issuers.filter(|issuer| known.iter().all(|one| one.subject != *issuer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
        KeyIdMethod, KeyPair, KeyUsagePurpose, date_time_ymd,
    };

    fn authority() -> (rcgen::Certificate, Issuer<'static, KeyPair>) {
        named("an authority")
    }

    fn named(name: &str) -> (rcgen::Certificate, Issuer<'static, KeyPair>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::CrlSign, KeyUsagePurpose::KeyCertSign];
        (params.self_signed(&key).unwrap(), Issuer::new(params, key))
    }

    fn list(issuer: &Issuer<'static, KeyPair>, year: i32) -> String {
        numbered(issuer, year, 1)
    }

    fn numbered(issuer: &Issuer<'static, KeyPair>, year: i32, number: u64) -> String {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: number.into(),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(issuer).unwrap().pem().unwrap()
    }

    #[test]
    fn what_holds_no_authority_or_no_list_is_a_fault_of_its_file() {
        let (authority, issuer) = authority();
        let (roots, list) = (authority.pem(), list(&issuer, 2030));
        let read = |roots: &str, lists: Option<&[u8]>| {
            let read = ClientAuth::from_pem(roots.as_bytes(), lists, true);
            read.map_err(|fault| (fault.is_of_lists, fault.why))
        };
        assert!(read(&roots, None).is_ok() && read(&roots, Some(list.as_bytes())).is_ok());
        let der = pem_to_der(&list);
        for lists in [&b""[..], roots.as_bytes(), &der] {
            let (is_of_lists, why) = read(&roots, Some(lists)).unwrap_err();
            assert!(is_of_lists && why.contains("no list"), "{why}");
        }
        let cut = list.replace("-----BEGIN X509 CRL-----\nMI", "-----BEGIN X509 CRL-----\nMA");
        let cut = read(&roots, Some(cut.as_bytes())).unwrap_err();
        assert_eq!(cut, (true, "holds a list that is cut off or damaged".to_owned()));
        let unended = list.replace("-----END", "");
        let (_, why) = read(&roots, Some(unended.as_bytes())).unwrap_err();
        assert!(why.ends_with("a BEGIN line has no END line"), "{why}");
        for roots in ["", &list] {
            let (is_of_lists, why) = read(roots, Some(list.as_bytes())).unwrap_err();
            assert!(!is_of_lists && why.contains("no certificate"), "{why}");
        }
    }

    fn pem_to_der(pem: &str) -> Vec<u8> {
        CertificateRevocationListDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
    }

    #[test]
    fn lists_end_when_the_first_of_them_is_to_be_replaced() {
        let (authority, issuer) = authority();
        let both = list(&issuer, 2030) + &list(&issuer, 2025);
        let of = |lists: Option<&[u8]>| {
            ClientAuth::from_pem(authority.pem().as_bytes(), lists, true).unwrap().lists_end_s()
        };
        assert_eq!((of(Some(both.as_bytes())), of(None)), (Some(1_735_689_600), None));
    }

    #[test]
    fn one_that_is_renewed_by_itself_is_no_other_of_the_same_content() {
        let (authority, _) = authority();
        let one = ClientAuth::from_pem(authority.pem().as_bytes(), None, true).unwrap();
        let optional = ClientAuth::from_pem(authority.pem().as_bytes(), None, false).unwrap();
        assert_eq!(one.clone(), one);
        assert!(one.clone().numbered(1) != one && optional != one);
    }

    #[test]
    fn a_list_of_the_same_authority_gives_way_to_a_newer_one() {
        let (authority, issuer) = named("one");
        let (_, other) = named("two");
        let read = |lists: String| {
            let auth =
                ClientAuth::from_pem(authority.pem().as_bytes(), Some(lists.as_bytes()), true);
            auth.unwrap().numbered(3)
        };
        // 256 is more than 9, although its first byte is less.
        let (old, new) = (numbered(&issuer, 2031, 9), numbered(&issuer, 2030, 256));
        let (beside, later) = (numbered(&other, 2030, 5), numbered(&other, 2030, 6));
        let in_use = read(new.clone() + &beside);
        let merged = |lists: String| read(lists).with_newer_lists_of(&in_use).unwrap();
        let (auth, replaced) = merged(old + &later);
        assert_eq!(replaced, ["CN=one"]);
        assert!(auth == read(new.clone() + &later));
        for lists in
            [new + &beside, numbered(&issuer, 2030, 257), numbered(&named("one").1, 2030, 1)]
        {
            let (auth, replaced) = merged(lists.clone());
            assert!(auth == read(lists) && replaced.is_empty(), "{replaced:?}");
        }
    }

    #[test]
    fn leaves_and_lists_of_others_are_found() {
        let (authority, issuer) = named("one");
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["client".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "a client");
        let leaf = params.signed_by(&key, &issuer).unwrap();
        let own = params.self_signed(&key).unwrap();
        let (other, of_other) = named("other");
        let read = |roots: String, lists: Option<String>| {
            ClientAuth::from_pem(roots.as_bytes(), lists.as_ref().map(String::as_bytes), true)
                .unwrap()
        };
        let auth = read(authority.pem() + &leaf.pem() + &own.pem(), Some(list(&of_other, 2030)));
        let leaves: Vec<String> = auth.leaves().into_iter().map(|leaf| leaf.issuer).collect();
        assert_eq!(
            (leaves, auth.lists_of_others()),
            (vec!["CN=one".into()], vec!["CN=other".to_owned()])
        );
        let auth = read(authority.pem() + &other.pem(), Some(list(&issuer, 2030)));
        assert!(auth.leaves().is_empty() && auth.lists_of_others().is_empty());
    }
}
