//! Session logs of httperf (its `--wsesslog`).
//!
//! A line that begins at the margin begins a burst, as does the first one of a session; others that
//! are indented follow when its first reply has come; a blank line ends a session; `#` at the
//! margin begins a comment. After a path come `method=NAME`, `think=SECONDS` (after the burst) and
//! `contents='...'`, of which any part may be quoted.
//!
//! Four things differ from httperf: there is no limit of sessions; bytes of a path that no request
//! line can have, `#` among them, are written as `%20` and the like; a quote that is not closed is
//! wrong; and a wrong line is skipped with the rest of its burst, where httperf ends.

use std::collections::HashMap;

use super::recorded::Recorded;
use super::skipped::Skipped;
use super::target::target_of;
use super::{Catalog, Follow, Message, RequestId, Step};

/// Longest think time: a day.
const THINK_MAX_S: f64 = 86_400.0;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    target: String,
    method: Option<String>,
    contents: Option<Vec<u8>>,
    think_ns: Option<u64>,
}

/// Collects steps into sessions.
struct Reader<'a> {
    base: &'a Message,
    catalog: &'a mut Catalog,
    known: HashMap<Call, RequestId>,
    steps: Vec<Step>,
    ends: Vec<u32>,
    /// What is thought after the present burst.
    after: Follow,
    /// Whether a line of the present session has begun a burst.
    has_burst: bool,
    /// Whether the line that began the present burst was skipped.
    is_lost: bool,
}

/// Reads a session log into the catalog: requests are as `base` where a line says nothing else,
/// and bursts are a think time apart.
///
/// # Errors
/// When it has no session, or a line is wrong and `skipped` refuses it.
pub fn session_log(
    text: &[u8],
    base: &Message,
    catalog: &mut Catalog,
    skipped: &mut Skipped,
) -> Result<Recorded, String> {
    let mut reader = Reader {
        base,
        catalog,
        known: HashMap::new(),
        steps: Vec::new(),
        ends: Vec::new(),
        after: Follow::Pause,
        has_burst: false,
        is_lost: false,
    };
    let mut at = 0;
    let mut number = 0;
    while at < text.len() {
        let (line, lines) = logical_line(&text[at..]);
        at += line.len();
        let first = number + 1;
        number += lines;
        if line.starts_with(b"#") {
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            reader.end_session();
            continue;
        }
        let is_indented = line[0].is_ascii_whitespace();
        if let Err(why) = reader.line(line.trim_ascii(), is_indented) {
            skipped.skip(&format!("line {first}"), &why)?;
        }
    }
    reader.end_session();
    if reader.ends.is_empty() {
        return Err("the log has no session".into());
    }
    Ok(Recorded::new(reader.steps, reader.ends))
}

/// A line with those that it is continued by, and how many they are: a line end after a backslash
/// ends no line.
fn logical_line(text: &[u8]) -> (&[u8], usize) {
    let mut lines = 0;
    for (at, byte) in text.iter().enumerate() {
        if *byte != b'\n' {
            continue;
        }
        lines += 1;
        let before = text[..at].strip_suffix(b"\r").unwrap_or(&text[..at]);
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 || text.starts_with(b"#") {
            return (&text[..=at], lines);
        }
    }
    (text, lines + 1)
}

impl Reader<'_> {
    fn line(&mut self, line: &[u8], is_indented: bool) -> Result<(), String> {
        if is_indented && self.is_lost {
            return Err("its burst begins with a line that was skipped".into());
        }
        let begins = !is_indented || !self.has_burst;
        let read = call(line);
        self.is_lost = begins && read.is_err();
        self.take(read?, begins);
        Ok(())
    }

    fn take(&mut self, mut call: Call, begins: bool) {
        let think_ns = call.think_ns.take();
        let follow = if begins {
            let before = std::mem::replace(&mut self.after, Follow::Pause);
            if self.has_burst { before } else { Follow::Pause }
        } else {
            Follow::AfterFirst
        };
        self.has_burst = true;
        self.after = think_ns.map_or(self.after, Follow::Think);
        let request = self.request(call);
        self.steps.push(Step { request, follow });
    }

    fn request(&mut self, call: Call) -> RequestId {
        if let Some(known) = self.known.get(&call) {
            return *known;
        }
        let named = call.clone();
        let mut message = Message { target: named.target, ..self.base.clone() };
        message.method = named.method.unwrap_or(message.method);
        message.body = named.contents.unwrap_or(message.body);
        let request = self.catalog.add(&message);
        self.known.insert(call, request);
        request
    }

    fn end_session(&mut self) {
        let end = self.steps.len() as u32;
        if self.has_burst {
            self.ends.push(end);
        }
        self.has_burst = false;
        self.is_lost = false;
        self.after = Follow::Pause;
    }
}

fn call(line: &[u8]) -> Result<Call, String> {
    let (path, mut rest) = word(line);
    let target = target_of(path).ok_or("it begins with no path")?;
    let mut call = Call { target, method: None, contents: None, think_ns: None };
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(call);
        }
        if let Some(quoted) = rest.strip_prefix(b"contents=") {
            let (contents, after) = contents(quoted)?;
            call.contents = Some(contents);
            rest = after;
            continue;
        }
        let (parameter, after) = word(rest);
        rest = after;
        let text = str::from_utf8(parameter).unwrap_or_default();
        match text.split_once('=') {
            Some(("method", name)) if is_method(name) => call.method = Some(name.into()),
            Some(("think", seconds)) => call.think_ns = Some(think(seconds)?),
            _ => {
                let shown = String::from_utf8_lossy(parameter);
                return Err(format!("{shown:?} is none of method=, think=, contents=''"));
            }
        }
    }
}

