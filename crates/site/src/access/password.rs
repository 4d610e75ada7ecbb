//! Password hashes: bcrypt and Argon2, and no scheme that a graphics card undoes in an afternoon.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{Argon2, Params, PasswordVerifier};

/// Highest cost of bcrypt: each step doubles the time, and this one takes seconds.
pub const BCRYPT_COST_MAX: u32 = 16;

/// Most memory of Argon2, in KiB.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// Most memory times passes of Argon2, in KiB: that takes seconds.
pub const ARGON2_WORK_KIB_MAX: u64 = 4 * 1024 * 1024;

/// Beginnings of bcrypt hashes. `$2a$` and `$2x$` come from implementations that may be wrong.
const BCRYPT: [&str; 2] = ["$2y$", "$2b$"];

/// The hash of a password.
#[derive(Clone)]
pub struct PasswordHash {
    text: Box<str>,
    argon2: Option<Box<phc::PasswordHash>>,
}

impl fmt::Debug for PasswordHash {
    /// A hash is a secret too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())
    }
}

/// Why a hash is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashError {
    /// The scheme is broken or not known; its name.
    Scheme(&'static str),
    /// The text is not what the scheme writes.
    Malformed(&'static str),
    /// Verifying would take too long or too much memory; what is too high, and the bound.
    TooCostly(String),
}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashError::Scheme(name) => write!(f, "the password is {name}, which is not accepted"),
            HashError::Malformed(name) => write!(f, "the {name} hash is malformed"),
            HashError::TooCostly(what) => {
                write!(f, "verifying the password costs too much: {what}")
            }
        }
    }
}

impl PasswordHash {
    fn scheme(&self) -> &'static str {
        if self.argon2.is_some() { "argon2" } else { "bcrypt" }
    }

    /// Whether this is the password. Takes tens of milliseconds or more, and as long for a wrong
    /// password as for the right one. Bcrypt looks at the first 72 bytes.
    pub fn verify(&self, password: &[u8]) -> bool {
        match &self.argon2 {
            Some(hash) => Argon2::default().verify_password(password, &**hash).is_ok(),
            None => bcrypt::verify(password, &self.text).unwrap_or(false),
        }
    }
}

impl FromStr for PasswordHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<PasswordHash, HashError> {
        if BCRYPT.iter().any(|start| text.starts_with(start)) {
            let parts: bcrypt::HashParts =
                text.parse().map_err(|_| HashError::Malformed("bcrypt"))?;
            // A cost below 4 is none that bcrypt has.
            match parts.get_cost() {
                ..4 => Err(HashError::Malformed("bcrypt")),
                4..=BCRYPT_COST_MAX => Ok(PasswordHash { text: text.into(), argon2: None }),
                cost => Err(HashError::TooCostly(format!(
                    "the cost of bcrypt is {cost}, at most {BCRYPT_COST_MAX} is accepted"
                ))),
            }
        } else if text.starts_with("$argon2") {
            argon2_hash(text)
        } else {
            Err(HashError::Scheme(scheme_of(text)))
        }
    }
}

fn argon2_hash(text: &str) -> Result<PasswordHash, HashError> {
    let malformed = HashError::Malformed("argon2");
    let hash = phc::PasswordHash::new(text).map_err(|_| malformed.clone())?;
    let known = ["argon2id", "argon2i", "argon2d"].contains(&hash.algorithm.as_str());
    let whole = hash.salt.is_some() && hash.hash.is_some();
    let version = matches!(hash.version, None | Some(0x10 | 0x13));
    let params = Params::try_from(&hash).map_err(|_| malformed.clone())?;
    if !known || !whole || !version {
        return Err(malformed);
    }
    let (memory, work) = (params.m_cost(), u64::from(params.m_cost()) * u64::from(params.t_cost()));
    if memory > ARGON2_MEMORY_KIB_MAX || work > ARGON2_WORK_KIB_MAX {
        return Err(HashError::TooCostly(format!(
            "argon2 with m={memory} and t={}, at most m={ARGON2_MEMORY_KIB_MAX} and \
             m*t={ARGON2_WORK_KIB_MAX} is accepted",
            params.t_cost()
        )));
    }
    Ok(PasswordHash { text: text.into(), argon2: Some(Box::new(hash)) })
}

