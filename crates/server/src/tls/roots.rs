//! The roots that keys of tickets follow from: drawn by the server, or out of a file that several
//! servers have in common.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use flyball_arch::settings::{Settings, TicketKeys};
use flyball_sys::secret_file::{self, SecretFile};
use flyball_sys::{random, sealed};
use flyball_tls::{ROOT_BYTES, Root};

use super::FILE_BYTES_MAX;
use super::watched::{Look, Moment, Watched};

/// Fewest bytes of a file that keys of tickets come from.
const TICKET_BYTES_MIN: usize = 32;

/// Most bytes of a part that such a file may not be a repetition of.
const TICKET_PART_BYTES_MAX: usize = 64;

/// How long a root of tickets is used, in seconds.
const ROOT_S: u64 = 7 * 86_400;

/// How long the one before is kept, in seconds: longer than any ticket lasts.
const ROOT_KEPT_S: u64 = 2 * 86_400;

/// Most roots at a time.
const ROOTS_MAX: usize = 2;

/// The roots of tickets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    /// The one that tickets are made with, and the one before.
    pub(crate) all: Vec<Root>,
    /// When the first was drawn or read, in seconds since 1970.
    since_s: u64,
}

impl Roots {
    /// In memory that is sealed, for a program that takes the place of this one.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub(crate) fn in_memory(&self) -> io::Result<OwnedFd> {
        let mut bytes = self.since_s.to_be_bytes().to_vec();
        self.all.iter().for_each(|root| bytes.extend(root.0));
        sealed::write(&bytes)
    }

    /// Those that are in such memory; none, if it holds something else.
    pub(crate) fn read(memory: OwnedFd) -> Roots {
        let bytes = sealed::read(memory, size_of::<u64>() + ROOTS_MAX * ROOT_BYTES);
        let bytes = bytes.unwrap_or_default();
        let Some((since, roots)) = bytes.split_first_chunk() else { return Roots::default() };
        let all = roots.chunks_exact(ROOT_BYTES).filter_map(|root| root.try_into().ok());
        Roots { all: all.map(Root).collect(), since_s: u64::from_be_bytes(*since) }
    }

    /// Those that settings ask for, where these are the ones so far, and the file that they come
    /// from, if they come from one. Blocks on the disk.
    ///
    /// # Errors
    /// Why that file cannot be used.
    pub(super) fn after(
        &self,
        settings: &Settings,
        now_s: u64,
        warnings: &mut Vec<String>,
    ) -> Result<(Roots, Option<RootFile>), String> {
        let mut roots = self.clone();
        match &settings.tls.tickets {
            TicketKeys::Off => return Ok((Roots::default(), None)),
            TicketKeys::Auto if roots.all.is_empty() => {
                roots.begin(draw()?, now_s);
            }
            TicketKeys::Auto => {}
            TicketKeys::File(path) => {
                let (file, root, warning) = RootFile::open(path, settings)?;
                roots.begin(root, now_s);
                warnings.extend(warning);
                return Ok((roots, Some(file)));
            }
        }
        Ok((roots, None))
    }

    /// Tickets are made with this root; those of the one before hold. Whether it is another.
    pub(super) fn begin(&mut self, root: Root, now_s: u64) -> bool {
        if self.all.first() == Some(&root) {
            return false;
        }
        self.all.retain(|known| *known != root);
        self.all.insert(0, root);
        self.all.truncate(ROOTS_MAX);
        self.since_s = now_s;
        true
    }

    /// Draws a new root when the first is old, if `draws`, and lets the one before go when no
    /// ticket of it can be left; whether anything changed.
    pub(super) fn turn(&mut self, draws: bool, now_s: u64) -> bool {
        let age_s = now_s.saturating_sub(self.since_s);
        if draws
            && age_s >= ROOT_S
            && let Ok(root) = draw()
        {
            return self.begin(root, now_s);
        }
        let is_kept = self.all.len() > 1 && age_s >= ROOT_KEPT_S;
        if is_kept {
            self.all.truncate(1);
        }
        is_kept
    }
}

/// A new root.
fn draw() -> Result<Root, String> {
    let mut root = [0; ROOT_BYTES];
    random::fill(&mut root).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(Root(root))
}

/// A file that a root comes from.
#[derive(Clone, Debug)]
pub(super) struct RootFile {
    path: PathBuf,
    /// What messages about it begin with.
    written: String,
    watched: Watched,
}

impl RootFile {
    /// Reads one: its root, and what the operator should know.
    fn open(path: &Path, settings: &Settings) -> Result<(RootFile, Root, Option<String>), String> {
        let written = settings.blame("tls.tickets", "");
        let file = RootFile { path: path.to_owned(), written, watched: Watched::new([path]) };
        let read = file.read()?;
        let warning = read
            .is_open_to_group()
            .then(|| file.blame(&format!("is open to its group (mode {:04o})", read.mode)));
        Ok((file, Root::of_text(&read.bytes), warning))
    }

