//! What a certificate says of itself (RFC 5280, section 4.1): read, and not verified.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::der::{
    BIT_STRING, BOOLEAN, GENERALIZED_TIME, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader,
    SEQUENCE, SET, UTC_TIME, object_identifier, of_number,
};

/// subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// keyUsage, 2.5.29.15, and its first bit, digitalSignature (RFC 5280, section 4.2.1.3).
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const DIGITAL_SIGNATURE: u8 = 0x80;

/// basicConstraints, 2.5.29.19 (RFC 5280, section 4.2.1.9).
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// authorityKeyIdentifier, 2.5.29.35, and its keyIdentifier (RFC 5280, section 4.2.1.1).
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];
const KEY_IDENTIFIER: u8 = 0x80;

/// dNSName and iPAddress of a GeneralName (RFC 5280, section 4.2.1.6).
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// Attributes of names, by their object identifiers (RFC 4514, section 3, and e-mail addresses).
const ATTRIBUTES: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
];

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whom it was issued to, as RFC 4514 writes names; empty if that is only in the names.
    pub subject: String,
    /// Who issued it, in the same form.
    pub issuer: String,
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// Which key of who issued it has signed it, in hexadecimal digits; empty if it does not say.
    pub authority_key: String,
    /// Whether it says that it is one of an authority.
    pub is_authority: bool,
    /// Whether its key may sign what is no certificate: it does not say what its key is for, or
    /// says so.
    pub may_sign: bool,
    /// When it begins to hold, in seconds since 1970.
    pub not_before_s: u64,
    /// The last second in which it holds.
    pub not_after_s: u64,
    /// The names that it holds for, in lower case; of those with a wildcard the first label is `*`.
    pub names: Vec<String>,
    /// The addresses that it holds for.
    pub addresses: Vec<IpAddr>,
}

impl Certificate {
    /// Whether it holds at a time in seconds since 1970.
    pub fn holds_at(&self, now_s: u64) -> bool {
        (self.not_before_s..=self.not_after_s).contains(&now_s)
    }

    /// Reads one in DER; `None` if it is none.
    pub fn parse(der: &[u8]) -> Option<Certificate> {
        let mut certificate = Reader::new(der).enter(SEQUENCE)?;
        let mut fields = certificate.enter(SEQUENCE)?;
        // The version, without which it is the first.
        fields.take(of_number(0));
        let serial = hexadecimal(fields.take(INTEGER)?);
        fields.take(SEQUENCE)?;
        let issuer = name(fields.enter(SEQUENCE)?)?;
        let mut validity = fields.enter(SEQUENCE)?;
        let (not_before_s, not_after_s) = (time(&mut validity)?, time(&mut validity)?);
        let subject = name(fields.enter(SEQUENCE)?)?;
        fields.take(SEQUENCE)?;
        let mut certificate = Certificate {
            subject,
            issuer,
            serial,
            authority_key: String::new(),
            is_authority: false,
            may_sign: true,
            not_before_s,
            not_after_s,
            names: Vec::new(),
            addresses: Vec::new(),
        };
        while let Some((tag, contents)) = fields.next() {
            if tag == of_number(3) {
                certificate.read_extensions(Reader::new(contents).enter(SEQUENCE)?)?;
            }
        }
        Some(certificate)
    }

    /// All certificates that are in a text in PEM; `None` where one cannot be read.
    pub fn all_of_pem(pem: &[u8]) -> Option<Vec<Certificate>> {
        let all = CertificateDer::pem_slice_iter(pem);
        all.map(|found| Certificate::parse(&found.ok()?)).collect()
    }

    fn read_extensions(&mut self, mut extensions: Reader<'_>) -> Option<()> {
        while let Some(mut extension) = extensions.enter(SEQUENCE) {
            let kind = extension.take(OBJECT_IDENTIFIER)?;
            extension.take(BOOLEAN);
            let mut value = Reader::new(extension.take(OCTET_STRING)?);
            match kind {
                BASIC_CONSTRAINTS => {
                    let says = value.enter(SEQUENCE)?.take(BOOLEAN);
                    self.is_authority = says.is_some_and(|says| says != [0]);
                }
                KEY_USAGE => {
                    // The first byte says how many bits of the last are none.
                    let bits = value.take(BIT_STRING)?.get(1);
                    self.may_sign = bits.is_some_and(|bits| bits & DIGITAL_SIGNATURE != 0);
                }
                SUBJECT_ALT_NAME => self.read_names(value.enter(SEQUENCE)?)?,
                AUTHORITY_KEY_IDENTIFIER => {
                    let key = value.enter(SEQUENCE)?.take(KEY_IDENTIFIER);
                    self.authority_key = key.map(hexadecimal).unwrap_or_default();
                }
                _ => {}
            }
        }
        extensions.is_empty().then_some(())
    }

    fn read_names(&mut self, mut general: Reader<'_>) -> Option<()> {
        while let Some((tag, contents)) = general.next() {
            match tag {
                DNS_NAME => {
                    let name = std::str::from_utf8(contents).ok()?.to_ascii_lowercase();
                    self.names.push(name.trim_end_matches('.').to_owned());
                }
                IP_ADDRESS => self.addresses.extend(address(contents)),
                _ => {}
            }
        }
        Some(())
    }

