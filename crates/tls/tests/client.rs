//! The client's side against the server's, over buffers instead of sockets.

use flyball_tls::{Client, ClientSession, Config, Failure, Session, State, Trust};
use proptest::prelude::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// Bytes of plain text that a side may open at a time.
const ROOM: usize = 20_000;

/// A server's configuration, and its certificate in PEM.
fn site() -> (Config, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let (chain, key) = (cert.pem(), signing_key.serialize_pem());
    (Config::of_one(chain.as_bytes(), key.as_bytes()).unwrap(), chain)
}

/// The time at which certificates are judged.
const NOW_S: u64 = 1_700_000_000;

fn client(pem: &str, group: Option<&str>) -> Client {
    let trust = Trust::from_pem(pem.as_bytes()).unwrap();
    Client::new("localhost", &trust, group, NOW_S).unwrap()
}

/// One side of a connection, and what it has not used.
struct Side<S> {
    session: S,
    cipher: Vec<u8>,
    plain: Vec<u8>,
    wire: Vec<u8>,
}

impl<S> Side<S> {
    fn new(session: S, wire: Vec<u8>) -> Side<S> {
        Side { session, cipher: Vec::new(), plain: Vec::new(), wire }
    }
}

/// What both sides do with bytes.
trait Opens {
    fn open(&mut self, bytes: &[u8]) -> State;
}

macro_rules! opens {
    ($session:ty) => {
        impl Opens for Side<$session> {
            fn open(&mut self, bytes: &[u8]) -> State {
                self.cipher.extend_from_slice(bytes);
                let mut plain = vec![0; ROOM];
                loop {
                    let opened = self.session.open(&mut self.cipher, &mut plain, &mut self.wire);
                    self.cipher.drain(..opened.used);
                    self.plain.extend_from_slice(&plain[..opened.plain]);
                    if !self.session.has_more() {
                        return opened.state;
                    }
                }
            }
        }
    };
}

opens!(ClientSession);
opens!(Session);

/// A client and a server that have shaken hands, with pieces of this many bytes in between.
fn shaken(
    config: &Config,
    client: &Client,
    may_resume: bool,
    piece: usize,
) -> (Side<ClientSession>, Side<Session>) {
    let mut wire = Vec::new();
    let mut client = Side::new(client.begin(may_resume, &mut wire).unwrap(), wire);
    let mut server = Side::new(Session::accept(config).unwrap(), Vec::new());
    for _ in 0..3 {
        for bytes in std::mem::take(&mut client.wire).chunks(piece) {
            server.open(bytes);
        }
        for bytes in std::mem::take(&mut server.wire).chunks(piece) {
            client.open(bytes);
        }
    }
    assert_eq!(client.session.state(), State::Open);
    assert!(!server.session.is_handshaking());
    (client, server)
}

/// Has the server say this, and its tickets before it.
fn answer(client: &mut Side<ClientSession>, server: &mut Side<Session>, plain: &[u8]) {
    server.session.seal([plain], plain.len(), &mut server.wire);
    client.open(&std::mem::take(&mut server.wire));
}

#[test]
fn what_one_side_says_the_other_reads_in_pieces_of_any_length() {
    let (config, pem) = site();
    let trusting = client(&pem, None);
    for piece in [1, 2, 7, 1_000, usize::MAX] {
        let (mut client, mut server) = shaken(&config, &trusting, false, piece);
        let said = vec![b'x'; 40_000];
        assert_eq!(client.session.seal(&said, &mut client.wire), said.len());
        for bytes in std::mem::take(&mut client.wire).chunks(piece) {
            server.open(bytes);
        }
        assert!(server.plain == said, "pieces of {piece}");
        answer(&mut client, &mut server, b"an answer");
        assert_eq!(client.plain, b"an answer");
        client.session.close(&mut client.wire);
        assert_eq!(server.open(&std::mem::take(&mut client.wire)), State::PeerClosed);
        assert_eq!(client.session.seal(b"more", &mut client.wire), 0, "it has said its last");
        server.session.close(&mut server.wire);
        assert_eq!(client.open(&std::mem::take(&mut server.wire)), State::PeerClosed);
    }
}

