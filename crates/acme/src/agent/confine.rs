//! What the agent gives up: all files but its storage and what looking up names needs, all ports
//! but those of its authorities, and most system calls. With a command for dns-01 it gives up none
//! of them, since the command would be bound too.

use std::io;
use std::path::Path;

use flyball_sys::sandbox::{Access, Calls, Grant, Kernel, Sandbox, Violation};

use crate::configuration::Configuration;

/// Where the system's certificates, its libraries and what it knows of names lie.
const READ: [&str; 8] =
    ["/etc", "/usr", "/lib", "/lib64", "/run", "/var/lib/ca-certificates", "/proc", "/dev/urandom"];

/// Ports that are asked beside those in the addresses of authorities: https, where a directory
/// leads elsewhere, and DNS over TCP.
const PORTS: [u16; 2] = [443, 53];

const CALLS: [Calls; 8] = [
    Calls::Common,
    Calls::Connections,
    Calls::Files,
    Calls::Readiness,
    Calls::Threads,
    Calls::Locks,
    Calls::Append,
    Calls::Agent,
];

/// Gives all else up, in a process of one thread. The storage must be there.
///
/// # Errors
/// Which step failed.
pub(crate) fn confine(configuration: &Configuration) -> io::Result<()> {
    if !configuration.confines || !configuration.dns_hook.is_empty() {
        return Ok(());
    }
    let authorities = &configuration.authorities;
    let roots = authorities.iter().filter_map(|authority| authority.roots.as_deref());
    let read = READ.iter().map(Path::new).chain(roots).map(|path| Grant::At(path, Access::Read));
    let storage = Grant::At(&configuration.storage, Access::Write);
    let grants: Vec<Grant<'_>> = read.chain([storage]).collect();
    let urls = authorities.iter().flat_map(|authority| authority.urls());
    let ports: Vec<u16> = urls.filter_map(port).chain(PORTS).collect();
    // In a build for development it is our own mistake, and ends the process so that it is seen.
    let violation = if cfg!(debug_assertions) { Violation::Kill } else { Violation::Refuse };
    Sandbox {
        identity: None,
        capabilities: &[],
        umask: true,
        locked_bytes: None,
        grants: Some(&grants),
        connects: &ports,
        calls: Some(&CALLS),
        violation,
        kernel: Kernel::probe(),
        hides_memory: true,
        parent: None,
    }
    .apply()
}

/// The port that a URL names.
fn port(url: &str) -> Option<u16> {
    let host = url.strip_prefix("https://")?.split('/').next()?;
    host.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_port_is_the_one_behind_the_host() {
        let port = super::port;
        assert_eq!(port("https://127.0.0.1:14000/dir"), Some(14_000));
        assert_eq!(port("https://[::1]:14000/dir"), Some(14_000));
        assert_eq!((port("https://a.org/d:1"), port("https://[::1]/dir")), (None, None));
    }
}
