//! Where certificates are read, which of them are in use, and what the operator is told of each.

use std::path::{Path, PathBuf};

use flyball_site::{CertificateFiles, SiteSettings};
use flyball_sys::secret_file::{self, Version};
use flyball_tls::{Certificate, Pair};

use super::hosts::{Named, shown};
use super::internal::{self, Kept};
use super::told::{Told, names_of};
use super::watched::{Look, Moment, Watched};
use crate::words::lasting;

/// Longest file of a chain, a key, authorities or lists, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// With less time left, in seconds, and with less than a third of all, a certificate is due for
/// renewal.
const DUE_S: u64 = 14 * 86_400;

/// Where a certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Files that the operator names.
    Files,
    /// The storage of the agent that gets certificates.
    Acme,
    /// The authority of this machine.
    Internal,
}

impl Source {
    /// As it is told.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Files => "file",
            Source::Acme => "acme",
            Source::Internal => "internal",
        }
    }
}

/// Where a pair is read, and which files these were.
#[derive(Clone, Debug)]
pub(super) struct Files {
    names: CertificateFiles,
    pub(super) source: Source,
    /// The names that the sites with it answer to.
    hosts: Vec<String>,
    watched: Watched,
    /// The pair in use; none where it is still to come.
    in_use: Option<Pair>,
    /// Which authority of this machine has issued it, if one has.
    authority: Option<Version>,
    /// How much was said of its end.
    said_of_end: Option<End>,
    /// When the certificate that is in the files, and not in use before that, begins to hold.
    begins_s: Option<u64>,
}

/// What is said of the end of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It does not hold yet.
    Ahead,
    /// It is near, and nothing renews it.
    Near,
    /// It is over.
    Over,
}

/// A pair that is taken into use.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) pair: Pair,
    /// What the operator should know of it.
    pub(super) warning: Option<String>,
}

impl Files {
    /// Files that are to be read, for a site of these hosts; `in_use` is what a server whose place
    /// is taken has read of them.
    pub(super) fn new(
        names: &CertificateFiles,
        source: Source,
        hosts: &[String],
        in_use: Option<Pair>,
    ) -> Files {
        let watched = Watched::new([names.chain.as_path(), names.key.as_path()]);
        let (names, hosts) = (names.clone(), hosts.to_vec());
        let (authority, said_of_end, begins_s) = (None, None, None);
        Files { names, source, hosts, watched, in_use, authority, said_of_end, begins_s }
    }

    /// Whether they are there, as far as that can be seen. Blocks on the disk.
    pub(super) fn are_there(&self) -> bool {
        [&self.names.chain, &self.names.key].iter().all(|path| path.try_exists().unwrap_or(true))
    }

