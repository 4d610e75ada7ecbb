//! Certificates with their keys, read by the master before any child is forked, and what the
//! sessions of all workers go by.

mod clients;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_arch::Renewals;
use flyball_arch::settings::{Settings, TicketKeys};
use flyball_site::hosts::Hosts;
use flyball_site::{CertificateFiles, SiteSettings, Sites};
use flyball_sys::letterbox::Letterbox;
use flyball_sys::net::Address;
use flyball_sys::secret_file::{self, SecretFile, Version};
use flyball_sys::{clock, random, sealed};
use flyball_tls::{
    Bundle, ClientAuth, Config, Pair, Policy, ROOT_BYTES, Root, Site, Tickets, Unknown,
};

use clients::Clients;

/// Longest file of a chain, a key, authorities or lists, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Fewest bytes of a file that keys of tickets come from.
const TICKET_BYTES_MIN: usize = 32;

/// How long a root of tickets is used, in seconds.
const ROOT_S: u64 = 7 * 86_400;

/// How long the one before is kept, in seconds: longer than any ticket lasts.
const ROOT_KEPT_S: u64 = 2 * 86_400;

/// Longest time between two looks, in milliseconds: keys of tickets follow from the time alone.
const LOOK_MS_MAX: u64 = 3_600_000;

/// Most roots at a time.
const ROOTS_MAX: usize = 2;

/// What workers speak TLS by.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Config,
    roots: Roots,
    /// Where certificates were read, by their numbers.
    files: Vec<Files>,
    /// Those that were renewed since, with their numbers.
    renewed: Vec<(usize, Pair)>,
    /// Whose certificates clients show, by their numbers.
    clients: Vec<Clients>,
    /// Files that no client may have, as workers were told last.
    secrets: Vec<[u64; 2]>,
    /// Why that could not be looked at, as it was said last.
    said: Option<String>,
    /// What is renewed is left there for workers.
    letterbox: Arc<Letterbox>,
    /// When to look again, in monotonic milliseconds.
    look_ms: u64,
    /// What the operator should know.
    warnings: Vec<String>,
}

/// The roots of tickets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    /// The one that tickets are made with, and the one before.
    pub(crate) all: Vec<Root>,
    /// When the first was drawn, in seconds since 1970.
    pub(crate) since_s: u64,
}

