//! What TLS costs apart from time on a CPU: memory of an idle connection, calls of a request, and
//! waiting while others shake hands.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flyball_testkit::wait;

use super::peers::{Peer, Server};
use super::{Verdict, X25519, generator, reported};
use crate::bench::beside;
use crate::bench::contestant::Setup;
use crate::bench::failure::Failure;
use crate::bench::files;
use crate::bench::options::Options;
use crate::bench::process;

/// Idle connections that are held.
const IDLE: u64 = 1_000;

/// Most memory of one, in KiB, and the most of nginx's.
const IDLE_KIB: f64 = 4.0;
const OF_NGINX: f64 = 0.5;

/// Requests of which the calls are counted, small and of 10 MiB.
const COUNTED: u32 = 500;
const COUNTED_LARGE: u32 = 8;

/// The most of the 99th percentile without a flood of handshakes that it may be with one, or this
/// many microseconds more.
const FLOODED: f64 = 2.0;
const FLOODED_US: f64 = 2_000.0;

/// Connections of the flood, and of those that are watched.
const FLOOD: &str = "--connections=32";
const WATCHED: [&str; 2] = ["--connections=8", X25519];

/// Time that a server gets to settle.
const SETTLE: Duration = Duration::from_millis(1_500);

/// Longest wait for idle connections.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Measures all servers in turn, and adds what was asked for; lines of text.
pub(super) fn measure(
    servers: &mut [Server],
    setup: &Setup,
    options: &Options,
    verdicts: &mut Vec<Verdict>,
) -> Result<String, Failure> {
    let mut text = String::new();
    let idle = servers.iter().map(|server| idle_kib(server, setup).map(|kib| (server.name(), kib)));
    let idle = idle.collect::<Result<Vec<_>, _>>()?;
    let _ = writeln!(text, "an idle connection, KiB of memory that belongs to no file");
    for (name, kib) in &idle {
        let _ = writeln!(text, "  {name:<16} {kib:.2}");
    }
    let ours = idle.iter().filter(|(name, _)| name.starts_with("flyball-"));
    if let Some(kib) = ours.map(|(_, kib)| *kib).min_by(f64::total_cmp) {
        verdicts.push(Verdict::of("KiB of an idle connection", kib, 1.0, IDLE_KIB));
        if let Some((_, theirs)) = idle.iter().find(|(name, _)| name == "nginx") {
            verdicts.push(Verdict::of("idle connection of nginx's", kib, *theirs, OF_NGINX));
        }
    }
    let _ = writeln!(text, "calls of a kept request of 1 KB, and of 10 MiB");
    for server in servers.iter() {
        for (path, count) in [(files::SMALL, COUNTED), (files::LARGE, COUNTED_LARGE)] {
            if server.peer.takes_part(path) {
                let calls = calls(server, setup, path, count);
                let _ = writeln!(text, "  {:<16} {calls}", server.name());
            }
        }
    }
    let _ = writeln!(text, "p99 of kept connections, us: alone, and beside handshakes without end");
    for server in servers.iter() {
        let [alone, flooded] = flood(server, setup, options.seconds)?;
        let _ = writeln!(text, "  {:<16} {alone:.0}, {flooded:.0}", server.name());
        if matches!(server.peer, Peer::Flyball(_)) {
            let most = (alone * FLOODED).max(alone + FLOODED_US);
            let what = format!("p99 of {} in a flood", server.name());
            verdicts.push(Verdict::of(&what, flooded, most, 1.0));
        }
    }
    Ok(text)
}

/// KiB for each of many connections that have had an answer and wait.
fn idle_kib(server: &Server, setup: &Setup) -> Result<f64, Failure> {
    let mut few = generator(setup, server.address, files::SMALL)?;
    reported(few.args(["--connections=4", "--requests=40", "--duration=10s"]))?;
    wait::dawdle(SETTLE);
    let rest = server.running.memory();
    let mut many = generator(setup, server.address, files::SMALL)?;
    let rate = format!("--rate={IDLE}");
    many.args([&rate, "--duration=1s", "--requests-per-connection=2", "--think=90s"]);
    let held = Held::start(&mut many)?;
    let port = server.address.port();
    let all = wait::until(IDLE_MAX, || (established(port) >= IDLE).then_some(()));
    if all.is_none() {
        return Err(Failure::Broken(format!("{} does not hold {IDLE} connections", server.name())));
    }
    wait::dawdle(SETTLE);
    let connected = server.running.memory();
    drop(held);
    Ok(connected.saturating_sub(rest) as f64 / 1024.0 / IDLE as f64)
}

/// Connections of this machine that a server's port has (proc_net_tcp: the state 01).
fn established(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let own = format!(":{port:04X}");
    let is_of = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&own));
        local && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_of).count() as u64
}

/// The calls of a server for each of so many requests, by name; or why they are not counted.
fn calls(server: &Server, setup: &Setup, path: &str, count: u32) -> String {
    let ask = |requests: u32| {
        let mut load = generator(setup, server.address, path).map_err(|why| why.to_string())?;
        load.args(["--connections=1", "--duration=60s", X25519]);
        load.arg(format!("--requests={requests}"));
        reported(&mut load).map(drop).map_err(|why| why.to_string())
    };
    // The first answers open what stays open.
    let counted = ask(4).and_then(|()| {
        let log = setup.scratch.join("calls");
        beside::traced(&server.running, &log, || ask(count))
    });
    match counted {
        Err(why) => why,
        Ok(calls) => {
            let each = calls.iter().map(|(name, calls)| (name, calls / f64::from(count)));
            // The rest is of the connection, and of the clock.
            let often = each.filter(|(_, calls)| *calls >= 0.05);
            let words = often.map(|(name, calls)| format!("{name} {calls:.2}"));
            format!("{path}: {}", words.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The 99th percentile in microseconds of kept connections alone, and beside a flood.
fn flood(server: &Server, setup: &Setup, seconds: u32) -> Result<[f64; 2], Failure> {
    let duration = format!("--duration={seconds}s");
    let watched = || {
        let mut watched = generator(setup, server.address, files::SMALL)?;
        let report = reported(watched.arg(&duration).args(WATCHED))?;
        Ok(report["latency_actual_us"]["p99"].as_f64().unwrap_or(0.0))
    };
    let alone: Result<f64, Failure> = watched();
    let mut flood = generator(setup, server.address, files::SMALL)?;
    flood.args([FLOOD, "--requests-per-connection=1", "--duration=10m", X25519]);
    let flooding = Held::start(&mut flood)?;
    // It must not keep the client from its CPU that watches.
    flooding.be_nice();
    let flooded = watched();
    drop(flooding);
    Ok([alone?, flooded?])
}

/// A generator that runs until it is dropped.
struct Held(Child);

impl Held {
    fn start(command: &mut Command) -> Result<Held, Failure> {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Held).map_err(Failure::io(format!("starting {command:?}")))
    }

    fn be_nice(&self) {
        let mut renice = Command::new("renice");
        renice.args(["-n", "10", "-p", &self.0.id().to_string()]);
        // Where there is no such program the figure is worse than it is.
        let _ = renice.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Nothing of its report is of use.
        process::signal("KILL", &self.0.id().to_string());
        let _ = self.0.wait();
    }
}
