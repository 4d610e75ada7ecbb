//! Sessions against a client of rustls, over buffers instead of sockets.

use std::io::{Read, Write};
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use flyball_tls::{Config, Failure, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, Session, State};
use proptest::prelude::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, RootCertStore,
    SupportedProtocolVersion,
};

/// A server's configuration, and what its clients trust.
struct Site {
    config: Config,
    roots: RootCertStore,
}

impl Site {
    fn new() -> Site {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let (chain, key) = (cert.pem(), signing_key.serialize_pem());
        Site { config: Config::of_one(chain.as_bytes(), key.as_bytes()).unwrap(), roots }
    }

    /// Clients that speak this version, with hellos that are short.
    fn clients(&self, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        let mut provider = default_provider();
        provider.kx_groups = vec![kx_group::X25519];
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        Arc::new(config)
    }

    fn connect(&self, clients: &Arc<ClientConfig>) -> Pair {
        let name = "localhost".try_into().unwrap();
        Pair {
            client: ClientConnection::new(Arc::clone(clients), name).unwrap(),
            session: Session::accept(&self.config).unwrap(),
            cipher: Vec::new(),
            plain: Vec::new(),
            wire: Vec::new(),
            room: PLAIN_BYTES_MAX + 1,
            state: State::Handshake,
        }
    }
}

/// A client and a session, and what lies between them.
struct Pair {
    client: ClientConnection,
    session: Session,
    /// What the session has not used.
    cipher: Vec<u8>,
    /// What it has opened.
    plain: Vec<u8>,
    /// What it has to say.
    wire: Vec<u8>,
    /// Bytes of plain text that it may open at a time.
    room: usize,
    state: State,
}

impl Pair {
    /// What the client has to say.
    fn said(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut said).unwrap();
        }
        said
    }

    /// Gives bytes to the session, and has it open what it can.
    fn give(&mut self, bytes: &[u8]) {
        self.cipher.extend_from_slice(bytes);
        let mut plain = vec![0; self.room];
        loop {
            let opened = self.session.open(&mut self.cipher, &mut plain, &mut self.wire);
            self.cipher.drain(..opened.used);
            self.plain.extend_from_slice(&plain[..opened.plain]);
            self.state = opened.state;
            if !self.session.has_more() {
                return;
            }
        }
    }

    /// Gives what the session has said to the client, which reads what it can.
    fn tell(&mut self) -> Result<Vec<u8>, rustls::Error> {
        let said = std::mem::take(&mut self.wire);
        let (mut rest, mut read) = (&said[..], Vec::new());
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            self.client.process_new_packets()?;
            let _ = self.client.reader().read_to_end(&mut read);
        }
        Ok(read)
    }

    /// A whole handshake.
    fn shake_hands(&mut self) {
        for _ in 0..4 {
            let said = self.said();
            self.give(&said);
            self.tell().unwrap();
        }
        assert!(self.state == State::Open && !self.client.is_handshaking());
    }

    fn seal(&mut self, chunks: &[&[u8]]) -> usize {
        self.session.seal(chunks.iter().copied(), usize::MAX, &mut self.wire)
    }
}

/// Types and lengths of the records.
fn records(mut wire: &[u8]) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    while let [of_type, _, _, high, low, rest @ ..] = wire {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        found.push((*of_type, len));
        wire = &rest[len..];
    }
    found
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A handshake and a request whose bytes come in such pieces, and an answer.
fn exchange(pair: &mut Pair, pieces: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    pair.client.writer().write_all(REQUEST).unwrap();
    for _ in 0..4 {
        let said = pair.said();
        for piece in pieces(&said) {
            pair.give(&piece);
        }
        pair.tell().unwrap();
    }
    assert_eq!((pair.state, &pair.plain[..]), (State::Open, REQUEST));
    assert_eq!(pair.seal(&[b"HTTP/1.1 204 No Content\r\n", b"\r\n"]), 27);
    assert_eq!(pair.tell().unwrap(), b"HTTP/1.1 204 No Content\r\n\r\n");
}

