//! Content codings, and which of them a client would rather have (RFC 9110, section 12.5.3).
//!
//! What a client accepts is read into a [`Class`]: a small code of its ranking, the same for every
//! spelling of the same wish, so that it can be part of a cache's key. Nothing here allocates.

use crate::quality::{WEIGHT_MAX, weighed};

/// A content coding that a server may have on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Coding {
    /// Zstandard, `zstd` (RFC 8878).
    Zstd = 1,
    /// Brotli, `br` (RFC 7932).
    Brotli = 2,
    /// gzip, `gzip` (RFC 1952).
    Gzip = 3,
}

impl Coding {
    /// Every coding.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// The name of the coding in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// The coding of this name, in whatever case; `x-gzip` is gzip (section 8.4.1.3).
    pub fn from_name(name: &[u8]) -> Option<Coding> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Coding::Gzip);
        }
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }

    const fn from_code(code: u16) -> Option<Coding> {
        match code {
            1 => Some(Coding::Zstd),
            2 => Some(Coding::Brotli),
            3 => Some(Coding::Gzip),
            _ => None,
        }
    }
}

/// Bits of a class for each coding in it.
const CODE_BITS: u32 = 2;
const CODE_MASK: u16 = (1 << CODE_BITS) - 1;

/// The codings that a client prefers to none, best first. There are 16 classes.
///
/// No coding is always the last resort, even for a client that refuses it (`identity;q=0`): where
/// nothing else is on offer the field is then disregarded, which section 12.4.1 allows, rather than
/// answered by 406.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class(u16);

impl Class {
    /// No coding: what a request without `Accept-Encoding` gets, though it would accept any, since
    /// such clients seldom read one.
    pub const NONE: Class = Class(0);

    /// These codings, best first; one that is named again is passed over.
    pub fn new(codings: &[Coding]) -> Class {
        codings.iter().fold(Class::NONE, |class, &coding| class.then(coding))
    }

    /// With one more coding after the others.
    fn then(self, coding: Coding) -> Class {
        if self.codings().any(|before| before == coding) {
            return self;
        }
        let at = CODE_BITS * self.codings().count() as u32;
        Class(self.0 | (coding as u16) << at)
    }

    /// Bits of [`Class::code`].
    pub const BITS: u32 = CODE_BITS * Coding::ALL.len() as u32;

    /// The class as a number that is zero for [`Class::NONE`].
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The class of such a number; unknown bits are passed over.
    pub fn from_code(code: u16) -> Class {
        Class(code).codings().fold(Class::NONE, Class::then)
    }

    /// The codings that come before none at all, best first.
    pub fn codings(self) -> impl Iterator<Item = Coding> {
        let code = move |at: u32| self.0 >> (CODE_BITS * at) & CODE_MASK;
        (0..Coding::ALL.len() as u32).map_while(move |at| Coding::from_code(code(at)))
    }

    /// Reads the lines of `Accept-Encoding` against the codings on offer, of which those that the
    /// client likes equally stay in the order of `offer`.
    ///
    /// * No line, or only empty ones: no coding.
    /// * `*` stands for every coding that is not named, identity among them.
    /// * Identity that nothing is said of is acceptable, and liked least; with the same weight as
    ///   a coding it comes after it.
    /// * Of a name that occurs twice the first counts; unknown codings are passed over.
    pub fn of<'v>(lines: impl Iterator<Item = &'v [u8]>, offer: Class) -> Class {
        let mut wish = Wish::default();
        lines.for_each(|line| wish.read(line));
        wish.ranking(offer)
    }
}

/// What the lines say: a weight for each coding, if there is one.
#[derive(Default)]
struct Wish {
    /// By number; identity is number 0.
    weights: [Option<u16>; Coding::ALL.len() + 1],
    /// Of those that are not named.
    others: Option<u16>,
}

/// Liked least of all that is acceptable.
const LEAST: u16 = 0;

impl Wish {
    fn read(&mut self, line: &[u8]) {
        for item in weighed(line) {
            let weight = match Coding::from_name(item.value) {
                Some(coding) => &mut self.weights[coding as usize],
                None if item.value == b"*" => &mut self.others,
                None if item.value.eq_ignore_ascii_case(b"identity") => &mut self.weights[0],
                None => continue,
            };
            weight.get_or_insert(item.weight);
        }
    }

