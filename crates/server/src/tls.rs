//! Certificates with their keys, read by the master before any child is forked, and what the
//! sessions of all workers go by.

mod clients;
mod files;
mod hosts;
mod internal;
mod kept;
mod roots;
mod told;
mod watched;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flyball_acme::messages::Status;
use flyball_arch::Renewals;
use flyball_arch::settings::{Settings, TicketKeys};
use flyball_site::hosts::Hosts;
use flyball_site::{CertificateFiles, CertificateSource, SiteSettings, Sites, Spread};
use flyball_sys::clock;
use flyball_sys::letterbox::Letterbox;
use flyball_sys::net::Endpoint;
use flyball_tls::{Bundle, ClientAuth, Config, Pair, Policy, Site, Tickets, Unknown};

use clients::Clients;
pub use files::FILE_BYTES_MAX;
use files::{Files, PairFiles, Source, Taken, pair_files};
pub use internal::{authority_in, root_path};
pub(crate) use kept::Kept;
use roots::{RootFile, Roots};
pub use told::Told;
use watched::Moment;

use crate::acme;
use crate::words::lasting;

/// Longest time between two looks, in milliseconds: keys of tickets follow from the time alone.
const LOOK_MS_MAX: u64 = 3_600_000;

/// Has these settings opened without writing: an authority of this machine that would have to be
/// made is one that is kept nowhere. Blocks on the disk.
pub(crate) fn write_nothing(settings: &mut Settings) {
    if internal::would_write(&settings.tls.internal, clock::unix_ms() / 1_000) {
        settings.tls.internal.clear();
    }
}

/// What workers speak TLS by.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Config,
    /// The sites by host, as names are led to them.
    hosts: Arc<Hosts>,
    roots: Roots,
    /// Where they come from, if that is a file.
    root_file: Option<RootFile>,
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

