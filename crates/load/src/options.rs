//! What a user asks for: how much load, of what, and how.

use std::path::PathBuf;
use std::time::Duration;

use crate::engine::{Behaviour, Retries};
use crate::fileset::{Kind, Manifest};
use crate::observe::LATE_NS;
use crate::schedule::{Profile, Spread};
use crate::think::Think;
use crate::workload::{DynamicOptions, SurgeParameters};

/// How much load.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// New connections per second, each with its requests.
    Rate(Profile),
    /// New sessions per second.
    Sessions(Profile),
    /// Connections that are kept busy.
    Connections(u32),
    /// Requests per second, on so many connections that are kept.
    Requests(Profile, u32),
    /// Sessions when a log says that they began, so many times as fast.
    Replay(f64),
}

/// Which requests are of HTTP/1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http10 {
    /// None but those of a log that says so.
    #[default]
    Never,
    /// Those that are alone in their session, as in SPECweb99.
    Singles,
    /// All.
    Always,
}

/// What a user asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The URL to load.
    pub url: String,
    /// How much.
    pub load: Load,
    /// How arrivals scatter.
    pub spread: Spread,
    /// What is asked for.
    pub asking: Asking,
    /// How long sessions begin, warm-up included.
    pub duration: Duration,
    /// What of it is not counted.
    pub warmup: Duration,
    /// A session that begins later than this is late; with more than one in a hundred of them it is
    /// the client that is measured.
    pub late_after: Duration,
    /// How long a reply is waited for, connecting included; with retries that of each try.
    pub timeout: Duration,
    /// How long a connection is waited for; `None` is as long as for a reply.
    pub connect_timeout: Option<Duration>,
    /// How long the first byte of a reply is waited for; `None` is as long as for all of it.
    pub first_byte_timeout: Option<Duration>,
    /// Latency up to which a reply is good; `None` is the time-out.
    pub deadline: Option<Duration>,
    /// How often a client tries again, and what it waits before it.
    pub retries: Retries,
    /// Requests on a connection; `None` is one at a rate, and no limit of connections kept busy.
    pub requests_per_connection: Option<u32>,
    /// Requests after which the run is over, if that is before its time; `None` is no such number.
    pub requests: Option<u64>,
    /// Time between a reply and the next request of its session.
    pub think: Think,
    /// How every client behaves.
    pub behaviour: Behaviour,
    /// How every client speaks TLS, if the URL is of https.
    pub tls: Tls,
    /// Threads.
    pub threads: u32,
    /// What everything random comes from.
    pub seed: u64,
    /// The method.
    pub method: String,
    /// Field lines of every request.
    pub fields: Vec<String>,
    /// The body of every request.
    pub body: Vec<u8>,
    /// Which requests are of HTTP/1.0.
    pub http10: Http10,
    /// Share of requests that are conditional.
    pub conditional: f64,
    /// Whether a wrong line of a log, and what may run out, is an error, and not only told.
    pub strict: bool,
    /// The mix that the files of a set are asked for by; `None` is that of its own kind.
    pub mix: Option<Kind>,
    /// The dynamic part of a mix of SPECweb99; `None` is files alone.
    pub dynamic: Option<DynamicOptions>,
    /// Off periods of SURGE within sessions.
    pub surge: Option<SurgeParameters>,
    /// Longest pause within a session of one client of an access log; `None` makes each of its
    /// requests a session.
    pub client_gap: Option<Duration>,
    /// Bytes of the distinct files at which an access log is cut off.
    pub data_set: Option<u64>,
    /// Requests of an access log that may change something are left out.
    pub safe: bool,
    /// The set whose files a list or a log asks for: replies are judged by it.
    pub set: Option<PathBuf>,
    /// A directory by the sizes of whose files replies are counted in classes.
    pub sizes_of: Option<PathBuf>,
    /// A directory with whose files bodies are compared.
    pub verify_with: Option<PathBuf>,
    /// Whether it is counted second by second, too.
    pub series: bool,
}

/// How clients speak TLS; by default every handshake is full, and the system's authorities are
/// trusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// Whether every certificate is accepted.
    pub insecure: bool,
    /// The authorities that are trusted instead of the system's, in PEM.
    pub ca: Option<PathBuf>,
    /// The share of connections that resume an earlier session, of 0 to 1.
    pub resume: f64,
    /// The only group that is offered for the exchange of keys, such as `X25519`.
    pub group: Option<String>,
}

/// What is asked for at the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Asking {
    /// The URL itself.
    #[default]
    Url,
    /// Paths with weights, out of a file.
    List(PathBuf),
    /// The files of a set, made by `flyball fileset`, as often as its kind asks for each.
    Fileset(PathBuf),
    /// The paths of a set that is not at hand.
    Mix(Manifest),
    /// The sessions of a log of httperf.
    SessionLog(PathBuf),
    /// The requests of an access log.
    AccessLog(PathBuf),
}

impl Asking {
    /// Whether sessions have a length of their own, so that each has a connection of its own also
    /// where they follow each other.
    pub(crate) fn has_sessions(&self) -> bool {
        matches!(self, Asking::Fileset(_) | Asking::Mix(_) | Asking::SessionLog(_))
    }
}

impl Options {
    /// `load` on `url`, and everything else as it is by default.
    pub fn new(url: &str, load: Load) -> Options {
        Options {
            url: url.into(),
            load,
            spread: Spread::default(),
            asking: Asking::default(),
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            late_after: Duration::from_nanos(LATE_NS),
            timeout: Duration::from_secs(10),
            connect_timeout: None,
            first_byte_timeout: None,
            deadline: None,
            retries: Retries::default(),
            requests_per_connection: None,
            requests: None,
            think: Think::default(),
            behaviour: Behaviour::default(),
            tls: Tls::default(),
            threads: 1,
            seed: 1,
            method: "GET".into(),
            fields: Vec::new(),
            body: Vec::new(),
            http10: Http10::Never,
            conditional: 0.0,
            strict: false,
            mix: None,
            dynamic: None,
            surge: None,
            client_gap: None,
            data_set: None,
            safe: false,
            set: None,
            sizes_of: None,
            verify_with: None,
            series: false,
        }
    }

    /// How much faster than a log it goes.
    pub(crate) fn speed(&self) -> f64 {
        if let Load::Replay(speed) = self.load { speed } else { 1.0 }
    }

    /// Requests in a session of files; `None` is as many as the kind of the set has.
    pub(crate) fn requests_of_file_session(&self) -> Option<u32> {
        match self.load {
            Load::Requests(..) => Some(1),
            _ => self.requests_per_connection,
        }
    }

    /// Requests in a session of one URL.
    pub fn requests_per_session(&self) -> u32 {
        match self.load {
            // A closed loop draws session after session for the same connection.
            Load::Connections(_) => self.behaviour.pipeline,
            Load::Requests(..) => 1,
            _ => self.requests_per_connection.unwrap_or(1),
        }
    }
}
