//! The PID file: the number of the master, by which signals reach it.

use std::path::{Path, PathBuf};

use flyball_sys::error_log::Level;
use flyball_sys::{pid_file, process, say};

use super::Master;

impl Master {
    /// Writes it. One that is there is replaced: it is of a server that ended without removing it,
    /// or of the master whose place this one takes.
    pub(super) fn write_pid_file(&self) {
        let Some(path) = self.pid_file() else { return };
        if let Err(error) = pid_file::write(path, process::own_id()) {
            say!(Level::Error, "pid-file {}: {error}", path.display());
        }
    }

    /// Writes it where the settings say by now, if it was at `before`, and removes that one.
    pub(super) fn move_pid_file(&self, before: Option<PathBuf>) {
        if before.as_deref() == self.pid_file() {
            return;
        }
        self.write_pid_file();
        if let Some(path) = before {
            pid_file::remove(&path, process::own_id());
        }
    }

    /// Removes it, unless it names another process by now.
    pub(super) fn remove_pid_file(&self) {
        if let Some(path) = self.pid_file() {
            pid_file::remove(path, process::own_id());
        }
    }

    fn pid_file(&self) -> Option<&Path> {
        self.server.setup.settings.running.pid_file.as_deref()
    }
}
