//! What a client sends to a session of TLS: bytes that were recorded, or a handshake and a request
//! that are made now, because their keys are, and are harmed on their way.
//!
//! The hellos in `seeds/tls_session.txt` were recorded from OpenSSL 3, by `ssl.MemoryBIO` of
//! Python.

use std::sync::{Arc, OnceLock};

use flyball_tls::{
    Authority, Client, ClientAuth, Config, Opened, PLAIN_BYTES_MAX, Policy, RECORD_BYTES_MAX,
    ROOT_BYTES, Root, Session, Site, State, Tickets, Trust, Unknown,
};

pub(crate) const WORDS: &[&[u8]] = &[
    b"\x16\x03\x01",
    b"\x16\x03\x03",
    b"\x14\x03\x03\0\x01\x01",
    b"\x15\x03\x03\0\x02\x01\0",
    b"\x15\x03\x03\0\x02\x02\x28",
    b"\x17\x03\x03",
    b"\x16\x03\x03\0\0",
    b"\x17\x03\x03\x40\x11",
    b"\x01\0\0",
    b"\x03\x04",
    b"\x03\x03",
    b"\x13\x01",
    b"\0\0\0\x0e\0\x0c\0\0\x09localhost",
    b"\0\x10\0\x0b\0\x09\x08http/1.1",
    b"\0\x10\0\x0d\0\x0b\x0aacme-tls/1",
    b"\0\x29",
    b"\0\x2a\0\0",
    b"\0\x2b\0\x03\x02\x03\x04",
    b"\0\x2d\0\x02\x01\x01",
    b"\0\x33",
    b"\0\x0a\0\x04\0\x02\0\x1d",
    b"\x18\x01",
    b"\x04\0\0\x01\0",
    b"\xff\xff",
    b"\xff",
    b"\0",
];

/// The time of certificates and tickets, in seconds since 1970.
const NOW_S: u64 = 1_800_000_000;

/// What the client says when it has shaken hands, in two records.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Turns of a handshake, at most.
const TURNS_MAX: usize = 4;

/// Most bytes that a session says for one input: a chain, tickets and alerts.
const SAID_MAX: usize = 16 * 1024;

/// Servers that differ in what they look at: one for all names, and one whose sites differ and ask
/// for certificates, so that the hello is looked at before.
struct Servers {
    configs: [Config; 2],
    client: Client,
}

impl Servers {
    fn shared() -> &'static Servers {
        static SHARED: OnceLock<Servers> = OnceLock::new();
        SHARED.get_or_init(Servers::new)
    }

    fn new() -> Servers {
        let authority = Authority::new(NOW_S).expect("an authority");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let pair = authority.issue(&names, NOW_S).expect("a certificate");
        let asks = ClientAuth::from_pem(authority.root().as_bytes(), None, false);
        let asks = Policy { clients: Some(asks.expect("an authority")), ..Policy::default() };
        let strict = Policy { only_1_3: true, ..Policy::default() };
        let config = |policies: &[&Policy], unknown| {
            let site = |policy: &&Policy| Site {
                pairs: vec![0],
                may_come: false,
                policy: (*policy).clone(),
            };
            let tickets = Arc::new(Tickets::new(&[Root([7; ROOT_BYTES])], NOW_S));
            let site_of = |_: u16, name: &str| {
                ["localhost", "other.localhost"].iter().position(|known| *known == name)
            };
            let sites = policies.iter().map(site).collect();
            Config::new(vec![Some(pair.clone())], sites, Box::new(site_of), tickets, unknown)
                .expect("a configuration")
        };
        let client = Client::new("localhost", &Trust::Anyone, Some("X25519"), NOW_S);
        Servers {
            configs: [
                config(&[&Policy::default()], Unknown::Default),
                config(&[&asks, &strict], Unknown::Reject),
            ],
            client: client.expect("a client"),
        }
    }
}

/// A session, what it has not used, and what it has opened and said.
struct Served {
    session: Session,
    cipher: Vec<u8>,
    plain: Vec<u8>,
    said: Vec<u8>,
    state: State,
}

impl Served {
    fn accept(config: &Config) -> Served {
        let session = Session::accept(config).expect("a session");
        let [cipher, plain, said] = [const { Vec::new() }; 3];
        Served { session, cipher, plain, said, state: State::Handshake }
    }

    /// Gives it bytes, in pieces of so many, and room for so many of plain text at a time.
    fn give(&mut self, bytes: &[u8], piece: usize, room: usize) {
        for piece in bytes.chunks(piece) {
            self.cipher.extend_from_slice(piece);
            while self.open(room) {}
        }
    }