impl Tls {
    /// Reads all files; nothing where no address speaks TLS. `roots` are those of tickets, of
    /// which a server draws its own if there are none. Blocks on the disk.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn open(settings: &Settings, roots: &Roots) -> Result<Option<Tls>, String> {
        if !settings.listen.iter().any(|listen| listen.tls) {
            return Ok(None);
        }
        let mut reader = Reader::default();
        let sites: Vec<Site> = settings
            .sites
            .iter()
            .map(|site| reader.site(site, settings))
            .collect::<Result<_, _>>()?;
        let now_s = clock::unix_ms() / 1_000;
        let Reader { pairs, files, mut clients, mut warnings, .. } = reader;
        for (pair, files) in pairs.iter().zip(&files) {
            warnings.extend(expiry(pair, now_s).map(|why| files.blame(&why)));
        }
        warnings.extend(clients.iter_mut().filter_map(|clients| clients.warning(now_s)));
        let roots = roots_of(settings, roots, now_s, &mut warnings)?;
        let hosts = Hosts::new(&settings.sites);
        let site_of = move |name: &str| hosts.choose(name.as_bytes());
        let unknown = match settings.tls.rejects_unknown {
            true => Unknown::Reject,
            false => Unknown::Default,
        };
        let tickets = Arc::new(Tickets::new(&roots.all, now_s));
        let config = Config::new(pairs, sites, Box::new(site_of), tickets, unknown)
            .map_err(|why| settings.blame("listen", why))?;
        let letterbox = Letterbox::new().map_err(|error| format!("TLS: {error}"))?;
        let letterbox = Arc::new(letterbox);
        Ok(Some(Tls {
            config,
            roots,
            files,
            renewed: Vec::new(),
            clients,
            secrets: Vec::new(),
            said: None,
            letterbox,
            look_ms: 0,
            warnings,
        }))
    }

    /// What is spoken by at the socket of this address.
    ///
    /// # Errors
    /// Never, after the whole was made once.
    pub(crate) fn at(&self, address: Address) -> Result<Config, String> {
        self.config.at(address.ip())
    }

    /// What the operator should know.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Tells sites how they are asked.
    pub(crate) fn tell(&self, settings: &Settings, sites: &mut Sites) {
        let has_certificate =
            |site: &usize| settings.sites.get(*site).is_some_and(|one| one.tls.has_certificate());
        let policy_of = |site: usize| {
            Some(site).filter(has_certificate).and_then(|at| self.config.policy_of(at))
        };
        sites.speak_tls(policy_of);
    }

    /// The roots of tickets, for who takes the place of this.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// What a worker of these sites looks at while it runs.
    pub(crate) fn renewals(&self, sites: &Arc<Sites>) -> Arc<Renewals> {
        let reader = Arc::clone(self.letterbox.reader());
        Arc::new(Renewals::new(self.config.clone(), Arc::clone(sites), reader))
    }

    /// The certificates in use, each once.
    pub(crate) fn in_use(&self) -> Vec<InUse> {
        let mut known = HashSet::new();
        let all = self.files.iter().map(|files| &files.in_use);
        all.filter(|one| known.insert((&one.issuer, &one.serial))).cloned().collect()
    }

    /// When to look again, in monotonic milliseconds.
    pub(crate) fn look_ms(&self) -> u64 {
        self.look_ms
    }

    /// Looks which certificates were renewed on the disk, which files the sites keep from clients,
    /// and whether the root of tickets is old; workers take over what has changed. What there is to
    /// say is given back: each trouble once. Blocks on the disk.
    pub(crate) fn look(
        &mut self,
        settings: &Settings,
        sites: &Sites,
        now_ms: u64,
        now_s: u64,
    ) -> Seen {
        let mut seen = Seen::default();
        self.look_ms = now_ms + settings.tls.watch_ms.min(LOOK_MS_MAX);
        let is_watched = settings.tls.watch_ms != u64::MAX;
        for (number, files) in self.files.iter_mut().enumerate().filter(|_| is_watched) {
            match files.look(now_s) {
                None => {}
                Some(Ok(pair)) => {
                    let until = pair.certificate().not_after_s.saturating_sub(now_s) / 86_400;
                    seen.news.push(format!("{} is in use; it holds {until} days", files.shown()));
                    self.renewed.retain(|(known, _)| *known != number);
                    self.renewed.push((number, pair));
                }
                Some(Err(why)) => seen.troubles.push(why),
            }
        }
        self.look_at_clients(is_watched, now_s, &mut seen);
        let has_turned = settings.tls.tickets == TicketKeys::Auto && self.roots.turn(now_s);
        let has_others = self.keep(sites, &mut seen);
        if !seen.news.is_empty() || has_turned || has_others {
            let bundle = Bundle {
                roots: self.roots.all.clone(),
                pairs: self.renewed.clone(),
                secrets: self.secrets.clone(),
                clients: self.clients.iter().map(|clients| clients.auth.clone()).collect(),
            };
            if let Err(error) = self.letterbox.leave(&bundle.to_bytes()) {
                seen.troubles.push(format!("certificates cannot be handed to workers: {error}"));
            }
            self.config.take(bundle);
        }
        seen
    }

    /// Looks whose certificates clients are to show now, and whether a list in use is over.
    fn look_at_clients(&mut self, is_watched: bool, now_s: u64, seen: &mut Seen) {
        for clients in &mut self.clients {
            let looked = if is_watched { clients.look(now_s) } else { None };
            match looked {
                None => {}
                Some(Ok(news)) => seen.news.push(news),
                Some(Err(why)) => seen.troubles.push(why),
            }
            seen.troubles.extend(clients.look_at_time(now_s));
        }
    }

    /// Looks which files the sites keep from clients; whether workers do not know all of them.
    fn keep(&mut self, sites: &Sites, seen: &mut Seen) -> bool {
        match sites.secrets_now() {
            Ok(now) => {
                self.said = None;
                let has_changed = now != self.secrets;
                self.secrets = now;
                has_changed
            }
            Err(error) => {
                let why = error.to_string();
                let is_new = self.said.as_ref() != Some(&why);
                seen.troubles.extend(is_new.then(|| why.clone()));
                self.said = Some(why);
                false
            }
        }
    }
}

/// A certificate in use, as it is told.
#[derive(Clone, Debug)]
pub(crate) struct InUse {
    /// The first of its names.
    pub(crate) name: String,
    /// Who issued it.
    pub(crate) issuer: String,
    /// The kind of its key, and its number: those of one name are told apart by them.
    pub(crate) key: &'static str,
    pub(crate) serial: String,
    /// The last second in which it holds, since 1970.
    pub(crate) not_after_s: u64,
}

impl InUse {
    fn new(pair: &Pair) -> InUse {
        let certificate = pair.certificate();
        let address = || certificate.addresses.first().map(ToString::to_string);
        let name = certificate.names.first().cloned().or_else(address);
        InUse {
            name: name.unwrap_or_else(|| certificate.subject.clone()),
            issuer: certificate.issuer.clone(),
            key: pair.key_kind(),
            serial: certificate.serial.to_ascii_uppercase(),
            not_after_s: certificate.not_after_s,
        }
    }