    /// Whether it holds for a name in lower case: its own, or one of a label more than a wildcard
    /// (RFC 6125, section 6.4.3).
    pub fn names(&self, name: &str) -> bool {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|own| {
            own == name || own.strip_prefix("*.").is_some_and(|above| Some(above) == parent)
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)))).ok()
}

/// A name, its last part first (RFC 4514, section 2.1).
pub(crate) fn name(mut parts: Reader<'_>) -> Option<String> {
    let mut written = Vec::new();
    while let Some(mut attributes) = parts.enter(SET) {
        let mut part = String::new();
        while let Some(mut attribute) = attributes.enter(SEQUENCE) {
            let kind = attribute.take(OBJECT_IDENTIFIER)?;
            let (tag, value) = attribute.next()?;
            if !part.is_empty() {
                part.push('+');
            }
            match ATTRIBUTES.iter().find(|(identifier, _)| *identifier == kind) {
                Some((_, name)) => part.push_str(name),
                None => part.push_str(&object_identifier(kind)),
            }
            part.push('=');
            write_value(tag, value, &mut part);
        }
        written.push(part);
    }
    written.reverse();
    parts.is_empty().then(|| written.join(","))
}

/// A value as RFC 4514 escapes it (section 2.4). One that is no text is written in hexadecimal
/// digits, and so is a character that a line or a terminal would take for its own.
fn write_value(tag: u8, value: &[u8], to: &mut String) {
    /// UTF8String, PrintableString, T61String and IA5String.
    const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];
    let Some(text) = std::str::from_utf8(value).ok().filter(|_| TEXTS.contains(&tag)) else {
        let _ = write!(to, "#{}", hexadecimal(value));
        return;
    };
    let last = text.chars().count().saturating_sub(1);
    for (at, letter) in text.chars().enumerate() {
        match letter {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => to.extend(['\\', letter]),
            '#' if at == 0 => to.push_str("\\#"),
            ' ' if at == 0 || at == last => to.push_str("\\ "),
            letter if letter.is_control() => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(to, "\\{byte:02x}");
                }
            }
            letter => to.push(letter),
        }
    }
}

/// The SHA-256 of a certificate in DER, in hexadecimal digits.
pub fn fingerprint(der: &[u8]) -> String {
    hexadecimal(digest(&SHA256, der).as_ref())
}

/// Bytes in hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The next time, in seconds since 1970; of those before that, 0.
pub(crate) fn time(reader: &mut Reader<'_>) -> Option<u64> {
    let (tag, text) = reader.next()?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let year: i64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let part = |at: usize| rest[2 * at..2 * at + 2].parse::<i64>().ok();
    let (month, day) = (part(0)?, part(1)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (hour, minute, second) = (part(2)?, part(3)?, part(4)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(u64::try_from(seconds).unwrap_or(0))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the day that is sometimes there is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_times_and_who_issued_it_are_read() {
        let der = made(|params| {
            params.not_before = date_time_ymd(2024, 2, 29);
            params.not_after = date_time_ymd(2051, 3, 1);
            params.distinguished_name.push(DnType::CommonName, "a,b\n");
            params.distinguished_name.push(DnType::OrganizationName, " o#");
            params.subject_alt_names = vec![
                SanType::DnsName("Example.ORG".try_into().unwrap()),
                SanType::DnsName("*.example.org".try_into().unwrap()),
                SanType::IpAddress([192, 0, 2, 1].into()),
            ];
            params.serial_number = Some(0x1234_u64.into());
            params.use_authority_key_identifier_extension = true;
        });
        let read = Certificate::parse(&der).unwrap();
        assert_eq!(read.names, ["example.org", "*.example.org"]);
        assert_eq!(read.addresses, [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!((read.not_before_s, read.not_after_s), (1_709_164_800, 2_561_241_600));
        assert!(read.authority_key.len() == 40 && !read.is_authority);
        assert!(read.subject.contains("CN=a\\,b\\0a"), "{}", read.subject);
        assert!(read.subject.contains("O=\\ o#"), "{}", read.subject);
        assert_eq!((read.issuer, read.serial), (read.subject.clone(), "1234".to_owned()));
    }

    #[test]
    fn one_of_an_authority_says_so() {
        let is_authority = |is_ca: rcgen::IsCa| {
            Certificate::parse(&made(|params| params.is_ca = is_ca)).unwrap().is_authority
        };
        assert!(is_authority(rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained)));
        assert!(!is_authority(rcgen::IsCa::ExplicitNoCa) && !is_authority(rcgen::IsCa::NoCa));
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        let der = made(|params| {
            params.subject_alt_names = vec![SanType::DnsName("*.a.test".try_into().unwrap())];
        });
        let read = Certificate::parse(&der).unwrap();
        assert!(read.names("x.a.test") && !read.names("a.test") && !read.names("x.y.a.test"));
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!((days(1970, 1, 1), days(2000, 2, 29), days(2100, 3, 1)), (0, 11_016, 47_541));
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_anywhere_is_read_or_refused() {
        let der = made(|_| {});
        for end in 0..der.len() {
            let _ = Certificate::parse(&der[..end]);
        }
        for at in 0..der.len() {
            for value in [0, 0x30, 0x7f, 0x80, 0xff] {
                let mut changed = der.clone();
                changed[at] = value;
                let _ = Certificate::parse(&changed);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Certificate::parse(&bytes);
        }
    }
}
