//! One timed run: the generator's totals beside the server's CPU time.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use flyball_testkit::wait;

use super::contestant::{SERVER_CPU, Server};
use super::failure::Failure;
use super::process;
use super::work::{Connection, Unit, Work};

/// CPU of the generator.
pub(crate) const GENERATOR_CPU: usize = 1;
/// Seconds of load before each timed run, not measured: caches filled, connections once made.
const WARM_UP_S: u32 = 1;
/// Seconds after which the generator gives a request up.
const TIMEOUT_S: u32 = 10;
/// Time the generator gets beyond the length of its run.
const OVERTIME_S: u32 = 30;
/// A clock tick of /proc: Linux counts 100 a second there on x86 and Arm (USER_HZ).
const NS_PER_TICK: u64 = 1_000_000_000 / 100;
/// Share of its CPU from which on a process counts as filling it.
pub(crate) const FULL: f64 = 0.95;

/// What the generator counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Length of the run in microseconds.
    pub(crate) duration_us: u64,
    /// Answers.
    pub(crate) requests: u64,
    /// Bytes received, heads included.
    pub(crate) bytes: u64,
    /// Connections that failed.
    pub(crate) connect: u64,
    /// Reads that failed.
    pub(crate) read: u64,
    /// Writes that failed.
    pub(crate) write: u64,
    /// Answers with a status of 400 or above; redirections would not be seen here, but the answers
    /// were checked before.
    pub(crate) status: u64,
    /// Requests given up.
    pub(crate) timeout: u64,
}

/// One timed run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Name of the work.
    pub(crate) work: &'static str,
    /// What CPU time is divided by.
    pub(crate) unit: Unit,
    /// Name of the contestant.
    pub(crate) contestant: String,
    /// Round, from 1.
    pub(crate) round: u32,
    /// What the generator counted.
    pub(crate) load: Load,
    /// CPU time of the server's processes, in nanoseconds.
    pub(crate) server_cpu_ns: u64,
    /// Processes of the server that ended underway, with CPU time that was not counted.
    pub(crate) processes_ended: usize,
    /// CPU time of the generator, in nanoseconds, at a resolution of 10 ms.
    pub(crate) generator_cpu_ns: u64,
    /// CPU time that all else took from the two CPUs, in nanoseconds, at a resolution of 10 ms.
    pub(crate) others_cpu_ns: u64,
}

impl Run {
    /// Answers a second.
    pub(crate) fn throughput(&self) -> f64 {
        self.load.requests as f64 * 1e6 / self.load.duration_us as f64
    }

    /// MiB a second.
    pub(crate) fn mebibytes(&self) -> f64 {
        self.load.mebibytes() * 1e6 / self.load.duration_us as f64
    }

    /// The server's CPU time in microseconds for a unit of the work.
    pub(crate) fn cpu_us(&self) -> f64 {
        let units = match self.unit {
            Unit::Request => self.load.requests as f64,
            Unit::Mebibyte => self.load.mebibytes(),
        };
        self.server_cpu_ns as f64 / 1e3 / units
    }

    /// The server's share of its CPU.
    pub(crate) fn server_share(&self) -> f64 {
        self.server_cpu_ns as f64 / 1e3 / self.load.duration_us as f64
    }

    /// The generator's share of its CPU.
    pub(crate) fn generator_share(&self) -> f64 {
        self.generator_cpu_ns as f64 / 1e3 / self.load.duration_us as f64
    }

    /// What all else took, as a share of one CPU.
    pub(crate) fn others_share(&self) -> f64 {
        self.others_cpu_ns as f64 / 1e3 / self.load.duration_us as f64
    }

    /// Whether the generator's CPU was full while the server's was not.
    pub(crate) fn generator_was_the_limit(&self) -> bool {
        self.generator_share() >= FULL && self.server_share() < FULL
    }
}

impl Load {
    /// Failures of all kinds.
    pub(crate) fn errors(&self) -> u64 {
        self.connect + self.read + self.write + self.status + self.timeout
    }

    fn mebibytes(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20)
    }
}

/// Warms a server up, then loads it for `seconds`. Blocks.
pub(crate) fn run(
    server: &mut Server,
    work: &'static Work,
    scripts: &Path,
    round: u32,
    seconds: u32,
) -> Result<Run, Failure> {
    let contestant = server.contestant.name();
    generate(work, scripts, server.address, WARM_UP_S)?;
    let (all_before, generator_before) = (busy_ns(), awaited_children_ns());
    let before = server.running.cpu();
    let load = generate(work, scripts, server.address, seconds)?;
    let (server_cpu_ns, processes_ended) = server.running.cpu().since(&before);
    let generator_cpu_ns = awaited_children_ns() - generator_before;
    let all_cpu_ns = busy_ns() - all_before;
    if server.running.has_ended() {
        return Err(Failure::Broken(format!("{contestant} ended during {}", work.name)));
    }
    if load.requests == 0 {
        return Err(Failure::Broken(format!("{contestant} answered nothing in {}", work.name)));
    }
    Ok(Run {
        work: work.name,
        unit: work.unit,
        contestant,
        round,
        load,
        server_cpu_ns,
        processes_ended,
        generator_cpu_ns,
        others_cpu_ns: all_cpu_ns.saturating_sub(server_cpu_ns + generator_cpu_ns),
    })
}

