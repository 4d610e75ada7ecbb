//! What one client may take of the server: connections at a time, and requests in a second. Both
//! hold over all workers, since what clients use is counted in memory that they share.

use std::io;

use flyball_conn::ClientLimits;
use flyball_sys::clients::{Holders, Rates};

use crate::settings::Settings;

/// Clients whose connections are counted at a time, about: each takes a word for each worker that
/// it is connected to. Of those beyond, connections are not limited.
const HOLDERS_MAX: usize = 128 * 1024;

/// Clients whose requests are counted at a time; those that ask least make room.
const ASKERS_MAX: usize = 64 * 1024;

/// Those of the settings. To be made before the first fork.
///
/// # Errors
/// When memory is out.
pub fn limits(settings: &Settings) -> io::Result<ClientLimits> {
    let connections =
        settings.clients.connections_per_address.map(|most| Holders::new(HOLDERS_MAX, most));
    let requests = settings.clients.requests_per_address.map(|per_s| {
        Rates::new(ASKERS_MAX, per_s as f64, settings.clients.requests_burst.unwrap_or(per_s))
    });
    Ok(ClientLimits::new(connections.transpose()?, requests.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ClientSettings;
    use flyball_conn::Seat;
    use flyball_http::Remote;

    fn limits(clients: ClientSettings) -> ClientLimits {
        super::limits(&Settings { clients, ..Settings::default() }).unwrap()
    }

    #[test]
    fn nothing_is_limited_unless_it_was_asked_for() {
        let limits = limits(ClientSettings::default());
        let address = Remote::Ip([192, 0, 2, 1].into());
        assert_eq!(limits.sit_down(address, 0), Seat::Free);
        assert!((0..10_000).all(|_| limits.ask(address, 0).is_ok()));
    }

    #[test]
    fn those_without_an_address_are_not_limited_by_it() {
        let limits = limits(ClientSettings {
            connections_per_address: Some(1),
            requests_per_address: Some(1),
            ..ClientSettings::default()
        });
        assert!((0..9).all(|_| limits.sit_down(Remote::Unix, 0) == Seat::Free));
        assert!((0..9).all(|_| limits.ask(Remote::Unix, 0).is_ok()));
    }

    #[test]
    fn a_seat_is_free_again_when_its_connection_is_over_or_its_process_dead() {
        let limits = limits(ClientSettings {
            connections_per_address: Some(2),
            ..ClientSettings::default()
        });
        let address = Remote::Ip([192, 0, 2, 1].into());
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
        let address = Remote::Ip([192, 0, 2, 1].into());
        let asked = |settings: &ClientSettings| {
            let limits = limits(settings.clone());
            (0..200).map(|_| u64::from(limits.ask(address, 0).is_ok())).sum::<u64>()
        };
        assert_eq!(asked(&settings), 50);
        assert_eq!(asked(&ClientSettings { requests_burst: Some(7), ..settings }), 7);
    }
}
