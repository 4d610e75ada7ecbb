//! Which of a site's languages a client prefers (RFC 9110, section 12.5.4; RFC 4647).

/// Most languages of a site.
pub const LANGUAGES_MAX: usize = 16;

/// Most preferences of a client that are looked at: the others find the default.
pub(crate) const PREFERENCES_MAX: usize = 4;

/// Most ranges of a request that are looked at.
const RANGES_MAX: usize = 32;

/// Bits of one preference in [`Preferences::code`].
const BITS: u32 = 5;

const _: () = assert!(LANGUAGES_MAX < 1 << BITS);

/// Whether a text is a language tag (RFC 5646, section 2.1), and fit for a file name.
pub fn is_language(text: &str) -> bool {
    let subtag = |part: &str| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let first = text.split('-').next().unwrap_or_default();
    (2..=8).contains(&first.len())
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && text.split('-').all(subtag)
}

/// Indices of languages of a site, the most preferred first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preferences {
    len: u8,
    languages: [u8; PREFERENCES_MAX],
}

impl Preferences {
    /// What the values of `Accept-Language` prefer among `languages`.
    ///
    /// Each range is looked up by RFC 4647, section 3.4: as it is, then without its last subtags.
    /// A range that is refused (`q=0`) is no preference; nor is `*`, for which anything will do.
    /// Allocates nothing.
    pub(crate) fn of<'a>(
        values: impl Iterator<Item = &'a [u8]>,
        languages: &[String],
    ) -> Preferences {
        // By quality, and in the order of the request where it is equal.
        let mut found: [(u16, u8); PREFERENCES_MAX] = [(0, 0); PREFERENCES_MAX];
        let mut len = 0;
        let ranges = values.flat_map(|value| value.split(|&byte| byte == b','));
        for range in ranges.take(RANGES_MAX) {
            let (tag, quality) = range_of(range);
            let Some(language) = lookup(tag, languages).filter(|_| quality > 0) else { continue };
            len = insert(&mut found, len, quality, language);
        }
        let mut preferences = Preferences { len: len as u8, ..Preferences::default() };
        for (preference, (_, language)) in preferences.languages.iter_mut().zip(&found[..len]) {
            *preference = *language;
        }
        preferences
    }

    /// The indices, the most preferred first.
    pub(crate) fn languages(&self) -> impl Iterator<Item = usize> + '_ {
        self.languages[..usize::from(self.len)].iter().map(|&language| usize::from(language))
    }

    /// A small number that stands for them; 0 for none.
    pub(crate) fn code(&self) -> u64 {
        self.languages().fold(0, |code, language| code << BITS | (language as u64 + 1))
    }

    /// How many bits a code has at most.
    pub(crate) const CODE_BITS: u32 = BITS * PREFERENCES_MAX as u32;
}

/// Puts a language in by its quality, once, and gives back how many there are.
fn insert(
    found: &mut [(u16, u8); PREFERENCES_MAX],
    mut len: usize,
    quality: u16,
    language: u8,
) -> usize {
    if let Some(at) = found[..len].iter().position(|&(_, other)| other == language) {
        if found[at].0 >= quality {
            return len;
        }
        found.copy_within(at + 1..len, at);
        len -= 1;
    }
    let at = found[..len].iter().position(|&(other, _)| other < quality).unwrap_or(len);
    if at == PREFERENCES_MAX {
        return len;
    }
    let len = (len + 1).min(PREFERENCES_MAX);
    found.copy_within(at..len - 1, at + 1);
    found[at] = (quality, language);
    len
}

/// A range and its quality in thousandths (RFC 9110, section 12.4.2); a quality that is not one
/// counts as 0.
pub(super) fn range_of(range: &[u8]) -> (&[u8], u16) {
    let mut parts = range.split(|&byte| byte == b';');
    let tag = parts.next().unwrap_or_default().trim_ascii();
    let quality = parts.map(<[u8]>::trim_ascii).find_map(|parameter| {
        parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))
    });
    (tag, quality.map_or(1_000, thousandths))
}

fn thousandths(text: &[u8]) -> u16 {
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return 0,
    };
    let mut value = u16::from(whole - b'0') * 1_000;
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return 0;
        }
        value += u16::from(digit - b'0') * unit;
    }
    if value <= 1_000 { value } else { 0 }
}

