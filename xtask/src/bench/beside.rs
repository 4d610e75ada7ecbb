//! Another build of Flyball in the same comparison: the ratio of what both cost, round by round,
//! and the system calls that both make for the same requests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flyball_testkit::wait;
use serde_json::{Value, json};

use super::check;
use super::contestant::{Contestant, Server, Setup};
use super::failure::Failure;
use super::measure::Run;
use super::process::{self, Running};
use super::report::Spread;
use super::work::{Connection, PIPELINE_DEPTH, Unit, Work};

/// Requests of which the calls are counted, at least.
const COUNTED: usize = 2_000;
/// The same of large files.
const COUNTED_LARGE: usize = 8;
/// Calls for a request by which two builds may differ and count as equal: timers fall into one
/// count and not into the other.
const EQUAL_WITHIN: f64 = 0.02;
/// The same of large files, which leave as their client makes room.
const EQUAL_WITHIN_LARGE: f64 = 2.0;
/// Time that strace gets to attach to a server, and to end.
const STRACE_MAX: Duration = Duration::from_secs(10);

/// One architecture in one work, of two builds.
#[derive(Debug)]
pub(crate) struct Pair {
    work: &'static Work,
    /// The contestant of the build that is measured.
    own: String,
    /// Its CPU time as a share of the other's, in the same round.
    ratio: Spread,
    /// Calls for a request of this build and of the other, by name; why not, if not counted.
    calls: Result<[Calls; 2], String>,
}

/// System calls by name: how many, or how many for a request.
pub(crate) type Calls = BTreeMap<String, f64>;

impl Pair {
    /// Of all rounds of a contestant in a work that both builds took part in.
    pub(crate) fn of(
        work: &'static Work,
        own: &Contestant,
        runs: &[Run],
        calls: Result<[Calls; 2], String>,
    ) -> Option<Pair> {
        let of = |name: String| {
            runs.iter().filter(move |run| run.work == work.name && run.contestant == name)
        };
        let ratio = of(own.name())
            .zip(of(own.beside()?.name()))
            .map(|(own, beside)| own.cpu_us() / beside.cpu_us());
        let ratio: Vec<f64> = ratio.collect();
        (!ratio.is_empty()).then(|| Pair {
            work,
            own: own.name(),
            ratio: Spread::of(ratio.into_iter()),
            calls,
        })
    }

    /// Whether it makes no more calls, and is not dearer in every round.
    pub(crate) fn passed(&self) -> bool {
        self.ratio.min <= 1.0
            && self.calls.as_ref().map_or(true, |calls| self.more(calls).is_empty())
    }

    pub(crate) fn row(&self) -> Vec<String> {
        let calls = match &self.calls {
            Err(why) => why.clone(),
            Ok([own, _]) => {
                let more = self.calls.as_ref().map(|calls| self.more(calls)).unwrap_or_default();
                let all = format!("{:.2} calls", own.values().sum::<f64>());
                if more.is_empty() { all } else { format!("{all}, more: {}", more.join(", ")) }
            }
        };
        vec![
            self.work.name.to_owned(),
            self.own.clone(),
            self.ratio.text(),
            calls,
            if self.passed() { "PASS" } else { "MISS" }.to_owned(),
        ]
    }

    pub(crate) fn json(&self) -> Value {
        let calls = match &self.calls {
            Ok([own, beside]) => json!({ "own": own, "beside": beside }),
            Err(why) => json!({ "not_counted": why }),
        };
        json!({
            "work": self.work.name,
            "contestant": self.own,
            "cpu_ratio": self.ratio.json(),
            "calls_per_request": calls,
            "passed": self.passed(),
        })
    }

    /// The calls that this build makes more often than the other.
    fn more(&self, [own, beside]: &[Calls; 2]) -> Vec<String> {
        let within = match self.work.unit {
            Unit::Request => EQUAL_WITHIN,
            Unit::Mebibyte => EQUAL_WITHIN_LARGE,
        };
        let of_other = |name: &String| beside.get(name).copied().unwrap_or(0.0);
        let more = own.iter().filter(|(name, count)| **count > of_other(name) + within);
        more.map(|(name, count)| format!("{name} {count:.2} to {:.2}", of_other(name))).collect()
    }
}

/// The calls for a request of both builds; why not, if they cannot be counted here.
pub(crate) fn calls(
    work: &Work,
    own: &Contestant,
    setup: &Setup,
) -> Result<Result<[Calls; 2], String>, Failure> {
    let Some(beside) = own.beside() else { return Ok(Err("there is no other build".into())) };
    let of = |contestant: &Contestant| -> Result<Result<Calls, String>, Failure> {
        let server = Server::start(contestant, 0, setup)?;
        Ok(count(&server, work, setup))
    };
    let (own, beside) = (of(own)?, of(&beside)?);
    Ok(own.and_then(|own| Ok([own, beside?])))
}