#[test]
fn a_session_resumes_an_earlier_one_if_it_may() {
    let (config, pem) = site();
    let trusting = client(&pem, None);
    for (may_resume, is_resumed) in
        [(true, false), (true, true), (false, false), (true, true), (true, true)]
    {
        let (mut client, mut server) = shaken(&config, &trusting, may_resume, usize::MAX);
        assert_eq!(client.session.is_resumed(), is_resumed, "{may_resume}");
        let facts = server.session.facts().unwrap();
        assert_eq!(facts.is_resumed, is_resumed);
        answer(&mut client, &mut server, b"with a ticket");
    }
    // One that is not resumed leaves a ticket all the same: there are two now.
    for is_resumed in [true, true, false] {
        let (client, _server) = shaken(&config, &trusting, true, usize::MAX);
        assert_eq!(client.session.is_resumed(), is_resumed);
    }
}

#[test]
fn a_group_is_the_only_one_that_is_offered() {
    let (config, pem) = site();
    for (group, agreed) in [
        (None, "TLSv1.3 TLS13_AES_256_GCM_SHA384 X25519MLKEM768"),
        (Some("x25519"), "TLSv1.3 TLS13_AES_256_GCM_SHA384 X25519"),
        (Some("secp256r1"), "TLSv1.3 TLS13_AES_256_GCM_SHA384 secp256r1"),
    ] {
        let (client, _server) = shaken(&config, &client(&pem, group), false, usize::MAX);
        assert_eq!(client.session.agreed(), agreed);
    }
}

/// The end of a handshake with a server that is not trusted: why, for both.
fn refused(client: &Client, config: &Config) -> (String, State) {
    let mut wire = Vec::new();
    let mut client = Side::new(client.begin(false, &mut wire).unwrap(), wire);
    let mut server = Side::new(Session::accept(config).unwrap(), Vec::new());
    server.open(&std::mem::take(&mut client.wire));
    let state = client.open(&std::mem::take(&mut server.wire));
    assert_eq!(state, State::Failed(Failure::NoCertificate));
    assert_eq!(client.session.seal(b"x", &mut client.wire), 0);
    (client.session.why().unwrap(), server.open(&client.wire))
}

#[test]
fn a_certificate_that_is_not_trusted_ends_the_handshake_unless_any_is() {
    let ((config, pem), (_, other)) = (site(), site());
    let (why, told) = refused(&client(&other, None), &config);
    assert!(why.starts_with("invalid peer certificate: "), "{why}");
    assert_eq!(told, State::Failed(Failure::Refused), "the server is told");
    let trust = Trust::from_pem(pem.as_bytes()).unwrap();
    let elsewhere = Client::new("elsewhere.test", &trust, None, NOW_S).unwrap();
    assert!(refused(&elsewhere, &config).0.contains("not valid for name"));
    let anyone = Client::new("elsewhere.test", &Trust::Anyone, None, NOW_S).unwrap();
    shaken(&config, &anyone, false, usize::MAX);
}

#[test]
fn what_cannot_be_used_is_told() {
    let none = Trust::from_pem(b"").unwrap_err();
    assert_eq!(none, "no certificate in PEM");
    let roots = Trust::Roots(vec![b"none".to_vec()]);
    let why = Client::new("localhost", &roots, None, NOW_S).unwrap_err();
    assert!(why.contains("no certificate of an authority"), "{why}");
    let why = Client::new("localhost", &Trust::Anyone, Some("x448"), NOW_S).unwrap_err();
    assert!(why.starts_with("x448 is none of the groups: X25519MLKEM768, "), "{why}");
    assert!(Client::new("a b", &Trust::Anyone, None, NOW_S).unwrap_err().contains("a b"));
}

/// Whether this byte is one of the version of a record, which is ignored (RFC 8446, section 5.1).
fn is_unread(records: &[u8], at: usize) -> bool {
    let mut begin = 0;
    while let Some([_, _, _, high, low]) = records.get(begin..begin + 5) {
        if (begin + 1..=begin + 2).contains(&at) {
            return true;
        }
        begin += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changed_bytes_of_a_server_never_panic(
        at in 0_usize..3_000,
        to in any::<u8>(),
        piece in 1_usize..400,
    ) {
        let (config, pem) = site();
        let mut wire = Vec::new();
        let session = client(&pem, None).begin(false, &mut wire).unwrap();
        let mut client = Side::new(session, wire);
        let mut server = Side::new(Session::accept(&config).unwrap(), Vec::new());
        server.open(&std::mem::take(&mut client.wire));
        let mut said = std::mem::take(&mut server.wire);
        let at = at % said.len();
        let is_same = is_unread(&said, at) || said[at] == to;
        said[at] = to;
        let mut state = State::Handshake;
        for bytes in said.chunks(piece) {
            state = client.open(bytes);
        }
        prop_assert!(is_same || state != State::Open, "byte {at}");
        let mut wire = Vec::new();
        client.session.seal(b"x", &mut wire);
        client.session.close(&mut wire);
    }
}