/// What this is instead, as whoever made it would call it.
fn scheme_of(text: &str) -> &'static str {
    let starts = |start: &str| text.starts_with(start);
    match text {
        _ if starts("$apr1$") => "hashed by MD5 (apr1)",
        _ if starts("$1$") => "hashed by MD5 (crypt)",
        _ if starts("$2") => "hashed by an old bcrypt",
        _ if starts("$5$") => "hashed by SHA-256 (crypt)",
        _ if starts("$6$") => "hashed by SHA-512 (crypt)",
        _ if starts("{SHA}") => "hashed by SHA-1",
        _ if starts("{") => "hashed by a scheme in braces",
        _ if starts("$") => "hashed by another scheme",
        _ if text.len() == 13 && text.is_ascii() => "hashed by crypt, or plain text",
        _ => "plain text",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A hash of the lowest cost, so that tests are quick.
    pub(crate) fn quick_hash(password: &str) -> String {
        let hash = bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap();
        hash.format_for_version(bcrypt::Version::TwoY)
    }

    fn hash(text: &str) -> PasswordHash {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_password_is_verified_by_the_scheme_of_its_hash() {
        let bcrypt = bcrypt::hash_with_salt(b"secret", 4, [7; 16]).unwrap();
        for version in [bcrypt::Version::TwoY, bcrypt::Version::TwoB] {
            let hash = hash(&bcrypt.format_for_version(version));
            assert!(hash.verify(b"secret") && !hash.verify(b"Secret") && !hash.verify(b""));
        }
        // Two that other programs made of `password` and `somesalt`: the reference
        // implementation's own test vectors.
        for text in [
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        ] {
            let hash = hash(text);
            assert!(hash.verify(b"password") && !hash.verify(b"passwords"));
        }
    }

    #[test]
    fn other_schemes_are_refused_by_their_names() {
        for (text, name) in [
            ("$apr1$abcdefgh$0123456789012345678901", "MD5 (apr1)"),
            ("$1$abcdefgh$0123456789012345678901", "MD5 (crypt)"),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1"),
            ("{SSHA}aaaa", "a scheme in braces"),
            ("$5$salt$hash", "SHA-256"),
            ("$6$salt$hash", "SHA-512"),
            ("$2a$10$abcdefghijklmnopqrstuuN4lIAmMHlHCmGn.9F5CyJxyaHbpvzGO", "old bcrypt"),
            ("$scrypt$ln=1", "another scheme"),
            ("rqXexS6ZhobKA", "crypt, or plain"),
            ("secret", "plain text"),
            ("", "plain text"),
        ] {
            let error = text.parse::<PasswordHash>().unwrap_err();
            assert!(error.to_string().contains(name), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_malformed_or_too_costly_is_refused() {
        let bcrypt = bcrypt::hash_with_salt(b"secret", 4, [7; 16]).unwrap();
        let bcrypt = bcrypt.format_for_version(bcrypt::Version::TwoY);
        let costly = bcrypt.replace("$04$", "$17$");
        assert!(matches!(costly.parse::<PasswordHash>(), Err(HashError::TooCostly(_))));
        for text in [&bcrypt[..59], &bcrypt.replace("$04$", "$03$"), "$2y$", "$2b$xx$"] {
            let found = text.parse::<PasswordHash>();
            assert!(matches!(found, Err(HashError::Malformed("bcrypt"))), "{text}: {found:?}");
        }
        let rest = "p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8";
        for (numbers, costly) in
            [("m=262145,t=1", true), ("m=65536,t=65", true), ("m=8,t=0", false)]
        {
            let text = format!("$argon2id$v=19${numbers},{rest}");
            let found = text.parse::<PasswordHash>();
            assert_eq!(matches!(found, Err(HashError::TooCostly(_))), costly, "{text}: {found:?}");
            assert!(found.is_err(), "{text}");
        }
        for text in ["$argon2", "$argon2id$v=19$m=64,t=1,p=1", "$argon2x$m=64,t=1,p=1$c29tZXNhbHQ"]
        {
            let found = text.parse::<PasswordHash>();
            assert!(matches!(found, Err(HashError::Malformed("argon2"))), "{text}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\$2[yb]\\$|\\$argon2(id)?\\$)?[ -~]{0,80}") {
            let _ = text.parse::<PasswordHash>();
        }
    }
}