/// Counts with strace(1) what a server that is warm does for the requests of a work.
fn count(server: &Server, work: &Work, setup: &Setup) -> Result<Calls, String> {
    let once = match work.connection {
        Connection::Close => work.sample().len(),
        Connection::KeepAlive => work.kept_requests(),
        Connection::Pipelined => work.sample().len() * PIPELINE_DEPTH,
    };
    let least = if work.unit == Unit::Mebibyte { COUNTED_LARGE } else { COUNTED };
    let times = least.div_ceil(once);
    check::answers(server.address, &setup.site, work)?;
    let log = setup.scratch.join("calls");
    let calls = traced(&server.running, &log, || {
        (0..times).try_for_each(|_| check::answers(server.address, &setup.site, work))
    })?;
    Ok(calls.into_iter().map(|(name, count)| (name, count / (once * times) as f64)).collect())
}

/// Counts with strace(1) what a server calls while `ask` asks it; strace writes into `log`.
pub(crate) fn traced(
    server: &Running,
    log: &Path,
    ask: impl FnOnce() -> Result<(), String>,
) -> Result<Calls, String> {
    let strace = process::find("strace").map_err(|failure| failure.to_string())?;
    let mut command = Command::new(strace);
    command.args(["-f", "-qq", "-c", "-U", "name,calls", "-o"]).arg(log);
    let threads = server.thread_ids();
    for thread in &threads {
        command.args(["-p", &thread.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracer = command.spawn().map_err(|error| format!("strace: {error}"))?;
    let attached = wait::until(STRACE_MAX, || {
        let ended = tracer.try_wait().ok().flatten().is_some();
        (ended || threads.iter().all(|thread| is_traced(*thread))).then_some(!ended)
    });
    let asked = match attached {
        Some(true) => ask(),
        _ => Err("strace cannot attach to the server".into()),
    };
    process::signal("INT", &tracer.id().to_string());
    if wait::until(STRACE_MAX, || tracer.try_wait().transpose()).is_none() {
        // It may have ended just now; either way it is awaited below.
        let _ = tracer.kill();
    }
    let _ = tracer.wait();
    asked?;
    let text = fs::read_to_string(log).map_err(|error| format!("strace: {error}"))?;
    Ok(counts(&text))
}

/// Whether a thread has a tracer (proc_pid_status(5)).
fn is_traced(thread: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(thread.to_string()).join("status"));
    status.is_ok_and(|text| !text.contains("TracerPid:\t0\n"))
}

/// The table that strace prints: a name and a count in each line, between lines of dashes.
fn counts(table: &str) -> Calls {
    let row = |line: &str| {
        let (name, count) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    table.lines().filter_map(row).filter(|(name, _)| name != "total").collect()
}

#[cfg(test)]
mod tests {
    use super::super::measure::Load;
    use super::*;

    fn run(contestant: &str, cpu_us: u64) -> Run {
        Run {
            work: "keep",
            unit: Unit::Request,
            contestant: contestant.into(),
            round: 1,
            load: Load { duration_us: 1_000_000, requests: 1000, ..Load::default() },
            server_cpu_ns: cpu_us * 1_000_000,
            processes_ended: 0,
            generator_cpu_ns: 0,
            others_cpu_ns: 0,
        }
    }

    fn pair(own: [u64; 2], beside: [u64; 2], calls: [&[(&str, f64)]; 2]) -> Pair {
        let runs = [
            own.map(|cpu_us| run("flyball-sped", cpu_us)),
            beside.map(|cpu_us| run("beside-sped", cpu_us)),
        ]
        .concat();
        let calls =
            calls.map(|calls| calls.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect());
        let contestant = Contestant::flyball("sped");
        Pair::of(Work::named("keep"), &contestant, &runs, Ok(calls)).expect("both took part")
    }

    #[test]
    fn a_build_is_worse_when_it_costs_more_in_each_round_or_calls_more_often() {
        let same: [&[(&str, f64)]; 2] = [&[("recvfrom", 1.0)], &[("recvfrom", 1.01)]];
        assert!(pair([10, 12], [11, 11], same).passed());
        assert!(!pair([12, 12], [11, 11], same).passed());
        let more = pair([10, 10], [11, 11], [&[("recvfrom", 1.0), ("statx", 0.5)], same[1]]);
        assert!(!more.passed());
        assert_eq!(more.row()[3], "1.50 calls, more: statx 0.50 to 0.00");
    }

    #[test]
    fn a_table_of_strace_is_read() {
        let table = "syscall               calls\n---------------- ----------\n\
                     recvfrom               2000\nsendmsg                1000\n\
                     ---------------- ----------\ntotal                  3000\n";
        let expected = [("recvfrom".to_owned(), 2000.0), ("sendmsg".to_owned(), 1000.0)];
        assert_eq!(counts(table), Calls::from(expected));
    }
}
