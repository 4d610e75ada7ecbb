//! Content codings, and which of them a client would rather have (RFC 9110, section 12.5.3).
//!
//! Which codings there are is told by the crate that has the encoders: here each is a number, and a
//! function knows it by name. What a client accepts is read into a [`Class`]: a code of its
//! ranking, the same for every spelling of the same wish, so that it can be part of a cache's key.
//! Nothing here allocates.

use std::num::NonZeroU8;

use crate::quality::{WEIGHT_MAX, weighed};

/// A content coding: its place in the table of those that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coding(NonZeroU8);

impl Coding {
    /// Most codings that a server may have.
    pub const MAX: usize = CODE_MASK as usize;

    /// The coding at this place of the table; `None` beyond the last that may be there.
    pub const fn at(index: usize) -> Option<Coding> {
        if index < Coding::MAX { Coding::from_code(index as u32 + 1) } else { None }
    }

    /// Its place in the table.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Its number, from 1: 0 is left for no coding.
    pub const fn number(self) -> u8 {
        self.0.get()
    }

    const fn from_code(code: u32) -> Option<Coding> {
        match NonZeroU8::new((code & CODE_MASK) as u8) {
            Some(number) => Some(Coding(number)),
            None => None,
        }
    }
}

/// The coding of a name, in whatever case, if the server has it.
pub type Named = fn(&[u8]) -> Option<Coding>;

/// Bits of a class for each coding in it.
const CODE_BITS: u32 = 3;
const CODE_MASK: u32 = (1 << CODE_BITS) - 1;

/// The codings that a client prefers to none, best first.
///
/// No coding is always the last resort, even for a client that refuses it (`identity;q=0`): where
/// nothing else is on offer the field is then disregarded, which section 12.4.1 allows, rather than
/// answered by 406.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class(u32);

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
        Class(self.0 | u32::from(coding.number()) << at)
    }

    /// Bits of [`Class::code`].
    pub const BITS: u32 = CODE_BITS * Coding::MAX as u32;

    /// The class as a number that is zero for [`Class::NONE`].
    pub const fn code(self) -> u32 {
        self.0
    }

    /// The codings that come before none at all, best first.
    pub fn codings(self) -> impl Iterator<Item = Coding> {
        let code = move |at: u32| self.0 >> (CODE_BITS * at);
        (0..Coding::MAX as u32).map_while(move |at| Coding::from_code(code(at)))
    }

    /// Reads the lines of `Accept-Encoding` against the codings on offer, of which those that the
    /// client likes equally stay in the order of `offer`. `named` knows all that the server has.
    ///
    /// * No line, or only empty ones: no coding.
    /// * `*` stands for every coding that is not named, identity among them.
    /// * Identity that nothing is said of is acceptable, and liked least; with the same weight as
    ///   a coding it comes after it.
    /// * Of a name that occurs twice the first counts; unknown codings are passed over.
    pub fn of<'v>(lines: impl Iterator<Item = &'v [u8]>, offer: Class, named: Named) -> Class {
        let mut wish = Wish::default();
        lines.for_each(|line| wish.read(line, named));
        wish.ranking(offer)
    }
}

/// What the lines say: a weight for each coding, if there is one.
#[derive(Default)]
struct Wish {
    /// By number; identity is number 0.
    weights: [Option<u16>; Coding::MAX + 1],
    /// Of those that are not named.
    others: Option<u16>,
}

/// Liked least of all that is acceptable.
const LEAST: u16 = 0;

impl Wish {
    fn read(&mut self, line: &[u8], named: Named) {
        for item in weighed(line) {
            let weight = match named(item.value) {
                Some(coding) => &mut self.weights[usize::from(coding.number())],
                None if item.value == b"*" => &mut self.others,
                None if item.value.eq_ignore_ascii_case(b"identity") => &mut self.weights[0],
                None => continue,
            };
            weight.get_or_insert(item.weight);
        }
    }