    fn ranking(&self, offer: Class) -> Class {
        let floor = self.weights[0].or(self.others).unwrap_or(LEAST);
        let weight = |coding: Coding| self.weights[coding as usize].or(self.others).unwrap_or(0);
        let mut class = Class::NONE;
        // At most three are on offer: each time the best that is left, of equals the first.
        let mut below = WEIGHT_MAX + 1;
        while let Some(next) = offer
            .codings()
            .map(weight)
            .filter(|&weight| weight > 0 && weight >= floor && weight < below)
            .max()
        {
            let equals = offer.codings().filter(|&coding| weight(coding) == next);
            class = equals.fold(class, Class::then);
            below = next;
        }
        class
    }
}

/// Longest line that is remembered, in bytes; clients send less than 40.
const LINE_BYTES_MAX: usize = 120;

/// The last lines of `Accept-Encoding` that were read and their classes: nearly all clients of a
/// server send one of a few. One per thread of control; it owns 512 bytes and never more.
#[derive(Clone, Debug)]
pub struct Classes {
    kept: [Kept; 4],
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    len: u8,
    offer: Class,
    class: Class,
    line: [u8; LINE_BYTES_MAX],
}

impl Default for Classes {
    fn default() -> Classes {
        let kept = Kept { len: 0, offer: Class::NONE, class: Class::NONE, line: [0; _] };
        Classes { kept: [kept; 4], next: 0 }
    }
}

