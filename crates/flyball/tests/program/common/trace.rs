//! A server under strace, and the system calls that it makes for what a client does.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flyball_testkit::Client;
use tempfile::TempDir;

use super::{Launch, Server, Site, get, last_get, wait_for};

/// One system call of the process that serves.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub arguments: String,
    pub result: i64,
}

impl Call {
    /// What the budgets count a call as.
    pub fn kind(&self) -> &str {
        match self.name.as_str() {
            "read" | "recvfrom" | "recvmsg" | "readv" => "read",
            "write" | "sendto" | "sendmsg" | "writev" => "write",
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" => "wait",
            "fstat" | "newfstatat" | "statx" => "stat",
            "accept4" if self.result < 0 => "empty accept",
            name => name,
        }
    }
}

impl Call {
    /// In debug builds the standard library asks before each close whether the descriptor is open.
    fn is_of_debug_build(&self) -> bool {
        cfg!(debug_assertions) && self.name == "fcntl" && self.arguments.contains("F_GETFD")
    }
}

/// Calls by kind, as in `{"read": 1, "write": 1}`.
pub fn tally(calls: &[Call]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.kind()).or_insert(0) += 1;
    }
    counts
}

/// A server that is traced from its start.
pub struct Traced {
    pub server: Server,
    pub log: PathBuf,
    _directory: TempDir,
}

impl Traced {
    pub fn start(site: &Site, arch: &str, settings: &[&str]) -> Traced {
        Traced::start_from(&[super::text(site.path())], arch, settings)
    }

    /// Serves what these arguments say.
    pub fn start_from(what: &[&str], arch: &str, settings: &[&str]) -> Traced {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = super::within(&directory, "trace");
        let strace = ["strace", "-f", "-qq", "-s", "64", "-o", super::text(&log), "--"];
        let mut launch = Launch::bare(&strace)
            .args(what)
            .args(&["--listen", "127.0.0.1:0", "--arch", arch, "--workers", "1"])
            .set("cache.revalidate=1h")
            // The marking connection waits while others act, on a busy machine for minutes.
            .set("timeout.idle=1h");
        for setting in settings {
            launch = launch.set(setting);
        }
        let mut server = launch.start();
        let trace = std::fs::read_to_string(&log).expect("there is a trace");
        let master = trace.split_whitespace().next().and_then(|pid| pid.parse().ok());
        server.watches(master.expect("the trace begins with a process id"));
        Traced { server, log, _directory: directory }
    }

    /// A kept connection that has had `path` before.
    pub fn warm(&self, path: &str) -> Client {
        let mut client = self.server.connect();
        for _ in 0..3 {
            assert_eq!(client.ask(get(path)).status(), 200);
        }
        client
    }

    /// As [`Traced::warm`], and the worker has closed the connection when this returns: the end of
    /// a client that merely goes away may arrive after what another sends later.
    pub fn warm_and_close(&self, path: &str) {
        let mut client = self.warm(path);
        assert_eq!(client.ask(last_get(path)).status(), 200);
        client.expect_closed();
    }

    /// The process that has served, where the master has other children too.
    pub fn serving(&self) -> u32 {
        let trace = std::fs::read_to_string(&self.log).expect("there is a trace");
        let is_read = |call: &Call| call.arguments.contains("\"GET /") && call.result > 0;
        let calls = whole_calls(&trace);
        let (process, _) = calls.iter().find(|(_, call)| is_read(call)).expect("it was asked");
        process.parse().expect("the trace names processes")
    }

    /// The calls that `act` causes in the process that serves `client`: those between the answer to
    /// one request on that connection and the arrival of another.
    pub fn calls(&self, client: &mut Client, act: impl FnOnce(&mut Client)) -> Vec<Call> {
        self.calls_between(client, "", act)
    }

    /// As [`Traced::calls`], with marks that end in `name`: several may be in one trace.
    pub fn calls_between(
        &self,
        client: &mut Client,
        name: &str,
        act: impl FnOnce(&mut Client),
    ) -> Vec<Call> {
        let marks = [format!("/begin{name}"), format!("/end{name}")];
        assert_eq!(client.ask(get(&marks[0])).status(), 404);
        act(client);
        assert_eq!(client.ask(get(&marks[1])).status(), 404);
        wait_for("the end in the trace", || {
            let trace = std::fs::read_to_string(&self.log).expect("there is a trace");
            between(&whole_calls(&trace), &marks)
        })
    }
}

/// The lines of a trace with their processes; a call that was interrupted by another process's line
/// is put together again, in the place of its end.
pub fn whole_lines(trace: &str) -> Vec<(&str, String)> {
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in trace.lines() {
        let Some((process, text)) = line.split_once(' ') else { continue };
        let text = text.trim_start();
        let text = match text.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, rest)) => unfinished.remove(process).unwrap_or_default() + rest,
            None => text.to_string(),
        };
        match text.strip_suffix("<unfinished ...>") {
            Some(start) => drop(unfinished.insert(process, start.to_string())),
            None => lines.push((process, text)),
        }
    }
    lines
}

/// The calls in a trace with the processes that made them.
pub fn whole_calls(trace: &str) -> Vec<(&str, Call)> {
    let lines = whole_lines(trace).into_iter();
    let calls = lines.filter(|(_, text)| !text.starts_with("---") && !text.starts_with("+++"));
    let calls = calls.filter_map(|(process, text)| Some((process, parse(&text)?)));
    calls.filter(|(_, call)| !call.is_of_debug_build()).collect()
}

/// `recvfrom(9, "GET ", 4, 0, NULL, NULL) = 4`.
fn parse(text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let result = result.split_whitespace().next()?.parse().unwrap_or(0);
    Some(Call { name: name.into(), arguments: arguments.into(), result })
}

/// What the process that received both marks did between them.
fn between(calls: &[(&str, Call)], marks: &[String; 2]) -> Option<Vec<Call>> {
    let [begin, end] = marks.each_ref().map(|mark| format!("\"GET {mark} "));
    let is_mark = |call: &Call, mark: &str| call.arguments.contains(mark) && call.result > 0;
    let received = calls.iter().position(|(_, call)| is_mark(call, &begin))?;
    let process = calls[received].0;
    let own = calls[received..].iter().filter(|(by, _)| *by == process).map(|(_, call)| call);
    // The answer to the first mark is not counted, nor is the arrival of the second.
    let after = own.skip_while(|call| call.kind() != "write").skip(1);
    let mut found: Vec<Call> = after.cloned().collect();
    let end = found.iter().position(|call| is_mark(call, &end))?;
    found.truncate(end);
    Some(found)
}
