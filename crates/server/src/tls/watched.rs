//! Files that are looked at again and again while the server runs: whether others have taken their
//! place, whether they are gone, and what was said of them.

use std::io;
use std::path::{Path, PathBuf};

use flyball_sys::secret_file::Version;

/// Files that belong together.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    paths: Vec<PathBuf>,
    /// Those that were there at the last look, whether they could be used or not.
    versions: Vec<Option<Version>>,
    /// When one of them was found to be gone, in monotonic milliseconds.
    gone_since_ms: Option<u64>,
    /// What was said last of files that cannot be used, if no others were used since.
    said: Option<String>,
}

/// When it is looked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// In monotonic milliseconds.
    pub(super) ms: u64,
    /// In seconds since 1970.
    pub(super) s: u64,
    /// For how long a file may be gone, in milliseconds: it is about to be replaced.
    pub(super) gone_ms_max: u64,
}

/// What a look shows.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing new.
    Same,
    /// Others are there. What is replaced while it is read is looked at again.
    Changed,
    /// The file of this number cannot be read, and for longer than a replacement takes.
    Gone(usize, String),
}

impl Watched {
    /// Files as they are now: they are to be read after this.
    pub(super) fn new<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Watched {
        let paths: Vec<PathBuf> = paths.into_iter().map(Path::to_owned).collect();
        let versions = paths.iter().map(|path| Version::of(path).ok()).collect();
        Watched { paths, versions, gone_since_ms: None, said: None }
    }

    /// Looks which files the names lead to now. Blocks on the disk.
    pub(super) fn look(&mut self, at: Moment) -> Look {
        let versions: Vec<io::Result<Version>> =
            self.paths.iter().map(|path| Version::of(path)).collect();
        let gone = versions.iter().enumerate().find_map(|(number, version)| {
            let error = version.as_ref().err()?;
            Some((number, format!("{} cannot be read: {error}", self.paths[number].display())))
        });
        let versions: Vec<Option<Version>> = versions.into_iter().map(Result::ok).collect();
        let Some((number, why)) = gone else {
            self.gone_since_ms = None;
            if versions == self.versions {
                return Look::Same;
            }
            self.versions = versions;
            return Look::Changed;
        };
        let since_ms = *self.gone_since_ms.get_or_insert(at.ms);
        if at.ms.saturating_sub(since_ms) < at.gone_ms_max {
            return Look::Same;
        }
        // Those that come back are others, and are told so.
        self.versions = versions;
        Look::Gone(number, why)
    }

    /// This trouble, if it is not what was said last.
    pub(super) fn say(&mut self, why: String) -> Option<String> {
        (self.said.replace(why.clone()).as_ref() != Some(&why)).then_some(why)
    }

    /// What was said last, if nothing has succeeded since.
    pub(super) fn said(&self) -> Option<&String> {
        self.said.as_ref()
    }

    /// They are in use.
    pub(super) fn succeeded(&mut self) {
        self.said = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn at(ms: u64) -> Moment {
        Moment { ms, s: 0, gone_ms_max: 100 }
    }

    #[test]
    fn a_file_that_is_gone_is_told_when_it_stays_away_and_again_when_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        fs::write(&one, "1").unwrap();
        fs::write(&two, "2").unwrap();
        let mut watched = Watched::new([&*one, &*two]);
        assert!(matches!(watched.look(at(0)), Look::Same));
        fs::rename(&two, dir.path().join("away")).unwrap();
        assert!(matches!(watched.look(at(10)), Look::Same));
        assert!(matches!(watched.look(at(109)), Look::Same));
        let Look::Gone(1, why) = watched.look(at(110)) else { panic!("it is gone") };
        assert!(why.contains("two cannot be read: "), "{why}");
        assert_eq!((watched.say(why.clone()), watched.say(why.clone())), (Some(why), None));
        fs::rename(dir.path().join("away"), &two).unwrap();
        assert!(matches!(watched.look(at(111)), Look::Changed));
        assert!(matches!(watched.look(at(112)), Look::Same));
        fs::remove_file(&two).unwrap();
        assert!(matches!(watched.look(at(200)), Look::Same));
        fs::write(&two, "3").unwrap();
        assert!(matches!(watched.look(at(400)), Look::Changed));
    }
}
