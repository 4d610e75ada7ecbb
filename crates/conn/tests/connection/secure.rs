//! A connection that speaks TLS, with a client of rustls.

use std::fs;
use std::io::{IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use flyball_conn::{
    ClientAddress, ClientLimits, Connection, Context, Needs, Order, Peer, SocketNeed, Unsealed,
};
use flyball_http::{CloseReason, Limits, Network, Now, Remote};
use flyball_observe::counters::{Counter, Owner};
use flyball_observe::histogram::Timing;
use flyball_site::{Limit, Out};
use flyball_sys::clients::Holders;
use flyball_tls::{Bundle, Config};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SupportedProtocolVersion,
};
use tempfile::TempDir;

use crate::site::{LAST, REQUEST, accepted_from, needs, perform, site};

/// Most turns of anything here.
const TURNS_MAX: usize = 10_000;

/// All that is to be sent.
fn gathered(out: &Out) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); 8];
    let (count, _) = out.gather(&mut slices);
    slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
}

/// Who connects.
fn peer(config: &Config) -> Peer {
    Peer { tls: Some(config.clone()), ..SocketAddr::from(([192, 0, 2, 1], 1)).into() }
}

/// A connection of a client that waits for nothing to leave.
fn client_of(clients: &Arc<ClientConfig>) -> ClientConnection {
    let name = "localhost".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::clone(clients), name).unwrap();
    client.set_buffer_limit(None);
    client
}

/// A site over TLS and a client of it, and what lies between them.
struct Pair {
    root: TempDir,
    config: Config,
    cx: Context,
    connection: Connection,
    clients: Arc<ClientConfig>,
    client: ClientConnection,
    /// What the client has read.
    read: Vec<u8>,
    /// Most bytes that a call of the server's takes or gives.
    step: usize,
    /// How often what the server had received was acknowledged.
    acknowledged: usize,
    over: Option<CloseReason>,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Pair {
        Pair::with(version, |_, _, _| {})
    }

    /// With other configurations of both sides.
    fn with(
        version: &'static SupportedProtocolVersion,
        change: impl FnOnce(&Config, &mut ClientConfig, flyball_tls::Pair),
    ) -> Pair {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let (chain, key) = (cert.pem(), signing_key.serialize_pem());
        let config = Config::of_one(chain.as_bytes(), key.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let mut provider = default_provider();
        provider.kx_groups = vec![kx_group::X25519];
        let mut clients = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let own = flyball_tls::Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        change(&config, &mut clients, own);
        let (root, mut cx) = site();
        let connection = accepted_from(peer(&config), &mut cx);
        let clients = Arc::new(clients);
        let client = client_of(&clients);
        let (read, step, acknowledged, over) = (Vec::new(), usize::MAX, 0, None);
        Pair { root, config, cx, connection, clients, client, read, step, acknowledged, over }
    }

    /// The same client connects once more.
    fn connect_again(&mut self) {
        self.connection = accepted_from(peer(&self.config), &mut self.cx);
        self.client = client_of(&self.clients);
        self.read.clear();
        self.acknowledged = 0;
    }

    /// What the client has to say.
    fn said(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut said).unwrap();
        }
        said
    }

    /// Drives the server until it waits for its client.
    fn drive(&mut self) {
        for _ in 0..TURNS_MAX {
            let (connection, cx) = (&mut self.connection, &mut self.cx);
            let mut wanted = Needs::default();
            connection.go_on(&mut wanted, cx);
            perform(connection, cx);
            if needs(connection).again {
                continue;
            }
            if wanted.over.is_some() {
                self.over = wanted.over;
                let words = connection.last_words();
                return self.tell(&words);
            }
            if let Some(need) = wanted.socket {
                match need {
                    SocketNeed::Shut => connection.shut(cx),
                    SocketNeed::Acknowledge => connection.acknowledged(),
                    SocketNeed::Pace(bytes_per_s) => connection.paced(bytes_per_s),
                    SocketNeed::Unsent(bytes) => connection.bounded(bytes),
                }
                self.acknowledged += usize::from(need == SocketNeed::Acknowledge);
                assert_ne!(needs(connection).socket, Some(need));
            } else if wanted.write {
                if let Unsealed::Memory = connection.unsealed() {
                    connection.seal();
                }
                let Some(out) = connection.out() else { continue };
                let mut bytes = gathered(out);
                bytes.truncate(self.step);
                connection.sent(bytes.len() as u64, cx);
                self.tell(&bytes);
            } else if !needs(connection).again {
                connection.rest(cx);
                return;
            }
        }
        panic!("it goes on for ever");
    }

    fn tell(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            let _ = self.client.process_new_packets();
            let _ = self.client.reader().read_to_end(&mut self.read);
        }
    }

    /// Gives bytes to the server, in pieces, and drives it.
    fn give(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.over.is_none() {
            assert!(
                needs(&self.connection).read,
                "it wants no more: {:?}",
                needs(&self.connection)
            );
            let space = self.connection.space(&mut self.cx);
            let n = rest.len().min(self.step).min(space.len());
            assert!(n > 0, "input is wanted, and there is no room for it");
            space[..n].copy_from_slice(&rest[..n]);
            self.connection.received(n, &mut self.cx);
            rest = &rest[n..];
            self.drive();
        }
    }

    /// Exchanges what both have to say, until they have said it.
    fn talk(&mut self) {
        for _ in 0..8 {
            let said = self.said();
            self.give(&said);
        }
    }

    fn ask(&mut self, request: &[u8]) {
        self.client.writer().write_all(request).unwrap();
        self.talk();
    }

    /// The client says that it sends no more, and closes its side.
    fn leave(&mut self) {
        self.client.send_close_notify();
        self.talk();
        self.connection.eof(&mut self.cx);
        self.drive();
    }

    fn has_read_the_end(&mut self) -> bool {
        self.client.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }
}

