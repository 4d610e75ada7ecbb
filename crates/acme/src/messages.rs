//! What the master and the agent tell each other: a line of JSON for each message, to the agent on
//! its standard input and from it on its standard output. The two may be one socket.
//!
//! ```text
//! master                                          agent
//!   |---{"configure": {...}}----------------------->|   first, and once
//!   |<--{"certificate": {"names": .., "path": ..}}--|   what the storage has already
//!   |<--{"status": [..]}----------------------------|   of all, then of those that change
//!   |<--{"order-begins": {"name": ".."}}------------|
//!   |<--{"challenge-set": {"id": 1, ..}}------------|
//!   |---{"challenge-stands": {"id": 1}}------------>|   when each worker answers with it
//!   |<--{"challenge-clear": {"id": 1}}--------------|
//!   |<--{"order-ends": {"name": ".."}}--------------|
//!   |<--{"certificate": {"names": .., "path": ..}}--|
//!   |---{"renew": {"name": ".."}}------------------>|   by the operator's order
//!   |<--{"noted": {"name": "..", "how": "written"}}-|   when the storage has it
//!   |---{"revoke": {"name": ".."}}----------------->|
//! ```
//!
//! An agent whose input ends, or whose output cannot be written, ends.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;

/// Longest message in bytes, with its end of line.
pub const MESSAGE_MAX: usize = 4 << 20;

/// From one request of the operator for a certificate to the next that is passed on, in seconds:
/// authorities count orders of the same names, and issue few a week.
pub const ASKED_APART_S: u64 = 60;

/// From the master to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// What to do. An agent that is to do something else is ended, and another started:
    /// certificates that are no longer named stay in the storage.
    Configure(Box<Configuration>),
    /// All workers answer the challenge of this number.
    ChallengeStands {
        /// As in [`FromAgent::ChallengeSet`].
        id: u64,
    },
    /// They cannot.
    ChallengeFails {
        /// As in [`FromAgent::ChallengeSet`].
        id: u64,
        /// Why.
        why: String,
    },
    /// Order the certificate that has this name once more, now.
    Renew {
        /// One of its names.
        name: String,
    },
    /// Revoke the certificate that is there now and has this name, and order another.
    Revoke {
        /// One of its names.
        name: String,
    },
}

/// From the agent to the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// Let all workers answer a challenge, then say that it stands.
    ChallengeSet {
        /// Its number, which no other has while the agent runs.
        id: u64,
        /// What to answer.
        challenge: Challenge,
    },
    /// It is not needed any more. There is no answer.
    ChallengeClear {
        /// As in [`FromAgent::ChallengeSet`].
        id: u64,
    },
    /// An order for the certificate that has this name is under way, for whatever reason.
    OrderBegins {
        /// One of its names.
        name: String,
    },
    /// It has ended, with a certificate or without.
    OrderEnds {
        /// As in [`FromAgent::OrderBegins`].
        name: String,
    },
    /// The answer to [`ToAgent::Renew`] and [`ToAgent::Revoke`], before they are done.
    Noted {
        /// As it was told.
        name: String,
        /// Whether it will be done.
        how: Note,
    },
    /// What was asked of an agent before this one, less than [`ASKED_APART_S`] ago, in seconds.
    AskedBefore {
        /// One of its names.
        name: String,
        /// A renewal.
        renewal: Option<u64>,
        /// A revocation.
        revocation: Option<u64>,
    },
    /// A pair of key and chain lies ready: at the start, and when it is another.
    Certificate {
        /// The names that were asked for.
        names: Vec<String>,
        /// The file, with the key first and then the chain, the leaf first.
        path: PathBuf,
    },
    /// What is known about certificates: of all at the start, then of those where it has changed.
    Status(Vec<Status>),
}

/// How an agent has taken a request of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// The storage has it: where this agent ends, the next one does it.
    Written,
    /// The storage has not, and why: this agent does it, and no other.
    Unwritten(String),
    /// It is not done, and why.
    Refused(String),
}

/// What to answer an authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Challenge {
    /// At port 80, to `GET /.well-known/acme-challenge/TOKEN` for any host.
    Http01 {
        /// The last segment of the path.
        token: String,
        /// The body: `application/octet-stream`, nothing before or after.
        answer: String,
    },
    /// At port 443, in a handshake whose only protocol is `acme-tls/1`. Then the connection ends.
    TlsAlpn01 {
        /// The name that the authority asks for (SNI).
        name: String,
        /// The certificate, in PEM.
        chain: String,
        /// Its key, in PEM.
        key: String,
    },
}

/// What is known about one certificate. Times are seconds since 1970, UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// The names that were asked for.
    pub names: Vec<String>,
    /// Who issued it, as RFC 4514 writes names; empty when there is none.
    pub issuer: String,
    /// When it begins.
    pub not_before: Option<u64>,
    /// When it ends.
    pub not_after: Option<u64>,
    /// When it is renewed.
    pub renews_at: Option<u64>,
    /// Failures since the last success.
    pub failures: u32,
    /// What the last one was.
    pub error: Option<String>,
}
