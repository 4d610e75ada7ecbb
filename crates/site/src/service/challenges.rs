//! What an authority looks for to see that a host is ours, in the clear (RFC 8555, section 8.3): an
//! answer of the server's own, before the rules of sites.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use flyball_http::{Method, Name, Request, Status};

use super::{Answer, Lookup, Service, Sites, page_body};

/// Beneath it is a challenge, and nothing is led to `https`.
pub(super) const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// Tokens that an authority asks for, and their answers.
#[derive(Debug, Default)]
pub(super) struct Challenges {
    all: RwLock<Vec<(String, Bytes)>>,
    has_any: AtomicBool,
}

impl Sites {
    /// From now on these tokens are answered so, for any host, and no others.
    pub fn answer_challenges(&self, answers: Vec<(String, String)>) {
        let Challenges { all, has_any } = &self.challenges;
        has_any.store(!answers.is_empty(), Relaxed);
        let answers = answers.into_iter().map(|(token, answer)| (token, Bytes::from(answer)));
        *all.write().unwrap_or_else(PoisonError::into_inner) = answers.collect();
    }
}

impl Challenges {
    /// Whether a request may be for one of them.
    pub(super) fn may_answer(&self, request: &Request<'_>) -> bool {
        self.has_any.load(Relaxed)
            && request.path().starts_with(CHALLENGES)
            && matches!(request.method(), Method::Get | Method::Head)
            && self.answer(request).is_some()
    }

    fn answer(&self, request: &Request<'_>) -> Option<Bytes> {
        let token = request.path().strip_prefix(CHALLENGES)?;
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(known, _)| known.as_bytes() == token).map(|(_, answer)| answer.clone())
    }
}

impl Service {
    /// The answer that an authority looks for.
    pub(super) fn answer_challenge(&mut self, request: &Request<'_>) -> Lookup<'_> {
        let answer = self.sites.challenges.answer(request).unwrap_or_default();
        self.fields.clear();
        self.fields.add(Name::ContentType, "application/octet-stream");
        self.fields.add_shown(Name::ContentLength, answer.len());
        self.fields.add(Name::CacheControl, "no-store");
        let body = page_body(request, answer);
        Lookup::Answer(Answer { status: Status::OK, fields: (&self.fields).into(), body })
    }
}
