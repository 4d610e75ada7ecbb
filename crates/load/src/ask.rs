//! One request and its whole reply, outside of a run: what is looked at before it and after it.

use std::io::{self, Read, Write};
use std::time::Duration;

use flyball_http::date::parse_date;
use flyball_http::h1::{Incoming, Part};

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
    let (mut answer, mut input) = (Incoming::new(false), vec![0; 64 << 10]);
    let mut reply = Reply::default();
    loop {
        match answer.next_part() {
            Part::Head(head, bytes) => {
                reply.status = head.status;
                reply.head = bytes.to_vec();
            }
            Part::Body(bytes) => reply.body.extend_from_slice(bytes),
            Part::End => return Ok(reply),
            Part::Broken(_) => return Err("a reply that is not HTTP".into()),
            Part::More if reply.body.len() > BODY_MAX => {
                return Err(format!("a reply of more than {BODY_MAX} bytes"));
            }
            Part::More => match socket.read(&mut input).map_err(told)? {
                0 if answer.eof() == Part::End => return Ok(reply),
                0 => return Err("half a reply".into()),
                received => answer.received(&input[..received]),
            },
        }
    }
}
