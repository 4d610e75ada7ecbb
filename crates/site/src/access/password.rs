//! Password hashes: bcrypt and Argon2, and what other servers' files have: SHA-crypt, and apr1,
//! which is warned of, since a graphics card tries it out in hours. Nothing is older than these.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{Argon2, Params, PasswordVerifier};
use sha_crypt::ShaCrypt;

use super::apr1;

/// Highest cost of bcrypt: each step doubles the time, and this one takes seconds.
pub const BCRYPT_COST_MAX: u32 = 16;

/// Most memory of Argon2, in KiB.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// Most memory times passes of Argon2, in KiB: that takes seconds.
pub const ARGON2_WORK_KIB_MAX: u64 = 4 * 1024 * 1024;

/// Most rounds of SHA-crypt: with the longest password, they take about a second.
pub const SHA_CRYPT_ROUNDS_MAX: u32 = 500_000;

/// Longest password that SHA-crypt and apr1 look at, in bytes: each round takes all of it, so that
/// a long one would take minutes. A longer one is no password.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// Beginnings of bcrypt hashes. `$2a$` is what other languages write, and is read as they mean it.
/// `$2x$` comes from an implementation that was wrong.
const BCRYPT: [&str; 3] = ["$2y$", "$2b$", "$2a$"];

/// Beginnings of hashes of SHA-crypt, with the characters of their digests.
const SHA_CRYPT: [(&str, usize); 2] = [("$5$", 43), ("$6$", 86)];

/// Rounds of SHA-crypt where none are written, and the fewest.
const SHA_CRYPT_ROUNDS: u32 = 5_000;
const SHA_CRYPT_ROUNDS_MIN: u32 = 1_000;

/// Most characters of its salt.
const SHA_CRYPT_SALT_MAX: usize = 16;

/// The hash of a password.
#[derive(Clone)]
pub struct PasswordHash {
    text: Box<str>,
    scheme: Scheme,
}

#[derive(Clone)]
enum Scheme {
    Bcrypt,
    Argon2(Box<phc::PasswordHash>),
    ShaCrypt,
    Apr1,
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
    fn new(text: &str, scheme: Scheme) -> PasswordHash {
        PasswordHash { text: text.into(), scheme }
    }

    fn scheme(&self) -> &'static str {
        match self.scheme {
            Scheme::Bcrypt => "bcrypt",
            Scheme::Argon2(_) => "argon2",
            Scheme::ShaCrypt => "SHA-crypt",
            Scheme::Apr1 => "apr1",
        }
    }

    /// Whether passwords are tried out so fast that the hash protects only the strongest.
    pub(super) fn is_weak(&self) -> bool {
        matches!(self.scheme, Scheme::Apr1)
    }

    /// Whether this is the password. Takes as long for a wrong password as for the right one: a
    /// millisecond or more by apr1 and SHA-crypt, tens of them by the others. Bcrypt looks at the
    /// first 72 bytes.
    pub fn verify(&self, password: &[u8]) -> bool {
        let short = &password[..password.len().min(PASSWORD_BYTES_MAX)];
        let is_whole = short.len() == password.len();
        match &self.scheme {
            Scheme::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Scheme::Argon2(hash) => Argon2::default().verify_password(password, &**hash).is_ok(),
            Scheme::ShaCrypt => {
                ShaCrypt::default().verify_password(short, &*self.text).is_ok() && is_whole
            }
            Scheme::Apr1 => apr1::verify(short, &self.text) && is_whole,
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
                4..=BCRYPT_COST_MAX => Ok(PasswordHash::new(text, Scheme::Bcrypt)),
                cost => Err(HashError::TooCostly(format!(
                    "the cost of bcrypt is {cost}, at most {BCRYPT_COST_MAX} is accepted"
                ))),
            }
        } else if text.starts_with("$argon2") {
            argon2_hash(text)
        } else if SHA_CRYPT.iter().any(|(start, _)| text.starts_with(start)) {
            sha_crypt_hash(text)
        } else if text.starts_with(apr1::START) {
            let is_one = apr1::parts(text).is_some();
            is_one
                .then(|| PasswordHash::new(text, Scheme::Apr1))
                .ok_or(HashError::Malformed("apr1"))
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
    Ok(PasswordHash::new(text, Scheme::Argon2(Box::new(hash))))
}

/// `$5$` or `$6$`, perhaps `rounds=N$`, a salt and a digest.
fn sha_crypt_hash(text: &str) -> Result<PasswordHash, HashError> {
    let malformed = HashError::Malformed("SHA-crypt");
    let found = SHA_CRYPT.iter().find_map(|(start, len)| Some((text.strip_prefix(start)?, *len)));
    let Some((rest, digest_len)) = found else { return Err(malformed) };
    let (rounds, rest) = match rest.strip_prefix("rounds=") {
        Some(rest) => rest.split_once('$').ok_or_else(|| malformed.clone())?,
        None => ("", rest),
    };
    let rounds = match rounds {
        "" => SHA_CRYPT_ROUNDS,
        rounds => rounds.parse().map_err(|_| malformed.clone())?,
    };
    let is_plain =
        |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"./".contains(&b));
    let is_whole = rest.split_once('$').is_some_and(|(salt, digest)| {
        (1..=SHA_CRYPT_SALT_MAX).contains(&salt.len())
            && digest.len() == digest_len
            && is_plain(salt)
            && is_plain(digest)
    });
    if !is_whole || rounds < SHA_CRYPT_ROUNDS_MIN {
        return Err(malformed);
    }
    if rounds > SHA_CRYPT_ROUNDS_MAX {
        return Err(HashError::TooCostly(format!(
            "SHA-crypt with {rounds} rounds, at most {SHA_CRYPT_ROUNDS_MAX} are accepted"
        )));
    }
    Ok(PasswordHash::new(text, Scheme::ShaCrypt))
}

