//! What changes while workers run, as one process hands it to others: the roots of tickets,
//! certificates that were renewed, with their keys and the files that all keys are in, whose
//! certificates clients show, and what authorities are answered.

use aws_lc_rs::digest::{SHA256, digest};
use rustls_pki_types::{
    CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer,
    PrivateSec1KeyDer,
};

use crate::clients::ClientAuth;
use crate::load::Pair;
use crate::tickets::{ROOT_BYTES, Root};

/// Bytes of the digest with which it begins.
const DIGEST_BYTES: usize = 32;

/// What is handed over.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// The roots of tickets: tickets are made with the first.
    pub roots: Vec<Root>,
    /// Certificates and their numbers.
    pub pairs: Vec<(usize, Pair)>,
    /// Files that no client may have, by device and inode.
    pub secrets: Vec<[u64; 2]>,
    /// Whose certificates clients show, each with its number.
    pub clients: Vec<ClientAuth>,
    /// Names that an authority asks for by tls-alpn-01, and what it is shown (RFC 8737).
    pub challenges: Vec<(String, Pair)>,
    /// Tokens that an authority asks for by http-01, and their answers (RFC 8555, section 8.3).
    pub answers: Vec<(String, String)>,
}

impl Bundle {
    /// As bytes, for [`Bundle::from_bytes`] of the same program.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_number(self.roots.len(), &mut bytes);
        self.roots.iter().for_each(|root| bytes.extend(root.0));
        write_number(self.pairs.len(), &mut bytes);
        for (number, pair) in &self.pairs {
            write_number(*number, &mut bytes);
            write_pair(pair, &mut bytes);
        }
        write_number(self.challenges.len(), &mut bytes);
        for (name, pair) in &self.challenges {
            write(name.as_bytes(), &mut bytes);
            write_pair(pair, &mut bytes);
        }
        write_number(self.answers.len(), &mut bytes);
        for (token, answer) in &self.answers {
            write(token.as_bytes(), &mut bytes);
            write(answer.as_bytes(), &mut bytes);
        }
        write_number(self.secrets.len(), &mut bytes);
        self.secrets.iter().flatten().for_each(|half| bytes.extend(half.to_be_bytes()));
        write_number(self.clients.len(), &mut bytes);
        for clients in &self.clients {
            write_number(clients.number(), &mut bytes);
            bytes.push(u8::from(clients.is_required));
            write_all(&clients.roots, &mut bytes);
            write_all(&clients.lists, &mut bytes);
        }
        digested(&bytes)
    }

    /// Reads one. `None` for what is not whole, such as one that is being written.
    pub fn from_bytes(bytes: &[u8]) -> Option<Bundle> {
        let mut rest = opened(bytes)?;
        let from = &mut rest;
        let mut bundle = Bundle::default();
        for _ in 0..number(from)? {
            bundle.roots.push(Root(take(from, ROOT_BYTES)?.try_into().ok()?));
        }
        for _ in 0..number(from)? {
            bundle.pairs.push((number(from)?, pair(from)?));
        }
        for _ in 0..number(from)? {
            bundle.challenges.push((text(from)?, pair(from)?));
        }
        for _ in 0..number(from)? {
            bundle.answers.push((text(from)?, text(from)?));
        }
        for _ in 0..number(from)? {
            bundle.secrets.push([half(from)?, half(from)?]);
        }
        for _ in 0..number(from)? {
            let number = number(from)?;
            let is_required = *take(from, 1)?.first()? != 0;
            let roots = all(from)?;
            let lists = all::<CertificateRevocationListDer<'static>>(from)?;
            let clients = ClientAuth::from_der(roots, lists, is_required).ok()?;
            bundle.clients.push(clients.numbered(number));
        }
        Some(bundle)
    }
}

/// Bytes behind their digest.
pub(crate) fn digested(bytes: &[u8]) -> Vec<u8> {
    [digest(&SHA256, bytes).as_ref(), bytes].concat()
}

/// The bytes behind a digest, if it is theirs.
pub(crate) fn opened(bytes: &[u8]) -> Option<&[u8]> {
    let (told, rest) = bytes.split_at_checked(DIGEST_BYTES)?;
    (digest(&SHA256, rest).as_ref() == told).then_some(rest)
}

