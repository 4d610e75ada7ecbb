//! An authority of one machine, for names that no other may vouch for: `localhost`, and addresses
//! that the internet does not reach. A client that trusts it does so for these alone (RFC 5280,
//! section 4.2.1.10), and for servers alone (section 4.2.1.12).

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, Error,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};

use crate::load::{Fault, Pair};

/// How long the authority holds, in seconds: a year.
const AUTHORITY_S: u64 = 365 * DAY_S;

/// How long what it issues holds, in seconds, and not longer than itself.
const LEAF_S: u64 = 30 * DAY_S;

/// Clocks of other machines are late by so many seconds at most.
const BEHIND_S: u64 = DAY_S;

const DAY_S: u64 = 86_400;

/// The one name that it may vouch for, and names below it.
const LOCALHOST: &str = "localhost";

/// Networks of this machine, and of those that the internet does not reach (RFC 1918, RFC 3927,
/// RFC 4193, RFC 4291): their first address, and how many bits of it count.
const NETWORKS: [(IpAddr, u8); 8] = [
    (v4(127, 0), 8),
    (v4(10, 0), 8),
    (v4(172, 16), 12),
    (v4(192, 168), 16),
    (v4(169, 254), 16),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
];

const fn v4(first: u8, second: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(first, second, 0, 0))
}

/// An authority, with its key.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, in PEM.
    root: String,
    /// Its key, in PEM.
    key: String,
    not_after_s: u64,
}

impl Authority {
    /// A new one, from this second since 1970 on, for a year.
    ///
    /// # Errors
    /// When the library has no random bytes.
    pub fn new(now_s: u64) -> Result<Authority, String> {
        let key = KeyPair::generate().map_err(told)?;
        // One that takes the place of another has another name.
        let params = params(&format!("Flyball on this machine ({now_s})"), now_s);
        let root = params.self_signed(&key).map_err(told)?.pem();
        let not_after_s = now_s + AUTHORITY_S;
        let text = key.serialize_pem();
        Ok(Authority { issuer: Issuer::new(params, key), root, key: text, not_after_s })
    }

    /// The one that [`Authority::to_pem`] has written.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn from_pem(text: &str) -> Result<Authority, Fault> {
        let pair = Pair::from_pem(text.as_bytes(), text.as_bytes())?;
        let certificate = pair.certificate();
        let key = KeyPair::from_pem(text).map_err(|error| Fault::WrongKey(error.to_string()))?;
        let begin = text.find("-----BEGIN CERTIFICATE").unwrap_or(0);
        let name = certificate.subject.strip_prefix("CN=").unwrap_or(&certificate.subject);
        Ok(Authority {
            issuer: Issuer::new(params(name, certificate.not_before_s + BEHIND_S), key),
            root: text[begin..].to_owned(),
            key: text[..begin].to_owned(),
            not_after_s: certificate.not_after_s,
        })
    }

    /// Its key and then its certificate, in PEM.
    pub fn to_pem(&self) -> String {
        format!("{}{}", self.key, self.root)
    }

    /// Its certificate, in PEM: what clients are to trust.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The last second in which it holds, since 1970.
    pub fn not_after_s(&self) -> u64 {
        self.not_after_s
    }

    /// Whether it may vouch for a name or an address.
    pub fn may_issue(name: &str) -> bool {
        match name.parse::<IpAddr>() {
            Ok(address) => is_private(address),
            Err(_) => {
                let below = name.strip_suffix(LOCALHOST);
                below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
            }
        }
    }

    /// A certificate for these names and addresses, with its key: from this second since 1970 on,
    /// for thirty days.
    ///
    /// # Errors
    /// When it may not vouch for one of them, or the library fails.
    pub fn issue(&self, names: &[String], now_s: u64) -> Result<Pair, String> {
        if let Some(name) = names.iter().find(|name| !Authority::may_issue(name)) {
            return Err(format!("{name} is neither localhost nor a private address"));
        }
        let mut params = CertificateParams::new(names.to_vec()).map_err(told)?;
        params.distinguished_name = named("Flyball on this machine");
        let until_s = self.not_after_s.min(now_s + LEAF_S);
        hold(&mut params, now_s, until_s);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(told)?;
        let leaf = params.signed_by(&key, &self.issuer).map_err(told)?.pem();
        Pair::from_pem(leaf.as_bytes(), key.serialize_pem().as_bytes())
            .map_err(|fault| fault.to_string())
    }
}

/// Whether an address is in one of [`NETWORKS`].
fn is_private(address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let address = address.to_canonical();
    NETWORKS.into_iter().any(|(network, prefix)| {
        address.is_ipv4() == network.is_ipv4()
            && (bits(address) ^ bits(network)).leading_zeros() >= u32::from(prefix)
    })
}

/// What an authority of this name says of itself.
fn params(name: &str, now_s: u64) -> CertificateParams {
    let networks = NETWORKS.into_iter().map(|(address, prefix)| {
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, prefix))
    });
    // What has no such name is not bound by constraints on others: mail has one of its own.
    let localhost = [
        GeneralSubtree::DnsName(LOCALHOST.to_owned()),
        GeneralSubtree::Rfc822Name(LOCALHOST.to_owned()),
    ];
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    hold(&mut params, now_s, now_s + AUTHORITY_S);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: networks.chain(localhost).collect(),
        excluded_subtrees: Vec::new(),
    });
    params
}

/// Has a certificate hold from the one second to the other, and somewhat earlier already.
fn hold(params: &mut CertificateParams, from_s: u64, until_s: u64) {
    let at = |second| date_time_ymd(1970, 1, 1) + Duration::from_secs(second);
    (params.not_before, params.not_after) = (at(from_s.saturating_sub(BEHIND_S)), at(until_s));
}

fn named(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

fn told(error: Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    #[test]
    fn it_is_read_as_it_was_written_and_issues_for_a_month() {
        let made = Authority::new(NOW_S).unwrap();
        let read = Authority::from_pem(&made.to_pem()).unwrap();
        assert_eq!((read.root(), read.to_pem()), (made.root(), made.to_pem()));
        assert_eq!(read.not_after_s(), NOW_S + AUTHORITY_S);
        let names = ["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
        for authority in [&made, &read] {
            let pair = authority.issue(&names, NOW_S).unwrap();
            let root =
                Pair::of_challenge(made.root().as_bytes(), made.to_pem().as_bytes()).unwrap();
            let (leaf, root) = (pair.certificate(), root.certificate());
            assert_eq!(leaf.issuer, root.subject);
            assert_eq!((leaf.names.len(), leaf.addresses.len()), (1, 2));
            assert_eq!(leaf.not_after_s, NOW_S + LEAF_S);
            assert!(leaf.not_before_s < NOW_S);
        }
        let late = made.not_after_s() - 5;
        assert_eq!(made.issue(&names, late).unwrap().certificate().not_after_s, late + 5);
    }

    #[test]
    fn it_vouches_for_nothing_that_others_could_have() {
        for name in ["localhost", "a.localhost", "127.1.2.3", "10.0.0.1", "172.31.0.1", "::1"] {
            assert!(Authority::may_issue(name), "{name}");
        }
        let authority = Authority::new(NOW_S).unwrap();
        for name in ["example.org", "xlocalhost", "172.32.0.1", "192.0.2.1", "2001:db8::1", "", "*"]
        {
            assert!(!Authority::may_issue(name), "{name}");
            assert!(authority.issue(&[name.to_owned()], NOW_S).is_err());
        }
    }
}