/// The language that a range finds (RFC 4647, section 3.4).
fn lookup(mut range: &[u8], languages: &[String]) -> Option<u8> {
    while !range.is_empty() {
        let same = |language: &String| language.as_bytes().eq_ignore_ascii_case(range);
        if let Some(at) = languages.iter().position(same) {
            return u8::try_from(at).ok();
        }
        let dash = range.iter().rposition(|&byte| byte == b'-')?;
        range = &range[..dash];
        // A subtag of one letter only introduces what followed it.
        if let [shorter @ .., b'-', _] = range {
            range = shorter;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn preferred(value: &str, languages: &[&str]) -> Vec<String> {
        let languages: Vec<String> = languages.iter().map(ToString::to_string).collect();
        let preferences = Preferences::of([value.as_bytes()].into_iter(), &languages);
        preferences.languages().map(|at| languages[at].clone()).collect()
    }

    #[test]
    fn quality_decides_and_then_the_order() {
        let site = ["en", "de", "fr", "pt-BR", "zh-Hant"];
        for (value, expected) in [
            ("de", vec!["de"]),
            ("de, en", vec!["de", "en"]),
            ("en;q=0.5, de", vec!["de", "en"]),
            ("fr;q=0.3,de;q=0.31 , en;q=1.000", vec!["en", "de", "fr"]),
            ("DE-at", vec!["de"]),
            ("de-CH-1996, de;q=0.1", vec!["de"]),
            ("pt-br", vec!["pt-BR"]),
            ("pt", vec![]),
            ("zh-Hant-CN-x-private1-private2", vec!["zh-Hant"]),
            ("*", vec![]),
            ("de;q=0", vec![]),
            ("de;q=0.0000, de;q=2, de;q=x, de;q=1.001", vec![]),
            ("", vec![]),
            (",,;;q=1,de", vec!["de"]),
            ("en, en;q=0.1, de;q=0.5", vec!["en", "de"]),
            ("en;q=0.1, de;q=0.5, en", vec!["en", "de"]),
            ("en;q=.5", vec![]),
            ("de ; q=0.5 , en ; q=0.6", vec!["en", "de"]),
        ] {
            assert_eq!(preferred(value, &site), expected, "{value:?}");
        }
    }

    #[test]
    fn the_best_four_count() {
        let site = ["a1", "b1", "c1", "d1", "e1"];
        let value = "a1;q=0.1,b1;q=0.2,c1;q=0.3,d1;q=0.4,e1;q=0.5";
        assert_eq!(preferred(value, &site), ["e1", "d1", "c1", "b1"]);
    }

    #[test]
    fn tags_are_told_from_other_texts() {
        for text in ["de", "pt-BR", "zh-Hant-TW", "sl-rozaj-1994"] {
            assert!(is_language(text), "{text}");
        }
        for text in ["", "d", "de-", "-de", "de_DE", "../x", "de.html", "deutschland", "\u{fc}b"] {
            assert!(!is_language(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in prop::collection::vec(any::<u8>(), 0..64)) {
            let languages = vec!["en".to_owned(), "de".to_owned()];
            let preferences = Preferences::of([&value[..]].into_iter(), &languages);
            prop_assert!(preferences.languages().all(|at| at < 2));
            prop_assert!(preferences.code() < 1 << Preferences::CODE_BITS);
        }

        #[test]
        fn preferences_are_those_of_a_sorted_list(
            ranges in prop::collection::vec((0_usize..6, 0_u16..=10), 0..12),
        ) {
            let site: Vec<String> = (0..6).map(|n| format!("l{}", (b'a' + n) as char)).collect();
            let value: Vec<String> = ranges
                .iter()
                .map(|(at, q)| format!("{};q={}.{}", site[*at], q / 10, q % 10))
                .collect();
            let value = value.join(", ");
            let found = Preferences::of([value.as_bytes()].into_iter(), &site);
            // The best quality of each counts; where they are equal, the first to have it.
            let mut best: Vec<(u16, usize, usize)> = Vec::new();
            for language in 0..6 {
                let of = ranges.iter().enumerate().filter(|(_, (at, q))| *at == language && *q > 0);
                let best_of = of.map(|(place, (_, q))| (*q, place)).max_by_key(|(q, place)| {
                    (*q, usize::MAX - place)
                });
                best.extend(best_of.map(|(q, place)| (q, place, language)));
            }
            best.sort_by_key(|&(q, place, _)| (u16::MAX - q, place));
            let expected: Vec<usize> =
                best.iter().map(|&(_, _, language)| language).take(PREFERENCES_MAX).collect();
            prop_assert_eq!(found.languages().collect::<Vec<_>>(), expected);
        }
    }
}
