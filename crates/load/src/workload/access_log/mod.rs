//! Access logs: what real clients asked for, in the order in which they did.
//!
//! Each line is a session of one request, or the requests of one client that follow each other
//! within a gap are a session, with the pauses that the log has. The format is recognised: common
//! and combined ([`clf`]), or the binary records of the World Cup of 1998 ([`worldcup`]).

mod clf;
mod truncate;
mod worldcup;

use std::collections::HashMap;
use std::sync::Arc;

use super::recorded::Recorded;
use super::skipped::Skipped;
use super::{Catalog, Follow, Message, RequestId, Step};
pub use truncate::files_of_log;

/// A second in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// Methods that ask for nothing to be changed (RFC 9110, Section 9.2.1).
const SAFE: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// One request of a log; what it holds is borrowed from the log where it can be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry<'a> {
    /// Who asked.
    client: &'a [u8],
    /// When, in seconds since 1970.
    time_s: i64,
    method: &'a str,
    target: String,
    is_http10: bool,
    status: u16,
    /// Bytes of the body.
    bytes: u64,
    /// The log says that not all of it was sent.
    is_cut: bool,
}

impl Entry<'_> {
    /// Whether it is a file's: what a set of data consists of.
    fn is_file(&self) -> bool {
        let is_answered = matches!(self.status, 200 | 304) && !self.is_cut;
        self.method == "GET" && is_answered && !self.target.contains('?')
    }
}

/// How a log is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replaying {
    /// Longest pause within a session of one client, in seconds; `None` makes sessions of requests
    /// as they follow each other, whosever they are.
    pub client_gap_s: Option<u64>,
    /// Requests of each such session, without pauses; 0 counts as 1.
    pub per_session: u32,
    /// Bytes of the distinct files at which the log is cut off; `None` takes all of it.
    pub data_set: Option<u64>,
    /// How much faster than it was the log goes.
    pub speed: f64,
    /// Requests that may change something are left out: all but those of methods that are safe (RFC
    /// 9110, Section 9.2.1).
    pub safe: bool,
}

/// A log that was read.
#[derive(Debug)]
pub struct AccessLog {
    /// Its sessions, by when they begin.
    pub sessions: Recorded,
    /// When each begins, in nanoseconds from the first; they ascend.
    pub starts_ns: Arc<[u64]>,
    /// Requests that were left out, since they might change something.
    pub left_out: u64,
}

/// Reads an access log into the catalog; its requests are as `base` where it says nothing else.
/// Bodies are in no log: what was posted is posted again without one.
///
/// # Errors
/// When it has no request, or a line is wrong and `skipped` refuses it.
pub fn access_log(
    log: &[u8],
    base: &Message,
    catalog: &mut Catalog,
    replaying: Replaying,
    skipped: &mut Skipped,
) -> Result<AccessLog, String> {
    let mut reader =
        Reader { base, catalog, known: HashMap::new(), requests: Vec::new(), left_out: 0 };
    let is_wanted = |entry: &Entry<'_>| !replaying.safe || SAFE.contains(&entry.method);
    match replaying.data_set {
        Some(bytes) => {
            let mut files = truncate::Truncation::new(log, bytes)?;
            read(log, skipped, &mut |entry, client| {
                if files.takes(&entry) {
                    reader.take(&entry, client, is_wanted(&entry));
                }
            })?;
        }
        None => read(log, skipped, &mut |entry, client| {
            reader.take(&entry, client, is_wanted(&entry));
        })?,
    }
    match (reader.requests.is_empty(), reader.left_out) {
        (true, 0) => Err("the log has no request".into()),
        (true, _) => Err("the log has no request that is safe to be made again".into()),
        (false, left_out) => Ok(AccessLog { left_out, ..sessions(reader.requests, replaying) }),
    }
}

/// Gives every entry of a log with the number of its client to `take`.
fn read(
    log: &[u8],
    skipped: &mut Skipped,
    take: &mut dyn FnMut(Entry<'_>, u32),
) -> Result<(), String> {
    // Clients are numbered in the order in which they come.
    let mut clients: HashMap<&[u8], u32> = HashMap::new();
    if worldcup::is_log(log) {
        worldcup::read(log, skipped, take)?;
    } else {
        for (number, line) in log.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match clf::entry(line) {
                Ok(entry) => {
                    let next = clients.len() as u32;
                    let client = *clients.entry(entry.client).or_insert(next);
                    take(entry, client);
                }
                Err(why) => skipped.skip(&format!("line {}", number + 1), why)?,
            }
        }
    }
    Ok(())
}