#[test]
fn an_answer_comes_however_the_bytes_are_cut() {
    for version in [&TLS12, &TLS13] {
        for step in [1, 2, 3, 5, 7, 16, 100, 1000, usize::MAX] {
            let mut pair = Pair::new(version);
            pair.step = step;
            pair.ask(REQUEST);
            let text = String::from_utf8_lossy(&pair.read).into_owned();
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "step {step}: {text}");
            assert!(text.ends_with("\r\n\r\nsmall"), "step {step}: {text}");
            assert_eq!(pair.over, None);
        }
    }
}

#[test]
fn a_last_answer_ends_with_the_notice_that_nothing_follows() {
    for step in [1, 13, usize::MAX] {
        let mut pair = Pair::new(&TLS13);
        pair.step = step;
        pair.ask(LAST);
        assert!(pair.read.ends_with(b"small") && pair.has_read_the_end());
        // Closed now, what its client says of its own end would reset it.
        assert_eq!(pair.over, None);
        pair.leave();
        assert_eq!(pair.over, Some(CloseReason::Requested));
    }
}

/// The time of lingering begins again with each byte, also with one of a record that is not whole.
#[test]
fn a_refused_client_that_goes_on_sending_is_heard() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::new(version);
        pair.ask(b"GET /small.txt HTTP/1.1\r\n\r\n");
        assert!(pair.read.starts_with(b"HTTP/1.1 400 ") && pair.has_read_the_end());
        let refused = pair.connection.deadline();
        pair.client.writer().write_all(&[b'x'; 10_000]).unwrap();
        let said = pair.said();
        for (at, byte) in (1..5).zip(said.chunks(1)) {
            pair.cx.now = Now::new(1_000 + at * 1_000, 1_000_000 + at * 1_000);
            pair.give(byte);
            assert_eq!(pair.connection.deadline(), refused + at * 1_000, "{version:?}");
        }
        assert_eq!(pair.over, None);
        pair.leave();
        assert_eq!(pair.over, Some(CloseReason::Refused));
    }
}

