//! Roots that are replaced: workers hold the directory that was there when they began, and landlock
//! holds them to it, so that another is served by another generation.

use std::path::Path;

use flyball_sys::error_log::Level;
use flyball_sys::{clock, say};

use super::Master;

/// Least time between two looks, in milliseconds.
const LOOK_MS_MIN: u64 = 100;

/// Least time between two generations that begin for this.
const RENEW_MS_MIN: u64 = 5_000;

/// When to look next.
#[derive(Debug, Default)]
pub(super) struct RootWatch {
    due_ms: u64,
}

impl RootWatch {
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms
    }
}

impl Master {
    /// Begins a generation when a root was replaced; what workers hold is served until then. Looks
    /// once in `cache.revalidate`, by which a client sees a file that has changed. Blocks on the
    /// disk.
    pub(super) fn look_at_roots(&mut self) {
        let now_ms = clock::monotonic_ms();
        if now_ms < self.root_watch.due_ms {
            return;
        }
        let every_ms = self.server.setup.settings.caches.revalidate_ms.max(LOOK_MS_MIN);
        self.root_watch.due_ms = now_ms.saturating_add(every_ms);
        if !self.is_ready || self.upgrade.is_some() {
            return;
        }
        let Some(root) = self.server.setup.sites.moved_root().map(Path::to_owned) else { return };
        let root = root.display();
        self.root_watch.due_ms = now_ms.saturating_add(every_ms.max(RENEW_MS_MIN));
        // What was changed by hand holds for the next generation too.
        let (settings, changed) = ((*self.server.setup.settings).clone(), self.changed.clone());
        match self.renew_by(settings) {
            Ok(()) => {
                self.changed = changed;
                let number = self.generation.number;
                say!(Level::Info, "{root} was replaced: generation {number} serves the new one");
            }
            Err(why) => say!(Level::Error, "{root} was replaced and is not served: {why}"),
        }
        self.refresh_admin();
    }
}
