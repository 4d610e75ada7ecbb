//! What a private key is that cannot be used, as its owner is told: the library says of each only
//! that it is none of its own.

use rustls_pki_types::PrivateKeyDer;

use crate::der::{INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, object_identifier};

/// Bits of the modulus of a key of RSA that is used.
const RSA_BITS_LEAST: usize = 2_048;
const RSA_BITS_MOST: usize = 8_192;

/// What is used instead.
const INSTEAD: &str = "make one of ECDSA on P-256 (openssl genpkey -algorithm EC -pkeyopt \
                       ec_paramgen_curve:P-256), or of RSA with 2048 bits or more";

/// Algorithms of keys (RFC 8017, appendix C; RFC 5480, section 2.1.1).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

/// Those whose keys are not used, by the names that people know (RFC 8017, RFC 3279 and RFC 8410).
const OTHERS: [(&[u8], &str); 5] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10], "RSASSA-PSS"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1], "DSA"),
    (&[0x2b, 0x65, 0x6e], "X25519"),
    (&[0x2b, 0x65, 0x6f], "X448"),
    (&[0x2b, 0x65, 0x71], "Ed448"),
];

/// Curves of ECDSA (RFC 5480, section 2.1.1.1): those that are used, and one that many know.
const CURVES: [(&[u8], &str, bool); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], "P-256", true),
    (&[0x2b, 0x81, 4, 0, 34], "P-384", true),
    (&[0x2b, 0x81, 4, 0, 35], "P-521", true),
    (&[0x2b, 0x81, 4, 0, 10], "secp256k1", false),
];

/// Why a key cannot be used, and what to use; `None` if it is none of these.
pub(crate) fn unusable(key: &PrivateKeyDer<'_>) -> Option<String> {
    let mut fields = Reader::new(key.secret_der()).enter(SEQUENCE)?;
    match key {
        PrivateKeyDer::Pkcs1(_) => of_rsa(fields),
        // RFC 5915, section 3: version, key, and the curve with the number 0.
        PrivateKeyDer::Sec1(_) => {
            fields.take(INTEGER)?;
            fields.take(OCTET_STRING)?;
            of_curve(fields.enter(crate::der::of_number(0))?.take(OBJECT_IDENTIFIER)?)
        }
        // RFC 5958, section 2: version, algorithm, key.
        _ => {
            fields.take(INTEGER)?;
            let mut algorithm = fields.enter(SEQUENCE)?;
            match algorithm.take(OBJECT_IDENTIFIER)? {
                RSA => of_rsa(Reader::new(fields.take(OCTET_STRING)?).enter(SEQUENCE)?),
                ECDSA => of_curve(algorithm.take(OBJECT_IDENTIFIER)?),
                other => {
                    let known = OTHERS.iter().find(|(identifier, _)| *identifier == other);
                    let name = known.map(|(_, name)| (*name).to_owned());
                    Some(unknown(&name.unwrap_or_else(|| object_identifier(other))))
                }
            }
        }
    }
}

/// What is said of a key of another kind.
pub(crate) fn unknown(kind: &str) -> String {
    format!("it is one of {kind}, which is not known here; {INSTEAD}")
}

/// RFC 8017, appendix A.1.2: version, modulus, and others.
fn of_rsa(mut fields: Reader<'_>) -> Option<String> {
    fields.take(INTEGER)?;
    let modulus = fields.take(INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let first = modulus.get(zeros)?;
    let bits = 8 * (modulus.len() - zeros) - first.leading_zeros() as usize;
    match bits {
        ..RSA_BITS_LEAST => {
            Some(format!("it is one of RSA with {bits} bits, which is too short; {INSTEAD}"))
        }
        RSA_BITS_LEAST..=RSA_BITS_MOST => None,
        _ => Some(format!(
            "it is one of RSA with {bits} bits, and at most {RSA_BITS_MOST} are used; {INSTEAD}"
        )),
    }
}

fn of_curve(identifier: &[u8]) -> Option<String> {
    let known = CURVES.iter().find(|(curve, ..)| *curve == identifier);
    let name = match known {
        Some((_, _, true)) => return None,
        Some((_, name, _)) => (*name).to_owned(),
        None => format!("the curve {}", object_identifier(identifier)),
    };
    Some(unknown(&format!("ECDSA on {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls_pki_types::PrivatePkcs8KeyDer;

    /// A value of this tag.
    fn der(tag: u8, contents: &[u8]) -> Vec<u8> {
        let len = contents.len();
        let mut bytes = vec![tag];
        match u8::try_from(len) {
            Ok(short @ ..=0x7f) => bytes.push(short),
            _ => bytes.extend([0x82, (len >> 8) as u8, len as u8]),
        }
        bytes.extend(contents);
        bytes
    }

    /// A key of this algorithm in the form of RFC 5958.
    fn pkcs8(algorithm: &[Vec<u8>], key: &[u8]) -> Vec<u8> {
        let parts =
            [der(INTEGER, &[0]), der(SEQUENCE, &algorithm.concat()), der(OCTET_STRING, key)];
        der(SEQUENCE, &parts.concat())
    }

    fn rsa(bits: usize) -> Vec<u8> {
        let modulus = [&[0][..], &vec![0xff; bits / 8]].concat();
        let fields = [der(INTEGER, &[0]), der(INTEGER, &modulus)].concat();
        pkcs8(&[der(OBJECT_IDENTIFIER, RSA)], &der(SEQUENCE, &fields))
    }

    fn why(key: Vec<u8>) -> Option<String> {
        unusable(&PrivatePkcs8KeyDer::from(key).into())
    }

    #[test]
    fn what_a_key_is_and_what_to_use_is_told() {
        let on = |curve: &[u8]| {
            pkcs8(&[der(OBJECT_IDENTIFIER, ECDSA), der(OBJECT_IDENTIFIER, curve)], b"")
        };
        let of = |kind: &[u8]| pkcs8(&[der(OBJECT_IDENTIFIER, kind)], b"");
        for (key, told) in [
            (rsa(1024), "RSA with 1024 bits, which is too short"),
            (rsa(16_384), "RSA with 16384 bits, and at most 8192"),
            (on(CURVES[3].0), "ECDSA on secp256k1"),
            (on(&[0x2b, 0x24, 3]), "ECDSA on the curve 1.3.36.3"),
            (of(OTHERS[1].0), "DSA, which is not known here"),
            (of(&[0x2b, 0x65, 0x72]), "one of 1.3.101.114"),
        ] {
            let why = why(key).unwrap();
            assert!(why.contains(told) && why.ends_with(INSTEAD), "{why}");
        }
        assert_eq!((why(rsa(2048)), why(on(CURVES[0].0))), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_or_none(bytes: Vec<u8>) {
            let _ = why(bytes);
        }
    }
}
