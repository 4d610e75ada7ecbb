//! From what was asked for to a report: one run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use flyball_http::date::format_date;
use flyball_sys::clock;
use flyball_sys::netstat::Drops;

pub use crate::options::{Asking, Http10, Load, Options, Tls};

use crate::asking::{Source, source};
use crate::dial::Peer;
use crate::doubts;
use crate::engine::{self, Mode, Plan, Secure, Share, Timeouts};
use crate::expecting::expect;
use crate::observe::{Asked, Live, Report};
use crate::preflight;
use crate::schedule::{Profile, Schedule};
use crate::target::Target;
use crate::workload::{Catalog, Conditional, Limited, PostLog, Singles, Workload, fetch_log};

/// What a replay goes on for after its last arrival, so that it is within the run.
const AFTER_LAST: Duration = Duration::from_millis(1);

impl Options {
    /// What was asked for, for a report; the workload is not known yet.
    pub fn asked(&self) -> Asked {
        let (_, mode, load) = mode(self, None);
        Asked {
            url: self.url.clone(),
            mode: mode.into(),
            load,
            kept_connections: match self.load {
                Load::Connections(count) | Load::Requests(_, count) => Some(count),
                _ => None,
            },
            arrivals: self.spread.name().into(),
            workload: String::new(),
            skipped_lines: 0,
            seed: self.seed,
            duration: self.duration,
            warmup: self.warmup,
            late_after: self.late_after,
            timeout: self.timeout,
            deadline: self.deadline.unwrap_or(self.timeout),
            threads: self.threads,
            requests_per_session: 1.0,
            verify: self.behaviour.verify,
        }
    }
}

/// A run that is ready to start.
pub struct Job {
    /// The run.
    pub plan: Plan,
    workload: Box<dyn Workload>,
    asked: Asked,
    is_local: bool,
    /// The script whose log of posts is looked at after the run, and the `Host` to ask with.
    posts_to: Option<(String, String)>,
    notes: Vec<String>,
}

impl Job {
    /// Reads and resolves what the options name, makes the requests, and looks whether this
    /// machine can send them. Blocks on the resolver and the disk.
    ///
    /// # Errors
    /// What is wrong, and what to do about it.
    pub fn prepare(options: &Options) -> Result<Job, String> {
        Job::prepare_share(options, Share::ALL)
    }

    /// As [`Job::prepare`], for a part of the load that several machines generate together.
    ///
    /// # Errors
    /// As [`Job::prepare`].
    pub fn prepare_share(options: &Options, share: Share) -> Result<Job, String> {
        let target = Target::resolve(&options.url, &options.tls)?;
        let mut catalog = Catalog::new(&target.authority, options.fields.clone());
        let Source { mut workload, mut words, notes: mut told, skipped_lines, starts_ns } =
            source(options, &target, &mut catalog)?;
        told.extend(expect(options, &target, &mut catalog)?);
        let duration = duration(options, starts_ns.as_deref())?;
        if options.conditional > 0.0 {
            let date = format_date(clock::unix_ms() / 1000);
            let offset = catalog.add_conditional(&String::from_utf8_lossy(&date));
            let share = options.conditional;
            workload = Box::new(Conditional::new(workload, share, offset, options.seed));
        }
        if options.http10 == Http10::Singles {
            workload = Box::new(Singles::new(workload, catalog.add_http10()));
            words += "; sessions of one request by HTTP/1.0";
        }
        if let Some(requests) = options.requests {
            workload = Box::new(Limited::new(workload, requests));
        }
        let (mode, _, _) = mode(options, starts_ns);
        let mut plan = Plan {
            addresses: target.addresses.clone(),
            mode,
            duration,
            warmup: options.warmup,
            threads: options.threads,
            seed: options.seed,
            behaviour: options.behaviour.clone(),
            secure: target
                .client
                .clone()
                .map(|client| Secure { client, resume: options.tls.resume }),
            timeouts: timeouts(options),
            retries: options.retries,
            requests_per_connection: requests_per_connection(options),
            connection_per_session: has_sessions(options),
            think: options.think,
            deadline: options.deadline.unwrap_or(options.timeout),
            series: options.series,
            share,
            catalog,
        };
        let mut notes: Vec<String> =
            preflight::spread(&mut plan, &target, options).into_iter().collect();
        notes.extend(preflight::check(&plan, &target, options)?);
        notes.append(&mut told);
        notes.extend(doubts::told(options, &target.path));
        let mut asked = options.asked();
        asked.workload = words;
        asked.skipped_lines = skipped_lines;
        asked.duration = duration;
        asked.requests_per_session = workload.requests_per_session();
        let posts_to = options.dynamic.as_ref();
        let posts_to = posts_to.map(|asked| (asked.script.clone(), target.authority.clone()));
        Ok(Job { plan, workload, asked, is_local: target.is_local(), posts_to, notes })
    }

