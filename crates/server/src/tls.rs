//! Certificates with their keys, read by the master before any child is forked, and what the
//! sessions of all workers go by.

mod clients;
mod files;
mod internal;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_acme::messages::Status;
use flyball_arch::Renewals;
use flyball_arch::settings::{Settings, TicketKeys};
use flyball_site::hosts::Hosts;
use flyball_site::{CertificateFiles, CertificateSource, SiteSettings, Sites};
use flyball_sys::letterbox::Letterbox;
use flyball_sys::net::Address;
use flyball_sys::secret_file::{self, SecretFile};
use flyball_sys::{clock, random, sealed};
use flyball_tls::{
    Authority, Bundle, ClientAuth, Config, Pair, Policy, ROOT_BYTES, Root, Site, Tickets, Unknown,
};

use clients::Clients;
pub(crate) use files::{FILE_BYTES_MAX, Source, Told};
use files::{Files, expiry, read_pair};
pub use internal::root_path;

use crate::acme;

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

/// Whether this machine's own authority may vouch for a name or an address.
pub fn may_be_internal(name: &str) -> bool {
    Authority::may_issue(name)
}

/// What workers speak TLS by.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Config,
    /// The sites by host, as names are led to them.
    hosts: Arc<Hosts>,
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
    /// What authorities are shown and answered.
    challenges: Challenges,
    /// What is renewed is left there for workers.
    letterbox: Arc<Letterbox>,
    /// When to look again, in monotonic milliseconds.
    look_ms: u64,
    /// What the operator should know.
    warnings: Vec<String>,
}