    /// Takes what the files hold into use, unless what is in use is better; what the operator
    /// should know. Blocks on the disk.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(super) fn read(&mut self, now_s: u64) -> Result<Vec<String>, String> {
        let (read, warning) = read_pair(&self.names)?;
        let stays = match self.better(read, now_s) {
            Ok(pair) => {
                self.take(&pair);
                None
            }
            Err(why) => self.refuse(why),
        };
        Ok(warning.into_iter().chain(stays).collect())
    }

    /// Whether what the files held when they were read, and clients would have refused, holds now.
    pub(super) fn has_begun(&self, now_s: u64) -> bool {
        self.begins_s.is_some_and(|begins_s| begins_s <= now_s)
    }

    /// The pair in use; none where it is still to come.
    pub(super) fn in_use(&self) -> Option<&Pair> {
        self.in_use.as_ref()
    }

    /// Its certificate.
    pub(super) fn certificate(&self) -> Option<&Certificate> {
        self.in_use.as_ref().map(Pair::certificate)
    }

    /// The pair in use, and where it was read; none where no file holds it.
    pub(super) fn kept(&self) -> Option<(PairFiles, Pair)> {
        let pair = self.in_use.clone().filter(|_| self.source != Source::Internal)?;
        Some((pair_files(&self.names), pair))
    }

    /// Another site has it too.
    pub(super) fn share(&mut self, hosts: &[String]) {
        self.hosts.extend_from_slice(hosts);
    }

    /// What the authority of this machine, which lies in this directory, issues for a site.
    ///
    /// # Errors
    /// As [`Files::issue`].
    pub(super) fn issued(
        site: &SiteSettings,
        directory: &Path,
        now_s: u64,
    ) -> Result<Files, String> {
        let (names, hosts) = (CertificateFiles::default(), internal::names_of(site));
        let mut files = Files::new(&names, Source::Internal, &hosts, None);
        files.issue(directory, now_s).transpose()?;
        Ok(files)
    }

    /// Has the authority issue another certificate, if it is time for it, or another authority has
    /// taken the place of the one that issued it: clients are to trust that one.
    ///
    /// # Errors
    /// Why it cannot, if that was not said yet.
    pub(super) fn issue(&mut self, directory: &Path, now_s: u64) -> Option<Result<Pair, String>> {
        let ends_s = self.certificate().map_or(0, |in_use| in_use.not_after_s);
        let is_replaced =
            self.authority.is_some_and(|version| internal::is_replaced(directory, version));
        if ends_s > now_s + internal::RENEWED_S && !is_replaced {
            return None;
        }
        let kept = internal::open(directory, now_s);
        let issue = |kept: Kept| Ok((kept.authority.issue(&self.hosts, now_s)?, kept.version));
        match kept.and_then(issue) {
            Ok((pair, version)) => {
                self.take(&pair);
                self.authority = Some(version);
                Some(Ok(pair))
            }
            Err(why) => self.watched.say(why).map(Err),
        }
    }

    fn take(&mut self, pair: &Pair) {
        self.in_use = Some(pair.clone());
        (self.said_of_end, self.begins_s) = (None, None);
        self.watched.succeeded();
    }

    pub(super) fn blame(&self, why: &str) -> String {
        format!("{}{} {why}", self.names.written, self.names.chain.display())
    }

    /// The certificate in use, for a message.
    pub(super) fn shown(&self) -> String {
        let path = self.names.chain.display();
        match self.source {
            Source::Files => format!("the renewed certificate {path}"),
            Source::Acme => format!("the certificate {path}"),
            Source::Internal => format!("the next certificate for {}", self.hosts.join(", ")),
        }
    }

    /// What is told of it.
    pub(super) fn told(&self) -> Told {
        // What an authority has issued that is kept nowhere is not what a server begins with.
        let in_use = self.certificate().filter(|_| self.authority != Some(Version::default()));
        Told {
            names: in_use.map_or_else(|| self.hosts.clone(), names_of),
            source: self.source,
            issuer: in_use.map(|one| one.issuer.clone()).unwrap_or_default(),
            key: in_use.and(self.in_use.as_ref()).map_or("", Pair::key_kind),
            serial: in_use.map(|one| one.serial.to_ascii_uppercase()).unwrap_or_default(),
            not_after_s: in_use.map(|one| one.not_after_s),
            renews_at_s: in_use
                .filter(|_| self.source == Source::Internal)
                .map(|one| one.not_after_s.saturating_sub(internal::RENEWED_S)),
            error: self.watched.said().cloned(),
        }
    }

    /// Whether this is the certificate of a site whose first host is this.
    pub(super) fn is_of(&self, host: &str) -> bool {
        self.hosts.first().is_some_and(|first| first == host)
    }

    /// The pair that is there now, if it is another than at the last look; why it cannot be used,
    /// if that was not said yet.
    pub(super) fn look(&mut self, at: Moment) -> Option<Result<Taken, String>> {
        let looked = match self.watched.look(at) {
            Look::Same if self.has_begun(at.s) => Look::Changed,
            looked => looked,
        };
        let why = match looked {
            Look::Same => return None,
            // What is still to come is waited for.
            Look::Gone(..) if self.in_use.is_none() => return None,
            Look::Gone(_, why) => format!("{}{why}", self.names.written),
            Look::Changed => match self.next(at.s) {
                Ok(pair) => {
                    let warning = self.lost(&pair);
                    self.take(&pair);
                    return Some(Ok(Taken { pair, warning }));
                }
                Err(why) => why,
            },
        };
        self.refuse(why).map(Err)
    }

    /// Says why the files do not replace what is in use, if that was not said yet.
    pub(super) fn refuse(&mut self, why: String) -> Option<String> {
        let stays = if self.in_use.is_some() { "the certificate in use stays: " } else { "" };
        self.watched.say(format!("{stays}{why}"))
    }

    /// What the files hold now, if it is [`Files::better`].
    fn next(&mut self, now_s: u64) -> Result<Pair, String> {
        self.begins_s = None;
        let (pair, _) = read_pair(&self.names)?;
        self.better(pair, now_s)
    }

    /// What was read of the files, unless clients refuse it at this time and the one in use is
    /// better: it holds, or has ended later.
    fn better(&mut self, pair: Pair, now_s: u64) -> Result<Pair, String> {
        let next = pair.certificate();
        let is_better =
            |in_use: &Certificate| in_use.holds_at(now_s) || in_use.not_after_s > next.not_after_s;
        match expiry(next, now_s).filter(|_| self.certificate().is_some_and(is_better)) {
            Some(why) => {
                self.begins_s = Some(next.not_before_s).filter(|begins_s| *begins_s > now_s);
                Err(self.blame(&why))
            }
            None => Ok(pair),
        }
    }

    /// That the next certificate lacks hosts which the one in use names.
    fn lost(&self, next: &Pair) -> Option<String> {
        let before = Named::new(self.certificate()?);
        let next = Named::new(next.certificate());
        let is_lost = |host: &&String| before.has(host) && !next.has(host);
        let lost: Vec<&String> = self.hosts.iter().filter(is_lost).collect();
        let names = shown(&lost);
        (!lost.is_empty()).then(|| {
            self.blame(&format!(
                "holds a certificate that does not name {names} any more, as the one before did: \
                 clients refuse it there"
            ))
        })
    }

    /// What is to be said of the time in which the certificate in use holds, once.
    pub(super) fn look_at_time(&mut self, now_s: u64) -> Option<String> {
        let in_use = self.certificate()?;
        let (end, why) = match expiry(in_use, now_s) {
            Some(why) if in_use.not_before_s > now_s => (End::Ahead, why),
            Some(why) => (End::Over, why),
            None if self.source == Source::Files => (End::Near, near(in_use, now_s)?),
            None => return None,
        };
        let is_new = self.said_of_end.is_none_or(|said| said < end);
        self.said_of_end = Some(end);
        is_new.then(|| self.blame(&why))
    }
}

