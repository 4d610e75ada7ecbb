//! Certificates that are renewed on the disk: in use without a reload, in all workers.

use flyball_sys::error_log::Level;
use flyball_sys::{clock, say};

use super::Master;

impl Master {
    /// Looks once in `tls.watch`. Blocks on the disk.
    pub(super) fn look_at_certificates(&mut self) {
        let now_ms = clock::monotonic_ms();
        let setup = &mut self.server.setup;
        let Some(tls) = setup.tls.as_mut().filter(|tls| now_ms >= tls.look_ms()) else { return };
        let seen = tls.look(&setup.settings, &setup.sites, now_ms, clock::unix_ms() / 1_000);
        seen.news.iter().for_each(|what| say!(Level::Info, "{what}"));
        self.due.admin_is_stale |= !seen.news.is_empty() || !seen.troubles.is_empty();
        seen.troubles.iter().for_each(|why| say!(Level::Warn, "{why}"));
        if self.due.admin_is_stale {
            self.refresh_admin();
        }
    }
}
