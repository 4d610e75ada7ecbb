//! What clients may take of the server, and of paths: connections at a time, and requests in a
//! second. Both hold over all workers, since what clients use is counted in memory that they share.

use std::io;
use std::sync::Arc;

use flyball_conn::ClientLimits;
use flyball_site::{Limit, limits};
use flyball_sys::clients::{Holders, Rates};

use crate::settings::Settings;

/// Clients whose connections are counted at a time, about: each takes a word for each worker that
/// it is connected to. Of those beyond, connections are not limited.
const HOLDERS_MAX: usize = 128 * 1024;

/// Clients whose requests are counted at a time; those that ask least make room.
const ASKERS_MAX: usize = 64 * 1024;

/// Those of the settings. What was counted `before` goes on to be counted. To be called before the
/// fork of the workers that go by them.
///
/// # Errors
/// When memory is out.
pub fn client_limits(
    settings: &Settings,
    before: Option<&ClientLimits>,
) -> io::Result<ClientLimits> {
    let clients = &settings.clients;
    let of_server = Limit {
        connections_per_address: clients.connections_per_address,
        requests: limits::rate(clients.requests_per_address, clients.requests_burst),
        bandwidth: settings.bandwidth,
        ..Limit::default()
    };
    let mut of_paths = settings.sites.iter().flat_map(|site| &site.limits);
    let counts_connections = of_server.connections_per_address.is_some()
        || of_paths.clone().any(|limit| limit.counts_connections());
    let counts_requests =
        of_server.requests.is_some() || of_paths.any(|limit| limit.requests_per_address.is_some());
    let ClientLimits { mut connections, mut requests, .. } = before.cloned().unwrap_or_default();
    if counts_connections && connections.is_none() {
        connections = Some(Arc::new(Holders::new(HOLDERS_MAX)?));
    }
    if counts_requests && requests.is_none() {
        requests = Some(Arc::new(Rates::new(ASKERS_MAX)?));
    }
    Ok(ClientLimits { of_server, connections, requests })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ClientSettings;
    use flyball_conn::Seat;
    use flyball_http::Remote;

    fn limits(clients: ClientSettings) -> ClientLimits {
        let settings = Settings { clients, ..Settings::default() };
        client_limits(&settings, None).unwrap()
    }

    #[test]
    fn nothing_is_limited_unless_it_was_asked_for() {
        let limits = limits(ClientSettings::default());
        let address = Remote::Ip([192, 0, 2, 1].into());
        assert_eq!(limits.sit_down(address, 0), Seat::Free);
        assert!((0..10_000).all(|_| limits.ask(&limits.of_server, address, 0).is_ok()));
    }

    #[test]
    fn those_without_an_address_are_not_limited_by_it() {
        let limits = limits(ClientSettings {
            connections_per_address: Some(1),
            requests_per_address: Some(1),
            ..ClientSettings::default()
        });
        assert!((0..9).all(|_| limits.sit_down(Remote::Unix, 0) == Seat::Free));
        assert!((0..9).all(|_| limits.ask(&limits.of_server, Remote::Unix, 0).is_ok()));
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
            (0..200)
                .map(|_| u64::from(limits.ask(&limits.of_server, address, 0).is_ok()))
                .sum::<u64>()
        };
        assert_eq!(asked(&settings), 50);
        assert_eq!(asked(&ClientSettings { requests_burst: Some(7), ..settings }), 7);
    }

    #[test]
    fn what_clients_have_taken_counts_under_other_limits_too() {
        let address = Remote::Ip([192, 0, 2, 1].into());
        let settings = |most, per_s| Settings {
            clients: ClientSettings {
                connections_per_address: most,
                requests_per_address: per_s,
                ..ClientSettings::default()
            },
            ..Settings::default()
        };
        let first = client_limits(&settings(Some(1), Some(2)), None).unwrap();
        let seat = first.sit_down(address, 0);
        assert!(first.ask(&first.of_server, address, 0).is_ok());
        let none = client_limits(&settings(None, None), Some(&first)).unwrap();
        assert_eq!(none.sit_down(address, 1), Seat::Free);
        let second = client_limits(&settings(Some(2), Some(4)), Some(&none)).unwrap();
        assert!(matches!(second.sit_down(address, 1), Seat::Counted(_)));
        assert_eq!(second.sit_down(address, 1), Seat::Refused);
        second.get_up(seat);
        assert!(matches!(second.sit_down(address, 1), Seat::Counted(_)));
        // Half a second of the one before, and half a second of these.
        let asked = (0..9).map(|_| second.ask(&second.of_server, address, 0).is_ok());
        assert_eq!(asked.filter(|asked| *asked).count(), 2);
    }
}