    /// For how many seconds it holds; below zero since it has expired.
    pub(crate) fn holds_s(&self, now_s: u64) -> i64 {
        self.not_after_s.cast_signed().saturating_sub(now_s.cast_signed())
    }
}

/// What a look at the disk has shown.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What is in use now.
    pub(crate) news: Vec<String>,
    /// What cannot be used.
    pub(crate) troubles: Vec<String>,
}

impl Roots {
    /// In memory that is sealed, for a program that takes the place of this one.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub(crate) fn in_memory(&self) -> io::Result<OwnedFd> {
        let mut bytes = self.since_s.to_be_bytes().to_vec();
        self.all.iter().for_each(|root| bytes.extend(root.0));
        sealed::write(&bytes)
    }

    /// Those that are in such memory; none, if it holds something else.
    pub(crate) fn read(memory: OwnedFd) -> Roots {
        let bytes = sealed::read(memory, size_of::<u64>() + ROOTS_MAX * ROOT_BYTES);
        let bytes = bytes.unwrap_or_default();
        let Some((since, roots)) = bytes.split_first_chunk() else { return Roots::default() };
        let all = roots.chunks_exact(ROOT_BYTES).filter_map(|root| root.try_into().ok());
        Roots { all: all.map(Root).collect(), since_s: u64::from_be_bytes(*since) }
    }

    /// Draws a new root when the first is old, and lets the one before go when no ticket of it can
    /// be left; whether anything changed.
    fn turn(&mut self, now_s: u64) -> bool {
        let age_s = now_s.saturating_sub(self.since_s);
        if age_s >= ROOT_S
            && let Ok(root) = draw()
        {
            self.all.insert(0, root);
            self.all.truncate(ROOTS_MAX);
            self.since_s = now_s;
            return true;
        }
        let is_kept = self.all.len() > 1 && age_s >= ROOT_KEPT_S;
        if is_kept {
            self.all.truncate(1);
        }
        is_kept
    }
}

/// What is read, each file once.
#[derive(Default)]
struct Reader {
    pairs: Vec<Pair>,
    /// Where each pair was read.
    files: Vec<Files>,
    known: HashMap<(PathBuf, PathBuf), usize>,
    clients: Vec<Clients>,
    warnings: Vec<String>,
}

/// Where a pair was read, and which files these were.
#[derive(Clone, Debug)]
struct Files {
    names: CertificateFiles,
    /// Those that were looked at last, whether they could be used or not.
    versions: [Option<Version>; 2],
    /// The certificate in use.
    in_use: InUse,
    /// What was said last of files that cannot be used.
    said: Option<String>,
}

impl Files {
    fn new(names: &CertificateFiles, pair: &Pair) -> Files {
        let in_use = InUse::new(pair);
        Files { names: names.clone(), versions: versions(names), in_use, said: None }
    }

    fn blame(&self, why: &str) -> String {
        format!("{}{} {why}", self.names.written, self.names.chain.display())
    }

    fn shown(&self) -> String {
        format!("the renewed certificate {}", self.names.chain.display())
    }

    /// The pair that is there now, if it is another than at the last look; why it cannot be used,
    /// if that was not said yet.
    fn look(&mut self, now_s: u64) -> Option<Result<Pair, String>> {
        let versions = versions(&self.names);
        // A file that is gone for a moment is about to be replaced.
        if versions == self.versions || versions.contains(&None) {
            return None;
        }
        let read = read_pair(&self.names).and_then(|(pair, _)| {
            let is_worse = pair.certificate().not_after_s < now_s.min(self.in_use.not_after_s);
            match expiry(&pair, now_s).filter(|_| is_worse) {
                Some(why) => Err(self.blame(&why)),
                None => Ok(pair),
            }
        });
        // One that was replaced while it was read is looked at again.
        self.versions = versions;
        match read {
            Ok(pair) => {
                (self.in_use, self.said) = (InUse::new(&pair), None);
                Some(Ok(pair))
            }
            Err(why) => {
                let why = format!("the certificate in use stays: {why}");
                (self.said.replace(why.clone()).as_ref() != Some(&why)).then_some(Err(why))
            }
        }
    }
}

/// Which files the names lead to; `None` where there is none.
fn versions(names: &CertificateFiles) -> [Option<Version>; 2] {
    [&names.chain, &names.key].map(|path| Version::of(path).ok())
}

impl Reader {
    fn site(&mut self, site: &SiteSettings, settings: &Settings) -> Result<Site, String> {
        let pairs = site.tls.certificates.iter().map(|files| self.pair(files));
        let pairs = pairs.collect::<Result<_, _>>()?;
        let clients = self.clients(site, settings)?;
        Ok(Site { pairs, policy: Policy { only_1_3: site.tls.only_1_3, clients } })
    }

