//! Why a request is refused, and why a connection ends.

use crate::Status;

/// A refusal of a request, found while its head or body is read. Copy, and maps to a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The request line or a field line breaks RFC 9112's grammar.
    Malformed,
    /// A line ended in LF without CR, or held a CR without LF (RFC 9112, section 2.2).
    BareLineEnd,
    /// A field line continued on the next line (RFC 9112, section 5.2).
    ObsoleteFold,
    /// `Host` missing in HTTP/1.1, given twice, or not a host (RFC 9112, section 3.2).
    BadHost,
    /// `Content-Length` malformed or given more than once (RFC 9112, section 6.3).
    BadLength,
    /// `Transfer-Encoding` together with `Content-Length`, or in HTTP/1.0, or repeated.
    AmbiguousFraming,
    /// A transfer coding other than `chunked` (RFC 9112, section 6.1).
    UnknownCoding,
    /// A chunk size, extension or trailer breaks RFC 9112, section 7.1.
    BadChunk,
    /// The request target is longer than the limit.
    TargetTooLong,
    /// The head is longer, or has more fields, than the limit.
    HeadTooLarge,
    /// The body is longer than the limit.
    BodyTooLarge,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    UnknownVersion,
    /// `Expect` holds something other than `100-continue` (RFC 9110, section 10.1.1).
    UnknownExpectation,
    /// The head or body did not arrive in time.
    TooSlow,
    /// No answer was found within the limit.
    AnswerOverdue,
    /// The client has as many connections as it may.
    TooManyConnections,
}

impl Refusal {
    /// The status that says so.
    pub fn status(self) -> Status {
        match self {
            Refusal::Malformed
            | Refusal::BareLineEnd
            | Refusal::ObsoleteFold
            | Refusal::BadHost
            | Refusal::BadLength
            | Refusal::AmbiguousFraming
            | Refusal::BadChunk => Status::BAD_REQUEST,
            Refusal::UnknownCoding => Status::NOT_IMPLEMENTED,
            Refusal::TargetTooLong => Status::URI_TOO_LONG,
            Refusal::HeadTooLarge => Status::HEADER_FIELDS_TOO_LARGE,
            Refusal::BodyTooLarge => Status::CONTENT_TOO_LARGE,
            Refusal::UnknownVersion => Status::VERSION_NOT_SUPPORTED,
            Refusal::UnknownExpectation => Status::EXPECTATION_FAILED,
            Refusal::TooSlow => Status::REQUEST_TIMEOUT,
            Refusal::AnswerOverdue => Status::SERVICE_UNAVAILABLE,
            Refusal::TooManyConnections => Status::TOO_MANY_REQUESTS,
        }
    }

    /// Seconds after which the client may try again, where that is all that is asked of it.
    pub fn retry_after_s(self) -> Option<u64> {
        match self {
            // Its other connections are closed when they have been idle for a while.
            Refusal::TooManyConnections => Some(10),
            _ => None,
        }
    }

    /// The content of the refusal: a line of text.
    pub(crate) fn text(self) -> String {
        [self.explain(), "\n"].concat()
    }

    /// One sentence for the client, sent as the body of the refusal.
    pub fn explain(self) -> &'static str {
        match self {
            Refusal::Malformed => "The request is not HTTP/1.1 as RFC 9112 defines it.",
            Refusal::BareLineEnd => "Every line of a request head must end in CR LF.",
            Refusal::ObsoleteFold => "A field value must not continue on the next line.",
            Refusal::BadHost => "HTTP/1.1 needs exactly one valid Host field.",
            Refusal::BadLength => "Content-Length must be one decimal number, given once.",
            Refusal::AmbiguousFraming => "The length of the request body is ambiguous.",
            Refusal::UnknownCoding => "The only transfer coding understood here is chunked.",
            Refusal::BadChunk => "The chunked request body is malformed.",
            Refusal::TargetTooLong => "The request target is too long.",
            Refusal::HeadTooLarge => "The request head is too large.",
            Refusal::BodyTooLarge => "The request body is too large.",
            Refusal::UnknownVersion => "This server speaks HTTP/1.0 and HTTP/1.1.",
            Refusal::UnknownExpectation => "The only expectation understood is 100-continue.",
            Refusal::TooSlow => "The request did not arrive in time.",
            Refusal::AnswerOverdue => "No answer was found in time; please try again.",
            Refusal::TooManyConnections => "Too many connections are open from your address.",
        }
    }
}

macro_rules! close_reasons {
    ($($(#[$doc:meta])* $name:ident $label:literal $why:literal),* $(,)?) => {
        /// Why a connection was closed. Copy, counted by the server, and explained to its users.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum CloseReason { $($(#[$doc])* $name),* }

        impl CloseReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &[CloseReason] = &[$(CloseReason::$name),*];

            /// A short name for metrics.
            pub fn label(self) -> &'static str {
                match self { $(CloseReason::$name => $label),* }
            }

            /// One sentence for readers of the counters.
            pub fn explain(self) -> &'static str {
                match self { $(CloseReason::$name => $why),* }
            }
        }
    };
}