/// A request of the log.
#[derive(Clone, Copy, Debug)]
struct Logged {
    time_s: i64,
    client: u32,
    request: RequestId,
}

struct Reader<'a> {
    base: &'a Message,
    catalog: &'a mut Catalog,
    known: HashMap<(String, String, bool), RequestId>,
    requests: Vec<Logged>,
    left_out: u64,
}

impl Reader<'_> {
    fn take(&mut self, entry: &Entry<'_>, client: u32, is_wanted: bool) {
        if !is_wanted {
            self.left_out += 1;
            return;
        }
        let is_http10 = entry.is_http10 || self.base.http10;
        let key = (entry.method.to_owned(), entry.target.clone(), is_http10);
        let request = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let request = self.catalog.add(&Message {
                    method: key.0.clone(),
                    target: key.1.clone(),
                    http10: is_http10,
                    body: Vec::new(),
                    ..self.base.clone()
                });
                self.known.insert(key, request);
                request
            }
        };
        self.requests.push(Logged { time_s: entry.time_s, client, request });
    }
}

/// The sessions of a log: servers write a line when a reply is over, so that lines may be a little
/// out of order.
fn sessions(mut requests: Vec<Logged>, replaying: Replaying) -> AccessLog {
    requests.sort_by_key(|logged| logged.time_s);
    let first_s = requests.first().map_or(0, |logged| logged.time_s);
    let speed = if replaying.speed > 0.0 { replaying.speed } else { 1.0 };
    let scaled = |seconds: i64| (seconds.max(0) as f64 * SECOND_NS as f64 / speed) as u64;
    let mut order: Vec<Vec<Logged>> = Vec::new();
    let (mut steps, mut ends, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let Some(gap_s) = replaying.client_gap_s else {
        for session in requests.chunks(replaying.per_session.max(1) as usize) {
            let step = |logged: &Logged| Step { request: logged.request, follow: Follow::Think(0) };
            steps.extend(session.iter().map(step));
            ends.push(steps.len() as u32);
            starts.push(scaled(session[0].time_s - first_s));
        }
        let sessions = Recorded::new(steps, ends);
        return AccessLog { sessions, starts_ns: starts.into(), left_out: 0 };
    };
    // The session that each client is in.
    let mut present: HashMap<u32, usize> = HashMap::new();
    for logged in requests {
        let at = present.get(&logged.client).copied().filter(|at| {
            let last_s = order[*at].last().map_or(i64::MIN, |last| last.time_s);
            logged.time_s.saturating_sub(last_s) <= i64::try_from(gap_s).unwrap_or(i64::MAX)
        });
        let at = at.unwrap_or_else(|| {
            order.push(Vec::new());
            order.len() - 1
        });
        present.insert(logged.client, at);
        order[at].push(logged);
    }
    for session in &order {
        let mut before_s = session[0].time_s;
        starts.push(scaled(before_s - first_s));
        for logged in session {
            let follow = Follow::Think(scaled(logged.time_s - before_s));
            steps.push(Step { request: logged.request, follow });
            before_s = logged.time_s;
        }
        ends.push(steps.len() as u32);
    }
    AccessLog { sessions: Recorded::new(steps, ends), starts_ns: starts.into(), left_out: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    const LOG: &[u8] = b"a - - [01/Jul/1995:00:00:01 -0400] \"GET /1 HTTP/1.0\" 200 1\n\
        b - - [01/Jul/1995:00:00:03 -0400] \"GET /1 HTTP/1.1\" 200 1\n\
        nothing\n\
        a - - [01/Jul/1995:00:00:02 -0400] \"HEAD /2\" 304 -\n\
        a - - [01/Jul/1995:00:00:32 -0400] \"GET /1 HTTP/1.0\" 200 1\n";

    fn read_log(replaying: Replaying) -> (AccessLog, Catalog, Skipped) {
        let (mut catalog, mut skipped) = (Catalog::new("h", Vec::new()), Skipped::new(false));
        let base = Message::default();
        let log = access_log(LOG, &base, &mut catalog, replaying, &mut skipped).unwrap();
        (log, catalog, skipped)
    }

    #[test]
    fn each_line_is_a_session_in_the_order_of_time() {
        let (mut log, catalog, skipped) =
            read_log(Replaying { speed: 2.0, ..Replaying::default() });
        assert_eq!(log.starts_ns[..], [0, 500_000_000, 1_000_000_000, 15_500_000_000]);
        assert_eq!((log.sessions.sessions(), skipped.count()), (4, 1));
        assert!(skipped.note().unwrap().contains("line 3"));
        let mut steps = Vec::new();
        (0..4).for_each(|_| assert!(log.sessions.next_session(&mut steps)));
        let heads: Vec<&[u8]> =
            steps.iter().map(|step| &catalog.request(step.request).bytes[..16]).collect();
        assert_eq!(heads[0], b"GET /1 HTTP/1.0\r");
        assert_eq!(heads[1], b"HEAD /2 HTTP/1.0");
        assert_eq!(heads[2], b"GET /1 HTTP/1.1\r");
        assert_eq!(steps[0].request, steps[3].request);
    }

    #[test]
    fn so_many_lines_are_a_session_whosever_they_are() {
        let (mut log, _, _) = read_log(Replaying { per_session: 3, ..Replaying::default() });
        assert_eq!(
            (log.sessions.sessions(), log.starts_ns[..].to_vec()),
            (2, vec![0, 31_000_000_000])
        );
        let mut steps = Vec::new();
        assert!(log.sessions.next_session(&mut steps));
        assert_eq!(steps.len(), 3);
        assert!(steps.iter().all(|step| step.follow == Follow::Think(0)));
    }

    #[test]
    fn requests_of_one_client_within_the_gap_are_a_session() {
        let (mut log, _, _) =
            read_log(Replaying { client_gap_s: Some(10), ..Replaying::default() });
        assert_eq!(log.starts_ns[..], [0, 2_000_000_000, 31_000_000_000]);
        let mut steps = Vec::new();
        assert!(log.sessions.next_session(&mut steps));
        let follows: Vec<_> = steps.iter().map(|step| step.follow).collect();
        assert_eq!(follows, [Follow::Think(0), Follow::Think(1_000_000_000)]);
    }

    #[test]
    fn what_may_change_something_is_left_out_where_that_is_asked_for() {
        let log = b"a - - [01/Jul/1995:00:00:01 -0400] \"POST /1 HTTP/1.0\" 200 1\n\
            a - - [01/Jul/1995:00:00:02 -0400] \"DELETE /2 HTTP/1.0\" 200 1\n\
            a - - [01/Jul/1995:00:00:03 -0400] \"HEAD /3 HTTP/1.0\" 200 1\n";
        let (base, safe) = (Message::default(), Replaying { safe: true, ..Replaying::default() });
        let read = |log: &[u8], replaying| {
            let (mut catalog, mut skipped) = (Catalog::new("h", Vec::new()), Skipped::new(false));
            let log = access_log(log, &base, &mut catalog, replaying, &mut skipped);
            log.map(|log| (log.sessions.sessions(), log.left_out))
        };
        assert_eq!(read(log, safe), Ok((1, 2)));
        assert_eq!(read(log, Replaying::default()), Ok((3, 0)));
        let refused = read(&log[..60], safe).unwrap_err();
        assert!(refused.ends_with("safe to be made again"), "{refused}");
    }

    #[test]
    fn a_log_without_a_request_is_refused() {
        let (mut catalog, mut skipped) = (Catalog::new("h", Vec::new()), Skipped::new(false));
        let (base, replaying) = (Message::default(), Replaying::default());
        let read = access_log(b"x\n\n", &base, &mut catalog, replaying, &mut skipped);
        assert!(read.unwrap_err().contains("no request"));
        let mut strict = Skipped::new(true);
        let read = access_log(LOG, &base, &mut catalog, replaying, &mut strict);
        assert!(read.unwrap_err().starts_with("line 3: "));
    }
}
