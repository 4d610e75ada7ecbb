//! Clients over TLS, before a server that does what a test tells it to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crate::common::{OK, options, rate, run, server};
use flyball_load::job::{Job, Load, Options, Tls};
use flyball_load::observe::Kind;
use flyball_tls::{Config, Session, State};
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// The server's side of one connection, which blocks.
struct Secured {
    stream: TcpStream,
    session: Session,
    cipher: Vec<u8>,
}

impl Secured {
    fn accept(config: &Config, stream: TcpStream) -> Secured {
        Secured { stream, session: Session::accept(config).unwrap(), cipher: Vec::new() }
    }

    /// What came next; `None` at the end.
    fn read(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut received = [0; 4096];
            let len = self.stream.read(&mut received).ok().filter(|len| *len > 0)?;
            self.cipher.extend_from_slice(&received[..len]);
            let (mut plain, mut wire) = (vec![0; 70_000], Vec::new());
            let opened = self.session.open(&mut self.cipher, &mut plain, &mut wire);
            self.cipher.drain(..opened.used);
            self.stream.write_all(&wire).ok()?;
            match opened.state {
                State::PeerClosed | State::Failed(_) if opened.plain == 0 => return None,
                _ if opened.plain > 0 => return Some(plain[..opened.plain].to_vec()),
                _ => {}
            }
        }
    }

    /// Sends this in pieces of so many bytes.
    fn say(&mut self, plain: &[u8], piece: usize) {
        let mut wire = Vec::new();
        self.session.seal([plain], plain.len(), &mut wire);
        for bytes in wire.chunks(piece) {
            let _ = self.stream.write_all(bytes);
        }
    }

    fn close(&mut self) {
        let mut wire = Vec::new();
        self.session.close(&mut wire);
        let _ = self.stream.write_all(&wire);
    }
}

