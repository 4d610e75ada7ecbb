//! What the descriptors of a process are for: connections, files and the rest.

use flyball_site::Spread;
use flyball_sys::process;

use crate::settings::Settings;

/// Descriptors a worker keeps for things other than connections.
pub const DESCRIPTORS_RESERVED: usize = 64;

/// One in so many descriptors may hold a file.
pub const FILES_SHARE: usize = 4;

/// Connections that a worker takes at least, however few descriptors there are.
const CONNECTIONS_MIN: usize = 16;

/// Where descriptors are few, connections need them more than files do.
pub fn bound_files(settings: &mut Settings) {
    let files = &mut settings.caches.files_max;
    *files = (*files).min(process::raise_descriptor_limit() / FILES_SHARE);
}

/// How many connections a worker's descriptors leave room for, beside files and the rest.
pub fn connections_that_fit(settings: &Settings) -> usize {
    let hosts = settings.sites.iter().filter(|site| matches!(site.spread, Spread::Of(_))).count();
    let others = DESCRIPTORS_RESERVED + settings.caches.files_max + hosts;
    process::descriptor_limit().saturating_sub(others).max(CONNECTIONS_MIN)
}