/// As in the clear, it is bounded how much.
#[test]
fn a_refused_client_that_sends_too_much_is_broken_off() {
    let mut pair = Pair::new(&TLS13);
    let linger_bytes_max = 20_000;
    pair.cx.limits = Arc::new(Limits { linger_bytes_max, ..Limits::default() });
    pair.connect_again();
    pair.ask(b"GET /small.txt HTTP/1.1\r\n\r\n");
    pair.client.writer().write_all(&[b'x'; 15_000]).unwrap();
    let said = pair.said();
    pair.give(&said);
    assert_eq!((pair.over, needs(&pair.connection).read), (None, true));
    pair.client.writer().write_all(&[b'x'; 15_000]).unwrap();
    let said = pair.said();
    pair.give(&said);
    assert!(!needs(&pair.connection).read, "it is read from for ever");
}

#[test]
fn a_request_and_the_end_at_once_are_answered() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::new(version);
        pair.client.writer().write_all(REQUEST).unwrap();
        let hello = pair.said();
        pair.give(&hello);
        if !pair.client.is_handshaking() {
            pair.client.send_close_notify();
        }
        pair.talk();
        pair.client.send_close_notify();
        pair.talk();
        assert!(pair.read.ends_with(b"small"), "{version:?}");
        assert_eq!(pair.over, Some(CloseReason::ClientDone));
    }
}

#[test]
fn the_last_word_of_a_handshake_is_acknowledged_where_nothing_that_is_sent_does() {
    for (version, times) in [(&TLS12, 0), (&TLS13, 1)] {
        let mut pair = Pair::new(version);
        pair.talk();
        assert_eq!((pair.client.is_handshaking(), pair.acknowledged), (false, times));
        for _ in 0..2 {
            pair.ask(REQUEST);
        }
        assert_eq!(pair.acknowledged, times, "for a request there is none");
        // The first request comes with that word.
        let mut pair = Pair::new(version);
        pair.ask(REQUEST);
        assert!(pair.read.ends_with(b"small"));
        assert_eq!(pair.acknowledged, 0);
        // Its socket has none.
        let mut pair = Pair::new(version);
        let peer = Peer { remote: Remote::Unix, ..peer(&pair.config) };
        pair.connection = accepted_from(peer, &mut pair.cx);
        pair.talk();
        assert_eq!((pair.client.is_handshaking(), pair.acknowledged), (false, 0));
    }
}

