//! One certificate that the agent keeps: its names, the pair that is there, and what is due.

use serde::{Deserialize, Serialize};

use crate::agent::fault::Fault;
use crate::agent::ladder::Failures;
use crate::agent::pair::Pair;
use crate::agent::schedule::Schedule;
use crate::agent::storage::{Mark, Shelf, Storage};
use crate::configuration::Authority;
use crate::files::stem;
use crate::messages::{FromAgent, Status};
use crate::names::Name;

/// What the storage has of an order that failed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    #[serde(flatten)]
    failures: Failures,
    /// Why the last one has.
    #[serde(default)]
    why: Option<String>,
    /// By which configuration: another is tried at once.
    #[serde(default)]
    by: Option<u64>,
}

/// What failed last for a certificate, as the storage has it.
pub(crate) fn failed_last(storage: &Storage, stem: &str) -> Option<String> {
    storage.get::<Known>(Shelf::Failures, stem).ok()??.why
}

/// A certificate, there or to be ordered.
pub(crate) struct Entry {
    pub(crate) names: Vec<Name>,
    /// Name of its files.
    pub(crate) stem: String,
    pub(crate) schedule: Schedule,
    held: Option<Pair>,
    /// The file of the last look.
    seen: Option<Mark>,
    /// The number of the configuration.
    by: u64,
    error: Option<String>,
    /// What the master knows.
    told: Option<Status>,
}

impl Entry {
    /// What failed before is in the storage; a pair is only seen by [`look`](Entry::look).
    pub(crate) fn new(names: Vec<Name>, by: u64, storage: &Storage) -> Entry {
        let stem = names.first().map(stem).unwrap_or_default();
        let schedule = Schedule::default();
        let (held, seen, error, told) = (None, None, None, None);
        let mut entry = Entry { names, stem, schedule, held, seen, by, error, told };
        entry.recall(storage);
        entry
    }

    /// Takes over what another agent knows of failures, where that is more.
    pub(crate) fn recall(&mut self, storage: &Storage) {
        let known = storage.get::<Known>(Shelf::Failures, &self.stem).ok().flatten();
        let own = &mut self.schedule.failures;
        let is_more = |known: &Known| {
            known.failures.count > own.count && known.by.is_none_or(|by| by == self.by)
        };
        if let Some(known) = known.filter(is_more) {
            (*own, self.error) = (known.failures, known.why);
        }
    }

    /// Writes down what failed. Where that cannot be, it is known until the agent ends.
    pub(crate) fn note(&self, storage: &Storage) {
        let (failures, why) = (self.schedule.failures, self.error.clone());
        let known = Known { failures, why, by: Some(self.by) };
        let _ = storage.put(Shelf::Failures, &self.stem, &known);
    }

    /// The pair that is in the storage.
    pub(crate) fn held(&self) -> Option<&Pair> {
        self.held.as_ref()
    }

    /// Whether the storage has another file than at the last look, or none any more.
    pub(crate) fn is_other(&self, storage: &Storage) -> bool {
        let mark = storage.mark(Shelf::Certificates, &self.stem);
        !mark.is_ok_and(|mark| mark == self.seen)
    }

    /// Looks at the storage: whether there is another pair than before. What cannot be read is
    /// told, and as if it were not there. One that came from none of these authorities is used, and
    /// due at once: they were others when it was ordered, such as those for trials.
    pub(crate) fn look(&mut self, storage: &Storage, authorities: &[Authority]) -> bool {
        self.seen = storage.mark(Shelf::Certificates, &self.stem).unwrap_or(None);
        let pair = storage.pair(&self.stem).unwrap_or_else(|why| {
            self.error = Some(why);
            None
        });
        let is_new = pair
            .as_ref()
            .is_some_and(|pair| self.held.as_ref().is_none_or(|held| held.text != pair.text));
        match &pair {
            Some(pair) if pair.covers(&self.names) => {
                let by = pair.authority();
                let is_ours = |by| authorities.iter().any(|authority| authority.url() == by);
                self.schedule.holds(pair.leaf().into());
                self.schedule.is_foreign = by.is_some_and(|by| !is_ours(by));
            }
            _ => self.schedule.lacks(),
        }
        self.held = pair;
        is_new
    }

    /// The operator wants another pair, now.
    pub(crate) fn ask_for(&mut self, storage: &Storage) {
        // Where it stays, the next try is as late as it would be without the operator.
        let _ = storage.remove(Shelf::Failures, &self.stem);
        self.schedule.ask_for();
    }

    /// The operator wanted another pair, maybe of an agent before this one. What has failed since
    /// is waited for.
    pub(crate) fn is_asked_since(&mut self, storage: &Storage, at: u64) {
        match self.schedule.failures.last <= at {
            true => self.ask_for(storage),
            false => self.schedule.is_asked_for = true,
        }
    }

    /// A pair was ordered and written.
    pub(crate) fn succeeded(&mut self, storage: &Storage, authorities: &[Authority], now: u64) {
        self.error = None;
        self.look(storage, authorities);
        if let Some(pair) = &self.held {
            self.schedule.succeeded(pair.leaf().into(), now);
        }
    }

    /// A try has failed. `asked` is for how many seconds the authority wants not to be asked.
    pub(crate) fn failed(&mut self, now: u64, fault: &Fault, asked: Option<u64>) {
        self.error = Some(fault.why().to_owned());
        self.schedule.failures.add(now, fault.is_refusal(), asked);
    }

    /// For the operator.
    pub(crate) fn title(&self) -> &str {
        self.names.first().map(Name::as_str).unwrap_or_default()
    }

    /// Where the pair is, for the master.
    pub(crate) fn ready(&self, storage: &Storage) -> FromAgent {
        let path = storage.path(Shelf::Certificates, &self.stem);
        FromAgent::Certificate { names: self.names.iter().map(Name::to_string).collect(), path }
    }

    /// What is known about it, if the master does not know it yet.
    pub(crate) fn news(&mut self) -> Option<Status> {
        let status = self.status();
        if self.told.as_ref() == Some(&status) {
            return None;
        }
        self.told = Some(status.clone());
        Some(status)
    }

    fn status(&self) -> Status {
        let leaf = self.held.as_ref().map(Pair::leaf);
        Status {
            names: self.names.iter().map(Name::to_string).collect(),
            issuer: leaf.map(|leaf| leaf.issuer.clone()).unwrap_or_default(),
            not_before: leaf.map(|leaf| leaf.not_before_s),
            not_after: leaf.map(|leaf| leaf.not_after_s),
            renews_at: self.schedule.renews_at(),
            failures: self.schedule.failures.count,
            error: self.error.clone(),
        }
    }
}
