//! The kinds of sets: which files each has, by the papers and benchmarks that they come from.

use std::fmt;

use crate::random::{Purpose, Random};

/// A kind of set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One file whose reply fits into one packet (S0).
    OnePacket,
    /// One file of any size (S2, Figures 6 and 11).
    SingleFile,
    /// SPECweb99's directories of 36 files.
    SpecWeb99,
    /// The 650 directories of SPECweb99 files of S4, Table 1.
    S4,
    /// SPECweb96's directories, whose files are the same sizes.
    SpecWeb96,
    /// WebStone's four files (S3, Table 1).
    WebStone,
    /// A set like those behind traces of real servers (Arlitt and Williamson 1996), of any size:
    /// what S2 gets by truncating a log.
    Trace,
}

/// All kinds, by the names of the command line.
const KINDS: &[(&str, Kind)] = &[
    ("one-packet", Kind::OnePacket),
    ("single-file", Kind::SingleFile),
    ("specweb99", Kind::SpecWeb99),
    ("specweb96", Kind::SpecWeb96),
    ("webstone", Kind::WebStone),
    ("s4", Kind::S4),
    ("trace", Kind::Trace),
];

/// Most directories, for they have five digits.
const DIRECTORIES_MAX: u64 = 99_999;

/// What a set was made with: for every kind the whole of it follows from these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Directories of SPECweb99, SPECweb96 and S4.
    pub directories: u64,
    /// Bytes of the single file.
    pub size: u64,
    /// MiB of a trace's files.
    pub mib: u64,
    /// What every random thing comes from.
    pub seed: u64,
}

/// How a set was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manifest {
    /// Its kind.
    pub kind: Kind,
    /// With what.
    pub parameters: Parameters,
}

/// One file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path beneath the set's directory.
    pub name: String,
    /// Its bytes.
    pub size: u64,
}

impl Kind {
    /// The names that the command line takes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(name, _)| *name)
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether its files are those of SPECweb99, so that another mix of them can be asked for.
    pub fn is_spec(self) -> bool {
        matches!(self, Kind::SpecWeb99 | Kind::SpecWeb96 | Kind::S4)
    }

    /// What it is made with when nothing else is said.
    pub fn defaults(self) -> Parameters {
        let directories = match self {
            Kind::S4 => 650,
            Kind::SpecWeb96 => 10,
            _ => 25,
        };
        Parameters { directories, size: 1_024, mib: 100, seed: 1 }
    }
}

/// Directories of SPECweb99 for so many simultaneous connections (S1, Section 4.2).
pub fn directories_for_connections(connections: u64) -> u64 {
    25 + connections.saturating_mul(400_000) / (122_000 * 5)
}