#[test]
fn bytes_may_come_in_any_pieces() {
    let site = Site::new();
    for version in [&TLS12, &TLS13] {
        let clients = site.clients(version);
        for size in [1, 2, 3, 5, 7, 100, 1000, 100_000] {
            exchange(&mut site.connect(&clients), |said| {
                said.chunks(size).map(Vec::from).collect()
            });
        }
        exchange(&mut site.connect(&clients), |said| {
            said.chunks(said.len().div_ceil(20).max(1)).map(Vec::from).collect()
        });
    }
}

#[test]
fn bytes_may_be_split_anywhere() {
    let site = Site::new();
    for version in [&TLS12, &TLS13] {
        let clients = site.clients(version);
        for at in 0..400 {
            exchange(&mut site.connect(&clients), |said| {
                let (first, rest) = said.split_at(at.min(said.len()));
                vec![first.to_vec(), rest.to_vec()]
            });
        }
    }
}

#[test]
fn facts_are_told_once_the_handshake_is_done() {
    let site = Site::new();
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let mut clients = ClientConfig::clone(&site.clients(version));
        clients.alpn_protocols = vec![b"http/1.1".to_vec()];
        let clients = Arc::new(clients);
        let mut pair = site.connect(&clients);
        assert!(pair.session.facts().is_none());
        pair.shake_hands();
        let facts = pair.session.facts().unwrap();
        assert_eq!((facts.name, facts.version), (Some("localhost"), name));
        assert_eq!((facts.group, facts.is_resumed), (Some("X25519"), false));
        assert_eq!((facts.protocol, facts.client), (Some(&b"http/1.1"[..]), None));
        let prefix = if name == "TLSv1.2" { "ECDHE-" } else { "TLS_" };
        assert!(facts.cipher.starts_with(prefix), "{}", facts.cipher);
    }
}

#[test]
fn a_ticket_leaves_with_the_first_answer_and_is_taken_back() {
    let site = Site::new();
    let clients = site.clients(&TLS13);
    let mut pair = site.connect(&clients);
    let hello = pair.said();
    pair.give(&hello);
    pair.tell().unwrap();
    pair.client.writer().write_all(REQUEST).unwrap();
    let finished = pair.said();
    pair.give(&finished);
    assert_eq!((pair.state, pair.wire.len()), (State::Open, 0));
    assert_eq!(pair.seal(&[b"answer"]), 6);
    assert_eq!(records(&pair.wire).len(), 2);
    assert_eq!(pair.tell().unwrap(), b"answer");
    assert_eq!(pair.client.tls13_tickets_received(), 1);
    let mut again = site.connect(&clients);
    again.shake_hands();
    let facts = again.session.facts().unwrap();
    assert!(facts.is_resumed && facts.name == Some("localhost"));
}

#[test]
fn a_record_without_room_is_opened_once_and_comes_in_parts() {
    let site = Site::new();
    for version in [&TLS12, &TLS13] {
        let sent: Vec<u8> = (0..50_000u32).map(|n| n as u8).collect();
        for room in [1, 10, 16_384, 16_385, 40_000] {
            let mut pair = site.connect(&site.clients(version));
            pair.shake_hands();
            pair.client.set_buffer_limit(None);
            pair.client.writer().write_all(&sent).unwrap();
            pair.room = room;
            let said = pair.said();
            pair.give(&said);
            assert!(pair.plain == sent && pair.cipher.is_empty(), "room {room}");
        }
    }
}

#[test]
fn no_room_means_that_at_most_one_record_is_opened() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    pair.shake_hands();
    for _ in 0..3 {
        pair.client.writer().write_all(&[b'x'; 1000]).unwrap();
    }
    let mut said = pair.said();
    let opened = pair.session.open(&mut said, &mut [], &mut pair.wire);
    assert_eq!((opened.used, opened.plain), (said.len() / 3, 0));
    assert!(pair.session.has_more());
    let again = pair.session.open(&mut said[opened.used..], &mut [0; 999], &mut pair.wire);
    assert_eq!((again.used, again.plain), (0, 999));
}