/// Its last word is the client's then, as with TLS 1.3 (RFC 5246, section 7.3).
#[test]
fn the_last_word_of_a_resumed_handshake_of_tls_1_2_is_acknowledged() {
    let mut pair = Pair::new(&TLS12);
    pair.ask(REQUEST);
    pair.connect_again();
    pair.talk();
    assert_eq!(pair.client.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!((pair.client.is_handshaking(), pair.acknowledged), (false, 1));
    for _ in 0..2 {
        pair.ask(REQUEST);
    }
    assert_eq!(pair.acknowledged, 1, "for a request there is none");
    pair.connect_again();
    pair.ask(REQUEST);
    assert_eq!(pair.client.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(pair.read.ends_with(b"small"));
    assert_eq!(pair.acknowledged, 0, "a request comes with that word");
}

#[test]
fn many_requests_in_one_flight_are_answered_in_order() {
    for step in [100, usize::MAX] {
        let mut pair = Pair::new(&TLS13);
        pair.step = step;
        pair.ask(&REQUEST.repeat(2000));
        let answers = String::from_utf8_lossy(&pair.read).matches("HTTP/1.1 200 OK").count();
        assert_eq!(answers, 2000, "step {step}");
    }
}

#[test]
fn a_head_in_two_records_that_fill_the_input_is_judged() {
    let mut pair = Pair::new(&TLS13);
    let head = [&b"GET /small.txt HTTP/1.1\r\nHost: a\r\nX: "[..], &[b'x'; 15_000]].concat();
    pair.ask(&head);
    assert!(pair.read.is_empty());
    pair.ask(&[b'x'; 16_384]);
    let text = String::from_utf8_lossy(&pair.read).into_owned();
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[test]
fn an_idle_connection_holds_no_buffers_and_its_ticket_waits_for_an_answer() {
    let mut pair = Pair::new(&TLS13);
    pair.talk();
    assert!(!pair.client.is_handshaking());
    assert_eq!((pair.client.tls13_tickets_received(), pair.connection.out().is_none()), (0, true));
    assert!(needs(&pair.connection).reads_only());
    // What it held is there for another.
    assert!(pair.cx.lend().secure.is_some());
    pair.ask(REQUEST);
    assert_eq!(pair.client.tls13_tickets_received(), 1);
}

#[test]
fn an_answer_is_sealed_although_others_have_the_buffers_of_its_request() {
    let mut pair = Pair::new(&TLS13);
    pair.talk();
    pair.client.writer().write_all(REQUEST).unwrap();
    let said = pair.said();
    let (connection, cx) = (&mut pair.connection, &mut pair.cx);
    connection.space(cx)[..said.len()].copy_from_slice(&said);
    connection.received(said.len(), cx);
    connection.go_on(&mut Needs::default(), cx);
    assert!(needs(connection).asks.first().is_some(), "the file is not known yet");
    connection.rest(cx);
    let _others = cx.lend();
    perform(connection, cx);
    assert!(cx.lend().secure.is_none(), "there were spare ones");
    pair.drive();
    assert!(pair.read.ends_with(b"small"));
}

#[test]
fn a_client_that_speaks_in_the_clear_is_told_so() {
    let mut pair = Pair::new(&TLS13);
    let space = pair.connection.space(&mut pair.cx);
    space[..REQUEST.len()].copy_from_slice(REQUEST);
    pair.connection.received(REQUEST.len(), &mut pair.cx);
    pair.connection.go_on(&mut Needs::default(), &mut pair.cx);
    assert!(needs(&pair.connection).write && !needs(&pair.connection).read);
    let out = pair.connection.out().unwrap();
    let text = String::from_utf8(gathered(out)).unwrap();
    let (head, content) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", content.len())), "{head}");
    pair.connection.sent(text.len() as u64, &mut pair.cx);
    assert_eq!(needs(&pair.connection).over, Some(CloseReason::TlsFailed));
    assert_eq!(pair.cx.tally.counter(Counter::TlsClear), 1);
}

#[test]
fn what_is_none_of_http_ends_without_a_word() {
    let mut pair = Pair::new(&TLS13);
    pair.connection.space(&mut pair.cx)[..5].copy_from_slice(&[0x80, 0x2e, 1, 0, 2]);
    pair.connection.received(5, &mut pair.cx);
    pair.connection.go_on(&mut Needs::default(), &mut pair.cx);
    assert_eq!(needs(&pair.connection).over, Some(CloseReason::TlsFailed));
    assert!(pair.connection.out().is_none() && pair.connection.last_words().is_empty());
}

#[test]
fn a_handshake_is_timed_and_counted_and_one_without_an_end_is_counted_as_late() {
    let mut pair = Pair::new(&TLS13);
    let owner = Owner { generation: 1, worker: Some(0), process: 1 };
    pair.cx.account.blocks.set_owner(0, owner);
    pair.talk();
    assert_eq!(pair.cx.tally.counter(Counter::TlsFull), 1);
    assert_eq!(pair.cx.account.blocks.totals().timing(Timing::Handshake).count(), 1);
    let mut pair = Pair::new(&TLS13);
    let hello = pair.said();
    pair.give(&hello[..hello.len() / 2]);
    pair.cx.now.set(pair.connection.deadline(), 1_000_000);
    pair.connection.expired(|| 0, &mut pair.cx);
    pair.drive();
    assert_eq!(pair.over, Some(CloseReason::HeadTimeout));
    pair.connection.end(&mut pair.cx, CloseReason::HeadTimeout, || 0);
    assert_eq!(pair.cx.tally.counter(Counter::TlsLate), 1);
}

#[test]
fn an_alert_leaves_before_the_end() {
    for step in [1, usize::MAX] {
        let mut pair = Pair::new(&TLS13);
        pair.talk();
        pair.step = step;
        pair.client.writer().write_all(REQUEST).unwrap();
        let mut said = pair.said();
        *said.last_mut().unwrap() ^= 1;
        pair.give(&said);
        assert_eq!(pair.over, Some(CloseReason::TlsFailed));
        let error = pair.client.process_new_packets().unwrap_err();
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
    }
}

#[test]
fn a_handshake_has_its_own_time_and_a_head_has_its_time_after_it() {
    let mut pair = Pair::new(&TLS13);
    let began_ms = pair.cx.now.ms();
    let limits = Arc::clone(&pair.cx.limits);
    assert_eq!(pair.connection.deadline(), began_ms + limits.handshake_ms);
    let hello = pair.said();
    pair.give(&hello);
    pair.cx.now.set(began_ms + 500, 1_000_000);
    assert_eq!(pair.connection.deadline(), began_ms + limits.handshake_ms);
    pair.talk();
    assert_eq!(pair.connection.deadline(), began_ms + 500 + limits.head_ms);
    pair.cx.now.set(began_ms + 500 + limits.head_ms, 1_000_000);
    pair.connection.expired(|| 0, &mut pair.cx);
    pair.drive();
    assert_eq!(pair.over, Some(CloseReason::HeadTimeout));
    assert!(pair.has_read_the_end());
}

#[test]
fn an_authority_that_asks_whose_name_it_is_sees_the_end_of_the_handshake() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::with(version, |config, clients, shown| {
            clients.alpn_protocols = vec![b"acme-tls/1".to_vec()];
            let challenges = vec![("localhost".to_owned(), shown)];
            config.take(Bundle { challenges, ..Bundle::default() });
        });
        pair.talk();
        assert!(!pair.client.is_handshaking(), "{version:?}");
        assert_eq!(pair.over, Some(CloseReason::ClientDone), "{version:?}");
    }
}

#[test]
fn an_idle_end_is_told() {
    let mut pair = Pair::new(&TLS13);
    pair.ask(REQUEST);
    pair.connection.drain(Order::Stop);
    pair.connection.expired(|| 0, &mut pair.cx);
    pair.drive();
    assert_eq!(pair.over, Some(CloseReason::Draining));
    assert!(pair.has_read_the_end());
}

#[test]
fn a_handshake_that_has_begun_is_finished_when_the_server_stops() {
    let mut pair = Pair::new(&TLS13);
    let hello = pair.said();
    pair.give(&hello);
    pair.connection.drain(Order::Stop);
    pair.connection.expired(|| 0, &mut pair.cx);
    pair.ask(REQUEST);
    assert!(pair.read.ends_with(b"small") && pair.has_read_the_end());
    assert_eq!(pair.over, None);
    // It lingers until its client has read that.
    pair.leave();
    assert_eq!(pair.over, Some(CloseReason::Draining));
}

#[test]
fn a_handshake_that_has_come_and_is_read_after_the_order_to_stop_is_finished() {
    for version in [&TLS12, &TLS13] {
        for at in [1, 60, usize::MAX] {
            let mut pair = Pair::new(version);
            let hello = pair.said();
            let at = at.min(hello.len());
            pair.connection.drain(Order::Stop);
            // A driver reads first what has come.
            assert!(pair.connection.deadline() <= pair.cx.now.ms());
            for part in [&hello[..at], &hello[at..]] {
                pair.give(part);
                pair.connection.expired(|| 0, &mut pair.cx);
                pair.drive();
            }
            pair.ask(REQUEST);
            assert!(pair.read.ends_with(b"small") && pair.has_read_the_end(), "{version:?}, {at}");
            pair.leave();
            assert_eq!(pair.over, Some(CloseReason::Draining));
        }
    }
}

#[test]
fn the_first_request_belongs_to_the_handshake_before_it() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::new(version);
        pair.talk();
        assert!(!pair.client.is_handshaking());
        pair.connection.drain(Order::Stop);
        pair.connection.expired(|| 0, &mut pair.cx);
        pair.ask(REQUEST);
        assert!(pair.read.ends_with(b"small") && pair.has_read_the_end(), "{version:?}");
        pair.leave();
        assert_eq!(pair.over, Some(CloseReason::Draining));
        // One that asks nothing has its time, and no more.
        let mut pair = Pair::new(version);
        pair.talk();
        pair.connection.drain(Order::Stop);
        assert_eq!(pair.connection.deadline(), pair.cx.now.ms() + pair.cx.limits.head_ms);
    }
}

