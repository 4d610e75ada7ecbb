//! Who clients are taken to be, and what each may take.

use flyball_http::{Name, Network, Remote, Request, forwarded};
pub use flyball_sys::clients::Seat;
use flyball_sys::clients::{Client, Holders, Rates};

/// Who clients are taken to be, and what each may take.
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// Who the client of a request is taken to be.
    pub address: ClientAddress,
    /// Proxies that are believed when they tell of a client.
    pub trusted: Vec<Network>,
    /// Most connections of one client address at a time, in all; `None` limits none.
    pub connections_per_address: Option<u64>,
    /// Most requests of one client address in a second, in all; `None` limits none.
    pub requests_per_address: Option<u64>,
    /// So many requests of one client address may come at once; `None` is those of a second.
    pub requests_burst: Option<u64>,
}

impl ClientSettings {
    /// Whether this proxy is believed.
    pub fn trusts(&self, proxy: Remote) -> bool {
        self.trusted.iter().any(|network| network.contains(proxy))
    }

    /// The client of a request on a connection of this one.
    pub fn of(&self, request: &Request<'_>, connected: Remote) -> Remote {
        match self.address.field() {
            None => connected,
            Some(name) => forwarded::client_of(request, name, connected, &self.trusted),
        }
    }

    /// Whether a trusted proxy says that the client of a request came by `https`, beside the field
    /// that names this client.
    pub fn says_https(&self, request: &Request<'_>, connected: Remote) -> bool {
        let field = self.address.field();
        field.is_some_and(|name| self.trusts(connected) && forwarded::says_https(request, name))
    }
}

/// Who the client of a request is taken to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAddress {
    /// The peer of the connection.
    #[default]
    Peer,
    /// Whom a trusted peer names in a header of the PROXY protocol before the first request.
    ProxyProtocol,
    /// Whom trusted proxies name in `Forwarded` (RFC 7239).
    Forwarded,
    /// Whom trusted proxies name in `X-Forwarded-For`.
    XForwardedFor,
}

impl ClientAddress {
    /// The field of a request that tells its client.
    fn field(self) -> Option<Name> {
        match self {
            ClientAddress::Forwarded => Some(Name::Forwarded),
            ClientAddress::XForwardedFor => Some(Name::XForwardedFor),
            ClientAddress::Peer | ClientAddress::ProxyProtocol => None,
        }
    }
}

/// The limits of each client; those that are not set cost nothing.
#[derive(Debug, Default)]
pub struct ClientLimits {
    connections: Option<Holders>,
    requests: Option<Rates>,
}

impl ClientLimits {
    /// Those that are counted there.
    pub fn new(connections: Option<Holders>, requests: Option<Rates>) -> ClientLimits {
        ClientLimits { connections, requests }
    }

    /// A connection from this client came to the process whose first block is `owner`. Without an
    /// address it stands for many, and is not limited.
    pub fn sit_down(&self, client: Remote, owner: usize) -> Seat {
        let (Some(holders), Some(address)) = (&self.connections, client.ip()) else {
            return Seat::Free;
        };
        holders.enter(Client::of(Some(address)), owner)
    }

    /// The connection is over.
    pub fn get_up(&self, seat: Seat) {
        if let (Some(holders), Seat::Counted(place)) = (&self.connections, seat) {
            holders.leave(place);
        }
    }

    /// The process with this block is dead, with all its connections.
    pub fn release(&self, owner: usize) {
        if let Some(holders) = &self.connections {
            holders.release(owner);
        }
    }

    /// A request from this client; without an address it is not limited.
    ///
    /// # Errors
    /// The seconds after which it may be asked again.
    pub fn ask(&self, client: Remote, now_ms: u64) -> Result<(), u64> {
        let (Some(rates), Some(address)) = (&self.requests, client.ip()) else { return Ok(()) };
        rates.take(Client::of(Some(address)), now_ms).map_err(|wait_ms| wait_ms.div_ceil(1_000))
    }
}
