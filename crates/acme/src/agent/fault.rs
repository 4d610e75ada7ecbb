//! Why an order failed, and what follows from it.

use std::io;

use instant_acme::{Error, Problem};

use crate::agent::channel::Gone;

/// Types of problems (RFC 8555, section 6.7) begin so.
const TYPES: &str = "urn:ietf:params:acme:error:";

/// Most characters of what an authority says that are told.
const WHY_MAX: usize = 1_000;

/// How often a request is made whose nonce is refused, beyond what the library does by itself.
const NONCE_TRIES: u32 = 8;

/// Why something failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The master has ended: nothing can be done any more.
    Gone(Gone),
    /// Here: the disk, a command, a worker. Other authorities cannot help.
    Here(String),
    /// The authority cannot be reached, has no time, or does not understand itself.
    Away(String),
    /// The authority says no.
    Refused(String),
    /// It could not see that a name is ours, in the way that was tried.
    NotShown(String),
    /// It does not know our account.
    Unknown(String),
}

impl Fault {
    /// For the operator.
    pub(crate) fn why(&self) -> &str {
        match self {
            Fault::Gone(Gone(why)) => why,
            Fault::Here(why) | Fault::Away(why) | Fault::Refused(why) => why,
            Fault::NotShown(why) | Fault::Unknown(why) => why,
        }
    }

    /// The same, with the authority that it was about.
    pub(crate) fn at(&self, directory: &str) -> String {
        match self.why() {
            // A request that failed is told with its URL, which is long enough once.
            why if why.contains(origin(directory)) => why.to_owned(),
            why => format!("{directory}: {why}"),
        }
    }

    /// Whether the authority has looked at the order, so that another try would be the same: it is
    /// rehearsed first.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Fault::Refused(_) | Fault::NotShown(_))
    }
}

impl From<Gone> for Fault {
    fn from(gone: Gone) -> Fault {
        Fault::Gone(gone)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Here(format!("the storage: {error}"))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let mut why = error.to_string();
        if let Some((at, _)) = why.char_indices().nth(WHY_MAX) {
            why.truncate(at);
            why.push_str("...");
        }
        match &error {
            Error::Api(problem) if is(problem, "accountDoesNotExist") => Fault::Unknown(why),
            Error::Api(problem) if is_away(problem) => Fault::Away(why),
            Error::Api(_) => Fault::Refused(why),
            Error::Crypto | Error::KeyRejected => Fault::Here(why),
            _ => Fault::Away(why),
        }
    }
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find('/').map_or(url.len(), |at| host + at);
    &url[..path]
}

fn is_away(problem: &Problem) -> bool {
    ["rateLimited", "serverInternal", "badNonce"].iter().any(|kind| is(problem, kind))
        || problem.status.is_some_and(|status| status >= 500)
}

/// Whether it is of this type.
pub(crate) fn is(problem: &Problem, kind: &str) -> bool {
    problem.r#type.as_deref().and_then(|known| known.strip_prefix(TYPES)) == Some(kind)
}

/// Makes a request until its nonce is taken (RFC 8555, section 6.5): one that is refused has done
/// nothing.
pub(crate) fn asked<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..NONCE_TRIES {
        match ask() {
            Err(Error::Api(problem)) if is(&problem, "badNonce") => {}
            answer => return answer,
        }
    }
    ask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_the_authority_is_told_once() {
        let directory = "https://ca.example:14000/a/long/way/to/the/directory";
        let told = |why: &str| Fault::Away(why.to_owned()).at(directory);
        assert_eq!(told("no time"), format!("{directory}: no time"));
        for why in [
            &format!("{directory}: refused"),
            "https://ca.example:14000/nonce: refused",
            &format!("the authority's answer to {directory} is not what RFC 8555 says: x"),
        ] {
            assert_eq!(told(why), *why);
        }
    }
}
