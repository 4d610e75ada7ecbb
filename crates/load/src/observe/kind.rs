//! How a request can fail.

use std::io;

use flyball_sys::net;

/// Why a session did not get its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No connection within its time, or with TLS no handshake.
    ConnectTimeout,
    /// The server's machine refused the connection.
    Refused,
    /// What was said in a handshake of TLS cannot be accepted: by the client, such as a certificate
    /// of an unknown authority, or by the server.
    Handshake,
    /// The connection was reset.
    Reset,
    /// Nothing of a reply within its time.
    FirstByteTimeout,
    /// Not all of a reply within its time.
    ReplyTimeout,
    /// The connection was closed in good order before a reply.
    Closed,
    /// The connection ended within a body, or a body ends before it should.
    ShortBody,
    /// A body, or a status, other than expected.
    WrongBody,
    /// A body that begins as expected and goes on otherwise.
    TornBody,
    /// A dynamic reply that breaks a rule of SPECweb99.
    WrongDynamic,
    /// A reply that is not HTTP.
    Malformed,
    /// Every connection that is kept was busy for as long as a reply is waited for, or too many
    /// requests waited for one.
    NoConnection,
    /// No way to the server's machine.
    Unreachable,
    /// This process has no descriptor left: the client is at its limit, not the server.
    NoDescriptor,
    /// No port left to connect from: the client is at its limit, not the server.
    NoPort,
    /// Anything else.
    Other,
}

/// Every kind, in the order of reports.
pub const KINDS: [Kind; 17] = [
    Kind::ConnectTimeout,
    Kind::Refused,
    Kind::Handshake,
    Kind::Reset,
    Kind::FirstByteTimeout,
    Kind::ReplyTimeout,
    Kind::Closed,
    Kind::ShortBody,
    Kind::WrongBody,
    Kind::TornBody,
    Kind::WrongDynamic,
    Kind::Malformed,
    Kind::NoConnection,
    Kind::Unreachable,
    Kind::NoDescriptor,
    Kind::NoPort,
    Kind::Other,
];

impl Kind {
    /// Its name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ConnectTimeout => "connect_timeout",
            Kind::Refused => "refused",
            Kind::Handshake => "handshake",
            Kind::Reset => "reset",
            Kind::FirstByteTimeout => "first_byte_timeout",
            Kind::ReplyTimeout => "reply_timeout",
            Kind::Closed => "closed",
            Kind::ShortBody => "short_body",
            Kind::WrongBody => "wrong_body",
            Kind::TornBody => "torn_body",
            Kind::WrongDynamic => "wrong_dynamic",
            Kind::Malformed => "malformed",
            Kind::NoConnection => "no_connection",
            Kind::Unreachable => "unreachable",
            Kind::NoDescriptor => "no_descriptor",
            Kind::NoPort => "no_port",
            Kind::Other => "other",
        }
    }

    /// True when a wait was given up: its length is known only to be at least that.
    pub fn is_timeout(self) -> bool {
        matches!(self, Kind::ConnectTimeout | Kind::FirstByteTimeout | Kind::ReplyTimeout)
    }

    /// True when it is the client that has come to a limit, so that the run says nothing about the
    /// server.
    pub fn is_of_client(self) -> bool {
        matches!(self, Kind::NoDescriptor | Kind::NoPort)
    }

    /// What an error of a socket means.
    pub fn of(error: &io::Error) -> Kind {
        match error.kind() {
            _ if net::is_out_of_descriptors(error) => Kind::NoDescriptor,
            io::ErrorKind::ConnectionRefused => Kind::Refused,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => Kind::Reset,
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Kind::NoPort,
            io::ErrorKind::TimedOut => Kind::ConnectTimeout,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Kind::Unreachable,
            _ => Kind::Other,
        }
    }
}
