//! What is told of a certificate, by whatever asks: `/status`, `/metrics`, `flyball check` and
//! `explain`.

use std::fmt::Write as _;

use flyball_http::date::format_date;
use flyball_sys::error_log::shown_in_line;
use flyball_tls::Certificate;
use serde_json::{Value, json};

use super::files::Source;
use super::hosts::shown;
use crate::words::lasting;

/// A certificate, as it is told.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its names and addresses; those that it is to have, where it is still to come.
    pub(crate) names: Vec<String>,
    /// Where it comes from.
    pub(crate) source: Source,
    /// Who issued it; empty where it is still to come.
    pub(crate) issuer: String,
    /// The kind of its key; empty where it is still to come.
    pub(crate) key: &'static str,
    /// Its number, by which those of one name are told apart; empty where it is still to come.
    pub(crate) serial: String,
    /// The last second in which it holds, since 1970; `None` where it is still to come.
    pub(crate) not_after_s: Option<u64>,
    /// When it is renewed, if that is known, in seconds since 1970.
    pub(crate) renews_at_s: Option<u64>,
    /// What failed last, if nothing has succeeded since.
    pub(crate) error: Option<String>,
}

impl Told {
    /// The first of its names.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map(String::as_str).unwrap_or_default()
    }

    /// For how many seconds it holds; below zero since it has expired.
    pub(crate) fn holds_s(&self, now_s: u64) -> Option<i64> {
        let not_after_s = self.not_after_s?.cast_signed();
        Some(not_after_s.saturating_sub(now_s.cast_signed()))
    }

    /// As one object, as `/status` has it.
    pub fn to_json(&self, now_s: u64) -> Value {
        json!({
            "name": self.name(),
            "names": self.names,
            "source": self.source.name(),
            "issuer": self.issuer,
            "key": self.key,
            "serial": self.serial,
            "not_after": self.not_after_s,
            "holds_s": self.holds_s(now_s),
            "renews_at": self.renews_at_s,
            "error": self.error,
        })
    }

    /// In words, in one line that a terminal shows as it is.
    pub fn to_text(&self, now_s: u64) -> String {
        let mut text = shown(&self.names);
        let _ = match self.not_after_s {
            Some(end_s) => {
                let _ = write!(text, ": {} by {}, until {}", self.key, self.issuer, date(end_s));
                match end_s.checked_sub(now_s) {
                    Some(left_s) => write!(text, ", {} left", lasting(left_s)),
                    None => write!(text, ", which was {} ago", lasting(now_s - end_s)),
                }
            }
            None => write!(text, ": still to come ({})", self.source.name()),
        };
        if let Some(renews_at_s) = self.renews_at_s {
            let _ = write!(text, ", renewed from {}", date(renews_at_s));
        }
        if let Some(error) = &self.error {
            let _ = write!(text, "; what failed last: {error}");
        }
        shown_in_line(&text)
    }
}

/// A time in seconds since 1970, as HTTP writes it.
fn date(s: u64) -> String {
    String::from_utf8_lossy(&format_date(s)).into_owned()
}

/// All names of a certificate: hosts, then addresses; its subject, if there are none.
pub(super) fn names_of(certificate: &Certificate) -> Vec<String> {
    let addresses = certificate.addresses.iter().map(ToString::to_string);
    let names: Vec<String> = certificate.names.iter().cloned().chain(addresses).collect();
    if names.is_empty() { vec![certificate.subject.clone()] } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_whose_it_is_and_until_when() {
        let mut told = Told {
            names: vec!["a.test".into(), "b\u{1b}.test".into()],
            source: Source::Files,
            issuer: "CN=an authority".into(),
            key: "ECDSA",
            serial: "1F".into(),
            not_after_s: Some(1_800_000_000),
            renews_at_s: None,
            error: None,
        };
        let until = "until Fri, 15 Jan 2027 08:00:00 GMT";
        let text = told.to_text(1_800_000_000 - 86_400);
        let expected =
            format!("a.test, b\\u{{1b}}.test: ECDSA by CN=an authority, {until}, 1 day left");
        assert_eq!(text, expected);
        assert!(told.to_text(1_800_000_060).ends_with(", which was 1 minute ago"));
        (told.not_after_s, told.error) = (None, Some("no answer".into()));
        told.source = Source::Acme;
        let text = told.to_text(0);
        assert!(
            text.ends_with(".test: still to come (acme); what failed last: no answer"),
            "{text}"
        );
        assert_eq!(told.to_json(0)["not_after"], Value::Null);
    }
}
