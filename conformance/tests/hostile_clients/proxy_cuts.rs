//! A proxy between a client and the server that breaks: it passes so many bytes on, of the request
//! or of the answer, and resets both of its connections then, whatever is under way on them.

use std::net::TcpListener;

use flyball_testkit::Client;

use crate::besieged::{Besieged, get};
use crate::common_programs::on_every_architecture;

on_every_architecture! { [a_proxy_that_breaks_after_any_byte_leaves_nothing_behind] }

/// What is asked for, and how often on one connection: an answer is followed by another, so that
/// the connection is reset while it is kept, too.
const PATH: &str = "/hello.txt";

/// After how many bytes the proxy breaks.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// Of the request. No byte of an answer is passed on.
    Request(usize),
    /// Of the answer to the whole request.
    Answer(usize),
}

/// A connection from a client through the proxy to the server.
struct Path {
    client: Client,
    /// The ends of the proxy: towards the client and towards the server.
    downstream: Client,
    upstream: Client,
}

impl Path {
    fn open(proxy: &TcpListener, besieged: &Besieged) -> Path {
        let client = Client::connect(proxy.local_addr().expect("it is bound"));
        let (accepted, _) = proxy.accept().expect("the client has connected");
        let upstream = besieged.server.connect();
        Path { client, downstream: Client::accepted(accepted), upstream }
    }

    /// Asks, and breaks there: what came to the client before the reset.
    fn broken(mut self, request: &str, at: Break) -> Vec<u8> {
        self.client.send(request);
        let request = self.downstream.take(request.len());
        match at {
            Break::Request(n) => self.upstream.send(&request[..n]),
            Break::Answer(n) => {
                self.upstream.send(&request);
                let answer = self.upstream.take(n);
                self.downstream.send(answer);
            }
        }
        self.upstream.reset();
        self.downstream.reset();
        self.client.rest_before_reset()
    }
}

fn a_proxy_that_breaks_after_any_byte_leaves_nothing_behind(arch: &str) {
    // The witness is idle meanwhile.
    let Some(besieged) = Besieged::start(arch, "close.idle-when-full = false") else { return };
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut witness = besieged.server.connect();
    let request = get(PATH);
    let whole = {
        let answer = witness.ask(&request);
        assert_eq!((answer.status(), answer.text()), (200, "hello, world\n"), "{arch}");
        answer.head.len() + answer.body.len()
    };
    for n in 0..=request.len() {
        let came = Path::open(&proxy, &besieged).broken(&request, Break::Request(n));
        assert!(came.is_empty(), "{arch}: {n} bytes of the request");
    }
    assert_eq!(witness.ask(&request).text(), "hello, world\n", "{arch}");
    for n in 0..=whole {
        let came = Path::open(&proxy, &besieged).broken(&request, Break::Answer(n));
        assert_eq!(came.len(), n, "{arch}");
        assert!(came.starts_with(&b"HTTP/1.1 200 OK\r\n"[..n.min(17)]), "{arch}: {n}");
    }
    assert_eq!(witness.ask(&request).text(), "hello, world\n", "{arch}");
    drop(witness);
    besieged.expect_descriptors_back();
    assert_eq!(besieged.ask_anew(PATH), 200, "{arch}");
    besieged.server.assert_sound();
}