    fn ranking(&self, offer: Class) -> Class {
        let floor = self.weights[0].or(self.others).unwrap_or(LEAST);
        let said = |coding: Coding| self.weights[usize::from(coding.number())];
        let weight = |coding: Coding| said(coding).or(self.others).unwrap_or(0);
        let mut class = Class::NONE;
        // Few are on offer: each time the best that is left, of equals the first.
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
/// server send one of a few. One per thread of control; it owns 600 bytes and never more.
#[derive(Clone, Debug)]
pub struct Classes {
    named: Named,
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

impl Classes {
    /// None yet, of a server that knows its codings by `named`.
    pub fn new(named: Named) -> Classes {
        let kept = Kept { len: 0, offer: Class::NONE, class: Class::NONE, line: [0; _] };
        Classes { named, kept: [kept; 4], next: 0 }
    }

    /// What [`Class::of`] says of one line.
    pub fn of(&mut self, line: &[u8], offer: Class) -> Class {
        for kept in &self.kept {
            if kept.offer == offer && kept.line.get(..usize::from(kept.len)) == Some(line) {
                return kept.class;
            }
        }
        let class = Class::of(std::iter::once(line), offer, self.named);
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

    /// A server's table, and what each of its codings is called besides.
    const TABLE: [(&str, &str); 3] = [("zstd", ""), ("br", ""), ("gzip", "x-gzip")];

    fn named(name: &[u8]) -> Option<Coding> {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        TABLE.iter().position(|(known, old)| is(known) || is(old)).and_then(Coding::at)
    }

    fn all() -> [Coding; 3] {
        [0, 1, 2].map(|index| Coding::at(index).unwrap())
    }

    fn gzip() -> Coding {
        named(b"gzip").unwrap()
    }

    fn name(coding: Coding) -> &'static str {
        TABLE[coding.index()].0
    }

    fn offer() -> Class {
        Class::new(&all())
    }

    /// The names in order.
    fn names(class: Class) -> String {
        let names: Vec<&str> = class.codings().map(name).collect();
        names.join(" ")
    }

    fn of(line: &[u8], offer: Class) -> Class {
        Class::of(std::iter::once(line), offer, named)
    }

    fn read(lines: &[&str]) -> String {
        names(Class::of(lines.iter().map(|line| line.as_bytes()), offer(), named))
    }

    #[test]
    fn codings_that_are_liked_equally_stay_in_the_servers_order() {
        assert_eq!(read(&["gzip, deflate, br, zstd"]), "zstd br gzip");
        assert_eq!(read(&["br;q=0.8, gzip;q=0.8"]), "br gzip");
        let gzip_first = Class::new(&[gzip(), named(b"zstd").unwrap()]);
        assert_eq!(names(of(b"br, zstd, gzip", gzip_first)), "gzip zstd");
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
    fn a_class_has_each_coding_once_and_is_a_number() {
        assert_eq!(Class::NONE.code(), 0);
        let zstd = named(b"zstd").unwrap();
        assert_eq!(Class::new(&[gzip(), gzip(), zstd]).code(), 0b001_011);
        let most: Vec<Coding> = (0..Coding::MAX).filter_map(Coding::at).rev().collect();
        let class = Class::new(&most);
        assert_eq!(class.codings().collect::<Vec<_>>(), most);
        assert_eq!((most.len(), Coding::at(Coding::MAX)), (Coding::MAX, None));
        assert!(class.code() < 1 << Class::BITS);
    }

    #[test]
    fn what_is_remembered_is_what_would_be_read() {
        let mut classes = Classes::new(named);
        let long = format!("gzip{}", ", deflate".repeat(40));
        let gzip = Class::new(&[gzip()]);
        for _ in 0..3 {
            for line in ["", "br", "gzip", "zstd;q=0", "*", "br;q=0.5,gzip", &long] {
                for offer in [offer(), gzip, Class::NONE] {
                    let read = of(line.as_bytes(), offer);
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
            .map(|&coding| (weight(name(coding)).unwrap_or(0), name(coding)))
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
            offer in Just(all().to_vec()).prop_shuffle(),
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
            let lines = lines.iter().map(|line| line.as_bytes());
            let class = Class::of(lines, Class::new(offer), named);
            prop_assert_eq!(names(class), slow(&elements, offer));
        }

        #[test]
        fn any_bytes_have_a_class(bytes: Vec<u8>, like in "[gzipbr*;q=0.15, ]{0,60}") {
            for line in [&bytes[..], like.as_bytes()] {
                let class = of(line, offer());
                let codings: Vec<Coding> = class.codings().collect();
                prop_assert_eq!(Class::new(&codings), class);
                prop_assert!(class.code() < 1 << Class::BITS);
            }
        }
    }
}
