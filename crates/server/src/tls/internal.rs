//! The authority of this machine: where its key and its certificate lie, and what it issues.

use std::io;
use std::path::{Path, PathBuf};

use flyball_site::SiteSettings;
use flyball_site::hosts::{ADDRESSES, without_brackets};
use flyball_sys::error_log::shown_in_line;
use flyball_sys::lock_file::LockFile;
use flyball_sys::secret_file::Version;
use flyball_sys::{own_directory, secret_file, whole_file};
use flyball_tls::{Authority, Certificate};

use super::files::FILE_BYTES_MAX;

/// Its key, and its certificate.
const KEY: &str = "authority.pem";

/// Its certificate alone, for those who are to trust it.
const ROOT: &str = "root.pem";

/// Who holds this lock may make an authority: several servers can have one directory.
const LOCK: &str = "lock";

/// Longest wait for the lock, in milliseconds. An authority is made in a few, and the disk may be
/// slow.
const LOCK_MS_MAX: u64 = 5_000;

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

/// An authority that was read, and of which version of its file.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) authority: Authority,
    pub(super) version: Version,
}

impl Kept {
    /// Whether it holds long enough, and the certificate that clients are to trust is its own.
    fn is_whole(&self, directory: &Path, now_s: u64) -> bool {
        let root = secret_file::read(&root_path(directory), FILE_BYTES_MAX);
        self.lasts(now_s) && root.is_ok_and(|file| file.bytes == self.authority.root().as_bytes())
    }

    fn lasts(&self, now_s: u64) -> bool {
        self.authority.not_after_s() > now_s + LEFT_S
    }
}

/// The authority in this directory; another one, if there is none or it ends soon. All servers of a
/// directory get the same one, whose certificate lies there as well. Blocks on the disk, and while
/// another server makes one. Where the path is empty, one is made that is kept nowhere.
///
/// # Errors
/// What cannot be read, or written; that another server has held the lock for too long.
pub(super) fn open(directory: &Path, now_s: u64) -> Result<Kept, String> {
    if directory.as_os_str().is_empty() {
        return Ok(Kept { authority: Authority::new(now_s)?, version: Version::default() });
    }
    let opened = match read(directory) {
        Ok(Some(kept)) if kept.is_whole(directory, now_s) => Ok(kept),
        Ok(_) => read_or_make(directory, now_s),
        Err(error) => Err(error),
    };
    opened.map_err(|error| {
        format!("the authority of this machine, in {}: {error}", directory.display())
    })
}

/// Whether [`open`] would write there.
pub(super) fn would_write(directory: &Path, now_s: u64) -> bool {
    read(directory).is_ok_and(|kept| !kept.is_some_and(|kept| kept.is_whole(directory, now_s)))
}

/// The same, while no other server does.
fn read_or_make(directory: &Path, now_s: u64) -> io::Result<Kept> {
    let _held = lock(directory)?;
    let kept = match read(directory)?.filter(|kept| kept.lasts(now_s)) {
        Some(kept) if kept.is_whole(directory, now_s) => return Ok(kept),
        Some(kept) => kept,
        None => {
            let (path, authority) =
                (directory.join(KEY), Authority::new(now_s).map_err(io::Error::other)?);
            let written = whole_file::replace(&path, authority.to_pem().as_bytes(), 0o600);
            written.map_err(|error| named(KEY, &error))?;
            Kept { authority, version: Version::of(&path)? }
        }
    };
    let root = kept.authority.root().as_bytes();
    let written = whole_file::replace(&root_path(directory), root, 0o644);
    written.map_err(|error| named(ROOT, &error))?;
    Ok(kept)
}