#[test]
fn the_first_record_is_short_and_the_others_are_full() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS12));
    pair.shake_hands();
    let body = vec![b'x'; 60_000];
    let sealed = pair.session.seal([&b"head"[..], &body], 50_000, &mut pair.wire);
    assert_eq!(sealed, 50_000);
    let lens: Vec<_> = records(&pair.wire).iter().map(|(_, len)| len - 24).collect();
    assert_eq!(lens, [4096, 16_384, 16_384, 50_000 - 4096 - 2 * 16_384]);
    let read = pair.tell().unwrap();
    assert!(read.len() == 50_000 && read.starts_with(b"headx"));
}

#[test]
fn short_chunks_share_a_record() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS12));
    pair.shake_hands();
    let chunks: Vec<&[u8]> = vec![b"chunk"; 64];
    assert_eq!((pair.seal(&chunks), records(&pair.wire).len()), (320, 1));
    assert_eq!(pair.tell().unwrap(), b"chunk".repeat(64));
}

#[test]
fn nothing_is_sealed_before_the_handshake_is_done() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    assert_eq!(pair.seal(&[b"early"]), 0);
    let hello = pair.said();
    pair.give(&hello);
    let len = pair.wire.len();
    assert_eq!(pair.seal(&[b"early"]), 0);
    pair.session.close(&mut pair.wire);
    assert_eq!(pair.wire.len(), len);
}

#[test]
fn the_end_is_told_once_and_after_it_nothing_is_sealed() {
    let site = Site::new();
    for version in [&TLS12, &TLS13] {
        let mut pair = site.connect(&site.clients(version));
        pair.shake_hands();
        pair.seal(&[b"last"]);
        pair.session.close(&mut pair.wire);
        let len = pair.wire.len();
        pair.session.close(&mut pair.wire);
        assert_eq!((pair.seal(&[b"more"]), pair.wire.len()), (0, len));
        // What a client says that is still being listened to: no fault of it is answered.
        for record in [&b"\x17\x03\x03\x00\x40"[..], &[b'x'; 64], b"\x15\x03\x03\x00\x02\x02\x28"] {
            pair.give(record);
            assert_eq!((pair.cipher.len(), pair.wire.len()), (0, len));
        }
        assert_eq!(pair.tell().unwrap(), b"last");
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn a_client_that_has_said_all_is_still_answered() {
    let site = Site::new();
    for version in [&TLS12, &TLS13] {
        let mut pair = site.connect(&site.clients(version));
        pair.shake_hands();
        pair.client.writer().write_all(REQUEST).unwrap();
        pair.client.send_close_notify();
        let mut said = pair.said();
        said.extend_from_slice(b"what follows the end is not looked at");
        pair.give(&said);
        assert_eq!((pair.state, &pair.plain[..]), (State::PeerClosed, REQUEST));
        assert_eq!((pair.seal(&[b"answer"]), pair.cipher.len()), (6, 0));
        assert_eq!(pair.tell().unwrap(), b"answer");
    }
}

#[test]
fn finished_request_and_end_may_come_at_once() {
    let site = Site::new();
    for version in [&TLS12, &TLS13] {
        let mut pair = site.connect(&site.clients(version));
        pair.client.writer().write_all(REQUEST).unwrap();
        let hello = pair.said();
        pair.give(&hello);
        pair.tell().unwrap();
        if version.version == TLS12.version {
            let finished = pair.said();
            pair.give(&finished);
            pair.tell().unwrap();
        }
        pair.client.send_close_notify();
        let said = pair.said();
        pair.give(&said);
        assert_eq!((pair.state, &pair.plain[..]), (State::PeerClosed, REQUEST));
        assert_eq!(pair.seal(&[b"answer"]), 6);
        assert_eq!(pair.tell().unwrap(), b"answer");
    }
}

#[test]
fn a_client_that_fails_learns_why() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    pair.shake_hands();
    pair.client.writer().write_all(REQUEST).unwrap();
    let mut said = pair.said();
    *said.last_mut().unwrap() ^= 1;
    pair.give(&said);
    assert_eq!(pair.state, State::Failed(Failure::Malformed));
    let error = pair.tell().unwrap_err();
    assert!(error.to_string().contains("BadRecordMac"), "{error}");
    assert_eq!((pair.seal(&[b"more"]), pair.wire.len()), (0, 0));
}

#[test]
fn a_client_without_a_protocol_in_common_learns_that() {
    let site = Site::new();
    let mut clients = ClientConfig::clone(&site.clients(&TLS13));
    clients.alpn_protocols = vec![b"spdy".to_vec()];
    let mut pair = site.connect(&Arc::new(clients));
    let hello = pair.said();
    pair.give(&hello);
    assert_eq!(pair.state, State::Failed(Failure::NothingInCommon));
    let error = pair.tell().unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
}

#[test]
fn a_client_that_does_not_trust_the_server_is_told_apart() {
    let (site, other) = (Site::new(), Site::new());
    let mut pair = site.connect(&other.clients(&TLS13));
    let hello = pair.said();
    pair.give(&hello);
    pair.tell().unwrap_err();
    let alert = pair.said();
    pair.give(&alert);
    assert_eq!(pair.state, State::Failed(Failure::Refused));
}

#[test]
fn a_client_that_speaks_in_the_clear_is_told_apart() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    pair.give(REQUEST);
    assert_eq!(pair.state, State::Failed(Failure::Clear));
    assert_eq!((&pair.cipher[..], pair.wire.len()), (REQUEST, 0));
}

