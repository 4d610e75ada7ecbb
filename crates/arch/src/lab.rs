//! Switches for measuring what a mechanism of the papers is worth (M117, M118, M123), and what the
//! habits cost that they advise against (M125). A server that is not measured has none of them on.

use crate::settings::{SendMode, Settings};

/// The switches. Those of which a server wants the effect are true by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// Whether there is a path-translation cache.
    pub path_cache: bool,
    /// Whether heads are kept with their files.
    pub head_cache: bool,
    /// Whether bodies are kept in memory, and larger files open.
    pub content_cache: bool,
    /// Whether a head and a body in memory leave in one write.
    pub gather: bool,
    /// Whether every body, however small, is read and written for each request.
    pub copy_loop: bool,
    /// What is locked around accept.
    pub accept_lock: AcceptLock,
    /// Whether all signals are masked while a request is looked up.
    pub signal_mask: bool,
}

/// What is locked around accept, so that one thread or process at a time is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptLock {
    /// Nothing.
    Off,
    /// A file, by fcntl(2).
    Fcntl,
    /// A file, by flock(2).
    Flock,
}

impl Default for Lab {
    fn default() -> Lab {
        Lab {
            path_cache: true,
            head_cache: true,
            content_cache: true,
            gather: true,
            copy_loop: false,
            accept_lock: AcceptLock::Off,
            signal_mask: false,
        }
    }
}

/// Sets whatever follows from the switches, before anything is started by the settings.
pub(crate) fn apply(settings: &mut Settings) {
    let Settings { lab, caches, limits, send, .. } = settings;
    if !lab.path_cache {
        caches.paths_max = 0;
    }
    caches.heads &= lab.head_cache;
    if !lab.content_cache {
        caches.content_bytes_max = 0;
        caches.files_max = 0;
    }
    limits.joins_bodies = lab.gather;
    if lab.copy_loop {
        // Nothing is in memory, so that every body is read.
        caches.content_bytes_max = 0;
        *send = SendMode::Copy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_are_not_touched_change_nothing() {
        let mut settings = Settings::default();
        apply(&mut settings);
        assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    }

    #[test]
    fn a_cache_that_is_switched_off_has_no_room() {
        let applied = |lab| {
            let mut settings = Settings { lab, ..Settings::default() };
            apply(&mut settings);
            settings
        };
        let caches = applied(Lab { path_cache: false, ..Lab::default() }).caches;
        assert!(caches.paths_max == 0 && caches.heads && caches.content_bytes_max > 0);
        assert!(!applied(Lab { head_cache: false, ..Lab::default() }).caches.heads);
        let caches = applied(Lab { content_cache: false, ..Lab::default() }).caches;
        assert!((caches.content_bytes_max, caches.files_max) == (0, 0) && caches.paths_max > 0);
        let settings = applied(Lab { copy_loop: true, ..Lab::default() });
        assert!(settings.caches.content_bytes_max == 0 && settings.caches.files_max > 0);
        assert_eq!(settings.send, SendMode::Copy);
    }
}
