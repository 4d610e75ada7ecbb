//! Handshakes of TLS: how many, of which kind, and how long they took.

use serde_json::{Value, json};

use super::histogram::Times;
use super::json::times;

/// What errors of TLS mean that those who load a server meet most, by a part of them.
const MEANINGS: [(&str, &str); 4] = [
    (
        "CaUsedAsEndEntity",
        "a CA's certificate is used as the server's: use --insecure, or make it with CA:FALSE",
    ),
    ("InvalidContentType", "this port seems to speak plain http"),
    (
        "UnknownIssuer",
        "no authority that is trusted signed it: name one by --ca, or use --insecure",
    ),
    ("NotValidForName", "the certificate is of another name"),
];

/// An error of TLS with what it means, where that is known.
fn in_words(why: String) -> String {
    match MEANINGS.iter().find(|(part, _)| why.contains(part)) {
        Some((_, meaning)) if !why.starts_with(meaning) => format!("{meaning} ({why})"),
        _ => why,
    }
}

/// Handshakes of connections that count, from the end of connecting on.
#[derive(Clone, Debug, Default)]
pub struct Handshakes {
    /// Those with an exchange of certificates.
    pub full: Times,
    /// Those that resumed an earlier session.
    pub resumed: Times,
    /// Connections that ended before theirs was done, for whatever reason.
    pub failed: u64,
    /// What the first one agreed on: version, cipher suite and group.
    pub agreed: Option<String>,
    /// Why the first one failed, where TLS itself says so.
    pub failure: Option<String>,
}

impl Handshakes {
    /// One was done, within so many nanoseconds.
    pub(crate) fn done(&mut self, is_resumed: bool, took_ns: u64) {
        if is_resumed { &mut self.resumed } else { &mut self.full }.record(took_ns);
    }

    /// Takes down what was agreed on, if that is not known.
    pub(crate) fn agree(&mut self, agreed: impl FnOnce() -> String) {
        if self.agreed.is_none() {
            self.agreed = Some(agreed());
        }
    }

    /// Takes down why one failed, if no other was before it.
    pub(crate) fn failed_by(&mut self, why: Option<String>) {
        if self.failure.is_none() {
            self.failure = why.map(in_words);
        }
    }

    /// Whether there was any.
    pub(crate) fn is_any(&self) -> bool {
        self.full.count() + self.resumed.count() + self.failed > 0
    }

    /// Adds those of another thread or machine.
    pub(crate) fn merge(&mut self, other: &Handshakes) {
        self.full.merge(&other.full);
        self.resumed.merge(&other.resumed);
        self.failed += other.failed;
        if let Some(agreed) = &other.agreed {
            self.agree(|| agreed.clone());
        }
        self.failed_by(other.failure.clone());
    }

    /// As a part of a report; null where there was none.
    pub(crate) fn json(&self) -> Value {
        if !self.is_any() {
            return Value::Null;
        }
        json!({
            "full": self.full.count(),
            "resumed": self.resumed.count(),
            "failed": self.failed,
            "full_us": times(&self.full),
            "resumed_us": times(&self.resumed),
            "agreed": self.agreed,
            "failure": self.failure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Kind, Report};

    #[test]
    fn why_a_handshake_failed_is_told_in_words_once_and_where_the_run_is_void() {
        let ca = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        let told = in_words(ca.into());
        assert!(told.starts_with("a CA's certificate is used as the server's: use --insecure"));
        assert!(told.ends_with(&format!("({ca})")), "{told}");
        assert_eq!(in_words(told.clone()), told, "those of threads are put together");
        assert_eq!(in_words("something else".into()), "something else");
        let mut report = Report::default();
        report.tally.error(Kind::Handshake, true);
        let clear = "received corrupt message of type InvalidContentType";
        report.tally.handshakes.failed_by(Some(clear.into()));
        let void = report.void_because();
        let why = "no request was sent: 1 times handshake: this port seems to speak plain http";
        assert!(void[0].starts_with(why), "{void:?}");
    }
}