#[test]
fn a_flood_of_key_updates_ends_the_session() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    pair.shake_hands();
    let mut taken = 0;
    while pair.state == State::Open && taken < 1000 {
        pair.client.refresh_traffic_keys().unwrap();
        let said = pair.said();
        pair.give(&said);
        assert!(pair.wire.is_empty() || pair.state != State::Open);
        taken += 1;
    }
    assert_eq!((pair.state, taken), (State::Failed(Failure::Malformed), 33));
}

#[test]
fn keys_are_updated_in_both_directions() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    pair.shake_hands();
    pair.client.refresh_traffic_keys().unwrap();
    pair.client.writer().write_all(REQUEST).unwrap();
    let said = pair.said();
    pair.give(&said);
    assert_eq!(pair.plain, REQUEST);
    pair.seal(&[b"answer"]);
    assert_eq!(pair.tell().unwrap(), b"answer");
}

/// A record of TLS 1.3 with the first keys after a handshake, which the client has not used yet
/// (RFC 8446, section 5.2).
fn protected(client: ClientConnection, number: u8, of_type: u8, content: &[u8]) -> Vec<u8> {
    let secrets = client.dangerous_extract_secrets().unwrap();
    let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets.tx.1 else {
        panic!("another cipher suite")
    };
    let mut nonce: [u8; 12] = iv.as_ref().try_into().unwrap();
    nonce[11] ^= number;
    let mut inner = [content, &[of_type]].concat();
    let head = [0x17, 3, 3, 0, u8::try_from(inner.len() + 16).unwrap()];
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).unwrap());
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(head), &mut inner).unwrap();
    [&head[..], &inner].concat()
}

#[test]
fn a_message_in_pieces_after_the_handshake_ends_the_session() {
    let site = Site::new();
    let mut clients = ClientConfig::clone(&site.clients(&TLS13));
    clients.enable_secret_extraction = true;
    let clients = Arc::new(clients);
    for (content, state) in [
        // A whole update of keys, and the beginning of one.
        (&[24, 0, 0, 1, 0][..], State::Open),
        (&[24, 0, 0][..], State::Failed(Failure::Malformed)),
        (&[24, 0, 0, 1][..], State::Failed(Failure::Malformed)),
    ] {
        let mut pair = site.connect(&clients);
        pair.shake_hands();
        let name = "localhost".try_into().unwrap();
        let other = ClientConnection::new(Arc::clone(&clients), name).unwrap();
        let record = protected(std::mem::replace(&mut pair.client, other), 0, 22, content);
        pair.give(&record);
        assert_eq!(pair.state, state);
        pair.seal(&[b"answer"]);
        pair.session.close(&mut pair.wire);
    }
}

