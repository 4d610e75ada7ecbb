//! A timeline that is over: as words of shared memory, as a line, and as JSON.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use flyball_http::{CloseReason, Now, Remote};
use serde_json::{Value, json};

use super::timeline::{Point, Wait};
use crate::text;
use crate::waited::Waited;

/// A point that was not reached.
pub(super) const NEVER: u32 = u32::MAX;

const POINTS: usize = Point::ALL.len();
const WAITS: usize = Wait::ALL.len();

/// Words of a record in shared memory.
pub(super) const WORDS: usize = 10 + POINTS + WAITS + Text::<16>::WORDS + Text::<64>::WORDS + PATH;

const PATH: usize = Text::<160>::WORDS;

/// Stands beside the status where the client has an address.
const HAS_ADDRESS: u64 = 1 << 16;

/// What happened to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(super) unix_ms: u64,
    pub(super) worker: u32,
    pub(super) connection: u64,
    pub(super) request: u32,
    pub(super) client: Remote,
    pub(super) waited: Waited,
    pub(super) method: Text<16>,
    pub(super) host: Text<64>,
    pub(super) path: Text<160>,
    /// 0 where there was no answer.
    pub(super) status: u16,
    /// Bytes of the answer that the socket took.
    pub(super) bytes: u64,
    pub(super) asks: u32,
    pub(super) close: Option<CloseReason>,
    /// When each point was reached, in microseconds since the first.
    pub(super) points: [u32; POINTS],
    /// How long it waited for what, in nanoseconds.
    pub(super) waits_ns: [u64; WAITS],
}

/// Bytes that a client chose, at most `N` of them; how many there were is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<const N: usize> {
    len: u64,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    const WORDS: usize = 1 + N / 8;

    const EMPTY: Text<N> = Text { len: 0, bytes: [0; N] };

    pub(super) fn set(&mut self, text: &[u8]) {
        *self = Text { len: text.len() as u64, ..Text::EMPTY };
        let kept = text.len().min(N);
        self.bytes[..kept].copy_from_slice(&text[..kept]);
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        let kept = usize::try_from(self.len).unwrap_or(N).min(N);
        &self.bytes[..kept]
    }

    /// As it may stand in a line; three dots where it was cut.
    fn shown(&self) -> String {
        let mut shown = text::escaped(self.as_bytes());
        if self.len > N as u64 {
            shown.push_str("...");
        }
        shown
    }

    fn encode(&self, words: &mut impl FnMut(u64)) {
        words(self.len);
        for eight in self.bytes.chunks_exact(8) {
            words(u64::from_le_bytes(eight.try_into().unwrap_or_default()));
        }
    }

    fn decode(words: &mut impl FnMut() -> u64) -> Text<N> {
        let mut text = Text { len: words(), ..Text::EMPTY };
        for eight in text.bytes.chunks_exact_mut(8) {
            eight.copy_from_slice(&words().to_le_bytes());
        }
        text
    }
}

impl Record {
    pub(super) fn new(unix_ms: u64) -> Record {
        Record {
            unix_ms,
            worker: 0,
            connection: 0,
            request: 0,
            client: Remote::Unix,
            waited: Waited::default(),
            method: Text::EMPTY,
            host: Text::EMPTY,
            path: Text::EMPTY,
            status: 0,
            bytes: 0,
            asks: 0,
            close: None,
            points: [NEVER; POINTS],
            waits_ns: [0; WAITS],
        }
    }

    pub(super) fn encode(&self) -> [u64; WORDS] {
        let mut encoded = [0; WORDS];
        let mut places = encoded.iter_mut();
        let mut put = |word| {
            if let Some(place) = places.next() {
                *place = word;
            }
        };
        let client = match self.client {
            Remote::Ip(IpAddr::V4(v4)) => v4.to_ipv6_mapped().to_bits(),
            Remote::Ip(IpAddr::V6(v6)) => v6.to_bits(),
            Remote::Unix => 0,
        };
        let has_address = if self.client == Remote::Unix { 0 } else { HAS_ADDRESS };
        put(self.unix_ms);
        put(u64::from(self.worker) << 32 | u64::from(self.request));
        put(self.connection);
        put((client >> 64) as u64);
        put(client as u64);
        put(u64::from(self.status) | has_address);
        put(self.bytes);
        put(u64::from(self.asks));
        put(self.close.map_or(0, |reason| reason as u64 + 1));
        let known = |ms: Option<u32>| u64::from(ms.unwrap_or(NEVER));
        put(known(self.waited.queued_ms) << 32 | known(self.waited.age_ms));
        self.points.iter().for_each(|us| put(u64::from(*us)));
        self.waits_ns.iter().for_each(|ns| put(*ns));
        self.method.encode(&mut put);
        self.host.encode(&mut put);
        self.path.encode(&mut put);
        encoded
    }

