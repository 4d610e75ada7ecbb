//! One request and its whole reply, outside of a run: what is looked at before it and after it.

use std::io::{self, Read, Write};
use std::time::Duration;

use flyball_http::Limits;
use flyball_http::date::parse_date;
use flyball_http::h1::{Client, Event};

use crate::dial::Peer;

/// Longest wait for a step of it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Most bytes of a body.
const BODY_MAX: usize = 1 << 30;

/// A reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A field that has a date, in seconds since 1970.
    pub(crate) fn date_of(&self, name: &str) -> Option<u64> {
        let lines = self.head.split(|byte| *byte == b'\n');
        let mut fields = lines.filter_map(|line| str::from_utf8(line).ok()?.split_once(':'));
        let (_, value) = fields.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        parse_date(value.trim().as_bytes())
    }
}

/// Sends `request`, whose method is not HEAD, on a connection of its own. Blocks for at most ten
/// seconds at a time.
///
/// # Errors
/// What came instead of a reply.
pub(crate) fn ask(peer: Peer<'_>, request: &[u8]) -> Result<Reply, String> {
    let told = |error: io::Error| error.to_string();
    let mut socket = peer.dial(WAIT_MAX).map_err(told)?;
    socket.write_all(request).map_err(told)?;
    let mut client = Client::new(Limits::default());
    client.requested(false);
    let (mut held, mut input) = (Vec::new(), vec![0; 64 << 10]);
    let mut reply = Reply::default();
    loop {
        let received = socket.read(&mut input).map_err(told)?;
        held.extend_from_slice(&input[..received]);
        let mut at = 0;
        loop {
            let (consumed, event) = client.recv(&held[at..]);
            at += consumed;
            match event {
                Event::Head(head) => {
                    reply.status = head.status;
                    reply.head = held[at - consumed..at].to_vec();
                }
                Event::Body(ready) => {
                    reply.body.extend_from_slice(&held[at..at + ready]);
                    client.taken(ready);
                    at += ready;
                }
                Event::End => return Ok(reply),
                Event::More => break,
                Event::Idle | Event::Broken(_) => return Err("a reply that is not HTTP".into()),
            }
        }
        held.drain(..at);
        if received == 0 {
            let is_over = client.eof() == Event::End;
            return if is_over { Ok(reply) } else { Err("half a reply".into()) };
        }
        if reply.body.len() > BODY_MAX {
            return Err(format!("a reply of more than {BODY_MAX} bytes"));
        }
    }
}
