//! What a program goes on with that takes the place of another: certificates with their keys, and
//! lists of revoked certificates, by the names of the files that they were read from.

use crate::bundle::{all, bytes, digested, number, opened, pair, take};
use crate::bundle::{write, write_all, write_number, write_pair};
use crate::clients::ClientAuth;
use crate::load::Pair;

/// What is handed over.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Pairs, each with the names of the files of its chain and of its key.
    pub pairs: Vec<([Vec<u8>; 2], Pair)>,
    /// What clients are let in by, each with the name of the file of its lists.
    pub lists: Vec<(Vec<u8>, ClientAuth)>,
}

impl Kept {
    /// As bytes, for [`Kept::from_bytes`] of this program or another version of it: a version that
    /// writes something else gives it another name in the environment.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        write_number(self.pairs.len(), &mut to);
        for (files, pair) in &self.pairs {
            files.iter().for_each(|name| write(name, &mut to));
            write_pair(pair, &mut to);
        }
        write_number(self.lists.len(), &mut to);
        for (file, clients) in &self.lists {
            write(file, &mut to);
            to.push(u8::from(clients.is_required));
            write_all(&clients.roots, &mut to);
            write_all(&clients.lists, &mut to);
        }
        digested(&to)
    }

    /// Reads it; `None` for what is not whole, or is something else.
    pub fn from_bytes(read: &[u8]) -> Option<Kept> {
        let mut rest = opened(read)?;
        let from = &mut rest;
        let mut kept = Kept::default();
        for _ in 0..number(from)? {
            kept.pairs.push(([bytes(from)?, bytes(from)?], pair(from)?));
        }
        for _ in 0..number(from)? {
            let (file, is_required) = (bytes(from)?, *take(from, 1)?.first()? != 0);
            let clients = ClientAuth::from_der(all(from)?, all(from)?, is_required).ok()?;
            kept.lists.push((file, clients));
        }
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_arrives_and_what_is_cut_does_not() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let clients = ClientAuth::from_pem(chain.as_bytes(), None, true).unwrap();
        let files = [b"/a/chain\xff".to_vec(), b"/a/key".to_vec()];
        let kept = Kept {
            pairs: vec![(files.clone(), pair.clone())],
            lists: vec![(b"/a/crl".to_vec(), clients.clone())],
        };
        let written = kept.to_bytes();
        let read = Kept::from_bytes(&written).unwrap();
        assert_eq!(read.pairs[0].0, files);
        assert_eq!(read.pairs[0].1.certificate(), pair.certificate());
        assert_eq!(read.lists, kept.lists);
        assert!((0..written.len()).all(|end| Kept::from_bytes(&written[..end]).is_none()));
    }
}