/// A server that speaks TLS, and the options of clients that accept its certificate.
fn secure(
    load: Load,
    duration_ms: u64,
    serve: impl Fn(&mut Secured) + Send + Sync + 'static,
) -> Options {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
    let config =
        Config::of_one(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
    let address = server(move |_, stream| serve(&mut Secured::accept(&config, stream)));
    over_tls(options(address, load, duration_ms), address)
}

fn over_tls(mut options: Options, address: SocketAddr) -> Options {
    options.url = format!("https://{address}/");
    options.tls = Tls { insecure: true, ..Tls::default() };
    options
}

/// Answers each request, and the end by an end.
fn answer_all(secured: &mut Secured) {
    while let Some(request) = secured.read() {
        let count = request.windows(4).filter(|four| four == b"\r\n\r\n").count();
        secured.say(&OK.repeat(count), usize::MAX);
    }
    secured.close();
}

#[test]
fn requests_are_answered_over_tls_and_handshakes_are_counted_apart() {
    let mut options = secure(Load::Connections(1), 60_000, answer_all);
    options.requests_per_connection = Some(5);
    options.requests = Some(40);
    let tally = run(&options).tally;
    assert_eq!(tally.error_count(), 0, "{:?} {:?}", tally.errors, tally.handshakes.failure);
    assert_eq!((tally.replies, tally.connections), (40, 8));
    let shaken = &tally.handshakes;
    assert_eq!((shaken.full.count(), shaken.resumed.count(), shaken.failed), (8, 0, 0));
    let agreed = shaken.agreed.as_deref();
    assert_eq!(agreed, Some("TLSv1.3 TLS13_AES_256_GCM_SHA384 X25519MLKEM768"));
}

#[test]
fn as_many_connections_resume_a_session_as_shall() {
    for (resume, resumed) in [(1.0, 39), (0.5, 20), (0.0, 0)] {
        let mut options = secure(Load::Connections(1), 60_000, answer_all);
        options.requests_per_connection = Some(1);
        options.requests = Some(40);
        options.tls.resume = resume;
        let tally = run(&options).tally;
        assert_eq!((tally.replies, tally.error_count()), (40, 0), "{:?}", tally.errors);
        let shaken = &tally.handshakes;
        assert_eq!((shaken.resumed.count(), shaken.full.count()), (resumed, 40 - resumed));
    }
}

#[test]
fn pipelined_paced_and_large_replies_come_over_tls_as_in_the_clear() {
    let body = vec![b'x'; 100_000];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let reply = [head.as_bytes(), &body].concat();
    let serve = move |secured: &mut Secured| {
        while let Some(request) = secured.read() {
            let count = request.windows(4).filter(|four| four == b"\r\n\r\n").count();
            (0..count).for_each(|_| secured.say(&reply, 1_001));
        }
    };
    for (pipeline, read_rate, write_rate) in
        [(1, None, None), (4, None, None), (1, Some(2_000_000), Some(20_000))]
    {
        let mut options = secure(Load::Connections(1), 60_000, serve.clone());
        options.requests = Some(8);
        options.behaviour.pipeline = pipeline;
        options.behaviour.read_rate = read_rate;
        options.behaviour.write_rate = write_rate;
        let tally = run(&options).tally;
        assert_eq!((tally.replies, tally.error_count()), (8, 0), "{:?}", tally.errors);
        assert_eq!(tally.body_bytes, 800_000);
    }
}

/// Anybody between can end a connection, and a body that only its end ends is whole if TLS says so.
#[test]
fn an_end_that_tls_does_not_tell_cuts_a_body() {
    for (is_told, kind) in [(true, None), (false, Some(Kind::ShortBody))] {
        let options = secure(rate("10"), 100, move |secured| {
            secured.read();
            secured.say(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", usize::MAX);
            if is_told {
                secured.close();
            }
            let _ = secured.stream.shutdown(Shutdown::Write);
            while secured.read().is_some() {}
        });
        let tally = run(&options).tally;
        assert_eq!(tally.replies, u64::from(is_told));
        assert_eq!(tally.error_count(), u64::from(!is_told), "{:?}", tally.errors);
        assert_eq!(kind.map_or(0, |kind| tally.errors_of(kind)), u64::from(!is_told));
        assert_eq!(tally.handshakes.failed, 0);
    }
}

#[test]
fn handshakes_that_fail_are_counted_with_what_tls_says() {
    let serve = |answer: &'static [u8]| {
        let address = server(move |_, mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
        });
        let tally = run(&over_tls(options(address, rate("10"), 100), address)).tally;
        assert_eq!((tally.replies, tally.error_count()), (0, 1), "{:?}", tally.errors);
        assert_eq!((tally.handshakes.failed, tally.handshakes.full.count()), (1, 0));
        tally
    };
    let tally = serve(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(tally.errors_of(Kind::Handshake), 1, "{:?}", tally.errors);
    assert!(tally.handshakes.failure.is_some());
    // An alert: handshake_failure (RFC 8446, section 6.2).
    let tally = serve(&[0x15, 3, 3, 0, 2, 2, 40]);
    assert_eq!(tally.errors_of(Kind::Handshake), 1, "{:?}", tally.errors);
    let why = tally.handshakes.failure.unwrap();
    assert!(why.contains("HandshakeFailure"), "{why}");
    let tally = serve(b"");
    let ended = tally.errors_of(Kind::Closed) + tally.errors_of(Kind::Reset);
    assert_eq!(ended, 1, "{:?}", tally.errors);
}

#[test]
fn a_client_that_ends_a_connection_says_so() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ends);
    let mut options = secure(Load::Connections(1), 60_000, move |secured| {
        secured.read();
        secured.say(OK, usize::MAX);
        secured.read();
        // It has opened the notice, and what would be said now is no record of a handshake.
        let mut wire = Vec::new();
        let state = secured.session.open(&mut [], &mut [], &mut wire).state;
        seen.lock().unwrap().push(state);
        secured.close();
    });
    options.requests = Some(3);
    options.requests_per_connection = Some(1);
    assert_eq!(run(&options).tally.replies, 3);
    let all = flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, || {
        let ends = ends.lock().unwrap();
        (ends.len() == 3).then(|| ends.clone())
    });
    assert_eq!(all, Some(vec![State::PeerClosed; 3]));
}

#[test]
fn what_is_said_of_tls_is_checked_before_the_run() {
    let mut options = options("127.0.0.1:9".parse().unwrap(), rate("1"), 100);
    options.tls.resume = 0.5;
    let why = Job::prepare(&options).unwrap_err();
    assert!(why.contains("has no effect on http:"), "{why}");
}
