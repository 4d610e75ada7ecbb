//! Which names beside a file may answer for it: `index.html.de` for `index.html`, `a.webp` for
//! `a.png`.
//!
//! Which of them are there is only known by looking, and `Vary` must be told as soon as any is,
//! even to those who get the plain file (RFC 9110, section 12.5.5).

use std::sync::Arc;

use super::images::{self, Images};
use super::language::Preferences;

/// What the name of a file ends with that is coded by gzip.
pub(crate) const GZIP_SUFFIX: &[u8] = b".gz";

/// What a request accepts on a site that negotiates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    /// The languages of the site; empty when they are not negotiated.
    pub(crate) languages: Arc<[String]>,
    /// Which of them the client prefers.
    pub(crate) preferences: Preferences,
    /// The newer image formats that it takes; `None` when they are not negotiated.
    pub(crate) images: Option<Images>,
    /// Whether `a.html.gz` answers for `a.html` where that is not there.
    pub(crate) gzip_only: bool,
}

/// On which fields of requests an answer depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depends {
    /// `Accept-Language`.
    pub(crate) language: bool,
    /// `Accept`.
    pub(crate) image: bool,
}

/// A name that may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: Vec<u8>,
    pub(crate) role: Role,
    /// What an answer depends on when a file of this name is there.
    pub(crate) depends: Depends,
}

/// What a candidate is to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It answers.
    Preferred,
    /// The file asked for: it answers unless a preferred one is there.
    Plain,
    /// The file asked for, coded by gzip: it answers where the plain one would and is not there.
    Gzip,
    /// It answers when neither a preferred nor the plain one is there.
    Default,
    /// It never answers: its client does not take it.
    Refused,
}

impl Neighbours {
    /// The names that may answer for a file, in the order in which they are looked for.
    pub(crate) fn of(&self, name: &[u8]) -> Vec<Candidate> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if let (Some(images), Some(stem)) = (self.images, images::stem(name)) {
            for (extension, taken) in images.extensions() {
                let (list, role) = match taken {
                    true => (&mut before, Role::Preferred),
                    false => (&mut after, Role::Refused),
                };
                let depends = Depends { image: true, ..Depends::default() };
                let name = [stem, b".", extension].concat();
                list.push(Candidate { name, role, depends });
            }
        }
        // What names its language already has no neighbour in another.
        if self.language_in(name).is_none() {
            let preferred: Vec<usize> = self.preferences.languages().collect();
            let candidate = |at: usize, role| Candidate {
                name: [name, b".", self.languages[at].as_bytes()].concat(),
                role,
                depends: Depends { language: true, ..Depends::default() },
            };
            before.extend(preferred.iter().map(|&at| candidate(at, Role::Preferred)));
            let others = (0..self.languages.len()).filter(|at| !preferred.contains(at));
            after.extend(others.map(|at| candidate(at, Role::Default)));
        }
        let plain =
            Candidate { name: name.to_vec(), role: Role::Plain, depends: Depends::default() };
        let gzip = self.gzip_only.then(|| Candidate {
            name: [name, GZIP_SUFFIX].concat(),
            role: Role::Gzip,
            depends: Depends::default(),
        });
        before.into_iter().chain([plain]).chain(gzip).chain(after).collect()
    }

    /// The language that a name ends in.
    pub(crate) fn language_in(&self, name: &[u8]) -> Option<&str> {
        language_in(&self.languages, name)
    }
}

/// The one of these languages that a file name ends in, after the name of a file.
pub(crate) fn language_in<'a>(languages: &'a [String], name: &[u8]) -> Option<&'a str> {
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let (file, language) = (&name[..dot], &name[dot + 1..]);
    let file_name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    if file_name.is_empty() {
        return None;
    }
    languages.iter().find(|tag| tag.as_bytes() == language).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(neighbours: &Neighbours, name: &str) -> Vec<(String, Role)> {
        let candidates = neighbours.of(name.as_bytes());
        candidates.into_iter().map(|c| (String::from_utf8(c.name).unwrap(), c.role)).collect()
    }

    fn negotiating(accept_language: &str, accept: &str) -> Neighbours {
        let languages: Vec<String> = ["en", "de", "fr"].map(str::to_owned).into();
        Neighbours {
            preferences: Preferences::of([accept_language.as_bytes()].into_iter(), &languages),
            languages: languages.into(),
            images: Some(Images::of([accept.as_bytes()].into_iter())),
            gzip_only: false,
        }
    }

    #[test]
    fn a_name_is_alone_where_nothing_is_negotiated() {
        let off = Neighbours::default();
        assert_eq!(names(&off, "a.png"), [("a.png".into(), Role::Plain)]);
    }

    #[test]
    fn a_file_that_is_there_by_gzip_alone_is_looked_for_after_the_plain_one() {
        let site = Neighbours { gzip_only: true, ..negotiating("fr", "") };
        let found = names(&site, "a.html");
        assert_eq!(
            found[1..3],
            [("a.html".into(), Role::Plain), ("a.html.gz".into(), Role::Gzip),]
        );
    }

    #[test]
    fn preferred_languages_come_first_and_the_others_last() {
        let expected = [
            ("d/a.html.fr", Role::Preferred),
            ("d/a.html.en", Role::Preferred),
            ("d/a.html", Role::Plain),
            ("d/a.html.de", Role::Default),
        ];
        let found = names(&negotiating("en;q=0.1, fr", ""), "d/a.html");
        assert_eq!(found, expected.map(|(name, role)| (name.to_owned(), role)));
    }

    #[test]
    fn a_name_with_a_language_has_no_other() {
        let site = negotiating("fr", "");
        assert_eq!(names(&site, "a.html.de"), [("a.html.de".into(), Role::Plain)]);
        assert_eq!(site.language_in(b"a.html.de"), Some("de"));
        for name in ["a.html", "a.html.es", ".de", "d/.de", "de", "a.de/b"] {
            assert_eq!(site.language_in(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn formats_that_are_not_taken_are_only_looked_for() {
        let found = names(&negotiating("", "image/webp"), "a.png");
        assert_eq!(found[0], ("a.webp".into(), Role::Preferred));
        assert_eq!(found[1], ("a.png".into(), Role::Plain));
        assert_eq!(found[2], ("a.avif".into(), Role::Refused));
    }
}