    /// The number of a pair: the same for all sites that name the same files.
    fn pair(&mut self, files: &CertificateFiles) -> Result<usize, String> {
        let names = (files.chain.clone(), files.key.clone());
        if let Some(known) = self.known.get(&names) {
            return Ok(*known);
        }
        let (pair, warning) = read_pair(files)?;
        let number = self.pairs.len();
        self.known.insert(names, number);
        self.files.push(Files::new(files, &pair));
        self.pairs.push(pair);
        self.warnings.extend(warning);
        Ok(number)
    }

    fn clients(
        &mut self,
        site: &SiteSettings,
        settings: &Settings,
    ) -> Result<Option<ClientAuth>, String> {
        let known = self.clients.iter().find(|known| known.files == site.tls.clients);
        if let Some(known) = known {
            return Ok(Some(known.auth.clone()));
        }
        let read = Clients::read(site, settings, self.clients.len())?;
        let auth = read.as_ref().map(|clients| clients.auth.clone());
        self.clients.extend(read);
        Ok(auth)
    }
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
    if secret.is_open_to_all() {
        let mode = secret.mode;
        let why = format!("holds a key and is open to all users (mode {mode:04o}): chmod 600");
        return Err(blame(key, why));
    }
    let warning = secret.is_open_to_group().then(|| {
        blame(key, format!("holds a key and is open to its group (mode {:04o})", secret.mode))
    });
    let read_chain = if chain == key { None } else { Some(read(chain)?) };
    let certificates = read_chain.as_ref().map_or(&secret.bytes, |file| &file.bytes);
    let pair = Pair::from_pem(certificates, &secret.bytes).map_err(|fault| {
        let path = if fault.is_of_chain() { chain } else { key };
        blame(path, fault.to_string())
    })?;
    Ok((pair, warning))
}

/// What is to be said of the time in which a certificate holds.
fn expiry(pair: &Pair, now_s: u64) -> Option<String> {
    let certificate = pair.certificate();
    if certificate.not_after_s < now_s {
        let days = (now_s - certificate.not_after_s) / 86_400;
        return Some(format!("holds a certificate that expired {days} days ago"));
    }
    (certificate.not_before_s > now_s).then(|| "holds a certificate of the future".to_owned())
}

/// The roots of tickets: those that there are, or that a file gives, or a new one.
fn roots_of(
    settings: &Settings,
    roots: &Roots,
    now_s: u64,
    warnings: &mut Vec<String>,
) -> Result<Roots, String> {
    let path = match &settings.tls.tickets {
        TicketKeys::Off => return Ok(Roots::default()),
        TicketKeys::Auto if roots.all.is_empty() => {
            return Ok(Roots { all: vec![draw()?], since_s: now_s });
        }
        TicketKeys::Auto => return Ok(roots.clone()),
        TicketKeys::File(path) => path,
    };
    let blame = |why: String| settings.blame("tls.tickets", format!("{} {why}", path.display()));
    let file: SecretFile = secret_file::read(path, FILE_BYTES_MAX)
        .map_err(|error| blame(format!("cannot be read: {error}")))?;
    if file.is_open_to_all() {
        return Err(blame(format!("is open to all users (mode {:04o}): chmod 600", file.mode)));
    }
    if file.bytes.len() < TICKET_BYTES_MIN {
        return Err(blame(format!("holds less than {TICKET_BYTES_MIN} bytes")));
    }
    if file.is_open_to_group() {
        warnings.push(blame(format!("is open to its group (mode {:04o})", file.mode)));
    }
    Ok(Roots { all: vec![Root::of_text(&file.bytes)], since_s: now_s })
}

/// A new root.
fn draw() -> Result<Root, String> {
    let mut root = [0; ROOT_BYTES];
    random::fill(&mut root).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(Root(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_replaced_every_week_and_the_one_before_is_kept_for_two_days() {
        let first = draw().unwrap();
        let mut roots = Roots { all: vec![first], since_s: 1_000 };
        assert!(!roots.turn(1_000 + ROOT_S - 1));
        let now_s = 1_000 + ROOT_S;
        assert!(roots.turn(now_s));
        assert_eq!((roots.all.len(), roots.all[1], roots.since_s), (2, first, now_s));
        assert!(roots.all[0] != first && !roots.turn(now_s + ROOT_KEPT_S - 1));
        assert!(roots.turn(now_s + ROOT_KEPT_S) && !roots.turn(now_s + ROOT_KEPT_S + 1));
        assert_eq!(roots.all.len(), 1);
    }

    #[test]
    fn roots_are_read_from_the_memory_that_they_were_put_in() {
        let roots = Roots { all: vec![draw().unwrap(), draw().unwrap()], since_s: 7 };
        let read = Roots::read(roots.in_memory().unwrap());
        assert_eq!((read.all, read.since_s), (roots.all, 7));
        let other = sealed::write(b"short").unwrap();
        assert!(Roots::read(other).all.is_empty());
    }
}