/// The files of a chain and of its key.
pub(super) type PairFiles = (PathBuf, PathBuf);

/// By what a pair is known.
pub(super) fn pair_files(names: &CertificateFiles) -> PairFiles {
    (names.chain.clone(), names.key.clone())
}

/// Reads a pair, and what the operator should know of its files. Blocks on the disk.
///
/// # Errors
/// Which file cannot be used, and why.
fn read_pair(files: &CertificateFiles) -> Result<(Pair, Option<String>), String> {
    let CertificateFiles { chain, key, written } = files;
    let blame = |path: &Path, why: String| format!("{written}{} {why}", path.display());
    let read = |path: &Path| {
        secret_file::read(path, FILE_BYTES_MAX)
            .map_err(|error| blame(path, format!("cannot be read: {error}")))
    };
    let secret = read(key)?;
    let read_chain = if chain == key { None } else { Some(read(chain)?) };
    let certificates = read_chain.as_ref().map_or(&secret.bytes, |file| &file.bytes);
    // First: what holds no key needs no rights of one.
    let pair = Pair::from_pem(certificates, &secret.bytes).map_err(|fault| {
        let path = if fault.is_of_chain() { chain } else { key };
        blame(path, fault.to_string())
    })?;
    if secret.is_open_to_all() {
        let mode = secret.mode;
        let why = format!("holds a key and is open to all users (mode {mode:04o}): chmod 600");
        return Err(blame(key, why));
    }
    let warning = secret.is_open_to_group().then(|| {
        blame(key, format!("holds a key and is open to its group (mode {:04o})", secret.mode))
    });
    Ok((pair, warning))
}