impl Classes {
    /// What [`Class::of`] says of one line.
    pub fn of(&mut self, line: &[u8], offer: Class) -> Class {
        for kept in &self.kept {
            if kept.offer == offer && kept.line.get(..usize::from(kept.len)) == Some(line) {
                return kept.class;
            }
        }
        let class = Class::of(std::iter::once(line), offer);
        if line.len() <= LINE_BYTES_MAX {
            let kept = &mut self.kept[self.next];
            kept.line[..line.len()].copy_from_slice(line);
            (kept.len, kept.offer, kept.class) = (line.len() as u8, offer, class);
            self.next = (self.next + 1) % self.kept.len();
        }
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer() -> Class {
        Class::new(&Coding::ALL)
    }

    /// The names in order.
    fn names(class: Class) -> String {
        let names: Vec<&str> = class.codings().map(Coding::name).collect();
        names.join(" ")
    }

    fn read(lines: &[&str]) -> String {
        names(Class::of(lines.iter().map(|line| line.as_bytes()), offer()))
    }

    #[test]
    fn codings_that_are_liked_equally_stay_in_the_servers_order() {
        assert_eq!(read(&["gzip, deflate, br, zstd"]), "zstd br gzip");
        assert_eq!(read(&["br;q=0.8, gzip;q=0.8"]), "br gzip");
        let gzip_first = Class::new(&[Coding::Gzip, Coding::Zstd]);
        assert_eq!(names(Class::of([&b"br, zstd, gzip"[..]].into_iter(), gzip_first)), "gzip zstd");
    }

    #[test]
    fn weights_decide() {
        assert_eq!(read(&["zstd;q=0.1, br;q=0.5, gzip;q=0.9"]), "gzip br zstd");
        assert_eq!(read(&["gzip;q=0.5, br;q=0, zstd;q=0.501"]), "zstd gzip");
        assert_eq!(read(&["gzip;q=0.001"]), "gzip");
        assert_eq!(read(&["gzip;q=0"]), "");
    }

    #[test]
    fn without_a_word_about_codings_there_is_none() {
        assert_eq!(read(&[]), "");
        assert_eq!(read(&[""]), "");
        assert_eq!(read(&["", " , "]), "");
        assert_eq!(read(&["deflate, compress, sdch"]), "");
        assert_eq!(read(&["identity"]), "");
    }

    #[test]
    fn the_star_stands_for_what_is_not_named() {
        assert_eq!(read(&["*"]), "zstd br gzip");
        assert_eq!(read(&["*;q=0.5, gzip"]), "gzip zstd br");
        assert_eq!(read(&["gzip;q=0.5, *;q=0"]), "gzip");
        assert_eq!(read(&["identity;q=1, *;q=0"]), "");
        assert_eq!(read(&["br;q=0, *"]), "zstd gzip");
    }

    #[test]
    fn identity_is_liked_least_unless_it_is_named() {
        assert_eq!(read(&["gzip;q=0.001, identity;q=0.5"]), "");
        assert_eq!(read(&["gzip;q=0.5, br;q=0.7, identity;q=0.6"]), "br");
        assert_eq!(read(&["gzip, identity"]), "gzip");
        assert_eq!(read(&["identity;q=0, gzip"]), "gzip");
        assert_eq!(read(&["identity;q=0"]), "");
        assert_eq!(read(&["*;q=0"]), "");
    }

    #[test]
    fn names_are_compared_without_case_and_old_ones_are_known() {
        assert_eq!(read(&["X-GZIP;Q=0.3, BR;q=0.2, Identity;q=0"]), "gzip br");
    }

    #[test]
    fn several_lines_are_one_list_and_the_first_of_two_counts() {
        assert_eq!(read(&["gzip;q=0.2", "br;q=0.4, gzip;q=1"]), "br gzip");
        assert_eq!(read(&["gzip;q=nonsense, br", "gzip"]), "br gzip");
    }

    #[test]
    fn a_class_is_a_number_and_back() {
        assert_eq!(Class::NONE.code(), 0);
        let mut seen = std::collections::HashSet::new();
        for code in 0..=u16::MAX {
            let class = Class::from_code(code);
            assert_eq!(Class::from_code(class.code()), class);
            seen.insert(class);
        }
        assert_eq!(seen.len(), 16);
        assert_eq!(Class::new(&[Coding::Gzip, Coding::Gzip, Coding::Zstd]).code(), 0b01_11);
    }

    #[test]
    fn what_is_remembered_is_what_would_be_read() {
        let mut classes = Classes::default();
        let long = format!("gzip{}", ", deflate".repeat(40));
        let gzip = Class::new(&[Coding::Gzip]);
        for _ in 0..3 {
            for line in ["", "br", "gzip", "zstd;q=0", "*", "br;q=0.5,gzip", &long] {
                for offer in [offer(), gzip, Class::NONE] {
                    let read = Class::of(std::iter::once(line.as_bytes()), offer);
                    assert_eq!(classes.of(line.as_bytes(), offer), read, "{line}");
                }
            }
        }
    }

    /// The same rules, written to be seen through: every coding with its weight, sorted.
    fn slow(elements: &[(String, Option<u16>)], offer: &[Coding]) -> String {
        let said = |name: &str| {
            let is_it = |n: &str| n == name || (n == "x-gzip" && name == "gzip");
            let found = elements.iter().find(|(n, _)| is_it(&n.to_lowercase()));
            found.map(|(_, weight)| weight.unwrap_or(1000))
        };
        let weight = |name: &str| said(name).or(said("*"));
        let identity = weight("identity");
        let mut ranked: Vec<(u16, &str)> = offer
            .iter()
            .map(|coding| (weight(coding.name()).unwrap_or(0), coding.name()))
            .filter(|(weight, _)| *weight > 0 && *weight >= identity.unwrap_or(0))
            .collect();
        ranked.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        let names: Vec<&str> = ranked.iter().map(|(_, name)| *name).collect();
        names.join(" ")
    }

    fn element() -> impl Strategy<Value = (String, Option<u16>)> {
        const NAMES: &[&str] =
            &["gzip", "br", "zstd", "x-gzip", "identity", "*", "deflate", "GZIP", "Br", "IDENTITY"];
        let weight = prop::option::of(prop_oneof![Just(0), Just(500), Just(1000), 0u16..=1000]);
        (prop::sample::select(NAMES).prop_map(str::to_owned), weight)
    }

    proptest! {
        #[test]
        fn the_ranking_is_that_of_the_slow_way(
            elements in prop::collection::vec(element(), 0..8),
            offer in Just(Coding::ALL.to_vec()).prop_shuffle(),
            kept in 0usize..=3,
            lines in 1usize..4,
            space in "[ \t]{0,3}",
        ) {
            let offer = &offer[..kept];
            let text = |(name, weight): &(String, Option<u16>)| match weight {
                Some(w) => format!("{space}{name}{space};{space}q={}.{:03}", w / 1000, w % 1000),
                None => name.clone() + &space,
            };
            let written: Vec<String> = elements.iter().map(text).collect();
            let per_line = elements.len().div_ceil(lines).max(1);
            let lines: Vec<String> = written.chunks(per_line).map(|line| line.join(",")).collect();
            let class = Class::of(lines.iter().map(|line| line.as_bytes()), Class::new(offer));
            prop_assert_eq!(names(class), slow(&elements, offer));
            prop_assert_eq!(Class::from_code(class.code()), class);
        }

        #[test]
        fn any_bytes_have_a_class(bytes: Vec<u8>, like in "[gzipbr*;q=0.15, ]{0,60}") {
            for line in [&bytes[..], like.as_bytes()] {
                let class = Class::of(std::iter::once(line), offer());
                prop_assert_eq!(Class::from_code(class.code()), class);
            }
        }
    }
}