#[test]
fn what_a_proxy_says_in_front_of_it_begins_no_handshake() {
    let mut pair = Pair::new(&TLS13);
    pair.cx.clients.address = ClientAddress::ProxyProtocol;
    pair.cx.clients.trusted = vec!["192.0.2.0/24".parse::<Network>().unwrap()];
    let hello = pair.said();
    for (hello, over) in [(&[][..], Some(CloseReason::Draining)), (&hello[..60], None)] {
        pair.connection = accepted_from(peer(&pair.config), &mut pair.cx);
        pair.over = None;
        pair.give(&[b"PROXY TCP4 198.51.100.1 192.0.2.1 1 443\r\n", hello].concat());
        pair.connection.drain(Order::Stop);
        pair.connection.expired(|| 0, &mut pair.cx);
        pair.drive();
        assert_eq!(pair.over, over);
    }
}

#[test]
fn a_client_with_too_many_connections_is_let_go_without_a_handshake() {
    let mut pair = Pair::new(&TLS13);
    pair.cx.account.clients = Arc::new(ClientLimits {
        of_server: Limit { connections_per_address: Some(1), ..Limit::default() },
        connections: Some(Arc::new(Holders::new(1).unwrap())),
        requests: None,
    });
    let first = accepted_from(peer(&pair.config), &mut pair.cx);
    let mut second = accepted_from(peer(&pair.config), &mut pair.cx);
    assert!(needs(&first).reads_only());
    assert_eq!(needs(&second).over, Some(CloseReason::TooManyConnections));
    assert!(second.out().is_none() && second.last_words().is_empty());
    assert_eq!(pair.cx.tally.counter(Counter::TurnedAway), 1);
    first.end(&mut pair.cx, CloseReason::ClientDone, || 0);
    let third = accepted_from(peer(&pair.config), &mut pair.cx);
    assert!(needs(&third).reads_only());
}