fn is_method(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

fn think(seconds: &str) -> Result<u64, String> {
    let parsed = seconds.parse::<f64>().ok();
    let seconds_max = parsed.filter(|seconds| (0.0..=THINK_MAX_S).contains(seconds));
    let wrong = || format!("think={seconds}: expected seconds, at most {THINK_MAX_S}");
    Ok((seconds_max.ok_or_else(wrong)? * 1e9) as u64)
}

/// What stands there up to a blank that is not quoted, without its quotes and escapes, and what
/// follows it.
fn contents(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut contents = Vec::new();
    let (mut at, mut quoted) = (0, None);
    while let Some(byte) = text.get(at).copied() {
        at += 1;
        match byte {
            b'\\' => {
                let Some(escaped) = text.get(at).copied() else { break };
                at += 1;
                contents.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'\r' if text.get(at) == Some(&b'\n') => {
                        at += 1;
                        b'\n'
                    }
                    other => other,
                });
            }
            _ if quoted == Some(byte) => quoted = None,
            b'\'' | b'"' if quoted.is_none() => quoted = Some(byte),
            _ if quoted.is_none() && byte.is_ascii_whitespace() => {
                return Ok((contents, &text[at..]));
            }
            _ => contents.push(byte),
        }
    }
    match quoted {
        Some(_) => Err("contents= without an end".into()),
        None => Ok((contents, &text[at..])),
    }
}

/// The bytes up to a blank, and the rest.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    fn read(text: &str) -> (Vec<Vec<Step>>, Catalog, Skipped) {
        let (mut catalog, mut skipped) = (Catalog::new("h", Vec::new()), Skipped::new(false));
        let base = Message::default();
        let read = session_log(text.as_bytes(), &base, &mut catalog, &mut skipped);
        let mut log = read.unwrap();
        let sessions = (0..log.sessions()).map(|_| {
            let mut steps = Vec::new();
            assert!(log.next_session(&mut steps));
            steps
        });
        (sessions.collect(), catalog, skipped)
    }

    #[test]
    fn bursts_think_times_and_sessions_are_as_written() {
        let text = "# two sessions\n/a think=2.0\n\t/b\n\t/c\n/d\n/a\n \t\n\n/e method=HEAD\n";
        let (sessions, catalog, skipped) = read(text);
        let follows: Vec<Vec<Follow>> =
            sessions.iter().map(|steps| steps.iter().map(|step| step.follow).collect()).collect();
        let (after, pause) = (Follow::AfterFirst, Follow::Pause);
        let first = vec![pause, after, after, Follow::Think(2_000_000_000), pause];
        assert_eq!(follows, [first, vec![pause]]);
        assert_eq!(catalog.len(), 5, "/a is one request, however often it is asked for");
        assert_eq!(sessions[0][0].request, sessions[0][4].request);
        assert!(catalog.request(4).is_head && skipped.count() == 0);
        assert!(catalog.request(4).bytes.starts_with(b"HEAD /e HTTP/1.1\r\n"));
    }

    #[test]
    fn contents_have_escapes_and_may_go_over_lines() {
        let text = "/f method=POST contents='a\\n\\t\\'b\\\\ \\\nc' think=1\n\
                    /g contents=\"it's\"\n/h contents=a=\\ b' c'\"d\" method=PUT\n";
        let (sessions, catalog, _) = read(text);
        assert_eq!(sessions.len(), 1);
        let bytes = &catalog.request(0).bytes;
        assert!(bytes.starts_with(b"POST /f HTTP/1.1\r\n"));
        // The line end that an escape continues over is a part of it.
        assert!(bytes.ends_with(b"Content-Length: 9\r\n\r\na\n\t'b\\ \nc"), "{bytes:?}");
        assert!(catalog.request(1).bytes.ends_with(b"\r\n\r\nit's"));
        let bytes = &catalog.request(2).bytes;
        assert!(bytes.starts_with(b"PUT /h ") && bytes.ends_with(b"\r\n\r\na= b cd"), "{bytes:?}");
        assert_eq!(sessions[0][1].follow, Follow::Think(1_000_000_000));
    }

    #[test]
    fn the_first_line_of_a_session_begins_a_burst_also_where_it_is_indented() {
        let (sessions, catalog, skipped) = read("\t/a#b think=1\n\t/c\n/d\n");
        let follows: Vec<Follow> = sessions[0].iter().map(|step| step.follow).collect();
        assert_eq!(follows, [Follow::Pause, Follow::AfterFirst, Follow::Think(1_000_000_000)]);
        assert_eq!(skipped.count(), 0);
        assert!(catalog.request(0).bytes.starts_with(b"GET /a%23b HTTP/1.1\r\n"));
    }

    #[test]
    fn wrong_lines_are_skipped_with_their_numbers_and_strict_ones_end_it() {
        let text = "/a\n/b think=x\n\t/of-b\n/c contents='x\n/d foo=1\nnopath\n/e method=get\n/f";
        let (sessions, catalog, skipped) = read(text);
        assert_eq!((sessions.len(), catalog.len(), skipped.count()), (1, 2, 6));
        let note = skipped.note().unwrap();
        let lost = "line 3: its burst begins with a line that was skipped";
        for line in ["line 2: think=x", lost, "line 4: contents=", "line 5:"] {
            assert!(note.contains(line), "{note}");
        }
        let mut catalog = Catalog::new("h", Vec::new());
        let mut strict = Skipped::new(true);
        let base = Message::default();
        let refused = session_log(b"/a\n/b x\n", &base, &mut catalog, &mut strict);
        assert!(refused.unwrap_err().starts_with("line 2: \"x\" is none of"));
        let empty = session_log(b"# nothing\n", &base, &mut catalog, &mut strict);
        assert!(empty.unwrap_err().contains("no session"));
    }
}