/// What this is instead, as whoever made it would call it.
fn scheme_of(text: &str) -> &'static str {
    let starts = |start: &str| text.starts_with(start);
    match text {
        _ if starts("$1$") => "hashed by MD5 (crypt)",
        _ if starts("$2") => "hashed by an old bcrypt",
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
        for version in [bcrypt::Version::TwoY, bcrypt::Version::TwoB, bcrypt::Version::TwoA] {
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
            ("$1$abcdefgh$0123456789012345678901", "MD5 (crypt)"),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1"),
            ("{SSHA}aaaa", "a scheme in braces"),
            ("$2x$10$abcdefghijklmnopqrstuuN4lIAmMHlHCmGn.9F5CyJxyaHbpvzGO", "old bcrypt"),
            ("$scrypt$ln=1", "another scheme"),
            ("rqXexS6ZhobKA", "crypt, or plain"),
            ("secret", "plain text"),
            ("", "plain text"),
        ] {
            let error = text.parse::<PasswordHash>().unwrap_err();
            assert!(error.to_string().contains(name), "{text}: {error}");
        }
    }

    /// By `openssl passwd -5` and `-6`, and by crypt(3) where there are rounds.
    const MADE_ELSEWHERE: [(&str, &str); 5] = [
        ("secret", "$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi."),
        (
            "secret",
            "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTI\
             Tsuk0Ry5qulYz.",
        ),
        (
            "a very long password that has more than sixteen bytes in it",
            "$6$saltstring$adqBh8ImCKE2hKPYnsYxkl6O7FYblDopbmUUL8L9nVkSFmKYuXiEaaRv5KMRClaKeDt0SPnm\
             fb3dYZfr96hZk.",
        ),
        (
            "secret",
            "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0\
             DRY/x8v0/crpIjl8NJSAqXV/",
        ),
        ("secret", "$5$rounds=123456$s$lLhcdWEnj.7UNrbVB8qIp4bqm59M2/CirWsqZPh8vLC"),
    ];

    #[test]
    fn hashes_of_other_servers_files_are_verified() {
        let apr1 = ("secret", "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/");
        for (password, text) in MADE_ELSEWHERE.into_iter().chain([apr1]) {
            let hash = hash(text);
            assert!(hash.verify(password.as_bytes()), "{text}");
            let longer = format!("{password}{}", "x".repeat(PASSWORD_BYTES_MAX));
            for wrong in ["", "Secret", &longer] {
                assert!(!hash.verify(wrong.as_bytes()), "{text}: {wrong}");
            }
            assert_eq!(hash.is_weak(), text.starts_with("$apr1$"), "{text}");
        }
    }

    #[test]
    fn a_password_that_is_longer_than_is_looked_at_is_wrong() {
        // Made of as many bytes as are looked at: more of them are another password.
        let most = "x".repeat(PASSWORD_BYTES_MAX);
        let hash = hash("$5$salt$0bD/33WmcDhj878GPyVgdPCUDrvuwCgrgYxMrBbZWn.");
        assert!(hash.verify(most.as_bytes()) && !hash.verify(format!("{most}x").as_bytes()));
    }

    #[test]
    fn hashes_of_sha_crypt_that_cost_too_much_or_are_cut_are_refused() {
        let (_, text) = MADE_ELSEWHERE[3];
        for rounds in ["500001", "999999999"] {
            let costly = text.replace("rounds=1000", &format!("rounds={rounds}"));
            assert!(matches!(costly.parse::<PasswordHash>(), Err(HashError::TooCostly(_))));
        }
        for wrong in [
            text.replace("rounds=1000", "rounds=999"),
            text.replace("rounds=1000", "rounds=x"),
            text.replace("rounds=1000", "rounds=99999999999"),
            text.replace("saltsalt", ""),
            text.replace("saltsalt", "saltsaltsaltsalts"),
            text.replace("saltsalt", "salt:"),
            text.replace("$6$", "$5$"),
            text[..text.len() - 1].to_owned(),
            format!("{text}$"),
            "$6$".into(),
            "$5$salt$hash".into(),
        ] {
            let found = wrong.parse::<PasswordHash>();
            assert!(matches!(found, Err(HashError::Malformed("SHA-crypt"))), "{wrong}: {found:?}");
        }
        let cut = "$apr1$x$y".parse::<PasswordHash>();
        assert!(matches!(cut, Err(HashError::Malformed("apr1"))));
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
        fn any_text_is_read_or_not(hash in "(\\$(2[yba]|argon2(id)?|[56]|apr1)\\$)?[ -~]{0,80}") {
            let _ = hash.parse::<PasswordHash>();
        }
    }
}
