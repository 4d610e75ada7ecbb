//! The hash of `htpasswd -m`: MD5 a thousand times, by Poul-Henning Kamp's scheme, as Apache has it
//! (apr_md5_encode). No crate that is kept has it; it is a page on top of an MD5 that is.

use md5::{Digest, Md5};

/// What such a hash begins with.
pub(super) const START: &str = "$apr1$";

/// Most characters of a salt.
const SALT_CHARS_MAX: usize = 8;

/// Characters of a digest.
const DIGEST_CHARS: usize = 22;

/// The letters of a digest, each six bits.
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// In which order the bytes of a digest are written, three in four letters, the last in two.
const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

/// The salt and the digest of a hash; `None` when it is none.
pub(super) fn parts(hash: &str) -> Option<(&str, &str)> {
    let (salt, digest) = hash.strip_prefix(START)?.split_once('$')?;
    let is_salt = salt.len() <= SALT_CHARS_MAX && salt.bytes().all(|byte| byte.is_ascii_graphic());
    let is_digest = digest.len() == DIGEST_CHARS && digest.bytes().all(|b| LETTERS.contains(&b));
    (is_salt && is_digest).then_some((salt, digest))
}

/// Whether this is the password of a hash. Takes about a millisecond.
pub(super) fn verify(password: &[u8], hash: &str) -> bool {
    parts(hash).is_some_and(|(salt, digest)| {
        let found = written(digest_of(password, salt.as_bytes()));
        found.iter().zip(digest.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    })
}

fn digest_of(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let md5 = |parts: &[&[u8]]| -> [u8; 16] {
        let mut hasher = Md5::new();
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finalize().into()
    };
    let inner = md5(&[password, salt, password]);
    let mut hasher = Md5::new();
    [password, START.as_bytes(), salt].into_iter().for_each(|part| hasher.update(part));
    for chunk in password.chunks(inner.len()) {
        hasher.update(&inner[..chunk.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        // A zero byte, or the first of the password: a slip that became the scheme.
        hasher.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    let mut digest: [u8; 16] = hasher.finalize().into();
    for round in 0..1_000 {
        let (first, last) = match round % 2 {
            1 => (password, &digest[..]),
            _ => (&digest[..], password),
        };
        let salt = if round % 3 == 0 { b"" } else { salt };
        let again = if round % 7 == 0 { b"" } else { password };
        digest = md5(&[first, salt, again, last]);
    }
    digest
}

fn written(digest: [u8; 16]) -> Vec<u8> {
    let mut text = Vec::with_capacity(DIGEST_CHARS);
    let mut write = |bits: usize, letters: usize| {
        text.extend((0..letters).map(|at| LETTERS[bits >> (6 * at) & 0x3f]));
    };
    for [a, b, c] in ORDER {
        let byte = |at: usize| usize::from(digest[at]);
        write(byte(a) << 16 | byte(b) << 8 | byte(c), 4);
    }
    write(usize::from(digest[11]), 2);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `openssl passwd -apr1 -salt abcdefgh PASSWORD`.
    const MADE_ELSEWHERE: [(&str, &str); 3] = [
        ("secret", "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"),
        ("", "$apr1$abcdefgh$L.PT565ESX4Tp2bqNs7Ie."),
        (
            "a very long password that has more than sixteen bytes in it",
            "$apr1$abcdefgh$xz10CF/tggM1UByeTx5IS.",
        ),
    ];

    #[test]
    fn hashes_that_another_program_made_are_verified() {
        for (password, hash) in MADE_ELSEWHERE {
            assert!(verify(password.as_bytes(), hash), "{password}");
            assert!(!verify(format!("{password}x").as_bytes(), hash), "{password}");
        }
    }

    #[test]
    fn what_is_no_such_hash_is_none() {
        for hash in [
            "$apr1$",
            "$apr1$abcdefgh$",
            "$apr1$abcdefghi$h9FWgUz3n9YxylKLlR5SQ/",
            "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ",
            "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/x",
            "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ!",
            "$apr1$a\u{fc}$h9FWgUz3n9YxylKLlR5SQ/",
            "$1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
        ] {
            assert!(parts(hash).is_none() && !verify(b"secret", hash), "{hash}");
        }
    }
}