#[test]
fn one_that_has_not_begun_ends_at_once() {
    let mut pair = Pair::new(&TLS13);
    pair.connection.drain(Order::Stop);
    pair.connection.expired(|| 0, &mut pair.cx);
    pair.drive();
    assert_eq!(pair.over, Some(CloseReason::Draining));
}

#[test]
fn a_file_is_sealed_in_pieces_and_in_order() {
    let body: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    for step in [1000, usize::MAX] {
        let mut pair = Pair::new(&TLS13);
        pair.step = step;
        fs::write(pair.root.path().join("large"), &body).unwrap();
        pair.client.writer().write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        for _ in 0..4 {
            let said = pair.said();
            if !said.is_empty() {
                pair.give_and_seal(&said, &body);
            }
        }
        let head = pair.read.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert!(pair.read[head..] == body, "step {step}: {} bytes", pair.read.len() - head);
    }
}

impl Pair {
    /// As `give`, where the pieces of a file are at hand.
    fn give_and_seal(&mut self, bytes: &[u8], body: &[u8]) {
        let space = self.connection.space(&mut self.cx);
        space[..bytes.len()].copy_from_slice(bytes);
        self.connection.received(bytes.len(), &mut self.cx);
        for _ in 0..TURNS_MAX {
            self.drive_to_piece();
            let piece = match self.connection.unsealed() {
                Unsealed::File { offset, len, room, .. } => {
                    let at = usize::try_from(offset).unwrap();
                    at..at + room.min(usize::try_from(len).unwrap())
                }
                _ => return,
            };
            let sealed = self.connection.seal_piece(&body[piece.clone()]);
            assert_eq!(sealed, piece.len());
        }
        panic!("it goes on for ever");
    }