/// Runs the generator once.
fn generate(
    work: &Work,
    scripts: &Path,
    address: SocketAddr,
    seconds: u32,
) -> Result<Load, Failure> {
    let wrk = process::find("wrk")?;
    let (mut command, threads) = match work.crowded {
        false => (process::pinned(GENERATOR_CPU, &wrk)?, "1"),
        true => (process::on_cpus(&format!("{SERVER_CPU},{GENERATOR_CPU}"), &wrk)?, "2"),
    };
    command.args(["--threads", threads, "--connections", &work.connections.to_string()]);
    command.args(["--duration", &format!("{seconds}s"), "--timeout", &format!("{TIMEOUT_S}s")]);
    if work.connection == Connection::Close {
        command.args(["--header", "Connection: close"]);
    }
    command.arg("--script").arg(scripts.join(work.script));
    command.arg(format!("http://{address}{}", work.path)).arg("--").args(work.arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::io(format!("starting {command:?}")))?;
    // Its output is some hundred bytes, which the pipe holds until it has ended.
    let at_most = Duration::from_secs(u64::from(seconds + OVERTIME_S));
    if wait::until(at_most, || child.try_wait().transpose()).is_none() {
        // It may have ended just now; either way it is awaited below.
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(Failure::io("reading from wrk"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(totals).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::Broken(format!("wrk reported no totals: {text}{said}"))
    })
}

/// The line that report.lua prints.
fn totals(line: &str) -> Option<Load> {
    let mut load = Load::default();
    for pair in line.strip_prefix("totals ")?.split_ascii_whitespace() {
        let (key, value) = pair.split_once('=')?;
        let field = match key {
            "duration_us" => &mut load.duration_us,
            "requests" => &mut load.requests,
            "bytes" => &mut load.bytes,
            "connect" => &mut load.connect,
            "read" => &mut load.read,
            "write" => &mut load.write,
            "status" => &mut load.status,
            "timeout" => &mut load.timeout,
            _ => return None,
        };
        *field = value.parse().ok()?;
    }
    (load.duration_us > 0).then_some(load)
}

/// CPU time of all children that were awaited so far. Between two looks only the generator is.
pub(crate) fn awaited_children_ns() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).unwrap_or(0) * NS_PER_TICK
}

/// Time that the server's and the generator's CPU were not idle.
fn busy_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    [SERVER_CPU, GENERATOR_CPU].iter().map(|cpu| busy_ticks(&stat, *cpu)).sum::<u64>() * NS_PER_TICK
}

/// Ticks that /proc/stat counts for a CPU in states other than idle and iowait, the fourth and
/// fifth; those of guests, after the eighth, are in the first two already (proc_stat(5)).
fn busy_ticks(stat: &str, cpu: usize) -> u64 {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
    let ticks: Vec<u64> = line.split(' ').filter_map(|tick| tick.parse().ok()).collect();
    ticks.iter().take(3).chain(ticks.iter().skip(5).take(3)).sum()
}

/// Sum of cutime and cstime in a line of /proc/PID/stat: fields 16 and 17 (proc_pid_stat(5)), of
/// which the first that follows the name is the third.
fn children_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(13);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(unit: Unit) -> Run {
        Run {
            work: "keep",
            unit,
            contestant: "nginx".into(),
            round: 1,
            load: Load {
                duration_us: 2_000_000,
                requests: 1000,
                bytes: 4 << 20,
                ..Load::default()
            },
            server_cpu_ns: 1_000_000_000,
            processes_ended: 0,
            generator_cpu_ns: 2_000_000_000,
            others_cpu_ns: 0,
        }
    }

    #[test]
    fn cpu_time_is_divided_by_requests_or_by_mebibytes() {
        assert_eq!(run(Unit::Request).cpu_us(), 1000.0);
        assert_eq!(run(Unit::Mebibyte).cpu_us(), 250_000.0);
        assert_eq!(run(Unit::Request).throughput(), 500.0);
        assert_eq!(run(Unit::Request).mebibytes(), 2.0);
    }

    #[test]
    fn the_generator_is_the_limit_only_when_the_server_has_time_left() {
        let mut run = run(Unit::Request);
        assert!(run.generator_was_the_limit());
        run.server_cpu_ns = 1_980_000_000;
        assert!(!run.generator_was_the_limit());
        run.server_cpu_ns = 1_000_000_000;
        run.generator_cpu_ns = 1_000_000_000;
        assert!(!run.generator_was_the_limit());
    }

    #[test]
    fn totals_are_read_from_the_line_of_the_script() {
        let line = "totals duration_us=5 requests=6 bytes=7 connect=1 read=2 write=3 status=4 \
                    timeout=5";
        let load = totals(line).unwrap();
        assert_eq!((load.duration_us, load.requests, load.bytes, load.errors()), (5, 6, 7, 15));
        assert_eq!(totals("Requests/sec: 12"), None);
        assert_eq!(totals("totals requests=many"), None);
    }

    #[test]
    fn the_ticks_of_children_are_fields_16_and_17() {
        let stat = "1 (x y) S 4 5 6 7 8 9 10 11 12 13 14 15 160 170 18 19";
        assert_eq!(children_ticks(stat), Some(330));
    }

    #[test]
    fn a_cpu_is_busy_in_all_states_but_idle_and_waiting() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 1000 1000 8 16 32 1000 1000\ncpu10 7 7 7 7\n";
        assert_eq!(busy_ticks(stat, 0), 63);
        assert_eq!(busy_ticks(stat, 1), 0);
    }
}
