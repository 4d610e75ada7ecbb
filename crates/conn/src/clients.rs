//! Who clients are taken to be, and what each may take.

use std::sync::Arc;

use flyball_http::{Name, Network, Remote, Request, forwarded};
use flyball_site::Limit;
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

/// What clients take, and what they may take of the server. What is not counted is not limited, and
/// costs nothing.
#[derive(Clone, Debug, Default)]
pub struct ClientLimits {
    /// What each may take of the server.
    pub of_server: Limit,
    /// The connections that are counted.
    pub connections: Option<Arc<Holders>>,
    /// The requests that are counted.
    pub requests: Option<Arc<Rates>>,
}

impl ClientLimits {
    /// A connection from this client came to the process whose first block is `owner`.
    pub fn sit_down(&self, client: Remote, owner: usize) -> Seat {
        self.enter(&self.of_server, client, owner)
    }

    /// The same as a limit sees it. A client without an address stands for many, and is not
    /// limited.
    pub(crate) fn enter(&self, limit: &Limit, client: Remote, owner: usize) -> Seat {
        let (Some(holders), Some(most), Some(address)) =
            (&self.connections, limit.connections_per_address, client.ip())
        else {
            return Seat::Free;
        };
        holders.enter((limit.number, Client::of(Some(address))), most, owner)
    }

    /// A connection came that a limit counts with those of all clients.
    pub(crate) fn enter_among_all(&self, limit: &Limit, owner: usize) -> Seat {
        let (Some(holders), Some(most)) = (&self.connections, limit.connections) else {
            return Seat::Free;
        };
        holders.enter((limit.number, Client::of(None)), most, owner)
    }

    /// The connection is over, or not answered there any more.
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

    /// A request from this client, as a limit sees it; without an address it is not limited.
    ///
    /// # Errors
    /// The seconds after which it may be asked again.
    pub fn ask(&self, limit: &Limit, client: Remote, now_ms: u64) -> Result<(), u64> {
        let (Some(rates), Some(rate), Some(address)) =
            (&self.requests, &limit.requests, client.ip())
        else {
            return Ok(());
        };
        let asked = rates.take((limit.number, Client::of(Some(address))), rate, now_ms);
        asked.map_err(|wait_ms| wait_ms.div_ceil(1_000))
    }
}