    /// Drives the server until it wants a piece of a file, or waits.
    fn drive_to_piece(&mut self) {
        for _ in 0..TURNS_MAX {
            let (connection, cx) = (&mut self.connection, &mut self.cx);
            connection.go_on(&mut Needs::default(), cx);
            perform(connection, cx);
            connection.go_on(&mut Needs::default(), cx);
            if let Unsealed::Memory = connection.unsealed() {
                connection.seal();
            }
            let Some(out) = connection.out() else { return };
            if let Unsealed::File { .. } = connection.unsealed() {
                return;
            }
            let mut bytes = gathered(out);
            bytes.truncate(self.step);
            connection.sent(bytes.len() as u64, cx);
            self.tell(&bytes);
        }
        panic!("it goes on for ever");
    }
}

/// A file that is longer than a batch is being sent.
fn downloading() -> Pair {
    let mut pair = Pair::new(&TLS13);
    fs::write(pair.root.path().join("large"), vec![b'x'; 300_000]).unwrap();
    pair.talk();
    pair.client.writer().write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    pair.hear();
    pair.drive_to_piece();
    pair
}

impl Pair {
    /// What the client has to say is taken.
    fn hear(&mut self) {
        let said = self.said();
        let (connection, cx) = (&mut self.connection, &mut self.cx);
        connection.space(cx)[..said.len()].copy_from_slice(&said);
        connection.received(said.len(), cx);
        connection.go_on(&mut Needs::default(), cx);
    }

    /// The connection is over, and its client is told no more.
    fn expect_gone(&mut self) {
        assert_eq!(needs(&self.connection).over, Some(CloseReason::ClientGone));
        assert!(self.connection.last_words().is_empty());
    }
}

#[test]
fn an_alert_within_a_download_ends_it() {
    let mut pair = downloading();
    assert!(pair.connection.hears());
    pair.client.read_tls(&mut &[0; 100][..]).unwrap();
    pair.client.process_new_packets().unwrap_err();
    pair.hear();
    pair.expect_gone();
}

#[test]
fn an_end_without_its_notice_ends_a_download() {
    let mut pair = downloading();
    pair.connection.eof(&mut pair.cx);
    pair.expect_gone();
}

#[test]
fn one_with_its_notice_is_that_of_the_client_alone() {
    let mut pair = downloading();
    pair.client.send_close_notify();
    pair.hear();
    assert!(!pair.connection.hears());
    pair.connection.eof(&mut pair.cx);
    assert!(needs(&pair.connection).write && needs(&pair.connection).over.is_none());
}

#[test]
fn what_is_asked_within_a_download_is_heard_as_far_as_there_is_room() {
    let mut pair = downloading();
    for _ in 0..TURNS_MAX {
        pair.client.writer().write_all(&[b'x'; 5000]).unwrap();
        pair.hear();
        if !pair.connection.hears() {
            assert_eq!(needs(&pair.connection).over, None);
            return;
        }
    }
    panic!("it takes whatever comes");
}

#[test]
fn of_an_answer_that_is_not_all_the_end_is_not_told() {
    let mut pair = downloading();
    pair.connection.send_failed(CloseReason::FileChanged, &mut pair.cx);
    pair.drive();
    assert_eq!(needs(&pair.connection).socket, None, "its side is shut down");
    assert!(!pair.has_read_the_end());
}
