//! Directories of hosts that come and go: what is served of them is what was there when a
//! generation began, so that others are served by another.

use std::collections::HashSet;

use flyball_arch::settings::Settings;
use flyball_sys::error_log::Level;
use flyball_sys::say;

use super::Master;

impl Master {
    /// Begins a generation that serves the hosts that are there now, and says what is not served of
    /// them, if that is news. Blocks on the disk.
    ///
    /// # Errors
    /// Why all stays as it is.
    pub(super) fn renew_hosts(&mut self) -> Result<(), String> {
        let (changed, told) = (self.changed.clone(), self.server.warnings());
        let renewed = self.renew_by(Settings::clone(&self.server.setup.settings));
        self.changed = changed;
        renewed?;
        let told: HashSet<String> = told.into_iter().collect();
        for warning in self.server.warnings().iter().filter(|one| !told.contains(*one)) {
            say!(Level::Warn, "warning: {warning}");
        }
        Ok(())
    }
}