/// What authorities are shown by name (RFC 8737), and answered by token (RFC 8555, section 8.3).
#[derive(Clone, Debug, Default)]
pub(crate) struct Challenges {
    pub(crate) shown: Vec<(String, Pair)>,
    pub(crate) answers: Vec<(String, String)>,
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
        if !settings.speaks_tls() {
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
            let Some(pair) = pair else {
                let name = files.told().names.join(", ");
                warnings.push(format!(
                    "there is no certificate for {name} yet; until there is one, handshakes for \
                     it fail"
                ));
                continue;
            };
            warnings.extend(expiry(pair, now_s).map(|why| files.blame(&why)));
        }
        warnings.extend(clients.iter_mut().filter_map(|clients| clients.warning(now_s)));
        let roots = roots_of(settings, roots, now_s, &mut warnings)?;
        let mut hosts = Hosts::new(&settings.sites);
        hosts.serve_at(&settings.lists_of_hosts());
        let hosts = Arc::new(hosts);
        let names = Arc::clone(&hosts);
        let site_of = move |listener, name: &str| names.choose_at(listener, name.as_bytes());
        let unknown = match settings.tls.rejects_unknown {
            true => Unknown::Reject,
            false => Unknown::Default,
        };
        let tickets = Arc::new(Tickets::new(&roots.all, now_s));
        let config = Config::new(pairs, sites, Box::new(site_of), tickets, unknown)
            .map_err(|why| settings.blame("listen", why))?;
        let letterbox = Letterbox::new().map_err(|error| format!("TLS: {error}"))?;
        let letterbox = Arc::new(letterbox);
        let tls = Tls {
            config,
            hosts,
            roots,
            files,
            renewed: Vec::new(),
            clients,
            secrets: Vec::new(),
            said: None,
            challenges: Challenges::default(),
            letterbox,
            look_ms: 0,
            warnings,
        };
        for listen in settings.listen.iter().filter(|listen| listen.tls) {
            tls.at(listen.address, settings.number_of_hosts(listen))
                .map_err(|why| settings.blame("listen", format!("{listen}: {why}")))?;
        }
        Ok(Some(tls))
    }

    /// What is spoken by at the socket of this address, where the hosts of this number are served.
    ///
    /// # Errors
    /// Never, after the whole was made once.
    pub(crate) fn at(&self, address: Address, hosts: u16) -> Result<Config, String> {
        self.config.at(address.ip(), hosts, self.hosts.sites_at(hosts))
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

    /// What is told of the certificates, of each once. `statuses` is what the agent knows of those
    /// that it gets.
    pub(crate) fn told(&self, statuses: &[Status]) -> Vec<Told> {
        let told = |files: &Files| {
            let mut told = files.told();
            let of_agent = |status: &&Status| {
                files.source == Source::Acme
                    && status.names.first().is_some_and(|name| files.is_of(name))
            };
            if let Some(status) = statuses.iter().find(of_agent) {
                told.renews_at_s = status.renews_at;
                told.error = told.error.or_else(|| status.error.clone());
            }
            told
        };
        let mut known = HashSet::new();
        let is_new = |told: &Told| {
            told.serial.is_empty() || known.insert((told.issuer.clone(), told.serial.clone()))
        };
        self.files.iter().map(told).filter(is_new).collect()
    }

    /// Has all workers answer authorities so, and no other way. A handshake that begins when this
    /// has returned is answered by it.
    ///
    /// # Errors
    /// When that cannot be handed to them.
    pub(crate) fn challenge(&mut self, challenges: Challenges) -> Result<(), String> {
        self.challenges = challenges;
        self.hand_out()
    }

    /// The files are looked at as soon as possible.
    pub(crate) fn look_soon(&mut self) {
        self.look_ms = 0;
    }

    /// Leaves what has changed for all workers.
    fn hand_out(&self) -> Result<(), String> {
        let bundle = Bundle {
            roots: self.roots.all.clone(),
            pairs: self.renewed.clone(),
            secrets: self.secrets.clone(),
            clients: self.clients.iter().map(|clients| clients.auth.clone()).collect(),
            challenges: self.challenges.shown.clone(),
            answers: self.challenges.answers.clone(),
        };
        let left = self.letterbox.leave(&bundle.to_bytes());
        self.config.take(bundle);
        left.map_err(|error| format!("certificates cannot be handed to workers: {error}"))
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
        for (number, files) in self.files.iter_mut().enumerate() {
            let looked = match files.source {
                Source::Files if !is_watched => None,
                Source::Files | Source::Acme => files.look(now_s),
                Source::Internal => files.issue(&settings.tls.internal, now_s),
            };
            match looked {
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
            seen.troubles.extend(self.hand_out().err());
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
    /// `None` where one is still to come.
    pairs: Vec<Option<Pair>>,
    /// Where each pair was read.
    files: Vec<Files>,
    known: HashMap<(PathBuf, PathBuf), usize>,
    clients: Vec<Clients>,
    warnings: Vec<String>,
}

impl Reader {
    fn site(&mut self, site: &SiteSettings, settings: &Settings) -> Result<Site, String> {
        let pairs = match site.tls.source {
            CertificateSource::Acme => vec![self.acme(site, settings)?],
            CertificateSource::Internal => vec![self.internal(site, settings)?],
            _ => {
                let pairs = site.tls.certificates.iter().map(|files| self.pair(files, site));
                pairs.collect::<Result<_, _>>()?
            }
        };
        let clients = self.clients(site, settings)?;
        Ok(Site { pairs, policy: Policy { only_1_3: site.tls.only_1_3, clients } })
    }

    /// The number of a pair: the same for all sites that name the same files.
    fn pair(&mut self, files: &CertificateFiles, site: &SiteSettings) -> Result<usize, String> {
        let names = (files.chain.clone(), files.key.clone());
        if let Some(known) = self.known.get(&names) {
            return Ok(*known);
        }
        let (pair, warning) = read_pair(files)?;
        let number = self.pairs.len();
        self.known.insert(names, number);
        self.files.push(Files::new(files, Source::Files, &site.hosts, Some(&pair)));
        self.pairs.push(Some(pair));
        self.warnings.extend(warning);
        Ok(number)
    }

    /// The number of a pair that the agent gets: what is in its storage, or nothing yet. What
    /// cannot be used is told, and is as if it were not there: the agent orders another.
    fn acme(&mut self, site: &SiteSettings, settings: &Settings) -> Result<usize, String> {
        let names = acme::names_of(site);
        let files = acme::files_of(&names, &settings.tls.acme.storage)?;
        let pair = match files.chain.try_exists() {
            Ok(false) => None,
            _ => match read_pair(&files) {
                Ok((pair, _)) => Some(pair),
                Err(why) => {
                    self.warnings.push(why);
                    None
                }
            },
        };
        let number = self.pairs.len();
        self.files.push(Files::new(&files, Source::Acme, &names, pair.as_ref()));
        self.pairs.push(pair);
        Ok(number)
    }

    /// The number of a pair that this machine's own authority issues.
    fn internal(&mut self, site: &SiteSettings, settings: &Settings) -> Result<usize, String> {
        let now_s = clock::unix_ms() / 1_000;
        let (files, pair) = Files::issued(site, &settings.tls.internal, now_s)?;
        let number = self.pairs.len();
        self.files.push(files);
        self.pairs.push(Some(pair));
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
