//! The files of a set, as often as its kind asks for each.

use std::path::Path;
use std::sync::Arc;

use super::{Catalog, Content, Dynamic, Expected, Follow, Message, Step, Workload};
use crate::fileset::{File, FileContent, Kind, Manifest, Mix, open};
use crate::random::{Purpose, Random};
use crate::units::counted;

/// Sizes up to which replies are counted together, for the rule that no size may be treated worse
/// than others (S4, Section 5).
pub(super) const CLASSES: [(u64, &str); 4] = [
    (1 << 10, "below 1 KiB"),
    (10 << 10, "below 10 KiB"),
    (100 << 10, "below 100 KiB"),
    (u64::MAX, "100 KiB and more"),
];

/// Draws files of a set.
#[derive(Clone, Debug)]
pub struct FilesetMix {
    mix: Arc<Mix>,
    /// What is asked for in the place of files.
    dynamic: Option<Dynamic>,
    /// Requests of a session, where they are not the kind's.
    requests: Option<u32>,
    pipelined: bool,
    seed: u64,
    random: Random,
}

impl FilesetMix {
    /// Puts every file of the set in `directory` into the catalog, beneath the path `base`; they
    /// are asked for as often as the kind does, or `mix`. Returns also what it is in words. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// When the directory holds no set, or one that `mix` is not of.
    pub fn new(
        directory: &Path,
        mix: Option<Kind>,
        base: &str,
        message: &Message,
        catalog: &mut Catalog,
        numbers: (Option<u32>, u64),
    ) -> Result<(FilesetMix, String), String> {
        let mut manifest = open(directory)?;
        let (kind, parameters) = (mix.unwrap_or(manifest.kind), manifest.parameters);
        if kind != manifest.kind && !(kind.is_spec() && manifest.kind.is_spec()) {
            return Err(format!(
                "{} holds a set of {}, and the mix is of {kind}: make one by `flyball fileset \
                 {kind} DIR`",
                directory.display(),
                manifest.kind
            ));
        }
        manifest.kind = kind;
        let files = manifest.files()?;
        for file in &files {
            let content = FileContent::new(&file.name, file.size, parameters.seed);
            catalog.add(&message_for(file, base, message, Some(Arc::new(content))));
        }
        let made = FilesetMix::of(&manifest, files.len(), catalog, numbers);
        Ok((made, format!("{} of {kind}", counted(files.len(), "file"))))
    }

    /// The same of a set that is not at hand: nothing is known of the files but their paths.
    ///
    /// # Errors
    /// When the parameters make no set.
    pub fn of_paths(
        manifest: &Manifest,
        base: &str,
        message: &Message,
        catalog: &mut Catalog,
        numbers: (Option<u32>, u64),
    ) -> Result<(FilesetMix, String), String> {
        let files = manifest.files()?;
        for file in &files {
            catalog.add(&Message {
                expected: Expected::default(),
                ..message_for(file, base, message, None)
            });
        }
        let made = FilesetMix::of(manifest, files.len(), catalog, numbers);
        Ok((made, format!("{} of {}", counted(files.len(), "path"), manifest.kind)))
    }

    /// The same, with the requests of a session sent together as far as they may be pipelined.
    #[must_use]
    pub fn pipelined(self, pipelined: bool) -> FilesetMix {
        FilesetMix { pipelined, ..self }
    }

    /// The same with a part of its requests dynamic ones.
    pub(crate) fn with_dynamic(self, dynamic: Dynamic) -> FilesetMix {
        FilesetMix { dynamic: Some(dynamic), ..self }
    }

    /// How often it asks for each file.
    pub(crate) fn mix(&self) -> &Mix {
        &self.mix
    }

    fn of(
        manifest: &Manifest,
        files: usize,
        catalog: &mut Catalog,
        (requests, seed): (Option<u32>, u64),
    ) -> FilesetMix {
        catalog.classes = CLASSES.iter().map(|(_, name)| (*name).to_owned()).collect();
        let mix = Arc::new(Mix::new(manifest, files));
        let random = Random::new(seed, Purpose::Requests);
        FilesetMix { mix, dynamic: None, requests, pipelined: false, seed, random }
    }
}

fn message_for(
    file: &File,
    base: &str,
    message: &Message,
    content: Option<Arc<dyn Content>>,
) -> Message {
    Message {
        target: format!("{}/{}", base.trim_end_matches('/'), file.name),
        class: class_of(file.size),
        expected: expected(file, content),
        ..message.clone()
    }
}

