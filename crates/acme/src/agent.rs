//! The agent: keeps each certificate that it is told of, one thing after the other.

mod account;
mod certificates;
mod challenges;
mod channel;
mod confine;
mod entry;
mod fault;
mod https;
mod ladder;
mod lease;
mod order;
mod pair;
mod requests;
mod revoke;
mod schedule;
mod storage;
mod time;

pub use certificates::{About, Import, Imported, Kept, import, kept};

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use flyball_sys::error_log::Level;
use flyball_sys::process::hide_memory;
use flyball_sys::say;
use instant_acme::{Account, Error};

use crate::agent::challenges::Challenges;
use crate::agent::channel::{Channel, Gone};
use crate::agent::entry::Entry;
use crate::agent::fault::Fault;
use crate::agent::https::Https;
use crate::agent::ladder::Limiter;
use crate::agent::lease::{Holder, Lease};
use crate::agent::order::Orders;
use crate::agent::pair::Pair;
use crate::agent::requests::Requests;
use crate::agent::revoke::Revocations;
use crate::agent::schedule::Due;
use crate::agent::storage::{Shelf, Storage};
use crate::configuration::{Authority, Configuration, Kind};
use crate::messages::{Challenge, FromAgent, Status, ToAgent};
use crate::names::Name;

/// Between two looks at the storage, in seconds: another agent, or an import, may have written
/// there. It is the default of `tls.watch`, by which the master sees the same file.
const CHECK_EVERY: u64 = 60;

/// Between two looks while another agent orders, in seconds.
const BUSY_EVERY: u64 = 1;

/// Challenges of another agent that are answered.
const RELAYED_MAX: usize = 256;

/// After an authority could not be asked for advice, in seconds.
const ADVICE_PAUSE: u64 = 3_600;

/// Begins the files of rehearsals, and no name.
const REHEARSAL: &str = "_rehearsal.";

/// Runs the agent until its input ends.
///
/// # Errors
/// What it was told wrong, or why it cannot work at all.
pub fn run(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), String> {
    // It holds keys.
    hide_memory().map_err(|error| error.to_string())?;
    let mut input = BufReader::new(input);
    // Rights are given up while there is one thread.
    let configuration = match channel::read_message(&mut input, &mut Vec::new()) {
        Some(Ok(ToAgent::Configure(configuration))) => configuration,
        Some(Err(why)) => return Err(why),
        _ => return Err("the first message must be `configure`".into()),
    };
    let names = configuration.check()?;
    let root = &configuration.storage;
    let storage = Storage::open(root).map_err(|error| format!("{}: {error}", root.display()))?;
    confine::confine(&configuration).map_err(|error| error.to_string())?;
    let requests = Arc::new(Requests::new(storage.clone(), names.clone()));
    let noted = Arc::clone(&requests);
    let channel = Channel::new(input, output, move |message| noted.note(message));
    let mut agent = Agent::new(*configuration, names, (storage, requests), channel);
    loop {
        let wait = match agent.turn() {
            Ok(wait) => wait,
            Err(Gone(why)) => {
                say!(Level::Debug, "acme: {why}");
                return Ok(());
            }
        };
        match agent.channel.next(wait) {
            Ok(Some(message)) => agent.take(message)?,
            Ok(None) => {}
            Err(Gone(why)) => {
                say!(Level::Debug, "acme: {why}");
                return Ok(());
            }
        }
    }
}

struct Agent {
    configuration: Configuration,
    storage: Storage,
    requests: Arc<Requests>,
    revocations: Revocations,
    channel: Channel,
    entries: Vec<Entry>,
    /// By the URL of the directory.
    connections: HashMap<String, Connection>,
    limiters: HashMap<String, Limiter>,
    last_challenge: u64,
    /// Challenges of the agent that orders, by their names in the storage, with our numbers.
    relayed: HashMap<String, (u64, Challenge)>,
    /// For how many seconds an authority that failed wants not to be asked.
    asked: Option<u64>,
    check_at: u64,
    order_at: u64,
    advice_at: u64,
}