/// The same error, with the file that it is about.
fn named(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

/// Takes the lock of this directory, which is made where it is missing.
fn lock(directory: &Path) -> io::Result<LockFile> {
    whole_file::make_directory(directory)?;
    let held = LockFile::hold(&directory.join(LOCK), LOCK_MS_MAX);
    let held = held.map_err(|error| named(LOCK, &error))?;
    let s = LOCK_MS_MAX / 1_000;
    held.ok_or_else(|| io::Error::other(format!("another server has held {LOCK} for {s} s")))
}

/// Whether the authority that lies in this directory is another than that of this version.
pub(super) fn is_replaced(directory: &Path, version: Version) -> bool {
    Version::of(&directory.join(KEY)).is_ok_and(|now| now != version)
}

/// Who made the key could vouch for any name to those who trust it: it is this user's and root's.
fn read(directory: &Path) -> io::Result<Option<Kept>> {
    own_directory::check(directory, &[KEY, ROOT])?;
    let path = &directory.join(KEY);
    let file = match secret_file::read(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| named(KEY, &error))?,
    };
    if file.is_open_to_all() || file.is_open_to_group() {
        let why = format!("{KEY} is open to others (mode {:04o}): chmod 600", file.mode);
        return Err(io::Error::other(why));
    }
    let (version, text) = (file.version, String::from_utf8(file.bytes).map_err(io::Error::other)?);
    match Authority::from_pem(&text) {
        Ok(authority) => Ok(Some(Kept { authority, version })),
        Err(fault) => Err(io::Error::other(format!("{KEY} {fault}; remove it"))),
    }
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
        let first = opened(&at, NOW_S);
        let mode = |name: &str| fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(KEY), mode(ROOT)), (0o600, 0o644));
        let later = opened(&at, NOW_S + 300 * DAY_S);
        assert_eq!(later.root(), first.root());
        let next = opened(&at, NOW_S + 340 * DAY_S);
        assert_ne!(next.root(), first.root());
        assert_eq!(fs::read_to_string(root_path(&at)).unwrap(), next.root());
        assert_eq!(mode(LOCK), 0o600);
        assert_eq!(fs::read_dir(&at).unwrap().count(), 3);
    }

    fn opened(directory: &Path, now_s: u64) -> Authority {
        open(directory, now_s).unwrap().authority
    }

    #[test]
    fn all_who_begin_at_once_have_one_and_its_certificate_lies_there() {
        const SERVERS: usize = 8;
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let at = dir.path().join(round.to_string());
            let together = std::sync::Barrier::new(SERVERS);
            let one = || {
                together.wait();
                opened(&at, NOW_S).root().to_owned()
            };
            let all: Vec<String> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..SERVERS).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let root = fs::read_to_string(root_path(&at)).unwrap();
            assert!(all.iter().all(|one| *one == root), "round {round}");
            assert_eq!(opened(&at, NOW_S).root(), root);
        }
    }

    #[test]
    fn a_certificate_of_another_authority_gives_way_to_the_own_one() {
        let dir = tempfile::tempdir().unwrap();
        let own = opened(dir.path(), NOW_S);
        fs::write(root_path(dir.path()), Authority::new(NOW_S).unwrap().root()).unwrap();
        assert_eq!(opened(dir.path(), NOW_S).root(), own.root());
        assert_eq!(fs::read_to_string(root_path(dir.path())).unwrap(), own.root());
        // Where nothing is to be written, the directory may be one that cannot be.
        fs::remove_file(dir.path().join(LOCK)).unwrap();
        assert_eq!(opened(dir.path(), NOW_S).root(), own.root());
        assert!(!dir.path().join(LOCK).exists());
    }

    #[test]
    fn who_never_lets_go_of_the_lock_is_not_waited_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        let why = open(dir.path(), NOW_S).unwrap_err();
        assert!(why.ends_with("another server has held lock for 5 s"), "{why}");
        drop(held);
        opened(dir.path(), NOW_S);
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
        let [one, other] = [0, 1].map(|_| Authority::new(NOW_S).unwrap().to_pem());
        let begin = |text: &str| text.find("-----BEGIN CERTIFICATE").unwrap();
        fs::write(&key, one[..begin(&one)].to_owned() + &other[begin(&other)..]).unwrap();
        let why = open(dir.path(), NOW_S).unwrap_err();
        assert!(why.contains("does not belong to the certificate; remove it"), "{why}");
    }

    #[test]
    fn what_is_no_file_is_named_and_what_is_only_looked_at_is_not_written() {
        for name in [KEY, ROOT, LOCK] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join(name)).unwrap();
            let why = open(dir.path(), NOW_S).unwrap_err();
            assert!(why.contains(&format!(": {name}: ")), "{why}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(would_write(dir.path(), NOW_S) && would_write(&dir.path().join("none"), NOW_S));
        assert!(open(Path::new(""), NOW_S).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        opened(dir.path(), NOW_S);
        assert!(!would_write(dir.path(), NOW_S));
        assert!(would_write(dir.path(), NOW_S + 340 * DAY_S));
    }

    #[test]
    fn one_in_a_directory_that_is_open_to_others_is_not_used_and_none_is_made_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open(dir.path(), NOW_S).unwrap_err().contains("chmod go-w"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
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
