//! Since when the first request of a connection had waited.

use std::net::SocketAddr;

use flyball_conn::{Arrival, ClientAddress, Needs, Peer, Turn};
use flyball_observe::counters::Owner;
use flyball_observe::histogram::Timing;

use crate::site::{REQUEST, accepted_from, give, perform, send, site};

const HEADER: &[u8] = b"PROXY TCP4 198.51.100.1 192.0.2.1 1 80\r\n";

/// Whether the age of a request is told whose client had said something when it was accepted, and
/// which is received in these parts.
fn is_told(address: ClientAddress, parts: &[&[u8]]) -> bool {
    let (_root, mut cx) = site();
    cx.account.blocks.set_owner(0, Owner { generation: 0, worker: None, process: 1 });
    cx.turn = Turn::new(|| 100_000_000, 0);
    cx.clients.address = address;
    cx.clients.trusted = vec!["192.0.2.0/24".parse().unwrap()];
    let arrival = Arrival::of(0, Some(60_000_000));
    let peer = Peer { arrival, ..SocketAddr::from(([192, 0, 2, 1], 1)).into() };
    let mut connection = accepted_from(peer, &mut cx);
    for part in parts {
        give(&mut connection, part, &mut cx);
        connection.go_on(&mut Needs::default(), &mut cx);
    }
    perform(&mut connection, &mut cx);
    connection.go_on(&mut Needs::default(), &mut cx);
    assert!(send(&mut connection, &mut cx) > 5);
    // What has no age is as old as the turn, and is counted at its end.
    let told = cx.account.blocks.totals();
    let times = told.timing(Timing::FirstByte);
    assert!(times.count() == 0 || times.sum_ns() == 40_000_000);
    times.count() > 0
}

#[test]
fn a_request_is_as_old_as_what_was_said_only_if_it_is_received_at_once() {
    let (first, rest) = REQUEST.split_at(9);
    assert!(is_told(ClientAddress::Peer, &[REQUEST]));
    assert!(!is_told(ClientAddress::Peer, &[first, rest]));
}

#[test]
fn the_wait_between_the_word_of_a_proxy_and_the_first_request_is_no_age() {
    let told = |parts: &[&[u8]]| is_told(ClientAddress::ProxyProtocol, parts);
    let both = [HEADER, REQUEST].concat();
    assert!(told(&[&both]));
    assert!(!told(&[HEADER, REQUEST]));
    assert!(!told(&[&both[..9], &both[9..]]));
}