    /// What whoever reads the report should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How it was asked for.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Runs it. Blocks until it is over; `live` shows how it goes, and `stop` ends it early.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn run(&self, live: &Arc<Live>, stop: &AtomicBool) -> io::Result<Report> {
        let start_ns = clock::monotonic_ns() + engine::LEAD.as_nanos() as u64;
        self.run_from(start_ns, live, stop)
    }

    /// As [`Job::run`], with the first arrival at `start_ns` of the monotonic clock.
    ///
    /// # Errors
    /// As [`Job::run`].
    pub fn run_from(
        &self,
        start_ns: u64,
        live: &Arc<Live>,
        stop: &AtomicBool,
    ) -> io::Result<Report> {
        let before = Drops::read().listen_drops;
        let started_unix_ms = clock::unix_ms();
        let tally = engine::run_from(&self.plan, &*self.workload, live, stop, start_ns)?;
        let post_log = self.post_log(tally.posts);
        let drops = Drops::read().listen_drops.saturating_sub(before);
        Ok(Report {
            asked: self.asked.clone(),
            started_unix_ms,
            tally,
            listen_drops: self.is_local.then_some(drops),
            classes: self.plan.catalog.classes.clone(),
            post_log,
            notes: self.notes.clone(),
            void: Vec::new(),
            interrupted: false,
        })
    }
}

impl Job {
    /// What the server has a record of, of so many posts that it answered.
    fn post_log(&self, answered: u64) -> Option<PostLog> {
        let (script, authority) = self.posts_to.as_ref()?;
        let address = *self.plan.addresses.first()?;
        let client = self.plan.secure.as_ref().map(|secure| &secure.client);
        // While others still post it is not whole.
        if self.plan.share.of > 1 {
            return None;
        }
        Some(fetch_log(Peer { address, client }, script, authority, answered))
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// How long sessions begin: a replay ends with its log.
///
/// # Errors
/// When there is no log to replay, or the warm-up is all of it.
fn duration(options: &Options, starts_ns: Option<&[u64]>) -> Result<Duration, String> {
    let mut duration = options.duration;
    if matches!(options.load, Load::Replay(_)) {
        let starts_ns = starts_ns.ok_or("--replay-times needs the times of a --log")?;
        let last_ns = starts_ns.last().copied().unwrap_or(0);
        duration = duration.min(Duration::from_nanos(last_ns) + AFTER_LAST);
    }
    if options.warmup >= duration {
        return Err("the --warmup must be shorter than the --duration".into());
    }
    Ok(duration)
}

/// The mode, and what it and the load are called; a replay is of sessions at `starts_ns`.
fn mode(options: &Options, starts_ns: Option<Arc<[u64]>>) -> (Mode, &'static str, String) {
    let schedule =
        |profile: &Profile| Schedule::Rate { profile: profile.clone(), spread: options.spread };
    let open = |profile: &Profile| Mode::Open(schedule(profile));
    match &options.load {
        Load::Rate(profile) => (open(profile), "open", profile.text().into()),
        Load::Sessions(profile) => (open(profile), "sessions", profile.text().into()),
        Load::Connections(count) => (Mode::Closed(*count), "closed", count.to_string()),
        Load::Requests(profile, count) => {
            (Mode::Kept(schedule(profile), *count), "kept", profile.text().into())
        }
        Load::Replay(speed) => {
            let starts_ns = starts_ns.unwrap_or_else(|| Arc::new([]));
            (Mode::Open(Schedule::Replay(starts_ns)), "replay", format!("x{speed}"))
        }
    }
}

/// Whether sessions have lengths of their own, and with them think times.
fn has_sessions(options: &Options) -> bool {
    let has_lengths = options.asking.has_sessions() || options.client_gap.is_some();
    has_lengths && !matches!(options.load, Load::Requests(..))
}

/// Requests after which a connection that is kept gives way to another.
fn requests_per_connection(options: &Options) -> Option<u32> {
    let are_kept = matches!(options.load, Load::Connections(_) | Load::Requests(..));
    options.requests_per_connection.filter(|_| are_kept)
}

fn timeouts(options: &Options) -> Timeouts {
    Timeouts {
        connect: options.connect_timeout.unwrap_or(options.timeout),
        first_byte: options.first_byte_timeout.unwrap_or(options.timeout),
        reply: options.timeout,
    }
}
