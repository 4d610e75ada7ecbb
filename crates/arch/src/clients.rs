//! What one client may take of the server: connections at a time, and requests in a second. Both
//! hold over all workers, since what clients use is counted in memory that they share.

use std::io;
use std::net::IpAddr;

use flyball_sys::clients::{Client, Entered, Holders, Rates};

use crate::settings::Settings;

/// Clients whose connections are counted at a time, about: each takes a word for each worker that
/// it is connected to. Of those beyond, connections are not limited.
const HOLDERS_MAX: usize = 128 * 1024;

/// Clients whose requests are counted at a time; those that ask least make room.
const ASKERS_MAX: usize = 64 * 1024;

/// The limits of each client; those that nobody set cost nothing.
#[derive(Debug, Default)]
pub struct ClientLimits {
    connections: Option<Holders>,
    requests: Option<Rates>,
}

/// A connection as its client's limit sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// It is not counted.
    Free,
    /// It is counted there.
    Counted(u32),
    /// There is none: its client has as many as it may.
    Refused,
}

impl ClientLimits {
    /// Those of the settings. To be made before the first fork.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(settings: &Settings) -> io::Result<ClientLimits> {
        let connections =
            settings.clients.connections_per_address.map(|most| Holders::new(HOLDERS_MAX, most));
        let requests = settings.clients.requests_per_address.map(|per_s| {
            Rates::new(ASKERS_MAX, per_s as f64, settings.clients.requests_burst.unwrap_or(per_s))
        });
        Ok(ClientLimits { connections: connections.transpose()?, requests: requests.transpose()? })
    }

    /// A connection from this address came to the process whose first block is `owner`.
    pub(crate) fn sit_down(&self, address: IpAddr, owner: usize) -> Seat {
        let Some(holders) = &self.connections else { return Seat::Free };
        match holders.enter(Client::of(address), owner) {
            Entered::Counted(place) => Seat::Counted(place),
            Entered::Uncounted => Seat::Free,
            Entered::Full => Seat::Refused,
        }
    }

    /// The connection is over.
    pub(crate) fn get_up(&self, seat: Seat) {
        if let (Some(holders), Seat::Counted(place)) = (&self.connections, seat) {
            holders.leave(place);
        }
    }

    /// The process with this block is dead, with all its connections.
    pub(crate) fn release(&self, owner: usize) {
        if let Some(holders) = &self.connections {
            holders.release(owner);
        }
    }

    /// A request from this address.
    ///
    /// # Errors
    /// The seconds after which it may be asked again.
    pub(crate) fn ask(&self, address: IpAddr, now_ms: u64) -> Result<(), u64> {
        let Some(rates) = &self.requests else { return Ok(()) };
        rates.take(Client::of(address), now_ms).map_err(|wait_ms| wait_ms.div_ceil(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ClientSettings;

    fn limits(clients: ClientSettings) -> ClientLimits {
        ClientLimits::new(&Settings { clients, ..Settings::default() }).unwrap()
    }

    #[test]
    fn nothing_is_limited_unless_it_was_asked_for() {
        let limits = limits(ClientSettings::default());
        let address: IpAddr = [192, 0, 2, 1].into();
        assert_eq!(limits.sit_down(address, 0), Seat::Free);
        assert!((0..10_000).all(|_| limits.ask(address, 0).is_ok()));
    }

    #[test]
    fn a_seat_is_free_again_when_its_connection_is_over_or_its_process_dead() {
        let limits = limits(ClientSettings {
            connections_per_address: Some(2),
            ..ClientSettings::default()
        });
        let address: IpAddr = [192, 0, 2, 1].into();
        let (first, second) = (limits.sit_down(address, 0), limits.sit_down(address, 3));
        assert!(matches!((first, second), (Seat::Counted(_), Seat::Counted(_))));
        assert_eq!(limits.sit_down(address, 0), Seat::Refused);
        limits.get_up(Seat::Refused);
        assert_eq!(limits.sit_down(address, 0), Seat::Refused);
        limits.get_up(first);
        assert!(matches!(limits.sit_down(address, 0), Seat::Counted(_)));
        limits.release(3);
        assert!(matches!(limits.sit_down(address, 0), Seat::Counted(_)));
        assert_eq!(limits.sit_down(address, 0), Seat::Refused);
    }

    #[test]
    fn requests_have_their_rate_and_a_burst_of_a_second_unless_another_is_written() {
        let settings =
            ClientSettings { requests_per_address: Some(50), ..ClientSettings::default() };
        let address: IpAddr = [192, 0, 2, 1].into();
        let asked = |settings: &ClientSettings| {
            let limits = limits(settings.clone());
            (0..200).map(|_| u64::from(limits.ask(address, 0).is_ok())).sum::<u64>()
        };
        assert_eq!(asked(&settings), 50);
        assert_eq!(asked(&ClientSettings { requests_burst: Some(7), ..settings }), 7);
    }
}
