//! What the access log is told of a request and its answer.

use flyball_http::{Now, Request, Status};
use flyball_observe::log::{AccessLogWriter, Answered, LogSender};
use flyball_site::access::claimed_name;
use flyball_site::{Answer, Service};

/// Answers to those who may not have logged in, whatever name they gave.
const NOT_LOGGED_IN: [Status; 4] = [
    Status::UNAUTHORIZED,
    Status::FORBIDDEN,
    Status::TOO_MANY_REQUESTS,
    Status::SERVICE_UNAVAILABLE,
];

/// One thread's end of the access log, and what it must know of logins.
#[derive(Debug)]
pub struct RequestLog {
    /// Where the lines go.
    pub lines: AccessLogWriter,
    behind_login: bool,
    /// The name and password of a request, decoded; never longer than a head.
    decoded: Vec<u8>,
}

impl RequestLog {
    /// Lines to this log.
    pub fn new(log: &LogSender) -> RequestLog {
        let lines = AccessLogWriter::new(log);
        RequestLog { lines, behind_login: false, decoded: Vec::new() }
    }

    /// Looks whether one has to log in for what this request asks for, if the lines say who has:
    /// that of the next line.
    pub fn expect_login(&mut self, service: &mut Service, request: &Request<'_>) {
        if self.lines.names_users() && service.has_restrictions() {
            self.behind_login = service.asks_login(request);
        }
    }

    /// Adds the line of one request, when its answer is known. The length is that of the content
    /// that the answer promises, not what the client took of it. Never waits.
    pub fn write(&mut self, request: &Request<'_>, answer: &Answer<'_>, began_ns: u64, now: &Now) {
        if !self.lines.is_on() {
            return;
        }
        let is_behind = std::mem::take(&mut self.behind_login);
        let user = match is_behind && !NOT_LOGGED_IN.contains(&answer.status) {
            true => claimed_name(request, &mut self.decoded),
            false => None,
        };
        let answered = Answered { status: answer.status, bytes: answer.body.content_len(), user };
        self.lines.write(request, &answered, began_ns, now);
    }
}
