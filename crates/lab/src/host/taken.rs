//! A directory of results belongs to one campaign at a time.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use super::SetupError;

/// Takes a directory, which is made where there is none, for as long as the value lives. Nothing of
/// it stays when the process ends, however it does.
///
/// # Errors
/// When another process has taken it, or there is no right.
pub fn take(directory: &Path) -> Result<File, SetupError> {
    let wrong = |error| SetupError(format!("{}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(wrong)?;
    let taken = File::open(directory).map_err(wrong)?;
    match taken.try_lock() {
        Ok(()) => Ok(taken),
        Err(TryLockError::WouldBlock) => {
            let why = "another campaign is under way there; wait for it, or take another --out";
            Err(SetupError(format!("{}: {why}", directory.display())))
        }
        Err(TryLockError::Error(error)) => Err(wrong(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::host::until;

    #[test]
    fn two_campaigns_wrote_to_one_directory() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        let taken = take(&out).unwrap();
        let why = take(&out).unwrap_err().to_string();
        assert!(why.ends_with("wait for it, or take another --out"), "{why}");
        drop(taken);
        // A process that another test is about to start may have the lock's descriptor for a while.
        let look = Duration::from_millis(5);
        assert!(until(Duration::from_secs(10), look, &|| false, || take(&out).ok()).is_some());
    }
}
