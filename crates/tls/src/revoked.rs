//! Lists of revoked certificates: what they say of themselves (RFC 5280, section 5), and why one
//! cannot be used, in words.

use std::cmp::Ordering;

use rustls::CertRevocationListError;
use rustls::server::VerifierBuilderError;

use crate::der::{BOOLEAN, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, of_number};
use crate::x509::{name, time};

/// cRLNumber, 2.5.29.20 (RFC 5280, section 5.2.3).
const NUMBER: &[u8] = &[0x55, 0x1d, 0x14];

/// authorityKeyIdentifier, 2.5.29.35, and issuingDistributionPoint, 2.5.29.28: which key has signed
/// it, and which certificates of that it is about (sections 5.2.1 and 5.2.5).
const ABOUT: [&[u8]; 2] = [&[0x55, 0x1d, 0x23], &[0x55, 0x1d, 0x1c]];

/// What a list says of itself.
pub(crate) struct List<'a> {
    pub(crate) issuer: String,
    /// When it was made, in seconds since 1970.
    this_update_s: u64,
    /// When it is to be replaced, in seconds since 1970, if it says so.
    pub(crate) next_update_s: Option<u64>,
    /// Its number, without zeros before it.
    number: Option<&'a [u8]>,
    /// The values of [`ABOUT`].
    about: [Option<&'a [u8]>; 2],
}

impl<'a> List<'a> {
    /// Reads one in DER; `None` if it is none.
    pub(crate) fn parse(der: &'a [u8]) -> Option<List<'a>> {
        let mut fields = Reader::new(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
        // The version, without which it is the first, and how it is signed.
        fields.take(INTEGER);
        fields.take(SEQUENCE)?;
        let issuer = name(fields.enter(SEQUENCE)?)?;
        let this_update_s = time(&mut fields)?;
        let next_update_s = time(&mut fields);
        let mut list =
            List { issuer, this_update_s, next_update_s, number: None, about: [None; 2] };
        // Those that are revoked.
        fields.take(SEQUENCE);
        if let Some(mut tagged) = fields.enter(of_number(0)) {
            list.read_extensions(tagged.enter(SEQUENCE)?)?;
        }
        Some(list)
    }

    fn read_extensions(&mut self, mut extensions: Reader<'a>) -> Option<()> {
        while let Some(mut extension) = extensions.enter(SEQUENCE) {
            let kind = extension.take(OBJECT_IDENTIFIER)?;
            extension.take(BOOLEAN);
            let value = extension.take(OCTET_STRING)?;
            if kind == NUMBER {
                self.number = Some(without_zeros(Reader::new(value).take(INTEGER)?));
            }
            if let Some(at) = ABOUT.iter().position(|known| *known == kind) {
                self.about[at] = Some(value);
            }
        }
        Some(())
    }

    /// Whether it is about the same certificates as another, and is older: by the numbers, or by
    /// the times where one has none.
    pub(crate) fn is_older_than(&self, other: &List<'_>) -> bool {
        let is_of_the_same = self.issuer == other.issuer && self.about == other.about;
        let order = match (self.number, other.number) {
            (Some(own), Some(others)) => (own.len(), own).cmp(&(others.len(), others)),
            _ => self.this_update_s.cmp(&other.this_update_s),
        };
        is_of_the_same && order == Ordering::Less
    }
}

/// A number of DER that is not negative, without the zeros that it may begin with.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]
}

/// What is said of a file whose lists cannot be used, behind its name.
pub(crate) fn unusable(error: &VerifierBuilderError) -> String {
    use CertRevocationListError::{
        InvalidCrlNumber, InvalidRevokedCertSerialNumber, ParseError, UnsupportedCriticalExtension,
        UnsupportedCrlVersion, UnsupportedDeltaCrl, UnsupportedIndirectCrl,
        UnsupportedRevocationReason,
    };
    let VerifierBuilderError::InvalidCrl(error) = error else {
        return "has no authorities beside it".to_owned();
    };
    let what = match error {
        ParseError => "that is cut off or damaged",
        InvalidCrlNumber => "whose number (cRLNumber) is none",
        InvalidRevokedCertSerialNumber => "with a serial number that is none",
        UnsupportedCrlVersion => "of version 1; version 2 is needed (RFC 5280, section 5.1.2.1)",
        UnsupportedCriticalExtension => "with a critical extension that is not known here",
        UnsupportedDeltaCrl => "of changes alone (a delta CRL); a complete list is needed",
        UnsupportedIndirectCrl => {
            "of several issuers (an indirect CRL); a list of each issuer is needed"
        }
        UnsupportedRevocationReason => "with a reason that RFC 5280 does not have",
        _ => "that cannot be used",
    };
    format!("holds a list {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lists_without_a_number_the_one_that_was_made_first_is_older() {
        let list = |this_update_s, number| List {
            issuer: "CN=one".to_owned(),
            this_update_s,
            next_update_s: None,
            number,
            about: [None; 2],
        };
        let (one, nine) = (Some(&[1][..]), Some(&[9][..]));
        assert!(list(1, None).is_older_than(&list(2, None)));
        assert!(!list(2, None).is_older_than(&list(2, None)));
        assert!(list(1, nine).is_older_than(&list(2, None)));
        assert!(list(2, one).is_older_than(&list(1, nine)));
        let of_another_part = List { about: [None, one], ..list(9, None) };
        assert!(!list(1, None).is_older_than(&of_another_part));
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said_in_words() {
        use CertRevocationListError as Error;
        for (error, why) in [
            (Error::ParseError, "holds a list that is cut off or damaged"),
            (
                Error::UnsupportedDeltaCrl,
                "holds a list of changes alone (a delta CRL); a complete \
                                          list is needed",
            ),
            (Error::BadSignature, "holds a list that cannot be used"),
        ] {
            assert_eq!(unusable(&VerifierBuilderError::InvalidCrl(error)), why);
        }
    }
}