/// Directories of SPECweb96 for so many requests per second.
pub fn directories_for_rate(per_s: f64) -> u64 {
    (10.0 * (per_s / 5.0).sqrt()) as u64
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The size of SPECweb99's file `number` of 0 to 8 in class 0 to 3.
fn spec_size(class: u64, number: u64) -> u64 {
    match class {
        // Tenths of a KiB, cut off.
        0 => (number + 1) * 1_024 / 10,
        1 => (number + 1) << 10,
        2 => (number + 1) * 10_240,
        _ => (number + 1) * 102_400,
    }
}

/// The name of a SPECweb99 file.
fn spec_name(directory: u64, class: u64, number: u64) -> String {
    format!("file_set/dir{directory:05}/class{class}_{number}")
}

impl Manifest {
    /// Every file, in an order that never changes: mixes name them by their place.
    ///
    /// # Errors
    /// When the parameters make no set.
    pub fn files(&self) -> Result<Vec<File>, String> {
        let Parameters { directories, size, mib, seed } = self.parameters;
        if directories == 0 || directories > DIRECTORIES_MAX {
            return Err(format!("{directories} directories: expected 1 to {DIRECTORIES_MAX}"));
        }
        Ok(match self.kind {
            Kind::OnePacket => vec![File { name: "one_pkt".into(), size: 1_024 }],
            Kind::SingleFile => vec![File { name: "file".into(), size }],
            Kind::WebStone => webstone(),
            Kind::Trace => trace(mib << 20, seed)?,
            Kind::SpecWeb99 | Kind::SpecWeb96 | Kind::S4 => spec(directories),
        })
    }
}

fn spec(directories: u64) -> Vec<File> {
    let mut files = Vec::with_capacity((directories * 36) as usize);
    for directory in 0..directories {
        for class in 0..4 {
            for number in 0..9 {
                let name = spec_name(directory, class, number);
                files.push(File { name, size: spec_size(class, number) });
            }
        }
    }
    files
}

fn webstone() -> Vec<File> {
    let file = |name: &str, size| File { name: name.into(), size };
    vec![
        file("file500.html", 500),
        file("file5k.html", 5 << 10),
        file("file50k.html", 50 << 10),
        file("file5m.html", 5 << 20),
    ]
}

/// Files whose sizes are lognormal with a heavy tail (Barford and Crovella 1998), until there are
/// so many bytes of them.
fn trace(bytes: u64, seed: u64) -> Result<Vec<File>, String> {
    /// Bytes of the largest file: one of the tail must not be most of a small set.
    const SIZE_MAX: f64 = 8e6;
    /// The share of the sizes that are of the tail, and where it begins.
    const TAIL: (f64, f64) = (0.07, 133e3);
    if bytes == 0 {
        return Err("a set of no bytes".into());
    }
    let mut random = Random::new(seed, Purpose::Files);
    let (mut files, mut sum) = (Vec::new(), 0);
    while sum < bytes {
        let size = if random.chance(TAIL.0) {
            TAIL.1 * (1.0 - random.unit()).powf(-1.0 / 1.1)
        } else {
            (9.357 + 1.318 * random.normal()).exp()
        };
        let size = (size.clamp(64.0, SIZE_MAX) as u64).min((bytes - sum).max(64));
        let nth: usize = files.len();
        files.push(File { name: format!("t{:03}/f{nth:06}", nth / 500), size });
        sum += size;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(kind: Kind) -> Vec<File> {
        Manifest { kind, parameters: kind.defaults() }.files().unwrap()
    }

    #[test]
    fn a_directory_of_specweb99_has_36_files_of_its_sizes() {
        let all = files(Kind::SpecWeb99);
        assert_eq!(all.len(), 25 * 36);
        let sizes: Vec<u64> = all[..9].iter().map(|file| file.size).collect();
        assert_eq!(sizes, [102, 204, 307, 409, 512, 614, 716, 819, 921]);
        assert_eq!(all[..36].iter().map(|file| file.size).sum::<u64>(), 5_119_484);
        assert_eq!(all[36].name, "file_set/dir00001/class0_0");
        assert_eq!(all[35].size, 921_600);
    }

    #[test]
    fn sets_of_spec_grow_with_the_load() {
        let gib = |directories: u64| directories as f64 * 5_119_484.0 / f64::from(1 << 30);
        // S1 has 1.7, 3.3 and 4.8 GB.
        for (connections, directories, size) in
            [(500, 352, 1.68), (1000, 680, 3.24), (1500, 1008, 4.81)]
        {
            assert_eq!(directories_for_connections(connections), directories);
            assert!((gib(directories) - size).abs() < 0.01, "{}", gib(directories));
        }
        assert_eq!(directories_for_connections(0), 25);
        assert_eq!([5.0, 20.0, 500.0].map(directories_for_rate), [10, 20, 100]);
    }

    #[test]
    fn sets_of_one_file_have_it_by_its_name_and_size() {
        assert_eq!(files(Kind::OnePacket), [File { name: "one_pkt".into(), size: 1_024 }]);
        let parameters = Parameters { size: 77, ..Kind::SingleFile.defaults() };
        let single = Manifest { kind: Kind::SingleFile, parameters }.files().unwrap();
        assert_eq!(single, [File { name: "file".into(), size: 77 }]);
    }

    #[test]
    fn the_set_of_s4_is_650_directories() {
        let all = files(Kind::S4);
        assert_eq!(all.len(), 23_400);
        let mib = all.iter().map(|file| file.size).sum::<u64>() >> 20;
        assert_eq!(mib, 3_173);
    }

    #[test]
    fn a_trace_has_the_bytes_that_were_asked_for_and_a_seed_repeats_it() {
        let kind = Kind::Trace;
        let all = files(kind);
        let sum: u64 = all.iter().map(|file| file.size).sum();
        assert!((100 << 20..(100 << 20) + 100).contains(&sum), "{sum}");
        assert_eq!(all, files(kind));
        let parameters = Parameters { seed: 2, ..kind.defaults() };
        assert_ne!(all, Manifest { kind, parameters }.files().unwrap());
        // Most are small, and most bytes are in the large ones.
        let mut sizes: Vec<u64> = all.iter().map(|file| file.size).collect();
        sizes.sort_unstable();
        let large: u64 = sizes[sizes.len() * 9 / 10..].iter().sum();
        assert!(large * 2 > sum, "{large} of {sum}");
    }

    #[test]
    fn names_and_kinds_belong_together() {
        for name in Kind::names() {
            assert_eq!(Kind::named(name).unwrap().name(), name);
        }
        assert_eq!(Kind::named("specweb"), None);
    }
}
