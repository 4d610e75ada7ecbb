//! Where bodies of requests wait that memory does not hold: which directory that is, and whether
//! workers can write there.

use std::path::PathBuf;

use flyball_arch::settings::Settings;
use flyball_site::{Sites, Spool};

use crate::sandbox::Confinement;

/// The directory that is used where none is named and TMPDIR says nothing: on a disk, where there
/// is one, since /tmp is often memory.
const DIRECTORY: &str = "/var/tmp";

/// The directory by these settings, and who has said so if not they.
pub(crate) fn directory(settings: &Settings) -> (PathBuf, Option<&'static str>) {
    if let Some(named) = &settings.running.spool.directory {
        return (named.clone(), None);
    }
    let from_environment = std::env::var_os("TMPDIR").map(PathBuf::from);
    match from_environment.filter(|path| path.is_absolute()) {
        Some(path) => (path, Some("TMPDIR says so")),
        None => (DIRECTORY.into(), Some("TMPDIR says nothing")),
    }
}

/// Opens the place for the sites, if they have backends and workers can write there. Blocks on the
/// disk; to be called by a process of one thread.
pub(crate) fn open(settings: &Settings, confinement: &Confinement, sites: &mut Sites) {
    let Some(bytes_max) = settings.running.spool.bytes_max.filter(|_| sites.have_backends()) else {
        return;
    };
    let directory = directory(settings).0;
    let opened = confinement.rights().hold(|| Spool::open(&directory, bytes_max));
    if let Ok(spool) = opened
        && confinement.lets_workers(|| spool.can_be_written())
    {
        sites.set_spool(spool);
    }
}

/// What is to be said where there is no such place although there shall be.
pub(crate) fn warning(settings: &Settings, sites: &Sites) -> Option<String> {
    let is_wanted = settings.running.spool.bytes_max.is_some() && sites.have_backends();
    let is_lacking = is_wanted && sites.spool().is_none();
    is_lacking.then(|| {
        let (directory, _) = directory(settings);
        settings.blame(
            "spool.directory",
            format!(
                "workers cannot write in {}: request bodies that are longer than `hold` are \
                 refused",
                directory.display()
            ),
        )
    })
}