    fn read(&self) -> Result<SecretFile, String> {
        let file = secret_file::read(&self.path, FILE_BYTES_MAX)
            .map_err(|error| self.blame(&format!("cannot be read: {error}")))?;
        if file.is_open_to_all() {
            let mode = file.mode;
            let why = format!("is open to all users (mode {mode:04o}): chmod 600");
            return Err(self.blame(&why));
        }
        match file.bytes.len() {
            ..TICKET_BYTES_MIN => {
                Err(self.blame(&format!("holds less than {TICKET_BYTES_MIN} bytes")))
            }
            _ if repeats(file.bytes.trim_ascii_end()) => {
                let why = format!(
                    "holds the same bytes again and again, which keep nothing secret: write random \
                     ones, such as by head -c {TICKET_BYTES_MIN} /dev/urandom"
                );
                Err(self.blame(&why))
            }
            _ => Ok(file),
        }
    }

    fn blame(&self, why: &str) -> String {
        format!("{}{} {why}", self.written, self.path.display())
    }

    /// What is said of it when its root is in use.
    pub(super) fn news(&self) -> String {
        format!("{} is in use: keys of tickets come from it", self.path.display())
    }

    /// The root that is there now, if the file is another than at the last look; why it cannot be
    /// used, if that was not said yet. Blocks on the disk.
    pub(super) fn look(&mut self, at: Moment) -> Option<Result<Root, String>> {
        let why = match self.watched.look(at) {
            Look::Same => return None,
            Look::Gone(_, why) => format!("{}{why}", self.written),
            Look::Changed => match self.read() {
                Ok(file) => {
                    self.watched.succeeded();
                    return Some(Ok(Root::of_text(&file.bytes)));
                }
                Err(why) => why,
            },
        };
        self.watched.say(format!("the keys of tickets stay: {why}")).map(Err)
    }
}

/// Whether bytes are one byte or one part again and again, or two equal halves.
fn repeats(bytes: &[u8]) -> bool {
    let half = bytes.len() / 2;
    let lens = (1..=half.min(TICKET_PART_BYTES_MAX)).chain([half.max(1)]);
    lens.into_iter().any(|len| bytes.chunks(len).all(|part| bytes.starts_with(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_itself_is_no_secret() {
        let random: Vec<u8> = (0..80_u8).map(|at| at.wrapping_mul(167)).collect();
        let twice = [&random[..], &random].concat();
        let part = &twice[..72];
        for bytes in [&[0; 64][..], &[b'a'; 33], b"abc".repeat(30).as_slice(), &twice, &[7]] {
            assert!(repeats(bytes), "{bytes:?}");
        }
        assert!(!repeats(&random) && !repeats(part) && !repeats(&random[..TICKET_BYTES_MIN]));
    }

    #[test]
    fn a_root_is_replaced_every_week_and_the_one_before_is_kept_for_two_days() {
        let first = draw().unwrap();
        let mut roots = Roots { all: vec![first], since_s: 1_000 };
        assert!(!roots.turn(true, 1_000 + ROOT_S - 1));
        let now_s = 1_000 + ROOT_S;
        assert!(!roots.turn(false, now_s));
        assert!(roots.turn(true, now_s));
        assert_eq!((roots.all.len(), roots.all[1], roots.since_s), (2, first, now_s));
        assert!(roots.all[0] != first && !roots.turn(true, now_s + ROOT_KEPT_S - 1));
        assert!(
            roots.turn(true, now_s + ROOT_KEPT_S) && !roots.turn(true, now_s + ROOT_KEPT_S + 1)
        );
        assert_eq!(roots.all.len(), 1);
    }

    #[test]
    fn of_a_file_that_is_replaced_the_root_before_is_kept_and_the_same_is_no_other() {
        let [one, two] = [Root([1; ROOT_BYTES]), Root([2; ROOT_BYTES])];
        let mut roots = Roots::default();
        assert!(roots.begin(one, 7) && !roots.begin(one, 8));
        assert_eq!((&roots.all[..], roots.since_s), (&[one][..], 7));
        assert!(roots.begin(two, 9));
        assert_eq!(roots.all, [two, one]);
        assert!(roots.begin(one, 10));
        assert_eq!(roots.all, [one, two]);
        assert!(roots.turn(false, 10 + ROOT_KEPT_S));
        assert_eq!(roots.all, [one]);
    }

    #[test]
    fn roots_are_read_from_the_memory_that_they_were_put_in() {
        let roots = Roots { all: vec![draw().unwrap(), draw().unwrap()], since_s: 7 };
        let read = Roots::read(roots.in_memory().unwrap());
        assert_eq!((read.all, read.since_s), (roots.all, 7));
        let other = sealed::write(b"short").unwrap();
        assert!(Roots::read(other).all.is_empty());
    }
}
