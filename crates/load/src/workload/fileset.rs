//! The files of a set, as often as its kind asks for each.

use std::path::Path;
use std::sync::Arc;

use super::{Catalog, Expected, Follow, Message, Step, Workload};
use crate::fileset::{File, FileContent, Mix, open};
use crate::random::{Purpose, Random};

/// Sizes up to which replies are counted together, for the rule that no size may be treated worse
/// than others (S4, Section 5).
const CLASSES: [(u64, &str); 4] = [
    (1 << 10, "below 1 KiB"),
    (10 << 10, "below 10 KiB"),
    (100 << 10, "below 100 KiB"),
    (u64::MAX, "100 KiB and more"),
];

/// Draws files of a set.
#[derive(Clone, Debug)]
pub struct FilesetMix {
    mix: Arc<Mix>,
    /// Requests of a session, where they are not the kind's.
    requests: Option<u32>,
    think_ns: u64,
    seed: u64,
    random: Random,
}

impl FilesetMix {
    /// Puts every file of the set in `directory` into the catalog, beneath the path `base`. Returns
    /// also what it is in words. Blocks on the disk.
    ///
    /// # Errors
    /// When the directory holds no set.
    pub fn new(
        directory: &Path,
        base: &str,
        message: &Message,
        catalog: &mut Catalog,
        (requests, think_ns, seed): (Option<u32>, u64, u64),
    ) -> Result<(FilesetMix, String), String> {
        let manifest = open(directory)?;
        let files = manifest.files()?;
        catalog.classes = CLASSES.iter().map(|(_, name)| (*name).to_owned()).collect();
        for file in &files {
            catalog.add(&message_for(file, base, message, manifest.parameters.seed));
        }
        let mix = Arc::new(Mix::new(&manifest, files.len()));
        let words = format!("{} files of {}", files.len(), manifest.kind);
        let random = Random::new(seed, Purpose::Requests);
        Ok((FilesetMix { mix, requests, think_ns, seed, random }, words))
    }
}

fn message_for(file: &File, base: &str, message: &Message, seed: u64) -> Message {
    let class = CLASSES.iter().position(|(size, _)| file.size < *size).unwrap_or(CLASSES.len() - 1);
    let content = FileContent::new(&file.name, file.size, seed);
    Message {
        target: format!("{}/{}", base.trim_end_matches('/'), file.name),
        class: class as u16,
        expected: Expected {
            status: Some(200),
            length: Some(file.size),
            content: Some(Arc::new(content)),
        },
        ..message.clone()
    }
}

impl Workload for FilesetMix {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let requests = self.requests.unwrap_or_else(|| self.mix.session(&mut self.random));
        for _ in 0..requests {
            let request = self.mix.draw(&mut self.random);
            steps.push(Step { request, follow: Follow::Think(self.think_ns) });
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
    use crate::fileset::{Kind, Manifest, Parameters, make};

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
            FilesetMix::new(&set, "/a/", &message, &mut catalog, (None, 5, 1)).unwrap();
        assert_eq!((catalog.len(), words.as_str()), (36, "36 files of specweb99"));
        let first = catalog.request(0);
        assert!(first.bytes.starts_with(b"GET /a/file_set/dir00000/class0_0 HTTP/1.1\r\n"));
        assert_eq!((first.expected.status, first.expected.length), (Some(200), Some(102)));
        assert_eq!(catalog.classes[usize::from(catalog.request(35).class)], "100 KiB and more");
        let mut steps = Vec::new();
        assert!(mix.next_session(&mut steps) && !steps.is_empty());
        assert!(steps.iter().all(|step| step.follow == Follow::Think(5)));
    }
}