impl Tls {
    /// Reads all files; nothing where no address speaks TLS. Of roots of tickets a server draws its
    /// own if none are kept. Blocks on the disk.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn open(settings: &Settings, kept: &Kept) -> Result<Option<Tls>, String> {
        if !settings.speaks_tls() {
            return Ok(None);
        }
        let now_s = clock::unix_ms() / 1_000;
        let mut reader = Reader::new(kept, now_s);
        let sites: Vec<Site> = settings
            .sites
            .iter()
            .map(|site| reader.site(site, settings))
            .collect::<Result<_, _>>()?;
        let Reader { mut files, mut clients, mut warnings, .. } = reader;
        let pairs: Vec<Option<Pair>> = files.iter().map(|files| files.in_use().cloned()).collect();
        let to_come = files.iter().filter(|files| files.in_use().is_none());
        let to_come: Vec<String> = to_come.map(|files| files.told().names.join(", ")).collect();
        if !to_come.is_empty() {
            warnings.push(format!(
                "there is no certificate for {} yet; until there is one, handshakes for it fail",
                hosts::shown(&to_come)
            ));
        }
        warnings.extend(files.iter_mut().filter_map(|files| files.look_at_time(now_s)));
        warnings.extend(hosts::warnings(&settings.sites, &sites, &files));
        warnings.extend(clients.iter().flat_map(Clients::notes));
        warnings.extend(clients.iter_mut().filter_map(|clients| clients.warning(now_s)));
        let (roots, root_file) = kept.roots.after(settings, now_s, &mut warnings)?;
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
            root_file,
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
            tls.at(&listen.address, settings.number_of_hosts(listen))
                .map_err(|why| settings.blame("listen", format!("{listen}: {why}")))?;
        }
        Ok(Some(tls))
    }

    /// What is spoken by at this socket, where the hosts of this number are served.
    ///
    /// # Errors
    /// Never, after the whole was made once.
    pub(crate) fn at(&self, socket: &Endpoint, hosts: u16) -> Result<Config, String> {
        let address = socket.tcp().map(|address| address.ip());
        self.config.at(address, hosts, self.hosts.sites_at(hosts))
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
        sites.speak_tls(policy_of, |site| self.config.shows(site));
    }

    /// What is kept for the settings that take the place of these.
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            roots: self.roots.clone(),
            lists: self.clients.iter().filter_map(Clients::kept).collect(),
            pairs: self.files.iter().filter_map(Files::kept).collect(),
        }
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
            let Told { issuer, key, serial, .. } = told;
            let own = (told.name().to_owned(), issuer.clone(), *key, serial.clone());
            serial.is_empty() || known.insert(own)
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
        let watch_ms = settings.tls.watch_ms;
        let at = Moment { ms: now_ms, s: now_s, gone_ms_max: watch_ms };
        let is_watched = watch_ms != u64::MAX;
        self.look_at_files(is_watched, settings, at, &mut seen);
        self.look_at_clients(is_watched, at, &mut seen);
        let has_turned = self.look_at_roots(is_watched, settings, at, &mut seen);
        let has_others = self.keep(sites, &mut seen);
        if !seen.news.is_empty() || has_turned || has_others {
            seen.troubles.extend(self.hand_out().err());
        }
        seen
    }

    /// Looks which certificates were renewed, and which are about to end.
    fn look_at_files(
        &mut self,
        is_watched: bool,
        settings: &Settings,
        at: Moment,
        seen: &mut Seen,
    ) {
        for (number, files) in self.files.iter_mut().enumerate() {
            let looked = match files.source {
                Source::Files if !is_watched && !files.has_begun(at.s) => None,
                Source::Files | Source::Acme => files.look(at),
                Source::Internal => files
                    .issue(&settings.tls.internal, at.s)
                    .map(|issued| issued.map(|pair| Taken { pair, warning: None })),
            };
            match looked {
                None => {}
                Some(Ok(Taken { pair, warning })) => {
                    let left = lasting(pair.certificate().not_after_s.saturating_sub(at.s));
                    seen.news.push(format!("{} is in use; it holds {left}", files.shown()));
                    seen.troubles.extend(warning);
                    self.renewed.retain(|(known, _)| *known != number);
                    self.renewed.push((number, pair));
                }
                Some(Err(why)) => seen.troubles.push(why),
            }
            seen.troubles.extend(files.look_at_time(at.s));
        }
    }

    /// Looks whose certificates clients are to show now, and whether a list in use is over.
    fn look_at_clients(&mut self, is_watched: bool, at: Moment, seen: &mut Seen) {
        for clients in &mut self.clients {
            let looked = if is_watched { clients.look(at) } else { None };
            match looked {
                None => {}
                Some(Ok(notes)) => {
                    seen.news.push(clients.news());
                    seen.troubles.extend(notes);
                }
                Some(Err(why)) => seen.troubles.push(why),
            }
            seen.troubles.extend(clients.look_at_time(at.s));
        }
    }

    /// Looks whether the file that keys of tickets come from is another, and whether their root is
    /// old; whether there are other roots now.
    fn look_at_roots(
        &mut self,
        is_watched: bool,
        settings: &Settings,
        at: Moment,
        seen: &mut Seen,
    ) -> bool {
        let file = self.root_file.as_mut().filter(|_| is_watched);
        let looked = file.and_then(|file| Some((file.look(at)?, file.news())));
        let has_begun = match looked {
            None => false,
            Some((Ok(root), news)) => {
                let has_begun = self.roots.begin(root, at.s);
                seen.news.extend(has_begun.then_some(news));
                has_begun
            }
            Some((Err(why), _)) => {
                seen.troubles.push(why);
                false
            }
        };
        self.roots.turn(settings.tls.tickets == TicketKeys::Auto, at.s) || has_begun
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

/// What is read, each file once.
struct Reader<'a> {
    /// Where each pair was read, and the pair.
    files: Vec<Files>,
    known: HashMap<PairFiles, usize>,
    clients: Vec<Clients>,
    /// What the server had whose place is taken.
    before: &'a Kept,
    now_s: u64,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(before: &'a Kept, now_s: u64) -> Reader<'a> {
        let (files, known, clients) = (Vec::new(), HashMap::new(), Vec::new());
        Reader { files, known, clients, before, now_s, warnings: Vec::new() }
    }

    fn site(&mut self, site: &SiteSettings, settings: &Settings) -> Result<Site, String> {
        let pairs = match site.tls.source {
            _ if site.is_many() => Vec::new(),
            CertificateSource::Acme => vec![self.acme(site, settings)?],
            CertificateSource::Internal => vec![self.internal(site, settings)?],
            _ => {
                let is_own = has_own_files(site, settings);
                let pairs = site.tls.certificates.iter();
                pairs.map(|files| self.pair(files, site, is_own)).collect::<Result<_, _>>()?
            }
        };
        let clients = self.clients(site, settings)?;
        let policy = Policy { only_1_3: site.tls.only_1_3, clients };
        Ok(Site { pairs, policy, may_come: site.is_many() && site.tls.has_certificate() })
    }

    /// The number of a pair: the same for all sites that name the same files. Those that are a
    /// host's own are waited for.
    fn pair(
        &mut self,
        files: &CertificateFiles,
        site: &SiteSettings,
        is_own: bool,
    ) -> Result<usize, String> {
        let names = pair_files(files);
        if let Some(known) = self.known.get(&names) {
            self.files[*known].share(&site.hosts);
            return Ok(*known);
        }
        let before = self.before.pairs.get(&names).cloned();
        let mut files = Files::new(files, Source::Files, &site.hosts, before);
        let number = match is_own {
            true => self.wait_for(files),
            false => {
                self.warnings.extend(files.read(self.now_s)?);
                self.add(files)
            }
        };
        self.known.insert(names, number);
        Ok(number)
    }

    fn add(&mut self, files: Files) -> usize {
        self.files.push(files);
        self.files.len() - 1
    }

    /// The number of a pair of which the files may be still to come: what is in them, else what was
    /// in use, or nothing yet. What cannot be used is told, and is as if it were not there.
    fn wait_for(&mut self, mut files: Files) -> usize {
        if files.are_there() {
            let told = files.read(self.now_s);
            let told = told.unwrap_or_else(|why| files.refuse(why).into_iter().collect());
            self.warnings.extend(told);
        }
        self.add(files)
    }

    /// The number of a pair that the agent gets: it orders another for one that cannot be used.
    fn acme(&mut self, site: &SiteSettings, settings: &Settings) -> Result<usize, String> {
        let names = acme::names_of(site);
        let files = acme::files_of(&names, &settings.tls.acme.storage)?;
        let before = self.before.pairs.get(&pair_files(&files)).cloned();
        Ok(self.wait_for(Files::new(&files, Source::Acme, &names, before)))
    }

    /// The number of a pair that this machine's own authority issues.
    fn internal(&mut self, site: &SiteSettings, settings: &Settings) -> Result<usize, String> {
        let files = Files::issued(site, &settings.tls.internal, self.now_s)?;
        Ok(self.add(files))
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
        let mut read = Clients::read(site, settings, self.clients.len())?;
        if let Some(clients) = &mut read {
            self.warnings.extend(clients.keep_newer_of(&self.before.lists)?);
        }
        let auth = read.as_ref().map(|clients| clients.auth.clone());
        self.clients.extend(read);
        Ok(auth)
    }
}

/// Whether the files of a site are those of one host among many, and not named by the operator one
/// by one: one that is not there, or cannot be used, keeps no other host from being served.
fn has_own_files(site: &SiteSettings, settings: &Settings) -> bool {
    let Spread::Of(number) = site.spread else { return false };
    let all = settings.sites.get(number);
    all.is_some_and(|all| all.tls.certificates != site.tls.certificates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    /// Sites, and the files that they name by turns.
    const SITES: usize = 10_000;
    const FILES: usize = 3;

    #[test]
    fn ten_thousand_names_need_one_read_of_each_distinct_file() {
        let directory = tempfile::tempdir().unwrap();
        let paths = [0, 1, 2].map(|at| directory.path().join(format!("{at}.pem")));
        for path in &paths {
            let made = rcgen::generate_simple_self_signed(["*.test".to_owned()]).unwrap();
            fs::write(path, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        let (kept, settings) = (Kept::default(), Settings::default());
        let mut reader = Reader::new(&kept, 1_800_000_000);
        let mut read = |at: usize| {
            let (chain, key) = (paths[at % FILES].clone(), paths[at % FILES].clone());
            let mut site =
                SiteSettings { hosts: vec![format!("h{at}.test")], ..SiteSettings::default() };
            site.tls.certificates = vec![CertificateFiles { chain, key, ..Default::default() }];
            reader.site(&site, &settings).map(|site| site.pairs)
        };
        for at in 0..FILES {
            assert_eq!(read(at), Ok(vec![at]));
        }
        // A second read would find nothing.
        paths.iter().for_each(|path| fs::write(path, "").unwrap());
        for at in FILES..SITES {
            assert_eq!(read(at), Ok(vec![at % FILES]), "{at}");
        }
        assert_eq!(reader.files.len(), FILES);
    }
}