close_reasons! {
    /// The client closed between requests.
    ClientDone "client-done" "The client closed the connection between two requests.",
    /// The client asked for it, or spoke HTTP/1.0 without keep-alive.
    Requested "requested" "The client asked for the connection to be closed after the answer.",
    /// The client closed while a request or its answer was under way.
    ClientGone "client-gone" "The client closed or reset the connection during a request.",
    /// The request was refused.
    Refused "refused" "The request was refused, and its framing was in doubt.",
    /// No request came within the keep-alive time.
    IdleTimeout "idle-timeout" "No further request came within the keep-alive time.",
    /// The head took too long.
    HeadTimeout "head-timeout" "The request head did not arrive within its time.",
    /// The body came in below the minimum rate.
    BodyTimeout "body-timeout" "The request body came in slower than the minimum data rate.",
    /// The client took nothing of the answer in its time.
    SendTimeout "send-timeout" "The client took nothing of the answer for too long.",
    /// The answer took too long.
    AnswerTimeout "answer-timeout" "The work behind the answer did not finish in time.",
    /// The request body was not read to its end.
    BodyUnread "body-unread" "The rest of an unwanted request body was too long to drain.",
    /// Its client had as many connections as it may.
    TooManyConnections "too-many-connections"
        "The client had as many connections as one address may have.",
    /// The file changed while its body was being sent.
    FileChanged "file-changed" "The file changed while it was sent; closing tells the client so.",
    /// Reading the file failed while its body was being sent.
    FileFailed "file-failed" "Reading the file failed while it was being sent.",
    /// The server is draining.
    Draining "draining" "The server is shutting down or handing over.",
    /// A system call on the socket failed.
    SocketError "socket-error" "The socket reported an error.",
    /// It was idle, or its client slow, and another connection needs its place.
    MadeRoom "made-room" "It was idle, or its client slow, and closed to make room for another.",
    /// What produces the body of an answer failed, or broke the length that the head promised.
    SourceFailed "source-failed" "What produced the answer failed; closing tells the client so.",
    /// The end of the body is the end of the connection: HTTP/1.0, and no length was known.
    EndsBody "ends-body" "The end of the connection was the end of a body of unknown length.",
    /// A header of the PROXY protocol was missing, malformed, or not the peer's to send.
    ProxyRefused "proxy-refused" "The PROXY header was missing, malformed or from a stranger.",
    /// TLS could not begin or go on.
    TlsFailed "tls-failed"
        "Client and server could not agree on TLS, or what came was not TLS.",
    /// It began by a record of TLS, where plain text is spoken.
    TlsInClear "tls-in-clear" "The client spoke TLS where plain text is spoken.",
    /// It was accepted while there was too much to do, and its client had probably given up.
    Discarded "discarded"
        "Under overload: its client had closed its end, or had waited for `governor.give-up`.",
    /// A measurement wants connections to end here.
    LabStage "lab-stage" "A setting for measurements ends connections at this stage.",
}

macro_rules! ends {
    ($($(#[$doc:meta])* $name:ident $word:literal),* $(,)?) => {
        /// How an answer has ended, as a log says it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum End { $($(#[$doc])* $name),* }

        impl End {
            /// The word of a line for it.
            pub fn word(self) -> &'static str {
                match self { $(End::$name => $word),* }
            }

            /// That of a word, if it is one of these.
            pub fn named(word: &[u8]) -> Option<End> {
                [$(($word, End::$name)),*].into_iter()
                    .find_map(|(own, end)| (own.as_bytes() == word).then_some(end))
            }
        }
    };
}

ends! {
    /// All of it was sent.
    Whole "whole",
    /// The request was refused before the site saw it, and all of the refusal was sent.
    Refused "refused",
    /// The client left.
    Left "left",
    /// Its time was over.
    Timeout "timeout",
    /// The file changed while it was sent.
    Changed "changed",
    /// Its body could not be read or made to its end, or its connection failed.
    Failed "failed",
    /// The server ended the connection.
    Cut "cut",
    /// Not known: its connection had too many lines that waited for their ends.
    Open "open",
}

impl End {
    /// That of an answer whose connection is over for this reason.
    pub fn of(reason: CloseReason) -> End {
        match reason {
            CloseReason::ClientDone | CloseReason::ClientGone => End::Left,
            CloseReason::IdleTimeout
            | CloseReason::HeadTimeout
            | CloseReason::BodyTimeout
            | CloseReason::SendTimeout
            | CloseReason::AnswerTimeout => End::Timeout,
            CloseReason::FileChanged => End::Changed,
            CloseReason::FileFailed
            | CloseReason::SourceFailed
            | CloseReason::TlsFailed
            | CloseReason::SocketError => End::Failed,
            _ => End::Cut,
        }
    }

    /// Whether a line that ends in this word, if it does, tells of an answer that was cut. A log
    /// whose lines end in other words says nothing of that.
    pub fn is_cut(line: &[u8]) -> bool {
        let word = line.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        End::named(word).is_some_and(|end| end != End::Whole)
    }
}
