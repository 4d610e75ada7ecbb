//! Custom ad rotation: the tables of users and ads, and whose turn an ad is.
//!
//! The tables are files of the site, `User.Personality` and `Custom.Ads`. A process reads them
//! anew when they were made anew, which a counter says that all processes share.

use std::io;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use flyball_http::random::Stream;
use flyball_sys::shared_file::SharedFile;

/// Ads of the table.
pub(super) const ADS: usize = 360;

/// Counters that the tables share: how often they were made.
pub(super) const COUNTERS: usize = 1;

/// Bytes of a record of each table.
const USER_BYTES: usize = 15;
const AD_BYTES: usize = 39;

/// The kinds of demographics: their bits, and where the weight of each stands.
const KINDS: [(u32, u32); 5] = [
    (0x3000_0000, 16), // gender
    (0x0f00_0000, 12), // age
    (0x00f0_0000, 8),  // region
    (0x000f_fc00, 4),  // first interest
    (0x0000_03ff, 0),  // second interest
];

/// Of so many ads one is for everybody, so that the rotation always finds one.
const FOR_ALL: usize = 36;

/// Of so many ads one has expired.
const EXPIRED: usize = 10;

/// Seconds of an hour.
const HOUR_S: u64 = 3_600;

/// The ad that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) number: u32,
    pub(super) weight: u32,
    pub(super) expires_s: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ad {
    demographics: u32,
    weights: u32,
    least: u32,
    expires_s: u64,
}

/// Both tables as they were read, and when they were made.
#[derive(Debug, Default)]
struct Tables {
    made: (u64, Option<SystemTime>, Option<SystemTime>),
    users: Vec<u32>,
    ads: Vec<Ad>,
}

/// The tables of a site.
#[derive(Debug)]
pub(super) struct Rotation {
    users: SharedFile,
    ads: SharedFile,
    generation: &'static AtomicU64,
    read: RwLock<Arc<Tables>>,
}

impl Rotation {
    /// Those in this directory; they are made before they are used.
    pub(super) fn open(root: &Path, counters: &'static [AtomicU64]) -> io::Result<Rotation> {
        let open = |name: &str| SharedFile::open(&root.join(name));
        Ok(Rotation {
            users: open("User.Personality")?,
            ads: open("Custom.Ads")?,
            generation: &counters[0],
            read: RwLock::default(),
        })
    }

    /// Whether there are tables, of an earlier start.
    pub(super) fn are_there(&self) -> bool {
        self.tables().is_ok_and(|tables| tables.ads.len() == ADS && !tables.users.is_empty())
    }

    /// Makes them anew, from a seed: so many users, and ads that expire between so many hours from
    /// now, of which some have expired.
    pub(super) fn make(
        &self,
        users: u64,
        seed: u64,
        expires: (u64, u64),
        now_s: u64,
    ) -> io::Result<()> {
        let mut random = Random(Stream::of(seed));
        let mut text = String::with_capacity(users as usize * USER_BYTES);
        for user in 0..users {
            // One of each kind.
            let own = KINDS.iter().fold(0, |own, (mask, _)| own | random.bit_of(*mask));
            text += &format!("{user:5} {own:8X}\n");
        }
        rewrite(&self.users, text.as_bytes())?;
        let mut text = String::with_capacity(ADS * AD_BYTES);
        for ad in 0..ADS {
            let is_for_all = ad % FOR_ALL == 0;
            let wanted = KINDS.iter().fold(0, |wanted, (mask, _)| {
                let some = random.bit_of(*mask) | random.bit_of(*mask);
                wanted | if is_for_all { *mask } else { some }
            });
            let weights = (0..5).fold(0, |weights, _| weights << 4 | (1 + random.below(15)) as u32);
            let least = if is_for_all { 1 } else { 5 + random.below(40) };
            let (from, upto) = expires;
            let hours = from + random.below(upto - from + 1);
            let expires_s = match ad % EXPIRED {
                0 => now_s.saturating_sub(hours * HOUR_S),
                _ => now_s + hours * HOUR_S,
            };
            text += &format!("{ad:5} {wanted:8X} {weights:8X} {least:3} {expires_s:10}\n");
        }
        rewrite(&self.ads, text.as_bytes())?;
        self.generation.fetch_add(1, SeqCst);
        Ok(())
    }

