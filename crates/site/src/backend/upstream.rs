//! A server that answers requests: where it is reached, and how many links may lead there. Who
//! drives connections has the links.

use std::io;

use flyball_sys::net::{self, Endpoint};
use flyball_sys::responder::Mark;

use super::Failure;
use super::environment::Environment;
use super::fastcgi::FastCgi;
use super::spares::Spares;

/// Where links lead: one for each table, shared by the threads of a process.
#[derive(Debug)]
pub struct Upstream {
    /// Among those of all sites.
    number: usize,
    server: Endpoint,
    /// The name of who connects to it.
    user: String,
    mark: Option<Mark>,
    bounds: LinkBounds,
    /// What is not received into at the moment: one for each thread that ever did.
    pub(super) buffers: Spares<Vec<u8>>,
    /// Variables of requests that are on their way.
    pub(super) environments: Spares<Environment>,
    /// Requests that have ended.
    pub(super) requests: Spares<Box<FastCgi>>,
}

/// How many links lead to an upstream, per worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBounds {
    /// Links that are kept for another request.
    pub idle_max: usize,
    /// Links that are in use; `None` is no limit.
    pub links_max: Option<usize>,
    /// Requests that wait for one.
    pub queue_max: usize,
}

/// Why there is no link.
#[derive(Debug)]
pub enum NoLink {
    /// As many are in use as may be, and as many requests wait.
    Full,
    /// It cannot be opened.
    Refused(io::Error),
    /// What is there is not what this server has made: it is told nothing.
    Foreign(&'static str),
    /// The process that starts programs cannot be asked for one.
    Unasked(io::Error),
}

impl Upstream {
    /// Where the server starts what answers, only sockets of that `mark` are told anything,
    /// wherever the name leads.
    pub(super) fn new(
        number: usize,
        server: Endpoint,
        user: String,
        mark: Option<Mark>,
        bounds: LinkBounds,
    ) -> Upstream {
        Upstream {
            number,
            server,
            user,
            mark,
            bounds,
            buffers: Spares::default(),
            environments: Spares::default(),
            requests: Spares::default(),
        }
    }

    /// Its number among those of all sites, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Where it listens.
    pub fn server(&self) -> &Endpoint {
        &self.server
    }

    /// What its sockets have, if this server makes them.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// How many links lead there.
    pub fn bounds(&self) -> LinkBounds {
        self.bounds
    }

    /// Where it listens, and who connects where that matters.
    fn shown(&self) -> String {
        match &self.server {
            Endpoint::Unix(_) => format!(" ({}, user {})", self.server, self.user),
            Endpoint::Tcp(_) => format!(" ({})", self.server),
        }
    }

    /// Whether links are kept after an answer.
    pub(super) fn keeps(&self) -> bool {
        self.bounds.idle_max > 0
    }
}

impl NoLink {
    /// What that means for a request to this server, if it is to one, and what the log says.
    pub(super) fn why(&self, upstream: Option<&Upstream>) -> (Failure, String) {
        match self {
            NoLink::Full => {
                let why = "as many links to its server are in use as may be, and as many wait";
                (Failure::Busy, why.into())
            }
            NoLink::Refused(error) => not_connected(upstream, error),
            NoLink::Foreign(why) => (Failure::Down, (*why).into()),
            NoLink::Unasked(error) => {
                let failure = match error.kind() {
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Failure::Down,
                    _ => Failure::Busy,
                };
                (failure, format!("a program cannot be asked for: {error}"))
            }
        }
    }
}

/// Why it is not reached.
pub(super) fn not_connected(upstream: Option<&Upstream>, error: &io::Error) -> (Failure, String) {
    let failure = match error.kind() {
        // The queue of a server at a Unix-domain socket is full.
        io::ErrorKind::WouldBlock => Failure::Busy,
        _ if net::is_out_of_descriptors(error) => Failure::Busy,
        _ => Failure::Down,
    };
    let shown = upstream.map(Upstream::shown).unwrap_or_default();
    (failure, format!("its server cannot be reached{shown}: {error}"))
}