/// Which form of a key it is, as a byte.
fn kind_of(key: &PrivateKeyDer<'_>) -> u8 {
    match key {
        PrivateKeyDer::Pkcs1(_) => 1,
        PrivateKeyDer::Sec1(_) => 2,
        _ => 8,
    }
}

fn key_of(kind: u8, der: Vec<u8>) -> Option<PrivateKeyDer<'static>> {
    match kind {
        1 => Some(PrivatePkcs1KeyDer::from(der).into()),
        2 => Some(PrivateSec1KeyDer::from(der).into()),
        8 => Some(PrivatePkcs8KeyDer::from(der).into()),
        _ => None,
    }
}

/// A number of things that are in memory, or of bytes of one.
pub(crate) fn write_number(number: usize, to: &mut Vec<u8>) {
    to.extend((number as u64).to_be_bytes());
}

pub(crate) fn write(bytes: &[u8], to: &mut Vec<u8>) {
    write_number(bytes.len(), to);
    to.extend(bytes);
}

pub(crate) fn write_all(parts: &[impl AsRef<[u8]>], to: &mut Vec<u8>) {
    write_number(parts.len(), to);
    parts.iter().for_each(|part| write(part.as_ref(), to));
}

pub(crate) fn write_pair(pair: &Pair, to: &mut Vec<u8>) {
    let (chain, key) = pair.der();
    write_all(chain, to);
    to.push(kind_of(key));
    write(key.secret_der(), to);
}

pub(crate) fn number(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(half(from)?).ok()
}

/// A number, or half of what tells a file.
fn half(from: &mut &[u8]) -> Option<u64> {
    take(from, size_of::<u64>())?.try_into().map(u64::from_be_bytes).ok()
}

pub(crate) fn bytes(from: &mut &[u8]) -> Option<Vec<u8>> {
    let len = number(from)?;
    take(from, len).map(<[u8]>::to_vec)
}

fn text(from: &mut &[u8]) -> Option<String> {
    String::from_utf8(bytes(from)?).ok()
}

pub(crate) fn all<T: From<Vec<u8>>>(from: &mut &[u8]) -> Option<Vec<T>> {
    (0..number(from)?).map(|_| bytes(from).map(T::from)).collect()
}

pub(crate) fn pair(from: &mut &[u8]) -> Option<Pair> {
    let chain = all(from)?;
    let kind = *take(from, 1)?.first()?;
    Pair::from_der(chain, key_of(kind, bytes(from)?)?).ok()
}

pub(crate) fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let clients = ClientAuth::from_pem(chain.as_bytes(), None, true).unwrap();
        Bundle {
            roots: vec![Root([7; ROOT_BYTES]), Root([8; ROOT_BYTES])],
            pairs: vec![(3, pair.clone())],
            secrets: vec![[7, u64::MAX], [8, 0]],
            clients: vec![clients.numbered(5)],
            challenges: vec![("b.test".to_owned(), pair)],
            answers: vec![("token".to_owned(), "token.key".to_owned())],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (written, bytes) = (bundle(), Bundle::default().to_bytes());
        let read = Bundle::from_bytes(&written.to_bytes()).unwrap();
        assert_eq!((read.roots, read.secrets), (written.roots, written.secrets));
        assert_eq!(read.clients, written.clients);
        assert_eq!(read.pairs[0].0, 3);
        assert_eq!(read.pairs[0].1.certificate(), written.pairs[0].1.certificate());
        assert_eq!(read.challenges[0].0, "b.test");
        assert_eq!(read.challenges[0].1.certificate(), written.pairs[0].1.certificate());
        assert_eq!(read.answers, written.answers);
        assert!(Bundle::from_bytes(&bytes).unwrap().pairs.is_empty());
    }

    #[test]
    fn what_is_cut_or_changed_is_not_read() {
        let bytes = bundle().to_bytes();
        assert!((0..bytes.len()).all(|end| Bundle::from_bytes(&bytes[..end]).is_none()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Bundle::from_bytes(&changed).is_none(), "{at}");
        }
    }
}