    /// Opens what it can, and whether it can go on without more.
    fn open(&mut self, room: usize) -> bool {
        let (before, said) = (self.state, self.said.len());
        let is_over = !matches!(before, State::Handshake | State::Open);
        // As an architecture gives it to another thread.
        if self.session.takes_long(&self.cipher, &mut self.said) {
            let taken = self.session.take();
            assert!(self.session.is_handshaking() && !self.session.has_more());
            self.session = taken;
        }
        let mut plain = vec![0; room];
        let Opened { used, plain: count, state } =
            self.session.open(&mut self.cipher, &mut plain, &mut self.said);
        assert!(used <= self.cipher.len() && count <= room);
        self.cipher.drain(..used);
        self.plain.extend_from_slice(&plain[..count]);
        self.state = state;
        assert!(!is_over || (state, count) == (before, 0), "an end is the end: {before:?}");
        assert!(!is_over || self.said.len() == said, "it is silent after its end");
        assert!((before, state) != (State::Open, State::Handshake));
        let waits = matches!(state, State::Handshake | State::Open);
        assert!(!waits || self.cipher.len() < RECORD_BYTES_MAX || self.session.has_more());
        assert!(self.said.len() <= SAID_MAX, "{} bytes", self.said.len());
        self.session.has_more() && (used, count) != (0, 0)
    }

    /// Nothing more comes: it may say so once, and what is sealed is so only where it can be read.
    fn end(mut self) -> (State, Vec<u8>) {
        let sealed = self.session.seal([&b"answer"[..]], usize::MAX, &mut self.said);
        assert!(sealed == 0 || self.session.facts().is_some(), "sealed before keys are agreed on");
        self.session.close(&mut self.said);
        let len = self.said.len();
        self.session.close(&mut self.said);
        assert_eq!(self.said.len(), len, "it says twice that it ends");
        (self.state, self.plain)
    }
}

/// The first byte says which server it is, its second bit whether the rest was recorded, and the
/// others how large the pieces are that it comes in.
///
/// What was recorded is given whole and in pieces, which makes no difference. What is made now is
/// harmed as the rest says: see [`Harm`]. The session opens nothing that the client has not said.
///
/// # Panics
/// When anything of this is not so.
pub fn tls_session(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    let config = &Servers::shared().configs[usize::from(how & 1)];
    let piece = 1 + usize::from(how >> 2);
    match how & 2 {
        0 => recorded(config, rest, piece),
        _ => made_now(config, &Servers::shared().client, &harms(rest), piece),
    }
}

fn recorded(config: &Config, bytes: &[u8], piece: usize) {
    let outcome = |piece| {
        let mut served = Served::accept(config);
        served.give(bytes, piece, PLAIN_BYTES_MAX);
        served.end()
    };
    let whole = outcome(bytes.len().max(1));
    assert_eq!(outcome(piece), whole, "in pieces of {piece}");
    assert!(whole.1.is_empty(), "keys were guessed");
}

/// What is done to the client's bytes, at a place that is counted from the first.
#[derive(Clone, Copy, Debug)]
struct Harm {
    at: usize,
    /// Changes a byte, puts one in, takes some out, says some twice, or ends the stream there.
    kind: u8,
    by: u8,
}

fn harms(script: &[u8]) -> Vec<Harm> {
    let harm = |four: &[u8]| Harm {
        at: usize::from(u16::from_be_bytes([four[0], four[1]])) % 1024,
        kind: four[2] % 5,
        by: four[3],
    };
    let mut harms: Vec<Harm> = script.chunks_exact(4).map(harm).collect();
    harms.sort_by_key(|harm| harm.at);
    harms
}

/// Does what is to be done to these bytes, which begin at this place; whether the stream goes on.
fn harm(bytes: &mut Vec<u8>, begin: usize, harms: &[Harm]) -> bool {
    let within = begin..begin + bytes.len();
    let mut goes_on = true;
    // From the last, so that the places of the others stay what they are.
    for Harm { at, kind, by } in harms.iter().rev().filter(|harm| within.contains(&harm.at)) {
        // One behind it may have taken out what was there.
        let at = bytes.len().min(at - begin);
        let end = bytes.len().min(at + usize::from(*by));
        match kind {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= by),
            1 => bytes.insert(at, *by),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            _ => {
                bytes.truncate(at);
                goes_on = false;
            }
        }
    }
    goes_on
}

fn made_now(config: &Config, client: &Client, harms: &[Harm], piece: usize) {
    let mut served = Served::accept(config);
    let (mut flight, mut sent, mut has_asked) = (Vec::new(), 0, false);
    let mut session = client.begin(false, &mut flight).expect("a hello");
    for _ in 0..TURNS_MAX {
        if session.state() == State::Open && !has_asked {
            has_asked = true;
            let (first, second) = REQUEST.split_at(REQUEST.len() / 2);
            assert_eq!(session.seal(first, &mut flight), first.len());
            assert_eq!(session.seal(second, &mut flight), second.len());
            session.close(&mut flight);
        }
        let len = flight.len();
        let goes_on = harm(&mut flight, sent, harms);
        sent += len;
        served.give(&std::mem::take(&mut flight), piece, 5 * piece);
        assert!(REQUEST.starts_with(&served.plain), "it opens what was not said");
        if !goes_on {
            break;
        }
        let mut cipher = std::mem::take(&mut served.said);
        let mut plain = vec![0; PLAIN_BYTES_MAX];
        loop {
            let opened = session.open(&mut cipher, &mut plain, &mut flight);
            cipher.drain(..opened.used);
            if !session.has_more() || opened.used == 0 {
                break;
            }
        }
    }
    let (state, plain) = served.end();
    if harms.is_empty() {
        assert_eq!(
            (state, &plain[..]),
            (State::PeerClosed, REQUEST),
            "a handshake as it should be"
        );
    }
}
