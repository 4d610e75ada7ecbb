//! What makes one name several entries of a cache.
//!
//! A path leads to different files for clients that accept different codings or languages: its key
//! carries the *class* of what they accept. A file leads to different answers by the root it was
//! found under, its coding and the header rules that apply: its key carries the *variant*. Both are
//! plain numbers and bytes that every process computes alike, so that a table in shared memory can
//! hold them.

/// What a name is looked up in: a site, and a class or a variant there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope(u64);

/// Bits of a site's number.
const SITE_BITS: u32 = 16;

/// Bits of a class: what is left of a word, but for the mark of scripts.
pub(crate) const CLASS_BITS: u32 = u64::BITS - SITE_BITS - 1;

/// The scope is that of scripts, whose URLs are decoded: no path as it was sent is among them.
const SCRIPTS: u64 = 1 << (u64::BITS - 1);

impl Scope {
    /// One for tests.
    #[cfg(test)]
    pub(crate) const NONE: Scope = Scope(0);

    /// The paths of a site, for clients of this class.
    pub(crate) fn of_path(site: usize, class: u64) -> Scope {
        Scope::of(site, class)
    }

    /// The URLs of a site's scripts, of which it is known whether they are there.
    pub(crate) fn of_scripts(site: usize) -> Scope {
        Scope(Scope::of(site, 0).0 | SCRIPTS)
    }

    fn of(site: usize, rest: u64) -> Scope {
        debug_assert!(site < 1 << SITE_BITS && rest < 1 << CLASS_BITS);
        Scope(site as u64 | rest << SITE_BITS)
    }

    /// As a number.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
}

/// One of the answers that a file gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The root that its name is relative to: the site's own, or an alias.
    pub(crate) root: u16,
    /// The coding of its body; 0 is none.
    pub(crate) coding: u8,
    /// The header rules that apply, in their order, and marks for what else is said of the file.
    pub(crate) rules: Vec<u16>,
}

impl Variant {
    /// Where an entry of this variant is looked up.
    pub(crate) fn scope(&self, site: usize) -> Scope {
        Scope::of(site, u64::from(self.root) | u64::from(self.coding) << 16)
    }

    /// The name that an entry of this variant has: that of the file, which holds no NUL, and the
    /// rules behind one.
    pub(crate) fn name(&self, file: &[u8]) -> Vec<u8> {
        let mut name = file.to_vec();
        if !self.rules.is_empty() {
            name.push(0);
            name.extend(self.rules.iter().flat_map(|rule| rule.to_le_bytes()));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_a_file_are_entries_of_their_own() {
        let plain = Variant::default();
        assert_eq!(plain.name(b"a/b.txt"), b"a/b.txt");
        let coded = Variant { coding: 2, ..Variant::default() };
        let aliased = Variant { root: 2, ..Variant::default() };
        let ruled = Variant { rules: vec![1, 300], ..Variant::default() };
        assert_ne!(plain.scope(1), coded.scope(1));
        assert_ne!(coded.scope(1), aliased.scope(1));
        assert_ne!(plain.scope(1), plain.scope(2));
        assert_eq!(ruled.scope(1), plain.scope(1));
        assert_eq!(ruled.name(b"a"), b"a\0\x01\0\x2c\x01");
        assert_ne!(Scope::of_path(1, 0), Scope::of_path(1, 1));
        let most = Scope::of_path((1 << SITE_BITS) - 1, (1 << CLASS_BITS) - 1);
        assert_eq!(most.to_bits(), u64::MAX >> 1);
    }

    #[test]
    fn what_is_known_of_scripts_is_known_of_no_path() {
        let scripts = Scope::of_scripts((1 << SITE_BITS) - 1);
        for class in [0, 1, (1 << CLASS_BITS) - 1] {
            assert_ne!(scripts, Scope::of_path((1 << SITE_BITS) - 1, class));
        }
        assert_ne!(Scope::of_scripts(0), Scope::of_scripts(1));
    }
}