/// A number of all that decides whether an order succeeds: another one of another content.
fn number_of(configuration: &Configuration) -> u64 {
    let Configuration { authorities, email, challenges, dns_hook, .. } = configuration;
    let ways = serde_json::to_string(&(authorities, email, challenges, dns_hook));
    let mut hasher = DefaultHasher::new();
    ways.unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// An account that is open.
#[derive(Clone)]
struct Connection {
    account: Account,
    https: Https,
}

impl Agent {
    fn new(
        configuration: Configuration,
        names: Vec<Vec<Name>>,
        (storage, requests): (Storage, Arc<Requests>),
        channel: Channel,
    ) -> Agent {
        let by = number_of(&configuration);
        let entries = names.into_iter().map(|names| Entry::new(names, by, &storage)).collect();
        Agent {
            configuration,
            storage,
            requests,
            revocations: Revocations::default(),
            channel,
            entries,
            connections: HashMap::new(),
            limiters: HashMap::new(),
            last_challenge: 0,
            relayed: HashMap::new(),
            asked: None,
            check_at: 0,
            order_at: 0,
            advice_at: 0,
        }
    }

    fn take(&mut self, message: ToAgent) -> Result<(), String> {
        match message {
            // It has given up what another configuration may need.
            ToAgent::Configure(_) => return Err("it is configured already".into()),
            // What is asked for was written down when it came.
            ToAgent::Renew { name } | ToAgent::Revoke { name } => {
                if let Some(at) = self.requests.named(&name) {
                    let stem = self.entries[at].stem.clone();
                    self.recall(&stem, &self.requests.of(&stem));
                }
            }
            // Of challenges that are not waited for any more.
            ToAgent::ChallengeStands { .. } | ToAgent::ChallengeFails { .. } => {}
        }
        self.order_at = 0;
        Ok(())
    }

    /// Does one thing that is due; how long there is nothing to do.
    fn turn(&mut self) -> Result<Duration, Gone> {
        let now = time::unix();
        if now >= self.check_at {
            self.check_at = now + CHECK_EVERY;
            self.look()?;
            self.recall_requests()?;
        }
        if self.revocations.due(now) {
            self.revoke(now);
            return Ok(Duration::ZERO);
        }
        let due: Vec<Due> = self.entries.iter().map(|entry| entry.schedule.next(now)).collect();
        if !due.iter().any(|due| matches!(due, Due::Order { .. })) {
            self.forget_relayed()?;
        }
        for (at, due) in due.iter().enumerate() {
            match due {
                Due::Order { rehearse } if now >= self.order_at => {
                    self.attempt(at, *rehearse)?;
                    self.tell_status()?;
                    return Ok(Duration::ZERO);
                }
                Due::Ask if now >= self.advice_at => {
                    self.advise(at, now);
                    self.tell_status()?;
                    return Ok(Duration::ZERO);
                }
                _ => {}
            }
        }
        self.tell_status()?;
        let next = due.iter().map(|due| match due {
            Due::Order { .. } => self.order_at,
            Due::Ask => self.advice_at,
            Due::At(at) => *at,
        });
        let next =
            next.chain([self.check_at]).chain(self.revocations.next_at(now)).min().unwrap_or(now);
        Ok(Duration::from_secs(next.saturating_sub(now)))
    }

    /// Looks at the storage, and tells the master what is new there.
    fn look(&mut self) -> Result<(), Gone> {
        for at in 0..self.entries.len() {
            if self.entries[at].is_other(&self.storage) {
                self.look_at(at)?;
            }
        }
        Ok(())
    }

    fn look_at(&mut self, at: usize) -> Result<(), Gone> {
        match self.entries[at].look(&self.storage, &self.configuration.authorities) {
            true => self.channel.tell(&self.entries[at].ready(&self.storage)),
            false => Ok(()),
        }
    }

    fn tell_status(&mut self) -> Result<(), Gone> {
        let changed: Vec<Status> = self.entries.iter_mut().filter_map(Entry::news).collect();
        match changed.is_empty() {
            true => Ok(()),
            false => self.channel.tell(&FromAgent::Status(changed)),
        }
    }

    /// One try to get a certificate, from each authority until one issues it.
    fn attempt(&mut self, at: usize, rehearse: bool) -> Result<(), Gone> {
        let now = time::unix();
        let mut lease = match Lease::take(&self.storage.lock_path(), now, Holder::Agent) {
            Ok(Some(lease)) => lease,
            Ok(None) => {
                self.order_at = now + BUSY_EVERY;
                // Where it cannot be said, the other one does not wait for us.
                let _ = self.storage.wait();
                self.relay()?;
                return self.look_at(at);
            }
            Err(error) => {
                self.failed(at, &error.into());
                return Ok(());
            }
        };
        self.forget_challenges()?;
        // Another may have ordered until now.
        self.look_at(at)?;
        self.entries[at].recall(&self.storage);
        self.forget_what_is_done(at);
        if !matches!(self.entries[at].schedule.next(now), Due::Order { .. }) {
            return Ok(());
        }
        self.asked = None;
        let name = self.entries[at].title().to_owned();
        self.channel.tell(&FromAgent::OrderBegins { name: name.clone() })?;
        let stored = self.issue(at, rehearse, &mut lease).and_then(|pair| self.store(at, &pair));
        self.channel.tell(&FromAgent::OrderEnds { name })?;
        match stored {
            Err(Fault::Gone(gone)) => Err(gone),
            Err(fault) => {
                self.failed(at, &fault);
                Ok(())
            }
            Ok(()) => self.channel.tell(&self.entries[at].ready(&self.storage)),
        }
    }

    /// Answers the challenges of the agent that orders: it may be our workers that are asked.
    fn relay(&mut self) -> Result<(), Gone> {
        let mut there: HashMap<String, Challenge> = HashMap::new();
        let stems = self.storage.stems(Shelf::Challenges).unwrap_or_default();
        for stem in stems.into_iter().take(RELAYED_MAX) {
            if let Ok(Some(challenge)) = self.storage.get(Shelf::Challenges, &stem) {
                there.insert(stem, challenge);
            }
        }
        for (stem, (id, challenge)) in std::mem::take(&mut self.relayed) {
            if there.get(&stem) == Some(&challenge) {
                self.relayed.insert(stem, (id, challenge));
            } else {
                self.channel.tell(&FromAgent::ChallengeClear { id })?;
            }
        }
        for (stem, challenge) in there {
            if !self.relayed.contains_key(&stem) {
                self.last_challenge += 1;
                let id = self.last_challenge;
                self.relayed.insert(stem, (id, challenge.clone()));
                self.channel.tell(&FromAgent::ChallengeSet { id, challenge })?;
            }
        }
        Ok(())
    }

    /// Another agent has done with ordering.
    fn forget_relayed(&mut self) -> Result<(), Gone> {
        let relayed = std::mem::take(&mut self.relayed);
        relayed
            .into_values()
            .try_for_each(|(id, _)| self.channel.tell(&FromAgent::ChallengeClear { id }))
    }

    /// What an agent that was killed has left there, by the one that orders now.
    fn forget_challenges(&mut self) -> Result<(), Gone> {
        for stem in self.storage.stems(Shelf::Challenges).unwrap_or_default() {
            // One that stays is set again by agents that wait, and does no harm.
            let _ = self.storage.remove(Shelf::Challenges, &stem);
        }
        self.forget_relayed()
    }

    /// Asks the authorities in turn, the one first that has an order under way.
    fn issue(&mut self, at: usize, rehearse: bool, lease: &mut Lease) -> Result<Pair, Fault> {
        let mut authorities = self.configuration.authorities.clone();
        let underway = order::directory_of(&self.storage, &self.entries[at].stem);
        authorities.sort_by_key(|authority| Some(authority.url()) != underway.as_deref());
        let mut whys: Vec<String> = Vec::new();
        let mut last = Fault::Away("no authority".into());
        for authority in &authorities {
            match self.issue_from(authority, at, rehearse, lease) {
                Err(fault @ (Fault::Gone(_) | Fault::Here(_))) => return Err(fault),
                Err(fault) => {
                    whys.push(fault.at(authority.url()));
                    // One that has looked says more than one that is away.
                    if fault.is_refusal() || !last.is_refusal() {
                        last = fault;
                    }
                }
                issued => return issued.map(|pair| pair.by(authority.url())),
            }
        }
        let why = whys.join("; ");
        Err(if last.is_refusal() { Fault::Refused(why) } else { Fault::Away(why) })
    }

    /// Asks one authority: its staging first if it is a rehearsal, and with each challenge in front
    /// until one can be seen.
    fn issue_from(
        &mut self,
        authority: &Authority,
        at: usize,
        rehearse: bool,
        lease: &mut Lease,
    ) -> Result<Pair, Fault> {
        if let Some(staging) = authority.rehearsal().filter(|_| rehearse) {
            let stem = format!("{REHEARSAL}{}", self.entries[at].stem);
            self.by_each_kind(authority, staging, at, &stem, lease)?;
            self.storage.remove(Shelf::Orders, &stem)?;
        }
        let stem = self.entries[at].stem.clone();
        self.by_each_kind(authority, authority.url(), at, &stem, lease)
    }

    fn by_each_kind(
        &mut self,
        authority: &Authority,
        directory: &str,
        at: usize,
        stem: &str,
        lease: &mut Lease,
    ) -> Result<Pair, Fault> {
        let mut kinds = self.configuration.challenges.clone();
        let (mut tries, mut is_forgotten) = (kinds.len() - 1, false);
        loop {
            match self.order(authority, directory, (at, stem, &kinds), lease) {
                Err(Fault::NotShown(why)) if tries > 0 => {
                    say!(Level::Warn, "acme: {directory}: {why}; another challenge is tried");
                    tries -= 1;
                    kinds.rotate_left(1);
                }
                Err(Fault::Unknown(why)) if !is_forgotten => {
                    say!(Level::Warn, "acme: {directory}: {why}; another account is made");
                    is_forgotten = true;
                    self.connections.remove(directory);
                    account::forget(&self.storage, directory)?;
                }
                Err(fault) => {
                    self.connections.remove(directory);
                    return Err(fault);
                }
                issued => return issued,
            }
        }
    }

    fn order(
        &mut self,
        authority: &Authority,
        directory: &str,
        (at, stem, kinds): (usize, &str, &[Kind]),
        lease: &mut Lease,
    ) -> Result<Pair, Fault> {
        let Connection { account, https } = self.connection(authority, directory)?;
        let entry = &self.entries[at];
        let wanted = order::Wanted {
            directory,
            profile: authority.profile.as_deref(),
            names: &entry.names,
            stem,
            // Staging has not issued it.
            held: entry.held().filter(|_| !stem.starts_with(REHEARSAL)),
            kinds,
        };
        let mut orders = Orders {
            storage: &self.storage,
            lease,
            limiter: self.limiters.entry(directory.to_owned()).or_default(),
            https: &https,
            challenges: Challenges {
                channel: &mut self.channel,
                storage: &self.storage,
                hook: &self.configuration.dns_hook,
                last_id: &mut self.last_challenge,
            },
        };
        let issued = orders.issue(&account, &wanted);
        issued.inspect_err(|_| self.asked = self.asked.max(https.retry_after()))
    }

    /// The account with an authority, or with its staging.
    fn connection(&mut self, authority: &Authority, directory: &str) -> Result<Connection, Fault> {
        if let Some(connection) = self.connections.get(directory) {
            return Ok(connection.clone());
        }
        let https = Https::new(authority.roots.as_deref()).map_err(Fault::Here)?;
        let is_staging = directory != authority.url();
        let wanted = account::Wanted {
            directory,
            email: self.configuration.email.as_deref(),
            // Staging knows nothing of accounts elsewhere.
            external: authority.external.as_ref().filter(|_| !is_staging),
        };
        let opened = account::open(&self.storage, &wanted, &https);
        let account = opened.inspect_err(|_| self.asked = self.asked.max(https.retry_after()))?;
        let connection = Connection { account, https };
        self.connections.insert(directory.to_owned(), connection.clone());
        Ok(connection)
    }

    /// Puts a pair into the storage.
    fn store(&mut self, at: usize, pair: &Pair) -> Result<(), Fault> {
        let entry = &mut self.entries[at];
        self.storage.write(Shelf::Certificates, &entry.stem, pair.text.as_bytes())?;
        self.storage.remove(Shelf::Orders, &entry.stem)?;
        self.storage.remove(Shelf::Failures, &entry.stem)?;
        entry.succeeded(&self.storage, &self.configuration.authorities, time::unix());
        // Where it stays, the next agent sees by the serial number that it is done.
        let _ = self.requests.change(&entry.stem, |asked| asked.other_than = None);
        say!(Level::Info, "acme: a certificate for {} is there", entry.title());
        Ok(())
    }

    fn failed(&mut self, at: usize, fault: &Fault) {
        let now = time::unix();
        let asked = self.asked.filter(|_| matches!(fault, Fault::Away(_)));
        let entry = &mut self.entries[at];
        entry.failed(now, fault, asked);
        entry.note(&self.storage);
        let wait = entry.schedule.failures.until(now).saturating_sub(now);
        let (title, why) = (entry.title(), fault.why());
        let ends =
            match entry.held().map(|pair| pair.leaf().not_after_s.saturating_sub(now) / 3_600) {
                Some(hours) => format!("the certificate that is there has {hours} hours left"),
                None => "there is no certificate".into(),
            };
        say!(Level::Error, "acme: {title}: {why}; {ends}; the next try is in {wait} s");
    }

    /// Asks when a certificate should be renewed (RFC 9773): one of the authorities has issued it.
    fn advise(&mut self, at: usize, now: u64) {
        let Some(identifier) = self.entries[at].held().and_then(Pair::identifier) else {
            return self.entries[at].schedule.never_ask();
        };
        let mut is_unsupported = true;
        for authority in self.configuration.authorities.clone() {
            let Ok(connection) = self.connection(&authority, authority.url()) else {
                is_unsupported = false;
                continue;
            };
            match connection.https.finish(connection.account.renewal_info(&identifier)) {
                Ok((info, after)) => {
                    let window = &info.suggested_window;
                    let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
                    let start = seconds(window.start.unix_timestamp());
                    let end = seconds(window.end.unix_timestamp());
                    let schedule = &mut self.entries[at].schedule;
                    return schedule.advised(now, Some((start, end)), Some(after.as_secs()));
                }
                Err(Error::Unsupported(_)) => {}
                Err(error) => {
                    say!(Level::Debug, "acme: {}: {error}", authority.url());
                    is_unsupported &= matches!(error, Error::Api(_));
                }
            }
        }
        match is_unsupported {
            true => self.entries[at].schedule.never_ask(),
            false => self.advice_at = now + ADVICE_PAUSE,
        }
    }
}
