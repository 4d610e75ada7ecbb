//! Roots that are replaced: workers hold the directory that was there when they began, and landlock
//! holds them to it, so that another is served by another generation.

use std::path::Path;
use std::sync::Arc;

use flyball_sys::error_log::Level;
use flyball_sys::{clock, say};

use super::Master;
use super::generations::GENERATIONS_MAX;

/// Least time between two looks, in milliseconds.
const LOOK_MS_MIN: u64 = 100;

/// Least time between two generations that begin for this.
const RENEW_MS_MIN: u64 = 5_000;

/// Least time before what ran before and runs again looks for them once more.
const TAKEN_BACK_MS_MIN: u64 = 60_000;

/// Why another generation cannot begin.
const BUSY: &str = "an earlier generation of workers still has connections";

/// When to look next.
#[derive(Debug, Default)]
pub(super) struct RootWatch {
    due_ms: u64,
    /// Whether hosts are others is not asked before: those that were could not be served.
    hosts_due_ms: u64,
    /// Why a root is kept that is closed by now.
    closed: Trouble,
    /// Why one that was replaced is not served.
    unserved: Trouble,
    /// Why something else was not read again.
    unread: Trouble,
    /// What the server reads and now lies beneath a root.
    secret: Trouble,
    /// Why other hosts are not served.
    hosts_unserved: Trouble,
}

/// What was said last of a trouble that lasts; said once.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn is(&mut self, now: Option<String>) {
        if let Some(what) = now.as_ref().filter(|_| self.0 != now) {
            say!(Level::Warn, "{what}");
        }
        self.0 = now;
    }
}

impl RootWatch {
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Another configuration holds, with hosts of its own.
    pub(super) fn was_renewed(&mut self) {
        self.hosts_due_ms = 0;
    }

    /// A generation has failed, which may have begun for this: another would fail too.
    pub(super) fn was_taken_back(&mut self) {
        self.due_ms = self.due_ms.max(clock::monotonic_ms() + TAKEN_BACK_MS_MIN);
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
        let after_ms = now_ms.saturating_add(every_ms.max(RENEW_MS_MIN));
        // The other places are for who runs the server.
        let is_alone = self.generations_alive() <= 1;
        let is_due = now_ms >= self.root_watch.hosts_due_ms;
        match if is_due { self.server.setup.hosts.look() } else { Ok(None) } {
            Ok(None) if !is_due => {}
            Ok(None) => self.root_watch.hosts_unserved.is(None),
            Err(why) => {
                let why = format!("hosts stay what they were: {why}");
                self.root_watch.hosts_unserved.is(Some(why));
            }
            Ok(Some(base)) if is_alone => {
                if self.serve_hosts(&base, after_ms) {
                    return;
                }
                // A root that was replaced does not wait for them.
                self.root_watch.hosts_due_ms = now_ms.saturating_add(TAKEN_BACK_MS_MIN);
            }
            Ok(Some(base)) => {
                self.root_watch.due_ms = after_ms;
                let base = base.display();
                let why = format!("the hosts in {base} have changed and are served later: {BUSY}");
                self.root_watch.hosts_unserved.is(Some(why));
            }
        }
        let sites = Arc::clone(&self.server.setup.sites);
        let moved = match sites.moved_roots() {
            Ok(moved) => moved,
            Err(error) => return self.root_watch.closed.is(Some(error.to_string())),
        };
        let closed = moved.closed.map(|why| format!("a root stays what it was: {why}"));
        self.root_watch.closed.is(closed);
        let Some(root) = moved.replaced.map(|root| root.display().to_string()) else {
            return self.root_watch.unserved.is(None);
        };
        if !is_alone {
            let why = format!("{root} was replaced and is served later: {BUSY}");
            return self.root_watch.unserved.is(Some(why));
        }
        drop(sites);
        self.renew_for(&root, after_ms);
    }

    /// Begins a generation that serves the hosts that are there now, if it can: whether it has.
    /// Looks no more before `due_ms`.
    fn serve_hosts(&mut self, base: &Path, due_ms: u64) -> bool {
        self.root_watch.due_ms = due_ms;
        let base = base.display();
        let renewed = self.renew_hosts();
        let has_begun = renewed.is_ok();
        match renewed {
            Ok(()) => {
                self.root_watch.hosts_unserved.is(None);
                let number = self.generation.number;
                say!(
                    Level::Info,
                    "the hosts in {base} have changed: generation {number} serves them"
                );
            }
            Err(why) => {
                let why = format!("the hosts in {base} have changed and are not served: {why}");
                self.root_watch.hosts_unserved.is(Some(why));
            }
        }
        self.refresh_admin();
        has_begun
    }

    /// Begins a generation because a root was replaced. Looks no more before `due_ms`.
    fn renew_for(&mut self, root: &str, due_ms: u64) {
        self.root_watch.due_ms = due_ms;
        let next = self.server.setup.with_roots_of_now();
        let listening = self.server.listening.clone();
        match next.and_then(|next| self.renew(next, listening, GENERATIONS_MAX)) {
            Ok(()) => {
                self.due.admin_is_stale = true;
                self.root_watch.unserved.is(None);
                let kept = self.server.setup.sites.kept().join("; ");
                let kept = (!kept.is_empty())
                    .then(|| format!("what cannot be read again stays what it was: {kept}"));
                self.root_watch.unread.is(kept);
                let secret = self.server.setup.sites.kept_from_clients().join("; ");
                self.root_watch.secret.is((!secret.is_empty()).then_some(secret));
                let number = self.generation.number;
                say!(Level::Info, "{root} was replaced: generation {number} serves the new one");
            }
            Err(why) => {
                let why = format!("{root} was replaced and is not served: {why}");
                self.root_watch.unserved.is(Some(why));
            }
        }
        self.refresh_admin();
    }
}