    /// The first ad after `last` that is for this user; `None` where there is none, or no such
    /// user.
    pub(super) fn choose(&self, user: usize, last: usize) -> io::Result<Option<Chosen>> {
        let tables = self.tables()?;
        let Some(own) = tables.users.get(user).copied() else { return Ok(None) };
        let round = (1..=tables.ads.len()).map(|step| (last + step) % tables.ads.len());
        let mut fitting = round.filter_map(|at| {
            let ad = tables.ads[at];
            let both = own & ad.demographics;
            let common = KINDS.iter().filter(|(mask, _)| both & mask != 0);
            let weight: u32 = common.map(|(_, shift)| ad.weights >> shift & 0xf).sum();
            let chosen = Chosen { number: at as u32, weight, expires_s: ad.expires_s };
            (weight >= ad.least).then_some(chosen)
        });
        Ok(fitting.next())
    }

    /// The tables as they are now.
    fn tables(&self) -> io::Result<Arc<Tables>> {
        let modified = |file: &SharedFile| io::Result::Ok(file.state()?.1);
        let made = (
            self.generation.load(SeqCst),
            Some(modified(&self.users)?),
            Some(modified(&self.ads)?),
        );
        let known = Arc::clone(&self.read.read().unwrap_or_else(PoisonError::into_inner));
        if known.made == made {
            return Ok(known);
        }
        let tables = Arc::new(Tables {
            made,
            users: records(&self.users, USER_BYTES, |words| hex(words.get(1)?))?,
            ads: records(&self.ads, AD_BYTES, |words| {
                Some(Ad {
                    demographics: hex(words.get(1)?)?,
                    weights: hex(words.get(2)?)?,
                    least: words.get(3)?.parse().ok()?,
                    expires_s: words.get(4)?.parse().ok()?,
                })
            })?,
        });
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&tables);
        Ok(tables)
    }
}

fn rewrite(file: &SharedFile, bytes: &[u8]) -> io::Result<()> {
    file.cut(0)?;
    file.write(0, bytes)
}

fn hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

fn records<T>(
    file: &SharedFile,
    bytes: usize,
    read: impl Fn(&[&str]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let table = file.read(0, file.state()?.0 as usize)?;
    let wrong = || io::Error::other("a table has a record that is none");
    let each = table.chunks(bytes).map(|record| {
        let text = str::from_utf8(record).unwrap_or_default();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        read(&words).ok_or_else(wrong)
    });
    each.collect()
}

/// Numbers that follow from a seed.
struct Random(Stream);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.number() % n
    }

    /// One of the bits of a mask.
    fn bit_of(&mut self, mask: u32) -> u32 {
        1 << (u64::from(mask.trailing_zeros()) + self.below(u64::from(mask.count_ones())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation() -> (tempfile::TempDir, Rotation) {
        let directory = tempfile::tempdir().unwrap();
        let counters = Box::leak(Box::new([AtomicU64::new(0)]));
        let rotation = Rotation::open(directory.path(), counters).unwrap();
        (directory, rotation)
    }

    #[test]
    fn tables_have_the_records_of_the_benchmark() {
        let (directory, rotation) = rotation();
        rotation.make(500, 7, (1, 2), 1_700_000_000).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        let (users, ads) = (read("User.Personality"), read("Custom.Ads"));
        assert_eq!((users.len(), ads.len()), (500 * USER_BYTES, ADS * AD_BYTES));
        assert!(users.lines().all(|line| line.len() == USER_BYTES - 1));
        assert!(ads.lines().all(|line| line.len() == AD_BYTES - 1));
        rotation.make(500, 7, (1, 2), 1_700_000_000).unwrap();
        assert_eq!(read("Custom.Ads"), ads, "a seed repeats them");
    }

    #[test]
    fn everybody_is_shown_an_ad_and_the_round_goes_on() {
        let (_directory, rotation) = rotation();
        rotation.make(100, 1, (1, 100), 1_700_000_000).unwrap();
        for user in 0..100 {
            let mut last = 0;
            for _ in 0..20 {
                let chosen = rotation.choose(user, last).unwrap().unwrap();
                assert_ne!(chosen.number as usize, last);
                last = chosen.number as usize;
            }
        }
        assert_eq!(rotation.choose(100, 0).unwrap(), None, "no such user");
    }

    #[test]
    fn tables_that_were_made_anew_are_read_anew() {
        let (_directory, rotation) = rotation();
        rotation.make(1, 1, (1, 1), 1_700_000_000).unwrap();
        let chosen = |rotation: &Rotation| {
            (0..ADS).map(|last| rotation.choose(0, last).unwrap()).collect::<Vec<_>>()
        };
        let before = chosen(&rotation);
        rotation.make(1, 2, (1, 1), 1_700_000_000).unwrap();
        assert_ne!(chosen(&rotation), before);
    }
}
