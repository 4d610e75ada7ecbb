//! What a server goes on with that takes the place of another, in the same process or by an
//! upgrade.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use flyball_sys::sealed;
use flyball_tls::{ClientAuth, Pair};

use super::Roots;
use super::files::PairFiles;

/// Most bytes of what is handed over, the roots of tickets apart: some 15,000 certificates. Where
/// there is more, the next program goes by the files alone.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What is in use: the roots of tickets, the certificates by the files of their chain and their
/// key, and the lists of those that are revoked by their file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(super) roots: Roots,
    pub(super) pairs: HashMap<PairFiles, Pair>,
    pub(super) lists: HashMap<PathBuf, ClientAuth>,
}

/// The same in memory that is sealed, for a program that takes the place of this one.
#[derive(Debug)]
pub(crate) struct InMemory {
    pub(crate) roots: OwnedFd,
    /// All else: a version before this one does not ask for it.
    pub(crate) certificates: OwnedFd,
}

impl Kept {
    /// In memory that is sealed.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub(crate) fn in_memory(&self) -> io::Result<InMemory> {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let pairs = self.pairs.iter().map(|((chain, key), pair)| {
            let files = [bytes(chain), bytes(key)];
            (files, pair.clone())
        });
        let lists = self.lists.iter().map(|(file, lists)| (bytes(file), lists.clone()));
        let kept = flyball_tls::Kept { pairs: pairs.collect(), lists: lists.collect() };
        let certificates = sealed::write(&kept.to_bytes())?;
        Ok(InMemory { roots: self.roots.in_memory()?, certificates })
    }

    /// Takes the roots that are in such memory; none, if it holds something else.
    pub(crate) fn take_roots(&mut self, memory: OwnedFd) {
        self.roots = Roots::read(memory);
    }

    /// Takes the certificates and lists that are in such memory; none, if it holds something else.
    pub(crate) fn take_certificates(&mut self, memory: OwnedFd) {
        let bytes = sealed::read(memory, KEPT_BYTES_MAX).unwrap_or_default();
        let kept = flyball_tls::Kept::from_bytes(&bytes).unwrap_or_default();
        let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
        let pairs = kept.pairs.into_iter();
        self.pairs = pairs.map(|([chain, key], pair)| ((path(chain), path(key)), pair)).collect();
        self.lists = kept.lists.into_iter().map(|(file, lists)| (path(file), lists)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_arrives_in_another_program() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let files = (PathBuf::from("/chain.pem"), PathBuf::from("/key.pem"));
        let pairs = HashMap::from([(files.clone(), pair.clone())]);
        let memory = Kept { pairs, ..Kept::default() }.in_memory().unwrap();
        let mut kept = Kept::default();
        kept.take_certificates(memory.certificates);
        assert_eq!(kept.pairs[&files].certificate(), pair.certificate());
        kept.take_certificates(sealed::write(b"something else").unwrap());
        assert!(kept.pairs.is_empty() && kept.lists.is_empty());
    }
}