#[test]
fn a_hello_that_never_ends_fails_and_its_client_is_told() {
    let site = Site::new();
    let mut pair = site.connect(&site.clients(&TLS13));
    // A message of 60,000 bytes is announced, and comes in records.
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.extend([1, 0, 0xea, 0x60]);
    record.resize(5 + 0x4000, 0);
    pair.give(&record);
    assert_eq!(pair.state, State::Handshake);
    pair.give(&[&[0x16, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat());
    assert_eq!(pair.state, State::Failed(Failure::TooLong));
    assert!(pair.cipher.len() > RECORD_BYTES_MAX);
    let decode_error = rustls::AlertDescription::DecodeError;
    assert_eq!(pair.tell(), Err(rustls::Error::AlertReceived(decode_error)));
}

/// The client's hello made this long by padding (RFC 7685), each byte of it in a record of its own.
fn in_single_bytes(hello: &[u8], len: usize) -> Vec<u8> {
    let mut message = hello[5..].to_vec();
    // Behind the head: version, random, session, suites, compressions, and then extensions.
    let mut at = 4 + 2 + 32;
    at += 1 + usize::from(message[at]);
    at += 2 + usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    at += 1 + usize::from(message[at]);
    let padding = u16::try_from(len - message.len() - 4).unwrap();
    message.extend([&[0, 21][..], &padding.to_be_bytes()].concat());
    message.resize(len, 0);
    let extensions = u16::try_from(len - at - 2).unwrap();
    message[at..at + 2].copy_from_slice(&extensions.to_be_bytes());
    let body = u16::try_from(len - 4).unwrap();
    message[2..4].copy_from_slice(&body.to_be_bytes());
    message.iter().flat_map(|byte| [0x16, 3, 1, 0, 1, *byte]).collect()
}

#[test]
fn a_hello_of_some_kilobytes_may_come_in_single_bytes_and_no_longer_one() {
    // As many records of one byte as the longest record has room for.
    const LONGEST: usize = RECORD_BYTES_MAX / 6;
    let site = Site::new();
    for (len, is_taken) in [(2_500, true), (LONGEST, true), (LONGEST + 1, false)] {
        let mut pair = site.connect(&site.clients(&TLS13));
        let hello = in_single_bytes(&pair.said(), len);
        // As much as a connection keeps of it.
        for piece in hello.chunks(RECORD_BYTES_MAX) {
            pair.give(piece);
        }
        match is_taken {
            true => assert!(pair.state == State::Handshake && pair.wire[0] == 0x16, "{len}"),
            false => assert_eq!(pair.state, State::Failed(Failure::TooLong), "{len}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        at in 1..64usize,
    ) {
        let site = Site::new();
        let mut pair = site.connect(&site.clients(&TLS13));
        pair.give(&[0x16]);
        for piece in bytes.chunks(at) {
            pair.give(piece);
        }
        pair.seal(&[b"answer"]);
        pair.session.close(&mut pair.wire);
    }

    #[test]
    fn spoilt_flights_never_panic(
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        flight in 0..3usize,
        is_tls13: bool,
        cut in any::<prop::sample::Index>(),
    ) {
        let site = Site::new();
        let mut pair = site.connect(&site.clients(if is_tls13 { &TLS13 } else { &TLS12 }));
        pair.client.writer().write_all(REQUEST).unwrap();
        for number in 0..3 {
            let mut said = pair.said();
            if said.is_empty() {
                break;
            }
            if number == flight {
                for (at, byte) in &spoilt {
                    let at = at.index(said.len());
                    said[at] ^= byte;
                }
            }
            let (first, rest) = said.split_at(cut.index(said.len()));
            pair.give(first);
            pair.seal(&[b"answer"]);
            pair.give(rest);
            pair.seal(&[b"answer"]);
            if pair.tell().is_err() {
                break;
            }
        }
        pair.session.close(&mut pair.wire);
    }
}
