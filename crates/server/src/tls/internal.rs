//! The authority of this machine: where its key and its certificate lie, and what it issues.

use std::io;
use std::path::{Path, PathBuf};

use flyball_site::SiteSettings;
use flyball_site::hosts::{ADDRESSES, without_brackets};
use flyball_sys::error_log::shown_in_line;
use flyball_sys::{secret_file, whole_file};
use flyball_tls::{Authority, Certificate};

use super::files::FILE_BYTES_MAX;

/// Its key, and its certificate.
const KEY: &str = "authority.pem";

/// Its certificate alone, for those who are to trust it.
const ROOT: &str = "root.pem";

/// An authority with less time left, in seconds, gives way to another: what it issues would hold
/// no longer.
const LEFT_S: u64 = 35 * 86_400;

/// What it has issued is renewed when less time is left, in seconds.
pub(super) const RENEWED_S: u64 = 10 * 86_400;

/// Where its certificate lies, for those who are to trust it.
pub fn root_path(directory: &Path) -> PathBuf {
    directory.join(ROOT)
}

/// Whose certificate a text in PEM is, if it is that of an authority and nothing else.
///
/// # Errors
/// What else it is.
pub fn authority_in(pem: &str) -> Result<String, String> {
    let nothing_else = pem.starts_with("-----BEGIN CERTIFICATE-----");
    if !nothing_else || pem.contains("PRIVATE KEY") {
        return Err("is no certificate in PEM, or holds more".to_owned());
    }
    let all = Certificate::all_of_pem(pem.as_bytes());
    match all.ok_or("is no certificate in PEM, or a broken one")?.as_slice() {
        [one] if one.is_authority => Ok(one.subject.clone()),
        [one] => Err(format!(
            "is the certificate of {}, which is no authority (basicConstraints, RFC 5280): what \
             it signs would not be trusted",
            shown_in_line(&one.subject)
        )),
        all => Err(format!("holds {} certificates; give one", all.len())),
    }
}

/// The names of the certificate of a site: those of its hosts, and this machine's own where any
/// address or any host is meant.
pub(super) fn names_of(site: &SiteSettings) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    for host in &site.hosts {
        match host.as_str() {
            "*" | ADDRESSES => names.extend(own.clone()),
            host => names.push(without_brackets(host).to_owned()),
        }
    }
    names.sort();
    names.dedup();
    names
}

/// The authority in this directory; another one, if there is none or it ends soon. Blocks on the
/// disk.
///
/// # Errors
/// What cannot be read, or written.
pub(super) fn open(directory: &Path, now_s: u64) -> Result<Authority, String> {
    let failed = |error: io::Error| {
        format!("the authority of this machine, in {}: {error}", directory.display())
    };
    let path = directory.join(KEY);
    let kept = read(&path).map_err(failed)?;
    let lasts = |authority: &Authority| authority.not_after_s() > now_s + LEFT_S;
    let authority = match kept.filter(lasts) {
        Some(authority) => authority,
        None => {
            let made = Authority::new(now_s)?;
            whole_file::replace(&path, made.to_pem().as_bytes(), 0o600).map_err(failed)?;
            made
        }
    };
    // Another server may be about to make one too: the certificate is that of the key.
    let root = root_path(directory);
    let known = secret_file::read(&root, FILE_BYTES_MAX).map(|file| file.bytes);
    if known.is_ok_and(|bytes| bytes == authority.root().as_bytes()) {
        return Ok(authority);
    }
    whole_file::replace(&root, authority.root().as_bytes(), 0o644).map_err(failed)?;
    Ok(authority)
}

fn read(path: &Path) -> io::Result<Option<Authority>> {
    let file = match secret_file::read(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if file.is_open_to_all() || file.is_open_to_group() {
        let why = format!("{KEY} is open to others (mode {:04o}): chmod 600", file.mode);
        return Err(io::Error::other(why));
    }
    let text = String::from_utf8(file.bytes).map_err(io::Error::other)?;
    let read = Authority::from_pem(&text);
    read.map(Some).map_err(|fault| io::Error::other(format!("{KEY} {fault}; remove it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const NOW_S: u64 = 1_800_000_000;
    const DAY_S: u64 = 86_400;

    #[test]
    fn one_is_made_once_and_another_when_its_end_is_near() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("state/internal");
        let first = open(&at, NOW_S).unwrap();
        let mode = |name: &str| fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(KEY), mode(ROOT)), (0o600, 0o644));
        let later = open(&at, NOW_S + 300 * DAY_S).unwrap();
        assert_eq!(later.root(), first.root());
        let next = open(&at, NOW_S + 340 * DAY_S).unwrap();
        assert_ne!(next.root(), first.root());
        assert_eq!(fs::read_to_string(root_path(&at)).unwrap(), next.root());
        assert_eq!(fs::read_dir(&at).unwrap().count(), 2);
    }

    #[test]
    fn one_that_others_may_read_or_that_is_broken_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), NOW_S).unwrap();
        let key = dir.path().join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(open(dir.path(), NOW_S).unwrap_err().contains("chmod 600"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&key, "x").unwrap();
        assert!(open(dir.path(), NOW_S).unwrap_err().contains("remove it"));
    }

    #[test]
    fn the_certificate_of_an_authority_is_told_from_others() {
        let authority = Authority::new(NOW_S).unwrap();
        let root = authority.root();
        assert!(authority_in(root).unwrap().contains("Flyball on this machine"));
        for (pem, why) in [
            (&*format!("{root}{root}"), "holds 2 certificates"),
            (&authority.to_pem(), "holds more"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "a broken one"),
            ("", "no certificate"),
        ] {
            let told = authority_in(pem).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_site_of_any_address_is_one_of_this_machine() {
        let site = |hosts: &[&str]| SiteSettings {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            ..SiteSettings::default()
        };
        let own = ["127.0.0.1", "::1", "localhost"];
        assert_eq!(names_of(&site(&["localhost", ADDRESSES])), own);
        assert_eq!(names_of(&site(&["*"])), own);
        assert_eq!(names_of(&site(&["[fd00::1]"])), ["fd00::1"]);
    }
}