    pub(super) fn decode(encoded: &[u64; WORDS]) -> Record {
        let mut places = encoded.iter();
        let mut take = || places.next().copied().unwrap_or_default();
        let mut record = Record::new(take());
        let ids = take();
        (record.worker, record.request) = ((ids >> 32) as u32, ids as u32);
        record.connection = take();
        let client = u128::from(take()) << 64 | u128::from(take());
        let status = take();
        if status & HAS_ADDRESS != 0 {
            record.client = Remote::Ip(IpAddr::V6(Ipv6Addr::from_bits(client)).to_canonical());
        }
        record.status = status as u16;
        record.bytes = take();
        record.asks = take() as u32;
        let reason = usize::try_from(take()).unwrap_or_default();
        record.close = reason.checked_sub(1).and_then(|at| CloseReason::ALL.get(at).copied());
        let waited = take();
        let known = |ms: u64| Some(ms as u32).filter(|ms| *ms != NEVER);
        record.waited = Waited { queued_ms: known(waited >> 32), age_ms: known(waited) };
        record.points.iter_mut().for_each(|us| *us = take() as u32);
        record.waits_ns.iter_mut().for_each(|ns| *ns = take());
        record.method = Text::decode(&mut take);
        record.host = Text::decode(&mut take);
        record.path = Text::decode(&mut take);
        record
    }

    fn at(&self, point: Point) -> Option<u32> {
        Some(self.points[point as usize]).filter(|us| *us != NEVER)
    }

    /// Whether a request came at all: a connection may end before one.
    pub(super) fn has_request(&self) -> bool {
        self.at(Point::Head).is_some() || self.status != 0
    }

    /// How long it took, in microseconds: from the first byte of the request to the last of the
    /// answer, or the end of the connection before that.
    pub(super) fn took_us(&self) -> u32 {
        let began = self.at(Point::Begin).unwrap_or_default();
        let ended = self.at(Point::Done).or(self.at(Point::Close)).unwrap_or_default();
        ended.saturating_sub(began)
    }

    /// What it waited for longest beside the server's own turns, and how long in microseconds.
    fn longest_wait(&self) -> (Wait, u64) {
        let waits = Wait::ALL.iter().filter(|wait| **wait != Wait::Server);
        let longest = waits.max_by_key(|wait| self.waits_ns[**wait as usize]);
        let wait = *longest.unwrap_or(&Wait::Server);
        (wait, self.waits_ns[wait as usize] / 1_000)
    }

    /// The whole timeline in one line, without its end.
    pub(crate) fn line(&self) -> String {
        let mut line = text::iso_date(&Now::new(0, self.unix_ms));
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let (method, path) = (or_dash(self.method.shown()), or_dash(self.path.shown()));
        let host = or_dash(self.host.shown());
        let status = if self.status == 0 { "-".to_owned() } else { self.status.to_string() };
        let took = ms(u64::from(self.took_us()));
        let _ = write!(line, " {method} {path} {status} {}B {took} | host {host}", self.bytes);
        let _ = write!(line, " client {} worker {}", self.client, self.worker);
        let _ = write!(line, " connection {:x} request {}", self.connection, self.request);
        for (what, waited) in [("queued", self.waited.queued_ms), ("age", self.waited.age_ms)] {
            if let Some(ms) = waited {
                let _ = write!(line, " {what} {ms}ms");
            }
        }
        line.push_str(" |");
        for point in Point::ALL {
            if let Some(us) = self.at(*point) {
                let _ = write!(line, " {} {}", point.label(), ms(u64::from(us)));
            }
        }
        if let Some(reason) = self.close {
            let _ = write!(line, " ({})", reason.label());
        }
        line.push_str(" | waited for");
        for wait in Wait::ALL {
            let us = self.waits_ns[*wait as usize] / 1_000;
            if us > 0 {
                let _ = write!(line, " {} {}", wait.label(), ms(us));
            }
        }
        if self.asks > 0 {
            let _ = write!(line, " ({} asks)", self.asks);
        }
        let (longest, us) = self.longest_wait();
        let _ = write!(line, "; longest {} {}", longest.label(), ms(us));
        line
    }

