//! Which newer formats of images a client takes (RFC 9110, section 12.5.1).

use super::language::range_of;

/// Extensions that may have a neighbour.
const OLDER: [&[u8]; 4] = [b"png", b"jpg", b"jpeg", b"gif"];

/// Their media types.
const OLDER_TYPES: [&[u8]; 3] = [b"image/png", b"image/jpeg", b"image/gif"];

/// Most ranges of a request that are looked at.
const RANGES_MAX: usize = 32;

/// Bits of [`Images::code`].
pub(crate) const CODE_BITS: u32 = 2;

/// The formats that a client names itself; a wildcard says nothing about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Images {
    avif: bool,
    webp: bool,
}

impl Images {
    /// What the values of `Accept` take. Of two formats the one with the greater quality counts,
    /// and both where it is equal; neither does that is liked less than an older one that is named.
    /// Allocates nothing.
    pub(crate) fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Images {
        let (mut avif, mut webp, mut older) = (0, 0, 0);
        let ranges = values.flat_map(|value| value.split(|&byte| byte == b','));
        for range in ranges.take(RANGES_MAX) {
            let (kind, quality) = range_of(range);
            if kind.eq_ignore_ascii_case(b"image/avif") {
                avif = quality;
            } else if kind.eq_ignore_ascii_case(b"image/webp") {
                webp = quality;
            } else if OLDER_TYPES.iter().any(|older| kind.eq_ignore_ascii_case(older)) {
                older = quality.max(older);
            }
        }
        let best = avif.max(webp).max(older).max(1);
        Images { avif: avif == best, webp: webp == best }
    }

    /// A small number that stands for them; 0 for none.
    pub(crate) fn code(self) -> u64 {
        u64::from(self.avif) | u64::from(self.webp) << 1
    }

    /// The extensions of neighbours, each with whether it is taken; the preferred first.
    pub(crate) fn extensions(self) -> [(&'static [u8], bool); 2] {
        [(b"avif", self.avif), (b"webp", self.webp)]
    }
}

/// A file name without its extension and the dot, if it is that of an image that may have a newer
/// neighbour.
pub(crate) fn stem(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let (stem, extension) = (&name[..dot], &name[dot + 1..]);
    let older = OLDER.iter().any(|older| older.eq_ignore_ascii_case(extension));
    (older && stem.last().is_some_and(|&byte| byte != b'/')).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_taken() {
        for (value, avif, webp) in [
            ("image/avif,image/webp,image/apng,*/*;q=0.8", true, true),
            ("image/webp, */*", false, true),
            ("image/webp;q=0", false, false),
            ("image/avif;q=0.5, image/webp", false, true),
            ("Image/AVIF", true, false),
            ("image/*, */*", false, false),
            ("image/png, image/webp;q=0.1", false, false),
            ("image/png;q=0.5, image/webp, image/avif;q=0.4", false, true),
            ("", false, false),
        ] {
            let images = Images::of([value.as_bytes()].into_iter());
            assert_eq!(images, Images { avif, webp }, "{value}");
        }
    }

    #[test]
    fn only_older_formats_have_neighbours() {
        assert_eq!(stem(b"a/b.PNG"), Some(&b"a/b"[..]));
        assert_eq!(stem(b"a.b.jpeg"), Some(&b"a.b"[..]));
        for name in [&b"a.webp"[..], b"png", b".png", b"a/.png", b"a.png/b", b"a.svg"] {
            assert_eq!(stem(name), None, "{}", name.escape_ascii());
        }
    }
}
