//! What a certificate says of itself (RFC 5280): until when, for which names, by whom. Signatures
//! are not looked at: it came from the authority, or from the agent's own storage.

use std::net::IpAddr;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Context-specific tags: of the version, of the extensions, of names and of a key's identifier.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const ADDRESS: u8 = 0x87;
const KEY_IDENTIFIER: u8 = 0x80;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// What a leaf certificate says. Times are seconds since 1970, UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
    /// Hosts and addresses, as [`Name`](crate::names::Name) writes them.
    pub(crate) names: Vec<String>,
    /// The serial number, as it is encoded.
    pub(crate) serial: Vec<u8>,
    /// Which key of the authority has signed it.
    pub(crate) authority_key: Option<Vec<u8>>,
    /// Organisation and common name of the authority.
    pub(crate) issuer: String,
}

impl Leaf {
    /// Reads a certificate in DER; `None` when it is not one.
    pub(crate) fn read(der: &[u8]) -> Option<Leaf> {
        let mut signed = Der(Der(der).take(SEQUENCE)?);
        let mut fields = Der(signed.take(SEQUENCE)?);
        fields.skip_if(VERSION);
        let serial = fields.take(INTEGER)?.to_vec();
        fields.take(SEQUENCE)?;
        let issuer = issuer(fields.take(SEQUENCE)?)?;
        let mut validity = Der(fields.take(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let mut leaf = Leaf { not_before, not_after, serial, issuer, ..Leaf::default() };
        while let Some((tag, content)) = fields.next() {
            if tag == EXTENSIONS {
                leaf.read_extensions(Der(content).take(SEQUENCE)?)?;
            }
        }
        (not_before <= not_after).then_some(leaf)
    }

    fn read_extensions(&mut self, content: &[u8]) -> Option<()> {
        let mut extensions = Der(content);
        while let Some((SEQUENCE, extension)) = extensions.next() {
            let mut parts = Der(extension);
            let oid = parts.take(OID)?;
            // The value is last, behind the mark of a critical one.
            let mut value = None;
            while let Some((tag, content)) = parts.next() {
                value = (tag == OCTETS).then_some(content);
            }
            let mut value = Der(value?);
            if oid == SUBJECT_ALT_NAME {
                self.names = names(value.take(SEQUENCE)?);
            } else if oid == AUTHORITY_KEY_IDENTIFIER {
                let mut parts = Der(value.take(SEQUENCE)?);
                let key = parts.next().filter(|(tag, _)| *tag == KEY_IDENTIFIER);
                self.authority_key = key.map(|(_, key)| key.to_vec());
            }
        }
        Some(())
    }
}

/// Elements of DER, one behind the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element, its tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut len = usize::from(first);
        if first >= 0x80 {
            let (digits, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.is_empty() || digits.len() > size_of::<u32>() {
                return None;
            }
            len = digits.iter().fold(0, |len, &digit| len << 8 | usize::from(digit));
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(len)?;
        self.0 = behind;
        Some((tag, content))
    }

    /// The content of the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }
}

/// Organisation and common name.
fn issuer(content: &[u8]) -> Option<String> {
    let (mut parts, mut organisation, mut common) = (Der(content), None, None);
    while let Some((SET, part)) = parts.next() {
        let mut pair = Der(Der(part).take(SEQUENCE)?);
        let oid = pair.take(OID)?;
        let text = String::from_utf8_lossy(pair.next()?.1).into_owned();
        match oid {
            COMMON_NAME => common = Some(text),
            ORGANISATION => organisation = Some(text),
            _ => {}
        }
    }
    Some(organisation.into_iter().chain(common).collect::<Vec<_>>().join(" "))
}

fn names(content: &[u8]) -> Vec<String> {
    let (mut all, mut names) = (Der(content), Vec::new());
    while let Some((tag, name)) = all.next() {
        match (tag, name.len()) {
            (DNS_NAME, _) => names.push(String::from_utf8_lossy(name).to_ascii_lowercase()),
            (ADDRESS, 4) => {
                names.extend(<[u8; 4]>::try_from(name).map(|at| IpAddr::from(at).to_string()))
            }
            (ADDRESS, 16) => {
                names.extend(<[u8; 16]>::try_from(name).map(|at| IpAddr::from(at).to_string()))
            }
            _ => {}
        }
    }
    names
}

/// Seconds since 1970 of a time in one of the two forms of RFC 5280, section 4.1.2.5.
fn time((tag, text): (u8, &[u8])) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: u64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) || year < 1970 {
        return None;
    }
    let part = |at: usize| rest[at..at + 2].parse::<u64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let seconds = part(4)? * 3_600 + part(6)? * 60 + part(8)?;
    is_date.then(|| days(year, month, day) * 86_400 + seconds)
}

/// Days from 1970 to a day of the Gregorian calendar: years begin in March, so that a leap day is
/// the last one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    /// Days from the first of March of the year 0 to 1970.
    const TO_1970: u64 = 719_468;
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn certificate() -> Vec<u8> {
        let names = ["Example.org".to_string(), "192.0.2.7".into(), "2001:db8::1".into()];
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2024, 2, 29);
        params.not_after = date_time_ymd(2051, 3, 1);
        params.use_authority_key_identifier_extension = true;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_says_when_for_which_names_and_by_whom() {
        let leaf = Leaf::read(&certificate()).unwrap();
        assert_eq!((leaf.not_before, leaf.not_after), (1_709_164_800, 2_561_241_600));
        assert_eq!(leaf.names, ["example.org", "192.0.2.7", "2001:db8::1"]);
        assert_eq!(leaf.issuer, "rcgen self signed cert");
        assert!(!leaf.serial.is_empty() && leaf.authority_key.is_some());
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_never_panics() {
        let whole = certificate();
        for len in 0..whole.len() {
            assert_eq!(Leaf::read(&whole[..len]), None);
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                let _ = Leaf::read(&changed);
            }
        }
    }

    #[test]
    fn times_are_of_the_calendar() {
        for (tag, text, seconds) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (GENERALIZED_TIME, "20000301000001Z", Some(951_868_801)),
            (GENERALIZED_TIME, "19691231235959Z", None),
            (UTC_TIME, "701301000000Z", None),
            (UTC_TIME, "7001010000Z", None),
            (UTC_TIME, "70010100000\u{fc}Z", None),
        ] {
            assert_eq!(time((tag, text.as_bytes())), seconds, "{text}");
        }
    }
}