    /// The same as JSON: times are in microseconds, and bytes of the client as in the access log.
    pub(crate) fn json(&self) -> Value {
        let points: serde_json::Map<_, _> = Point::ALL
            .iter()
            .filter_map(|point| Some((point.label().to_owned(), self.at(*point)?.into())))
            .collect();
        let waits: serde_json::Map<_, _> = Wait::ALL
            .iter()
            .map(|wait| (wait.label().to_owned(), (self.waits_ns[*wait as usize] / 1_000).into()))
            .collect();
        json!({
            "time_unix_ms": self.unix_ms,
            "worker": self.worker,
            "connection": format!("{:x}", self.connection),
            "request": self.request,
            "client": self.client.to_string(),
            "method": text::characters(self.method.as_bytes()),
            "host": text::characters(self.host.as_bytes()),
            "path": text::characters(self.path.as_bytes()),
            "status": self.status,
            "bytes": self.bytes,
            "took_us": self.took_us(),
            "asks": self.asks,
            "queued_ms": self.waited.queued_ms,
            "age_ms": self.waited.age_ms,
            "close": self.close.map(CloseReason::label),
            "points_us": points,
            "waits_us": waits,
            "longest_wait": self.longest_wait().0.label(),
        })
    }
}

/// Milliseconds, with the microseconds behind the point.
fn ms(us: u64) -> String {
    format!("{}.{:03}ms", us / 1_000, us % 1_000)
}

#[cfg(test)]
pub(super) fn example() -> Record {
    let mut record = Record::new(1_700_000_000_123);
    (record.worker, record.connection, record.request) = (3, 0xabc, 7);
    record.client = Remote::Ip([127, 0, 0, 1].into());
    record.method.set(b"GET");
    record.host.set(b"example.org");
    record.path.set(&[b'/'; 200]);
    (record.status, record.bytes, record.asks) = (200, 5, 2);
    record.close = Some(CloseReason::ALL[1]);
    record.waited.queued_ms = Some(52);
    for (at, point) in [Point::Begin, Point::Head, Point::Answer, Point::Done].iter().enumerate() {
        record.points[*point as usize] = 1_000 * at as u32 + 500;
    }
    record.waits_ns[Wait::Disk as usize] = 2_345_678;
    record.waits_ns[Wait::Server as usize] = 9_000_000;
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_crosses_memory_unchanged() {
        let record = example();
        assert_eq!(Record::decode(&record.encode()), record);
        let mut v6 = record;
        v6.client = Remote::Ip("2001:db8::1".parse().unwrap());
        assert_eq!(Record::decode(&v6.encode()), v6);
        // Whatever stands in memory is some record.
        let _ = Record::decode(&[u64::MAX; WORDS]).line();
    }

    #[test]
    fn a_line_tells_all_of_it() {
        let line = example().line();
        let begin = "2023-11-14T22:13:20.123Z GET //";
        assert!(line.starts_with(begin), "{line}");
        for part in [
            "//... 200 5B 3.000ms | host example.org client 127.0.0.1 worker 3",
            "connection abc request 7 queued 52ms | begin 0.500ms head 1.500ms answer 2.500ms done \
             3.500ms (",
            "waited for disk 2.345ms server 9.000ms (2 asks); longest disk 2.345ms",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn a_client_cannot_end_a_line() {
        let mut record = example();
        record.path.set(b"/a\n\x1b\"b");
        assert!(record.line().contains(" /a\\x0a\\x1b\\x22b 200 "), "{}", record.line());
    }
}
