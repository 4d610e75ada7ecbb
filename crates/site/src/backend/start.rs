//! What a link is made of, once it is to be made: at once, or when the request body is whole.

use std::sync::Arc;

use flyball_http::head::Content;
use flyball_http::{Method, OwnedRequest};

use super::environment::Environment;
use super::request::{StartRequest, name_of};
use super::upstream::Upstream;
use super::{Link, cgi, fastcgi, scgi};

/// A request that has no link yet, and what its program is told of it.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) environment: Environment,
    pub(super) to: To,
}

/// Who is asked.
#[derive(Debug)]
pub(super) enum To {
    /// A program, by the number of its rule, with the path beneath that of the rule.
    Program { rule: u32, below: Vec<u8> },
    /// A server.
    Server { upstream: Arc<Upstream>, is_scgi: bool },
}

impl Start {
    /// Whether the program cannot be asked without the length of the body (SCGI).
    pub(super) fn needs_length(&self) -> bool {
        matches!(self.to, To::Server { is_scgi: true, .. })
    }

    /// The body came in chunks, and is so long: as if the client had said so at once.
    pub(super) fn measured(&mut self, len: u64) {
        self.environment.unset("HTTP_TRANSFER_ENCODING");
        self.environment.set("CONTENT_LENGTH", len.to_string().as_bytes());
    }

    /// Begins what wants a link. Never blocks.
    pub(super) fn link(self, request: &OwnedRequest, id: &str) -> Box<dyn Link> {
        let Start { environment, to } = self;
        match to {
            // What is no part of the request is added by who starts the program.
            To::Program { rule, below } => {
                let start = StartRequest { rule, below, environment };
                cgi::begin(start, request, id)
            }
            To::Server { upstream, is_scgi: true } => scgi::begin(&upstream, &environment),
            To::Server { upstream, is_scgi: false } => {
                // RFC 9110, section 9.2.2.
                let repeats = matches!(
                    request.request().method(),
                    Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete
                );
                let name = name_of("fastcgi", request, id);
                fastcgi::begin(&upstream, environment, repeats, name)
            }
        }
    }
}

/// The length of a request body, as its head tells it; `None` when it comes in chunks.
pub(super) fn told_len(request: &OwnedRequest) -> Option<u64> {
    match request.request().content() {
        Content::None => Some(0),
        Content::Length(len) => Some(len),
        Content::Unknown => None,
    }
}