/// What a reply with a file must be.
pub(super) fn expected(file: &File, content: Option<Arc<dyn Content>>) -> Expected {
    Expected { status: Some(200), length: Some(file.size), content, ..Expected::default() }
}

/// The class of a file of so many bytes.
pub(super) fn class_of(size: u64) -> u16 {
    let class = CLASSES.iter().position(|(below, _)| size < *below);
    class.unwrap_or(CLASSES.len() - 1) as u16
}

impl Workload for FilesetMix {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let requests = self.requests.unwrap_or_else(|| self.mix.session(&mut self.random));
        let follow = if self.pipelined { Follow::Together } else { Follow::Pause };
        for _ in 0..requests {
            let file = self.mix.draw(&mut self.random);
            let drawn = |dynamic: &Dynamic| dynamic.draw(file, &mut self.random);
            let request = self.dynamic.as_ref().and_then(drawn).unwrap_or(file);
            steps.push(Step { request, follow });
        }
        true
    }

    fn fork(&self, index: usize, _threads: usize) -> Box<dyn Workload> {
        let random = Random::new(self.seed.wrapping_add(index as u64), Purpose::Requests);
        Box::new(FilesetMix { random, ..self.clone() })
    }

    fn requests_per_session(&self) -> f64 {
        self.requests.map_or_else(|| self.mix.requests_per_session(), f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::{Parameters, make};

    #[test]
    fn every_file_is_asked_for_by_its_path_and_expected_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let set = directory.path().join("set");
        let kind = Kind::SpecWeb99;
        let parameters = Parameters { directories: 1, ..kind.defaults() };
        make(&Manifest { kind, parameters }, &set, &mut |_, _| {}).unwrap();
        let mut catalog = Catalog::new("h", Vec::new());
        let message = Message::default();
        let (mut mix, words) =
            FilesetMix::new(&set, None, "/a/", &message, &mut catalog, (None, 1)).unwrap();
        assert_eq!((catalog.len(), words.as_str()), (36, "36 files of specweb99"));
        let first = catalog.request(0);
        assert!(first.bytes.starts_with(b"GET /a/file_set/dir00000/class0_0 HTTP/1.1\r\n"));
        assert_eq!((first.expected.status, first.expected.length), (Some(200), Some(102)));
        assert_eq!(catalog.classes[usize::from(catalog.request(35).class)], "100 KiB and more");
        let mut steps = Vec::new();
        assert!(mix.next_session(&mut steps) && !steps.is_empty());
        assert!(steps.iter().all(|step| step.follow == Follow::Pause));
        steps.clear();
        assert!(mix.pipelined(true).next_session(&mut steps));
        assert!(steps.iter().all(|step| step.follow == Follow::Together));
    }

    #[test]
    fn a_mix_needs_its_own_files_and_no_files_at_hand() {
        let directory = tempfile::tempdir().unwrap();
        let set = directory.path().join("set");
        let kind = Kind::SpecWeb99;
        let parameters = Parameters { directories: 1, ..kind.defaults() };
        make(&Manifest { kind, parameters }, &set, &mut |_, _| {}).unwrap();
        let message = Message::default();
        let new = |mix| {
            let mut catalog = Catalog::new("h", Vec::new());
            FilesetMix::new(&set, Some(mix), "/", &message, &mut catalog, (None, 1))
        };
        assert_eq!(new(Kind::SpecWeb96).unwrap().1, "36 files of specweb96");
        let why = new(Kind::WebStone).unwrap_err();
        assert!(why.contains("holds a set of specweb99, and the mix is of webstone"), "{why}");
        let mut catalog = Catalog::new("h", Vec::new());
        let manifest = Manifest { kind: Kind::S4, parameters: Kind::S4.defaults() };
        let numbers = (None, 1);
        let (mix, words) =
            FilesetMix::of_paths(&manifest, "/", &message, &mut catalog, numbers).unwrap();
        assert_eq!((catalog.len(), words.as_str()), (23_400, "23400 paths of s4"));
        assert!((mix.requests_per_session() - 7.3).abs() < 1e-9);
        assert!(catalog.request(0).expected.content.is_none());
        assert_eq!(catalog.classes.len(), 4, "sizes are known, and the rule of S4 is judged");
    }
}
