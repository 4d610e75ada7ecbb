//! Directories of hosts as they were when the sites of them were opened, and whether they are
//! others now.

use std::io;
use std::path::PathBuf;

use flyball_site::{HostRoots, SiteSettings, Spread};
use flyball_sys::{clock, subdirectories};

/// A directory that was changed less than so many seconds ago is looked at again: it may change
/// once more at the same time. So may one that was changed at a time that is to come, as soon as
/// the clock comes there.
const YOUNG_S: u64 = 2;

/// What was there of each site that stands for many: two may share a directory, and differ in which
/// hosts they are for.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostWatch(Vec<Seen>);

#[derive(Clone, Debug)]
struct Seen {
    roots: HostRoots,
    /// What the directory above the hosts is, and when it was changed; nothing where it may change
    /// again at that time, or cannot be found.
    stamp: Option<(u64, i64, i64)>,
    /// The hosts, each with its inode.
    hosts: Vec<(String, u64)>,
}

impl HostWatch {
    /// What is there now for these sites. To be called before their directories are opened, so that
    /// what changes meanwhile is seen later. Blocks on the disk.
    pub(crate) fn of(sites: &[SiteSettings]) -> HostWatch {
        let roots = sites.iter().filter_map(|site| match &site.spread {
            Spread::Each(roots) => Some(roots),
            Spread::One | Spread::Of(_) => None,
        });
        let seen = roots.map(|roots| {
            let stamp = Seen::stamp(roots);
            let hosts = roots.list().unwrap_or_default().hosts;
            Seen { roots: roots.clone(), stamp, hosts }
        });
        HostWatch(seen.collect())
    }

    /// A directory whose hosts are others than they were, or other directories of the same names.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// Which cannot be read, and why: what is served of it stays.
    pub(crate) fn look(&mut self) -> Result<Option<PathBuf>, String> {
        let mut unread = None;
        for seen in &mut self.0 {
            match seen.has_changed() {
                Ok(false) => {}
                Ok(true) => return Ok(Some(seen.roots.base.clone())),
                Err(error) => unread = Some(format!("{}: {error}", seen.roots.base.display())),
            }
        }
        unread.map_or(Ok(None), Err)
    }
}

/// Whether what changes now has another time.
fn is_settled(changed_s: i64, now_s: i64) -> bool {
    now_s.abs_diff(changed_s) >= YOUNG_S
}

impl Seen {
    fn stamp(roots: &HostRoots) -> Option<(u64, i64, i64)> {
        let now_s = i64::try_from(clock::unix_ms() / 1_000).unwrap_or(i64::MAX);
        let stamp = subdirectories::stamp(&roots.base).ok();
        stamp.filter(|(_, changed_s, _)| is_settled(*changed_s, now_s))
    }

    fn has_changed(&mut self) -> io::Result<bool> {
        let stamp = Seen::stamp(&self.roots);
        if stamp.is_some() && stamp == self.stamp {
            return Ok(false);
        }
        let has_changed = self.roots.list()?.hosts != self.hosts;
        if !has_changed {
            self.stamp = stamp;
        }
        Ok(has_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn site(base: &Path, hosts: &[&str]) -> SiteSettings {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let roots = HostRoots::of(&base.join("$host"), &hosts).unwrap().unwrap();
        SiteSettings { spread: Spread::Each(roots), ..SiteSettings::default() }
    }

    #[test]
    fn a_time_is_believed_that_is_not_now_even_one_to_come() {
        for (changed_s, is) in [(1_000, false), (999, false), (998, true), (1_001, false)] {
            assert_eq!(is_settled(changed_s, 1_000), is, "{changed_s}");
        }
        assert!(is_settled(100_000, 1_000), "the clock was put back");
    }

    #[test]
    fn two_sites_of_one_directory_are_watched_each_for_its_hosts() {
        let base = tempfile::tempdir().unwrap();
        let sites = [site(base.path(), &["*.a.test"]), site(base.path(), &["*.b.test"])];
        let mut watch = HostWatch::of(&sites);
        assert_eq!(watch.look(), Ok(None));
        for host in ["x.a.test", "x.b.test"] {
            fs::create_dir(base.path().join(host)).unwrap();
            // It is told until another watch takes the place of this one.
            let other = Ok(Some(base.path().to_owned()));
            assert!(watch.look() == other && watch.look() == other, "{host}");
            watch = HostWatch::of(&sites);
            assert_eq!(watch.look(), Ok(None), "{host}");
        }
        fs::create_dir(base.path().join("x.c.test")).unwrap();
        assert_eq!(watch.look(), Ok(None), "it is for neither");
        fs::create_dir(base.path().join("next")).unwrap();
        fs::remove_dir(base.path().join("x.b.test")).unwrap();
        fs::rename(base.path().join("next"), base.path().join("x.b.test")).unwrap();
        assert!(matches!(watch.look(), Ok(Some(_))), "another of the same name");
        fs::remove_dir_all(base.path()).unwrap();
        assert!(watch.look().unwrap_err().contains("No such file"));
    }
}
