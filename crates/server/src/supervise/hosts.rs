//! Directories of hosts that come and go: what is served of them is what was there when a
//! generation began, so that others are served by another.

use std::collections::HashMap;
use std::path::PathBuf;

use flyball_arch::settings::Settings;
use flyball_site::{HostRoots, Spread, host_roots};
use flyball_sys::{clock, subdirectories};

use super::Master;

/// A directory that was changed less than so many seconds ago is looked at again: it may change
/// once more at the same time.
const YOUNG_S: i64 = 2;

/// What was seen at the last look, by the directory above the hosts.
#[derive(Debug, Default)]
pub(super) struct HostWatch(HashMap<PathBuf, Seen>);

#[derive(Debug)]
struct Seen {
    /// What it is, and when it was changed; nothing where it may change again at that time.
    stamp: Option<(u64, i64, i64)>,
    /// The hosts, each with its inode.
    hosts: Vec<(String, u64)>,
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Same,
    /// It is the first.
    First,
    /// There are other hosts, or other directories of the same names, than at the last.
    Other,
}

impl HostWatch {
    fn look(&mut self, roots: &HostRoots) -> Look {
        let Ok(stamp) = subdirectories::stamp(&roots.base) else { return Look::Same };
        let before = self.0.get(&roots.base);
        if before.is_some_and(|seen| seen.stamp == Some(stamp)) {
            return Look::Same;
        }
        let Ok(listed) = roots.list() else { return Look::Same };
        let look = match before {
            None => Look::First,
            Some(seen) if seen.hosts == listed.hosts => Look::Same,
            Some(_) => Look::Other,
        };
        let now_s = i64::try_from(clock::unix_ms() / 1_000).unwrap_or(i64::MAX);
        let is_young = now_s.saturating_sub(stamp.1) < YOUNG_S;
        let seen = Seen { stamp: (!is_young).then_some(stamp), hosts: listed.hosts };
        self.0.insert(roots.base.clone(), seen);
        look
    }

    /// Forgets all: what was seen is not served.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Master {
    /// The settings with the hosts that are there now, and the directory above them, where these
    /// are others than those that are served; or why they cannot be. Blocks on the disk.
    pub(super) fn other_hosts(&mut self) -> Option<(Result<Settings, String>, PathBuf)> {
        let settings = &self.server.setup.settings;
        let roots = settings.sites.iter().filter_map(|site| match &site.spread {
            Spread::Each(roots) => Some(roots),
            Spread::One | Spread::Of(_) => None,
        });
        let watch = &mut self.root_watch.hosts;
        let mut looks: Vec<_> = roots.map(|roots| (watch.look(roots), &roots.base)).collect();
        looks.retain(|(look, _)| *look != Look::Same);
        let other = looks.iter().find(|(look, _)| *look == Look::Other);
        let (look, base) = *other.or(looks.first())?;
        let (mut next, base) = (Settings::clone(settings), base.clone());
        if let Err(why) = host_roots::spread(&mut next.sites) {
            // They are looked at again.
            self.root_watch.hosts.forget();
            return Some((Err(why), base));
        }
        (look == Look::Other || next.sites != settings.sites).then_some((Ok(next), base))
    }

    /// Begins a generation that serves other hosts.
    ///
    /// # Errors
    /// Why all stays as it is.
    pub(super) fn renew_hosts(&mut self, settings: Settings) -> Result<(), String> {
        let changed = self.changed.clone();
        let renewed = self.renew_by(settings);
        self.changed = changed;
        if renewed.is_err() {
            self.root_watch.hosts.forget();
        }
        renewed
    }
}