/// That a certificate does not hold now.
fn expiry(certificate: &Certificate, now_s: u64) -> Option<String> {
    if certificate.not_after_s < now_s {
        let ago = lasting(now_s - certificate.not_after_s);
        return Some(format!("holds a certificate that expired {ago} ago"));
    }
    let in_s = certificate.not_before_s.checked_sub(now_s).filter(|in_s| *in_s > 0)?;
    let why = "holds a certificate that clients refuse as yet: it begins in";
    Some(format!("{why} {}", lasting(in_s)))
}

/// That a certificate is due for renewal, where nothing here renews it.
fn near(certificate: &Certificate, now_s: u64) -> Option<String> {
    let Certificate { not_before_s, not_after_s, .. } = *certificate;
    let left_s = not_after_s.saturating_sub(now_s);
    let third_s = not_after_s.saturating_sub(not_before_s) / 3;
    (left_s < DUE_S.min(third_s)).then(|| {
        format!(
            "holds a certificate that expires in {}, and the server does not renew it: put \
             another in its place",
            lasting(left_s)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Seen, Tls};
    use flyball_arch::settings::{Listen, Settings};
    use flyball_sys::clock;
    use std::net::SocketAddr;
    use std::os::unix::fs::PermissionsExt;

    const DAY_S: u64 = 86_400;

    /// The only certificate of a test, with these days of its time left; it holds so many.
    fn left(days: u64, of: u64) -> Option<String> {
        let now_s = 1_800_000_000;
        let end_s = now_s + days * DAY_S;
        near(pair(end_s - of * DAY_S, end_s).certificate(), now_s)
    }

    #[test]
    fn another_authority_issues_another_certificate_at_the_next_look() {
        let dir = tempfile::tempdir().unwrap();
        let (now_s, at) = (1_800_000_000, dir.path().join("internal"));
        let site = SiteSettings { hosts: vec!["localhost".into()], ..SiteSettings::default() };
        let mut files = Files::issued(&site, &at, now_s).unwrap();
        let issuer = |files: &Files| files.told().issuer;
        let first = issuer(&files);
        assert!(files.issue(&at, now_s + DAY_S).is_none());
        std::fs::remove_dir_all(&at).unwrap();
        assert!(files.issue(&at, now_s + DAY_S).is_none(), "none is made before it is needed");
        let other = issuer(&Files::issued(&site, &at, now_s + 2 * DAY_S).unwrap());
        let next = files.issue(&at, now_s + 2 * DAY_S).unwrap().unwrap();
        assert_ne!(first, next.certificate().issuer);
        assert_eq!(next.certificate().issuer, other);
        assert!(files.issue(&at, now_s + 2 * DAY_S).is_none());
    }

    /// A key and its certificate, which holds from and until then, in PEM.
    fn made(from_s: u64, until_s: u64) -> String {
        let time = |s: u64| {
            let since = std::time::Duration::from_secs(s);
            (std::time::SystemTime::UNIX_EPOCH + since).into()
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (time(from_s), time(until_s));
        format!("{}{}", key.serialize_pem(), params.self_signed(&key).unwrap().pem())
    }

    fn pair(from_s: u64, until_s: u64) -> Pair {
        let pem = made(from_s, until_s);
        Pair::from_pem(pem.as_bytes(), pem.as_bytes()).unwrap()
    }

    #[test]
    fn a_certificate_is_due_two_weeks_before_its_end_and_a_short_one_later() {
        assert!(left(13, 90).unwrap().contains("expires in 13 days, and the server"));
        assert!(left(1, 90).unwrap().contains("expires in 1 day, "));
        assert_eq!(left(14, 90), None);
        assert!(left(5, 6).is_none() && left(1, 6).is_some());
    }

    #[test]
    fn a_certificate_that_begins_later_waits_while_the_one_in_use_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pair.pem");
        let now_s = 1_800_000_000;
        let write = |text: &str| {
            let next = dir.path().join("next.pem");
            std::fs::write(&next, text).unwrap();
            std::fs::set_permissions(&next, PermissionsExt::from_mode(0o600)).unwrap();
            std::fs::rename(&next, &path).unwrap();
        };
        let names = CertificateFiles {
            chain: path.clone(),
            key: path.clone(),
            ..CertificateFiles::default()
        };
        write(&made(0, now_s + 30 * DAY_S));
        let mut files = Files::new(&names, Source::Files, &[], None);
        assert!(files.read(now_s).unwrap().is_empty());
        let at = |s| Moment { ms: 0, s, gone_ms_max: 0 };
        write(&made(now_s + 10 * DAY_S, now_s + 99 * DAY_S));
        let why = files.look(at(now_s)).unwrap().unwrap_err();
        assert!(why.starts_with("the certificate in use stays: ") && why.ends_with("in 10 days"));
        assert!(files.look(at(now_s + 9 * DAY_S)).is_none());
        let taken = files.look(at(now_s + 10 * DAY_S)).unwrap().unwrap();
        assert_eq!(taken.pair.certificate().not_after_s, now_s + 99 * DAY_S);
        // Where none holds, the one that ends last is in use.
        write(&made(now_s + 200 * DAY_S, now_s + 300 * DAY_S));
        assert!(files.look(at(now_s + 100 * DAY_S)).unwrap().is_ok());
    }

    #[test]
    fn one_that_is_kept_is_followed_by_one_that_begins_later_where_nothing_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pair.pem");
        let now_s = clock::unix_ms() / 1_000;
        let write = |from_s: u64, until_s: u64| {
            std::fs::write(&path, made(from_s, until_s)).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        };
        let files =
            CertificateFiles { chain: path.clone(), key: path.clone(), ..Default::default() };
        let mut site = SiteSettings { hosts: vec!["a.test".into()], ..SiteSettings::default() };
        site.tls.certificates = vec![files];
        let listen = Listen { tls: true, ..SocketAddr::from(([127, 0, 0, 1], 0)).into() };
        let settings = Settings { listen: vec![listen], sites: vec![site], ..Settings::default() };
        write(0, now_s + 30 * DAY_S);
        let first = Tls::open(&settings, &Default::default()).unwrap().unwrap();
        write(now_s + 10 * DAY_S, now_s + 99 * DAY_S);
        let mut after_reload = Tls::open(&settings, &first.kept()).unwrap().unwrap();
        let mut news = |s: u64| {
            let mut seen = Seen::default();
            let at = Moment { ms: 0, s, gone_ms_max: u64::MAX };
            after_reload.look_at_files(false, &settings, at, &mut seen);
            seen.news
        };
        assert_eq!(news(now_s + 9 * DAY_S), [""; 0]);
        assert!(news(now_s + 10 * DAY_S + 1)[0].contains("pair.pem is in use; it holds 88 days"));
        assert_eq!(news(now_s + 11 * DAY_S), [""; 0]);
    }

    #[test]
    fn what_an_authority_issues_that_is_kept_nowhere_is_still_to_come() {
        let site = SiteSettings { hosts: vec!["localhost".into()], ..SiteSettings::default() };
        let told = Files::issued(&site, Path::new(""), 1_800_000_000).unwrap().told();
        assert_eq!(told.to_text(0), "localhost: still to come (internal)");
    }

    #[test]
    fn what_is_said_of_an_end_is_said_once_and_that_it_has_come_is_said_too() {
        let files = CertificateFiles { chain: "a.pem".into(), ..CertificateFiles::default() };
        let mut files = Files::new(&files, Source::Files, &[], None);
        files.in_use = Some(pair(0, 90 * DAY_S));
        assert_eq!(files.look_at_time(70 * DAY_S), None);
        let near = files.look_at_time(80 * DAY_S).unwrap();
        assert!(near.starts_with("a.pem holds a certificate that expires in 10 days"), "{near}");
        assert_eq!(files.look_at_time(81 * DAY_S), None);
        let over = files.look_at_time(92 * DAY_S).unwrap();
        assert!(over.contains("that expired 2 days ago"), "{over}");
        assert_eq!(files.look_at_time(93 * DAY_S), None);
    }
}
